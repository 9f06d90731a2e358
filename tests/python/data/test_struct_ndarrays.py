"""Ndarrays and tensors of structs, and struct members whose components are members of their own."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest

import quadrants as qd

BODY = qd.types.struct(mass=qd.f64, pos=qd.types.vector(3, qd.f32), tag=qd.types.struct(id=qd.i16))


@pytest.fixture(autouse=True, params=["cpu", "python"])
def runtime(request):
    qd.init(arch=request.param)
    yield
    qd.reset()


@pytest.mark.parametrize("layout", [qd.Layout.AOS, qd.Layout.SOA], ids=str)
def test_ndarrays_of_structs_in_kernels_and_from_python(layout):
    bodies = BODY.ndarray(4, layout=layout)

    @qd.kernel
    def move(a: qd.types.ndarray(dtype=BODY, ndim=1), by: qd.f32):
        for i in a:
            a[i].mass += i
            a[i].pos += by
            a[i].tag.id = 7

    move(bodies, 2)
    move(bodies, 1)
    assert bodies[3].to_dict() == {"mass": 6, "pos": [3, 3, 3], "tag": {"id": 7}}
    assert bodies.to_numpy()["mass"].tolist() == [0, 2, 4, 6]
    other = BODY.ndarray(6, layout=layout)
    move(other, 5)
    assert other[5].mass == 5 and list(other[5].pos) == [5, 5, 5]
    for twin in (copy.deepcopy(other), pickle.loads(pickle.dumps(other))):
        assert isinstance(twin, type(other)) and twin[5].to_dict() == other[5].to_dict()


@dataclasses.dataclass
class Crowd:
    bodies: qd.types.ndarray(dtype=BODY, ndim=1)
    by: qd.f32


def test_ndarrays_of_structs_are_members_of_dataclasses_and_looped_over_in_part():
    crowd = Crowd(BODY.ndarray(5), 2.0)

    @qd.kernel
    def move(crowd: Crowd):
        for i in crowd.bodies[1:4]:
            crowd.bodies[i].mass += i
            for x in crowd.bodies[i].pos:
                crowd.bodies[i].mass += x
            crowd.bodies[i].pos += crowd.by

    move(crowd)
    move(crowd)
    assert crowd.bodies.to_numpy()["mass"].tolist() == [0, 2 + 6, 4 + 6, 6 + 6, 0]


@pytest.mark.host_memory
def test_cells_of_struct_ndarrays_are_packed():
    bodies = qd.ndarray(BODY, (2, 3))
    bodies[1, 2].pos = [1, 2, 3]
    array = np.asarray(bodies)
    assert array.shape == (2, 3) and array.itemsize == 24 and array[1, 2]["pos"].tolist() == [1, 2, 3]
    assert isinstance(bodies.mass, qd.Ndarray)


def test_tensors_of_structs():
    for backend in qd.Backend:
        t = BODY.tensor(3, backend=backend)
        t[1] = {"mass": 1, "pos": [1, 2, 3], "tag": {"id": 4}}
        assert t[1].to_dict() == {"mass": 1, "pos": [1, 2, 3], "tag": {"id": 4}} and t.backend is backend


def test_other_structs_and_ranks_are_refused():
    @qd.kernel
    def run(a: qd.types.ndarray(dtype=BODY, ndim=1)):
        for i in a:
            a[i].mass = 1

    with pytest.raises(ValueError, match="required element type"):
        run(qd.types.struct(mass=qd.f64).ndarray(3))
    with pytest.raises(ValueError, match="required ndim=1"):
        run(BODY.ndarray((2, 2)))
    with pytest.raises(qd.QuadrantsRuntimeError, match="needs_grad"):
        BODY.ndarray(3, needs_grad=True)  # an integer among the members


@pytest.mark.parametrize("make", ["ndarray", "tensor"])
def test_gradients_and_offsets_of_struct_ndarrays(make):
    pair = qd.types.struct(a=qd.f32, v=qd.types.vector(2, qd.f32))
    made = getattr(pair, make)(3, needs_grad=True, offset=-1)

    @qd.kernel
    def run(s: qd.types.ndarray(dtype=pair)):
        for i in s:
            s[i].a = i
            s.grad[i].a = 10 * i
            s.grad[i].v[1] = 5

    run(made)
    assert made.to_numpy()["a"].tolist() == [-1, 0, 1] and made[-1].a == -1
    assert made.grad.to_numpy()["a"].tolist() == [-10, 0, 10] and list(made.grad[1].v) == [0, 5]
    for twin in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert twin.has_grad() and twin[1].a == 1


@qd.dataclass
class Tile:
    scale: qd.f32
    r: qd.types.vector(4, qd.f32, unpacked=True)

    @qd.func
    def total(self):
        result = 0.0
        for k in qd.static(range(4)):
            result += self.r[k]
        return result * self.scale


def test_unpacked_members_are_scalars_of_their_own():
    assert list(Tile.members) == ["scale", "_r0", "_r1", "_r2", "_r3"]
    out, tiles = qd.field(qd.f32, shape=2), Tile.field(shape=2)

    @qd.kernel
    def run():
        tile = Tile(2.0)
        for k in qd.static(range(4)):
            tile.r[k] = k + 1.0
        tile.r[0] += 5.0
        out[0] = tile.total()
        tiles[1] = tile

    run()
    assert out[0] == 30
    assert tiles[1].r[0] == 6 and tiles[1].r[3] == 4
    tiles[1].r[2] = 9
    assert tiles[1]._r2 == 9
    with pytest.raises(IndexError, match="out of bounds"):
        tiles[1].r[4]


def test_unpacked_types_are_types_of_members_only():
    kind = qd.types.vector(3, qd.f32, unpacked=True)
    for use in (lambda: kind(1), lambda: kind.field(shape=3), lambda: kind.ndarray(3)):
        with pytest.raises(qd.QuadrantsSyntaxError, match="unpacked=True"):
            use()
    with pytest.raises(qd.QuadrantsSyntaxError, match="unpacked=True"):
        qd.types.struct(r=kind, _r1=qd.f32)
    with pytest.raises(qd.QuadrantsSyntaxError, match="unpacked"):

        @qd.kernel
        def run(x: kind):
            pass


def test_members_may_be_called_like_attributes_of_fields():
    s = qd.Struct.field({"keys": qd.f32, "shape": qd.i32, "grad": qd.f32}, shape=3)

    @qd.kernel
    def run():
        for i in range(3):
            s[i].shape = i

    run()
    assert s.get_member_field("shape").to_numpy().tolist() == [0, 1, 2]
    with pytest.raises(KeyError):
        s.get_member_field("nothing")
