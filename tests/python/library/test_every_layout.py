"""Every function that takes containers, with every layout that a container can have: against the same function on a plain one."""

import copy
import os
import pickle
import warnings

import numpy as np
import pytest

import quadrants as qd
from quadrants import algorithms

DTYPES = ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64", "u1"]
SORTED = ["i32", "u32", "f32", "i64", "u64", "f64"]
LENGTHS = [0, 1, 2, 255, 256, 257, 1025]
# Every type with every layout, which takes minutes, instead of a sample.
ALL = os.environ.get("QD_EVERY_LAYOUT") == "1"


@pytest.fixture(params=["cpu", "python"], autouse=True)
def backend(request):
    qd.init(arch=getattr(qd, request.param), offline_cache=False, log_level="error")
    yield request.param
    qd.reset()


def in_tree(dtype, length, **place):
    """A field between two others in the cells of a tree."""
    before, field, after = qd.field(qd.u8), qd.field(dtype), qd.field(dtype)
    qd.root.dense(qd.i, length).place(before, field, after, **place)
    return field


def in_tiles(dtype, length):
    field, beside = qd.field(dtype), qd.field(dtype)
    outer = qd.root.dense(qd.i, length // 4)
    outer.place(beside)
    outer.dense(qd.i, 4).place(field)
    return field


def gradient(dtype, length, **options):
    return qd.field(dtype, shape=length, needs_grad=True, **options).grad


def vectors(dtype, length, **options):
    return qd.Vector.field(3, dtype, shape=length, **options)


# Fields of so many scalars, by how they lie. None: not for this length or type.
FIELDS = {
    "plain": lambda dtype, n: qd.field(dtype, shape=n),
    "offset": lambda dtype, n: qd.field(dtype, shape=n, offset=7),
    "negative offset": lambda dtype, n: qd.field(dtype, shape=n, offset=-1000),
    "component": lambda dtype, n: vectors(dtype, n).get_scalar_field(1),
    "component with offset": lambda dtype, n: vectors(dtype, n, offset=5).get_scalar_field(2),
    "component SOA": lambda dtype, n: vectors(dtype, n, layout=qd.Layout.SOA, offset=-3).get_scalar_field(0),
    "member": lambda dtype, n: qd.Struct.field({"a": qd.u8, "it": dtype}, shape=n, offset=2).it,
    "gradient": lambda dtype, n: gradient(dtype, n, offset=11) if dtype.is_real else None,
    "tree": lambda dtype, n: in_tree(dtype, n) if n else None,
    "tree with offset": lambda dtype, n: in_tree(dtype, n, offset=-4) if n else None,
    "tiles": lambda dtype, n: in_tiles(dtype, n) if n and n % 4 == 0 else None,
}
# Arrays: what a kernel takes as an argument.
ARRAYS = {
    "ndarray": lambda dtype, n: qd.ndarray(dtype, n),
    "ndarray with offset": lambda dtype, n: qd.tensor(dtype, n, offset=9)._unwrap(),
    "slice": lambda dtype, n: qd.ndarray(dtype, n + 5)[3 : n + 3],
    "strided": lambda dtype, n: qd.ndarray(dtype, 2 * n + 1)[1::2],
    "reversed": lambda dtype, n: qd.ndarray(dtype, n)[::-1],
    "column": lambda dtype, n: qd.ndarray(dtype, (n, 3))[:, 1],
    "tensor of a field": lambda dtype, n: qd.tensor(dtype, n, backend=qd.Backend.FIELD, offset=-6),
    "member of an ndarray": lambda dtype, n: qd.Struct.field({"a": qd.u8, "it": dtype}, shape=n).it[:],
}
CONTAINERS = {**FIELDS, **ARRAYS}


def make(table, name, dtype, length):
    made = table[name](getattr(qd, dtype), length)
    if made is None:
        pytest.skip("there is no such container")
    return made


def numbers(dtype, length, seed=3):
    """What `to_numpy` of a container of this type may give."""
    kind = "f4" if dtype == "bf16" else {"u1": "?", "i": "i", "u": "u", "f": "f"}[dtype if dtype == "u1" else dtype[0]]
    kind = np.dtype(kind if dtype in ("u1", "bf16") else kind + str(int(dtype[1:]) // 8))
    values = np.random.default_rng([seed, length]).integers(0, 100, length)
    return (values % 2 == 0) if dtype == "u1" else values.astype(kind)


def quiet(function, *arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments)


# --- functions that Python calls


def some_length(backend):
    """Two blocks of an algorithm and a bit; less for the interpreter."""
    return 260 if backend == "cpu" else 7


# All types with one layout, and the others with a small and a wide type in turn.
SORTS = [
    (layout, dtype)
    for number, layout in enumerate(FIELDS)
    for dtype in SORTED
    if ALL or layout == "offset" or dtype == ("i32", "f64")[number % 2]
]


@pytest.mark.parametrize("layout, dtype", SORTS)
def test_parallel_sort(layout, dtype, backend):
    length = some_length(backend)
    keys, values = make(FIELDS, layout, dtype, length), make(FIELDS, layout, dtype, length)
    data = np.random.default_rng(2).permutation(length).astype(numbers(dtype, 1).dtype)
    keys.from_numpy(data)
    values.from_numpy(np.arange(length).astype(data.dtype))
    quiet(algorithms.parallel_sort, keys, values)
    assert np.array_equal(keys.to_numpy(), np.arange(length))
    assert np.array_equal(data[values.to_numpy().astype(int)], np.arange(length))


@pytest.mark.parametrize("layout, dtype", SORTS)
def test_prefix_sums(layout, dtype, backend):
    length = some_length(backend)
    field, data = make(FIELDS, layout, dtype, length), numbers(dtype, length)
    field.from_numpy(data)
    quiet(algorithms.PrefixSumExecutor, length).run(field)
    assert np.array_equal(field.to_numpy(), np.cumsum(data, dtype=data.dtype))


@pytest.mark.parametrize("length", LENGTHS)
def test_sorts_and_sums_of_all_lengths(length, backend):
    if backend == "python" and length > 2:
        pytest.skip("the interpreter takes long")
    for offset in (None, -3):
        keys = qd.field(qd.i32, shape=length, offset=offset)
        data = numbers("i32", length)
        keys.from_numpy(data)
        quiet(algorithms.parallel_sort, keys)
        assert np.array_equal(keys.to_numpy(), np.sort(data))
        quiet(algorithms.PrefixSumExecutor, length).run(keys)
        assert np.array_equal(keys.to_numpy(), np.cumsum(np.sort(data)))


def test_vectors_move_along_with_keys():
    keys, values = qd.field(qd.i32, shape=5, offset=2), qd.Vector.field(2, qd.f32, shape=5, offset=-2)
    keys.from_numpy(np.array([4, 2, 0, 1, 3], np.int32))
    values.from_numpy(np.arange(10, dtype=np.float32).reshape(5, 2))
    quiet(algorithms.parallel_sort, keys, values)
    assert values.to_numpy()[:, 0].tolist() == [4, 6, 2, 8, 0]


def test_a_sum_leaves_what_is_behind_its_length():
    field = qd.field(qd.i32, shape=10, offset=4)
    field.fill(1)
    quiet(algorithms.PrefixSumExecutor, 4).run(field)
    assert field.to_numpy().tolist() == [1, 2, 3, 4, 1, 1, 1, 1, 1, 1]


WRONG = {
    "values shorter": (ValueError, lambda: algorithms.parallel_sort(qd.field(qd.i32, 100), qd.field(qd.i32, 10))),
    "values longer": (ValueError, lambda: algorithms.parallel_sort(qd.field(qd.i32, 10), qd.field(qd.i32, 100))),
    "2-D keys": (ValueError, lambda: algorithms.parallel_sort(qd.field(qd.i32, (3, 3)))),
    "0-d keys": (ValueError, lambda: algorithms.parallel_sort(qd.field(qd.i32, ()))),
    "keys that are vectors": (ValueError, lambda: algorithms.parallel_sort(qd.Vector.field(2, qd.i32, 4))),
    "keys that are truth values": (NotImplementedError, lambda: algorithms.parallel_sort(qd.field(qd.u1, 4))),
    "keys in an ndarray": (TypeError, lambda: algorithms.parallel_sort(qd.ndarray(qd.i32, 4))),
    "sum longer": (ValueError, lambda: algorithms.PrefixSumExecutor(100000).run(qd.field(qd.i32, 10))),
    "0-d sum": (ValueError, lambda: algorithms.PrefixSumExecutor(1).run(qd.field(qd.i32, ()))),
    "2-D sum": (ValueError, lambda: algorithms.PrefixSumExecutor(3).run(qd.field(qd.i32, (3, 3)))),
    "sum of vectors": (ValueError, lambda: algorithms.PrefixSumExecutor(4).run(qd.Vector.field(2, qd.i32, 4))),
    "sum of truth values": (NotImplementedError, lambda: algorithms.PrefixSumExecutor(4).run(qd.field(qd.u1, 4))),
    "sum of an ndarray": (TypeError, lambda: algorithms.PrefixSumExecutor(4).run(qd.ndarray(qd.i32, 4))),
    "a negative length": (ValueError, lambda: algorithms.PrefixSumExecutor(-1)),
    "a length that is none": (TypeError, lambda: algorithms.PrefixSumExecutor(1.5)),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_sizes_and_types(name):
    error, call = WRONG[name]
    with pytest.raises(error):
        quiet(call)


# --- functions that kernels call


@qd.kernel
def call_all(
    arr: qd.Tensor,
    folds: qd.Tensor,
    sums: qd.Tensor,
    sums_before: qd.Tensor,
    flags: qd.Tensor,
    kept: qd.Tensor,
    kept_count: qd.Tensor,
    run_keys: qd.Tensor,
    run_sums: qd.Tensor,
    run_count: qd.Tensor,
    keys: qd.Tensor,
    spare_keys: qd.Tensor,
    values: qd.Tensor,
    spare_values: qd.Tensor,
    scratch: qd.Tensor,
    n: qd.Tensor,
):
    algorithms.reduce_max(arr, folds, scratch, n[()], qd.i32, 2)
    algorithms.inclusive_scan_add(arr, sums, scratch, n[()], qd.i32, 2)
    algorithms.exclusive_scan_add(arr, sums_before, scratch, n[()], qd.i32, 2)
    algorithms.select(arr, flags, kept, kept_count, scratch, n[()], 2)
    algorithms.reduce_by_key_add(arr, values, run_keys, run_sums, run_count, scratch, n[()], qd.i32, 2)
    algorithms.sort(keys, spare_keys, values, spare_values, scratch, n, qd.i32, True, 32, 2)


def check_algorithms(make_array, make_scratch, length, size=None):
    """Calls all of them on containers of `size` elements, of which `length` take part."""
    size = length if size is None else size
    data, flags, values = numbers("i32", size) // 20, numbers("i32", size, 5) % 4, np.arange(size, dtype=np.int32)
    arrays = [make_array() for _ in range(14)]
    for number, content in ((0, data), (4, flags), (10, data), (12, values)):
        arrays[number].from_numpy(content)
    n, scratch = qd.ndarray(qd.i32, ()), make_scratch()
    n[None] = length
    call_all(*arrays, scratch, n)
    found = [array.to_numpy()[:length] for array in arrays]
    used, order = data[:length], np.argsort(data[:length], kind="stable")
    starts = np.flatnonzero(np.diff(used, prepend=-1))
    assert found[0].tolist() == used.tolist() and found[1][0] == used.max()
    assert np.array_equal(found[2], np.cumsum(used)) and np.array_equal(found[3], np.cumsum(used) - used)
    kept = used[flags[:length] != 0]
    assert found[6][0] == len(kept) and np.array_equal(found[5][: len(kept)], kept)
    assert found[9][0] == len(starts) and np.array_equal(found[7][: len(starts)], used[starts])
    assert np.array_equal(found[8][: len(starts)], np.add.reduceat(values[:length], starts))
    assert np.array_equal(found[10], used[order]) and np.array_equal(found[12], order)
    for array, content in zip((arrays[10], arrays[12]), (data, values), strict=True):
        assert np.array_equal(array.to_numpy()[length:], content[length:])


@pytest.mark.parametrize("layout", CONTAINERS)
def test_algorithms_in_kernels(layout, backend):
    length = some_length(backend)
    size = length + 4
    slots = max(algorithms.sort_scratch_slots(length), algorithms.reduce_by_key_scratch_slots(length)) + 3 & -4
    check_algorithms(lambda: make(CONTAINERS, layout, "i32", size), lambda: make(CONTAINERS, layout, "u32", slots), length, size)


def test_algorithms_write_no_more_than_the_scratch_memory_they_ask_for(backend):
    for length in LENGTHS if backend == "cpu" else LENGTHS[:3]:  # the interpreter takes long
        check_scratch_memory(length)


def check_scratch_memory(length):
    slots = {
        name: getattr(algorithms, f"{name}_scratch_slots")(length)
        for name in ("reduce", "exclusive_scan", "select", "reduce_by_key", "sort")
    }
    guard, end = 1000, np.uint32(7)
    n, i32 = np.array(length, np.int32), lambda: np.zeros(max(length, 1), np.int32)
    for name, call in SCRATCH_USERS.items():
        scratch = np.full(slots[name] + guard, end, np.uint32)
        call(i32, scratch[: slots[name]], length, n)
        assert (scratch[slots[name] :] == end).all(), (name, length)


@qd.kernel
def only_fold(arr: qd.Tensor, out: qd.Tensor, scratch: qd.Tensor, n: qd.i32, algorithm: qd.template()):
    algorithm(arr, out, scratch, n, qd.i32, 4)


@qd.kernel
def only_select(arr: qd.Tensor, flags: qd.Tensor, out: qd.Tensor, count: qd.Tensor, scratch: qd.Tensor, n: qd.i32):
    algorithms.select(arr, flags, out, count, scratch, n, 4)


@qd.kernel
def only_by_key(a: qd.Tensor, b: qd.Tensor, c: qd.Tensor, d: qd.Tensor, count: qd.Tensor, scratch: qd.Tensor, n: qd.i32):
    algorithms.reduce_by_key_add(a, b, c, d, count, scratch, n, qd.i32, 4)


@qd.kernel
def only_sort(a: qd.Tensor, b: qd.Tensor, c: qd.Tensor, d: qd.Tensor, scratch: qd.Tensor, n: qd.Tensor):
    algorithms.sort(a, b, c, d, scratch, n, qd.i32, True, 32, 4)


SCRATCH_USERS = {
    "reduce": lambda new, scratch, length, n: only_fold(new(), new(), scratch, length, algorithms.reduce_add),
    "exclusive_scan": lambda new, scratch, length, n: only_fold(new(), new(), scratch, length, algorithms.exclusive_scan_add),
    "select": lambda new, scratch, length, n: only_select(new(), new(), new(), new(), scratch, length),
    "reduce_by_key": lambda new, scratch, length, n: only_by_key(new(), new(), new(), new(), new(), scratch, length),
    "sort": lambda new, scratch, length, n: only_sort(new(), new(), new(), new(), scratch, n),
}


def test_select_counts_what_it_copies():
    arr, flags, out, count = np.arange(10, dtype=np.int32), np.full(10, 3, np.int32), np.zeros(10, np.int32), np.zeros(1, np.int32)
    only_select(arr, flags, out, count, np.zeros(algorithms.select_scratch_slots(10), np.uint32), 10)
    assert count[0] == 10 and out.tolist() == arr.tolist()


def test_structs_with_an_offset_are_selected():
    kind = qd.types.struct(a=qd.i32, b=qd.f32)
    arr, out = kind.field(shape=5, offset=3), kind.field(shape=5, offset=-3)
    for index in range(5):
        arr[index + 3] = kind(index, index / 2)
    flags, count = qd.field(qd.i32, shape=5, offset=-1), qd.field(qd.i32, shape=1, offset=4)
    scratch = qd.field(qd.u32, algorithms.select_scratch_slots(5), offset=2)
    flags.from_numpy(np.array([0, 1, 0, 1, 1]))

    @qd.kernel
    def keep():
        algorithms.select(arr, flags, out, count, scratch, 5, 1)

    keep()
    assert count[4] == 3 and [out[index].a for index in (-3, -2, -1)] == [1, 3, 4] and out[-1].b == 2.0


# --- data methods

SHAPED = {
    "column-major": lambda dtype: qd.field(dtype, shape=(4, 6), order="ji", offset=(1, -2)),
    "tiles": lambda dtype: tiled(dtype),
    "ndarray": lambda dtype: qd.ndarray(dtype, (4, 6)),
    "transposed": lambda dtype: qd.tensor(dtype, (4, 6), layout=(1, 0))._unwrap(),
    "window": lambda dtype: qd.ndarray(dtype, (9, 9))[::2, 7:1:-1][:4],
    "row": lambda dtype: qd.field(dtype, shape=(3, 6))[1],
    "single": lambda dtype: qd.field(dtype, shape=(1, 1)),
    "empty": lambda dtype: qd.ndarray(dtype, (3, 0)),
    "vectors": lambda dtype: qd.Vector.field(3, dtype, shape=6),
    "vectors SOA": lambda dtype: qd.Vector.field(3, dtype, shape=(2, 5), layout=qd.Layout.SOA, order="ji", offset=(3, 3)),
    "vectors in a tree": lambda dtype: qd.Struct.field({"a": qd.u8, "v": qd.types.vector(3, dtype)}, shape=6).v,
    "vectors in tiles": lambda dtype: tiled(qd.types.vector(2, dtype)),
    "one vector": lambda dtype: qd.Vector.field(3, dtype, shape=()),
    "matrices": lambda dtype: qd.ndarray(qd.types.matrix(2, 3, dtype), (4,)),
    "matrices SOA": lambda dtype: qd.Matrix.field(2, 2, dtype, shape=7, layout=qd.Layout.SOA),
    "reversed matrices": lambda dtype: qd.ndarray(qd.types.matrix(2, 3, dtype), (4,))[::-1],
}


def tiled(element):
    field = qd.field(element)
    qd.root.dense(qd.ij, 2).dense(qd.ij, (2, 3)).place(field)
    return field


def as_floats(array):
    return np.asarray(array).astype(np.float64)


def check_data_methods(made, dtype):
    shape = tuple(made.shape) + tuple(made.element_shape)
    data = numbers(dtype, int(np.prod(shape))).reshape(shape)
    plain = made.to_numpy()
    assert plain.shape == shape and not as_floats(plain).any()
    for form in (data, np.asfortranarray(data), data.astype(np.float64), data.tolist() if data.size else data):
        made.fill(1)
        assert (as_floats(made.to_numpy()) == 1).all()
        made.from_numpy(form)
        assert np.array_equal(as_floats(made.to_numpy()), as_floats(data))
    other = qd.ndarray(made._element_type, tuple(made.shape))
    other.copy_from(made)
    made.fill(0)
    assert not as_floats(made.to_numpy()).any()
    made.copy_from(other)
    out = np.empty(shape, np.float64)
    assert np.array_equal(as_floats(made.to_numpy(out=out)), as_floats(data)) and np.array_equal(out, as_floats(data))
    with pytest.raises(ValueError):
        made.from_numpy(np.ones((*shape, 2)))
    assert np.array_equal(as_floats(made.to_numpy(dtype=np.float32)), as_floats(data))
    if type(made).__name__ != "BufferView":
        for twin in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
            made.fill(1)
            assert np.array_equal(as_floats(twin.to_numpy()), as_floats(data)) and twin.shape == made.shape
            made.copy_from(twin)


@pytest.mark.parametrize("layout", SHAPED)
@pytest.mark.parametrize("dtype", DTYPES)
def test_data_methods(layout, dtype, backend):
    if backend == "python":
        pytest.skip("containers of both are the same")
    check_data_methods(SHAPED[layout](getattr(qd, dtype)), dtype)


@pytest.mark.parametrize("layout", CONTAINERS)
@pytest.mark.parametrize("dtype", ["u8", "f16", "f32", "u64"])
@pytest.mark.parametrize("length", [0, 1, 8])
def test_data_methods_of_scalars(layout, dtype, length, backend):
    if backend == "python":
        pytest.skip("containers of both are the same")
    made = make(CONTAINERS, layout, dtype, length)
    made = made._unwrap() if isinstance(made, qd.Tensor) else made
    check_data_methods(made, dtype)


@pytest.mark.parametrize("layout", SHAPED)
@pytest.mark.parametrize("dtype", ["u8", "f32", "bf16", "i64"])
def test_torch(layout, dtype):
    torch = pytest.importorskip("torch")
    made = SHAPED[layout](getattr(qd, dtype))
    shape = tuple(made.shape) + tuple(made.element_shape)
    data = torch.from_numpy(as_floats(numbers(dtype, int(np.prod(shape)))).reshape(shape))
    for tensor in (
        data,
        data.to(made.to_torch().dtype),
        data.to(made.to_torch().dtype).movedim(0, -1).contiguous().movedim(-1, 0) if shape else data,
    ):
        made.fill(1)
        made.from_torch(tensor)
        assert torch.equal(made.to_torch().double().cpu(), data)


def test_a_container_is_copied_onto_itself():
    x = qd.ndarray(qd.i32, 10)
    x.from_numpy(np.arange(10))
    x[1:].copy_from(x[:-1])
    assert x.to_numpy().tolist() == [0, *range(9)]
    x[:].copy_from(x[::-1])
    assert x.to_numpy().tolist() == [*range(8, -1, -1), 0]


@pytest.mark.parametrize("shape", [(1 << 20,), (1 << 10, 1 << 10), (3, 1 << 19)])
def test_much_is_copied_by_all_threads(shape, backend):
    if backend == "python":
        pytest.skip("containers of both are the same")
    data = np.random.default_rng(4).integers(0, 1 << 30, (*shape, 3)).astype(np.int32)
    for options in ({}, {"layout": qd.Layout.SOA}, {"order": "ijk"[: len(shape)][::-1]}):
        x = qd.Vector.field(3, qd.i32, shape=shape, **options)
        x.fill([1, 2, 3])
        assert (x.to_numpy() == [1, 2, 3]).all()
        x.from_numpy(data)
        assert np.array_equal(x.to_numpy(), data)
        part = x.get_scalar_field(1)
        part.fill(7)
        assert (x.to_numpy()[..., 1] == 7).all() and np.array_equal(x.to_numpy()[..., 2], data[..., 2])


@pytest.mark.parametrize("components", [2, 3, 4, 5, 7, 9, 16])
@pytest.mark.parametrize("dtype", ["f32", "f64", "i16"])
def test_components_that_lie_apart_are_brought_together(components, dtype, backend):
    if backend == "python":
        pytest.skip("containers of both are the same")
    for length in (1, 3, 4, 6, 1025, 700_003 // components):
        x = qd.Vector.field(components, getattr(qd, dtype), shape=length, layout=qd.Layout.SOA)
        data = np.arange(length * components).reshape(length, components).astype(dtype.replace("f", "float").replace("i", "int"))
        x.from_numpy(data)
        for k in {0, components - 1}:
            assert np.array_equal(x.get_scalar_field(k).to_numpy(), data[:, k])
        assert np.array_equal(x.to_numpy(), data)


@pytest.mark.parametrize("layout", CONTAINERS)
def test_images_for_vtk(layout, tmp_path, backend):
    if backend == "python":
        pytest.skip("containers of both are the same")
    row = make(CONTAINERS, layout, "u32", 8)
    row.from_numpy(np.arange(8) + 3_000_000_000)
    qd.tools.write_vtk(row.to_numpy().reshape(2, 4), tmp_path / "image")
    text = (tmp_path / "image.vtk").read_bytes()
    assert b"SCALARS Data unsigned_int 1" in text
    stored = np.frombuffer(text.split(b"default\n")[1], ">u4").reshape(2, 4, order="F")
    assert np.array_equal(stored.ravel(), np.arange(8) + 3_000_000_000)
