"""Finds the stiffness and the damping of a spring from its measured motion, with torch's DistributedDataParallel: each process simulates
its part of the measurements with a kernel, whose gradients torch averages over the processes.

    torchrun --nproc-per-node 2 examples/data_parallel.py [--arch cuda]
"""

import argparse

import numpy as np
import torch

import quadrants as qd

STEPS, DT = 40, 0.05
TRUE = (4.0, 0.3)


@qd.ad.torch_op(outputs={"end": lambda start, spring: torch.empty_like(start)})
@qd.kernel
def swing(start: qd.types.NDArray[qd.f64, 2], spring: qd.types.NDArray[qd.f64, 1], end: qd.types.NDArray[qd.f64, 2]):
    """Position and velocity of each pendulum after some steps."""
    for i in range(start.shape[0]):
        position, velocity = start[i, 0], start[i, 1]
        for _ in range(STEPS):
            velocity -= DT * (spring[0] * position + spring[1] * velocity)
            position += DT * velocity
        end[i, 0] = position
        end[i, 1] = velocity


class Spring(torch.nn.Module):
    """A spring with unknown stiffness and damping."""

    def __init__(self) -> None:
        super().__init__()
        self.spring = torch.nn.Parameter(torch.tensor([3.0, 0.1], dtype=torch.float64))

    def forward(self, start: torch.Tensor) -> torch.Tensor:
        return swing(start, self.spring)


def train(measurements: int, rounds: int, device: str = "cpu") -> list[float]:
    """Returns stiffness and damping after some rounds on a device of torch; each rank has its part of the measurements."""
    world = qd.distributed.get_world()
    start = torch.from_numpy(np.random.default_rng(0).normal(size=(measurements, 2)))
    part = start[world.rank * measurements // world.size : (world.rank + 1) * measurements // world.size].to(device)
    measured = swing(part, torch.tensor(TRUE, dtype=torch.float64, device=device))
    model: torch.nn.Module = Spring().to(device)
    if world.size > 1:
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(rounds):
        optimizer.zero_grad()
        ((model(part) - measured) ** 2).mean().backward()
        optimizer.step()
    return next(model.parameters()).tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measurements", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--arch", default="cpu", choices=["cpu", "cuda"], help="what torch and the kernel compute on")
    given = parser.parse_args()
    world = qd.distributed.init(arch=given.arch, log_level="error")
    stiffness, damping = train(given.measurements, given.rounds, given.arch)
    if world.rank == 0:
        print(f"{world.size} processes: stiffness {stiffness:.3f}, damping {damping:.3f}; {TRUE} are true")


if __name__ == "__main__":
    main()
