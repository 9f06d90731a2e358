"""Forward mode: derivatives along one direction, computed together with the primals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import _runtime
from .._base import options as _options
from .._base.autodiff_mode import AutodiffMode
from .._base.compat import Refused
from .._base.dtypes import to_numpy_dtype
from .._base.errors import QuadrantsRuntimeError
from .._containers.container import Shadows
from .._containers.struct_field import StructField
from .._containers.unfinished_trees import check_all_placed
from ._recorded import call


class FwdMode:
    """Kernels in the block compute tangents together with the primals: `loss.dual` becomes the Jacobian of `loss` times the seed.

        with qd.ad.FwdMode(loss=y, param=x, seed=[0.0, 1.0]):
            compute()
        y.dual  # the derivative of y with respect to x[1]

    A gradient that is computed in the block also has tangents: `x.grad.dual` is then the Hessian times the seed (containers need
    `needs_grad` and `needs_dual`).

    Args:
        loss: a container with a tangent, or several.
        param: the container to differentiate with respect to; or several, as a list, or as a dictionary with a seed for each.
        seed: the direction: one number for each component of `param` in row-major order, as a list or an array of any shape; a list of
            these for a list of containers. Default: 1 if `param` is a single number.
        clear_gradients: whether all tangents are set to zero at the entry.
    Raises:
        AssertionError: the loss is no container, the seed has another length, or the object is entered twice.
        QuadrantsRuntimeError: there is no memory for tangents, or no seed; or a tape or another forward mode is active.
    """

    def __init__(self, loss: Any, param: Any, seed: Any = None, clear_gradients: bool = True) -> None:
        self.losses = list(loss) if isinstance(loss, (list, tuple)) else [loss]
        for container in self.losses:
            assert isinstance(container, (Shadows, StructField)), "loss must be a container, or a list of them"
        if isinstance(param, Mapping):
            self.seeds = list(param.items())
        elif isinstance(param, (list, tuple)):
            assert seed is None or len(seed) == len(param), "there must be a seed for each of several parameters"
            self.seeds = list(zip(param, [None] * len(param) if seed is None else seed, strict=True))
        else:
            self.seeds = [(param, seed)]
        for container, _ in self.seeds:
            assert isinstance(container, Shadows), "param must be a container"
        self.clear_gradients = clear_gradients
        self.entered = False
        self._context = _runtime.TapeContext(self, records_memory=False)

    def __enter__(self) -> FwdMode:
        assert not self.entered, "Forward mode manager can be entered only once."
        _options.check_runtime()
        check_all_placed()
        for container in (*self.losses, *(container for container, _ in self.seeds)):
            if not container.has_dual():
                raise QuadrantsRuntimeError("Tangents are not allocated: please use needs_dual=True for the loss and for the parameters")
        seeds = [(container, _as_seed(container, seed)) for container, seed in self.seeds]
        if _runtime.current_tape() is not None:
            raise QuadrantsRuntimeError(
                "forward mode inside of a tape, or of another forward mode, is not possible: calls would have no part in the outer one. "
                "For second derivatives enter the tape inside of the forward mode"
            )
        self.entered = True
        if self.clear_gradients:
            _runtime.clear_shadows(2)
        for container, seed in seeds:
            container.dual.from_numpy(seed)
        self._context.enter()
        return self

    def __exit__(self, *_: Any) -> None:
        self._context.leave()
        self.clear_seed()

    def clear_seed(self) -> None:
        """Set the tangents of the parameters to zero, as at the end of the block."""
        for container, _seed in self.seeds:
            container.dual.fill(0)

    insert = Refused("the kernels that are called in the block take part by themselves")
    recover_kernels = Refused("the kernels that are called in the block keep their own code")

    def _on_call(self, kernel: Any, arguments: tuple[Any, ...], keywords: dict[str, Any] | None) -> Any:
        return call(kernel if kernel.mode == AutodiffMode.FORWARD else kernel._tangent, arguments, keywords)


def _as_seed(container: Any, seed: Any) -> np.ndarray:
    shape = tuple(container.shape) + tuple(container.element_shape)
    count = int(np.prod(shape))
    if seed is None:
        if count != 1:
            raise QuadrantsRuntimeError("`seed` is not set for non 0-D field, please specify: a list of one number for each component")
        seed = [1.0]
    flat = np.ravel(np.asarray(seed, np.float64))
    assert flat.size == count, f"the seed has {flat.size} numbers, the parameter {count} components"
    return flat.reshape(shape).astype(to_numpy_dtype(container.dtype))
