"""Matrices in registers."""

import numpy as np
import pytest

import quadrants as qd
from quadrants.simt import Tile8x8, Tile16x16, Tile32x32, Tile64x64, block

TILES = (Tile8x8, Tile16x16, Tile32x32, Tile64x64)
PRECISION = {qd.f32: (np.float32, 1e-4), qd.f64: (np.float64, 1e-10)}

each_tile = pytest.mark.parametrize("tile", TILES, ids=lambda tile: tile.__name__)
each_type = pytest.mark.parametrize("dtype", PRECISION, ids=str)


def random_matrix(size, dtype, seed=0):
    return np.random.default_rng(seed).normal(size=(size, size)).astype(PRECISION[dtype][0])


def random_definite(size, dtype, seed=0):
    half = random_matrix(size, dtype, seed)
    return (half @ half.T / size + np.eye(size)).astype(half.dtype)


@each_tile
@each_type
def test_cholesky_and_solve(tile, dtype):
    size = tile.SIZE

    @qd.kernel
    def work(a: qd.types.ndarray(), b: qd.types.ndarray()):
        qd.loop_config(block_dim=size)
        for _ in range(size):
            factor = tile.zeros(dtype=dtype)
            right = tile.zeros(dtype=dtype)
            factor[:] = a[0:size, 0:size]
            right[:] = b[0:size, 0:size]
            factor.cholesky_(1e-30)
            factor.solve_triangular_(right)
            a[0:size, 0:size] = factor
            b[0:size, 0:size] = right

    given, right = random_definite(size, dtype), random_matrix(size, dtype, 1)
    # What is above the diagonal is not looked at.
    a, b = np.tril(given) + np.triu(np.full_like(given, np.nan), 1), right.copy()
    work(a, b)
    kind, tolerance = PRECISION[dtype]
    expected = np.linalg.cholesky(given.astype(np.float64))
    np.testing.assert_allclose(np.tril(a), expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(b, np.linalg.solve(expected, right.T).T, rtol=tolerance, atol=tolerance)
    assert a.dtype == kind


@each_type
def test_pivots_are_not_less_than_the_root_of_the_floor(dtype):
    @qd.kernel
    def work(a: qd.types.ndarray()):
        qd.loop_config(block_dim=16)
        for row in range(16):
            tile = Tile16x16.zeros(dtype=dtype)
            tile[:] = a[0:16, 0:16]
            tile.cholesky_(row + 1.0)
            a[0:16, 0:16] = tile

    a = np.zeros((16, 16), PRECISION[dtype][0])
    a[4, 4] = 100
    work(a)
    expected = np.sqrt(np.arange(1, 17))
    expected[4] = 10
    np.testing.assert_allclose(a.diagonal(), expected, rtol=1e-6)


@each_tile
@each_type
def test_ldlt(tile, dtype):
    size = tile.SIZE

    @qd.kernel
    def work(a: qd.types.ndarray()):
        qd.loop_config(block_dim=size)
        for _ in range(size):
            factor = tile.eye(dtype=dtype)
            factor[:] = a[:, :]
            factor.ldlt_()
            a[:, :] = factor

    given = random_definite(size, dtype)
    given[0] *= -1  # indefinite, and with pivots that are not small
    given[1:, 0] *= -1
    a = given.copy()
    work(a)
    lower, diagonal = np.tril(a, -1) + np.eye(size), np.diag(a.diagonal())
    assert (a.diagonal() < 0).any()
    np.testing.assert_allclose(np.tril(lower @ diagonal @ lower.T), np.tril(given), rtol=0, atol=PRECISION[dtype][1])


@each_tile
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("trans", [True, False])
def test_every_triangular_system(tile, lower, trans):
    size = tile.SIZE

    @qd.kernel
    def work(a: qd.types.ndarray(), b: qd.types.ndarray()):
        qd.loop_config(block_dim=size)
        for _ in range(size):
            triangle = tile.zeros(dtype=qd.f64)
            right = tile.zeros(dtype=qd.f64)
            triangle[:] = a[:, :]
            right[:] = b[:, :]
            triangle.solve_triangular_(right, lower=lower, trans=trans)
            b[:, :] = right

    a = random_matrix(size, qd.f64) / size + 2 * np.eye(size)
    triangle = np.tril(a) if lower else np.triu(a)
    b = random_matrix(size, qd.f64, 1)
    x = b.copy()
    work(a, x)
    np.testing.assert_allclose(x @ (triangle if trans else triangle.T), b, rtol=0, atol=1e-10)


@each_tile
@each_type
def test_products_and_transposition(tile, dtype):
    size = tile.SIZE

    @qd.kernel
    def work(a: qd.types.ndarray(), b: qd.types.ndarray(), out: qd.types.ndarray()):
        qd.loop_config(block_dim=size)
        for _ in range(size):
            left = tile.zeros(dtype=dtype)
            right = tile.zeros(dtype=dtype)
            left[:] = a[:, :]
            right[:] = b[:, :]
            product = tile.zeros(dtype=dtype)
            product.matmul_(left, right)
            out[0, :, :] = product
            left @= right
            out[1, :, :] = left
            right.transpose_()
            out[2, :, :] = right
            right.matmul_(product, right)
            out[3, :, :] = right
            right.eye_()
            out[4, :, :] = right
            right[:] = product
            out[5, :, :] = right

    a, b = random_matrix(size, dtype), random_matrix(size, dtype, 1)
    out = np.zeros((6, size, size), a.dtype)
    work(a, b, out)
    wide = a.astype(np.float64), b.astype(np.float64)
    product = wide[0] @ wide[1]
    tolerance = 10 * PRECISION[dtype][1]
    for got, expected in zip(out, [product, product, b.T, product @ b.T, np.eye(size), product], strict=True):
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(out[2], b.T)
    np.testing.assert_array_equal(out[4], np.eye(size))


@pytest.mark.parametrize("debug", [False, pytest.param(True, marks=pytest.mark.needs("deep nesting"))])
def test_slices_are_clipped(debug):
    qd.init(arch=qd.cpu, debug=debug, offline_cache=False, log_level="error")

    @qd.kernel
    def work(x: qd.types.ndarray(), out: qd.types.ndarray(), r0: qd.i32, r1: qd.i32, c0: qd.i32, c1: qd.i32):
        qd.loop_config(block_dim=16)
        for i in range(16):
            tile = Tile16x16.eye()
            tile[:] = x[r0:r1, c0:c1]
            out[0, :, :] = tile
            column = x[r0:r1, 1]
            tile = Tile16x16.zeros()
            tile += qd.outer(column, 1.0)
            out[1, :, :] = tile
            y = Tile16x16.zeros()
            y -= qd.outer(x[r0:r1, 1], x[r0 : r0 + 16, 2])
            out[2, 0:r1, 0:99] = y

    x = np.arange(1.0, 21 * 19 + 1, dtype=np.float32).reshape(21, 19)
    for r0, r1, c0, c1 in [(0, 16, 0, 16), (2, 5, 3, 19), (10, 26, 5, 21), (18, 99, 18, 99), (4, 4, 0, 3), (20, 21, 0, 99)]:
        out = np.full((3, 16, 16), -1, np.float32)
        work(x, out, r0, r1, c0, c1)
        part, whole = x[r0:r1, c0:c1][:16, :16], np.eye(16, dtype=np.float32)
        whole[: part.shape[0], : part.shape[1]] = part
        np.testing.assert_array_equal(out[0], whole)
        column, other = (np.zeros(16, np.float32) for _ in range(2))
        column[: len(x[r0:r1][:16])] = x[r0:r1, 1][:16]
        other[: len(x[r0:][:16])] = x[r0:, 2][:16]
        np.testing.assert_array_equal(out[1], np.tile(column[:, None], (1, 16)))
        np.testing.assert_array_equal(out[2, :r1], -np.outer(column, other)[:r1])
        assert (out[2, r1:] == -1).all()


def test_fields_batches_and_shared_arrays():
    x = qd.field(qd.f32, (3, 20, 16))

    @qd.kernel
    def work(out: qd.types.ndarray()):
        qd.loop_config(block_dim=16)
        for i in range(3 * 16):
            batch = i // 16
            shared = block.SharedArray((20, 17), qd.f32)
            for first in range(0, 20, 16):
                tile = Tile16x16.zeros(dtype=qd.f32)
                tile[:] = x[batch, first : first + 16, 0:16]
                shared[first : first + 16, 0:16] = tile
            product = Tile16x16.zeros(dtype=qd.f32)
            for k in range(16):
                column = shared[0:20, k]
                row = x[batch, k, 0:16]
                product += qd.outer(column, row)
            out[batch, 0:16, 0:16] = product

    given = np.random.default_rng(0).normal(size=(3, 20, 16)).astype(np.float32)
    x.from_numpy(given)
    out = np.zeros((3, 16, 16), np.float32)
    work(out)
    np.testing.assert_allclose(out, given[:, :16] @ given[:, :16], rtol=1e-4, atol=1e-5)


@each_tile
def test_several_tiles_in_a_block(tile):
    size = tile.SIZE

    @qd.kernel
    def work(a: qd.types.ndarray()):
        qd.loop_config(block_dim=128)
        for i in range(128):
            matrix = i // size
            factor = tile.zeros(dtype=qd.f64)
            factor[:] = a[matrix, :, :]
            factor.cholesky_(0.0)
            factor.transpose_()
            a[matrix, :, :] = factor

    given = np.stack([random_definite(size, qd.f64, seed) for seed in range(128 // size)])
    a = given.copy()
    work(a)
    np.testing.assert_allclose(np.triu(a).transpose(0, 2, 1), np.linalg.cholesky(given), rtol=1e-10, atol=1e-12)


@each_tile
def test_open_slices_and_folds_of_rows(tile):
    size = tile.SIZE

    @qd.kernel
    def work(x: qd.types.ndarray(), out: qd.types.ndarray(), n: qd.i32):
        qd.loop_config(block_dim=size)
        for _ in range(size):
            whole = tile.zeros(dtype=qd.f64)
            part = tile.zeros(dtype=qd.f64)
            whole[:] = x[:, :]
            part[:] = x[:n, n:]
            out[0, :n, :n] = part
            part.eye_()
            part -= qd.outer(whole.sum_rows(), 1.0)
            out[1, :, :] = part
            part = tile.zeros(dtype=qd.f64)
            part += qd.outer(whole.max_rows(), whole.min_rows())
            out[2, :, :] = part
            whole.broadcast_row_(n)
            out[3, :, :] = whole

    x = random_matrix(size, qd.f64)
    out = np.full((4, size, size), -1.0)
    n = size // 2 - 1
    work(x, out, n)
    first = np.full((size, size), -1.0)
    first[:n, :n] = x[:n, n : 2 * n]
    expected = [
        first, np.eye(size) - np.repeat(x.sum(axis=1)[:, None], size, axis=1), np.outer(x.max(axis=1), x.min(axis=1)),
        np.repeat(x[n : n + 1], size, axis=0),
    ]  # fmt: skip
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12)


def test_both_sizes_in_one_kernel_and_registers():
    @qd.kernel
    def work(out: qd.types.ndarray()):
        qd.loop_config(block_dim=32)
        for i in range(32):
            small = Tile16x16.eye(dtype=qd.f32)
            large = Tile32x32.eye(dtype=qd.f32)
            for j in qd.static(range(16)):
                large.r[j] = large.r[j] + small.r[j] * 2.0
            out[:, :] = large

    out = np.zeros((32, 32), np.float32)
    work(out)
    expected = np.eye(32)
    expected[np.arange(16), np.arange(16)] = 3
    # Lanes 16 to 31 hold a small tile of their own.
    expected[np.arange(16, 32), np.arange(16)] = 2
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(("choice", "rows", "dtype"), [(16, 92, qd.f32), (32, 76, qd.f64)])
def test_blocked_cholesky_as_simulators_write_it(choice, rows, dtype):

    @qd.func
    def factor_tree(i_b, tid, scratch, n, tile: qd.template(), size: qd.template()):
        shared = block.SharedArray((rows, rows + 1), dtype)
        n_blocks = (n + size - 1) // size
        for k_blk in range(n_blocks):
            k_lo = k_blk * size
            k_hi = qd.min(k_lo + size, n)
            for i_blk in range(k_blk, n_blocks):
                i_lo = i_blk * size
                i_hi = qd.min(i_lo + size, n)
                staged = tile.zeros(dtype=dtype)
                staged[:] = scratch[i_b, i_lo:i_hi, k_lo:k_hi]
                shared[i_lo:i_hi, k_lo:k_hi] = staged
        block.sync()
        for k_blk in range(n_blocks):
            k_lo = k_blk * size
            k_hi = qd.min(k_lo + size, n)
            diagonal = tile.eye(dtype=dtype)
            diagonal[:] = shared[k_lo:k_hi, k_lo:k_hi]
            for j_blk in range(k_blk):
                j_lo = j_blk * size
                for i_col in range(size):
                    v = shared[k_lo:k_hi, j_lo + i_col]
                    diagonal -= qd.outer(v, v)
            d_row = k_lo + tid
            original = dtype(1.0)
            if d_row < k_hi:
                original = shared[d_row, d_row]
            diagonal.cholesky_(1e-12 * qd.max(original, 1e-12))
            for i_blk in range(k_blk + 1, n_blocks):
                i_lo = i_blk * size
                i_hi = qd.min(i_lo + size, n)
                below = tile.zeros(dtype=dtype)
                below[:] = shared[i_lo:i_hi, k_lo:k_hi]
                for j_blk in range(k_blk):
                    j_lo = j_blk * size
                    for i_col in range(size):
                        v_own = shared[i_lo:i_hi, j_lo + i_col]
                        v_diag = shared[k_lo:k_hi, j_lo + i_col]
                        below -= qd.outer(v_own, v_diag)
                diagonal.solve_triangular_(below)
                shared[i_lo:i_hi, k_lo:k_hi] = below
            shared[k_lo:k_hi, k_lo:k_hi] = diagonal
        v = qd.Vector.zero(dtype, 6)
        block.sync()
        row = tid
        while row < n:
            for column in range(row + 1):
                scratch[i_b, row, column] = shared[row, column]
            v[0] += scratch[i_b, row, 0]
            row = row + size

    @qd.kernel
    def work(scratch: qd.types.ndarray(), sizes: qd.types.ndarray()):
        qd.loop_config(name="factor", block_dim=choice)
        for i_flat in range(sizes.shape[0] * choice):
            i_b = i_flat // choice
            if sizes[i_b] > 0:
                factor_tree(
                    i_b, i_flat % choice, scratch, sizes[i_b],
                    qd.simt.Tile32x32 if qd.static(choice == 32) else qd.simt.Tile16x16, choice,
                )  # fmt: skip

    sizes = np.array([rows, 0, 1, 16, 17, 33], np.int32)
    given = np.stack([random_definite(rows, dtype, seed) for seed in range(len(sizes))])
    got = given.copy()
    work(got, sizes)
    for before, after, size in zip(given, got, sizes, strict=True):
        if size:
            expected = np.linalg.cholesky(before[:size, :size])
            np.testing.assert_allclose(np.tril(after[:size, :size]), expected, rtol=0, atol=PRECISION[dtype][1])


def run(body):
    """Compiles statements in a block of 16 threads that has a tile `t` and an array `x`."""
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    source = (
        "import quadrants as qd\n@qd.kernel\ndef k(x: qd.types.ndarray()):\n    qd.loop_config(block_dim=16)\n    for i in range(16):\n"
        f"        t = qd.simt.Tile16x16.zeros()\n{lines}"
    )
    qd.kernel_from_source(source)(np.zeros((20, 20), np.float32))


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        ("t[:] = x[-16:16, 0:16]", qd.QuadrantsSyntaxError, "Negative indices"),
        ("t[:] = x[0:16:2, 0:16]", qd.QuadrantsSyntaxError, "has no step"),
        ("t[:] = x[0:16, 0]", TypeError, "a slice along two axes"),
        ("t[:] = 1.0", TypeError, "a slice along two axes"),
        ("t[0:4] = x[0:16, 0:16]", TypeError, "loaded as a whole"),
        ("y = qd.outer(x[0:16, 0], 1.0) + 1.0", TypeError, "does not support composition"),
        ("t -= qd.outer(x[0:16, 0], 1.0) * 2.0", TypeError, "does not support composition"),
        ("t *= qd.outer(x[0:16, 0], 1.0)", TypeError, "unsupported augmented assignment op"),
        ("t -= 1.0", TypeError, "unsupported augmented assignment"),
        ("t @= 1.0", TypeError, "right side of `tile @= ` is a tile"),
        ("t += qd.outer(1.0)", TypeError, "qd.outer"),
        ("y = x[0:16, 0] + 1.0", TypeError, "only valid in tile operations"),
        ("y = qd.simt.Tile16x16.zeros(dtype=qd.i32)", TypeError, "tiles hold floats"),
        ("y = qd.simt.Tile24x24.zeros()", AttributeError, "Tile24x24"),
    ],
)
def test_misuse_is_refused(body, kind, text):
    with pytest.raises(kind, match=text):
        run(body)
