"""Predicts how the heat example scales to many GPUs; docs/design/scaling.md explains the model and shows what this prints.

    python bench/scaling_model.py

A step of a part with local extents n takes

    max(host, rim + max(interior, messages))

where the kernels move 8 bytes for each cell at the measured rate, the messages of one direction follow each other on their link (bytes over
the link's rate, plus a latency for each), and the host spends a measured time for each face it sends and each kernel it launches.
"""

import math
from typing import NamedTuple

BYTES = 8  # that a cell of f32 moves: read once, written once


class Machine(NamedTuple):
    """Rates in bytes per second, times in seconds."""

    name: str
    kernel_rate: float  # measured: 512^3 cells of f64 in 0.826 ms on an H100 (bench/results/nvidia_h100_kernels.json)
    link_rate: float  # in a node: half of NVLink's 900 GB/s, both directions
    net_rate: float  # between nodes: one adapter of 400 Gb/s for each GPU
    link_latency: float
    net_latency: float
    face: float  # host time for a face, through torch's batch_isend_irecv: half of the measured exchange of two faces on an H100
    launch: float  # host time for a launch
    in_node: int  # GPUs of a node


H100 = Machine("H100", 2.6e12, 450e9, 50e9, 10e-6, 20e-6, 108e-6, 2e-6, 8)


def choose_parts(count: int, shape: tuple[int, int, int], axes: int) -> tuple[int, ...]:
    """Returns the parts along each axis with the smallest faces, as `qd.distributed.Decomposition` does."""
    divisors = [d for d in range(1, count + 1) if count % d == 0]
    found = [(a, b, c) for a in divisors for b in divisors for c in divisors if a * b * c == count and (axes > 1 or b == c == 1)]
    found = [parts for parts in found if all(p <= n for p, n in zip(parts, shape, strict=True))]
    faces = lambda parts: sum(math.prod(shape) / n * p for n, p in zip(shape, parts, strict=True) if p > 1)  # noqa: E731
    return min(found, key=lambda parts: (faces(parts), sum(p > 1 for p in parts)))


def predict(machine: Machine, local: tuple[float, ...], parts: tuple[int, ...]) -> float:
    """Returns the seconds of a step of a part inside the box."""
    cells = math.prod(local)
    faces = [(axis, cells / local[axis]) for axis in range(3) if parts[axis] > 1]
    # Ranks are numbered along the last axis first: as many of the last axes as fit have their neighbors in the node.
    messages, inside = 0.0, 1
    for axis, area in sorted(faces, reverse=True):
        inside *= parts[axis]
        rate, latency = (machine.link_rate, machine.link_latency) if inside <= machine.in_node else (machine.net_rate, machine.net_latency)
        messages += 2 * (area * 4 / rate + latency)
    rim = min(cells, sum(2 * area for _, area in faces))
    kernels = 1 + 2 * len(faces)
    packs = 4 * sum(axis > 0 for axis, _ in faces)
    device = rim * BYTES / machine.kernel_rate + max((cells - rim) * BYTES / machine.kernel_rate, messages)
    host = 2 * len(faces) * machine.face + (kernels + packs) * machine.launch
    return max(device, host)


def main() -> None:
    counts = [1, 8, 64, 512, 4096]
    print("| GPUs | weak, slabs | weak, blocks | strong, 2048^3, blocks | the same, 20 us of host time for a face |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    fast = H100._replace(face=20e-6)
    for count in counts:
        rows = []
        one = predict(H100, (512, 512, 512), (1, 1, 1))
        rows.append(one / predict(H100, (512, 512, 512), (count, 1, 1)))
        cube = choose_parts(count, (512 * count,) * 3, 3)
        rows.append(one / predict(H100, (512, 512, 512), cube))
        whole = predict(H100, (2048, 2048, 2048), (1, 1, 1))
        for machine in (H100, fast):
            parts = choose_parts(count, (2048,) * 3, 3)
            local = tuple(2048 / p for p in parts)
            rows.append(whole / count / predict(machine, local, parts))
        print(f"| {count} | {rows[0]:.2f} | {rows[1]:.2f} | {rows[2]:.2f} | {rows[3]:.2f} |")


if __name__ == "__main__":
    main()
