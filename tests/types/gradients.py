"""A program that fits a parameter with gradients and optimizes with torch-like steps, for type checkers."""

from __future__ import annotations

import numpy as np

import quadrants as qd

qd.init(arch=qd.cpu)
stiffness = qd.field(qd.f64, shape=(), needs_grad=True)
loss = qd.field(qd.f64, shape=(), needs_grad=True)
targets = qd.ndarray(qd.f64, 16)


@qd.kernel
def measure(values: qd.types.NDArray[qd.f64, 1]) -> None:
    for i in values:
        loss[None] += (stiffness[None] * i - values[i]) ** 2


def fit(steps: int, rate: float = 1e-4) -> float:
    for _ in range(steps):
        with qd.ad.Tape(loss):
            measure(targets)
        stiffness[None] -= rate * stiffness.grad[None]
    return float(stiffness[None])


targets.from_numpy(np.arange(16.0))
found: float = fit(10)
report: str = "\n".join(str(each) for each in qd.compile_report())
