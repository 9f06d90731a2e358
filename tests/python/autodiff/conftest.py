"""Derivatives are the same on every backend: compiled, and by the oracle."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import quadrants as qd


@pytest.fixture(params=[os.environ["QD_ARCH"]] if os.environ.get("QD_ARCH") else ["cpu", "python"])
def on_every_backend(request: pytest.FixtureRequest) -> Iterator[Callable[..., None]]:
    """Starts the runtime on one backend, with f64 for `float`; call it to start again with other options."""

    def init(**options: Any) -> None:
        qd.init(arch=getattr(qd, request.param), **{"offline_cache": False, "log_level": "error", "default_fp": qd.f64, **options})

    init()
    yield init
    qd.reset()
