"""A slice of the random tapes; `random_tapes` runs more of them."""

import os

import pytest
import random_tapes

import quadrants as qd

pytest.importorskip("torch")
ARCHS = [os.environ["QD_ARCH"]] if os.environ.get("QD_ARCH") else ["cpu", "python"]


@pytest.mark.needs("f64")
@pytest.mark.parametrize("arch", ARCHS)
def test_recorded_calls_agree_with_torch_whatever_happens_between_them(arch: str):
    qd.init(arch=getattr(qd, arch), offline_cache=False, log_level="error", default_fp=qd.f64)
    failures, refused = random_tapes.run_programs(40 if arch == "python" else 150, 5000, arch)
    qd.reset()
    assert not failures, "\n".join(failures)
    assert refused == 0
