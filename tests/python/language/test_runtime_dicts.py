"""Dicts and sets with keys that are known at run time only, against those of Python."""

import numpy as np
import pytest
from language_support import NUMPY, define, run

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")

N = {"n": ("qd.i32", 3), "x": ("qd.f32", 0.5)}
DTYPES = ["i32", "i64", "u8", "u64", "f32", "f64", "u1"]


def draw(seed, dtype):
    """Eight keys, of which some are equal."""
    keys = np.random.default_rng(seed).integers(0, 2 + seed % 6, 8)
    keys = keys + 2**40 if dtype in ("i64", "u64") else keys * 0.5 - 1 if dtype[0] == "f" else keys
    return keys.astype(NUMPY[dtype])


def compare(body, dtype="i32", seeds=range(6), size=64, names=""):
    """Runs a body as a kernel and as a function of Python: with the keys `x`, the values `y`, a key `n`, and the results `r`."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    result = "f64" if dtype in ("i64", "u64", "f64") else "f32"  # Metal has no f64
    array = "qd.types.NDArray[qd.{}, 1]".format
    header = f"def k(x: {array(dtype)}, y: {array('i32')}, n: qd.{dtype}, r: {array(result)}):"
    kernel = define(f"{names}\n@qd.kernel\n{header}\n{lines}")["k"]
    plain = define(f"{names.replace('@qd.func', '')}\ndef k(x, y, n, r):\n{lines.replace('qd.static', '')}")["k"]
    for seed in seeds:
        x, y = draw(seed, dtype), np.random.default_rng(seed + 100).integers(-9, 9, 8).astype(np.int32)
        n = draw(seed + 1, dtype)[0].item()
        found, expected = np.zeros(size, NUMPY[result]), np.zeros(size)
        kernel(x, y, n, found)
        plain(x.tolist(), y.tolist(), n, expected)
        np.testing.assert_array_equal(found, expected, err_msg=f"seed {seed}: x = {x}, y = {y}, n = {n}")


READS = """
len(d)
sum(d)
sum(d.keys())
sum(d.values())
min(d) + max(d.values()) * 3
max(d) + min(d.keys()) * 3
d[x[0]] + d[x[7]] * 5
d.get(n, -1)
d[n] if n in d else 77
n in d and d[n] > 0
n not in d
n in d.keys()
x[3] in d
y[3] in d.values()
(x[1], d[x[1]]) in d.items()
any(d)
all(d.values())
any(v > 7 for v in d.values())
all([v > -8 for v in d.values()])
sum(v * v for v in d.values())
sum([v if k > 1 else 2 for k, v in d.items()])
sum(d.values(), 5)
max({v % 3 for v in d.values()})
len({v % 3 for v in d.values()})
len(set(d.values()))
len({v: 1 for v in d.values()})
sum({v % 5: v for k, v in d.items()}.values())
sum(a * v for a in (1, 2) for v in d.values())
1 if d else 2
not d.values()
len(d.items())
sum({**d, n: 7}.values())
sum({n: 7, **d}.values())
sum(dict(d, z=8).values())
len(d.copy())
d.get("text", 9)
"text" in d
""".strip().splitlines()


@pytest.mark.parametrize("dtype", DTYPES)
def test_reads_are_pythons(dtype):
    reads = "".join(f"r[{index}] = {read}\n" for index, read in enumerate(READS))
    compare(f"d = {{x[j]: y[j] + j for j in range(8)}}\n{reads}", dtype)


CHANGES = {
    "display": "d = {x[0]: y[0], x[1]: y[1], n: 5, x[2]: y[2]}",
    "assignment": "d = {}\nfor j in qd.static(range(8)):\n    d[x[j]] = y[j]\nd[n] = 50",
    "known keys": "d = {1: 4, 0: 7, 2.5: 8, -1: 3, True: 9}\nd[x[0]] = 5\nd[n] = 6\nd[0] = 1\nd[2] = 2",
    "augmented": "d = {x[0]: 3, x[1]: 4}\nd[x[0]] += y[0]\nd[x[1]] *= 3\nd[x[0]] -= 1",
    "augmented known": "d = {x[0]: 0, 0: 2, 1: 3}\nd[0] += y[0]\nd[x[0]] += 5",
    "update": "d = {x[0]: 3}\nd.update({x[1]: 4, n: 5})\nd.update({0: 8, 1: 9})",
    "update of known keys": "d = {0: 3, 1: 4}\nd.update({n: 5, x[0]: 6})",
    "setdefault": "d = {x[0]: 3, x[1]: 4}\nr[9] = d.setdefault(n, y[0]) + d.setdefault(x[2], y[1])",
    "copy": "e = {x[0]: 3, x[1]: 4}\nd = e.copy()\ne[n] = 8\nd[x[2]] = 9\nr[9] = sum(e.values()) + len(e)",
    "second name": "d = {x[0]: 3}\ne = d\nv = d.values()\ne[n] = 4\nr[9] = sum(v)\nr[8] = len(v)",
    "names of dicts with known keys": "d = {0: y[0], 1: y[1]}\nv, w = d.values(), d.items()\n"
    "d[1] = 4\nd[7] = 8\nr[9] = sum(v)\nr[8] = len(w)\nd[n] = 5",
    "item that is a variable": "d = {0: y[0], 1: y[1]}\nfor i in range(3):\n    d[0] += i\nd[n] = 6",
    "comprehension of a dict": "e = {x[j]: y[j] for j in range(5)}\nd = {k: v + 1 for k, v in e.items()}\nd[n] = 4",
    "condition": "d = {x[0]: 3}\nif y[0] > 0:\n    e = {n: 4, x[0]: 1, x[1]: 2}\n    e[x[2]] = 8\n    r[9] = sum(e.values())",
    "static condition": "d = {x[0]: 3}\nif qd.static(2 > 1):\n    d[n] = 4",
}


@pytest.mark.parametrize("dtype", ["i32", "f32"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_changes_are_pythons(change, dtype):
    compare(f"{change}\ns = 0\nfor k, v in d.items():\n    s = s * 3 + v\nr[0] = s\nr[1] = sum(d.values())\nr[2] = len(d)", dtype)


LOOPS = {
    "keys": "s = 0.0\nfor k in d:\n    s = s * 3 + k\nr[0] = s",
    "values": "s = 0\nfor v in d.values():\n    s = s * 3 + v\nr[0] = s",
    "set": "s = 0\nfor v in {y[0] % 2, y[1] % 2, y[2] % 2}:\n    s += v\nr[0] = s",
    "break": "for k in d:\n    r[0] = k\n    break\nelse:\n    r[1] = 1",
    "break of a later one": "for i in [0, 1]:\n    for v in d.values():\n        r[2 + i] += v\n"
    "        if i == 1:\n            break\n    else:\n        r[1] += 1",
    "break of an absent one": "e = {k: v for k, v in d.items()}\nfor j in [1, 2, 3]:\n    for k in {x[0]: 1, x[1]: 2}:\n"
    "        r[j] += k\n        if j > 1:\n            break\n    else:\n        r[9] += 1\n    r[0] += len(e)",
    "continue": "for v in d.values():\n    r[0] += v\n    continue\n    r[1] = 1\nelse:\n    r[2] = 1",
    "condition": "for k, v in d.items():\n    if v > 0:\n        r[0] += v\n    elif k == n:\n        r[1] += 1",
    "nested": "for k, v in d.items():\n    for l, w in d.items():\n        if k != l:\n            r[0] = r[0] * 2 % 1000 + v * w",
    "run-time loop": "for i in range(len(d)):\n    for v in d.values():\n        r[i] += v * i",
    "loop in it": "for v in d.values():\n    for i in range(3):\n        r[i] = r[i] * 3 + v",
    "list": "l = [v * 2 for v in d.values()]\nfor v in l:\n    r[0] = r[0] * 3 + v\nr[1] = len(l)\nr[2] = 4 in l",
    "run-time condition": "if y[0] > 0:\n    for v in d.values():\n        r[0] += v",
}


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS.keys())
def test_loops_are_pythons(loop):
    compare(f"d = {{x[j]: y[j] for j in range(6)}}\n{loop}")


PLACES = {
    "parallel loop": ("for i in range(8):\n    d = {x[(i + j) % 8]: y[j] for j in range(5)}\n    r[i] = sum(d.values()) * 10 + len(d)", ""),
    "before a parallel loop": ("d = {x[j]: y[j] for j in range(8)}\nfor i in range(8):\n    r[i] = d[x[i]] * 10 + len(d)", ""),
    "argument": (
        "d = {x[j]: y[j] for j in range(8)}\nfor i in range(8):\n    r[i] = total(d, x[i]) + total({x[i]: 3}, x[i])\n"
        "r[9] = parts(d.values()) * 9 + parts(d)",
        "@qd.func\ndef total(d, k):\n    s = 0\n    for l, v in d.items():\n        s = s * 2 + v + d[k]\n    return s\n"
        "@qd.func\ndef parts(p):\n    return sum(p) + len(p)",
    ),
    "result": (
        "for i in range(8):\n    d = made(x[i], x[i // 2])\n    r[i] = sum(d.values()) * 10 + len(d)",
        "@qd.func\ndef made(a, b):\n    return {a: 3, b: 4, 2: 5}",
    ),
    "result that changes": (
        "d = made(x[0])\nd[n] = 5\nr[0] = sum(d.values()) * 10 + len(d)\nl = both(n)\nl.append(7)\nl[0] = 8\nr[1] = sum(l)",
        "@qd.func\ndef made(a):\n    d = {a: 3}\n    d[2] = a\n    return d\n@qd.func\ndef both(a):\n    l = [a, 2]\n    return l",
    ),
    "early return": (
        "for i in range(8):\n    r[i] = first({x[i]: 3, x[0]: y[i], n: 5})",
        "@qd.func\ndef first(d):\n    for k, v in d.items():\n        if v < 0:\n            return v * 2\n    return len(d)",
    ),
    "return under the condition": (
        "for i in range(8):\n    r[i] = second({x[i]: 3, x[0]: y[i], n: 5})",
        "@qd.func\ndef second(d):\n    s = 0\n    for v in d.values():\n"
        "        if s != 0:\n            return v\n        s = v\n    return -99",
    ),
    "while": ("i = 0\nwhile i < 8:\n    d = {x[i]: y[i], n: 4}\n    r[i] = sum(d) * 10 + sum(d.values())\n    i += 1", ""),
    "closure": ("d = {x[0]: 3, x[1]: 4}\nf = lambda k: d.get(k, 7)\nd[n] = 6\nr[0] = f(n) * 10 + f(x[2])", ""),
    "tuples": (
        "d = {(x[j], j % 2): (y[j], j) for j in range(6)}\nr[0] = len(d)\na, b = d[(x[3], 1)]\nr[1] = a * 10 + b\nr[2] = (n, 0) in d",
        "",
    ),
    "captured": (
        "for i in range(8):\n    r[i] = G.get(i, -1) + (G[x[i]] if x[i] in G else 0)\nd = {**G}\nd[n] = 9\nr[9] = sum(d.values())",
        "G = {1: 4, 3: 8, 5: 2}",
    ),
}


@pytest.mark.parametrize("body, names", PLACES.values(), ids=PLACES.keys())
def test_dicts_are_used_in_all_places(body, names):
    compare(body, names=names)


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize(
    "body",
    [
        "d = {x[0]: 3, 1: 4}\nr[0] = d[n]",
        "for i in range(8):\n    d = {x[i]: 3, 1: 4}\n    r[i] = d[n]",
        "r[0] = {1: 4, 2: 5}[n]",
        "r[0] = G[n]",
        "d = {x[0]: 3, 1: 4}\nd[n] += 1",
        "for i in range(1):\n    if n > 7:\n        r[i] = {1: 4, x[0]: 5}[n]",
        "d = {x[0]: 3, 1: 4}\nr[0] = d[n] if n > 0 else 3",
    ],
)
def test_a_missing_key_fails_the_launch(on_every_backend, body, debug):
    on_every_backend(debug=debug)
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    k = define(
        f"G = {{1: 4, 2: 5}}\n@qd.kernel\ndef k(x: qd.types.NDArray[qd.i32, 1], n: qd.i32, r: qd.types.NDArray[qd.f32, 1]):\n{lines}"
    )["k"]
    x, r = np.arange(8, dtype=np.int32), np.zeros(8, np.float32)
    k(x, 1, r)
    with pytest.raises(qd.QuadrantsAssertionError, match="the dict has no key 77"):
        k(x, 77, r)
    k(x, 1, r)


def test_a_missing_key_that_is_not_read_is_no_mistake():
    assert run("d = {n: 1}\nreturn d[7] if 7 in d else 2", **N) == 2
    assert run("d = {n: 1}\ns = 0\nif n > 3:\n    s = d[7]\nreturn s", **N) == 0
    assert run("d = {n: 1}\nreturn 1 if 7 in d and d[7] > 0 else 2", **N) == 2


def test_not_a_number_is_never_an_equal_key():
    nan = np.array([np.nan, np.nan], np.float32)
    body = "d = {a[0]: 1, a[1]: 2}\nreturn len(d) * 100 + sum(d.values()) * 10 + d.get(a[0], 5)"
    assert run(body, a=("qd.types.NDArray[qd.f32, 1]", nan)) == 235


CHANGES = """
@qd.func
def put(d, k, v):
    d[k] = v
@qd.func
def put_two(d, k):
    put(d, k, 1)
    put(d, 2, k)
    return len(d)
@qd.func
def add(l, v):
    l.append(v)
    return len(l)
@qd.func
def add_all(l, v):
    for w in qd.static((v, 3)):
        l += [w]
    l = [0]
    l.append(4)
@qd.func
def drop(l, d):
    l[0] = 5
    m = l
    del m[1]
    d.update(b=len(l))
@qd.func
def same(d):
    return d
@qd.func
def two_of(d, l):
    return l, [d, l]
@qd.func
def aliased(d):
    e = d
    return e
@qd.func
def find(d, v):
    if v > 0:
        return d
    return d
@qd.func
def fill(d, v):
    if v > 0:
        return 0
    d[7] = v
    return 1
"""


@pytest.mark.parametrize(
    "body",
    [
        "d = {x[0]: y[0]}\nput(d, x[1], 5)\nr[0] = len(d)\nr[1] = d[x[1]]\nput(d, 4, y[1])\nr[2] = len(d)\nr[3] = d[4]",
        "d = {1: y[0]}\nput(d, 3, y[1])\nr[0] = d[3]\nr[1] = len(d)\nr[2] = put_two(d, n)\nr[3] = sum(d.values())",
        "e = d = {n: 1}\nr[0] = put_two(d, x[3]) + put_two(e, 1)\nr[1] = len(d)\nr[2] = sum(e.keys())",
        "l = [y[0]]\nm = l\nr[0] = add(l, y[1]) * 10 + add(m, 7)\nr[1] = l[2] + m[1]\nfor v in l:\n    r[2] += v",
        "l = []\nadd_all(l, y[0])\nr[0] = len(l)\nr[1] = l[0] + l[1]\nadd(l, 1)\nr[2] = sum(l)",
        "l, d = [y[0], y[1], y[2]], {'a': 1}\ndrop(l, d)\nr[0] = l[0] * 100 + l[1]\nr[1] = len(l)\nr[2] = d['b']",
        "p = {'d': {x[0]: 1}, 'l': [2]}\nput(p['d'], x[1], 2)\nadd(p['l'], y[0])\nr[0] = len(p['d'])\nr[1] = p['l'][1]",
        "d = {n: 1}\ne = same(d)\ne[x[1]] = 2\nr[0] = len(d) * 10 + len(e)\nd[x[2]] = 3\nr[1] = e[x[2]]",
        "d = {n: 1}\ne = aliased(d)\ne[x[1]] = 2\nr[0] = len(d) * 10 + len(e)",
        "d = {1: n}\ne = same(d)\ne[5] = 2\nr[0] = len(d) * 10 + len(e)",
        "def own(l):\n    l.append(7)\n    return l\nl = [n]\nm = own(l)\nm.append(2)\nr[0] = len(l)"
        "\nfor q in (l, m):\n    own(q)\nr[1] = len(l)",
        "d, l = {1: n}, [n]\nm, both = two_of(d, l)\nboth[0][2] = 3\nm.append(4)\nboth[1].append(5)\nr[0] = len(d) * 10 + len(l)",
    ],
)
@pytest.mark.parametrize("in_loop", [False, True])
def test_funcs_change_and_return_lists_and_dicts_of_their_callers(body, in_loop):
    if in_loop:
        body = "for _ in range(2):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    compare(body, names=CHANGES)


def test_a_func_that_returns_early_changes_no_dict_of_its_caller():
    for body in ("return fill(d, n) + len(d)", "if n > 1:\n    put(d, 5, 6)\nreturn len(d)"):
        with pytest.raises(qd.QuadrantsSyntaxError, match="from outside of this func, run-time branch or loop"):
            run(f"d = {{n: 1}}\n{body}", preamble=CHANGES, **N)
    assert run("d = {n: 1}\ne = find(d, n)\ne[5] = 2\nreturn len(d) * 10 + len(e)", preamble=CHANGES, **N) == 12


def test_keys_are_evaluated_before_their_values():
    body = "d = {qd.atomic_add(a[0], 1): qd.atomic_add(a[0], 1), 4: 5}\nreturn d[0]"
    assert run(body, a=("qd.types.NDArray[qd.i32, 1]", np.zeros(1, np.int32))) == 1


def test_sums_of_small_integers_wrap():
    body = "d = {n: qd.i8(100), n + 1: qd.i8(100), n * 2: qd.i8(100)}\nreturn sum(d.values())"
    assert run(body, n=("qd.i32", 3)) == 44
    assert run(body, n=("qd.i32", 1)) == -56


def test_a_captured_dict_that_changes_is_read_again():
    module = define("G = {1: 4, 2: 5}\n@qd.kernel\ndef k(n: qd.i32) -> qd.i32:\n    return G[n] + G.get(n + 1, 10)")
    assert [module["k"](1), module["k"](2)] == [9, 15]
    module["G"][3] = 7
    assert module["k"](2) == 12
    module["G"][2] = 6
    assert [module["k"](1), module["k"](2)] == [10, 13]


def test_the_views_of_one_dict_are_different_arguments():
    names = "@qd.func\ndef total(p):\n    return sum(p)"
    body = "d, e = {n: 5, 4: 7}, {1: 2, 3: n}\nreturn total(d.keys()) + 100 * total(d.values())"
    body += " + 10000 * total(e.values()) + 100000 * total(e.keys())"
    assert run(body, preamble=names, n=("qd.i32", 3)) == 451207


def test_zeros_are_one_key():
    assert run("d = {x: 1, -x: 2}\nreturn len(d) * 10 + d[0]", x=("qd.f32", 0.0)) == 12


def test_values_have_one_type():
    assert run("d = {n: 1, 4: 2.5}\nreturn d[n] / 2 + d[4]", "qd.f32", **N) == 3
    assert (
        run("d = {n: qd.Vector([1, 2]), 4: qd.Vector([3, 4]), 3: qd.Vector([5, 6])}\nreturn d[n][1] * 10 + sum(d.values())[0]", **N) == 68
    )
    body = "d = {n: S(1, 2.5), 4: S(3, 4.0)}\nd[n + 1] = S(5, 6.0)\nreturn d[4].a * 10 + d[n].b"
    assert run(body, "qd.f32", "S = qd.types.struct(a=qd.i32, b=qd.f32)", **N) == 52.5


def test_elements_are_evaluated_for_items_that_are_present():
    body = "d = {n: 1, 3: 2, 4: 5}\nl = [qd.atomic_add(a[0], v) for v in d.values()]\nreturn len(l)"
    a = np.zeros(1, np.int32)
    assert run(body, n=N["n"], a=("qd.types.NDArray[qd.i32, 1]", a)) == 2
    assert a[0] == 7


@pytest.mark.parametrize("keys", [[0, 1, 2, 3], [0, 1, 0, 2], [5, 5, 5, 5]])
def test_gradients_reach_the_values_that_are_present(keys):
    x, key, loss = qd.field(qd.f32, 4, needs_grad=True), qd.field(qd.i32, 4), qd.field(qd.f32, (), needs_grad=True)
    for i in range(4):
        x[i], key[i] = i + 1, keys[i]
    source = """
@qd.kernel
def k(x: qd.template(), key: qd.template(), loss: qd.template()):
    d = {key[j]: x[j] * x[j] for j in range(4)}
    loss[None] += sum(d.values()) + 3 * d[key[0]] + max(d.values())
    for v in d.values():
        loss[None] += v * v
"""
    k = define(source)["k"]
    with qd.ad.Tape(loss):
        k(x, key, loss)
    last = {keys[j]: j for j in range(4)}
    largest = max(last.values())
    expected = np.zeros(4)
    for j in last.values():
        expected[j] = (1 + 3 * (j == last[keys[0]]) + (j == largest)) * 2 * (j + 1) + 4 * (j + 1) ** 3
    np.testing.assert_allclose(x.grad.to_numpy(), expected)


def test_a_dict_of_64_keys():
    r = np.zeros(3, np.float32)
    body = "d = {x[j % 8] * (j // 8): j for j in range(64)}\nr[0] = len(d)\nr[1] = sum(d.values())\nr[2] = d[x[3]]"
    run(body, None, x=("qd.types.NDArray[qd.i32, 1]", np.arange(8, dtype=np.int32)), r=("qd.types.NDArray[qd.f32, 1]", r))
    d = {j % 8 * (j // 8): j for j in range(64)}
    assert r.tolist() == [len(d), sum(d.values()), d[3]]


CHANGE = "would change a list or dict"
LENGTH = "whose length is known at run time only: loop over it with `for`"
ONLY = "with keys that are known at run time only"


@pytest.mark.parametrize(
    "body, message",
    [
        ("for i in range(3):\n    d[i] = 1", CHANGE),
        ("for i in range(3):\n    d[4] = 1", CHANGE),
        ("if n > 2:\n    d[n] += 1", CHANGE),
        ("e = {1: 2}\nif n > 2:\n    e[n] = 1", CHANGE),
        ("del d[n]", f"'del' is not supported for a dict {ONLY}"),
        ("d.pop(n)", f"'pop' is not supported for a dict {ONLY}"),
        ("{1: 2}.pop(n, 0)", f"'pop' is not supported for a dict {ONLY}"),
        ("d.popitem()", f"'popitem' is not supported for a dict {ONLY}"),
        ("d.clear()", f"'clear' is not supported for a dict {ONLY}"),
        ("d.get(n)", r"may be missing: write get\(key, default\)"),
        ("a, b = d", f"cannot unpack <class 'dict'> {LENGTH}"),
        ("l = list(d.items())", f"cannot iterate over <class 'dict_items'> {LENGTH}"),
        ("l = sorted(d.values())", f"<class 'dict_values'> {LENGTH}"),
        ("l = sorted(d)", f"<class 'dict'> {LENGTH}"),
        ("for i, k in enumerate(d):\n    pass", f"<class 'dict'> {LENGTH}"),
        ("for i, k in zip(d, (1, 2)):\n    pass", f"<class 'dict'> {LENGTH}"),
        ("l = [1, *d.values()]", f"cannot unpack <class 'dict_values'> {LENGTH}"),
        ("l = {n, 4, x > 1}\nl.add(3)", "'<class 'set'>' has no attribute 'add'"),
        ("d.values()[0]", "cannot be indexed"),
        ("print(d)", f"a dict {ONLY} cannot be printed: print its entries in a loop"),
        ("f(**d)", f"a dict {ONLY} has no names of members or parameters"),
        ("d[x] = 1", "keys of the types 'i32' and 'f32' are not compared: neither type has all values of the other"),
        ("d[qd.u32(n)] = 1", "keys of the types 'i32' and 'u32' are not compared"),
        ("e = {x: 1, 0.1: 2}", r"the key 0.1 is no value of 'f32', the type of a key that it is compared with: write qd.f32\(0.1\)"),
        ("d[qd.Vector([n, 1])] = 1", "a key that is known at run time only is a number or a tuple"),
        ("d[[n, 1]] = 1", "a key that is known at run time only is a number or a tuple"),
        ("d[5] = [1, 2]", "what is chosen by a key that is known at run time only is a number, vector, matrix or struct, got"),
        ("{1: 'a', 2: 'b'}[n]", "what is chosen by a key .* got <class 'str'>"),
        ("{'a': 1}[n]", "the dict has no key of type i32"),
        ("e = {n * j: j for j in range(65)}", "has at most 64 entries, because each is compared with all others: use arrays, and"),
        ("l = [v for v in d.values() if v > 1]", "the filter of a comprehension must be known while compiling"),
        ("l = [(k, v) for k, v in d.items()]", "what is chosen by a key .* got <class 'tuple'>"),
        ("l = [a for v in d.values() for a in (v, 2)]", f"only the last `for` of a comprehension loops over a dict {ONLY}"),
        ("for k in d:\n    if k > 2:\n        break", "inside a non-static `if`"),
        ("d[4] = d", "cannot be stored in itself"),
        ("d[4] = d.values()", "cannot be stored in itself"),
        ("e = d | {4: 1}", "unsupported operand"),
    ],
)  # fmt: skip
def test_what_is_refused(body, message):
    names = "@qd.func\ndef f(d, n):\n    return d[n]"
    with pytest.raises(qd.QuadrantsCompilationError, match=message):
        run(f"d = {{n: 1, 4: 2}}\n{body}", None, names, **N)
