"""Containers in dicts: keys of every kind, and loops over the entries."""

import enum
from collections import OrderedDict, defaultdict

import pytest

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")


class Phase(enum.Enum):
    WATER = "water"
    ICE = "ice"


def make_fields(keys):
    return {key: qd.field(qd.i32, shape=2) for key in keys}


def read(fields):
    return [field.to_numpy().tolist() for field in fields.values()]


@pytest.mark.parametrize("keys", [list(Phase), [(0, 1), (1, "a")], [True, None], [1.5, Phase.ICE], [frozenset({1}), b"x"]])
def test_keys_of_every_kind(keys):
    fields, first, second = make_fields(keys), *keys

    @qd.kernel
    def k(n: qd.i32):
        for i in range(2):
            fields[first][i] += n
            fields[second][i] += 2 * n

    k(1)
    assert read(fields) == [[1, 1], [2, 2]]
    fields[first] = qd.field(qd.i32, shape=2)
    k(10)
    assert read(fields) == [[10, 10], [22, 22]]


@pytest.mark.parametrize("make", [dict, lambda fields: defaultdict(int, fields)])
def test_loops_over_entries_see_new_keys(make):
    fields = make(make_fields([Phase.WATER, "heat", 3]))

    @qd.kernel
    def k() -> qd.i32:
        for i in range(2):
            for number, (key, field) in qd.static(enumerate(fields.items())):
                field[i] += 10**number
                if qd.static(key == "heat"):
                    field[i] += 5
            for field in qd.static(list(fields.values())):
                field[i] += 1000
            for key in qd.static(fields.keys()):
                fields[key][i] += 10000
            for key in qd.static(fields):
                fields[key][i] += 100000
        return len(fields) + 10 * ("new" in fields)

    assert k() == 3
    assert read(fields) == [[111001] * 2, [111015] * 2, [111100] * 2]
    fields["new"] = qd.field(qd.i32, shape=2)
    assert k() == 14
    assert fields["new"][1] == 112000
    fields["heat"] = fields.pop("heat")
    k()
    assert fields["heat"][0] == 2 * 111015 + 111000 + 1000 + 5
    assert fields[3][0] == 2 * 111100 + 111010


def test_entries_of_members_and_arrays():
    @qd.data_oriented
    class Fluid:
        def __init__(self):
            self.fields = make_fields(Phase)
            self.weights = {Phase.WATER: 2, Phase.ICE: 3}

        @qd.kernel
        def step(self, factor: qd.i32):
            for i in range(2):
                for phase, field in qd.static(self.fields.items()):
                    field[i] += factor * self.weights[phase]

    fluid = Fluid()
    fluid.step(1)
    fluid.weights[Phase.ICE] = 10
    fluid.step(100)
    assert read(fluid.fields) == [[202, 202], [1003, 1003]]


def test_entries_as_keyword_arguments():
    fields = make_fields("ab")

    @qd.func
    def add(a, b):
        return a[0] + 10 * b[1]

    @qd.kernel
    def k() -> qd.i32:
        return add(**fields)

    fields["a"][0], fields["b"][1] = 3, 4
    assert k() == 43
    fields["a"] = qd.field(qd.i32, shape=2)
    assert k() == 40


def test_a_dict_with_an_order_of_its_own_is_not_looped_over():
    fields = OrderedDict(make_fields("ab"))

    @qd.kernel
    def add():
        for i in range(2):
            for field in qd.static(fields.values()):
                field[i] += 1

    with pytest.raises(qd.QuadrantsCompilationError, match="container without a name"):
        add()
