"""Compares the data methods of containers with the reference and NumPy: fill, copy_from, from_numpy, to_numpy, from_torch, to_torch.

    python bench/data_methods.py --reference /path/to/python [--ours /path/to/python] [--arch cpu] [--least 8] [--most 26]
        [--rounds 7] [--only fill,to_numpy] [--kinds "vector SOA,matrix 3x3"] [--dtypes f32,f64,i32] [--out rows.json]

Prints, for each method, container and size, microseconds of Quadrants and of the others, and the ratio to the fastest other one. The
processes alternate at every figure, so that a machine whose speed drifts favors none. `--reference` and `--ours` are the interpreters
that import either package (by default this one); torch's methods are left out if it is not installed. The peer is NumPy (`fill`,
`np.copyto`, `copy`), for torch's methods torch (`copy_`, `clone`), in our process; for SOA it reorders the components as the methods
do. With `--arch cuda` the arrays of torch's methods and of the peers are tensors on the GPU, and `to_numpy`, `from_numpy` copy between
the GPU and the host. With `--worst 1.0` only the rows above that ratio are printed. `--out` names a JSON file that gets all rows,
as bench/results/data_methods.json: f32, f64, i32 and u8 on 2 shared cores of a Zen 4; rows above 1.1 were measured again with 5 to 9
rounds, which some of them passed. bench/results/data_methods_h200.json is the same on a GPU.
"""

import argparse
import itertools
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

METHODS = ["fill", "copy_from", "from_numpy", "to_numpy", "from_torch", "to_torch"]
COMPONENTS = {"scalar": (), "vector": (3,), "matrix": (2, 2), "matrix 3x3": (3, 3)}
KINDS = ["scalar", "vector", "vector SOA", "matrix", "matrix SOA", "matrix 3x3", "matrix 3x3 SOA"]
NAMES = {"f32": "float32", "f64": "float64", "i32": "int32", "i64": "int64", "u8": "uint8"}
FILLED = {"f": 0.5, "i": 5, "u": 5}  # the reference refuses a float for integers
MOST_BYTES = 1 << 30


def make(qd: Any, container: str, dtype: Any, kind: str, count: int) -> Any:
    """Returns a container of `count` elements; None if the package does not support it."""
    shape = COMPONENTS[kind.removesuffix(" SOA")]
    if container == "ndarray":
        if kind.endswith("SOA"):
            return None
        makers = [lambda: dtype, lambda: qd.types.vector(*shape, dtype), lambda: qd.types.matrix(*shape, dtype)]
        return qd.ndarray(makers[len(shape)](), count)
    layout = qd.Layout.SOA if kind.endswith("SOA") else qd.Layout.AOS
    if not shape:
        return qd.field(dtype, shape=count)
    cls = qd.Vector if len(shape) == 1 else qd.Matrix
    return cls.field(*shape, dtype, shape=count, layout=layout)


def find_call(qd: Any, on_gpu: bool, method: str, container: str, dtype: str, kind: str, count: int) -> Callable[[], Any] | None:
    """Returns the call to time; with container "NumPy", on arrays only."""
    import numpy as np

    shape = (count, *COMPONENTS[kind.removesuffix(" SOA")])
    values = np.resize(100 * np.random.default_rng(1).random(1 << 16, np.float32), shape).astype(NAMES[dtype])
    if container == "peer":
        return find_gpu_peer(method, kind, values) if on_gpu else find_peer(method, kind, values)
    x = make(qd, container, getattr(qd, dtype), kind, count)
    if x is None:
        return None
    if method == "fill":
        return lambda: x.fill(FILLED[dtype[0]])
    if method == "copy_from":
        other = make(qd, container, getattr(qd, dtype), kind, count)
        other.fill(1)
        return lambda: x.copy_from(other)
    if method == "from_numpy":
        return lambda: x.from_numpy(values)
    x.from_numpy(values)
    if method == "to_numpy":
        return x.to_numpy
    try:
        import torch
    except ImportError:
        return None
    if not hasattr(x, method):
        return None
    tensor = torch.from_numpy(values).to("cuda" if on_gpu else "cpu")
    if on_gpu and method == "to_torch":
        return lambda: x.to_torch(device="cuda:0")
    return x.to_torch if method == "to_torch" else lambda: x.from_torch(tensor)


def find_peer(method: str, kind: str, values: Any) -> Callable[[], Any]:
    """Returns the call of NumPy, or of torch for torch's methods, that does the same work on arrays."""
    import numpy as np

    is_soa = kind.endswith("SOA")
    soa = np.moveaxis(np.ascontiguousarray(np.moveaxis(values, 0, -1)), -1, 0) if is_soa else values.copy()
    if method.endswith("torch"):
        import torch

        stored, packed = torch.from_numpy(soa), torch.from_numpy(values)
        if method == "to_torch":
            return lambda: stored.clone(memory_format=torch.contiguous_format)
        return lambda: stored.copy_(packed)
    value = FILLED[values.dtype.kind]
    calls = {"fill": lambda: soa.fill(value), "to_numpy": lambda: soa.copy(order="C"), "from_numpy": lambda: np.copyto(soa, values)}
    other = soa.copy(order="K")
    return calls.get(method, lambda: np.copyto(soa, other))


def find_gpu_peer(method: str, kind: str, values: Any) -> Callable[[], Any]:
    """Returns the call of torch that does the same work on tensors of the GPU, or between one and an array."""
    import torch

    packed = torch.from_numpy(values).to("cuda")
    stored = torch.moveaxis(torch.moveaxis(packed, 0, -1).contiguous(), -1, 0) if kind.endswith("SOA") else packed.clone()
    value, other = FILLED[values.dtype.kind], stored.clone(memory_format=torch.preserve_format)
    calls = {
        "fill": lambda: stored.fill_(value),
        "copy_from": lambda: stored.copy_(other),
        "from_numpy": lambda: stored.copy_(torch.from_numpy(values)),
        "to_numpy": lambda: stored.contiguous().cpu().numpy(),
        "from_torch": lambda: stored.copy_(packed),
        "to_torch": lambda: stored.clone(memory_format=torch.contiguous_format),
    }
    return calls[method]


def time_call(call: Callable[[], Any], sync: Callable[[], Any]) -> float:
    """Returns the best seconds of a call, out of several runs of at least a millisecond each."""
    call()
    sync()
    calls, best = 1, float("inf")
    while calls < 1 << 14:
        before = time.perf_counter()
        for _ in range(calls):
            call()
        sync()
        took = time.perf_counter() - before
        best = min(best, took / calls)
        if took >= 1e-3:
            break
        calls *= 4
    for _ in range(3):
        before = time.perf_counter()
        for _ in range(calls):
            call()
        sync()
        best = min(best, (time.perf_counter() - before) / calls)
    return best


def work(arch: str) -> None:
    """Runs a worker process that answers each line of (method, container, dtype, kind, count) with seconds or null."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of a package is no answer
    import quadrants as qd

    def init() -> None:
        qd.init(arch=getattr(qd, arch), log_level="error")

    def sync() -> None:
        qd.sync()
        if arch != "cpu" and (torch := sys.modules.get("torch")) is not None:
            torch.cuda.synchronize()

    init()
    last, call = None, None
    for line in sys.stdin:
        wanted = json.loads(line)
        if wanted != last:
            call = None
            call, last = find_call(qd, arch != "cpu", *wanted), wanted
        print(json.dumps(None if call is None else time_call(call, sync)), file=out, flush=True)
        if wanted[-1] >= 1 << 22:
            last = call = None
            init()  # the reference frees fields only then


class Worker:
    def __init__(self, interpreter: str, arch: str, path: str | None):
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | ({"PYTHONPATH": path} if path else {})
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen([interpreter, __file__, "--work", "--arch", arch], env=environment, text=True, **pipes)

    def ask(self, *wanted: Any) -> float | None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(wanted) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference")
    parser.add_argument("--ours", default=sys.executable)
    parser.add_argument("--arch", default="cpu")
    parser.add_argument("--least", type=int, default=8)
    parser.add_argument("--most", type=int, default=26)
    parser.add_argument("--step", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default=",".join(METHODS))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--dtypes", default="f32,f64,i32")
    parser.add_argument("--worst", type=float, default=0.0)
    parser.add_argument("--out")
    parser.add_argument("--work", action="store_true")
    args = parser.parse_args()
    if args.work:
        return work(args.arch)
    ours = Worker(args.ours, args.arch, os.environ.get("PYTHONPATH"))
    reference = Worker(args.reference, args.arch, None) if args.reference else None  # whose PYTHONPATH would lead to our package
    rows: list[dict[str, Any]] = []
    for method in args.only.split(","):
        for kind in args.kinds.split(","):
            for row in itertools.product(args.dtypes.split(","), ("field", "ndarray"), range(args.least, args.most + 1, args.step)):
                dtype, container, power = row
                times = measure(ours, reference, args, (method, container, dtype, kind, 1 << power))
                rows += [{"row": [method, container, dtype, kind, 1 << power], "microseconds": times}] if times else []
        if args.out:
            with open(args.out, "w") as file:
                file.write("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")


def measure(ours: Worker, reference: Worker | None, args: Any, row: tuple[str, str, str, str, int]) -> dict[str, float] | None:
    """Measures one row, method, container, dtype, kind, number of elements, and prints it. Returns microseconds by contestant."""
    method, container, dtype, kind, count = row
    size = int(dtype[1:]) * count // 8 * math.prod(COMPONENTS[kind.removesuffix(" SOA")])
    if size > MOST_BYTES:
        return None
    best: dict[str, float] = {}
    for _ in range(args.rounds if count < 1 << 22 else max(2, args.rounds // 2)):
        askers = [("ours", ours, container), ("peer", ours, "peer")] + ([("reference", reference, container)] if reference else [])
        for name, worker, what in askers:
            took = worker.ask(method, what, dtype, kind, count)
            if took is not None:
                best[name] = min(best.get(name, float("inf")), took)
    if "ours" not in best:
        return None
    ratio = best["ours"] / min(took for name, took in best.items() if name != "ours")
    if ratio >= args.worst:
        times = "".join(f"  {name} {took * 1e6:10.2f}" for name, took in best.items())
        print(f"{method:10s} {container:8s} {dtype} {kind:14s} {count:9d}{times}   {ratio:5.2f}", flush=True)
    return {name: round(took * 1e6, 2) for name, took in best.items()}


if __name__ == "__main__":
    main()
