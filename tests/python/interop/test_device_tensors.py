"""Data methods with torch's tensors on a GPU, also of other streams than the default one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from tests.python.interop.test_device_copies import LAYOUTS


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU that torch computes on")
    monkeypatch.delenv("QD_ARCH", raising=False)
    qd.init(arch=qd.cuda, log_level="error")
    yield torch
    qd.reset()


def test_a_tensor_on_the_gpu_gives_and_takes_elements(torch: Any) -> None:
    stream = torch.cuda.Stream()
    for layout, place in itertools.product(LAYOUTS, (None, stream)):
        x = LAYOUTS[layout](qd.f32)
        for dtype in (torch.float32, torch.float64, torch.int32):
            with torch.cuda.stream(place):
                source = torch.arange(x.to_numpy().size, dtype=dtype, device="cuda").reshape(x.shape + x.element_shape) % 1000
                x.from_torch(source + 1)
                taken = x.to_torch()
                source.zero_()
            assert taken.is_contiguous() and taken.device.type == "cuda" and taken.dtype is torch.float32
            np.testing.assert_array_equal(x.to_numpy(), taken.cpu().numpy())
            np.testing.assert_array_equal(x.to_numpy().ravel(), np.arange(taken.numel()) % 1000 + 1)
        if layout != "with an offset":
            part = x[::2, ::-1]
            np.testing.assert_array_equal(part.to_torch().cpu().numpy(), part.to_numpy())
            part.from_torch(torch.full((), 5.0, device="cuda").expand(part.to_torch().shape))
            assert (part.to_numpy() == 5).all()
