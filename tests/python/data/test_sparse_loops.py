"""Loops over sparse fields: whichever way their indices are written, the compiled loop is the same."""

import random
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


def test_grouped_indices_that_nothing_uses_do_not_split_blocks_into_rows(tmp_path, monkeypatch):
    monkeypatch.delenv("QD_ARCH", raising=False)  # the stages of a processor
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


def test_lanes_take_several_rows_of_a_block(tmp_path, monkeypatch):
    monkeypatch.delenv("QD_ARCH", raising=False)  # the stages of a processor
    qd.init(arch=qd.cpu, offline_cache=False, dump=str(tmp_path))
    x, y = qd.field(qd.f32), qd.field(qd.f32)
    qd.root.pointer(qd.ijk, 4).dense(qd.ijk, 4).place(x, y)

    @qd.kernel
    def smooth():
        for i, j, k in x:
            y[i, j, k] = x[i, j + 1, k] + x[i, j, k - 1] - x[i + 1, j, k]

    x[5, 6, 7] = 1.0
    smooth()
    assert y[5, 5, 7] == 1.0 and y[4, 6, 7] == -1.0 and np.count_nonzero(y.to_numpy()) == 2
    text = (tmp_path / "smooth" / "3_llvm.ll").read_text()
    loop, lanes = text.split("define ")[-1], max(map(int, re.findall(r"<(\d+) x i32>", text)))
    assert "_loop(" in loop.splitlines()[0] and f"<{lanes} x float>" in loop  # not one row of four
    assert "masked.gather" not in loop and "masked.scatter" not in loop


def test_clamped_neighbors_are_gathered_neither_inside_nor_in_blocks_at_the_border(tmp_path, monkeypatch):
    monkeypatch.delenv("QD_ARCH", raising=False)  # the stages of a processor
    qd.init(arch=qd.cpu, offline_cache=False, dump=str(tmp_path))
    x, y = qd.field(qd.f32), qd.field(qd.f32)
    qd.root.pointer(qd.ijk, 4).dense(qd.ijk, 4).place(x, y)

    @qd.kernel
    def smooth():
        for i, j, k in x:
            y[i, j, k] = x[i, qd.min(j + 1, 15), k] + 2 * x[i, j, qd.max(k - 1, 0)] + 4 * x[qd.min(i + 1, 15), j, k]

    x[5, 15, 0] = 1.0
    smooth()
    assert (y[5, 15, 0], y[5, 14, 0], y[5, 15, 1], y[4, 15, 0], np.count_nonzero(y.to_numpy())) == (3.0, 1.0, 2.0, 4.0, 4)
    loop = (tmp_path / "smooth" / "3_llvm.ll").read_text().split("define ")[-1]
    gathers = len(re.findall("call .*@llvm.masked.gather", loop))
    # A wide load inside, another one at the border, a gather elsewhere; the index along the first axis is the same for all lanes.
    assert gathers > 0 and len(re.findall(r"^free\d*:", loop, re.MULTILINE)) == 2 * gathers


class Stencil:
    """A random stencil on random blocks: its fields, what they hold, and its kernels."""

    everywhere = ("clamp", "clip", "wrap", "choose")  # forms that have values at the border

    def __init__(self, seed):
        draw = self.draw = random.Random(seed)
        rank = draw.choice([2, 3, 3, 4])
        self.block = [draw.randint(2, 6)] * rank if seed % 2 else [draw.randint(1, 8) for _ in range(rank)]
        grid = [draw.randint(2, 4 if rank < 4 else 2) for _ in range(rank)]
        self.shape = tuple(b * g for b, g in zip(self.block, grid, strict=True))
        self.origin = tuple(draw.randint(-6, 6) for _ in range(rank)) if draw.random() < 0.3 else (0,) * rank
        self.dtype = draw.choice([qd.f32, qd.f64, qd.i8, qd.i16, qd.i64])
        self.x, self.y, self.sums = (qd.field(self.dtype) for _ in range(3))
        axes = qd.axes(*range(rank))
        node = draw.choice([qd.root.pointer, qd.root.bitmasked])(axes, grid).dense(axes, self.block)
        node.place(self.x, self.y, self.sums, offset=self.origin)
        self.dense = qd.field(self.dtype, shape=self.shape)
        reach = draw.choice([1, 1, 2, max(self.block)])
        self.shifts = [tuple(draw.choice([0, 0, draw.randint(-reach, reach)]) for _ in range(rank)) for _ in range(draw.randint(1, 4))]
        self.low, self.high = reach, [extent - 1 - reach for extent in self.shape]
        self.form = draw.choice(["and", "each", "mod", "clamp", "clip", "wrap", "choose"])
        random_numbers = np.random.default_rng(seed)
        active = random_numbers.random(grid) < 0.6
        active.flat[0] = True
        for axis, extent in enumerate(self.block):
            active = np.repeat(active, extent, axis)
        self.active = active
        self.numbers = random_numbers.integers(0, 4, (2, *self.shape)).astype(self.dense.to_numpy().dtype)
        self.numbers[0] *= active

    def shifted(self, numbers, shift):
        """The numbers at the neighbors; those at the border repeat, or continue at the other side."""
        at = np.indices(self.shape) + np.reshape(shift, (-1, *(1,) * len(self.shape)))
        if self.form == "wrap":
            return numbers[tuple(np.mod(one, extent) for one, extent in zip(at, self.shape, strict=True))]
        return numbers[tuple(np.clip(one, 0, extent - 1) for one, extent in zip(at, self.shape, strict=True))]

    def expected(self):
        """Where the loop writes, and what."""
        at = np.indices(self.shape)
        inside = np.all([(one >= self.low) & (one <= high) for one, high in zip(at, self.high, strict=True)], axis=0)
        if self.form == "mod":
            inside &= at.sum(0) % 3 != 0
        if self.form in self.everywhere:
            inside[...] = True
        return self.active & inside, sum(
            self.shifted(self.numbers[0], shift) + self.shifted(self.numbers[1], shift) for shift in self.shifts
        )


@pytest.mark.parametrize("seed", range(16))
def test_random_stencils_on_blocks(seed):
    qd.init(arch=qd.cpu, offline_cache=False, debug=seed == 3)
    case = Stencil(seed)
    x, y, sums, dense, dtype, form, shifts = case.x, case.y, case.sums, case.dense, case.dtype, case.form, case.shifts
    origin, low, high, last, rank = case.origin, case.low, case.high, [extent - 1 for extent in case.shape], len(case.shape)

    @qd.kernel
    def seed_cells(numbers: qd.types.ndarray(), active: qd.types.ndarray()):
        for I in qd.grouped(qd.ndrange(*case.shape)):  # noqa: E741
            if active[I] != 0:
                x[I + qd.Vector(origin)] = numbers[I]

    @qd.func
    def place(P):
        if qd.static(form == "clip"):
            return qd.max(0, qd.min(P, qd.Vector(last)))
        elif qd.static(form == "wrap"):
            return P % qd.Vector(case.shape)
        elif qd.static(form == "choose"):
            return qd.Vector([0 if P[a] < 0 else last[a] if P[a] > last[a] else P[a] for a in range(rank)])
        else:
            return P

    @qd.kernel
    def run() -> qd.i64:
        total = qd.cast(0, qd.i64)
        for J in qd.grouped(x):
            I = J - qd.Vector(origin)  # noqa: E741
            total += I[rank - 1] + 2 * I[rank - 2]
            ok = True
            if qd.static(form == "and"):
                ok = I.min() >= low
                for a in qd.static(range(rank)):
                    ok = ok and I[a] <= high[a]
            elif qd.static(form not in case.everywhere):
                for a in qd.static(range(rank)):
                    ok = ok & (I[a] >= low) & (I[a] <= high[a])
                ok = ok and (form != "mod" or I.sum() % 3 != 0)
            near = qd.cast(0, dtype)
            if ok:
                for shift in qd.static(shifts):
                    P = I + qd.Vector(shift)
                    if qd.static(form == "clamp"):
                        for a in qd.static(range(rank)):
                            P[a] = qd.max(0, qd.min(P[a], last[a]))
                    near += x[place(P) + qd.Vector(origin)] + dense[place(P)]
                y[J] = near
        return total

    @qd.kernel
    def spread():
        for J in qd.grouped(x):
            I = J - qd.Vector(origin)  # noqa: E741
            if I.min() >= low and (I - qd.Vector(high)).max() <= 0:
                sums[J + qd.Vector(shifts[0])] += x[J] + 1

    seed_cells(case.numbers[0], case.active.astype(np.int32))
    dense.from_numpy(case.numbers[1])
    at = np.indices(case.shape)
    assert run() == (at[-1] + 2 * at[-2])[case.active].sum()
    written, near = case.expected()
    np.testing.assert_array_equal(y.to_numpy(), np.where(written, near, 0))
    spread()
    case.form, wanted = "and", np.zeros_like(near)
    for place in np.argwhere(case.expected()[0]):
        wanted[tuple(place + shifts[0])] += case.numbers[0][tuple(place)] + 1
    np.testing.assert_array_equal(sums.to_numpy(), wanted)


@pytest.mark.parametrize("sizes", [(4, 8), (6, 5)])
def test_updates_of_the_own_cell_and_its_neighbors(sizes):
    """The own cell is addressed by its block and its position, neighbors by their indices: copies for one are none for the other."""
    qd.init()
    blocks, cells = sizes
    x, y = qd.field(qd.f32, needs_grad=True), qd.field(qd.f32, needs_grad=True)
    qd.root.pointer(qd.ij, blocks).dense(qd.ij, cells).place(x, y, x.grad, y.grad)
    ends = (cells, blocks * cells - cells)

    @qd.kernel
    def fill():
        for i, j in qd.ndrange(ends, ends):
            y[i, j] = i * 10 + j
            y.grad[i, j] = i * 10 + j

    @qd.kernel
    def scatter():
        for i, j in y:
            x[i, j] += y[i, j]
            x[i + 1, j] += 2 * y[i, j]
            x[i, j - 1] += 3 * y[i, j]

    @qd.kernel
    def gather():
        for i, j in y:
            y[i, j] = x[i, j] + 2 * x[i + 1, j] + 3 * x[i, j - 1]

    fill()
    start = y.to_numpy()
    expected = start + 2 * np.roll(start, 1, 0) + 3 * np.roll(start, -1, 1)
    scatter()
    np.testing.assert_array_equal(x.to_numpy(), expected)
    gather.grad()  # the loop of scatter has listed the cells
    np.testing.assert_array_equal(x.grad.to_numpy(), expected)
