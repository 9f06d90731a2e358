"""Loops of every form."""

import numpy as np
import pytest
from language_support import run

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")


@pytest.mark.parametrize("bounds", [(5,), (2, 7), (7, 2), (0,), (-3, 2), (0, 10, 3), (10, 0, -3), (0, -5, -1)])
def test_range_has_pythons_values(bounds):
    arguments = {f"a{k}": ("qd.i32", value) for k, value in enumerate(bounds)}
    call = f"range({', '.join(arguments)})"
    expected = sum(value * value + 1 for value in range(*bounds))
    assert run(f"s = 0\nfor i in {call}:\n    s += i * i + 1\nreturn s", **arguments) == expected
    body = f"s = 0\nif a0 > -100:\n    for i in {call}:\n        s += i * i + 1\nreturn s"
    assert run(body, **arguments) == expected
    literal = f"range({', '.join(map(str, bounds))})"
    assert run(f"s = 0\nfor i in {literal}:\n    s += i * i + 1\nreturn s") == expected


def test_range_is_64_bit_when_a_bound_is():
    body = "s = qd.i64(0)\nfor i in range(n, n + 3):\n    s += i\nreturn s"
    assert run(body, "qd.i64", n=("qd.i64", 2**32)) == 3 * 2**32 + 3


def test_parallel_loops_run_in_source_order_and_see_what_stands_between():
    x = qd.field(qd.i32, shape=100)

    @qd.kernel
    def work() -> qd.i32:
        y = 5
        for i in x:
            x[i] = i + y
        y = 7
        s = 0
        for i in x:
            s += x[i] + y
        return s

    assert work() == sum(i + 5 + 7 for i in range(100))


def test_shared_variable_is_reduced():
    assert run("s = 0\nm = -1\nfor i in range(1000):\n    s += 1\n    qd.atomic_max(m, i)\nreturn s * 10000 + m") == 10000999


def test_struct_for_over_a_field_visits_every_element():
    x = qd.field(qd.i32, shape=(3, 4, 2))

    @qd.kernel
    def work():
        for i, j, k in x:
            x[i, j, k] += i * 100 + j * 10 + k

    work()
    i, j, k = np.indices((3, 4, 2))
    np.testing.assert_array_equal(x.to_numpy(), i * 100 + j * 10 + k)


def test_struct_for_over_an_ndarray_visits_every_element():
    @qd.kernel
    def work(x: qd.types.ndarray(dtype=qd.i32, ndim=2)):
        for i, j in x:
            x[i, j] = i * 10 + j

    array = np.zeros((3, 4), np.int32)
    work(array)
    np.testing.assert_array_equal(array, np.add.outer(np.arange(3) * 10, np.arange(4)))


def test_grouped_loops_have_index_vectors():
    x = qd.field(qd.i32, shape=(3, 4))
    z = qd.field(qd.i32, shape=())

    @qd.kernel
    def work():
        for I in qd.grouped(x):
            x[I] += I[0] * 10 + I.y + I.sum()
        for I in qd.grouped(qd.ndrange(2, (1, 3))):
            x[I] += 1000
        for I in qd.grouped(z):
            z[I] = 7

    work()
    expected = np.add.outer(np.arange(3) * 11, np.arange(4) * 2)
    expected[:2, 1:3] += 1000
    np.testing.assert_array_equal(x.to_numpy(), expected)
    assert z[None] == 7


@pytest.mark.parametrize(
    "call", ["qd.ndrange(3, 4)", "qd.ndrange((1, 3), (-2, 2))", "qd.ndrange(3, (2, 1))", "qd.ndrange(2, 3, axes=(1, 0))"]
)
def test_ndrange_covers_the_product(call):
    expected = sum(i * 100 + j * 10 + 1 for i, j in eval(call, {"qd": qd}))
    assert run(f"s = 0\nfor i, j in {call}:\n    s += i * 100 + j * 10 + 1\nreturn s") == expected


def test_ndrange_axes_give_the_nesting_order():
    out = qd.field(qd.i32, shape=6)

    @qd.kernel
    def work():
        n = 0
        qd.loop_config(serialize=True)
        for i, j in qd.ndrange(2, 3, axes=(1, 0)):
            out[qd.atomic_add(n, 1)] = i * 10 + j

    work()
    assert out.to_numpy().tolist() == [0, 10, 1, 11, 2, 12]


def test_ndrange_takes_run_time_bounds_and_unpacked_vectors():
    body = """s = 0
for i, j in qd.ndrange(n, (1, n)):
    s += i * 10 + j
v = qd.Vector([2, n])
for i, j in qd.ndrange(*v):
    s += 1000
return s"""
    assert run(body, n=("qd.i32", 3)) == sum(i * 10 + j for i in range(3) for j in range(1, 3)) + 6000


def test_nested_loops_break_and_continue():
    body = """s = 0
for i in range(10):
    for j in range(10):
        if j == 2:
            continue
        if j > i:
            break
        s += 1
return s"""
    assert run(body) == sum(1 for i in range(10) for j in range(i + 1) if j != 2)


@pytest.mark.parametrize("stop, expected", [(3, 3), (20, 110)])
def test_loop_else_runs_unless_broken(stop, expected):
    body = """s = 0
if stop > 0:
    for i in range(10):
        if i == stop:
            break
        s += 1
    else:
        s += 100
return s"""
    assert run(body, stop=("qd.i32", stop)) == expected


def test_loop_config_with_serialize_allows_break():
    body = "s = 0\nqd.loop_config(serialize=True)\nfor i in range(100):\n    if i == n:\n        break\n    s += 1\nreturn s"
    assert run(body, n=("qd.i32", 7)) == 7


@pytest.mark.parametrize("head", ["if n == 7:\n", "if n != 7:\n    for i in range(1):\n        s += 100\nelse:\n"], ids=["if", "else"])
@pytest.mark.parametrize(
    "loop",
    [
        "    qd.loop_config(serialize=True)\n    for i in range(2):\n        s += 1\n",
        "    for i in (0, 1):\n        s += 1\n",
        "    for i in (0, 1):\n        for j in range(i, i + 1):\n            s += 1\n",
    ],
    ids=["serial", "unrolled", "unrolled around a parallel one"],
)
def test_loop_alone_in_a_branch_runs_only_where_the_condition_holds(head, loop):
    body = f"s = 0\n{head}{loop}return s"
    assert run(body, n=("qd.i32", 7)) == 2
    assert run(body, n=("qd.i32", 5)) == (100 if "100" in head else 0)


def test_loops_over_members_of_arguments_run_in_parallel():
    @qd.data_oriented
    class Scene:
        def __init__(self):
            self.array = qd.ndarray(qd.i32, shape=6)

        @qd.kernel
        def work(self):
            for i in self.array:
                if i == 2:
                    continue
                self.array[i] = 1
            for i in self.array[:3]:
                for j in range(5):
                    if j == i:
                        break
                    self.array[i] += 10

    scene = Scene()
    scene.work()
    assert scene.array.to_numpy().tolist() == [1, 11, 20, 1, 1, 1]


def test_loop_config_changes_no_result():
    body = "s = 0\nqd.loop_config(block_dim=64, parallelize=2, name='sum')\nfor i in range(1000):\n    s += i\nreturn s"
    assert run(body) == 499500


def test_loops_over_vectors_and_lists_are_unrolled():
    assert run("s = 0\nfor x in qd.Vector([1, n, 3]):\n    s = s * 10 + x\nreturn s", n=("qd.i32", 2)) == 123
    assert (
        run(
            "s = 0\nfor i, x in enumerate([n, 5]):\n    s += i * x\nfor a, b in zip([1, 2], [n, n]):\n    s += a * b\nreturn s",
            n=("qd.i32", 2),
        )
        == 11
    )
    assert run("s = 0\nfor i in reversed(range(4)):\n    s = s * 10 + i\nreturn s") == 3210


def test_while_else():
    assert run("i = 0\nwhile i < n:\n    i += 1\nelse:\n    i += 100\nreturn i", n=("qd.i32", 3)) == 103


def test_loop_variable_of_a_sibling_loop_may_have_the_same_name():
    assert run("s = 0\nfor i in range(3):\n    s += i\nfor i in range(4):\n    s += i\nreturn s") == 9


def test_iterator_is_chosen_at_compile_time():
    assert run("s = 0\nfor i in (range(3) if qd.static(False) else range(n)):\n    s += 1\nreturn s", n=("qd.i32", 5)) == 5


def test_loop_variables_are_i32():
    assert run("s = 1\nfor i in range(n):\n    if i == n - 1:\n        s = i * i\nreturn s", n=("qd.i32", 65537)) == 0


def test_product_by_parallel_iterations_is_exact():
    x = qd.field(qd.i64, shape=())

    @qd.kernel
    def work():
        for i in range(60):
            x[None] *= 2

    x[None] = 1
    work()
    assert x[None] == 2**60


PARTS = [
    ("for i in x[1:3, 0]:\n    s = s * 10 + i", 12),
    ("for i in x[n:, 1]:\n    s = s * 10 + i", 23),
    ("for i in x[-3:-1, n]:\n    s = s * 10 + i", 12),
    ("for i in x[n:100, 0]:\n    s = s * 10 + i", 23),
    ("for j in x[n]:\n    s = s * 10 + j", 12),
    ("for i, j in x[1::2]:\n    s = s * 100 + i * 10 + j", 101112303132),
    ("for i, j in x[3:1]:\n    s = 1", 0),
]


@pytest.mark.parametrize("loop, expected", PARTS)
def test_loop_over_a_part_of_a_container_has_the_indices_of_the_container(loop, expected):
    body = f"s = qd.i64(0)\nqd.loop_config(serialize=True)\n{loop}\nreturn s"
    for preamble, arguments in [
        ("x = qd.field(qd.i32, (4, 3))", {}),
        ("", {"x": ("qd.types.ndarray()", np.zeros((4, 3), np.float32))}),
    ]:
        assert run(body, "qd.i64", preamble, n=("qd.i32", 2), **arguments) == expected


def test_containers_are_looped_over_together():
    preamble = "x = qd.field(qd.i32, (4, 3))\ny = qd.field(qd.i32, (4, 3))"
    assert run("s = 0\nfor i, j in qd.zip(x, y):\n    s += i * 10 + j + x[i, j] - y[i, j]\nreturn s", preamble=preamble) == 192


def test_axes_of_an_ndrange_may_have_steps():
    loop = "for i, j in qd.ndrange((0, n, 3), (5, 2, -1)):\n    s = s * 100 + i * 10 + j"
    body = f"s = qd.i64(0)\nqd.loop_config(serialize=True)\n{loop}\nreturn s"
    expected = 0
    for i in range(0, 7, 3):
        for j in range(5, 2, -1):
            expected = expected * 100 + i * 10 + j
    assert run(body, "qd.i64", n=("qd.i32", 7)) == expected
    assert run(body.replace("n, 3", "7, 3"), "qd.i64", n=("qd.i32", 7)) == expected
    assert [*qd.ndrange((0, 7, 3), 1)] == [(0, 0), (3, 0), (6, 0)]


@pytest.mark.parametrize("n, expected", [(10, 45), (3, 9)])
def test_range_is_chosen_at_run_time(n, expected):
    assert run("s = 0\nfor i in range(n) if n > 5 else range(2, 5):\n    s += i\nreturn s", n=("qd.i32", n)) == expected


@pytest.mark.parametrize("n, expected", [(10, [2, 2, 2, 2]), (1, [1, 1, 0, 0]), (0, [3, 3, 0, 0])])
def test_loops_alone_under_an_if_run_when_its_condition_holds(n, expected):
    x = qd.field(qd.i32, shape=4)

    @qd.kernel
    def work(n: qd.i32):
        if n > 0:
            for i in range(2):
                x[i] = 1
            if n > 3:
                for i in x:
                    x[i] = 2
        else:
            for i in range(2):
                x[i] = 3

    work(n)
    assert x.to_numpy().tolist() == expected


def test_variables_of_an_ndrange_loop_can_be_assigned():
    x = qd.field(qd.i32, shape=(4, 8))

    @qd.func
    def grow(a: qd.template()):
        a += 2

    @qd.kernel
    def k() -> qd.i32:
        for i, j in qd.ndrange(2, 2):
            j = j + 2
            x[0, i * 4 + j] = j
        for i, j in qd.ndrange(2, 2):
            i = qd.cast(i, qd.i64)
            j += 2.7
            grow(j)
            for _ in range(2):
                i += 1
            x[1, (i - 2) * 2 + j - 4] = i * 10 + j
        for I in qd.grouped(qd.ndrange(2, 2)):
            I[0] += 1
            I = I + 1
            x[2, I[0] * 2 + I[1] - 5] = I[0]
        total = 0
        for k in range(2):
            for i, j in qd.ndrange(2, 2):
                i, j = j, i
                total += (i + 1) * 3**j
        return total + x[3, 0]

    assert k() == 2 * (1 + 2 + 3 + 6)
    expected = np.zeros((4, 8), int)
    expected[0, [2, 3, 6, 7]] = [2, 3, 2, 3]
    expected[1, :4] = [24, 25, 34, 35]
    expected[2, :4] = [2, 2, 3, 3]
    assert x.to_numpy().tolist() == expected.tolist()


@pytest.mark.parametrize(
    "body", ["for i in range(3):\n    i = i + 1", "for i, j in x:\n    j += 1", "for I in qd.grouped(x):\n    I[0] = 1"]
)
def test_other_loop_variables_cannot_be_assigned(body):
    with pytest.raises(qd.QuadrantsSyntaxError):
        run(body, None, preamble="x = qd.field(qd.i32, shape=(2, 2))")


@pytest.mark.parametrize(
    "low, high, step, count",
    [
        (2**63 - 5, 2**63 + 5, 1, 10),
        (2**63 - 5, 2**63 + 5, 3, 4),
        (2**63 + 5, 2**63 - 5, 1, 0),
        (2**64 - 3, 2**64 - 1, 1, 2),
        (0, 3, 1, 3),
        (2**63 + 5, 2**63 - 5, -2, 5),
    ],
)
def test_ranges_of_u64_go_beyond_the_largest_i64(low, high, step, count):
    loop = "qd.loop_config(serialize=True)\nfor i in range(a, b, c):\n    s += 1\n    last = qd.cast(i, qd.u64)"
    body = f"s = 0\nlast = qd.u64(0)\n{loop}\nreturn "
    numbers = range(low, high, step)
    arguments = {"a": ("qd.u64", low), "b": ("qd.u64", high), "c": ("qd.i64", step)}
    assert run(body + "s", **arguments) == count
    assert run(body + "last", "qd.u64", **arguments) == (numbers[-1] if count else 0)
    parallel = "s = 0\nfor i in range(a, b, c):\n    s += 1\nreturn s"
    assert run(parallel, **arguments) == count


@pytest.mark.parametrize("low, high, count", [("qd.i64", "qd.u64", 8), ("qd.u64", "qd.i32", 0), ("qd.i32", "qd.u64", 8)])
def test_ranges_of_mixed_signs(low, high, count):
    first, last = (2**63 + 1, 3) if low == "qd.u64" else (-3, 5)
    assert run("s = 0\nfor i in range(a, b):\n    s += 1\nreturn s", a=(low, first), b=(high, last)) == count


def test_more_iterations_than_can_be_counted_are_refused():
    with pytest.raises(qd.QuadrantsSyntaxError, match=r"at most 2\*\*63 - 1 iterations"):
        run("for i, j, k, l in qd.ndrange(2**16, 2**16, 2**16, 2**17):\n    pass", None)


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize(
    "loop", ["for i in range(2, 9, n):", "for j in range(3):\n  for i in range(j, 9, n):", "if n == 0:\n  for i in range(9, 2, n):"]
)
def test_a_step_that_is_zero_fails_the_launch(on_every_backend, loop, debug):
    on_every_backend(debug=debug)
    pad = "    " if ":" in loop[:-1] else ""
    body = f"s = 0\n{loop}\n{pad}    s += 1\nreturn s"
    if not loop.startswith("if"):
        assert run(body, n=("qd.i32", 3)) > 0
    with pytest.raises(qd.QuadrantsAssertionError, match="arg 3 must not be zero"):
        run(body, n=("qd.i32", 0))
    assert run("return n", n=("qd.i32", 4)) == 4


@pytest.mark.parametrize("block_dim", [1, 3, 96, 192, 1000, 1024])
def test_blocks_have_any_size_up_to_the_limit(block_dim):
    body = f"s = 0\nqd.loop_config(block_dim={block_dim})\nfor i in range(5000):\n    s += i\nreturn s"
    assert run(body) == sum(range(5000))


@pytest.mark.parametrize("block_dim", [0, -32, 1025, 2.5])
def test_blocks_of_other_sizes_are_refused(block_dim):
    with pytest.raises(qd.QuadrantsSyntaxError, match="block_dim must be an integer between 1 and 1024"):
        run(f"qd.loop_config(block_dim={block_dim})\nfor i in range(5):\n    pass", None)


@pytest.mark.parametrize(
    ("option", "wanted"),
    [
        ("name=3", "name must be a string, got 3"),
        ("serialize='no'", "serialize must be True or False, got 'no'"),
        ("persistent=2", "persistent must be True or False, got 2"),
        ("parallelize=True", "parallelize must be an integer between 1 and 2147483647, got True"),
    ],
)
def test_options_of_loops_with_values_of_other_types_are_refused(option, wanted):
    with pytest.raises(qd.QuadrantsSyntaxError, match=f"qd.loop_config: {wanted}"):
        run(f"qd.loop_config({option})\nfor i in range(5):\n    pass", None)


def test_an_element_that_is_a_vector_is_looped_over_by_its_components():
    v = qd.Vector.field(3, qd.i32, shape=(2, 2))
    v[1, 0] = [3, 4, 5]

    @qd.kernel
    def work(n: qd.i32) -> qd.i32:
        s = 0
        for x in v[n, 0]:
            s = s * 10 + x
        return s

    assert work(1) == 345


@pytest.mark.parametrize("bound, expected", [("range(3)", 2**31 - 2**32), ("range(m)", 2**31)])
def test_a_chosen_range_has_the_wider_type_of_both_whatever_default_ip_is(on_every_backend, bound, expected):
    on_every_backend(default_ip=qd.i64)
    body = f"s = qd.i64(0)\nfor i in range(1, 2) if n > 2 else {bound}:\n    s += i + qd.i32(2147483647)\nreturn s"
    assert run(body, "qd.i64", n=("qd.i32", 3), m=("qd.i64", 1)) == expected


def test_indices_of_fields_with_an_offset_are_i32(on_every_backend):
    on_every_backend(default_ip=qd.i64)
    x = qd.field(qd.u32, shape=(4,), offset=(-3,))
    x.fill(5)

    @qd.kernel
    def compare():
        for i in x:
            x[i] = x[i] >= i  # of u32 and i32: a comparison of u32

    compare()
    assert list(x.to_numpy()) == [0, 0, 0, 1]


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_arrays_may_begin_anywhere(dtype):
    """Vectors of iterations are aligned to the memory that they write; the first and last elements are none too many and none too few."""

    @qd.kernel
    def add(x: qd.types.ndarray(ndim=1), y: qd.types.ndarray(ndim=1), begin: qd.i32, end: qd.i32):
        for i in range(begin, end):
            y[i] = x[i] + y[i]

    memory = np.zeros(200, dtype)
    for start in range(20):
        for begin, end in ((0, 0), (0, 1), (0, 7), (3, 20), (1, 100), (5, 4)):
            memory[:] = np.arange(200)
            wanted = memory.copy()
            wanted[start + begin : start + max(begin, end)] *= 2
            part = memory[start : start + 150]
            add(part, part, begin, end)
            assert np.array_equal(memory, wanted), (start, begin, end)


def test_loop_over_a_name_that_stands_for_a_container():
    body = "c = qd.static(x)\nfor i in c:\n    c[i] = i * 2\nreturn x[3]"
    assert run(body, preamble="x = qd.field(qd.i32, 4)") == 6


def test_the_vector_of_a_container_without_axes_is_looped_over():
    body = "m[None] = [n, 2, 3]\ntotal = 0\nfor x in m[None]:\n    total = total * 10 + x\nreturn total"
    assert run(body, preamble="m = qd.Vector.field(3, qd.i32, ())", n=("qd.i32", 1)) == 123


@pytest.mark.parametrize("dtype", [qd.f32, qd.f64])
def test_sums_of_floats_are_the_same_for_any_number_of_threads(dtype):
    results = set()
    for threads in (1, 2, 3, 2):
        qd.init(arch=qd.cpu, deterministic=True, cpu_max_num_threads=threads)
        x, total = qd.field(dtype, 100_001), qd.field(dtype, ())

        @qd.kernel
        def add_up() -> dtype:  # noqa: B023
            local = dtype(0)  # noqa: B023
            for i in x:
                x[i] = qd.sin(dtype(i)) * 1e3
            for i in x:
                total[None] += x[i]  # noqa: B023
                local += x[i]  # noqa: B023
            return local

        results.add((add_up(), total[None]))
    assert len(results) == 1


@pytest.mark.parametrize("count", [3, 8, 37])
def test_an_element_read_before_it_is_overwritten_keeps_its_value_in_some_iterations(count):
    x, chosen, y = (qd.field(qd.f32, shape=count) for _ in range(3))

    @qd.kernel
    def swap():
        for i in x:
            s = 1.0
            if chosen[i] > 0:
                old = x[i]
                x[i] = 0.0
                s = old
            y[i] = s

    x.from_numpy(np.arange(count, dtype=np.float32) + 5)
    chosen.from_numpy(np.arange(count, dtype=np.float32) % 2)
    swap()
    is_chosen = np.arange(count) % 2 == 1
    np.testing.assert_array_equal(y.to_numpy(), np.where(is_chosen, np.arange(count) + 5, 1))
    np.testing.assert_array_equal(x.to_numpy(), np.where(is_chosen, 0, np.arange(count) + 5))


@pytest.mark.parametrize("dtype", [qd.i8, qd.u8, qd.i16, qd.u16])
def test_indices_of_two_axes_as_small_integers(dtype):
    """Several iterations at a time: the driver of NVIDIA GPUs adds pairs of 16-bit integers wrongly."""

    @qd.kernel
    def number(x: qd.types.NDArray[dtype, 2]):
        for i, j in qd.ndrange(x.shape[0], 2):
            x[i, j * (x.shape[1] - 1)] = qd.cast(i * 2 + j + 1, dtype)

    x = qd.ndarray(dtype, (20, 3))
    number(x)
    np.testing.assert_array_equal(x.to_numpy()[:, ::2].ravel(), np.arange(1, 41))


@pytest.mark.parametrize("bounds", ["n", "1, n", "n, -n, -2", "-3, n, 3", "n, 4", "0, n, 2"])
def test_ranges_of_the_run_time_in_reverse(bounds):
    body = f"s = 0\nqd.loop_config(serialize=True)\nfor i in reversed(range({bounds})):\n    s = (s * 7 + i) % 1000003\nreturn s"
    for n in (-2, 0, 1, 5, 6):
        expected = 0
        for i in reversed(eval(f"range({bounds})", {"n": n})):
            expected = (expected * 7 + i) % 1000003
        assert run(body, n=("qd.i32", n)) == expected


@pytest.mark.parametrize("order", ["C", "F"])
def test_inner_loops_along_an_axis_with_any_stride(order):
    """Rounds that are unrolled are a stride apart, which is known at launch only."""

    @qd.kernel
    def double(x: qd.types.ndarray(qd.f32, 2), y: qd.types.ndarray(qd.f32, 2), first: qd.types.ndarray(qd.i32, 1)):
        for i in range(x.shape[1]):
            for k in range(first[i], first[i + 1]):
                y[k, i] = x[k, i] * 2

    x, y = np.random.default_rng(1).random((82, 40), np.float32).copy(order), np.zeros((82, 40), np.float32, order)
    first = np.arange(41, dtype=np.int32) * 2
    double(x, y, first)
    rows = np.arange(82)[:, None]
    np.testing.assert_array_equal(y, np.where((rows >= first[:-1]) & (rows < first[1:]), x * 2, 0))
