"""Kernels as functions without side effects, the form that other libraries differentiate."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from .._base.errors import QuadrantsTypeError
from .._language.kernel import Kernel
from .._language.parameters import EMPTY, bind

ARRAY_KINDS = ("array", "tensor", "view")


class Operator:
    """A kernel as a function of some of its parameters that returns the others."""

    make: Callable[[], Callable[..., Any]]

    @classmethod
    def decorate(cls, name: str, kernel: Any, outputs: Any) -> Any:
        """Implements the decorator `qd.ad.<name>`: returns the function of a kernel or, without one, the decorator."""
        if kernel is None:
            return lambda found: cls.decorate(name, found, outputs)
        if not isinstance(kernel, Kernel):
            raise QuadrantsTypeError(f"qd.ad.{name} takes a kernel, got {type(kernel).__name__}")
        return cls(kernel, outputs).make()

    def __init__(self, kernel: Any, outputs: Any) -> None:
        self.kernel, self.parameters = kernel, list(kernel.parameters)
        names = [parameter.name for parameter in self.parameters]
        given = {outputs: None} if isinstance(outputs, str) else dict(outputs) if isinstance(outputs, Mapping) else dict.fromkeys(outputs)
        for name in given:
            if name not in names or self.parameters[names.index(name)].kind not in ARRAY_KINDS:
                raise QuadrantsTypeError(f"{kernel.__name__} has no array {name!r} to return (parameters: {', '.join(names)})")
        self.is_output = [name in given for name in names]
        self.inputs = [parameter for parameter in self.parameters if parameter.name not in given]
        self.arrays = [position for position, parameter in enumerate(self.inputs) if parameter.kind in ARRAY_KINDS]
        if not self.arrays and any(not callable(source) for source in given.values()):
            raise QuadrantsTypeError(f"{kernel.__name__} has no array that its outputs are like: give a function that allocates them")
        self.sources = [source if source is not None else self.inputs[self.arrays[0]].name for source in given.values()]
        self.order = [list(given).index(name) for name in names if name in given]  # order of the outputs among the parameters

    def merge(self, inputs: Any, outputs: list[Any]) -> list[Any]:
        """Returns the arguments of the kernel."""
        rest, made = iter(inputs), iter(outputs[position] for position in self.order)
        return [next(made) if is_output else next(rest) for is_output in self.is_output]

    def list_outputs(self, inputs: tuple[Any, ...], make_like: Callable[[Any], Any]) -> list[Any]:
        """Returns what the outputs are filled into: the results of the functions given for them, or of `make_like(input)`."""
        known = {parameter.name: value for parameter, value in zip(self.inputs, inputs, strict=True)}
        return [source(*inputs) if callable(source) else make_like(known[source]) for source in self.sources]

    def wrap(self, operator: Any) -> Callable[..., Any]:
        """Returns `operator` with the signature of the kernel without the outputs; a single output is returned directly, not in a tuple."""
        inputs, single = self.inputs, len(self.sources) == 1

        def call(*arguments: Any, **keywords: Any) -> Any:
            if keywords or len(arguments) != len(inputs):
                arguments = bind(inputs, arguments, keywords)
            results = operator(*arguments)
            return results[0] if single else tuple(results)

        functools.update_wrapper(call, self.kernel, updated=())
        del call.__wrapped__  # type: ignore[attr-defined]
        call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(each.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=each.default if each.has_default else EMPTY)
                for each in inputs
            ]
        )
        call.operator = operator  # type: ignore[attr-defined]
        return call
