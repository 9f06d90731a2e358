"""Kernels as operators of torch."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping
from typing import Any

from .. import _runtime
from .._base.dtypes import import_torch
from .._base.errors import QuadrantsRuntimeError, QuadrantsTypeError
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
    gradient of the kernel (`kernel.grad`). A gradient of numbers is refused. `torch.func.grad`, `vjp` and `jacrev` work; `torch.vmap`
    launches the kernel once for each row.

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
        QuadrantsRuntimeError: when it is differentiated twice, or in forward mode.
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
            given = [each for each in gradients if each is not None]
            if not torch.compiler.is_compiling() and any(map(torch._C._functorch.is_legacy_batchedtensor, given)):
                how = "gradients in batches (is_grads_batched, vectorize=True) are not available. Use torch.func.jacrev"
                raise QuadrantsRuntimeError(f"{self.kernel.__name__}: {how}")
            saved = ctx.saved_tensors  # checkpoints of torch allow one access
            outputs, arrays = saved[: len(self.sources)], iter(saved[len(self.sources) :])
            inputs = [next(arrays) if position in self.arrays else value for position, value in enumerate(ctx.numbers)]
            whole = [
                torch.zeros_like(output) if gradient is None else gradient.contiguous()
                for gradient, output in zip(gradients, outputs, strict=True)
            ]
            found = iter(choose_backward(*whole, *outputs, *inputs))
            results = [next(found) if position in self.arrays else None for position in range(len(inputs))]
            return tuple(result if needs else None for result, needs in zip(results, ctx.needs_input_grad, strict=True))

        def call_backward(*values: Any) -> list[Any]:
            count = len(self.sources)
            return backward(list(values[:count]), list(values[count : 2 * count]), *values[2 * count :])

        forward.register_autograd(differentiate, setup_context=save)
        backward.register_autograd(self.refuse_second, setup_context=_save_nothing)
        for operator in (forward, backward):
            operator.register_vmap(functools.partial(_map_rows, operator))
        choose_backward = self.transform(call_backward, _save_nothing, self.refuse_second)
        transformed = self.transform(forward, save, differentiate)

        def checked(*inputs: Any) -> Any:
            for parameter, value in zip(self.inputs, inputs, strict=True):
                self.check(torch, parameter, value)
            return transformed(*inputs)

        call = self.wrap(checked)
        call.operator = forward  # type: ignore[attr-defined]
        return call

    def check(self, torch: Any, parameter: Parameter, value: Any) -> None:
        """Raises if torch would refuse an input without its name."""
        is_tensor = isinstance(value, torch.Tensor)
        if parameter.kind in ARRAY_KINDS:
            if is_tensor and value.layout is torch.strided:
                return
            wrong = f"must be a dense tensor of torch, got {f'one of layout {value.layout}' if is_tensor else type(value).__name__}"
        elif not is_tensor or torch.compiler.is_compiling():
            return
        elif torch._C._functorch.is_batchedtensor(value):
            wrong = "is a number, over which vmap cannot map: make it an array without axes"
        elif torch.is_grad_enabled() and (value.requires_grad or torch._C._functorch.is_gradtrackingtensor(value)):
            wrong = "is a number, which has no gradient: pass it detached, or make it an array without axes"
        else:
            return
        raise QuadrantsTypeError(f"{self.kernel.__name__}: {parameter.name} {wrong}")

    def transform(self, operator: Any, save: Callable[..., None], differentiate: Callable[..., Any]) -> Callable[..., Any]:
        """Returns `operator` with what `torch.func` and `torch.vmap` need, which they do not find in operators."""
        torch = import_torch()

        class Transformed(torch.autograd.Function):  # type: ignore[misc]
            generate_vmap_rule = True

            @staticmethod
            def forward(*inputs: Any) -> tuple[Any, ...]:
                return tuple(operator(*inputs))

            setup_context = staticmethod(save)

            @staticmethod
            def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
                return differentiate(ctx, gradients)

            jvp = staticmethod(self.refuse_forward)

        def choose(*inputs: Any) -> Any:
            if torch.compiler.is_compiling() or not _has_transform(torch):
                return operator(*inputs)
            return Transformed.apply(*inputs)

        return choose

    def refuse_second(self, *_: Any) -> Any:
        """Raises what a derivative of the gradient is answered with."""
        raise QuadrantsRuntimeError(
            f"{self.kernel.__name__}: second derivatives are not available. Write the gradient as a kernel, and make it an operator, too"
        )

    def refuse_forward(self, *_: Any) -> Any:
        """Raises what forward mode is answered with."""
        raise QuadrantsRuntimeError(
            f"{self.kernel.__name__}: operators have no forward mode (jvp) in torch. Use reverse mode (torch.func.vjp, jacrev, backward), "
            "or qd.ad.FwdMode on fields"
        )


def _save_nothing(ctx: Any, inputs: Any, output: Any) -> None:
    """Saves nothing, for a derivative that is refused."""


def _has_transform(torch: Any) -> bool:
    """Whether a transform of `torch.func`, or forward mode, is active."""
    return torch._C._functorch.peek_interpreter_stack() is not None or torch.autograd.forward_ad._current_level >= 0


def _map_rows(operator: Any, info: Any, dims: Any, *inputs: Any) -> tuple[list[Any], list[int]]:
    """Calls an operator for each index of the axis that `torch.vmap` maps over, and stacks the results."""

    def take(value: Any, dim: Any, index: int) -> Any:
        if isinstance(value, (list, tuple)):
            return [take(part, own, index) for part, own in zip(value, dim, strict=True)]
        return value if dim is None else value.select(dim, index)

    if not info.batch_size:
        return _map_no_rows(operator, dims, inputs)
    rows = [operator(*(take(value, dim, k) for value, dim in zip(inputs, dims, strict=True))) for k in range(info.batch_size)]
    stacked = [import_torch().stack(parts) for parts in zip(*rows, strict=True)]
    return stacked, [0] * len(stacked)


def _map_no_rows(operator: Any, dims: Any, inputs: Any) -> tuple[list[Any], list[int]]:
    """Returns empty results, whose shapes come from tensors without memory."""

    def imagine(value: Any, dim: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return list(map(imagine, value, dim))
        if dim is None:
            return value.to("meta") if _foreign.is_tensor(value) else value
        return value.new_empty(value.shape[:dim] + value.shape[dim + 1 :], device="meta")

    flat = itertools.chain.from_iterable(each if isinstance(each, list) else [each] for each in inputs)
    device = next(each.device for each in flat if _foreign.is_tensor(each))
    made = [part.new_empty((0, *part.shape), device=device) for part in operator(*map(imagine, inputs, dims))]
    return made, [0] * len(made)


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
