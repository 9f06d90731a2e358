"""One kernel over each kind of container: a field, an ndarray, a NumPy array and a torch tensor.

    python bench/containers.py [--rounds 30] [--one-thread] [--same-memory]

Prints the best time of each, and in brackets how it compares with the field. The containers take turns, so that a machine whose speed
drifts favours none; all memory has been written before, since memory that was only ever read costs nothing. torch is left out where it is
not installed. With `--one-thread` the figures are processor time of one thread, which says more on a busy machine. With `--same-memory` all
containers are views of the memory of one field: what differs then is the code, and what differs without is the memory.
"""

import argparse
import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import quadrants as qd


def make_kernels(annotate: Callable[[int], Any]) -> dict[str, tuple[Any, tuple[int, ...]]]:
    """Kernels of two containers each and the shape they run on; `annotate` gives the annotation of a container of so many dimensions."""
    one, two, three = annotate(1), annotate(2), annotate(3)

    @qd.kernel
    def saxpy(x: one, y: one):
        for i in x:
            y[i] = 0.5 * x[i] + y[i]

    @qd.kernel
    def stencil2(x: two, y: two):
        for i, j in qd.ndrange((1, x.shape[0] - 1), (1, x.shape[1] - 1)):
            y[i, j] = 0.2 * (x[i, j] + x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1])

    @qd.kernel
    def stencil3(x: three, y: three):
        for i, j, k in qd.ndrange((1, x.shape[0] - 1), (1, x.shape[1] - 1), (1, x.shape[2] - 1)):
            near = x[i - 1, j, k] + x[i + 1, j, k] + x[i, j - 1, k] + x[i, j + 1, k] + x[i, j, k - 1] + x[i, j, k + 1]
            y[i, j, k] = 0.5 * x[i, j, k] + near / 12.0

    @qd.kernel
    def n_body(position: two, force: two):
        for i in range(position.shape[0]):
            here = qd.Vector([position[i, 0], position[i, 1], position[i, 2]])
            total = qd.Vector([0.0, 0.0, 0.0])
            for k in range(position.shape[0]):
                apart = qd.Vector([position[k, 0], position[k, 1], position[k, 2]]) - here
                near = apart.norm_sqr() + 1e-3
                total += apart / (near * qd.sqrt(near))
            for c in qd.static(range(3)):
                force[i, c] = total[c]

    return {
        "saxpy": (saxpy, (1 << 24,)),
        "saxpy, in cache": (saxpy, (1 << 15,)),
        "stencil 2-D": (stencil2, (4096, 4096)),
        "stencil 3-D": (stencil3, (256, 256, 256)),
        "n-body": (n_body, (4096, 3)),
    }


def make_field(values: np.ndarray) -> Any:
    field = qd.field(qd.f32, shape=values.shape)
    field.from_numpy(values)
    return field


def make_ndarray(values: np.ndarray) -> Any:
    array = qd.ndarray(qd.f32, values.shape)
    array.from_numpy(values)
    return array


def make_tensor(values: np.ndarray) -> Any:
    import torch

    return torch.tensor(values)


Maker = Callable[[Any], Any]


def list_makers(same_memory: bool) -> dict[str, Maker]:
    """What makes each kind of container: of values, or with `same_memory` of a field that it is a view of."""
    makers: dict[str, Maker] = {"field": make_field, "ndarray": make_ndarray, "NumPy": np.array}
    if same_memory:
        makers = {"field": lambda field: field, "ndarray": qd.from_dlpack, "NumPy": lambda field: field.to_numpy(copy=False)}
    if importlib.util.find_spec("torch"):
        makers["torch"] = (lambda field: field.to_torch(copy=False)) if same_memory else make_tensor
    return makers


def measure(
    for_fields: Any, for_arrays: Any, shape: tuple[int, ...], same_memory: bool, rounds: int, clock: Callable[[], float]
) -> dict[str, float]:
    """The best seconds of a call for each kind of container."""
    values = np.random.default_rng(1).random(shape, np.float32)
    x, y = (make_field(values), make_field(values)) if same_memory else (values, values)
    pairs = {name: (make(x), make(y)) for name, make in list_makers(same_memory).items()}
    best = dict.fromkeys(pairs, float("inf"))
    calls = max(1, (1 << 22) // values.size)
    for number in range(rounds + 2):
        for name, (x, y) in pairs.items():
            kernel = for_fields if name == "field" else for_arrays
            before = clock()
            for _ in range(calls):
                kernel(x, y)
            qd.sync()
            if number >= 2:
                best[name] = min(best[name], (clock() - before) / calls)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--one-thread", action="store_true")
    parser.add_argument("--same-memory", action="store_true")
    args = parser.parse_args()
    qd.init(arch=qd.cpu, log_level="error", **({"cpu_max_num_threads": 1} if args.one_thread else {}))
    clock = time.process_time if args.one_thread else time.perf_counter
    fields, arrays = make_kernels(lambda dimensions: qd.template()), make_kernels(lambda dimensions: qd.types.NDArray[qd.f32, dimensions])
    for name, (kernel, shape) in fields.items():
        best = measure(kernel, arrays[name][0], shape, args.same_memory, args.rounds, clock)
        print(f"{name:16s}" + "".join(f"  {kind} {s * 1e3:9.4f} ms ({s / best['field']:.3f})" for kind, s in best.items()), flush=True)


if __name__ == "__main__":
    main()
