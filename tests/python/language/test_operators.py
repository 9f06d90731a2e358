"""Every operator on every pair of types against NumPy: one row of builtins.def, one test."""

import re
from pathlib import Path

import numpy as np
import pytest
from language_support import DTYPES, FLOATS, INTEGERS, NUMPY, define, edge_values, evaluate, pairs


@pytest.fixture(autouse=True)
def strict(on_every_backend):
    """Fast mathematics may contract and reassociate."""
    on_every_backend(fast_math=False)


TABLE = Path(__file__).parents[3] / "src" / "ir" / "builtins.def"
ROW = re.compile(r'^QD_(UNARY|BINARY)\(\s*(\w+),\s*(\w+),\s*(\w+),\s*"([^"]*)"', re.MULTILINE)
ROWS = ROW.findall(TABLE.read_text())
UNARY = [row[1:] for row in ROWS if row[0] == "UNARY" and row[1] not in ("mantissa", "exponent", "erf", "erfc")]
BINARY = [row[1:] for row in ROWS if row[0] == "BINARY" and row[1] != "ldexp"]
SYMBOLS = {
    "add": "x + y", "sub": "x - y", "mul": "x * y", "div": "x / y", "floor_div": "x // y", "mod": "x % y", "pow": "x ** y",
    "bit_and": "x & y", "bit_or": "x | y", "bit_xor": "x ^ y", "shl": "x << y", "shr": "x >> y", "lt": "x < y", "le": "x <= y",
    "gt": "x > y", "ge": "x >= y", "eq": "x == y", "ne": "x != y", "neg": "-x", "bit_not": "~x", "logical_not": "not x",
    **{name: f"qd.math.{name}(x)" for name in "atan sinh cosh exp2 log2 trunc isnan isinf popcnt clz ffs".split()},
}  # fmt: skip
TRANSCENDENTAL = set(
    "sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh exp exp2 log log2 log10 atan2 pow log1p expm1 asinh acosh atanh cbrt "
    "hypot".split()
)


def operand_types(operand: str) -> tuple[str, ...]:
    return ("u1", *INTEGERS) if operand == "Integer" else DTYPES


def promoted(left: np.dtype, right: np.dtype, numeric: bool) -> np.dtype:
    """The promotion rule of the language, written independently of the product."""
    bools = [dtype == np.bool_ for dtype in (left, right)]
    if all(bools):
        return np.dtype(np.int32) if numeric else left
    if any(bools):
        return right if bools[0] else left
    if left.kind == "f" or right.kind == "f":
        floats = [dtype for dtype in (left, right) if dtype.kind == "f"]
        return max(floats, key=lambda dtype: dtype.itemsize)
    return max((left, right), key=lambda dtype: (dtype.itemsize, dtype.kind == "u"))


def real(dtype: np.dtype) -> np.dtype:
    return dtype if dtype.kind == "f" else np.dtype(np.float32)


def convert(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return values != 0 if dtype == np.bool_ else values.astype(dtype)


def expected_binary(name: str, operand: str, result: str, numpy: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    left, right = x.dtype, y.dtype
    if operand == "Real":
        left, right = real(left), real(right)
    if result == "Left" or (result == "Power" and left.kind != "f" and right.kind != "f"):
        to_left = left if left != np.bool_ else (np.dtype(np.int32) if result == "Left" or right == np.bool_ else right)
        x = convert(x, to_left)
        if result == "Left":
            bits = to_left.itemsize * 8
            y = (y.astype(np.int64) % bits).astype(to_left)
    else:
        common = promoted(left, right, numeric=operand in ("Numeric", "Real"))
        if result == "RealPromoted":
            common = promoted(common, np.dtype(np.float32), numeric=True)
        x, y = convert(x, common), convert(y, common)
    if name == "pow" and x.dtype.kind != "f":
        bits = x.dtype.itemsize * 8
        mask = (1 << bits) - 1
        exact = [
            pow(int(a), int(b), 1 << bits) if b >= 0 else (int(a) ** (int(b) % 2 or 2) if abs(int(a)) == 1 else 0)
            for a, b in zip(x, y, strict=False)
        ]
        return np.array([value & mask for value in exact], np.uint64).astype(x.dtype)
    if name == "bit_shr":
        unsigned = np.dtype(f"u{x.dtype.itemsize}")
        return (x.view(unsigned) >> y.view(unsigned)).view(x.dtype)
    if name == "raw_div":
        return x / y if x.dtype.kind == "f" else np.floor_divide(x - np.fmod(x, y), y)
    if name in ("floor_div", "mod") and x.dtype.kind == "f":
        wide = np.result_type(x.dtype, np.float32)  # halves are computed as singles and rounded once
        a, b = x.astype(wide), y.astype(wide)
        return (np.floor(a / b) if name == "floor_div" else a - b * np.floor(a / b)).astype(x.dtype)
    return eval(numpy, {"np": np, "x": x, "y": y})


def out_dtype(values: np.ndarray) -> str:
    """Wide enough to show what type the result had."""
    return "f64" if values.dtype.kind == "f" else "u64" if values.dtype == np.uint64 else "i64"


def compare(name: str, got: np.ndarray, expected: np.ndarray, label: str) -> None:
    if name in TRANSCENDENTAL and expected.dtype.kind == "f":
        epsilon = 4 * np.finfo(expected.dtype).eps
        np.testing.assert_allclose(got, expected.astype(np.float64), rtol=epsilon, atol=epsilon * 1e-3, err_msg=label)
    else:
        np.testing.assert_array_equal(got, expected.astype(got.dtype), err_msg=label)


def launch(expression: str, cases: list[tuple[list[np.ndarray], list[str], str]]) -> list[np.ndarray]:
    """The values of an expression for several types, computed by one kernel with a loop for each."""
    signature, body, arguments, results = [], [], [], []
    for number, (operands, names, out) in enumerate(cases):
        kinds = dict(zip([f"{letter}{number}" for letter in "xy"], names, strict=False)) | {f"out{number}": out}
        signature += [f"{name}: qd.types.ndarray(dtype=qd.{dtype}, ndim=1)" for name, dtype in kinds.items()]
        indexed = re.sub(r"\b([xy])\b", rf"\g<1>{number}[i]", expression)
        body += [f"    for i in x{number}:", f"        out{number}[i] = {indexed}"]
        results.append(np.zeros(len(operands[0]), NUMPY[out]))
        arguments += [*operands, results[-1]]
    module = define("\n".join(["@qd.kernel", f"def k({', '.join(signature)}):", *body, ""]))
    module["k"](*arguments)
    return results


BINARY_CASES = [(*row, left) for row in BINARY for left in operand_types(row[1])]


@pytest.mark.parametrize("name, operand, result, numpy, left", BINARY_CASES, ids=[f"{row[0]}-{row[-1]}" for row in BINARY_CASES])
def test_binary_operator_agrees_with_numpy(name, operand, result, numpy, left):
    expression = SYMBOLS.get(name, f"qd.{name}(x, y)")
    cases, wanted = [], []
    for right in operand_types(operand):
        x, y = pairs(left, right)
        if name == "pow":  # large float powers overflow in ways that differ between libraries
            y = np.clip(y, 0, 3) if y.dtype.kind == "f" else y
            x = np.abs(x) if x.dtype.kind == "f" else x
        with np.errstate(all="ignore"):
            expected = expected_binary(name, operand, result, numpy, x, y)
        keep = np.isfinite(expected) if expected.dtype.kind == "f" else np.full(expected.shape, True)
        cases.append(([x[keep], y[keep]], [left, right], out_dtype(expected)))
        wanted.append(expected[keep])
    for got, expected, ((x, y), (_, right), _) in zip(launch(expression, cases), wanted, cases, strict=True):
        compare(name, got, expected, f"{expression} of {left} and {right}: x = {x}, y = {y}")


@pytest.mark.parametrize("name, operand, result, numpy", UNARY, ids=[row[0] for row in UNARY])
def test_unary_operator_agrees_with_numpy(name, operand, result, numpy):
    for dtype in operand_types(operand)[name == "clz" :]:  # u1 has no width to count in
        x = edge_values(dtype)
        source = x.astype(real(x.dtype)) if operand == "Real" else x.astype(np.int32) if operand == "Numeric" and dtype == "u1" else x
        with np.errstate(all="ignore"):
            if name in ("popcnt", "clz", "ffs"):
                width = 1 if dtype == "u1" else 8 * x.dtype.itemsize
                bits = [int(value) & ((1 << width) - 1) for value in x]
                answer = {"popcnt": int.bit_count, "clz": lambda b: width - b.bit_length(), "ffs": lambda b: (b & -b).bit_length()}[name]
                expected = np.array([answer(b) for b in bits], np.int32)
            else:
                expected = eval(numpy, {"np": np, "x": source})
        keep = np.isfinite(expected) & (np.abs(expected.astype(np.float64)) < 1e30)
        expression = SYMBOLS.get(name, f"qd.{name}(x)")
        (got,) = launch(expression, [([x[keep]], [dtype], out_dtype(expected))])
        compare(name, got, expected[keep], f"{expression} of {dtype}: x = {x[keep]}")


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("target", DTYPES)
def test_cast_agrees_with_c(source, target):
    x = edge_values(source)
    if x.dtype.kind == "f":
        limit = 127.0 if target in ("i8", "u8") else 1e4
        x = x[np.abs(x) <= limit]
    if target == "u1":
        expected = x != 0
    elif x.dtype.kind == "f" and target not in FLOATS:
        expected = np.trunc(x).astype(np.int64).astype(NUMPY[target])
    else:
        with np.errstate(over="ignore"):
            expected = x.astype(NUMPY[target])
    (got,) = launch(f"qd.cast(x, qd.{target})", [([x], [source], out_dtype(expected))])
    np.testing.assert_array_equal(got, expected.astype(got.dtype))


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("target", INTEGERS)
def test_floats_outside_the_range_of_an_integer_saturate(source, target):
    with np.errstate(over="ignore"):
        x = np.array([np.nan, np.inf, -np.inf, 300.0, -1.5, 65504.0, 3e9, -3e9, 5e9, 1e19, -1e19, 1e30, 2.0**63, 2.0**64], NUMPY[source])
    bits = int(target[1:])
    low, high = (-(2**31), 2**31 - 1) if bits < 32 or target == "i32" else (-(2**63), 2 ** (63 + (target == "u64")) - 1)
    whole = [0 if np.isnan(value) else int(max(low, min(float(value), high))) for value in x]
    expected = np.array([value % 2**bits for value in whole], np.uint64).astype(NUMPY[target])
    (got,) = launch(f"qd.cast(x, qd.{target})", [([x], [source], target)])
    np.testing.assert_array_equal(got, expected)


def substituted(expression: str, **texts: str) -> str:
    """The expression with texts in place of its operands."""
    return re.sub(r"\b([xy])\b", lambda found: texts.get(found[1], found[1]), expression)


def element_of(shape: tuple[int, ...], dtype: str) -> str:
    """The annotation of an array of vectors or matrices."""
    return f"qd.types.ndarray(qd.types.{'vector' if len(shape) == 1 else 'matrix'}({', '.join(map(str, shape))}, qd.{dtype}), 1)"


def shaped(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """As many elements of a shape as the values fill, the last one padded with the first value."""
    size = int(np.prod(shape))
    return np.resize(values, (-(-len(values) // size), *shape))


@pytest.mark.parametrize("shape", [(3,), (2, 2)], ids=["vector", "matrix"])
@pytest.mark.parametrize("name, operand, result, numpy", BINARY, ids=[row[0] for row in BINARY])
def test_binary_operator_works_on_each_component(name, operand, result, numpy, shape):
    """Two elements of one type, and an element with a scalar on either side, give what the components give."""
    expression = SYMBOLS.get(name, f"qd.{name}(x, y)")
    for dtype in operand_types(operand):
        x, y = pairs(dtype, dtype)
        if name == "pow":
            y = np.clip(y, 0, 3) if y.dtype.kind == "f" else y
            x = np.abs(x) if x.dtype.kind == "f" else x
        x, y = shaped(x, shape), shaped(y, shape)
        with np.errstate(all="ignore"):
            expected = expected_binary(name, operand, result, numpy, x.ravel(), y.ravel())
            first = expected_binary(name, operand, result, numpy, x.ravel(), np.repeat(y.reshape(len(y), -1)[:, 0], np.prod(shape)))
        out = out_dtype(expected)
        outs = [np.zeros(x.shape, NUMPY[out]) for _ in range(2)]
        kinds = {"x": dtype, "y": dtype, "a": out, "b": out}
        signature = ", ".join(f"{letter}: {element_of(shape, kind)}" for letter, kind in kinds.items())
        scalar = f"y[i][{', '.join('0' * len(shape))}]"
        lines = ["    for i in x:", f"        a[i] = {substituted(expression, x='x[i]', y='y[i]')}"]
        lines.append(f"        b[i] = {substituted(expression, x='x[i]', y=scalar)}")
        define("\n".join(["@qd.kernel", f"def k({signature}):", *lines, ""]))["k"](x, y, *outs)
        for got, wanted in zip(outs, (expected, first), strict=True):
            keep = np.isfinite(wanted) if wanted.dtype.kind == "f" else np.full(wanted.shape, True)
            compare(name, got.ravel()[keep], wanted[keep], f"{expression} of {dtype}")


@pytest.mark.parametrize("shape", [(3,), (2, 2)], ids=["vector", "matrix"])
@pytest.mark.parametrize("name, operand, result, numpy", UNARY, ids=[row[0] for row in UNARY])
def test_unary_operator_works_on_each_component(name, operand, result, numpy, shape):
    expression = SYMBOLS.get(name, f"qd.{name}(x)")
    for dtype in operand_types(operand)[name == "clz" :]:
        x = shaped(edge_values(dtype), shape)
        whole, parts = np.zeros(x.shape), np.zeros(x.size)
        signature = f"x: {element_of(shape, dtype)}, w: {element_of(shape, 'f64')}, "
        signature += f"s: qd.types.ndarray(qd.{dtype}, 1), p: qd.types.ndarray(qd.f64, 1)"
        lines = ["    for i in x:", f"        w[i] = {substituted(expression, x='x[i]')}"]
        lines += ["    for i in s:", f"        p[i] = {substituted(expression, x='s[i]')}"]
        define("\n".join(["@qd.kernel", f"def k({signature}):", *lines, ""]))["k"](x, whole, x.ravel(), parts)
        keep = np.isfinite(parts)
        np.testing.assert_allclose(
            whole.ravel()[keep], parts[keep], rtol=1e-6 if dtype != "f16" else 1e-2, err_msg=f"{expression} of {dtype}"
        )


CONTAINERS = {
    "field": "qd.field(qd.{0}, shape=9)",
    "ndarray": "qd.ndarray(qd.{0}, shape=9)",
    "0-d field": "qd.field(qd.{0}, shape=())",
    "vector field": "qd.Vector.field(2, qd.{0}, shape=9)",
    "vector ndarray": "qd.Vector.ndarray(2, qd.{0}, shape=9)",
    "matrix field": "qd.Matrix.field(2, 3, qd.{0}, shape=9)",
    "matrix ndarray": "qd.Matrix.ndarray(2, 3, qd.{0}, shape=9)",
    "field of structs": "qd.Struct.field({{'pad': qd.i8, 'v': qd.{0}}}, shape=9).v",
    "field of structs, apart": "qd.Struct.field({{'pad': qd.i8, 'v': qd.types.vector(2, qd.{0})}}, shape=9, layout=qd.Layout.SOA).v",
}


@pytest.mark.parametrize("maker", CONTAINERS.values(), ids=CONTAINERS.keys())
@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_of_every_container_keep_their_values_in_kernels(dtype, maker):
    import quadrants as qd

    source, copy = (eval(maker.format(dtype), {"qd": qd}) for _ in range(2))
    values = np.resize(edge_values(dtype), source.to_numpy().shape)
    source.from_numpy(values)
    annotation = "qd.types.ndarray()" if "ndarray" in maker else "qd.template()"
    body = "    for I in qd.grouped(x):\n        y[I] = x[I]\n"
    define(f"@qd.kernel\ndef k(x: {annotation}, y: {annotation}):\n{body}")["k"](source, copy)
    np.testing.assert_array_equal(copy.to_numpy(), values)


@pytest.mark.parametrize("digits", [0, 1, 3])
def test_round_to_digits(digits):
    for value in (2.34567, -7.00049, 0.0, 1234.75):
        assert evaluate(f"round(x, {digits})", "qd.f64", x=("qd.f64", value)) == pytest.approx(round(value, digits), abs=1e-12)
    assert evaluate(f"round(n, {digits})", n=("qd.i32", 123456789)) == 123456789
