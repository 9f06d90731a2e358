"""Kernels, launches and starts through Vulkan beside CUDA on one NVIDIA GPU.

    VK_DRIVER_FILES=nvidia_icd.json python bench/vulkan_to_cuda.py [--rounds 3] [--out bench/results/vulkan_h100.json]

Runs the cases of suite.py for each of the two by turns, in processes of their own, and prints the medians and their ratios. Kernels are
launched up to 50 times for each wait, so that the figures are the device's time: waiting for a device takes 20 us through Vulkan.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
MOST_LAUNCHES, SECONDS = 50, 0.01


def median_time(fn, sync, repeats=5, warm=2):
    """Like suite.median_time, with as many launches between two waits as take some milliseconds."""
    for _ in range(warm):
        fn()
    sync()
    began = time.perf_counter()
    fn()
    sync()
    launches = max(1, min(MOST_LAUNCHES, int(SECONDS / (time.perf_counter() - began))))
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        for _ in range(launches):
            fn()
        sync()
        times.append((time.perf_counter() - began) / launches)
    return statistics.median(times)


def run_reads():
    """Returns seconds of so many dependent launches and a read of what they have computed."""
    import quadrants as qd

    x = qd.field(qd.i32, shape=1)

    @qd.kernel
    def count():
        for i in x:
            x[i] += 1

    def launch(number):
        for _ in range(number):
            count()
        return x[0]

    def measure(number):
        times = []
        for _ in range(32):
            began = time.perf_counter()
            launch(number)
            times.append(time.perf_counter() - began)
        return statistics.median(times)

    return {f"read.after_{number}_launches": measure(number) for number in (1, 10, 100)}


def run_child(arch: str, out: str) -> None:
    """Measures one of the two, in a process of its own."""
    sys.path.insert(0, str(FOLDER))
    import suite

    usual = suite.median_time
    suite.median_time = median_time
    sys.argv = ["suite.py", "--module", "quadrants", "--arch", arch, "--only", "throughput", "--out", out]
    suite.main()
    figures = json.loads(Path(out).read_text()) | run_reads()
    suite.median_time = usual
    sys.argv = ["suite.py", "--module", "quadrants", "--arch", arch, "--only", "launch,start", "--out", out]
    suite.main()
    Path(out).write_text(json.dumps(figures | json.loads(Path(out).read_text())))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="alternations")
    parser.add_argument("--out", help="file for the figures, as JSON")
    parser.add_argument("--child", nargs=2, metavar=("ARCH", "FILE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        return run_child(*given.child)
    all_figures: dict[str, list[dict[str, float]]] = {"cuda": [], "vulkan": []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(given.rounds):
            for arch, figures in all_figures.items():
                file = Path(folder) / f"{arch}.json"
                subprocess.run([sys.executable, __file__, "--child", arch, str(file)], check=True, stdout=subprocess.DEVNULL)
                figures.append(json.loads(file.read_text()))
    names = [name for name in all_figures["cuda"][0] if name in all_figures["vulkan"][0] and not name.startswith("wall.")]
    table = {name: {arch: statistics.median(one[name] for one in all_figures[arch]) for arch in all_figures} for name in names}
    for name, row in table.items():
        print(f"{name:36s} {row['cuda']:12.6g} {row['vulkan']:12.6g} {row['vulkan'] / row['cuda']:8.3f}")
    if given.out:
        Path(given.out).write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
