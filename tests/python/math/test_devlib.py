"""The device library against NumPy in higher precision: accuracy, special values, integer rules, random numbers."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import mpmath
import numpy as np
import pytest

ROOT = Path(__file__).parents[3]
LANES = (1, 4, 16)
FLOATS = {"f32": (np.float32, np.float64, 2.0), "f64": (np.float64, np.longdouble, 1.0)}
INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
SAMPLES = 1 << 16


class Library:
    """The routines for one number of lanes, called over arrays."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path))

    def call(self, name: str, *operands: np.ndarray, scalars: tuple = (), dtype: type | None = None, results: int = 1) -> np.ndarray:
        count = len(operands[0])
        whole = -(-count // 16) * 16
        arrays = [np.concatenate([x, np.resize(x[:1], whole - count)]) for x in operands]
        result = np.empty(results * whole, dtype or arrays[0].dtype)
        pointers = [ctypes.c_void_p(x.ctypes.data) for x in (result, *arrays)]
        getattr(self.library, f"run_{name}")(ctypes.c_int64(whole), *pointers, *scalars)
        return result[:count] if results == 1 else result.reshape(results, whole)[:, :count]


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Library]:
    """The sources compiled for this CPU without a C library, so that a call of one would not link."""
    folder = tmp_path_factory.mktemp("devlib")
    flags = ["-std=c++20", "-O2", "-march=native", "-ffreestanding", "-fno-builtin", "-fno-exceptions", "-fno-rtti"]
    flags += ["-fno-math-errno", "-ffp-contract=off", "-fwrapv", "-Wno-psabi", "-fPIC", "-shared", "-nostdlib", "-Wl,-z,defs"]
    flags += ["-fno-vectorize", "-fno-slp-vectorize", "-I", str(ROOT / "src"), str(Path(__file__).with_name("devlib_harness.cpp"))]
    if not shutil.which("clang++-22"):
        pytest.skip("needs clang++-22")
    for lanes in LANES:
        subprocess.run(["clang++-22", *flags, f"-DQD_DEVLIB_LANES={lanes}", "-o", str(folder / f"{lanes}.so")], check=True)
    return {lanes: Library(folder / f"{lanes}.so") for lanes in LANES}


@pytest.fixture(params=LANES, ids=lambda lanes: f"x{lanes}")
def library(request: pytest.FixtureRequest, libraries: dict[int, Library]) -> Library:
    return libraries[request.param]


def ulps(got: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Distance to the wanted value in units of the last place of the result's type; infinite where one is NaN alone or a sign is wrong."""
    info = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        rounded = wanted.astype(got.dtype)
        # An overflow is as far away as the largest number's successor.
        exponent = np.frexp(np.where(np.isfinite(wanted), np.abs(wanted), 1))[1] - 1
        unit = np.ldexp(wanted.dtype.type(1), np.maximum(exponent, info.minexp) - info.nmant)
        limit = wanted.dtype.type(2) ** info.maxexp
        finite = np.clip(np.where(np.isinf(got), np.copysign(limit, got.astype(wanted.dtype)), got), -limit, limit)
        distance = np.abs(finite - np.clip(wanted, -limit, limit)) / unit
    distance = np.where(np.isnan(got) & np.isnan(wanted), 0, distance)
    distance = np.where((rounded == 0) & (got == 0) & (np.signbit(rounded) != np.signbit(got)), np.inf, distance)
    return np.where(np.isnan(distance), np.inf, distance).astype(float)


def random_bits(dtype: type, count: int = SAMPLES) -> np.ndarray:
    """Every kind of float: all exponents, denormals, infinities, NaNs."""
    words = {np.float32: np.uint32, np.float64: np.uint64}[dtype]
    return np.random.default_rng(7).integers(0, np.iinfo(words).max, count, dtype=words, endpoint=True).view(dtype)


def edges(dtype: type) -> np.ndarray:
    info = np.finfo(dtype)
    values = [0, info.smallest_subnormal, info.tiny / 2, info.tiny, info.eps, 0.25, 0.5, 0.75, 1, 1 + info.eps, 1.5, 2, 3, 4, 1e3, 1e9]
    values += [info.max, np.inf, np.nan, np.nextafter(dtype(0.5), dtype(0)), np.nextafter(dtype(1), dtype(0)), 88.5, 103.5, 126.5, 709.5]
    return np.array(values + [-x for x in values], dtype)


def spread(dtype: type, *intervals: tuple[float, float]) -> np.ndarray:
    """Random bits, edges, and evenly random numbers of each interval."""
    generator = np.random.default_rng(11)
    parts = [generator.uniform(low, high, SAMPLES).astype(dtype) for low, high in intervals]
    return np.concatenate([edges(dtype), random_bits(dtype), *parts])


def near_multiples(dtype: type) -> np.ndarray:
    """The floats next to multiples of pi/2, where a reduction of the angle loses most."""
    k = np.random.default_rng(3).integers(1, 1 << 28, SAMPLES)
    return (k * (np.longdouble("1.57079632679489661923132169163975144"))).astype(dtype)


UNARY = {
    "sin": (np.sin, [(-10, 10), (-1e5, 1e5), (-1e8, 1e8)]),
    "cos": (np.cos, [(-10, 10), (-1e5, 1e5), (-1e8, 1e8)]),
    "tan": (np.tan, [(-10, 10), (-1e5, 1e5), (-1e8, 1e8)]),
    "fast_sin": (np.sin, [(-10, 10), (-1e5, 1e5), (-1e8, 1e8)]),
    "fast_cos": (np.cos, [(-10, 10), (-1e5, 1e5), (-1e8, 1e8)]),
    "asin": (np.arcsin, [(-1, 1)]),
    "acos": (np.arccos, [(-1, 1), (0.99, 1)]),
    "atan": (np.arctan, [(-3, 3), (-100, 100)]),
    "sinh": (np.sinh, [(-2, 2), (-90, 90), (-720, 720)]),
    "cosh": (np.cosh, [(-2, 2), (-90, 90), (-720, 720)]),
    "tanh": (np.tanh, [(-1, 1), (-25, 25)]),
    "exp": (np.exp, [(-2, 2), (-110, 90), (-750, 710)]),
    "exp2": (np.exp2, [(-2, 2), (-155, 130), (-1080, 1030)]),
    "log": (np.log, [(0, 4), (0.5, 1.5)]),
    "log2": (np.log2, [(0, 4), (0.5, 1.5)]),
    "log10": (np.log10, [(0, 4), (0.5, 1.5), (0, 1e6)]),
    "rsqrt": (lambda x: 1 / np.sqrt(x), [(0, 4)]),
    "log1p": (np.log1p, [(-1, 1), (-0.1, 0.1), (0, 100)]),
    "expm1": (np.expm1, [(-1, 1), (-0.1, 0.1), (-110, 90), (-750, 710)]),
    "asinh": (np.arcsinh, [(-1, 1), (-0.1, 0.1), (0.3, 0.4), (-100, 100)]),
    "acosh": (np.arccosh, [(1, 1.1), (1, 2), (1, 100)]),
    "atanh": (np.arctanh, [(-1, 1), (-0.1, 0.1), (0.1, 0.2)]),
    "cbrt": (np.cbrt, [(-3, 3), (-1000, 1000)]),
}


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("kind", FLOATS)
def test_function_stays_within_its_ulp_bound(library: Library, name: str, kind: str) -> None:
    dtype, wide, bound = FLOATS[kind]
    reference, intervals = UNARY[name]
    x = spread(dtype, *intervals)
    if "sin" in name or "cos" in name or name == "tan":
        x = np.concatenate([x, near_multiples(dtype)])
    with np.errstate(all="ignore"):
        error = ulps(library.call(f"{name}_{kind}", x), reference(x.astype(wide)))
    worst = np.argmax(error)
    assert error[worst] <= bound, f"{name}({x[worst]!r}) is {error[worst]} ulp off"


# Of millions of random arguments those with the largest errors, where other roundings and polynomials have more than 1 ulp.
HARD = {
    "expm1": "0x1.97de885bc0daap-2 0x1.984148fdafa46p-2 0x1.6acd3076a384ep-2 0x1.2969b8834475cp+5 -0x1.2b7p+5 -0x1.fp-60",
    "log1p": "-0x1.33cc8dee179eap-2 0x1.9dc17a2e5cf96p-2 0x1.171f19907c3a2p-53 0x1.fffffffffffffp+1023 -0x1.fffffffffffffp-1",
    "asinh": "0x1.008e79917422cp+0 0x1.026c531ff58c2p-2 -0x1.653d178fa47c8p-2 0x1.171f19907c3a2p-53 0x1p60 0x1.8p1023",
    "acosh": "0x1.07f1257360c02p+0 0x1.079cc1d7a8221p+0 0x1.0f568c22e918p+0 0x1.0000000000001p+0 0x1p60 0x1.8p1023",
    "atanh": "0x1.ee880ac5d9f2cp-4 0x1.7777cb2d70786p-1 -0x1.2265e3f92282fp-54 0x1.5b63865f10c7p-3 0x1.fffffffffffffp-1",
    "erf": "0x1.ffffffc3ed664p-1 -0x1.fb85558d20c0dp-1 0x1.c3c69bab20beep-12 0x1.8p+0 0x1.8p+2",
    "erfc": "0x1.f9147db6c88e6p-2 0x1.067b90d68a7d2p-1 0x1.a29de8dbdfefap-1 -0x1.8p-1 0x1.8p+4",
    "log10": "0x1.5526d591fc0c4p+0 0x1.f4p+9 0x1.999999999999ap-4 0x1p-1074 0x1.6a09e667f3bcdp+0",
}


@pytest.mark.parametrize("name", HARD)
def test_hard_doubles_stay_within_one_ulp(library: Library, name: str) -> None:
    x = np.array([float.fromhex(text) for text in HARD[name].split()])
    with mpmath.workdps(60):
        for value, got in zip(x, library.call(f"{name}_f64", x), strict=True):
            exact = getattr(mpmath, name)(mpmath.mpf(value))
            unit = mpmath.ldexp(1, max(mpmath.frexp(exact)[1] - 53, -1074))
            assert abs(mpmath.mpf(float(got)) - exact) <= unit, f"{name}({value.hex()})"


def test_sine_of_the_hardest_double(library: Library) -> None:
    """The double closest to a multiple of pi/2 (J.-M. Muller, Elementary Functions, 2nd edition, table 9.1)."""
    x = np.array([6381956970095103.0 * 2.0**797])
    assert library.call("cos_f64", x)[0] == -4.68716592425462761112e-19
    assert library.call("sin_f64", x)[0] == 1


def test_sine_of_the_hardest_float(library: Library) -> None:
    """The float closest to a multiple of pi/2 (the same table)."""
    x = np.array([16367173 * 2.0**72], np.float32)
    assert library.call("cos_f32", x)[0] == np.float32(-1.6147697982476211876e-9)
    assert library.call("sin_f32", x)[0] == 1


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("prefix", ["", "fast_"])
def test_sine_and_cosine_together_have_the_bits_of_each(library: Library, prefix: str, kind: str) -> None:
    dtype = FLOATS[kind][0]
    x = np.concatenate([spread(dtype, (-10, 10), (-1e5, 1e5)), near_multiples(dtype)])
    x[::16] = np.resize(spread(dtype, (-1e9, 1e9)), len(x[::16]))  # one lane of a vector is large
    both = library.call(f"{prefix}sin_cos_{kind}", x, results=2)
    for together, name in zip(both, ("sin", "cos"), strict=True):
        alone = library.call(f"{prefix}{name}_{kind}", x)
        assert np.array_equal(together, alone, equal_nan=True)
        assert np.array_equal(np.signbit(together), np.signbit(alone))


def operand_pairs(dtype: type) -> tuple[np.ndarray, np.ndarray]:
    special = edges(dtype)
    generator = np.random.default_rng(5)
    x = [np.repeat(special, len(special)), random_bits(dtype), generator.uniform(0, 4, SAMPLES), generator.uniform(0.9, 1.1, SAMPLES)]
    y = [np.tile(special, len(special)), random_bits(dtype)[::-1], generator.uniform(-5, 5, SAMPLES), generator.uniform(-99, 99, SAMPLES)]
    x.append(generator.uniform(-20, 20, SAMPLES))
    y.append(np.round(generator.uniform(-20, 20, SAMPLES)))
    return np.concatenate([a.astype(dtype) for a in x]), np.concatenate([a.astype(dtype) for a in y])


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("name, reference", [("pow", np.power), ("atan2", np.arctan2), ("hypot", np.hypot)])
def test_function_of_two_stays_within_its_ulp_bound(library: Library, name: str, reference: np.ufunc, kind: str) -> None:
    dtype, wide, bound = FLOATS[kind]
    x, y = operand_pairs(dtype)
    with np.errstate(all="ignore"):
        error = ulps(library.call(f"{name}_{kind}", x, y), reference(x.astype(wide), y.astype(wide)))
    worst = np.argmax(error)
    assert error[worst] <= bound, f"{name}({x[worst]!r}, {y[worst]!r}) is {error[worst]} ulp off"


@pytest.mark.parametrize("kind", FLOATS)
def test_integer_exponent_stays_within_the_ulp_bound_of_pow(library: Library, kind: str) -> None:
    dtype, wide, bound = FLOATS[kind]
    x = np.concatenate([spread(dtype, (-4, 4)), np.full(4, 1 + np.finfo(dtype).eps, dtype)])
    n = np.random.default_rng(2).integers(-40, 40, len(x)).astype(np.int32)
    n[-4:] = [2**31 - 1, -(2**31), 2**24 + 1, 0]
    with np.errstate(all="ignore"):
        error = ulps(library.call(f"powi_{kind}", x, n), np.power(x.astype(wide), n.astype(wide)))
    assert error.max() <= bound


@pytest.mark.parametrize("kind", FLOATS)
def test_round_takes_halves_away_from_zero(library: Library, kind: str) -> None:
    dtype = FLOATS[kind][0]
    halves = np.arange(-(2**15), 2**15).astype(dtype) + dtype(0.5)
    assert np.array_equal(library.call(f"round_{kind}", halves), np.trunc(halves + np.copysign(dtype(0.5), halves)))
    x = spread(dtype, (-3, 3))
    got = library.call(f"round_{kind}", x)
    with np.errstate(invalid="ignore"):
        whole = np.trunc(x)
        wanted = np.where(np.abs(x - whole) < 0.5, whole, whole + np.copysign(dtype(1), x))
    wanted = np.where(np.isfinite(x), wanted, x)
    assert np.array_equal(got, wanted, equal_nan=True)
    assert np.array_equal(np.signbit(got), np.signbit(x))


@pytest.mark.parametrize("kind", FLOATS)
def test_float_remainder_is_exact(library: Library, kind: str) -> None:
    x, y = operand_pairs(FLOATS[kind][0])
    with np.errstate(all="ignore"):
        wanted = np.fmod(x, y)
    got = library.call(f"raw_mod_{kind}", x, y)
    assert np.array_equal(got, wanted, equal_nan=True)
    assert np.array_equal(np.signbit(got[got == 0]), np.signbit(wanted[got == 0]))


@pytest.mark.parametrize("kind", FLOATS)
def test_float_floor_division_is_the_floor_of_the_quotient(library: Library, kind: str) -> None:
    x, y = operand_pairs(FLOATS[kind][0])
    with np.errstate(all="ignore"):
        quotient = np.floor(x / y)
        rest = x - y * quotient
    assert np.array_equal(library.call(f"floor_div_{kind}", x, y), quotient, equal_nan=True)
    assert np.array_equal(library.call(f"mod_{kind}", x, y), rest, equal_nan=True)


def integer_pairs(dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    info = np.iinfo(dtype)
    special = np.array([info.min, info.min + 1, 0, 1, 2, 3, 7, info.max - 1, info.max, *([-1, -2, -3, -7] if info.min else [])], dtype)
    generator = np.random.default_rng(13)
    wide = generator.integers(info.min, info.max, 2 * SAMPLES, dtype, endpoint=True)
    narrow = generator.integers(info.min // 2**4, info.max // 2**4, SAMPLES, dtype, endpoint=True)
    x = np.concatenate([np.repeat(special, len(special)), wide])
    return x, np.concatenate([np.tile(special, len(special)), narrow, generator.permutation(wide[:SAMPLES]) // 3])


def check_integer_division(library: Library, suffix: str, x: np.ndarray, y: np.ndarray) -> None:
    dtype = x.dtype
    with np.errstate(all="ignore"):
        floor, rest = np.floor_divide(x, y), np.remainder(x, y)
        floor, rest = np.where(y == 0, 0, floor).astype(dtype), np.where(y == 0, 0, rest).astype(dtype)
        raw_rest = np.where(y == 0, 0, np.fmod(x, y)).astype(dtype)
        raw = np.where((rest != 0) & ((x < 0) != (y < 0)), floor + dtype.type(1), floor).astype(dtype)
    for name, wanted in {"floor_div": floor, "mod": rest, "raw_div": raw, "raw_mod": raw_rest}.items():
        assert np.array_equal(library.call(f"{name}{suffix}", x, y), wanted), name


@pytest.mark.parametrize("kind", INTEGERS)
def test_integer_division_never_traps(library: Library, kind: str) -> None:
    check_integer_division(library, f"_{kind}", *integer_pairs(np.dtype(kind.replace("i", "int").replace("u", "uint"))))


@pytest.mark.parametrize("kind", [kind for kind in INTEGERS if "64" not in kind])
def test_division_by_an_integer_that_the_lanes_share(library: Library, kind: str) -> None:
    x, y = integer_pairs(np.dtype(kind.replace("i", "int").replace("u", "uint")))
    special, lanes = np.unique(x[:81]), max(LANES)
    y = np.repeat(y[: len(x) // lanes], lanes)
    x = x[-len(y) :].copy()
    x.reshape(-1, lanes)[::2, : len(special)] = special
    check_integer_division(library, f"_by_{kind}", x, y)
    # Multiples of the divisor and their neighbors are the closest to a wrong quotient.
    multiple, one = x - np.where(y == 0, 0, x % np.where(y == 0, 1, y)), x.dtype.type(1)
    for near in (multiple - one, multiple, multiple + one):
        check_integer_division(library, f"_by_{kind}", near, y)


@pytest.mark.parametrize("kind", INTEGERS)
def test_integer_power_wraps_and_truncates_reciprocals(library: Library, kind: str) -> None:
    dtype = np.dtype(kind.replace("i", "int").replace("u", "uint"))
    bits = dtype.itemsize * 8
    bases = [0, 1, 2, 3, 5, 10, 255 % 2**bits, *([-1, -2, -3] if kind[0] == "i" else [])]
    exponents = [0, 1, 2, 3, 5, 8, 31, 100, *([-1, -2, -3, -100] if kind[0] == "i" else [])]
    x = np.array([base for base in bases for _ in exponents]).astype(dtype)
    y = np.array(exponents * len(bases)).astype(dtype)

    def power(base: int, exponent: int) -> int:
        if exponent < 0:
            return {1: 1, -1: -1 if exponent % 2 else 1}.get(base, 0)
        return pow(base, exponent, 2**bits)

    wanted = np.array([power(int(a), int(b)) % 2**bits for a, b in zip(x, y, strict=True)], np.uint64).astype(dtype)
    assert np.array_equal(library.call(f"pow_{kind}", x, y), wanted)


PHILOX_ANSWERS = [  # counter, key, first two words: the known answers that come with the authors' own code
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0), (0xD16CFE09, 0x94FDCCEB)),
]


def draw(library: Library, kind: str, iteration: np.ndarray, call: int = 0, seed: int = 0, launch: int = 0, task: int = 0) -> np.ndarray:
    dtype = {"u32": np.uint32, "u64": np.uint64, "f32": np.float32, "f64": np.float64}[kind]
    calls = np.full(len(iteration), call, np.uint32)
    scalars = (ctypes.c_uint64(seed), ctypes.c_uint64(launch), ctypes.c_uint32(task))
    return library.call(f"random_{kind}", iteration.astype(np.uint64), calls, scalars=scalars, dtype=dtype)


@pytest.mark.parametrize("counter, key, words", PHILOX_ANSWERS)
def test_random_words_are_philox(library: Library, counter: tuple, key: tuple, words: tuple) -> None:
    iteration = np.array([counter[0] | counter[1] << 32], np.uint64)
    assert draw(library, "u32", iteration, counter[2], key[0], key[1], counter[3])[0] == words[0]
    assert draw(library, "u64", iteration, counter[2], key[0], key[1], counter[3])[0] == words[0] | words[1] << 32


def test_random_floats_are_uniform_multiples_below_one(library: Library) -> None:
    iteration = np.arange(1 << 18)
    for kind, bits in (("f32", 24), ("f64", 53)):
        x = draw(library, kind, iteration, seed=4, launch=2).astype(np.float64)
        assert x.min() >= 0 and x.max() < 1
        assert np.array_equal(x * 2**bits, np.floor(x * 2**bits))
        for power in (1, 2, 3):
            assert abs(np.mean(x**power) * (power + 1) - 1) < 0.01
        assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.01


def test_every_argument_changes_the_random_numbers(library: Library) -> None:
    iteration = np.arange(64)
    changes = [{}, {"call": 1}, {"seed": 1}, {"launch": 1}, {"task": 1}, {"seed": 1 << 32}, {"launch": 1 << 32}]
    draws = [draw(library, "u64", iteration, **change) for change in changes] + [draw(library, "u64", iteration + (1 << 32))]
    assert len(np.unique(np.concatenate(draws))) == 64 * len(draws)


@pytest.mark.parametrize("kind", FLOATS)
def test_lanes_do_not_see_each_other(libraries: dict[int, Library], kind: str) -> None:
    """A lane that takes a cold path leaves the bits of its neighbors alone: any number of lanes gives the same results."""
    dtype = FLOATS[kind][0]
    for name in UNARY:
        usual = np.random.default_rng(1).uniform(-2, 2, SAMPLES).astype(dtype)
        x = np.where(np.arange(SAMPLES) % 16 == 3, random_bits(dtype), usual)
        one, *others = (library.call(f"{name}_{kind}", x) for library in libraries.values())
        assert all(np.array_equal(one, other, equal_nan=True) for other in others), name
    for name in ("pow", "atan2", "raw_mod"):
        x, y = operand_pairs(dtype)
        one, *others = (library.call(f"{name}_{kind}", x, y) for library in libraries.values())
        assert all(np.array_equal(one, other, equal_nan=True) for other in others), name


def test_f64_in_integers_is_that_of_the_processor(tmp_path: Path) -> None:
    """What devices without f64 compute with: a million random operands, half of them special."""
    if not shutil.which("clang++-22"):
        pytest.skip("needs clang++-22")
    program, source = str(tmp_path / "compare"), str(Path(__file__).with_name("compare_doubles.cpp"))
    flags = ["-std=c++20", "-O2", "-ffp-contract=off", "-DQD_DEVLIB_LANES=1", "-I", str(ROOT / "src")]
    subprocess.run(["clang++-22", *flags, source, "-o", program], check=True, timeout=120)
    done = subprocess.run([program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
