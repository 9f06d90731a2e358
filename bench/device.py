"""Ours, PyTorch and CUDA C on one GPU in one run, as a result file: python bench/device.py bench/results/MACHINE.json

Needs an NVIDIA GPU; without torch or nvcc their figures are left out. Figures as in suite.py.
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
    """The figures of suite.py, run in a process of its own."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [sys.executable, str(HERE / "suite.py"), "--arch", "cuda", "--out", out.name, "--only", *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return json.loads(Path(out.name).read_text())


def run_torch(count):
    """GB/s of a copy, an `a * x + y` and a sum over `count` f32."""
    import torch

    x, y = torch.ones(count, device="cuda"), torch.zeros(count, device="cuda")
    cases = {"copy": (8, lambda: y.copy_(x)), "saxpy": (12, lambda: y.add_(x, alpha=1.5)), "reduce": (4, lambda: x.sum())}
    figures = {}
    for name, (size, case) in cases.items():
        times = []
        for _ in range(12):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            case()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - begin)
        figures[f"gbps.{name}"] = 1e-9 * size * count / sorted(times[3:])[4]
    return figures


def run_peer():
    """The figures of peer.cu."""
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
    if importlib.util.find_spec("torch"):
        for count in (1 << 25, 1 << 29):
            results[f"PyTorch, {count} f32"] = run_torch(count)
    if shutil.which("nvcc"):
        results["CUDA C: bench/peer.cu"] = run_peer()
    for part in results.values():
        if isinstance(part, dict):
            part.update({name: float(f"{value:.4g}") for name, value in part.items() if isinstance(value, float)})
    Path(sys.argv[1]).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
