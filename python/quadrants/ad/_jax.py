"""Kernels as functions of JAX, on the CPU, through its foreign-function interface."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .._base.dtypes import to_numpy_dtype
from .._base.errors import QuadrantsTypeError
from .._containers.ndarray import ndarray
from ._operator import ARRAY_KINDS, Operator

_numbers = itertools.count()


def jax_op(kernel: Any = None, *, outputs: str | list[str] | tuple[str, ...] | Mapping[str, Any]) -> Any:
    """Make a kernel a function of JAX on the CPU, for `jax.jit`, `jax.grad` and `jax.vmap`.

        @qd.ad.jax_op(outputs="y")
        @qd.kernel
        def square(x: qd.types.ndarray(dtype=qd.f32), y: qd.types.ndarray(dtype=qd.f32)):
            for i in x:
                y[i] = x[i] * x[i]

        jax.grad(lambda x: square(x).sum())(jnp.ones(3))

    The function takes the other parameters of the kernel, arrays and numbers, and returns new arrays, which are zero when the kernel
    starts.
    XLA calls the kernel when it needs the results. The gradient is the gradient of the kernel (`kernel.grad`); it has no second derivative.
    A gradient of numbers is refused.

    Args:
        kernel: a kernel whose parameters are arrays and scalars. Arrays must have the types that the kernel declares: f64 needs
            `jax_enable_x64`.
        outputs: the parameters that it returns: a name, several names, or a dictionary. A value of the dictionary is the name of the
            parameter with the shape and type of the output, or a function of the inputs that returns a `jax.ShapeDtypeStruct`. Otherwise
            outputs have the shape and type of the first array.
    Returns:
        A function of the remaining parameters that returns an array, or a tuple of them.
    Raises:
        QuadrantsTypeError: there is no such parameter, or JAX is not installed.
    """
    return _JaxOperator.decorate("jax_op", kernel, outputs)


class _JaxOperator(Operator):
    """`forward` and `backward` read and fill NumPy arrays on the memory of XLA."""

    def forward(self, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
        """Computes the function."""
        for output in outputs:
            output[...] = 0
        self.kernel(*self.merge(self.unpack(inputs), outputs))

    def backward(self, given: list[np.ndarray], results: list[np.ndarray]) -> None:
        """Computes the adjoints of the array inputs from the adjoints of the outputs, the outputs and the inputs."""
        count = len(self.sources)
        adjoints, values, inputs = given[:count], given[count : 2 * count], self.unpack(given[2 * count :])
        arrays = [_container(value) if position in self.arrays else value for position, value in enumerate(inputs)]
        made = [_container(value, adjoint) for value, adjoint in zip(values, adjoints, strict=True)]
        self.kernel.grad(*self.merge(arrays, made))
        for position, result in zip(self.arrays, results, strict=True):
            result[...] = arrays[position].grad.to_numpy() if arrays[position].has_grad() else 0

    def unpack(self, inputs: list[np.ndarray]) -> list[Any]:
        """Converts numbers, which XLA passes as arrays without axes."""
        return [value if position in self.arrays else value.item() for position, value in enumerate(inputs)]

    def make(self) -> Callable[..., Any]:
        """Returns the function, registered with XLA."""
        try:
            jax = importlib.import_module("jax")
        except ImportError as error:
            raise QuadrantsTypeError("qd.ad.jax_op needs JAX: pip install 'quadrants[jax]'") from error
        handlers = importlib.import_module("._xla", __package__)
        name = f"quadrants_{self.kernel.__name__}_{next(_numbers)}"
        handlers.register(jax, name, self.forward)
        handlers.register(jax, f"{name}_backward", self.backward)

        def call(*inputs: Any) -> Any:
            return tuple(jax.ffi.ffi_call(name, self.describe(jax, inputs), vmap_method="sequential")(*inputs))

        def keep(*given: Any) -> Any:
            for parameter, each in zip(self.inputs, given, strict=True):
                if parameter.kind not in ARRAY_KINDS and each.perturbed:
                    what = f"{self.kernel.__name__}: {parameter.name} is a number, which has no gradient"
                    raise QuadrantsTypeError(f"{what}: pass it through jax.lax.stop_gradient, or make it an array without axes")
            inputs = tuple(each.value for each in given)
            results = call(*inputs)
            return results, (results, inputs)

        def differentiate(saved: Any, adjoints: Any) -> Any:
            results, inputs = saved
            shapes = [jax.ShapeDtypeStruct(inputs[position].shape, inputs[position].dtype) for position in self.arrays]
            found = jax.ffi.ffi_call(f"{name}_backward", shapes, vmap_method="sequential")(
                *(_instantiate(jax, part, result) for part, result in zip(adjoints, results, strict=True)), *results, *inputs
            )
            known = dict(zip(self.arrays, found, strict=True))
            return tuple(_adjoint(jax, value, known.get(position)) for position, value in enumerate(inputs))

        function = jax.custom_vjp(call)
        function.defvjp(keep, differentiate, symbolic_zeros=True)
        return self.wrap(lambda *values: function(*(self.convert(jax, position, value) for position, value in enumerate(values))))

    def convert(self, jax: Any, position: int, value: Any) -> Any:
        """Returns an array of the type that the kernel declares."""
        dtype = self.inputs[position].dtype
        return jax.numpy.asarray(value, None if dtype is None else to_numpy_dtype(dtype))

    def describe(self, jax: Any, inputs: tuple[Any, ...]) -> list[Any]:
        """Returns shapes and types of the outputs."""
        return self.list_outputs(inputs, lambda like: jax.ShapeDtypeStruct(like.shape, like.dtype))


def _container(values: np.ndarray, adjoint: np.ndarray | None = None) -> Any:
    """Returns an ndarray with these elements and, for real ones, with adjoints."""
    made = ndarray(values.dtype, values.shape, needs_grad=values.dtype.kind == "f")
    made.from_numpy(values)
    if adjoint is not None and made.has_grad():
        made.grad.from_numpy(adjoint)
    return made


def _instantiate(jax: Any, adjoint: Any, result: Any) -> Any:
    """Returns the adjoint of a result as an array."""
    is_zero = isinstance(adjoint, jax.custom_derivatives.SymbolicZero)
    return jax.numpy.zeros_like(result) if is_zero else jax.numpy.asarray(adjoint, result.dtype)


def _adjoint(jax: Any, value: Any, found: Any) -> Any:
    if value.dtype.kind == "f":
        return jax.numpy.zeros_like(value) if found is None else found
    return np.zeros(value.shape, jax.dtypes.float0)  # the type that JAX requires for gradients of integers
