"""Programs beside the default one: runtimes of their own, on another processor or with other options."""

from __future__ import annotations

from typing import Any

from .. import _runtime
from .._base import device as _device
from .._base import options as _options
from .._containers import unfinished_trees
from . import init as _init


class Program:
    """A runtime beside the one that `qd.init` starts: the CPU next to a GPU, a second GPU, other options.

    Inside `with program:` it is the current program of every thread: new containers, launches, `qd.init`, `qd.reset`, `qd.sync` and
    `qd.cfg` belong to it. Kernels retain the code that they have in each program. Python reads and writes the containers of all programs;
    kernels accept containers of their own program and, on a GPU, containers in the processor's memory. `copy_from` copies elements from one
    program to another.

    A program ends with `close()`, or when the last reference to it is dropped.

    Args:
        arch: processor, its name, or a list from which the first available one is taken; default: the CPU.
        **options: as for `qd.init`.

    Raises what `qd.init` raises.
    """

    def __init__(self, arch: Any = None, **options: Any):
        self._handle: Any = _runtime.ProgramHandle()
        self._waiting: tuple[Any, Any] = (None, None)  # options and trees while another program is current
        self._before: list[Program] = []
        with self:
            _init.init(arch, **options)

    def __enter__(self) -> Program:
        self._before.append(_switch(self))
        return self

    def __exit__(self, *_: Any) -> None:
        _switch(self._before.pop())

    def close(self) -> None:
        """End the program: its containers lose their memory (views keep theirs). `with` and `qd.init` start it again."""
        with self:
            _init.reset()


class _OwnProgram(Program):
    """The default program of the process."""

    def __init__(self) -> None:
        self._handle = None


_current: Program = _OwnProgram()


def _switch(following: Program) -> Program:
    global _current
    before, _current = _current, following
    if following is not before:
        options, trees = following._waiting
        before._waiting = (_options.current, unfinished_trees.exchange_trees(trees))
        _options.current = options
        _runtime.switch_program(following._handle)
        _device.update()
    return before
