"""The loss of a tape: a scalar container with a gradient."""

from __future__ import annotations

from typing import Any

from .._base.errors import QuadrantsRuntimeError
from .._containers import foreign as _foreign
from .._containers.field import ScalarField
from .._containers.ndarray import ScalarNdarray


class Loss:
    """Checked access to a loss: a 0-d field, an ndarray of one element, a tensor of these, or a torch tensor of one element.

    Raises `QuadrantsRuntimeError` for anything else, and if there is no gradient.
    """

    __slots__ = ("container", "index")

    def __init__(self, given: Any) -> None:
        container = getattr(given, "_impl", given)
        self.container, self.index = container, None
        if isinstance(container, ScalarField):
            what, is_scalar = "a 0-D field, i.e. scalar", not container.shape
            remedy, has_gradient = "use qd.field(..., needs_grad=True) for all fields", container.has_grad()
        elif isinstance(container, ScalarNdarray):
            what, is_scalar = "an ndarray with only one element", all(extent == 1 for extent in container.shape)
            remedy, has_gradient = "set needs_grad=True for all ndarrays", container.has_grad()
            self.index = (0,) * len(container.shape) or None
        elif _foreign.is_tensor(container):
            what, is_scalar = "a tensor only contains one element", _foreign.plain_tensor(container).numel() == 1
            remedy, has_gradient = "set requires_grad=True for all tensors", container.requires_grad
        else:
            raise QuadrantsRuntimeError(f"The loss of `Tape` must be a 0-D field, i.e. scalar, got {type(given).__name__}")
        if not is_scalar:
            raise QuadrantsRuntimeError(f"The loss of `Tape` must be {what}")
        if not has_gradient:
            raise QuadrantsRuntimeError(f"Gradients of loss are not allocated, please {remedy} that take part")

    @property
    def value(self) -> float:
        """Returns the value of the loss."""
        return float(self.container[self.index]) if hasattr(self.container, "has_grad") else float(_foreign.plain_tensor(self.container))

    def clear(self) -> None:
        """Sets the loss to zero."""
        if hasattr(self.container, "has_grad"):
            self.container[self.index] = 0
        else:
            _foreign.plain_tensor(self.container).zero_()

    def seed(self) -> None:
        """Sets the gradient of the loss to one."""
        if hasattr(self.container, "has_grad"):
            self.container.grad[self.index] = 1
        elif (gradient := _foreign.grad_of(self.container)) is None:
            self.container.grad = _foreign.plain_tensor(self.container).new_ones(self.container.shape)
        else:
            _foreign.plain_tensor(gradient).fill_(1)
