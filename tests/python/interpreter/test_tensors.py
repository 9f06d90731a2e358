"""Containers of `arch=qd.python` answer as torch tensors, on their own memory, and are the package's containers beside it."""

import copy
import importlib
import pickle
import subprocess
import sys

import numpy as np
import pytest

import quadrants as qd

pytestmark = pytest.mark.usefixtures("interpreter")

torch = pytest.importorskip("torch")


def make_all():
    """One container of each kind: full shape, container."""
    struct = qd.Struct.field({"a": qd.f32, "v": qd.math.vec3}, shape=(2, 3))
    placed = qd.field(qd.f32)
    qd.root.dense(qd.ij, (2, 3)).place(placed)
    return [
        ((2, 3), qd.field(qd.f32, (2, 3))),
        ((2, 3), placed),
        ((2, 3), qd.field(qd.f32, (2, 3), order="ji")),
        ((2, 3), qd.field(qd.f32, (2, 3), offset=(-1, 4))),
        ((2, 3), qd.field(qd.f32, (2, 3), needs_grad=True).grad),
        ((2, 3), qd.ndarray(qd.f32, (2, 3))),
        ((2, 3), qd.ndarray(qd.f32, (2, 3), needs_grad=True).grad),
        ((2, 3), qd.tensor(qd.f32, (2, 3))),
        ((2, 3), qd.tensor(qd.f32, (2, 3), backend=qd.Backend.FIELD)),
        ((2, 3, 4), qd.Vector.field(4, qd.f32, (2, 3))),
        ((2, 3, 4), qd.Vector.field(4, qd.f32, (2, 3), layout=qd.Layout.SOA)),
        ((2, 3, 4), qd.Vector.ndarray(4, qd.f32, (2, 3))),
        ((2, 3, 4, 5), qd.Matrix.field(4, 5, qd.f32, (2, 3))),
        ((2, 3, 4, 5), qd.Matrix.ndarray(4, 5, qd.f32, (2, 3))),
        ((2, 3, 4), qd.Vector.tensor(4, qd.f32, (2, 3))),
        ((2, 3), struct.a),
        ((2, 3, 3), struct.v),
        ((2, 3), struct.v.get_scalar_field(1)),
        ((2, 3), qd.from_dlpack(np.zeros((2, 3), np.float32))),
        ((2, 3), qd.field(qd.f32, (4, 3))[1:3]),
        ((2, 3), qd.ndarray(qd.f32, (4, 5, 3))[1:3, 2][:, :]),
    ]


def test_every_container_has_shape_values_and_memory_of_a_tensor():
    for number, (full, f) in enumerate(make_all()):
        assert f.size() == torch.Size(full) and type(f.size()) is torch.Size, number
        assert f.size(0) == 2 and f.size(-1) == full[-1] and f.dim() == len(full) and f.numel() == np.prod(full)
        assert f.shape == (2, 3) and f.dtype == qd.f32
        f.fill_(3)
        assert f.tolist() == np.full(full, 3.0).tolist() and f.to_numpy().min() == 3
        f.numpy()[...] = 4
        f += 1
        f._tc[0] += 1
        assert np.array_equal(f.to_numpy().reshape(full)[:, 0].reshape(2, -1)[:, 0], [6, 5])
        assert f._np.shape == f._tc.shape == full and f._T_np.shape == f._T_tc.shape == (3, 2, *full[2:])
        f._T_tc[2, 0] = 9
        assert (f._np[0, 2] == 9).all() and (f._T_np[2, 0] == 9).all()


def test_the_last_batch_axis_comes_first():
    assert qd.field(qd.i32, (2, 3, 4))._T_tc.shape == (4, 2, 3)
    assert qd.field(qd.i32, 3)._T_np.shape == (3,) and qd.field(qd.i32, ())._T_tc.shape == ()


def test_methods_and_attributes_of_torch_act_on_the_memory():
    f = qd.field(qd.f32, (2, 3))
    f.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3) - 2)
    assert f.mean(dim=0).tolist() == [-0.5, 0.5, 1.5] and f.sum(1, True).shape == (2, 1)
    assert f.max(dim=0).values.tolist() == [1, 2, 3] and f.sum(dtype=torch.float64).dtype == torch.float64
    assert f.abs().tolist() == [[2, 1, 0], [1, 2, 3]] and f.view(-1).shape == (6,) and f.T.shape == (3, 2)
    f.view(-1)[5] = 10
    clone = f.clone()
    assert f.clamp_(max=0) is f and f[1, 2] == 0 and clone[1, 2] == 10
    assert f.requires_grad_().requires_grad and not f.requires_grad
    assert f.device.type == "cpu" and f.stride() == (3, 1) and f.float().dtype == torch.float32
    assert not hasattr(f, "no_such_attribute") and not hasattr(f, "_no_such_attribute")
    with pytest.raises(AttributeError, match="'ScalarField' object has no attribute 'no_such_attribute'"):
        f.no_such_attribute  # noqa: B018


def test_methods_of_both_keep_their_meaning_here():
    f = qd.Vector.field(2, qd.f32, 3)
    f.fill([1, 2])
    assert f.sum() == 9 and isinstance(f.max(0), np.ndarray) and f.sum(axis=0).tolist() == [3, 6]
    assert f.sum(0, np.float64).dtype == np.float64 and np.sum(f) == 9 and isinstance(f.view(), np.ndarray)
    assert isinstance(f + np.ones((3, 2)), np.ndarray) and isinstance(np.ones((3, 2)) + f, np.ndarray)
    assert qd.tensor(qd.f32, (2, 3)).size == 6 and f.grad is not None and f.layout is None and f.ndim == 1


def test_operators_are_those_of_tensors():
    f, g, n = qd.field(qd.f32, (2, 2)), qd.ndarray(qd.f32, (2, 2)), qd.tensor(qd.i32, 3)
    f.from_numpy(np.array([[1, 2], [3, 4]], np.float32))
    g.copy_from(f)
    n.from_numpy(np.array([1, 2, 3], np.int32))
    m = torch.eye(2)
    for value, expected in [
        (f + 1, [[2, 3], [4, 5]]), (2 * f, [[2, 4], [6, 8]]), (f @ m, [[1, 2], [3, 4]]), (m @ f, [[1, 2], [3, 4]]),
        (f - g, [[0, 0], [0, 0]]), (6 / f, [[6, 3], [2, 1.5]]), (-f, [[-1, -2], [-3, -4]]), (m + f, [[2, 2], [3, 5]]),
        (f == torch.ones(2, 2), [[True, False], [False, False]]), (f != g, [[False] * 2] * 2), (f > 2, [[False] * 2, [True] * 2]),
        (n << 1, [2, 4, 6]), (~n, [-2, -3, -4]), (n % 2, [1, 0, 1]), (2**n, [2, 4, 8]), (1 <= n, [True] * 3), (n & 1, [1, 0, 1]),
        (f @ qd.Matrix([[0.0, 1.0], [1.0, 0.0]]), [[2, 1], [4, 3]]), (f[0] + 1, [2, 3]), (f[:, 1] * f[0], [2, 8]), (abs(f), f.tolist()),
    ]:  # fmt: skip
        assert type(value) is torch.Tensor and value.tolist() == expected
    assert (f == None) is False and (f != None) is True and f in [g, f][1:] and len({f, g}) == 2  # noqa: E711
    before, row = f, f[1]
    f += m
    f *= g
    row -= np.ones(2, np.float32)
    assert f is before and f.tolist() == [[2, 4], [8, 19]]
    assert f[1:] == f[1:] and f[1:] != f[:1] and hash(f[1:]) == hash(f[1:])  # views, by what they select
    assert float(qd.field(qd.f32, ())) == 0.0 and int(n[:1]) == 1 and n[1:2].item() == 2 and 3 in n and 4 not in n
    assert len(f) == 2 and [row.tolist() for row in f] == f.tolist()


def test_functions_of_torch_take_containers():
    f, g = qd.field(qd.f32, (2, 3)), qd.ndarray(qd.f32, (2, 3))
    f.fill(2)
    t = torch.zeros(2, 3, requires_grad=True)
    assert torch.sum(f) == 12 and torch.allclose(f, torch.full((2, 3), 2.0)) and torch.stack([f, g]).shape == (2, 2, 3)
    assert torch.add(f, 1, out=g) is g and g[1, 2] == 3
    assert torch.zeros(2, 3).copy_(f).tolist() == f.tolist() and torch.where(f > 1, f, g).sum() == 12
    torch.nn.functional.mse_loss(t, f).backward()
    assert t.grad.shape == (2, 3) and t.grad[0, 0] < 0
    shared = torch.as_tensor(f)
    shared[0, 0] = 7
    assert f[0, 0] == 7 and f.data_ptr() == shared.data_ptr()
    f.copy_(torch.ones(2, 3))
    target = torch.zeros(2, 3)
    target[...] = f
    target += f
    assert target.tolist() == [[2.0] * 3] * 2
    # torch's C++ code reads the fields of every object that passes this check.
    assert not isinstance(f, torch.Tensor)


def test_a_container_without_axes_has_an_index_0():
    f = qd.field(qd.f32, ())
    f[0] = 3
    assert f[0] == f[None] == f.item() == 3 and qd.tensor(qd.f32, ())[0] == 0
    with pytest.raises(IndexError):
        f[1]


def test_kernels_and_copies_take_them_as_before():
    @qd.kernel
    def fill(x: qd.template(), y: qd.types.ndarray(), z: qd.Tensor):
        for i in range(3):
            x[i] = i
            y[i] = x[i] + 1
            z[i] = y[i] * 2

    pair = (qd.field(qd.f32, 3), qd.field(qd.f32, 3))

    @qd.kernel
    def find(x: qd.template()) -> qd.i32:
        found = 0
        if qd.static(x in pair):
            found = 1
        return found

    f, g, t = pair[0], qd.ndarray(qd.f32, 3), qd.tensor(qd.f32, 3)
    fill(f, g, t)
    assert (f + g + t).tolist() == [3, 7, 11]
    assert find(pair[1]) == 1 and find(qd.field(qd.f32, 3)) == 0
    for each in (f, g, t):
        for twin in (copy.copy(each), copy.deepcopy(each), pickle.loads(pickle.dumps(each))):
            assert type(twin) is type(each) and (twin == each).all() and twin.data_ptr() != each.data_ptr()
    assert isinstance(f, qd.Field) and isinstance(g, qd.ScalarNdarray) and isinstance(t, qd.Tensor) and "ScalarField" in str(type(f))
    data = pickle.dumps(t)
    qd.init(arch=qd.cpu)
    assert type(pickle.loads(data)) is qd.Tensor


def test_members_without_a_view_say_so():
    block = qd.root.pointer(qd.i, 4)
    f = qd.field(qd.f32)
    block.dense(qd.i, 2).place(f)
    f[3] = 2
    assert f.size() == (8,) and f.tolist() == [0, 0, 0, 2, 0, 0, 0, 0] and f.sum() == 2
    with pytest.raises(ValueError, match="Zero-copy not available"):
        f.fill_(1)


def test_other_processors_are_as_before():
    old = qd.field(qd.f32, 3)
    qd.init(arch=qd.cpu)
    f = qd.field(qd.f32, 3)
    assert type(f) is qd.ScalarField and not hasattr(f, "size") and not hasattr(f, "_tc") and type(f[1:]) is qd.BufferView
    assert (f == 0) is False and not hasattr(f, "__torch_function__") and qd.tensor(qd.f32, 3).size == 3
    with pytest.raises(TypeError, match="containers have no arithmetic of their own"):
        f + 1
    with pytest.raises(TypeError, match="has no len"):
        len(f)
    with pytest.raises(NotImplementedError, match="Struct for"):
        list(f)
    assert old in [f, old] and "ended by qd.reset()" in repr(old) and isinstance(old, qd.Field)
    with qd.Program(qd.python):
        assert qd.field(qd.f32, 3).size() == (3,)
    assert not hasattr(qd.ndarray(qd.f32, 3), "size")
    for use in (old.tolist, lambda: old + 1, lambda: old.abs()):
        with pytest.raises(qd.QuadrantsRuntimeError, match="reset"):
            use()


def test_paths_of_the_reference():
    module = importlib.import_module("quadrants.lang._py_tensor")
    x = module.create_tensor((4, 3), torch.float32, 1)
    assert x.shape == (4,) and x.size() == (4, 3) and x.dtype == qd.f32 and isinstance(x, module.PyTensor)
    assert module.create_tensor((4, 3), qd.i32).shape == (4, 3) and module.create_tensor((2, 3, 4), qd.f32, batch_ndim=1).size(2) == 4
    assert all(isinstance(f, module.PyTensor) for _, f in make_all()) and not isinstance(torch.zeros(1), module.PyTensor)
    with pytest.raises(ValueError, match="batch_ndim"):
        module.create_tensor((4, 3, 2, 2), qd.f32, 1)


PLAIN_USE = """
import copy, sys
import quadrants as qd
qd.init(arch=qd.python)
placed = qd.field(qd.f32)
qd.root.dense(qd.i, 3).place(placed)
x, y, z = qd.field(qd.f32, 3, needs_grad=True), qd.ndarray(qd.f32, 3), qd.Vector.tensor(2, qd.f32, 3)
loss = qd.field(qd.f32, (), needs_grad=True)
@qd.kernel
def work(y: qd.types.ndarray(), z: qd.Tensor):
    for i in x:
        loss[None] += x[i] * 2 + y[i] + z[i].x + placed[i]
with qd.ad.Tape(loss):
    work(y, z)
print(x.grad, repr(z), copy.deepcopy(y), x.sum(), y[1:], x is not None, x == None)
z.copy_from(z)
qd.algorithms.parallel_sort(x)
print("torch" in sys.modules)
"""


def test_what_needs_no_torch_does_not_load_it(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PLAIN_USE)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_without_torch_numpy_computes(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    f, g = qd.field(qd.f32, (2, 3)), qd.tensor(qd.f32, (2, 3))
    f.fill(2)
    g += 1
    assert f.size() == (2, 3) and type(f.size()) is tuple and g.size(1) == 3 and f.dim() == 2 and g.item.__name__ == "item"
    assert (f + g).tolist() == [[3.0] * 3] * 2 and (1 - f)[0, 0] == -1 and (f == g).any() == np.False_ and (f == None) is False  # noqa: E711
    f *= g
    f -= 1
    assert f.tolist() == [[1.0] * 3] * 2 and f.numpy()[0, 0] == 1 and f[0, :1].item() == 1 and (-f).sum() == -6
    for use in (lambda: f.abs(), lambda: f.sum(dim=0), lambda: f._tc, lambda: f.view(-1)):
        with pytest.raises((AttributeError, ModuleNotFoundError), match="torch"):
            use()
    assert not hasattr(f, "clone")
