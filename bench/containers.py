"""Runs one kernel over each kind of container: a field, an ndarray, a NumPy array and a torch tensor.

    python bench/containers.py [--rounds 30] [--one-thread] [--same-memory] [--by-hand]

Prints the best time of each, and in brackets its ratio to the field. The containers alternate, so that a machine whose speed drifts
favors none; all memory has been written before, because reading memory that was never written costs nothing. torch is left out if it is
not installed. With `--one-thread` the figures are processor time of one thread, which is more precise on a busy machine. With
`--same-memory` all containers are views of one field's memory: differences then come from the code, otherwise from the memory. With
`--by-hand` a loop in C (compiled by clang) does the same on the memory of each container, in one thread, which measures the memory.
"""

import argparse
import ctypes
import importlib.util
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import quadrants as qd


def make_kernels(annotate: Callable[[int], Any]) -> dict[str, tuple[Any, tuple[int, ...]]]:
    """Returns kernels of two containers each and the shape that they run on; `annotate(n)` returns the annotation of a
    container of n axes.
    """
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


BY_HAND = """
#include <stddef.h>
void saxpy(const float *restrict x, float *restrict y, const size_t *n) {
  for (size_t i = 0; i < n[0]; ++i) y[i] = 0.5f * x[i] + y[i];
}
void stencil2(const float *restrict x, float *restrict y, const size_t *n) {
  for (size_t i = 1; i < n[0] - 1; ++i)
    for (size_t j = 1; j < n[1] - 1; ++j) {
      const float *p = x + i * n[1] + j;
      y[i * n[1] + j] = 0.2f * (p[0] + p[-n[1]] + p[n[1]] + p[-1] + p[1]);
    }
}
void stencil3(const float *restrict x, float *restrict y, const size_t *n) {
  const size_t plane = n[1] * n[2];
  for (size_t i = 1; i < n[0] - 1; ++i)
    for (size_t j = 1; j < n[1] - 1; ++j)
      for (size_t k = 1; k < n[2] - 1; ++k) {
        const float *p = x + i * plane + j * n[2] + k;
        float near = p[-plane] + p[plane] + p[-n[2]] + p[n[2]] + p[-1] + p[1];
        y[i * plane + j * n[2] + k] = 0.5f * p[0] + near / 12.0f;
      }
}
"""
HANDS = {"saxpy": "saxpy", "saxpy, in cache": "saxpy", "stencil 2-D": "stencil2", "stencil 3-D": "stencil3"}


def load_by_hand() -> ctypes.CDLL:
    """Returns the loops in C, compiled for this processor."""
    folder = Path(tempfile.mkdtemp())
    (folder / "loops.c").write_text(BY_HAND)
    command = ["clang", "-O3", "-march=native", "-shared", "-fPIC", "-o", str(folder / "loops.so"), str(folder / "loops.c")]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(folder / "loops.so"))


def call_by_hand(library: ctypes.CDLL, name: str, shape: tuple[int, ...]) -> Callable[[Any, Any], None]:
    """Returns a function of two containers that runs the loop on their memory."""
    loop, extents = getattr(library, HANDS[name]), (ctypes.c_size_t * len(shape))(*shape)

    addresses: dict[int, ctypes.c_void_p] = {}

    def find(container: Any) -> ctypes.c_void_p:
        if id(container) not in addresses:
            array = container.to_numpy(copy=False) if hasattr(container, "to_numpy") else np.asarray(container)
            addresses[id(container)] = ctypes.c_void_p(array.ctypes.data)
        return addresses[id(container)]

    def call(x: Any, y: Any) -> None:
        loop(find(x), find(y), extents)

    return call


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
    """Returns the constructor of each kind of container: from values, or with `same_memory` from a field that it is a view of."""
    makers: dict[str, Maker] = {"field": make_field, "ndarray": make_ndarray, "NumPy": np.array}
    if same_memory:
        makers = {"field": lambda field: field, "ndarray": qd.from_dlpack, "NumPy": lambda field: field.to_numpy(copy=False)}
    if importlib.util.find_spec("torch"):
        makers["torch"] = (lambda field: field.to_torch(copy=False)) if same_memory else make_tensor
    return makers


def measure(
    for_fields: Any, for_arrays: Any, shape: tuple[int, ...], same_memory: bool, rounds: int, clock: Callable[[], float]
) -> dict[str, float]:
    """Returns the best seconds of a call for each kind of container."""
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


def show(name: str, best: dict[str, float]) -> None:
    print(f"{name:18s}" + "".join(f"  {kind} {s * 1e3:9.4f} ms ({s / best['field']:.3f})" for kind, s in best.items()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--one-thread", action="store_true")
    parser.add_argument("--same-memory", action="store_true")
    parser.add_argument("--by-hand", action="store_true")
    args = parser.parse_args()
    library = load_by_hand() if args.by_hand else None
    args.one_thread |= args.by_hand
    qd.init(arch=qd.cpu, log_level="error", **({"cpu_max_num_threads": 1} if args.one_thread else {}))
    clock = time.process_time if args.one_thread else time.perf_counter
    fields, arrays = make_kernels(lambda dimensions: qd.template()), make_kernels(lambda dimensions: qd.types.NDArray[qd.f32, dimensions])
    for name, (kernel, shape) in fields.items():
        best = measure(kernel, arrays[name][0], shape, args.same_memory, args.rounds, clock)
        show(name, best)
        if library is not None and name in HANDS:
            loop = call_by_hand(library, name, shape)
            show(f"{name}, C", measure(loop, loop, shape, args.same_memory, args.rounds, clock))


if __name__ == "__main__":
    main()
