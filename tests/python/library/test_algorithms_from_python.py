"""Algorithms that Python calls with whole containers, against NumPy."""

import numpy as np
import pytest

import quadrants as qd
from quadrants import algorithms


@pytest.fixture(params=["cpu", "python"], autouse=True)
def backend(request):
    qd.init(arch=getattr(qd, request.param), offline_cache=False, log_level="error")
    yield request.param
    qd.reset()


def field_of(data):
    field = qd.field(qd.i32 if data.dtype.kind == "i" else qd.f32, len(data), offset=3)
    field.from_numpy(data)
    return field


def ndarray_of(data):
    array = qd.ndarray(qd.i32 if data.dtype.kind == "i" else qd.f32, len(data))
    array.from_numpy(data)
    return array


def torch_of(data):
    return pytest.importorskip("torch").from_numpy(data.copy())


def tensor_of(data):
    tensor = qd.tensor(qd.i32 if data.dtype.kind == "i" else qd.f32, len(data), backend=qd.Backend.FIELD)
    tensor.from_numpy(data)
    return tensor


CONTAINERS = {"field": field_of, "ndarray": ndarray_of, "torch": torch_of, "NumPy": np.copy, "tensor": tensor_of}


@pytest.fixture(params=CONTAINERS)
def make(request, backend):
    if backend == "python" and request.param != "NumPy":
        pytest.skip("the containers of both are the same")
    return CONTAINERS[request.param]


def as_numpy(given):
    return given.to_numpy() if hasattr(given, "to_numpy") else np.asarray(given)


DATA = np.random.default_rng(4).permutation(np.repeat(np.arange(-20, 20, dtype=np.int32), 4))


def test_reductions_and_places(make):
    x = make(DATA)
    assert [algorithms.reduce(x, op) for op in ("add", "min", "max")] == [DATA.sum(), -20, 19]
    assert algorithms.argmin(x) == DATA.argmin() and algorithms.argmax(x) == DATA.argmax()


@pytest.mark.parametrize("op, fold", [("add", np.add), ("min", np.minimum), ("max", np.maximum)])
def test_scans(make, op, fold):
    expected = fold.accumulate(DATA, dtype=np.int32)
    x = make(DATA)
    made = algorithms.scan(x, op)
    assert np.array_equal(as_numpy(made), expected)
    assert type(made) is type(x) or isinstance(made, qd.Ndarray)
    assert np.array_equal(as_numpy(algorithms.scan(x, op, inclusive=False))[1:], expected[:-1])
    assert algorithms.scan(x, op, out=x) is x
    assert np.array_equal(as_numpy(x), expected)


@pytest.mark.parametrize("descending", [False, True])
def test_sorts(make, descending):
    keys, values = make(DATA), make(np.arange(len(DATA), dtype=np.int32))
    algorithms.sort(keys, values, descending=descending)
    order = np.argsort(-DATA if descending else DATA, kind="stable")
    assert np.array_equal(as_numpy(keys), DATA[order])
    assert np.array_equal(as_numpy(values), order)


NESTED = qd.types.struct(weight=qd.f32, at=qd.types.vector(2, qd.i32), inner=qd.types.struct(number=qd.f64))
STRUCTS = {
    "field": lambda n: NESTED.field(shape=n, offset=-2),
    "planes": lambda n: NESTED.field(shape=n, layout=qd.Layout.SOA),
    "ndarray": lambda n: qd.ndarray(NESTED, n),
}


@pytest.mark.parametrize("make", STRUCTS.values(), ids=STRUCTS)
def test_sorts_move_structs_along(make):
    keys, structs = DATA.copy(), make(len(DATA))
    numbers = np.arange(len(DATA))
    structs.from_numpy({
        "weight": numbers.astype(np.float32),
        "at": np.stack([numbers, -numbers], axis=1).astype(np.int32),
        "inner": {"number": 2.0 * numbers},
    })  # fmt: skip
    algorithms.sort(keys, structs, descending=True)
    order = np.argsort(-DATA, kind="stable")
    moved = structs.to_numpy()
    assert np.array_equal(keys, DATA[order]) and np.array_equal(moved["weight"], order)
    assert np.array_equal(moved["at"], np.stack([order, -order], axis=1)) and np.array_equal(moved["inner"]["number"], 2.0 * order)


def test_descending_floats_and_sixteen_bits():
    data = np.array([0.5, -0.0, np.inf, 0.0, -3, -np.inf], np.float16)
    algorithms.sort(data, descending=True)
    assert [str(key) for key in data] == ["inf", "0.5", "0.0", "-0.0", "-3.0", "-inf"]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.float16])
def test_keys_of_one_byte_and_of_two(dtype):
    data = np.random.default_rng(6).integers(-100, 100, 400).astype(dtype)
    keys, values = data.copy(), np.arange(400, dtype=np.int32)
    algorithms.sort(keys, values)
    assert np.array_equal(keys, np.sort(data)) and np.array_equal(values, np.argsort(data, kind="stable"))
    algorithms.sort(keys, descending=True)
    assert np.array_equal(keys, np.sort(data)[::-1])
    found, counts = algorithms.unique(data, return_counts=True)
    expected, wanted = np.unique(data, return_counts=True)
    assert np.array_equal(found.to_numpy(), expected) and np.array_equal(counts.to_numpy(), wanted)


def test_distinct_elements(make):
    x = make(DATA)
    found, counts = algorithms.unique(x, return_counts=True)
    assert np.array_equal(found.to_numpy(), np.arange(-20, 20)) and (counts.to_numpy() == 4).all()
    assert np.array_equal(as_numpy(x), DATA)
    assert np.array_equal(algorithms.unique(x).to_numpy(), np.arange(-20, 20))


@pytest.mark.parametrize("bins, limits", [(10, None), (7, (-5.5, 9.25)), (40, (-20, 20)), (1, (3, 3))])
def test_histograms(make, bins, limits):
    counts, edges = algorithms.histogram(make(DATA), bins, limits)
    expected, wanted = np.histogram(DATA, bins, limits)
    assert np.array_equal(counts.to_numpy(), expected)
    assert np.array_equal(edges, wanted)


def test_segments(make):
    offsets = np.array([0, 5, 5, 17, len(DATA)], np.int32)
    found = as_numpy(algorithms.segmented_reduce(make(DATA), offsets))
    assert found.tolist() == [DATA[a:b].sum() for a, b in zip(offsets, offsets[1:], strict=False)]


def test_many_short_segments(backend):
    values = np.random.default_rng(4).integers(-9, 99, 1_000 if backend == "python" else 200_000).astype(np.int32)
    offsets = np.arange(0, len(values) + 1, 5, dtype=np.int32)
    np.testing.assert_array_equal(as_numpy(algorithms.segmented_reduce(values, offsets)), values.reshape(-1, 5).sum(axis=1))


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("length", [1, 63, 2048, 5000])
def test_places_and_long_segments_of_each_type(backend, dtype, length):
    """Lengths that fill the lanes and tiles of the processor or leave a rest; segments of 32 elements and more on average, some empty."""
    if backend == "python" and length > 100:
        pytest.skip("slow, and has no lanes")
    rng = np.random.default_rng(length)
    data = rng.integers(0, 100, length).astype(dtype)
    assert algorithms.argmin(data) == data.argmin() and algorithms.argmax(data) == data.argmax()
    data[-1] = 120
    assert algorithms.argmax(data) == length - 1
    offsets = np.sort(np.concatenate([[0, 0, length], rng.integers(0, length, length // 64)])).astype(np.int32)
    used = np.diff(offsets) > 0
    for op, fold in (("add", np.add), ("min", np.minimum), ("max", np.maximum)):
        found = algorithms.segmented_reduce(data, offsets, op)
        assert np.allclose(found[used], fold.reduceat(data, offsets[:-1][used], dtype=dtype), rtol=1e-2 if dtype is np.float16 else 1e-6)
        assert (found[~used] == algorithms.reduce(data[:0], op)).all()


def test_places_beside_nan():
    data = np.full(5000, np.nan, np.float32)
    assert algorithms.argmin(data) == algorithms.argmax(data) == 5000
    data[[4100, 300, 4700]] = 1, 2, 1
    assert (algorithms.argmin(data), algorithms.argmax(data)) == (4100, 300)


def test_empty_arrays():
    empty = np.zeros(0, np.float32)
    assert algorithms.reduce(empty) == 0 and algorithms.reduce(empty, "min") == np.inf
    assert len(algorithms.scan(empty)) == 0 and len(algorithms.unique(empty).to_numpy()) == 0
    algorithms.sort(empty)
    assert algorithms.histogram(empty, 3)[0].to_numpy().tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="without elements"):
        algorithms.argmin(empty)


@pytest.mark.parametrize(
    "error, text, call",
    [
        (ValueError, "op must be one of", lambda: algorithms.reduce(DATA, "mean")),
        (ValueError, "one axis", lambda: algorithms.scan(np.zeros((2, 3), np.int32))),
        (ValueError, "out must have 3 elements", lambda: algorithms.scan(np.zeros(3, np.int32), out=np.zeros(2, np.int32))),
        (ValueError, "out must have 3 elements of i32", lambda: algorithms.scan(np.zeros(3, np.int32), out=np.zeros(3, np.float32))),
        (ValueError, "as many elements as keys", lambda: algorithms.sort(np.zeros(3, np.int32), np.zeros(2, np.int32))),
        (NotImplementedError, "dtype must be one of", lambda: algorithms.reduce(np.zeros(3, bool))),
        (TypeError, "data type of qd", lambda: algorithms.reduce(np.zeros(3, complex))),
        (TypeError, "scalar elements", lambda: algorithms.reduce(qd.Vector.ndarray(2, qd.f32, 3))),
        (TypeError, "keys must be a field", lambda: algorithms.sort([3, 1, 2])),
        (ValueError, "bins must be", lambda: algorithms.histogram(DATA, 0)),
        (ValueError, "finite numbers in order", lambda: algorithms.histogram(DATA, 3, (2, 1))),
        (ValueError, "at least one element", lambda: algorithms.segmented_reduce(DATA, np.zeros(0, np.int32))),
    ],
)
def test_bad_arguments(error, text, call):
    with pytest.raises(error, match=text):
        call()


def test_equal_input_gives_equal_bits(backend):
    if backend == "python":
        pytest.skip("the interpreter has one thread")
    data = np.random.default_rng(1).standard_normal(100_000).astype(np.float32)
    assert algorithms.reduce(data) == algorithms.reduce(data.copy())
    assert np.array_equal(algorithms.scan(data), algorithms.scan(data.copy()))


@pytest.mark.parametrize("make", [ndarray_of, torch_of, np.copy])
def test_results_of_a_scan_overlap_nothing_but_the_input(make):
    x = make(np.arange(10, dtype=np.int32))
    for first, second in ((slice(0, 6), slice(2, 8)), (slice(2, 8), slice(0, 6)), (slice(0, 10, 2), slice(0, 5))):
        with pytest.raises(ValueError, match="out must be arr or share no memory with it"):
            algorithms.scan(x[first], out=x[second])
    assert as_numpy(x).tolist() == list(range(10))
    algorithms.scan(x[0:5], out=x[5:10])
    assert as_numpy(x).tolist() == [0, 1, 2, 3, 4, 0, 1, 3, 6, 10]
    algorithms.scan(x[0:10:2], out=x[1:10:2])  # interleaved
    assert as_numpy(x).tolist() == [0, 0, 2, 2, 4, 6, 1, 7, 6, 13]
    algorithms.scan(x[5:10], out=x[5:10])
    assert as_numpy(x).tolist() == [0, 0, 2, 2, 4, 6, 7, 14, 20, 33]
    algorithms.scan(x[0:0], out=x[0:0])
