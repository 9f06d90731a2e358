"""The frontend's IR as text, for tests that look at what is emitted."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import quadrants as qd
from quadrants._base import options as _options
from quadrants._base.source import get_source
from quadrants._session import prepare as _prepare


@pytest.fixture
def emit() -> Iterator[Callable[..., str]]:
    """Gives the verified IR of a kernel for arguments. The runtime is started; kernels are not run."""
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")

    def build(kernel: Any, *arguments: Any) -> str:
        from quadrants import _compiler

        prepared = _prepare.prepare(kernel, arguments)
        options = _options.plain(_options.current or {})
        return _compiler.frontend_ir(get_source(kernel.__wrapped__), kernel.parameters, prepared, kernel.results, options)[0]

    yield build
    qd.reset()
