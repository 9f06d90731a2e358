"""The derivative of every row of the operator table, for each type and shape, against differences of what NumPy computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from autodiff_support import check, numbers, scalar_loss

import quadrants as qd
from quadrants._base.operators import OPERATORS

pytestmark = pytest.mark.usefixtures("on_every_backend")

_SYMBOLS = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "div": lambda x, y: x / y,
    "floor_div": lambda x, y: x // y, "mod": lambda x, y: x % y, "neg": lambda x: -x,
}  # fmt: skip
_SPECIAL = {"pow": qd.pow, "atan2": qd.atan2, "max": qd.max, "min": qd.min, "raw_div": qd.raw_div, "raw_mod": qd.raw_mod}
_OF_REALS = [row for row in OPERATORS.values() if row.operand != "Integer" and row.result not in ("Compare", "U1", "I32")]
UNARY = [row.name for row in _OF_REALS if row.kind == "unary" and row.name not in ("mantissa", "bit_not")]
BINARY = [row.name for row in _OF_REALS if row.kind == "binary" and row.operand != "Integer" and row.name != "ldexp"]
SHAPES = [(), (2,), (3,), (4,), (2, 2), (2, 3), (3, 3)]


def _function(name: str) -> Any:
    found = _SYMBOLS.get(name) or _SPECIAL.get(name) or getattr(qd, name, None)
    return found if found is not None else getattr(qd.math, name)


def _expression(name: str, x: str, y: str) -> str:
    symbol = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floor_div": "//", "mod": "%"}.get(name)
    if name == "neg":
        return f"-{x}"
    return f"{x} {symbol} {y}" if symbol else f"function({x}{f', {y}' if name in BINARY else ''})"


def _kernel(name: str, operands: list[list[Any]], outs: list[Any]) -> Any:
    """`out[i] = f(x[i])` or `f(x[i], y[i])` for each shape, from text: kernels keep no lambdas of Python."""
    names: dict[str, Any] = {"function": _function(name)}
    text = "def run():\n    for i in range(3):\n"
    for number, (all_of_shape, out) in enumerate(zip(operands, outs, strict=True)):
        names |= {f"x{number}": all_of_shape[0], f"y{number}": all_of_shape[-1], f"out{number}": out}
        text += f"        out{number}[i] = {_expression(name, f'x{number}[i]', f'y{number}[i]')}\n"
    return qd.kernel_from_source(text, names)


def _samples(name: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Numbers in the domain, away from kinks."""
    random = np.random.default_rng(seed)
    values = random.uniform(0.3, 0.8, (3, *shape))
    if name in ("asin", "acos", "log", "log2", "log10", "sqrt", "rsqrt", "pow"):
        return values
    return values * random.choice([-1, 1], values.shape)


def _container(values: np.ndarray, shape: tuple[int, ...], dtype: Any) -> Any:
    element = dtype if not shape else qd.types.vector(*shape, dtype) if len(shape) == 1 else qd.types.matrix(*shape, dtype)
    made = qd.field(element, shape=values.shape[0], needs_grad=True, needs_dual=True)
    made.from_numpy(values)
    return made


def _slope(name: str, operands: list[np.ndarray], position: int) -> np.ndarray:
    step = np.zeros_like(operands[0])
    step[...] = 1e-6
    moved = [[value + sign * step if k == position else value for k, value in enumerate(operands)] for sign in (1, -1)]
    compute = OPERATORS[name].compute
    return (compute(*moved[0]) - compute(*moved[1])) / 2e-6


@pytest.mark.parametrize("dtype", [qd.f64, qd.f32, qd.f16], ids=str)
@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_row(name: str, dtype: Any):
    """Both modes for scalars, vectors and matrices."""
    count = 2 if name in BINARY else 1
    containers, outs = [], []
    for shape in SHAPES:
        operands = [_samples(name, shape, seed) for seed in range(count)]
        if name in ("mod", "floor_div", "raw_mod"):
            operands[1] = operands[1] / 3
        containers.append([_container(values, shape, dtype) for values in operands])
        outs.append(_container(np.zeros((3, *shape)), shape, dtype))
    run = _kernel(name, containers, outs)
    run()
    for out in outs:
        out.grad.fill(1)
    run.grad()
    tolerance = {qd.f64: 1e-6, qd.f32: 2e-4, qd.f16: 4e-2}[dtype]
    for position in range(count):
        slopes = [_slope(name, [operand.to_numpy().astype(np.float64) for operand in operands], position) for operands in containers]
        for expected, operands in zip(slopes, containers, strict=True):
            np.testing.assert_allclose(operands[position].grad.to_numpy(), expected, rtol=tolerance, atol=tolerance)
        of_position = {operands[position]: np.ones((3, *shape)) for operands, shape in zip(containers, SHAPES, strict=True)}
        with qd.ad.FwdMode(outs, of_position):
            run()
        for expected, out in zip(slopes, outs, strict=True):
            np.testing.assert_allclose(out.dual.to_numpy(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("text", "at", "slopes"),
    [
        ("qd.min(x[None], x[None])", 2.0, 1.0),
        ("qd.max(x[None], x[None])", 2.0, 1.0),
        ("qd.min(x[None], 1.0)", 2.0, 0.0),
        ("abs(x[None])", 0.0, 0.0),
        ("x[None] % 0.75", 2.0, 1.0),
        ("2.0 % x[None]", 0.75, -2.0),
        ("qd.log(x[None])", -0.5, -2.0),
        ("qd.select(x[None] > 0.0, x[None], qd.sqrt(x[None]))", 1.0, 1.0),
        ("qd.cast(qd.cast(x[None], qd.f32), qd.f64) * 3.0", 1.0, 3.0),
        ("qd.cast(qd.cast(x[None], qd.i32), qd.f64) * x[None]", 2.5, 2.0),
        ("qd.bit_cast(qd.bit_cast(x[None], qd.i64), qd.f64) + x[None]", 2.5, 1.0),
        ("x[None] * qd.math.isnan(x[None]) + x[None] * qd.round(x[None])", 2.25, 2.0),
        ("x[None] ** 2", -3.0, -6.0),
        ("x[None] ** 0.0", 0.0, 0.0),
        ("0.0 ** x[None]", 2.0, 0.0),
        ("qd.math.clamp(x[None], 0.0, 1.0)", 0.5, 1.0),
        ("qd.math.mix(1.0, x[None], x[None])", 3.0, 5.0),
        ("qd.math.smoothstep(0.0, 1.0, x[None])", 0.5, 1.5),
        ("qd.math.fract(x[None])", 2.25, 1.0),
        ("qd.random(float) * 0.0 + x[None]", 2.0, 1.0),
        ("x[None] if x[None] > 1.0 else 3.0 * x[None]", 0.5, 3.0),
        ("qd.frexp(x[None])[0]", 3.0, 0.25),
        ("qd.fma(x[None], 2.0 * x[None], 3.0 * x[None])", 2.0, 11.0),
        ("qd.fma(1.0, 2.0, x[None])", 2.0, 1.0),
        ("qd.ldexp(x[None] * x[None], 3)", 2.0, 32.0),
    ],
)
def test_convention(text: str, at: float, slopes: float):
    x, out = numbers(at), scalar_loss()
    run = qd.kernel_from_source(f"def run():\n    out[None] = {text}\n", {"x": x, "out": out})
    run()
    out.grad[None] = 1
    run.grad()
    np.testing.assert_allclose(x.grad[None], slopes, rtol=1e-12, atol=1e-12)
    with qd.ad.FwdMode(out, x):
        run()
    np.testing.assert_allclose(out.dual[None], slopes, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "statement", ["loss[None] += f", "loss[None] -= f", "qd.atomic_add(loss[None], f)", "qd.atomic_sub(loss[None], f)"]
)
def test_sums(statement: str):
    x, loss = numbers([0.5, 2.0, 1.5]), scalar_loss()
    text = f"def run():\n    for i in x:\n        f = x[i] * x[i]\n        {statement}\n"
    check(qd.kernel_from_source(text, {"x": x, "loss": loss}), loss, x)


@pytest.mark.parametrize("name", ["atomic_max", "atomic_min"])
def test_extremum_goes_to_what_was_kept(name: str):
    x, best, loss = numbers([0.5, 2.0, 1.5]), numbers(1.75), scalar_loss()

    text = f"def run():\n    for i in x:\n        qd.{name}(best[None], x[i] * x[i])\n"
    run = qd.kernel_from_source(text, {"x": x, "best": best})

    @qd.kernel
    def start():
        best[None] = 1.75

    @qd.kernel
    def add():
        loss[None] += 3.0 * best[None]

    def all_of_it() -> None:
        start()
        run()
        add()

    check(all_of_it, loss, x)
