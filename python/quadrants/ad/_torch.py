"""Kernels as operators of torch."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from .. import _runtime
from .._base.dtypes import import_torch
from .._base.errors import QuadrantsTypeError
from .._containers import foreign as _foreign
from .._language.parameters import Parameter
from ._operator import ARRAY_KINDS, Operator

_numbers = itertools.count()


def torch_op(kernel: Any = None, *, outputs: str | list[str] | tuple[str, ...] | Mapping[str, Any]) -> Any:
    """Make a kernel an operator of torch, with autograd and `torch.compile(fullgraph=True)`.

        @qd.ad.torch_op(outputs="y")
        @qd.kernel
        def square(x: qd.types.ndarray(dtype=qd.f32), y: qd.types.ndarray(dtype=qd.f32)):
            for i in x:
                y[i] = x[i] * x[i]

        y = square(x)  # a new tensor; y.sum().backward() fills x.grad

    The operator takes the other parameters of the kernel, tensors and numbers, and allocates the outputs, zeroed. Its gradient is the
    gradient of the kernel (`kernel.grad`); torch refuses second derivatives. Numbers have no gradient.

    Args:
        kernel: a kernel whose parameters are arrays and scalars.
        outputs: the parameters that it returns: a name, several names, or a dictionary. A value of the dictionary is the name of the
            parameter with the shape and type of the output, or a function of the inputs that returns an empty tensor of this shape and
            type.
            Otherwise outputs have the shape and type of the first array.
    Returns:
        A function of the remaining parameters that returns a tensor, or a tuple of them.
    Raises:
        QuadrantsTypeError: there is no such parameter, or torch has no corresponding type.
    """
    return _TorchOperator.decorate("torch_op", kernel, outputs)


class _TorchOperator(Operator):
    def allocate(self, inputs: tuple[Any, ...]) -> list[Any]:
        """Allocates the outputs."""
        return self.list_outputs(inputs, _empty_like)

    def forward(self, *inputs: Any) -> list[Any]:
        """Computes the operator."""
        outputs = [output.zero_() for output in self.allocate(inputs)]
        self.kernel(*self.merge([_foreign.plain_tensor(value) if _foreign.is_tensor(value) else value for value in inputs], outputs))
        for value in (*outputs, *(inputs[position] for position in self.arrays)):  # saved for the gradient
            _runtime.note_saved(value)
        return outputs

    def backward(self, gradients: list[Any], outputs: list[Any], *inputs: Any) -> list[Any]:
        """Returns the gradients of the array inputs; zeros for integer arrays."""
        made = [_with_gradient(value, None) if position in self.arrays else value for position, value in enumerate(inputs)]
        results = [_with_gradient(value, gradient) for value, gradient in zip(outputs, gradients, strict=True)]
        self.kernel.grad(*self.merge(made, results))
        return [made[position].grad if made[position].grad is not None else made[position].new_zeros(()) for position in self.arrays]

    def make(self) -> Callable[..., Any]:
        """Returns the operator, registered with torch."""
        torch = import_torch()
        name = f"quadrants::{self.kernel.__name__}_{next(_numbers)}"
        signature = ", ".join(f"{_schema_type(parameter)} {parameter.name}" for parameter in self.inputs)
        forward = torch.library.custom_op(name, self.forward, mutates_args=(), schema=f"({signature}) -> Tensor[]")
        forward.register_fake(lambda *inputs: self.allocate(inputs))
        backward = torch.library.custom_op(
            f"{name}_backward",
            self.backward,
            mutates_args=(),
            schema=f"(Tensor[] qd_gradients, Tensor[] qd_outputs, {signature}) -> Tensor[]",
        )
        backward.register_fake(lambda gradients, outputs, *inputs: [_like_gradient(inputs[position]) for position in self.arrays])

        def save(ctx: Any, inputs: tuple[Any, ...], output: list[Any]) -> None:
            ctx.save_for_backward(*output, *(inputs[position] for position in self.arrays))
            ctx.numbers = [None if position in self.arrays else value for position, value in enumerate(inputs)]

        def differentiate(ctx: Any, gradients: list[Any]) -> tuple[Any, ...]:
            outputs, arrays = ctx.saved_tensors[: len(self.sources)], iter(ctx.saved_tensors[len(self.sources) :])
            inputs = [next(arrays) if position in self.arrays else value for position, value in enumerate(ctx.numbers)]
            whole = [
                torch.zeros_like(output) if gradient is None else gradient.contiguous()
                for gradient, output in zip(gradients, outputs, strict=True)
            ]
            found = iter(backward(whole, list(outputs), *inputs))
            results = [next(found) if position in self.arrays else None for position in range(len(inputs))]
            return tuple(result if needs else None for result, needs in zip(results, ctx.needs_input_grad, strict=True))

        forward.register_autograd(differentiate, setup_context=save)
        return self.wrap(forward)


def _schema_type(parameter: Parameter) -> str:
    if parameter.kind in ARRAY_KINDS:
        return "Tensor"
    dtype = parameter.dtype
    if dtype is None:
        raise QuadrantsTypeError(f"torch has no type for parameter {parameter.name!r}: arrays and numbers are expected")
    return "bool" if dtype.name == "u1" else "float" if dtype.is_real else "int"


def _with_gradient(value: Any, gradient: Any) -> Any:
    """Returns a packed copy of the numbers with a gradient of its own: a copy of the given one, or zeros."""
    made = _foreign.plain_tensor(value).contiguous()
    if made.is_floating_point():
        made = made.view_as(made).requires_grad_()
        made.grad = import_torch().zeros_like(made) if gradient is None else gradient.clone()
    return made


def _empty_like(value: Any) -> Any:
    torch = import_torch()
    return torch.empty_like(value, memory_format=torch.contiguous_format)


def _like_gradient(value: Any) -> Any:
    return _empty_like(value) if value.is_floating_point() else value.new_empty(())
