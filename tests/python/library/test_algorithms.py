"""Parallel algorithms in kernels, against NumPy."""

import numpy as np
import pytest

import quadrants as qd
from quadrants import algorithms

Array = qd.types.ndarray(ndim=1)
TYPES = ["i32", "u32", "f32", "i64", "u64", "f64", "i8", "u16"]
SORTED = ["i32", "u32", "f32", "i64", "u64", "f64", "i16", "u16", "f16", "i8", "u8"]
LENGTHS = [0, 1, 255, 256, 257, 1024, 1025, 65537]


@pytest.fixture(params=["cpu", "python"], autouse=True)
def backend(request):
    qd.init(arch=getattr(qd, request.param), offline_cache=False, log_level="error")
    yield request.param
    qd.reset()


@qd.kernel
def call_fold(arr: Array, out: Array, scratch: Array, n: qd.i32, algorithm: qd.template(), dtype: qd.template(), depth: qd.template()):
    algorithm(arr, out, scratch, n, dtype, depth)


@qd.kernel
def call_sort(
    keys: Array,
    tmp_keys: Array,
    values: Array,
    tmp_values: Array,
    scratch: Array,
    n: qd.types.ndarray(ndim=0),
    dtype: qd.template(),
    has_values: qd.template(),
    end_bit: qd.template(),
):
    algorithms.sort(keys, tmp_keys, values, tmp_values, scratch, n, dtype, has_values, end_bit, 4)


@qd.kernel
def call_select(arr: Array, flags: Array, out: Array, count: Array, scratch: Array, n: qd.i32):
    algorithms.select(arr, flags, out, count, scratch, n, 4)


@qd.kernel
def call_by_key(
    keys: Array,
    values: Array,
    keys_out: Array,
    values_out: Array,
    runs: Array,
    scratch: Array,
    n: qd.i32,
    algorithm: qd.template(),
    dtype: qd.template(),
):
    algorithm(keys, values, keys_out, values_out, runs, scratch, n, dtype, 4)


def numpy_type(name):
    return np.dtype({"i": "int", "u": "uint", "f": "float"}[name[0]] + name[1:])


def make_values(name, length, seed=1):
    dtype = numpy_type(name)
    rng = np.random.default_rng([seed, length])
    if dtype.kind == "f":
        return (rng.standard_normal(length) * 1000).astype(dtype)
    return rng.integers(np.iinfo(dtype).min // 4, np.iinfo(dtype).max // 4, length, dtype=dtype)


def lengths_for(backend):
    return LENGTHS if backend == "cpu" else [length for length in LENGTHS if length <= 1025]


def scratch_for(name, slots):
    return np.full(slots, 77, np.uint64 if name.endswith("64") else np.uint32)


def check_folds(results, expected, additions, magnitudes):
    """Integers, minima and maxima are exact. Each addition of floats rounds, by half an epsilon of at most the sum of the magnitudes."""
    if magnitudes is None or results.dtype.kind != "f":
        assert (results == expected).all()
    else:
        errors = np.abs(results.astype(np.longdouble) - expected)
        assert (errors <= np.multiply(additions, np.finfo(results.dtype).eps * magnitudes)).all(), errors.max()


def count_additions(length):
    """The most additions on the way of an element into a fold of so many: along its block, then over the blocks."""
    block = max(-(-length // 1024), 256)
    return block + -(-length // block)


def accumulate(fold, values):
    """The running fold, and the sums of magnitudes where it is one of floats."""
    if fold is not np.add or values.dtype.kind != "f":
        return fold.accumulate(values, dtype=values.dtype), None
    return np.cumsum(values.astype(np.longdouble)), np.cumsum(np.abs(values.astype(np.longdouble)))


@pytest.mark.parametrize("name", TYPES)
def test_reductions(backend, name):
    folds = {algorithms.reduce_add: np.add, algorithms.reduce_min: np.minimum, algorithms.reduce_max: np.maximum}
    for length in lengths_for(backend):
        values = make_values(name, length + 3)
        for algorithm, expected in folds.items():
            out = np.zeros(1, values.dtype)
            call_fold(values, out, scratch_for(name, algorithms.reduce_scratch_slots(length)), length, algorithm, getattr(qd, name), 4)
            if length:
                wanted, magnitudes = accumulate(expected, values[:length])
                check_folds(out, wanted[-1], count_additions(length), None if magnitudes is None else magnitudes[-1])


@pytest.mark.parametrize("name", TYPES)
def test_reductions_of_nothing_give_the_identity(name):
    values = make_values(name, 1)
    limits = np.finfo(values.dtype) if name[0] == "f" else np.iinfo(values.dtype)
    expected = {algorithms.reduce_add: 0, algorithms.reduce_min: limits.max, algorithms.reduce_max: limits.min}
    if name[0] == "f":
        expected |= {algorithms.reduce_min: np.inf, algorithms.reduce_max: -np.inf}
    for algorithm, identity in expected.items():
        out = np.full(1, 5, values.dtype)
        call_fold(values, out, scratch_for(name, 1), 0, algorithm, getattr(qd, name), 1)
        assert out[0] == identity


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("operation, fold", [("add", np.add), ("min", np.minimum), ("max", np.maximum)])
def test_scans(backend, name, operation, fold):
    for length in lengths_for(backend):
        values = make_values(name, max(length, 1))
        expected, magnitudes = accumulate(fold, values[:length]) if length else (values[:0], None)
        scratch = scratch_for(name, algorithms.exclusive_scan_scratch_slots(length))
        out = np.zeros_like(values)
        call_fold(values, out, scratch, length, getattr(algorithms, f"exclusive_scan_{operation}"), getattr(qd, name), 4)
        check_folds(out[1:length], expected[:-1], count_additions(length), None if magnitudes is None else magnitudes[:-1])
        call_fold(values, values, scratch, length, getattr(algorithms, f"inclusive_scan_{operation}"), getattr(qd, name), 4)
        check_folds(values[:length], expected, count_additions(length), magnitudes)


def sort_arrays(keys, values, name, end_bit=None):
    arrays = keys.copy(), np.zeros_like(keys), values.copy(), np.zeros_like(values)
    scratch = np.zeros(algorithms.sort_scratch_slots(len(keys)), np.uint32)
    call_sort(*arrays, scratch, np.array(len(keys), np.int32), getattr(qd, name), True, end_bit or 8 * keys.itemsize)
    return arrays[0], arrays[2]


@pytest.mark.parametrize("name", SORTED)
def test_sort_is_stable(backend, name):
    for length in lengths_for(backend)[1:] if backend == "cpu" else [1, 300]:
        keys = make_values(name, length)
        keys[length // 2 :] = keys[: length - length // 2]
        order = np.argsort(keys, kind="stable")
        sorted_keys, values = sort_arrays(keys, np.arange(length, dtype=np.int32), name)
        assert np.array_equal(sorted_keys, keys[order])
        assert np.array_equal(values, order)


def test_sort_orders_floats_by_their_bits():
    keys = np.array([np.nan, 1.0, 0.0, -0.0, -np.inf, -np.nan, np.inf, -2.5], np.float32)
    found, _ = sort_arrays(keys, np.arange(8, dtype=np.int32), "f32")
    assert [str(key) for key in found] == ["nan", "-inf", "-2.5", "-0.0", "0.0", "1.0", "inf", "nan"]
    assert list(np.signbit(found)) == [True, True, True, True, False, False, False, False]


def test_sort_by_the_low_bits():
    keys = np.array([0x30002, 0x10003, 0x20001], np.uint32)
    assert list(sort_arrays(keys, np.arange(3, dtype=np.int32), "u32", 16)[1]) == [2, 0, 1]


def test_an_odd_number_of_digits():
    keys = np.array([0x50302, 0x50301, 0x1000003], np.uint32)
    assert list(sort_arrays(keys, np.arange(3, dtype=np.int32), "u32", 8)[1]) == [1, 0, 2]
    found, order = sort_arrays(keys, np.arange(3, dtype=np.int32), "u32", 24)
    assert list(order) == [2, 1, 0] and list(found) == list(keys[[2, 1, 0]])
    for end_bit in (0, 12, 40):
        with pytest.raises(qd.QuadrantsCompilationError, match="end_bit must be a multiple of 8 from 8 to the 32 bits"):
            sort_arrays(keys, np.arange(3, dtype=np.int32), "u32", end_bit or -8)


def test_select_keeps_the_order_and_the_tail(backend):
    for length in lengths_for(backend):
        values = make_values("f64", length + 1)
        flags = np.random.default_rng(length).integers(0, 2, length + 1).astype(np.int32)
        out, count = np.full(length + 1, -7.0), np.zeros(1, np.int32)
        call_select(values, flags, out, count, np.zeros(algorithms.select_scratch_slots(length), np.uint32), length)
        chosen = values[:length][flags[:length] == 1]
        assert count[0] == len(chosen)
        assert np.array_equal(out[: len(chosen)], chosen)
        assert (out[len(chosen) :] == -7.0).all()


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("operation, fold", [("add", np.add), ("min", np.minimum), ("max", np.maximum)])
def test_reductions_by_key(backend, name, operation, fold):
    for length in [1, 2, 256, 257, 1500, *([70001] if backend == "cpu" else [])]:
        runs = np.random.default_rng(length).integers(1, 900 if length > 1000 else 6, length)
        keys = np.repeat(np.arange(length, dtype=np.int32), runs)[:length]
        values = (make_values(name, length) % 100).astype(numpy_type(name))
        keys_out, values_out, count = np.zeros_like(keys), np.zeros_like(values), np.zeros(1, np.int32)
        scratch = np.zeros(algorithms.reduce_by_key_scratch_slots(length), np.uint32)
        algorithm = getattr(algorithms, f"reduce_by_key_{operation}")
        call_by_key(keys, values, keys_out, values_out, count, scratch, length, algorithm, getattr(qd, name))
        unique, first = np.unique(keys, return_index=True)
        assert count[0] == len(unique)
        assert np.array_equal(keys_out[: len(unique)], unique)
        sums = fold is np.add and values.dtype.kind == "f"
        exact = values.astype(np.longdouble) if sums else values
        magnitudes = np.add.reduceat(np.abs(exact), first) if sums else None
        lengths = np.diff([*first, length])
        check_folds(values_out[: len(unique)], fold.reduceat(exact, first, dtype=exact.dtype), lengths, magnitudes)


def test_nan_keys_are_runs_of_their_own():
    keys = np.array([1.0, np.nan, np.nan, 2.0, 2.0], np.float32)
    values, runs = np.ones(5, np.int32), np.zeros(1, np.int32)
    keys_out, values_out = np.zeros_like(keys), np.zeros_like(values)
    call_by_key(keys, values, keys_out, values_out, runs, np.zeros(5, np.uint32), 5, algorithms.reduce_by_key_add, qd.i32)
    assert runs[0] == 4
    assert list(values_out) == [1, 1, 1, 2, 0]


@pytest.mark.parametrize(
    "function, values",
    [
        ("reduce_scratch_slots", {0: 1, 256: 1, 257: 2, 65537: 259, 10**6: 3923}),
        ("exclusive_scan_scratch_slots", {0: 1, 256: 1, 257: 2, 65537: 259, 10**6: 3923}),
        ("select_scratch_slots", {0: 1, 1: 2, 257: 259, 65537: 65796, 10**6: 1003923}),
        ("reduce_by_key_scratch_slots", {0: 1, 256: 256, 257: 259, 65537: 65796, 10**6: 1003923}),
        ("sort_scratch_slots", {0: 1, 1: 256, 257: 514, 65537: 66051, 10**6: 1004115}),
    ],
)
def test_scratch_sizes(function, values):
    assert {n: getattr(algorithms, function)(n) for n in values} == values


def test_scratch_sizes_of_a_given_depth():
    assert algorithms.reduce_scratch_slots(256, 3) == 2
    assert algorithms.exclusive_scan_scratch_slots(65536, 3) == 257
    assert algorithms.sort_scratch_slots(1, 3) == 258

    @qd.kernel
    def count(n: qd.i32) -> qd.i32:
        return algorithms.sort_scratch_slots(n, 3)

    assert count(65537) == algorithms.sort_scratch_slots(65537, 3)


def test_depths_that_are_none():
    with pytest.raises(TypeError, match="log256_max_n"):
        algorithms.reduce_scratch_slots(10, 2.0)
    with pytest.raises(ValueError, match="log256_max_n"):
        algorithms.sort_scratch_slots(10, 5)


def test_bad_arguments_in_kernels():
    values = np.zeros(4, np.float32)
    with pytest.raises(qd.QuadrantsCompilationError, match="ValueError.*: log256_max_n"):
        call_fold(values, values, np.zeros(4, np.uint32), 4, algorithms.reduce_add, qd.f32, 5)
    with pytest.raises(qd.QuadrantsCompilationError, match="NotImplementedError.*: dtype must be one of"):
        call_fold(values, values, np.zeros(4, np.uint32), 4, algorithms.reduce_add, qd.u1, 1)


def test_algorithms_are_called_at_the_top_level(backend):
    if backend == "python":
        pytest.skip("the interpreter has no tasks")

    @qd.kernel
    def nested(arr: Array, scratch: Array, n: qd.i32):
        if n > 1:
            algorithms.reduce_add(arr, arr, scratch, n, qd.f32, 1)

    with pytest.raises(qd.QuadrantsSyntaxError, match="requires_top_level"):
        nested(np.zeros(4, np.float32), np.zeros(4, np.uint32), 4)


def test_parallel_sort_of_fields():
    keys, values = qd.field(qd.f32, 300), qd.field(qd.i32, 300)
    data = np.random.default_rng(3).permutation(300).astype(np.float32)
    keys.from_numpy(data)
    values.from_numpy(np.arange(300, dtype=np.int32))
    with pytest.warns(DeprecationWarning, match="sort"):
        algorithms.parallel_sort(keys, values)
    assert np.array_equal(keys.to_numpy(), np.arange(300))
    assert np.array_equal(data[values.to_numpy()], np.arange(300))
    with pytest.warns(DeprecationWarning), pytest.raises(qd.QuadrantsRuntimeTypeError):
        algorithms.parallel_sort(qd.ndarray(qd.f32, 4))


@pytest.mark.parametrize("name", ["i32", "f64"])
def test_prefix_sums_of_fields(name):
    field = qd.field(getattr(qd, name), 700)
    field.from_numpy(np.arange(700, dtype=numpy_type(name)))
    with pytest.warns(DeprecationWarning, match="exclusive_scan_add"):
        executor = algorithms.PrefixSumExecutor(700)
    executor.run(field)
    assert np.array_equal(field.to_numpy(), np.cumsum(np.arange(700)))


@pytest.fixture
def debug(backend):
    qd.init(arch=getattr(qd, backend), offline_cache=False, log_level="error", debug=True)


@pytest.mark.needs("deep nesting")
def test_debug_mode_checks_numbers_and_lengths(debug):
    def ints(length):
        return np.arange(length, dtype=np.int32)

    def fold(n, length, slots, depth, algorithm=algorithms.reduce_add, results=300):
        call_fold(ints(length), ints(results), np.zeros(slots, np.uint32), n, algorithm, qd.i32, depth)

    fold(300, 300, 2, 2)
    fold(300, 300, 2, 2, algorithms.exclusive_scan_add)
    with pytest.raises(AssertionError, match="reduce: scratch has 1 elements, and needs 2"):
        fold(300, 300, 1, 2)
    with pytest.raises(AssertionError, match=r"reduce: n is 300, more than 256\*\*1"):
        fold(300, 300, 2, 1)
    with pytest.raises(AssertionError, match="reduce: n is -1, less than 0"):
        fold(-1, 300, 2, 1)
    with pytest.raises(AssertionError, match="reduce: arr has 299 elements, but n is 300"):
        fold(300, 299, 2, 2)
    with pytest.raises(AssertionError, match="scan: out has 299 elements, but n is 300"):
        fold(300, 300, 2, 2, algorithms.inclusive_scan_max, results=299)


@pytest.mark.needs("deep nesting")
@pytest.mark.parametrize("length", [200, 300])
def test_debug_mode_checks_scratch_memory(debug, length):
    def scratch(slots):
        return np.zeros(slots, np.uint32)

    ints, count = np.zeros(length, np.int32), np.zeros(1, np.int32)
    for slots in (algorithms.sort_scratch_slots(length, 4), algorithms.sort_scratch_slots(length)):
        arguments = ints, ints.copy(), ints, ints.copy(), scratch(slots), np.array(length, np.int32), qd.i32, False, 32
        call_sort(*arguments)
    with pytest.raises(AssertionError, match="sort: scratch has"):
        call_sort(*arguments[:4], scratch(slots - 1), *arguments[5:])
    with pytest.raises(AssertionError, match=f"sort: tmp_keys has {length - 1} elements, but n is {length}"):
        call_sort(ints, ints[1:].copy(), *arguments[2:])
    slots = length if length <= 256 else algorithms.select_scratch_slots(length)
    call_select(ints, ints, ints.copy(), count, scratch(slots), length)
    with pytest.raises(AssertionError, match=f"select: scratch has {slots - 1} elements, and needs {slots}"):
        call_select(ints, ints, ints.copy(), count, scratch(slots - 1), length)
    call_by_key(ints, ints, ints.copy(), ints.copy(), count, scratch(slots), length, algorithms.reduce_by_key_add, qd.i32)
    with pytest.raises(AssertionError, match=f"reduce_by_key: scratch has {slots - 1} elements, and needs {slots}"):
        call_by_key(ints, ints, ints.copy(), ints.copy(), count, scratch(slots - 1), length, algorithms.reduce_by_key_add, qd.i32)


@pytest.mark.parametrize(
    "name, types, more, wrong",
    [
        ("reduce_add", "f32 i32 u32", (qd.f32, 1), "out holds elements of i32, and f32 is expected"),
        ("reduce_max", "f64 f32 u32", (qd.f32, 1), "arr holds elements of f64, and f32 is expected"),
        ("exclusive_scan_add", "i32 i64 u32", (qd.i32, 1), "out holds elements of i64, and i32 is expected"),
        ("inclusive_scan_max", "f64 f64 u32", (qd.f64, 1), "scratch holds elements of u32, and u64 is expected"),
        ("select", "f32 i32 i32 i32 u32", (1,), "out holds elements of i32, and f32 is expected"),
        ("select", "f32 i32 f32 i32 f32", (1,), "scratch holds elements of f32, and u32 is expected"),
        ("reduce_by_key_add", "i32 f32 i64 f32 i32 u32", (qd.f32, 1), "keys_out holds elements of i64, and i32 is expected"),
        ("reduce_by_key_add", "i32 f32 i32 f64 i32 u32", (qd.f32, 1), "values_out holds elements of f64, and f32 is expected"),
        ("reduce_by_key_add", "i32 f32 i32 f32 i32 i32", (qd.f32, 1), "scratch holds elements of i32, and u32 is expected"),
    ],
)
def test_arrays_of_other_types_are_refused(name, types, more, wrong):
    names = "abcdef"[: len(types.split())]
    header = ", ".join(f"{name}: qd.types.ndarray()" for name in names)
    text = f"def call({header}, n: qd.i32):\n    qd.algorithms.{name}({', '.join(names)}, n, *qd.static(more))"
    with pytest.raises(qd.QuadrantsCompilationError, match=wrong):
        qd.kernel_from_source(text, {"more": more})(*(qd.ndarray(getattr(qd, word), 600) for word in types.split()), 3)


@pytest.mark.parametrize(
    "types, key, has_values, wrong",
    [
        ("f32 i32 f32 i32 u32", qd.f32, False, "tmp_keys holds elements of i32, and f32 is expected"),
        ("i32 i32 i32 i32 u32", qd.u32, False, "keys holds elements of i32, and u32 is expected"),
        ("i32 i32 f32 i32 u32", qd.i32, True, "tmp_values holds elements of i32, and f32 is expected"),
        ("i32 i32 f32 f32 u64", qd.i32, True, "scratch holds elements of u64, and u32 is expected"),
    ],
)
def test_keys_and_values_of_other_types_are_refused(types, key, has_values, wrong):
    given = [qd.ndarray(getattr(qd, word), 600) for word in types.split()]
    with pytest.raises(qd.QuadrantsCompilationError, match=wrong):
        call_sort(*given, qd.ndarray(qd.i32, ()), key, has_values, 32)
