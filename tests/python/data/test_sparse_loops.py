"""Loops over sparse fields: whichever way their indices are written, the compiled loop is the same."""

import re

import numpy as np
import pytest

import quadrants as qd


@pytest.fixture(autouse=True)
def _reset():
    yield
    qd.reset()


def list_loops(folder, kernel):
    """The loops of a kernel as the frontend builds it, without the names of values."""
    text = (folder / kernel / "1_frontend.mlir").read_text()
    return [re.sub(r"%\w+", "%", line) for line in text.splitlines() if "qd.for" in line]


def test_grouped_indices_that_nothing_uses_do_not_split_blocks_into_rows(tmp_path):
    qd.init(arch=qd.cpu, offline_cache=False, dump=str(tmp_path))
    x = qd.field(qd.f32)
    qd.root.pointer(qd.ijk, 8).dense(qd.ijk, 8).place(x)

    @qd.kernel
    def grouped():
        for I in qd.grouped(x):  # noqa: E741
            x[I] = x[I] * 2

    @qd.kernel
    def plain():
        for i, j, k in x:
            x[i, j, k] = x[i, j, k] * 2

    @qd.kernel
    def with_unused_vector():
        for i, j, k in x:
            unused = qd.Vector([i, i, k])  # noqa: F841
            x[i, j, k] = x[i, j, k] * 2

    x[1, 2, 3] = 1.0
    x[7, 0, 5] = 3.0
    for kernel in (grouped, plain, with_unused_vector):
        kernel()
    assert x[1, 2, 3] == 8.0 and x[7, 0, 5] == 24.0 and np.count_nonzero(x.to_numpy()) == 2
    loops = list_loops(tmp_path, "plain")
    assert loops and list_loops(tmp_path, "grouped") == list_loops(tmp_path, "with_unused_vector") == loops


BLOCKS = {
    "pointer": (4, 8),
    "two levels": (4, 8),
    "rows of two vectors": (4, 16),
    "rows of 24": (3, 24),
    "dense above": (4, 8),
    "large blocks": (16, 64),
    "rows of 3": (5, 3),
    "rows of 4": (4, 4),
    "rows of 5": (2, 5),
    "rows of 6": (6, 6),
    "rows of 12": (3, 12),
    "blocks of blocks": (4, 12),
    "masks": (1, 5),
}


def place_in_blocks(tree, fields):
    """Places fields of 2 axes in blocks with short rows."""
    nodes = {
        "pointer": lambda root: root.pointer(qd.ij, (6, 5)).dense(qd.ij, (4, 8)),
        "two levels": lambda root: root.pointer(qd.ij, (3, 2)).pointer(qd.ij, (2, 4)).dense(qd.ij, (4, 8)),
        "rows of two vectors": lambda root: root.pointer(qd.ij, (6, 3)).dense(qd.ij, (4, 16)),
        "rows of 24": lambda root: root.pointer(qd.ij, (8, 2)).dense(qd.ij, (3, 24)),
        "dense above": lambda root: root.dense(qd.ij, (2, 5)).pointer(qd.ij, (3, 1)).dense(qd.ij, (4, 8)),
        "large blocks": lambda root: root.pointer(qd.ij, (2, 1)).dense(qd.ij, (16, 64)),
        "blocks of blocks": lambda root: root.pointer(qd.ij, (6, 4)).dense(qd.ij, (2, 3)).dense(qd.ij, (2, 4)),
        "masks": lambda root: root.bitmasked(qd.ij, (16, 8)).dense(qd.j, 5),
    }
    rows = lambda root: root.pointer(qd.ij, (6, 7)).dense(qd.ij, BLOCKS[tree])  # noqa: E731
    nodes.get(tree, rows)(qd.root).place(*fields, offset=(-5, 3) if tree == "two levels" else None)


@pytest.mark.parametrize("dtype", [qd.f32, qd.f64, qd.i8])
@pytest.mark.parametrize("tree", BLOCKS)
def test_loops_over_blocks_use_indices_and_neighbors(tree, dtype):
    qd.init(arch=qd.cpu, offline_cache=False)
    x, near, far, inside = (qd.field(dtype) for _ in range(4))
    place_in_blocks(tree, [x, near, far, inside])
    (rows, columns), (top, left) = x.shape, (-5, 3) if tree == "two levels" else (0, 0)

    @qd.kernel
    def seed():
        for i, j in qd.ndrange(rows, columns):
            if (i * 7 + j * 3) % 251 == 0:
                x[i + top, j + left] = (i * 5 + j * 11) % 50 + 1

    @qd.kernel
    def run():
        for i, j in x:
            near[i, j] = x[i, j] + (i - top) * 2 + (j - left)
        for I in qd.grouped(x):  # noqa: E741
            if I[0] > top + 1 and I[0] < top + rows - 2 and I[1] > left + 1 and I[1] < left + columns - 9:
                far[I] = x[I[0] - 2, I[1]] + x[I[0] + 1, I[1] - 2] + x[I[0] + 2, I[1] + 9]
        for i, j in x:
            if (j - left) % 3 != 1 and j > left and i > top:
                inside[i, j] = x[i - 1, j - 1]

    seed()
    run()
    cells = x.to_numpy()
    block = BLOCKS[tree]
    written = cells.reshape(rows // block[0], block[0], columns // block[1], block[1]) != 0
    of_blocks = np.broadcast_to(written.any(axis=(1, 3))[:, None, :, None], written.shape).reshape(rows, columns)
    i, j = np.indices(cells.shape)
    expected = np.where(of_blocks, cells + (i * 2 + j).astype(cells.dtype), 0)
    assert of_blocks.any() and (tree == "large blocks" or not of_blocks.all())
    np.testing.assert_array_equal(near.to_numpy(), expected)
    padded = np.pad(cells, 9)

    def shifted(down, right):
        return padded[9 + down : 9 + down + rows, 9 + right : 9 + right + columns]

    wanted = (i > 1) & (i < rows - 2) & (j > 1) & (j < columns - 9) & of_blocks
    np.testing.assert_array_equal(far.to_numpy(), np.where(wanted, shifted(-2, 0) + shifted(1, -2) + shifted(2, 9), 0))
    wanted = (j % 3 != 1) & (j > 0) & (i > 0) & of_blocks
    np.testing.assert_array_equal(inside.to_numpy(), np.where(wanted, shifted(-1, -1), 0))
