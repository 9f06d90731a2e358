"""Runs one simulation for many parameters in several processes, with joblib, Dask or Ray: how far a ball flies, by its angle and its drag.

    python examples/sweep.py --engine joblib

Kernels reach other processes by the name of their module: it must be importable there. Each process starts the runtime once.
"""

import argparse
import functools
from collections.abc import Sequence

import numpy as np

import quadrants as qd

DT = 1e-3


@qd.kernel
def throw(angles: qd.types.NDArray[qd.f64, 1], drag: qd.f64, ranges: qd.types.NDArray[qd.f64, 1]):
    """Distances that balls of speed 20 m/s fly, for all angles (degrees)."""
    for i in angles:
        angle = angles[i] * np.pi / 180.0
        place, velocity = qd.Vector([0.0, 0.0], qd.f64), 20.0 * qd.Vector([qd.cos(angle), qd.sin(angle)], qd.f64)
        while place[1] >= 0.0:
            velocity -= DT * (drag * velocity.norm() * velocity + qd.Vector([0.0, 9.81], qd.f64))
            place += DT * velocity
        ranges[i] = place[0]


@functools.cache
def start() -> None:
    """Starts the runtime, once in each process; one thread, because each processor has a process."""
    qd.init(arch=qd.cpu, default_fp=qd.f64, cpu_max_num_threads=1, log_level="error")


def find_best_angle(drag: float, angles: Sequence[float]) -> tuple[float, float]:
    """Returns the drag and the angle with the longest flight."""
    start()
    ranges = np.zeros(len(angles))
    throw(np.array(angles, np.float64), drag, ranges)
    return drag, float(angles[int(ranges.argmax())])


def run(engine: str, drags: Sequence[float], angles: Sequence[float], processes: int = 2) -> list[tuple[float, float]]:
    """Returns what `find_best_angle` returns for each drag, computed by the processes of an engine."""
    if engine == "joblib":
        import joblib

        return list(joblib.Parallel(n_jobs=processes)(joblib.delayed(find_best_angle)(drag, angles) for drag in drags))
    if engine == "dask":
        from dask.distributed import Client

        with Client(n_workers=processes, threads_per_worker=1, dashboard_address=None) as client:
            return list(client.gather(client.map(find_best_angle, drags, [angles] * len(drags))))
    if engine == "ray":
        import ray

        ray.init(num_cpus=processes, include_dashboard=False)
        try:
            task = ray.remote(find_best_angle)
            return list(ray.get([task.remote(drag, angles) for drag in drags]))
        finally:
            ray.shutdown()
    return [find_best_angle(drag, angles) for drag in drags]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=["none", "joblib", "dask", "ray"], default="none")
    given = parser.parse_args()
    # The processes import the module by this name; the functions of a program's main file would be sent as copies of their code.
    import sweep

    for drag, angle in sweep.run(given.engine, np.linspace(0.0, 0.1, 6).tolist(), np.arange(20.0, 60.0).tolist()):
        print(f"drag {drag:.2f}/m: {angle:.0f} degrees")


if __name__ == "__main__":
    main()
