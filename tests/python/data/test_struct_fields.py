"""Struct types, struct values and struct fields in Python scope."""

import numpy as np
import pytest

import quadrants as qd


@pytest.fixture(autouse=True)
def runtime():
    qd.init()
    yield
    qd.reset()


def particle():
    return qd.types.struct(tag=qd.i8, position=qd.types.vector(3, qd.f32), inner=qd.types.struct(mass=qd.f64, charge=qd.f32))


def test_values_are_built_by_position_and_name():
    P = particle()
    p = P(44, position=[1, 2, 3], inner={"mass": 2, "charge": 1})
    assert p.to_dict() == {"tag": 44, "position": [1, 2, 3], "inner": {"mass": 2, "charge": 1}}
    assert P().to_dict() == {"tag": 0, "position": [0, 0, 0], "inner": {"mass": 0, "charge": 0}}
    assert p == P(p) and p != P()
    p.tag = 2.9
    p["position"] = 1
    assert p.tag == 2 and p.position.to_list() == [1, 1, 1]


@pytest.mark.parametrize("make", [lambda P: P(1, tag=2), lambda P: P(unknown=1), lambda P: P(1, 2, 3, 4)])
def test_extra_and_unknown_members_are_refused(make):
    with pytest.raises(qd.QuadrantsSyntaxError):
        make(particle())


@pytest.mark.parametrize("layout", [qd.Layout.AOS, qd.Layout.SOA], ids=str)
def test_elements_are_views(layout):
    s = particle().field(shape=(4,), layout=layout)
    s[1] = {"tag": 1, "position": [1, 2, 3], "inner": {"mass": 4.5, "charge": 5}}
    s[1].position.y = 9
    s[1].inner.charge = 7
    assert s[1].to_dict() == {"tag": 1, "position": [1, 9, 3], "inner": {"mass": 4.5, "charge": 7}}
    assert repr(s[0]) == "{'tag': 0, 'position': [0.0, 0.0, 0.0], 'inner': {'mass': 0.0, 'charge': 0.0}}"
    assert s.inner.mass[1] == 4.5 and s.keys == ["tag", "position", "inner"]
    with pytest.raises(IndexError):
        s[4]


def test_cells_have_natural_alignment():
    s = particle().field(shape=(2,))
    leaves = [s.tag, s.position, s.inner.mass, s.inner.charge]
    assert [leaf._byte_offset for leaf in leaves] == [0, 4, 16, 24]
    assert {leaf._qd_layout.strides for leaf in leaves} == {(32,)}
    assert len({leaf._buffer.address for leaf in leaves}) == 1


@pytest.mark.host_memory
def test_soa_makes_every_leaf_contiguous():
    s = particle().field(shape=(5,), layout=qd.Layout.SOA)
    assert all(leaf.view().flags.c_contiguous for leaf in (s.tag, s.position, s.inner.mass, s.inner.charge))


def test_arrays_go_in_and_out_as_dicts():
    s = particle().field(shape=(2, 2))
    data = s.to_numpy()
    data["position"][1, 1] = [1, 2, 3]
    data["inner"]["mass"][:] = 3
    s.from_numpy(data)
    assert s[1, 1].position.to_list() == [1, 2, 3] and s[0, 0].inner.mass == 3
    with pytest.raises(KeyError, match=r"with the members .*'position', .* is expected, got members \['tag'\]"):
        s.from_numpy({"tag": data["tag"]})
    with pytest.raises(KeyError, match="is expected, got ndarray"):
        s.from_numpy(data["tag"])
    twin = particle().field(shape=(2, 2))
    twin.copy_from(s)
    assert np.array_equal(twin.position.to_numpy(), data["position"])
    twin.fill(1)
    assert twin[0, 0].to_dict() == {"tag": 1, "position": [1, 1, 1], "inner": {"mass": 1, "charge": 1}}


def test_missing_members_change_nothing():
    s = particle().field(shape=1)
    with pytest.raises(KeyError):
        s[0] = {"tag": 5}
    assert s[0].tag == 0


def test_classes_make_struct_types():
    @qd.dataclass
    class Base:
        a: qd.i32
        v: "qd.types.vector(2, float)"

        def total(self):
            return self.a + self.v.x

    @qd.dataclass
    class Derived(Base):
        b: qd.f32

    assert Base(1, [2, 3]).total() == 3
    assert list(Derived.members) == ["a", "v", "b"] and Derived(a=1).total() == 1
    assert Base.field(shape=2)[0].total() == 0


def test_members_have_default_values():
    @qd.dataclass
    class WithDefault:
        a: qd.i32 = 3
        b: qd.f32

    assert WithDefault().to_dict() == {"a": 3, "b": 0.0}
    assert WithDefault(b=2).to_dict() == {"a": 3, "b": 2.0} and WithDefault(1).a == 1


def test_default_values_must_fit():
    with pytest.raises(qd.QuadrantsSyntaxError, match="the default of member 'a' of WithDefault does not fit"):

        @qd.dataclass
        class WithDefault:
            a: qd.i32 = "text"


def test_tensors_are_no_members():
    with pytest.raises(ValueError, match="Invalid data type"):
        qd.types.struct(a=qd.types.ndarray(dtype=qd.f32, ndim=1))


def test_anonymous_structs():
    s = qd.Struct(a=1, b=qd.Vector([1, 2]))
    s.a = 5
    assert s["a"] == 5 and s.to_dict() == {"a": 5, "b": [1, 2]}
    with pytest.raises(AttributeError, match="'c'"):
        s.c = 1


@pytest.mark.parametrize("arch", ["cpu", "python"])
@pytest.mark.parametrize("make", ["field", "ndarray", "tensor"])
def test_slices_are_views_of_all_members(make, arch):
    """A part of a struct field is one, on the same memory."""
    qd.init(arch=getattr(qd, arch))
    s = getattr(particle(), make)((4, 5))
    part = s[1:3, ::2]
    assert part.shape == (2, 3) and part.inner.shape == (2, 3)
    part.fill(2)
    part[0, 1] = {"tag": 1, "position": [7, 8, 9], "inner": {"mass": 3, "charge": 4}}
    assert s[1, 2].to_dict() == {"tag": 1, "position": [7, 8, 9], "inner": {"mass": 3, "charge": 4}}
    assert s.to_numpy()["inner"]["mass"].sum() == part.to_numpy()["inner"]["mass"].sum() == 5 * 2 + 3
    s[0] = s[1]
    assert s[0][2].tag == np.asarray(s[1])["tag"][2] == 1

    @qd.kernel
    def number(x: qd.template()):
        for i, j in x.tag:
            x[i, j].tag = 10 * i + j

    number(part)
    assert s.to_numpy()["tag"][1:3].tolist() == [[0, 0, 1, 0, 2], [10, 0, 11, 0, 12]]
    with pytest.raises(IndexError):
        s[4]
