"""Compares gradients with finite differences of the loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._containers.snapshots import Memories
from ._loss import Loss
from ._recorded import Cut, HostWrite, Recorded, Replaced

_STEPS = [2.0**-exponent for exponent in range(3, 30)]
_TOLERANCE = 100  # the relative error of a gradient must be smaller than one over this number


def check_gradients(loss: Loss, calls: Sequence[Recorded | Replaced | HostWrite | Cut], before: Memories, containers: list[Any]) -> None:
    """Compares each container's gradient with central differences along a random direction, from `before`; restores all memory.

    Raises `AssertionError` if no step size agrees with the gradient to one part in a hundred.
    """
    after = Memories(with_gradients=True)
    gradients = [container.grad.to_numpy() for container in containers]
    is_good = [_agrees(loss, calls, before, container, gradient) for container, gradient in zip(containers, gradients, strict=True)]
    after.restore()
    if not all(is_good):
        raise AssertionError("Grad check failed: Not all variables pass grad check")


def _agrees(
    loss: Loss, calls: Sequence[Recorded | Replaced | HostWrite | Cut], before: Memories, container: Any, gradient: np.ndarray
) -> bool:
    before.restore()
    start = container.to_numpy()
    direction = np.random.default_rng(0).standard_normal(start.shape)
    expected = float(np.sum(gradient * direction))

    def loss_at(step: float) -> float:
        before.restore()
        container.from_numpy((start + step * direction).astype(start.dtype))
        loss.clear()
        for recorded in calls:
            recorded.again()
        return loss.value

    slopes = ((loss_at(step) - loss_at(-step)) / (2 * step) for step in _STEPS)
    return any(abs(slope - expected) * _TOLERANCE <= abs(expected) for slope in slopes)
