"""Runs Quadrants, PyTorch and CUDA C on one GPU, and writes a result file: python bench/device.py bench/results/MACHINE.json

Needs an NVIDIA GPU; without torch or nvcc their figures are left out. Figures are those of suite.py.
"""

import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
RUNS = (["launch,throughput"], ["throughput", "--scale", "16"], ["start"], ["autodiff"])


def run_suite(options):
    """Returns the figures of suite.py, run in its own process, which stores the byte code of modules as an installation does."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [sys.executable, str(HERE / "suite.py"), "--arch", "cuda", "--out", out.name, "--only", *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
        return json.loads(Path(out.name).read_text())


def run_by_turns(count):
    """Returns GB/s of kernels and of PyTorch's operations over `count` f32; they alternate, so that all run at the same clocks."""
    import torch

    import quadrants as qd

    qd.init(arch=qd.cuda, log_level="error")
    x, y = qd.field(qd.f32, count), qd.field(qd.f32, count)
    array = qd.types.ndarray(dtype=qd.f32, ndim=1)

    @qd.kernel
    def copy():
        for i in x:
            y[i] = x[i]

    @qd.kernel
    def saxpy(a: qd.f32):
        for i in x:
            y[i] = a * x[i] + y[i]

    @qd.kernel
    def saxpy_of_ndarrays(a: qd.f32, x: array, y: array):
        for i in x:
            y[i] = a * x[i] + y[i]

    @qd.kernel
    def add_up() -> qd.f32:
        total = 0.0
        for i in x:
            total += x[i]
        return total

    first, second = qd.ndarray(qd.f32, count), qd.ndarray(qd.f32, count)
    ours, theirs = torch.ones(count, device="cuda"), torch.zeros(count, device="cuda")
    cases = {
        "gbps.copy_field": (8 * count, copy),
        "gbps.saxpy_field": (12 * count, lambda: saxpy(1.5)),
        "gbps.saxpy_ndarray": (12 * count, lambda: saxpy_of_ndarrays(1.5, first, second)),
        "gbps.reduce_field": (4 * count, add_up),
        "gbps.torch_copy": (8 * count, lambda: theirs.copy_(ours)),
        "gbps.torch_saxpy": (12 * count, lambda: theirs.add_(ours, alpha=1.5)),
        "gbps.torch_reduce": (4 * count, lambda: ours.sum()),
    }
    times = {name: [] for name in cases}
    for _ in range(12):
        for name, (_, case) in cases.items():
            torch.cuda.synchronize()
            begin = time.perf_counter()
            case()
            torch.cuda.synchronize()
            times[name].append(time.perf_counter() - begin)
    qd.reset()
    return {name: 1e-9 * size / sorted(times[name][3:])[4] for name, (size, _) in cases.items()}


def run_rounds(rounds=1000):
    """Returns microseconds for each round of a loop over two tiny tasks: repeated by the host, by the device, and a launch of one round."""
    import quadrants as qd

    results = {}
    for by in ("host", "device"):
        qd.init(arch=qd.cuda, graph=by == "device", log_level="error")
        x, left, flag = qd.ndarray(qd.f32, 1024), qd.ndarray(qd.i32, ()), qd.ndarray(qd.i32, ())

        @qd.kernel(graph=True)
        def work(x: qd.types.ndarray(), left: qd.types.ndarray(), flag: qd.types.ndarray(qd.i32, ndim=0), count: qd.i32):
            left[None] = count
            while qd.graph.do_while(flag):
                for i in x:
                    x[i] += 1.0
                for i in x:
                    x[i] *= 0.5
                    if i == 0:
                        left[None] -= 1
                        flag[None] = left[None]

        for name, count in (("rounds", rounds), ("one_round", 1)):
            times = []
            for _ in range(20):
                begin = time.perf_counter()
                work(x, left, flag, count)
                qd.sync()
                times.append(time.perf_counter() - begin)
            results[f"us.{name}_by_{by}"] = 1e6 * sorted(times)[10] / count
        qd.reset()
    return results


def run_peer():
    """Returns the figures of peer.cu."""
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "peer")
        subprocess.run(["nvcc", "-arch=native", "-O3", "-use_fast_math", "-std=c++17", "-o", program, str(HERE / "peer.cu")], check=True)
        lines = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
    return {name: float(value) for name, value in (line.split() for line in lines)}


def main():
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    gpu = subprocess.run(query, capture_output=True, text=True).stdout.strip()
    results = {"machine": f"{gpu}, {os.cpu_count()} cores, CPython {platform.python_version()}"}
    for options in RUNS:
        results["ours: python bench/suite.py --arch cuda --only " + " ".join(options)] = run_suite(options)
    results["ours: rounds of do_while over two tasks"] = run_rounds()
    if importlib.util.find_spec("torch"):
        for count in (1 << 25, 1 << 29):
            results[f"ours and PyTorch by turns, {count} f32"] = run_by_turns(count)
    if shutil.which("nvcc"):
        results["CUDA C: bench/peer.cu"] = run_peer()
    for part in results.values():
        if isinstance(part, dict):
            part.update({name: float(f"{value:.4g}") for name, value in part.items() if isinstance(value, float)})
    Path(sys.argv[1]).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
