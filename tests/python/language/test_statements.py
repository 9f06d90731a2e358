"""Assignment, branches, scopes."""

import numpy as np
import pytest
from language_support import run

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")


def test_chained_assignment_makes_independent_variables():
    assert run("a = b = n\na += 1\nreturn a * 10 + b", n=("qd.i32", 1)) == 21


def test_unpacking_evaluates_the_right_side_first():
    assert run("a, b = n, 2\na, b = b, a\nreturn a * 10 + b", n=("qd.i32", 1)) == 21
    assert run("v = qd.Vector([1, 2, 3])\nv[0], v[2] = v[2], v[0]\na, b, c = v\nreturn a * 100 + b * 10 + c") == 321


def test_vectors_swap_by_value():
    assert run("v = qd.Vector([1, 2])\nw = qd.Vector([3, 4])\nv, w = w, v\nreturn v[0] * 1000 + v[1] * 100 + w[0] * 10 + w[1]") == 3412


def test_nested_and_starred_targets():
    assert run("(a, b), c = (n, 2), 3\nreturn a * 100 + b * 10 + c", n=("qd.i32", 1)) == 123
    assert run("a, *r = n, 2, 3\nreturn a * 100 + r[0] * 10 + r[1]", n=("qd.i32", 1)) == 123
    assert run("[a, b] = [n, 2]\nreturn a * 10 + b", n=("qd.i32", 1)) == 12


def test_walrus_declares_a_variable():
    assert run("if (y := n + 1) > 2:\n    y += 10\nreturn y", n=("qd.i32", 5)) == 16


def test_walrus_in_a_part_of_a_statement_declares_a_variable_of_its_block():
    assert run("s = 0\nwhile (y := n - s) > 3:\n    s += y // 2\nreturn s * 100 + y", n=("qd.i32", 10)) == 703
    assert run("r = 0\nif n > 0 and (y := n * 2) > 4:\n    r = y\nreturn r + y", n=("qd.i32", 10)) == 40
    assert run("items = [y := i * n for i in range(4)]\nreturn items[2] + y", n=("qd.i32", 10)) == 50
    vector = "while (v := qd.Vector([n, s])).sum() < 9:\n    s += v[0]\nreturn v[0] * 100 + v[1]"
    assert run("s = 0\n" + vector, n=("qd.i32", 4)) == 408


@pytest.mark.parametrize("n, expected", [(-1, 1), (0, 2), (3, 3), (9, 4)])
def test_if_elif_else_takes_one_branch(n, expected):
    body = "r = 0\nif n < 0:\n    r = 1\nelif n == 0:\n    r = 2\nelif n < 5:\n    r = 3\nelse:\n    r = 4\nreturn r"
    assert run(body, n=("qd.i32", n)) == expected


@pytest.mark.parametrize("n", [0, 7])
def test_name_assigned_in_both_branches_is_known_afterwards(n):
    assert run("if n > 3:\n    y = 1\nelse:\n    y = 2\nreturn y", n=("qd.i32", n)) == (1 if n > 3 else 2)


def test_sibling_blocks_have_variables_of_their_own():
    body = "r = 0.0\nif n > 0:\n    y = 1\n    y = 2.9\n    r += y\nif n > 1:\n    y = 2.5\n    r += y\nreturn r"
    assert run(body, "qd.f32", n=("qd.i32", 5)) == 4.5


def test_names_known_before_a_block_are_updated_in_it():
    assert run("y = 1\nif n > 0:\n    y = 2\n    z = y\nreturn y", n=("qd.i32", 5)) == 2


def test_while_with_break_and_continue():
    body = "s = 0\ni = 0\nwhile True:\n    i += 1\n    if i == 3:\n        continue\n    if i > n:\n        break\n    s += i\nreturn s"
    assert run(body, n=("qd.i32", 6)) == 1 + 2 + 4 + 5 + 6


def test_early_return_leaves_the_kernel():
    body = "if n > 3:\n    return 10\ni = 0\nwhile i < 100:\n    if i == n:\n        return i\n    i += 1\nreturn -1"
    assert run(body, n=("qd.i32", 5)) == 10
    assert run(body, n=("qd.i32", 2)) == 2
    assert run(body, n=("qd.i32", -7)) == -1


def test_statements_after_return_are_ignored():
    assert run("return n\nundefined_name + 1", n=("qd.i32", 5)) == 5


def test_reading_an_element_copies_it():
    x = qd.field(qd.i32, shape=2)
    v = qd.Vector.field(2, qd.i32, shape=2)

    @qd.kernel
    def copy() -> qd.i32:
        y = x[0]
        y += 5
        w = v[0]
        w[1] = 7
        return y

    x[0] = 1
    assert copy() == 6
    assert x[0] == 1 and v.to_numpy().sum() == 0


def test_static_assignment_aliases_a_container():
    x = qd.field(qd.i32, shape=2)

    @qd.kernel
    def alias():
        y = qd.static(x)
        y[1] = 4

    alias()
    assert x[1] == 4


def test_lists_and_dicts_are_compile_time_containers():
    body = """x = [1, n]
x.append(2)
d = {"a": n, "b": 10}
d["c"] = 100
squares = [i * i for i in range(4) if i % 2 == 1]
t = (1, 2) + (3,)
return x[1] * len(x) + d["b"] + d["c"] + squares[1] + t[2]"""
    assert run(body, n=("qd.i32", 5)) == 15 + 110 + 9 + 3


def test_list_of_numbers_takes_a_run_time_index():
    assert run("x = [10, 20, 30]\nreturn x[n]", n=("qd.i32", 2)) == 30


def test_augmented_assignment_evaluates_its_target_once():
    x = qd.field(qd.i32, shape=4)
    n = qd.field(qd.i32, shape=())

    @qd.kernel
    def work():
        x[qd.atomic_add(n[None], 1)] += 5
        x[qd.atomic_add(n[None], 1)] /= 2

    x.fill(8)
    work()
    assert n[None] == 2 and x.to_numpy().tolist() == [13, 4, 8, 8]


@pytest.mark.parametrize(
    "name, expected", [("add", 13), ("sub", 7), ("mul", 30), ("min", 3), ("max", 10), ("and", 2), ("or", 11), ("xor", 9), ("exchange", 3)]
)
def test_atomics_return_the_old_value(name, expected):
    x = qd.field(qd.i32, shape=2)
    operation = getattr(qd, f"atomic_{name}")

    @qd.kernel
    def work() -> qd.i32:
        y = 10
        on_local = operation(y, 3)
        return operation(x[1], 3) * 1000 + on_local * 10 + (y == x[1])

    x[1] = 10
    assert work() == 10101
    assert x[1] == expected


@pytest.mark.parametrize("name, sign", [("atomic_add", 1), ("atomic_sub", -1)])
@pytest.mark.parametrize("dtype", [qd.i8, qd.u16, qd.i32, qd.u64, qd.f32])
def test_counters_give_each_iteration_its_own_range(dtype, name, sign):
    """Some iterations add, numbers of their own: the ranges from the old to the new value follow each other."""
    operation, n = getattr(qd, name), 99 if dtype is qd.i8 else 5003
    counter, starts, steps = qd.field(dtype, ()), qd.field(dtype, n), qd.field(qd.i32, n)

    @qd.kernel
    def work():
        for i in range(n):
            if i % 3 != 1:
                steps[i] = i % 2 + 1
                starts[i] = operation(counter[None], steps[i])

    first = 100 if dtype is qd.i8 and sign < 0 else 0 if sign > 0 else 20000
    counter[None] = first
    work()
    found = starts.to_numpy().astype(np.int64)[steps.to_numpy() > 0] * sign
    sizes = steps.to_numpy()[steps.to_numpy() > 0]
    order = np.argsort(found)
    assert (found[order] == first * sign + np.cumsum(sizes[order]) - sizes[order]).all()
    assert counter[None] == first + sign * sizes.sum()


def test_compare_and_exchange_stores_where_the_value_is_expected():
    x = qd.field(qd.i32, shape=2)

    @qd.kernel
    def work(expected: qd.i32) -> qd.i32:
        return qd.atomic_cas(x[0], expected, 9)

    x[0] = 5
    assert work(4) == 5 and x[0] == 5
    assert work(5) == 5 and x[0] == 9


@pytest.mark.parametrize("dtype", [qd.u8, qd.i32, qd.u64])
@pytest.mark.parametrize("step", [1, 3, 37])
def test_bits_of_neighbors_are_set_in_words_that_some_lanes_share(dtype, step):
    """Some iterations set a bit of one word or of several, and clear one of a second set; a third one tells which words are used."""
    width, count = 8 * dtype.size, 5003
    words = count * step // width + 1
    ones, zeros, marks = (qd.field(dtype, words) for _ in range(3))

    @qd.kernel
    def work():
        for i in range(count):
            if i % 7 < 5:
                at = i * step
                bit = qd.cast(1, dtype) << qd.cast(at % width, dtype)
                ones[at // width] |= bit
                qd.atomic_and(zeros[at // width], ~bit)
                qd.atomic_exchange(marks[at // width], 1)

    zeros.fill(-1 if dtype is qd.i32 else 2**width - 1)
    work()
    used = np.arange(count)[np.arange(count) % 7 < 5] * step
    wanted = np.zeros(words * width, np.uint8)
    wanted[used] = 1
    for field, bits in ((ones, wanted), (zeros, 1 - wanted)):
        assert (np.unpackbits(field.to_numpy().view(np.uint8), bitorder="little") == bits).all()
    assert (marks.to_numpy() == (ones.to_numpy() != 0)).all()


@pytest.mark.parametrize("order", ["relaxed", "acquire", "release", "acq_rel", "seq_cst"])
@pytest.mark.parametrize("dtype", [qd.i32, qd.u8, qd.f16, qd.f64, qd.u1])
def test_atomic_loads_and_stores(dtype, order):
    x, v = qd.field(dtype, 3), qd.Vector.field(2, dtype, ())

    @qd.kernel
    def kernel():
        for i in x:
            qd.atomic_store(x[i], i + 1, order=order)
            old = qd.atomic_exchange(x[i], qd.atomic_load(x[i], order=order, scope="block") + 1, order=order, scope="system")
            qd.atomic_store(v[None][0], old, scope="device")
        local = 5
        qd.atomic_store(local, 7)
        qd.atomic_store(v[None], qd.Vector([qd.atomic_load(local), 1]))

    kernel()
    wanted = np.array([2, 3, 4]) if dtype is not qd.u1 else np.ones(3)
    assert (x.to_numpy() == wanted).all()
    assert (v[None].to_numpy() == np.array([7, 1], x.to_numpy().dtype)).all()


@pytest.mark.parametrize("keywords", [{"order": "consume"}, {"order": 1}, {"scope": "grid"}])
def test_atomics_take_orders_and_scopes_that_there_are(keywords):
    x = qd.field(qd.i32, 3)

    @qd.kernel
    def kernel():
        for i in x:
            qd.atomic_add(x[i], 1, **qd.static(keywords))

    with pytest.raises(qd.QuadrantsTypeError, match=r"'(order|scope)' of (qd\.)?atomic_add\(\)"):
        kernel()


def test_a_message_is_seen_with_its_flag():
    data, flag, seen = qd.field(qd.i32, 64), qd.field(qd.i32, 64), qd.field(qd.i32, 64)

    @qd.kernel
    def kernel(start: qd.i32):
        for i in range(64):
            data[i] = start + i
            qd.atomic_store(flag[i], start, order="release")
            other = (i + 7) % 64
            if qd.atomic_load(flag[other], order="acquire") == start:
                seen[i] = qd.volatile_load(data[other]) - start - other
            else:
                seen[i] = 0

    for start in range(1, 200):
        kernel(start)
        assert not seen.to_numpy().any()


def test_atomics_on_vectors_work_by_component():
    v = qd.Vector.field(3, qd.f32, shape=())

    @qd.kernel
    def work():
        for i in range(10):
            v[None] += qd.Vector([1.0, 2.0, i])
            qd.atomic_max(v[None][0], 5.5)

    work()
    assert v[None][1] == 20 and v[None][2] == 45


def test_delete_forgets_a_name():
    assert run("x = 1\ny = x + n\ndel x\nx = 2.5\nreturn x + y", "qd.f32", n=("qd.i32", 1)) == 4.5


def test_evaluation_order_is_left_to_right():
    x = qd.field(qd.i32, shape=4)

    @qd.kernel
    def work():
        n = 0
        a, b = qd.atomic_add(n, 1), qd.atomic_add(n, 1)
        x[0] = a * 10 + b
        y = z = qd.atomic_add(n, 1)
        x[1] = y * 10 + z
        x[2] = n

    work()
    assert x.to_numpy().tolist() == [1, 22, 3, 0]


@pytest.mark.parametrize("n", [0, 7])
def test_name_joined_from_two_branches_has_the_common_type(n):
    body = "if n > 3:\n    y = 1\n    v = qd.Vector([1, 2])\nelse:\n    y = 2.5\n    v = qd.Vector([0.5, 1.5])\nreturn y / 2 + v[0] / 4"
    assert run(body, "qd.f32", n=("qd.i32", n)) == (0.75 if n > 3 else 1.375)


@pytest.mark.parametrize("n", [-2, 0, 7])
def test_names_join_through_nested_branches(n):
    body = """total = 0
if n > 3:
    total += 1
    if n > 5:
        y = n
    else:
        y = 2
else:
    total += 10
    y = 2.5
return y / 2 + total"""
    assert run(body, "qd.f32", n=("qd.i32", n)) == (4.5 if n > 3 else 11.25)


def test_a_variable_of_both_branches_that_is_stored_next_is_a_new_one():
    body = """
if a > 0:
    y = a
else:
    y = a > 1
y = 2.5
return qd.cast(y * 2, qd.i32)
"""
    assert run(body, a=("qd.i32", 1)) == 5


MATCHES = [
    ("case 1:\n    r = 10\ncase 2 | 3:\n    r = 20\ncase _:\n    r = 30", {1: 10, 2: 20, 3: 20, 4: 30}),
    ("case k if k > 5:\n    r = k * 2\ncase -1:\n    r = 7", {10: 20, 3: -1, -1: 7}),
    ("case Color.RED:\n    r = 1\ncase Color.BLUE | 9:\n    r = 2", {4: 1, 5: 2, 9: 2, 6: -1}),
    ("case (1 | 2) as k:\n    r = k + 100", {1: 101, 2: 102, 3: -1}),
]


@pytest.mark.parametrize("cases, expected", MATCHES)
def test_match_takes_the_first_case_that_fits(cases, expected):
    lines = "".join(f"    {line}\n" for line in cases.splitlines())
    for n, r in expected.items():
        preamble = "class Color:\n    RED = 4\n    BLUE = 5"
        assert run(f"r = -1\nmatch n:\n{lines}return r", preamble=preamble, n=("qd.i32", n)) == r


def test_match_takes_tuples_apart():
    body = "r = 0\nmatch (n, m):\n    case (1, y):\n        r = y\n    case (x, 2):\n        r = x * 10\nreturn r"
    results = [run(body, n=("qd.i32", n), m=("qd.i32", m)) for n, m in [(1, 5), (7, 2), (7, 3)]]
    assert results == [5, 70, 0]


@pytest.mark.parametrize("subject", ["n", "1", "None", "options", "array", "point", "Pair(n, 2)", "n > 1", "[1]", "(1, 2, 3)", "field"])
def test_a_pattern_of_a_sequence_fits_sequences_only(subject):
    preamble = f"{OBJECTS}\narray = np.array([1, 2])\nfield = qd.field(qd.i32, 2)"
    body = f"r = 0\nmatch {subject}:\n    case [x, y]:\n        r = 1\n    case _:\n        r = 2\nreturn r"
    assert run(body, preamble=preamble, n=("qd.i32", 3)) == 2
    for fitting in ("(n, 2)", "[n, n]", "qd.Vector([n, 2])", "vector", "qd.Matrix([[n, 2], [3, 4]])", "range(2)"):
        assert run(body.replace(subject, fitting, 1), preamble=f"{preamble}\nvector = qd.Vector([1, 2])", n=("qd.i32", 3)) == 1


def test_match_of_a_compile_time_value_compiles_one_case():
    body = "r = 0\nmatch qd.static(mode):\n    case 'a':\n        r = 1\n    case 'b':\n        r = 2\nreturn r"
    assert run(body, mode=("qd.template()", "b")) == 2


OBJECTS = """
import dataclasses

@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: int

@qd.dataclass
class Pair:
    a: qd.i32
    b: qd.i32

point, options = Point(1, 2), {"a": 5, "b": 6}
"""
PATTERNS = {
    "mapping with rest": ("options", "{'z': x}", "{'a': x, **rest}", "x * 10 + len(rest)", 51),
    "mapping of run-time values": ("{'k': n, 'l': 2}", "{'k': 4}", "{'k': x, 'l': 2}", "x", 3),
    "attributes": ("point", "Point(x=2)", "Point(x=1, y=k)", "k", 2),
    "attributes by position": ("point", "Point(2, _)", "Point(1, k)", "k", 2),
    "another class": ("point", "Pair()", "Point()", "7", 7),
    "struct": ("Pair(n, 4)", "Pair(a=1)", "Pair(a, b) if a > 2", "a * 10 + b", 34),
    "numbers by type": ("n", "float() | bool()", "int(k)", "k", 3),
    "truth": ("n > 1", "float()", "bool()", "1", 1),
    "starred end": ("[1, 2, n]", "[_, _, _, _, *_]", "[a, *b]", "a * 100 + len(b) * 10 + b[1]", 123),
    "starred middle": ("(1, 2, n, 4)", "[a, b, c]", "[a, *_, b, c]", "a * 100 + b * 10 + c", 134),
    "components": ("qd.Vector([1, n, 5])", "[2, *v]", "[1, *v]", "v[0] * 10 + v[1]", 35),
    "alternatives that bind": ("(n, 2)", "(0, x)", "(1, x) | (x, 2)", "x", 3),
    "nested": ("[n, [1, 2]]", "[x, y, z]", "[x, [1, y]] as w", "x * 100 + y * 10 + len(w)", 322),
}


@pytest.mark.parametrize("subject, other, fitting, result, expected", PATTERNS.values(), ids=PATTERNS)
def test_match_takes_objects_and_sequences_apart(subject, other, fitting, result, expected):
    body = f"r = 0\nmatch {subject}:\n    case {other}:\n        r = -1\n    case {fitting}:\n        r = {result}\nreturn r"
    assert run(body, preamble=OBJECTS, n=("qd.i32", 3)) == expected


@pytest.mark.parametrize("n", [0, 3])
def test_a_variable_of_both_branches_has_the_common_type_also_where_a_branch_jumps(n):
    body = """
r = qd.f64(0)
for i in range(4):
    if i < n:
        y = qd.u32(5)
    elif i == 2 and n == 0:
        continue
    else:
        while True:
            break
        y = -7
    r += y
return r
"""
    assert run(body, "qd.f64", n=("qd.i32", n)) == sum(5 if i < n else 2**32 - 7 for i in range(4) if i != 2 or n != 0)


@pytest.mark.needs("deep nesting")
def test_conditions_inside_of_many_others(tmp_path, monkeypatch):
    """Each adds its number to a sum, until one does not hold."""
    depth = 90
    source = "import quadrants as qd\n"
    for k in reversed(range(depth)):
        call = f"; add{k + 1}(x, y, i)" if k + 1 < depth else ""
        source += f"@qd.func\ndef add{k}(x, y, i):\n if x[i + {k}] != 0:\n  y[i] += {k}{call}\n"
    parameters = "x: qd.types.ndarray(ndim=1), y: qd.types.ndarray(ndim=1)"
    source += f"@qd.kernel\ndef add({parameters}):\n for i in range(8): add0(x, y, i)\n"
    (tmp_path / "nested_conditions.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    import nested_conditions

    x, y = np.ones(100, np.int32), np.zeros(8, np.int32)
    x[87] = 0
    nested_conditions.add(x, y)
    assert y.tolist() == [(87 - i) * (86 - i) // 2 for i in range(8)]
