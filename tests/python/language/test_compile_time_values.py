"""Python's own containers and functions in kernels: what is known while compiling, and what is refused where it is not."""

import numpy as np
import pytest
from language_support import define, run

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")

N = {"n": ("qd.i32", 3)}


@pytest.mark.parametrize(
    "expression, expected",
    [
        ("len({x % 2 for x in (1, 2, 3)})", 2),
        ("len({1, 1, 2})", 2),
        ("sum({4, 4, 5})", 9),
        ("qd.i32(3 in {1, 3})", 1),
        ("int(3.7) + int(-3.7) + int('5') + int()", 5),
        ("qd.i32(None is None)", 1),
        ("qd.i32(None is not None or qd is None)", 0),
        ("sum(map(lambda x: x + n, (1, 2)))", 9),
        ("sum(map(lambda x, y: x * y, (1, 2), [n, 5]))", 13),
        ("sum(filter(None, (1, 0, 2)))", 3),
        ("sum(filter(lambda x: x > 1, (1, 2, 3)))", 5),
        ("sum(qd.static(filter(lambda x: x > 1, (1, 2, 3))))", 5),
        ("sum([sum(map(lambda x: x * k, (n, 2))) for k in (1, 2)])", 15),
        ("min(x * k for k in (1, 2) for x in (n, 7)) * 10 + max(x for x in (n, 2))", 33),
        ("(n if 3 > 2 else 2.5) // 2", 1),  # a condition that is known chooses an operand as it is
        ("((3 > 2) and n) // 2 + ((1 > 2) or n) // 2", 2),
        ("((2147483647 if n > 2 else 0) + 1) // 2", -(2**30)),  # one of the run time gives a typed value
        ("(1 if n > 2 else 2) << 33", 2),
        ("len({n, n}) * 10 + len({n % x for x in (1, 2)})", 12),
        ("{1: 2, 3: 7}[n] * 10 + len({n: 2, 3: 1})", 71),
        ("{n + x: x for x in (1, 2)}[4] * 10 + {x: n * x for x in (1, 3)}[n]", 19),
        ("1 if 3 > 2 else None.missing", 1),
        ("3 > 2 or n.missing", 1),
    ],
)
def test_values_known_while_compiling_are_pythons(expression, expected):
    assert run(f"return {expression}", **N) == expected


@pytest.mark.parametrize(
    "expression, message",
    [
        ("sum([x for x in (1, 2) if x > n])", "the filter of a comprehension must be known while compiling"),
        ("sum(filter(lambda x: x > n, (1, 2)))", r"what filter\(\) asks for must be known while compiling"),
        ("qd.i32(n is True)", 'Operator "is" in Quadrants scope is not supported'),
        ("qd.i32(n in 'abc')", "unsupported operand"),
        ("qd.i32(n in range(0, n, n))", "searches ranges whose steps are known"),
        ("qd.Vector([1, 2, 3])[n:].sum()", "does not support variables in slice now"),
        ("len([1, 2, 3][n : n + 1])", "does not support variables in slice now"),
        ("sum([i for i in range(n)])", "range"),
        ("len(list(qd.ndrange(n, 2)))", "range"),
        ("sum(range(n))", "range"),
        ("sorted([3, n], key=lambda x: -x)[0]", r"sorted\(\) got an unexpected keyword argument 'key'"),
        ("1 if n > 2 else None", "NoneType"),
    ],
)
def test_values_of_the_run_time_are_refused(expression, message):
    with pytest.raises(qd.QuadrantsCompilationError, match=message):
        run(f"return {expression}", **N)


@pytest.mark.parametrize(
    "header, message",
    [
        ("for i in reversed(range(0, n, n)):", "whose step is known"),
        ("for i, x in enumerate(range(n)):", "range"),
        ("for i, x in zip(range(n), (1, 2)):", "range"),
        ("for i in [1, 2] if n > 1 else [3, 4]:", "Using non static inlined if statement"),
    ],
)
def test_ranges_of_the_run_time_are_looped_over_only(header, message):
    with pytest.raises(qd.QuadrantsCompilationError, match=message):
        run(f"s = 0\n{header}\n    s += i\nreturn s", **N)


OPTIONAL = """
import dataclasses

@dataclasses.dataclass
class Group:
    array: qd.types.NDArray[qd.i32, 1] | None

@qd.data_oriented
class Solver:
    def __init__(self, array):
        self.array = array

    @qd.kernel
    def has_array(self) -> qd.i32:
        return 0 if qd.static(self.array is None) else 1

@qd.kernel
def of_tensor(array: qd.Tensor | None) -> qd.i32:
    return 1 if qd.static(array is not None) else 0

@qd.kernel
def of_template(array: qd.template()) -> qd.i32:
    return 0 if qd.static(array is None) else 1

@qd.kernel
def of_array(array: qd.types.NDArray[qd.i32, 1] | None) -> qd.i32:
    return qd.static(0 if array is None else 1)

@qd.kernel
def of_group(group: Group) -> qd.i32:
    return 0 if qd.static(group.array is None) else 1

@qd.kernel
def are_same(first: qd.Tensor, second: qd.Tensor) -> qd.i32:
    return 1 if qd.static(first is second) else 0

@qd.kernel
def is_field(array: qd.Tensor) -> qd.i32:
    return 1 if qd.static(isinstance(array, qd.Field)) else 0
"""


@pytest.mark.parametrize("given", [(1, 0, 1, 0), (0, 1, 0, 1)])
def test_a_container_that_is_only_looked_at_is_remembered(given):
    module = define(OPTIONAL)
    arrays = [qd.ndarray(qd.i32, 2) if wanted else None for wanted in given]
    fields = [qd.field(qd.i32, 2) if wanted else None for wanted in given]
    solver = module["Solver"](None)
    for array, field, wanted in zip(arrays, fields, given, strict=True):
        solver.array = array
        launches = [module["of_tensor"](array), module["of_template"](field), module["of_array"](array), solver.has_array()]
        assert [*launches, module["of_tensor"](field), module["of_group"](module["Group"](array))] == [wanted] * 6


OPTIONAL_MEMBERS = """
import dataclasses, typing

@dataclasses.dataclass
class Part:
    vector: qd.types.vector(2, qd.f32) | None = None
    array: qd.types.NDArray[qd.f32, 1] | None = None
    tensor: qd.Tensor | None = None
    number: int | None = None

@dataclasses.dataclass
class Whole(Part):
    part: typing.Optional[Part] = None

@qd.func
def add(part: Part):
    s = 0.0
    if qd.static(part.vector is not None):
        s += part.vector[1]
    if qd.static(part.array is not None):
        for i in part.array:
            s += part.array[i] * 10
    if qd.static(part.tensor is not None):
        s += part.tensor[1] * 100
    if qd.static(part.number is not None):
        s += part.number * 1000
    return s

@qd.kernel
def total(whole: Whole) -> qd.f32:
    s = add(whole)
    if qd.static(whole.part is not None):
        s += add(whole.part) * 0.5
    return s
"""


def test_members_of_dataclasses_may_be_none(on_every_backend):
    on_every_backend()
    module = define(OPTIONAL_MEMBERS)
    Part, Whole, total = module["Part"], module["Whole"], module["total"]
    field, array, plain = qd.field(qd.f32, 2), qd.ndarray(qd.f32, 3), np.ones(4, np.float32)
    field.fill(2)
    array.fill(3)
    assert total(Whole()) == 0
    assert total(Whole(qd.Vector([1.0, 2.0]), plain, field, 4)) == 2 + 40 + 200 + 4000
    assert total(Whole(None, array, array, None, Part([5.0, 6.0], plain))) == 90 + 300 + 0.5 * (6 + 40)
    versions = total.specialization_count
    assert [total(Whole(number=number)) for number in (1, 2, 3)] == [1000, 2000, 3000]
    assert qd.cfg is None or total.specialization_count == versions + 1
    assert total(Whole()) == 0
    with pytest.raises(ValueError, match="argument whole.array - required array has dtype=f32, array with dtype=f64"):
        total(Whole(None, np.ones(3)))


def test_containers_are_told_apart_by_identity_and_class():
    module = define(OPTIONAL)
    one, other, field = qd.ndarray(qd.i32, 2), qd.ndarray(qd.i32, 2), qd.field(qd.i32, 2)
    assert [module["are_same"](*pair) for pair in ((one, one), (one, other), (other, other), (one, other))] == [1, 0, 1, 0]
    assert [module["is_field"](container) for container in (one, field, one)] == [0, 1, 0]


def test_specializations_are_listed():
    kernel = define("@qd.kernel\ndef k(a: qd.template(), n: qd.i32, x: qd.types.ndarray()):\n    x[0] = n + a\n")["k"]
    array = qd.ndarray(qd.i32, 2)
    for value in (1, True, 1.0, 1, float("nan"), float("nan"), 0.0, -0.0):
        kernel(value, 3, array)
    assert len(kernel.specializations()) == 6
    assert [version["argument x"] for version in kernel.specializations()] == ["array of i32 (any,)"] * 6
    assert {version["argument n"] for version in kernel.specializations()} == {"i32"}


OUTSIDE = """
A = np.array([200, 1], np.uint8)
D = np.array([0.1, 2.0])
L = [np.float64(0.1), [np.uint8(200)]]
S = np.uint8(200)
class Holder:
    number, array = np.uint8(200), np.array([200], np.uint8)
o = Holder()
"""


@pytest.mark.parametrize(
    "expression, expected",
    [
        ("S + S", 400),
        ("A[0] * A[0]", 40000),
        ("L[1][0] * L[1][0]", 40000),
        ("o.number * o.number + o.array[0] * o.array[0]", 80000),
        ("t * t", 40000),
        ("A[0] + qd.i8(0)", 200),  # a number from outside is of the default type
        ("(L[0] * 3 == qd.f32(0.1) * 3) + (D[0] * n == qd.f32(0.1) * n)", 2),
        ("sum([x * x for x in A])", 40001),
    ],
)
def test_numbers_of_numpy_from_outside_are_pythons(expression, expected):
    module = define(f"{OUTSIDE}\n@qd.kernel\ndef k(n: qd.i32, t: qd.template()) -> qd.i32:\n    return {expression}")
    assert module["k"](3, module["S"]) == expected


def test_arrays_of_numpy_are_unpacked_and_looped_over():
    body = "a, b = A\ntotal = a * a\nfor x in A:\n    total += x * x\nfor key, x in E.items():\n    total += x * n\nreturn total + b"
    assert run(body, preamble=f"{OUTSIDE}E = {{'a': 100, 'b': 27}}", **N) == 40000 + 40001 + 381 + 1


@pytest.mark.parametrize(
    "body, expected",
    [
        # items of a list are variables, of the type of their first value
        ("l = [n, n]\nif n > 5:\n    l[0] = 7\nreturn l[0]", 3),
        ("l = [n, n]\nif n > 0:\n    l[0] = 7\nreturn l[0]", 7),
        ("l = [n, n]\nl[0] = 2.9\nl[1] += 1.9\nreturn l[0] * 10 + l[1]", 24),
        ("l = [n, n]\nwhile l[0] < 10:\n    l[0] = l[0] + n\nreturn l[0]", 12),
        ("l = [n, 1]\nfor i in range(4):\n    l[1] *= l[0]\nreturn l[1]", 81),
        ("d = {'a': n}\nfor i in range(4):\n    d['a'] += i\nreturn d['a']", 9),
        ("l = [n] * 3\nl[0] += 5\nreturn l[0] * 10 + l[1]", 83),
        ("l = [n, n]\nm = [*l, n]\nl[0] = 9\nreturn m[0] * 10 + (l + m)[0]", 39),
        ("l = [n, n]\nfor x in l:\n    l[0] = 9\n    l[1] += x\nreturn l[1]", 3 + 3 + 6),
        ("l = [1, 2]\nl[0] += 5\nreturn l[0]", 6),
        ("l = [n]\nm = l\nm[0] = 7\nreturn l[0]", 7),
        # an item is a copy of what it was made of
        ("v = qd.Vector([n, 2])\nl = [v, v]\nv[0] = 9\nl[0][0] += 1\nreturn l[0][0] * 10 + l[1][0]", 43),
        ("v = qd.Vector([n, 2])\nd = {'a': v, 'b': (v, 1)}\nv[0] = 9\nreturn d['a'][0] * 10 + d['b'][0][0]", 33),
        ("s = S(a=n)\nl = [s, s]\ns.a = 9\nl[0].a += 1\nreturn l[0].a * 10 + l[1].a", 43),
        ("s = S(a=n)\nt = (s, [s])\nt[0].a = 9\nreturn s.a * 10 + t[1][0].a", 33),
        # names of compile-time objects go on to others where the branch is known
        ("x = qd.static(1)\nfor i in qd.static(range(4)):\n    x = qd.static(i)\nreturn x", 3),
        ("l = [1]\nfor i in qd.static(range(3)):\n    l = [*l, i + n]\nreturn len(l) * 10 + l[3]", 45),
        ("l = [1]\nif qd.static(True):\n    l = [4, 5]\nl = (n,)\nreturn l[0]", 3),
        ("x = None\nx = n\nx += 1.9\nreturn x", 4),
        ("g = lambda x: x + 1\ng = lambda x: x + 2\nreturn g(n)", 5),
    ],
)
def test_lists_and_names_of_objects(body, expected):
    assert run(body, preamble="S = qd.types.struct(a=qd.i32)", **N) == expected


@pytest.mark.parametrize(
    "body",
    [
        "d = {'b': {'c': 3}}\nif n > {limit}:\n    d['b']['c'] = 9\nreturn d['b']['c']",
        "l = [[1, 2], [3]]\nif n > {limit}:\n    l[0][1] = 9\nreturn l[0][1] * 10 + l[1][0]",
        "l = [[1, 2], [n]]\nfor i in range(n):\n    l[0][1] += i\n    l[1][0] *= 2\nreturn l[0][1] * 100 + l[1][0]",
        "l = [{'a': 1}]\nl[0]['a'] += n\nwhile l[0]['a'] < {limit}:\n    l[0]['a'] += 1\nreturn l[0]['a']",
        "t = ([1, 2], 3)\nif n > {limit}:\n    t[0][0] = 7\nreturn t[0][0]",
        "l = [[1], [2]]\nfor q in l:\n    if n > {limit}:\n        q[0] = 7\nreturn l[0][0] * 10 + l[1][0]",
        "for q in [[1], [2]]:\n    if n > {limit}:\n        q[0] = 7\n    x[0] += q[0]\nreturn x[0]",
        "l = [[[1]]]\nm = l[0]\nif n > {limit}:\n    m[0][0] = 7\nreturn l[0][0][0]",
        "l = [[qd.Vector([1, 2])]]\nif n > {limit}:\n    l[0][0] = qd.Vector([n, 4])\nl[0][0][1] += 1\nreturn l[0][0][0] * 10 + l[0][0][1]",
        "def last(a):\n    if n > {limit}:\n        a[1][0] = 5\n    return a[1][0]\nreturn last([1, [2]])",
    ],
)
@pytest.mark.parametrize("limit", [0, 9])
def test_items_of_lists_in_lists_are_variables(body, limit):
    lines = body.replace("{limit}", str(limit)).splitlines()
    python = define("import numpy as np\ndef f(n, x):\n" + "".join(f"    {line}\n" for line in lines))["f"]
    x = np.zeros(1, np.int32)
    expected = python(3, [0]) if "Vector" not in body else 35 if limit == 0 else 13
    assert run("\n".join(lines), n=("qd.i32", 3), x=("qd.types.ndarray()", x)) == expected


@pytest.mark.parametrize(
    "body, expected",
    [
        ("l = [1, -5, 3]\nl.sort(reverse=True)\nreturn l[0] * 10 + l[2]", 25),
        ("l = [1, -5, 3]\nl.sort(key=abs)\nreturn l[2]", -5),
        ("d = {'a': 1}\nd.update(b=n)\nd.update({'c': n + 1})\nreturn len(d) * 100 + d['b'] * 10 + d['c']", 334),
        ("d = dict(a=1, b=n)\nd['a'] += n\nd = dict(d, c=7)\nreturn d['a'] * 100 + d['b'] * 10 + d['c']", 437),
        ("a = [n]\nb = a\nb += [4, n]\nb += (1,)\nb = b + [9]\nreturn len(a) * 10 + len(b)", 45),
        ("l = [n, n]\nl.insert(0, 1)\nl += [5]\nfor i in range(3):\n    l[2] += i\nreturn l[2] * 10 + l[3]", 65),
        ("s = 0\nfor i, v in enumerate([n, 2], start=3):\n    s += i * v\nreturn s", 17),
        ("l = [1, n, 3]\ndel l[0]\nd = {'a': 1, 'b': n}\ndel d['a']\nreturn len(l) * 100 + l[0] * 10 + len(d)", 231),
    ],
)
def test_methods_of_lists_and_dicts_have_their_keywords(body, expected):
    assert run(body, **N) == expected


@pytest.mark.parametrize("change", ["l.append(l)", "l.append([n, l])", "l.insert(0, (l,))", "l += [l]", "d['b'] = d", "d.update(b=[d])"])
def test_no_list_or_dict_is_stored_in_itself(change):
    with pytest.raises(qd.QuadrantsSyntaxError, match="cannot be stored in itself"):
        run(f"l = [n]\nd = {{'a': n}}\n{change}\nm = l, d\nreturn 1", **N)


@pytest.mark.parametrize("change", ["l.append(n)", "l.pop()", "l += [5]", "d['b'] = n", "d.clear()", "m[0].append(n)", "del l[0]"])
def test_lists_do_not_change_in_branches_of_the_run_time(change):
    body = f"l = [n, n]\nm = [[n]]\nd = {{'a': n}}\nif n > 0:\n    {change}\nreturn len(l)"
    with pytest.raises(qd.QuadrantsSyntaxError, match="would change a list or dict|Recreating"):
        run(body, **N)


@pytest.mark.parametrize("change", ["L.append(1)", "L.sort()", "D.update(b=2)", "D.pop('a')", "S.add(7)", "setattr(O, 'x', n)"])
def test_captured_collections_do_not_change(change):
    preamble = "class O:\n    x = 1\nL, D, S = [2, 1], {'a': 1, 'l': [1]}, {4}"
    with pytest.raises(qd.QuadrantsSyntaxError, match="a captured value is constant"):
        run(f"{change}\nreturn len(L) + len(D) + len(S)", preamble=preamble, **N)
    assert run("l = list(L)\nl.append(n)\ns = set(S)\ns.add(7)\nreturn len(l) * 10 + len(s)", preamble=preamble, **N) == 32


@pytest.mark.parametrize(
    "change",
    [
        "D['l'].append(5)", "D['l'][0] = 7", "D['l'].sort(reverse=True)", "del D['l'][0]", "D['l'] += [1]", "D['s'].add(5)",
        "D['s'] |= {9}", "D['d']['x'] = 5", "D['d'].update({'x': 1})", "D['d'].clear()", "D['t'][0].append(3)", "D['q'].popleft()",
        "D[1, 2].append(3)", "D.get('l').append(5)", "D.pop('l')", "D['o'].l.append(5)", "D['o'].s.add(5)", "D['o'].z = 3",
        "D['o'].d['a'].append(3)", "setattr(D['o'], 'z', 3)", "list.append(D['l'], 3)", "F['a'].append(3)", "C.update('b')",
        "for v in qd.static(P.values()):\n    v.append(3)", "for k, v in P.items():\n    v.append(3)", "m = [P['l']]\nm[0].append(3)",
        "y, = L\ny.append(3)", "for v in L:\n    v.append(3)", "[v.append(3) for v in L]", "L[0][0] += 3", "T[0]['a'].append(3)",
        "next(I)", "for v in I:\n    m = v", "x = [v for v in I]", "next(D['i'])",
    ],
)  # fmt: skip
def test_nothing_in_a_captured_collection_changes(change):
    preamble = """
import collections
class O:
    def __init__(self):
        self.l, self.s, self.d = [1], {1}, {"a": [1]}
made = lambda: {"l": [2, 1], "s": {1}, "d": {"a": 1}, "t": ([1],), "q": collections.deque([1, 2]), "o": O(), (1, 2): [1], "i": iter([1])}
D, P, L, T, F, C = made(), {"l": [1]}, [[1]], ({"a": [1]},), collections.defaultdict(list), collections.Counter("aab")
I = iter([1, 2, 3])
show = lambda v: {k: show(w) for k, w in v.items()} if isinstance(v, dict) else list(map(show, v)) if isinstance(v, (list, tuple)) else (
    show(vars(v)) if isinstance(v, O) else v.__length_hint__() if hasattr(v, "__length_hint__") else repr(v))
"""
    source = "@qd.kernel\ndef k() -> qd.i32:\n" + "".join(f"    {line}\n" for line in change.splitlines()) + "    return 1\n"
    module = define(preamble + source)
    all_of_them = [module[name] for name in "DPLTFCI"]
    before = module["show"](all_of_them)
    with pytest.raises(qd.QuadrantsSyntaxError, match="a captured value is constant"):
        module["k"]()
    assert module["show"](all_of_them) == before


def test_iterators_step_only_in_their_own_block():
    body = "it = iter([1, 2, 3])\nx = 0\nif n > 0:\n    x = next(it)\nreturn x"
    with pytest.raises(qd.QuadrantsSyntaxError, match="step an iterator, from outside of this func, run-time branch"):
        run(body, **N)
    with pytest.raises(qd.QuadrantsSyntaxError, match="step an iterator, from outside of this func, run-time branch"):
        run(body.replace("x = next(it)", "for v in it:\n        x += v"), **N)
    assert run("it = iter([1, 2, 3])\nx = next(it) * 10\nreturn x + next(it)", **N) == 12


@pytest.mark.parametrize(
    "body",
    [
        "l = [1, 2, 3]\nl[n % 3] = 5\nl[(n + 1) % 3] += n\nreturn l[0] * 100 + l[1] * 10 + l[2]",
        "l = [n, 2]\nfor i in range(4):\n    l[i % 2] *= 2\nreturn l[0] * 10 + l[1]",
        "l = [1, 2, 3]\nif n > 2:\n    l[n - 3] = 7\nreturn l[0] * 10 + l[2]",
        "l = [1, 2]\nl.append(n)\nl[n - 1] = 9\nreturn l[0] * 100 + l[1] * 10 + l[2]",
        "l = [1, 2, 3]\nl[0:2] = [7, 8]\nreturn l[0] * 100 + l[1] * 10 + l[2]",
        "l = [n, 2, 3]\nl[:2] = l[1:]\nreturn l[0] * 100 + l[1] * 10 + l[2]",
        "l = [1, 2, 3]\nl[1:] = [n, n, n]\nl[:1] = []\nreturn len(l) * 10 + l[2]",
        "l = [1, 2, 3]\nl[::2] = (n, 9)\nif n > 2:\n    l[:2] = [4, n]\nreturn l[0] * 100 + l[1] * 10 + l[2]",
        "l = [1, 2, 3, 4]\ndel l[1:3]\nreturn len(l) * 10 + l[1]",
    ],
)
def test_items_and_slices_of_lists_are_assigned_as_in_python(body):
    expected = define("def f(n):\n" + "".join(f"    {line}\n" for line in body.splitlines()))["f"](3)
    assert run(body, **N) == expected


def test_lists_are_assigned_in_parallel_loops():
    body = "l = [0, 0, 0, 0]\nfor i in range(400):\n    l[i % 4] += 1\nreturn l[0] * 1000 + l[3]"
    assert run(body) == 100100


def test_lists_of_several_types_have_no_item_at_a_run_time_index():
    with pytest.raises(qd.QuadrantsTypeError, match="has items of one type"):
        run("l = [1, 2.5]\nl[n % 2] = 3\nreturn 1", **N)
    with pytest.raises(qd.QuadrantsTypeError, match="sequence of size 1 to extended slice of size 2"):
        run("l = [1, 2, 3]\nl[::2] = [n]\nreturn 1", **N)


@pytest.mark.parametrize(
    "definition, expected",
    [
        ("f = lambda x, y=m, *, z=2: x * y + z", 14),
        ("f = lambda x, y=[m, 5]: x * y[0] + y[1]", 17),
        ("f = lambda x, y=G: x * y", 21),
        ("def f(x, y=m + 1, z=m * 10):\n    return x * y + z", 55),
    ],
)
def test_defaults_are_evaluated_where_a_function_is_defined(definition, expected):
    body = f"m = n + 1\n{definition}\nm = 100\nreturn f(3)"
    assert run(body, preamble="G = 7", n=("qd.i32", 3)) == expected
    given = "f = lambda x, y=m, *, z=2: x * y + z\nreturn f(3, 5) * 10000 + f(3, z=1) * 100 + f(x=3, y=2)"
    assert run(f"m = n + 1\n{given}", n=("qd.i32", 3)) == 17 * 10000 + 13 * 100 + 8


@pytest.mark.parametrize("branch", ["if n > 9:", "for i in range(n):", "while n > 9:"])
def test_sets_do_not_change_in_branches_of_the_run_time(branch):
    with pytest.raises(qd.QuadrantsSyntaxError, match="would change a list or dict"):
        run(f"s = {{1}}\n{branch}\n    s.add(2)\nreturn len(s)", **N)
    assert run(f"x = 0\n{branch}\n    s = {{1}}\n    s.add(2)\n    x = len(s)\nreturn x", **N) == (2 if "for" in branch else 0)


def test_items_assigned_in_a_branch_that_is_not_taken_stay_as_they_are():
    branches = "if n > 0:\n    y = l[0]\nelse:\n    l[0] = 1\n    d['a'] += 1\n    y = 3\ny = y"
    body = f"l = [n, 2]\nd = {{'a': n}}\n{branches}\nreturn l[0] * 10 + d['a'] + y"
    assert run(body, n=("qd.i32", 7)) == 84
    assert run(body, n=("qd.i32", -7)) == 10 - 6 + 3


@pytest.mark.parametrize(
    "expression, expected",
    [
        ("(5, 2, 3.5)[True] << 1", 4),  # an index that is known picks the item as it is
        ("(5, 2, 3.5)[3 > 2] << 1", 4),
        ("(5, 2, 3.5)[n > 0] * 2", 4),
        ("qd.select(True, 7, 2.5) / 2 * 10", 35),
    ],
)
def test_indices_and_choices_that_are_known(expression, expected):
    assert run(f"return {expression}", **N) == expected


@pytest.mark.parametrize("index", ["qd.i32(1)", "qd.cast(1, qd.i32)", "V[0]", "qd.cast(qd.static(1), qd.i64)", "n - 2"])
def test_an_index_with_a_type_takes_an_item_of_a_vector(index):
    with pytest.raises(qd.QuadrantsTypeError, match="unsupported operand"):
        run(f"return (5, 2, 3.5)[{index}] << 1", preamble="V = qd.Vector([1, 2])", **N)
    assert run(f"return (5, 2, 3)[{index}] << 1", preamble="V = qd.Vector([1, 2])", **N) == 4


def test_a_plain_function_computes_as_a_func():
    preamble = "def h(x, y):\n    x += 100\n    return x * y / 3 if y > 2 else y // 2 * 0.1"
    with pytest.warns(SyntaxWarning, match="Calling non-quadrants function"):
        assert run("return h(qd.i8(n), 1)", "qd.f64", preamble, n=("qd.i32", 100)) == 0.0
    with pytest.warns(SyntaxWarning, match="Calling non-quadrants function"):
        assert run("return h(qd.i8(n), 3)", "qd.f64", preamble, n=("qd.i32", 100)) == -56.0
    with pytest.warns(SyntaxWarning, match="Calling non-quadrants function"):
        assert run("return h(qd.Vector([n, 3]), 3)[0]", "qd.i32", preamble, n=("qd.i32", 100)) == 200


def test_a_returned_number_is_of_the_type_of_the_annotation():
    assert run("if n > 5:\n    return 1\nreturn 3000000000", "qd.i64", **N) == 3000000000
    assert run("for i in qd.static(range(g())):\n    n2 = n + i\nreturn n + g()", preamble="@qd.func\ndef g():\n    return 4", **N) == 7
