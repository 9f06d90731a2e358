"""Runs random differentiable programs and compares: compiled gradients with the interpreter's, and these with dual numbers and differences.

A campaign: `python -m tests.python.autodiff.compare_programs --count 1000 [--seed 0]`; each failure is printed with its program.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import quadrants as qd
from quadrants.ad import _tape

if __package__:
    from .programs import Program
else:  # found through pythonpath
    from programs import Program

STEP = 1e-6


class Outcome(NamedTuple):
    """What one backend computed: the loss, gradients of x, v and m, and the derivative of the loss along a direction; or why it refused."""

    loss: float = 0.0
    gradients: tuple[np.ndarray, ...] = ()
    tangent: float = 0.0
    refusal: str = ""


def _load(path: Path) -> Callable[[], Any]:
    space: dict[str, Any] = {"__name__": path.stem, "__file__": str(path)}
    exec(compile(path.read_text(), str(path), "exec"), space)
    return space["make"]


def _fill(seed: int, made: Any) -> list[np.ndarray]:
    """Start values; gives a direction for each of x, v and m."""
    random = np.random.default_rng(seed)
    for container in made[:3]:
        container.from_numpy(random.uniform(-1.2, 1.2, container.shape + container.element_shape))
    made[4].from_numpy(random.permutation(3).astype(np.int32))
    made[5].from_numpy(random.integers(0, 4, 3).astype(np.int32))
    return [random.standard_normal(container.shape + container.element_shape) for container in made[:3]]


def run_program(path: Path, seed: int, arch: Any) -> Outcome:
    """Both modes on one backend."""
    _tape._LEAST_MICROSECONDS = 0
    qd.init(arch=arch, default_fp=qd.f64, offline_cache=False, log_level="error")
    made = _load(path)()
    x, v, m, _, _, _, loss, run = made
    directions = _fill(seed, made)
    try:
        with qd.ad.Tape(loss):
            run()
        gradients = tuple(container.grad.to_numpy() for container in (x, v, m))
        if arch != qd.python:  # the last call of the second tape may run together with its gradient
            _fill(seed, made)
            with qd.ad.Tape(loss):
                run()
            for first, container in zip(gradients, (x, v, m), strict=True):
                np.testing.assert_allclose(container.grad.to_numpy(), first, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(first).max()))
            _fill(seed, made)
        value = float(loss[None])
        loss[None] = 0
        with qd.ad.FwdMode(loss, dict(zip((x, v, m), directions, strict=True))):
            run()
    except qd.QuadrantsCompilationError as error:
        return Outcome(refusal=str(error))
    except qd.QuadrantsRuntimeError as error:
        return Outcome(refusal=str(error))
    return Outcome(value, gradients, float(loss.dual[None]))


def difference_along(path: Path, seed: int, arch: Any, step: float = STEP) -> float:
    """The derivative of the loss along the direction of the seed: a central difference."""
    qd.init(arch=arch, default_fp=qd.f64, offline_cache=False, log_level="error")
    made = _load(path)()
    loss, run = made[6], made[7]
    directions = _fill(seed, made)
    starts = [container.to_numpy() for container in made[:3]]
    losses = []
    for sign in (1, -1):
        for container, start, direction in zip(made[:3], starts, directions, strict=True):
            container.from_numpy(start + sign * step * direction)
        loss[None] = 0
        run()
        losses.append(float(loss[None]))
    return (losses[0] - losses[1]) / (2 * step)


def _are_close(first: Any, second: Any, tolerance: float) -> bool:
    scale = max(1.0, float(np.max(np.abs(second), initial=0)))
    return bool(np.allclose(first, second, rtol=tolerance, atol=tolerance * scale))


def compare(path: Path, seed: int, backends: list[Any]) -> tuple[str, str]:
    """("", "") if all agree; ("refused", why); or ("wrong", what differs)."""
    directions = None
    oracle = run_program(path, seed, qd.python)
    if oracle.refusal:
        return "refused", oracle.refusal
    random = np.random.default_rng(seed)
    shapes = [gradient.shape for gradient in oracle.gradients]
    for shape in shapes:
        random.uniform(-1.2, 1.2, shape)
    random.permutation(3)
    random.integers(0, 4, 3)
    directions = [random.standard_normal(shape) for shape in shapes]
    along = sum(float(np.sum(gradient * direction)) for gradient, direction in zip(oracle.gradients, directions, strict=True))
    if not _are_close(along, oracle.tangent, 1e-9):
        return "wrong", f"reverse {along!r} and forward {oracle.tangent!r} of the interpreter differ"
    slopes = [difference_along(path, seed, backends[0] if backends else qd.python, step) for step in (STEP, STEP / 4)]
    if not any(_are_close(slope, along, 2e-5) for slope in slopes):
        return "wrong", f"the interpreter's derivative is {along!r}, differences are {slopes!r}"
    for backend in backends:
        found = run_program(path, seed, backend)
        if found.refusal:
            return "refused", found.refusal
        if not _are_close(found.loss, oracle.loss, 1e-9):
            return "wrong", f"loss {found.loss!r} on {backend.name}, {oracle.loss!r} interpreted"
        if not _are_close(found.tangent, oracle.tangent, 1e-8):
            return "wrong", f"tangent {found.tangent!r} on {backend.name}, {oracle.tangent!r} interpreted"
        for name, mine, its in zip("xvm", found.gradients, oracle.gradients, strict=True):
            if not _are_close(mine, its, 1e-8):
                return "wrong", f"gradient of {name} on {backend.name}:\n{mine}\ninterpreted:\n{its}"
    return "", ""


def main() -> int:
    """Runs a campaign; the exit status says whether all programs agreed."""
    parser = argparse.ArgumentParser(description="Compare gradients of random programs.")
    parser.add_argument("--count", type=int, default=100, help="programs to run")
    parser.add_argument("--seed", type=int, default=0, help="number of the first program")
    parser.add_argument("--arch", default="cpu", help="backends to compare with the interpreter, with commas; empty: none")
    parser.add_argument("--show", type=int, default=3, help="failing programs to print")
    given = parser.parse_args()
    backends = [getattr(qd, name) for name in given.arch.split(",") if name]
    counts = {"": 0, "refused": 0, "wrong": 0}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(given.seed, given.seed + given.count):
            path = Path(folder) / f"program_{seed}.py"
            path.write_text(Program(seed).text)
            try:
                verdict, text = compare(path, seed, backends)
            except Exception as error:  # a crash of either is a failure of the program
                verdict, text = "wrong", f"{type(error).__name__}: {error}"
            counts[verdict] += 1
            if verdict == "refused":
                print(f"program {seed} is refused: {text}", file=sys.stderr)
            elif verdict and counts["wrong"] <= given.show:
                print(f"=== program {seed}:\n{path.read_text()}\n{text}\n", flush=True)
    print(f"{counts['']} agree, {counts['refused']} refused, {counts['wrong']} wrong")
    return counts["wrong"] > 0


if __name__ == "__main__":
    sys.exit(main())
