"""Compares the compile times of the corpus for an AMD GPU (a code object) and for an NVIDIA one (PTX, then ptxas), in turn.

    python bench/amd_compile.py [--ptxas path] [--amd gfx942] [--cuda sm_90] [--match loops] [--rounds 3]

A driver does what ptxas does when it loads PTX, so that its time belongs to the compile time; that of starting its process does not, and is
measured with an empty program. Times are those of the processor. Prints totals of the least time of each kernel, and the kernels with the
highest ratios.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "python" / "compile")]

from assembling import find_ptx  # noqa: E402

import quadrants as qd  # noqa: E402
from quadrants import _compiler  # type: ignore[attr-defined]  # noqa: E402
from quadrants._base import options as _options  # noqa: E402
from quadrants._base.source import get_source  # noqa: E402
from quadrants._session import prepare as _prepare  # noqa: E402
from tests.corpus.__main__ import AREAS  # noqa: E402
from tests.corpus.recording import find_programs  # noqa: E402


class _Measured(BaseException):
    """Ends the launch of a kernel of the corpus."""


def read_clock() -> float:
    """Seconds of the processor in this process and those that have ended: other programs do not change them."""
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def time_of(run: Callable[[], Any]) -> tuple[float, Any]:
    before = read_clock()
    made = run()
    return read_clock() - before, made


class Bench:
    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.rows: list[tuple[str, float, float, float]] = []  # of each kernel the seconds of AMD, PTX, ptxas
        self.source = Path(tempfile.mkdtemp()) / "kernel.ptx"
        self.start = min(time_of(lambda: self.assemble(".version 7.8\n.target sm_90\n.address_size 64\n"))[0] for _ in range(5))

    def assemble(self, ptx: str) -> None:
        self.source.write_text(ptx)
        command = [self.given.ptxas, f"-arch={self.given.cuda}", self.source, "-o", self.source.with_suffix(".cubin")]
        subprocess.run(command, check=True, capture_output=True)

    def measure(self, name: str, kernel: Any, arguments: tuple[Any, ...]) -> None:
        source = get_source(kernel.__wrapped__, is_kernel=True)._replace(is_graph=kernel.use_graph)

        def compile_for(arch: str, target: str) -> bytes:
            options = _options.plain({**(_options.current or {}), "arch": arch})
            made, _ = _compiler.compile(source, kernel.parameters, arguments, kernel.results, options, target, "", kernel.mode)
            return made

        seconds: list[list[float]] = [[], [], []]
        for _ in range(self.given.rounds):
            seconds[0].append(time_of(lambda: compile_for("amdgpu", f"amdgpu:{self.given.amd}"))[0])
            spent, artifact = time_of(lambda: compile_for("cuda", f"cuda:{self.given.cuda}"))
            seconds[1].append(spent)
            seconds[2].append(time_of(lambda: self.assemble(find_ptx(artifact)))[0] - self.start)
        self.rows.append((name, *(min(values) for values in seconds)))  # type: ignore[arg-type]

    def run(self) -> None:
        for area, module in AREAS.items():
            for name, program in find_programs(module).items():
                if self.given.match not in f"{area}.{name}":
                    continue
                qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
                if _options.get("check_races"):
                    continue

                def compile_kernel(kernel: Any, arguments: tuple[Any, ...], name: str = f"{area}.{name}") -> None:
                    if not _options.get("check_races"):  # which GPUs refuse
                        self.measure(name, kernel, arguments)
                    raise _Measured

                for kernel, *arguments in program():
                    try:
                        with mock.patch.object(_prepare, "compile_kernel", compile_kernel):
                            kernel(*arguments)
                    except _Measured:
                        pass

    def report(self) -> None:
        amd, ptx, assembling = (sum(row[i] for row in self.rows) for i in (1, 2, 3))
        ratios = [row[1] / (row[2] + row[3]) for row in self.rows]
        print(f"{len(self.rows)} kernels: {self.given.amd} {amd:.2f} s; PTX {ptx:.2f} s, ptxas {assembling:.2f} s without its start")
        print(f"ratio of the totals {amd / (ptx + assembling):.2f}, to PTX alone {amd / ptx:.2f}; median {statistics.median(ratios):.2f}")
        for name, own, text, machine in sorted(self.rows, key=lambda row: row[2] + row[3] - row[1])[:10]:
            print(f"{name:40} {own * 1e3:7.1f} ms; {text * 1e3:6.1f} + {machine * 1e3:6.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ptxas", default=shutil.which("ptxas"), help="NVIDIA's assembler, of the toolkit or of a package of PyPI")
    parser.add_argument("--amd", default="gfx942")
    parser.add_argument("--cuda", default="sm_90")
    parser.add_argument("--match", default="", help="a part of the name of a program of the corpus")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    if not given.ptxas:
        sys.exit("there is no ptxas: name one with --ptxas")
    bench = Bench(given)
    bench.run()
    bench.report()


if __name__ == "__main__":
    main()
