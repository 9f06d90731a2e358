"""`qd.tools`, `qd.sparse` and what `quadrants._kernels` offers."""

import numpy as np
import pytest

import quadrants as qd
from quadrants import _kernels


@pytest.fixture(autouse=True)
def runtime():
    qd.init()
    yield
    qd.reset()


@pytest.fixture
def triangle():
    writer = qd.tools.PLYWriter(num_vertices=3, num_faces=1, comment="hello")
    points = np.arange(9, dtype=np.float32).reshape(3, 3)
    writer.add_vertex_pos(*points.T)
    writer.add_vertex_id()
    writer.add_vertex_rgba(*points.T, [0, 1, 2])
    writer.add_faces(np.array([0, 1, 2]))
    writer.add_face_piece([9])
    return writer


def test_ply_files_of_text(triangle, tmp_path):
    triangle.export_ascii(tmp_path / "a.ply")
    lines = (tmp_path / "a.ply").read_text().splitlines()
    assert lines[:4] == ["ply", "format ascii 1.0", "comment hello", "element vertex 3"]
    body = lines[lines.index("end_header") + 1 :]
    assert body[0].split() == ["0.0", "1.0", "2.0", "0", "0.0", "1.0", "2.0", "0.0"] and body[3].split() == ["3", "0", "1", "2", "9"]


def test_binary_ply_files(triangle, tmp_path):
    triangle.export_frame(5, tmp_path / "b.ply")
    triangle.export_frame_ascii(6, tmp_path / "b")
    header, body = (tmp_path / "b_000005.ply").read_bytes().split(b"end_header\n")
    assert b"format binary_little_endian 1.0" in header and b"property list uchar int vertex_indices" in header
    assert len(body) == 3 * (7 * 4 + 4) + 1 + 3 * 4 + 4
    assert np.frombuffer(body[:12], "<f4").tolist() == [0, 1, 2]
    assert (tmp_path / "b_000006.ply").exists()


@pytest.mark.parametrize(
    "use",
    [
        lambda: qd.tools.PLYWriter(0),
        lambda: qd.tools.PLYWriter(3, face_type="hex"),
        lambda: qd.tools.PLYWriter(3).add_vertex_channel("k", "float", [1, 2]),
        lambda: qd.tools.PLYWriter(3).add_vertex_channel("k", "text", [1, 2, 3]),
        lambda: qd.tools.PLYWriter(3, 1).add_faces([0, 1]),
        lambda: qd.tools.PLYWriter(3).export("nowhere.ply"),
    ],
)
def test_ply_files_need_matching_counts(use):
    with pytest.raises(AssertionError):
        use()


def test_vtk_files(tmp_path):
    x = qd.field(qd.f32, shape=(2, 3))
    x.from_numpy(np.arange(6).reshape(2, 3))
    qd.tools.write_vtk(x, tmp_path / "x")
    header, body = (tmp_path / "x.vtk").read_bytes().split(b"LOOKUP_TABLE default\n")
    assert b"DIMENSIONS 2 3 1" in header and b"SCALARS Data float 1" in header
    assert np.frombuffer(body, ">f4").tolist() == [0, 3, 1, 4, 2, 5]
    with pytest.raises(ValueError, match="2D or 3D"):
        qd.tools.write_vtk(qd.field(qd.f32, shape=3), tmp_path / "y")


def test_diagnosis_names_versions_and_processors(capsys):
    qd.tools.diagnose.main()
    text = capsys.readouterr().out
    assert "quadrants: 1.4.0" in text and "x64:" in text and "cuda: False" in text


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_grids_are_struct_fields(rank):
    grid = qd.sparse.grid({"a": qd.f32, "v": qd.types.vector(2, qd.f32)}, (4,) * rank)
    grid[(1,) * rank].v = [1, 2]
    assert grid.shape == (4,) * rank and list(grid[(1,) * rank].v) == [1, 2]
    assert qd.sparse.usage(grid) == 4.0**-rank


def test_copies_between_containers_and_arrays():
    field, nd = qd.field(qd.f32, shape=(2, 3)), qd.ndarray(qd.f32, (2, 3))
    vector, matrix = qd.Vector.field(3, qd.f32, shape=2), qd.Matrix.ndarray(2, 2, qd.f32, 3)
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    _kernels.ext_arr_to_tensor(values, field)
    _kernels.ext_arr_to_ndarray(values + 1, nd)
    out = np.zeros((2, 3), np.float32)
    _kernels.tensor_to_ext_arr(field, out)
    assert (out == values).all()
    _kernels.ndarray_to_ext_arr(nd, out)
    assert (out == values + 1).all()
    _kernels.ext_arr_to_matrix(values, vector, True)
    for shape, as_vector in (((2, 3), True), ((2, 3, 1), False)):
        out = np.zeros(shape, np.float32)
        _kernels.matrix_to_ext_arr(vector, out, as_vector)
        assert (out.reshape(2, 3) == values).all()
    cells = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
    _kernels.ext_arr_to_ndarray_matrix(cells, matrix, 1, False)
    out = np.zeros((3, 2, 2), np.float32)
    _kernels.ndarray_matrix_to_ext_arr(matrix, out, 1, False)
    assert (out == cells).all()
    _kernels.fill_ndarray(nd, 4)
    other = qd.ndarray(qd.f32, (2, 3))
    _kernels.ndarray_to_ndarray(other, nd)
    assert (other.to_numpy() == 4).all()


def test_block_copies_images_and_gradients():
    a, b = qd.field(qd.i32, shape=6), qd.field(qd.i32, shape=6)
    b.from_numpy(np.arange(1, 7))
    _kernels.blit_from_field_to_field(a, b, 2, 3)
    assert a.to_numpy().tolist() == [0, 0, 1, 2, 3, 0]
    out = np.zeros((2, 3), np.float32)
    _kernels.arr_vulkan_layout_to_arr_normal_layout(np.arange(6, dtype=np.float32), out)
    assert out.tolist() == [[4, 2, 0], [5, 3, 1]]
    x = qd.field(qd.f32, shape=2, needs_grad=True)
    x.grad.fill(3)
    _kernels.clear_gradients([x, b])
    assert not x.grad.to_numpy().any()


@pytest.mark.parametrize("length", [1, 2, 37, 64, 200])
def test_stages_of_an_odd_even_merge_sort(length):
    numbers = np.random.default_rng(length).random(length).astype(np.float32)
    keys, values = qd.field(qd.f32, shape=length), qd.field(qd.i32, shape=length)
    keys.from_numpy(numbers)
    values.from_numpy(np.arange(length))
    p = 1
    while p < length:
        k = p
        while k >= 1:
            _kernels.sort_stage(keys, 1, values, length, p, k, int((length - k - k % p) / (2 * k)) + 1)
            k //= 2
        p *= 2
    order = values.to_numpy()
    assert np.array_equal(keys.to_numpy(), np.sort(numbers)) and np.array_equal(numbers[order], np.sort(numbers))
    _kernels.sort_stage(keys, 0, keys, length, 1, 1, 0)


def test_sums_of_blocks():
    numbers = np.random.default_rng(0).integers(-9, 9, 200).astype(np.int32)
    x = qd.field(qd.i32, shape=210)
    x.from_numpy(np.concatenate([np.zeros(3), numbers, np.zeros(7)]))
    _kernels.scan_add_inclusive(x, 3, 203, False, _kernels.subgroup_inclusive_add_warp_i32)
    sums = x.to_numpy()
    assert all(np.array_equal(sums[3 + at : 3 + at + 64][: 200 - at], np.cumsum(numbers[at : at + 64])) for at in range(0, 200, 64))
    assert sums[203:207].tolist() == [numbers[at : at + 64].sum() for at in range(0, 200, 64)] and not sums[207:].any()
    _kernels.scan_add_inclusive(x, 203, 207, True, _kernels.subgroup_inclusive_add_warp_i32)
    _kernels.uniform_add(x, 3, 203)
    assert np.array_equal(x.to_numpy()[3:203], np.cumsum(numbers))


def test_sums_over_the_lanes_of_a_subgroup():
    x = qd.field(qd.i32, shape=64)

    @qd.kernel
    def sums():
        qd.loop_config(block_dim=64)
        for i in range(64):
            x[i] = _kernels.warp_shfl_up_i32(i)

    sums()
    lanes = qd.simt.subgroup.group_size()
    assert x.to_numpy().tolist() == np.cumsum(np.arange(64).reshape(-1, lanes), 1).ravel().tolist()


def test_data_types_of_components_are_one():
    assert qd.Vector.field(2, [qd.f32, qd.f32], shape=1).dtype is qd.f32
    assert qd.Matrix.field(2, 2, [[qd.f64] * 2] * 2, shape=1).dtype is qd.f64
    with pytest.raises(RuntimeError, match="Member fields of a matrix field must have the same compute type"):
        qd.Vector.field(2, [qd.f32, qd.i32], shape=1)
    for make in (lambda: qd.Vector.field(3, [qd.f32] * 2, shape=1), lambda: qd.Vector.field(2, qd.f32, shape=1, ndim=2)):
        with pytest.raises(AssertionError):
            make()
