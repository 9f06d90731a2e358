"""What the threads of a subgroup do together, as many as the device has in one."""

import functools
import os

import numpy as np
import pytest

import quadrants as qd
from quadrants.simt import block, subgroup, warp

SIZE = 32
LANES = np.arange(SIZE)


@pytest.fixture(autouse=True)
def _ask_the_device(runtime):
    global SIZE, LANES
    SIZE = subgroup.group_size()
    LANES = np.arange(SIZE)


def repeat(row):
    """What all groups of 64 threads hold, when one holds this."""
    return np.tile(row, 64 // SIZE)


def on_lanes(expression, dtype="int32", **names):
    """The value of an expression of `lane` on 64 threads."""
    source = f"""
import quadrants as qd
from quadrants.simt import block, subgroup, warp
@qd.kernel
def k(x: qd.types.ndarray(), out: qd.types.ndarray()):
    qd.loop_config(block_dim=64)
    for i in range(64):
        lane = subgroup.invocation_id()
        out[i] = {expression}
"""
    x = names.pop("x", np.zeros(64, np.int32))
    out = np.zeros(64, dtype)
    qd.kernel_from_source(source)(x, out)
    return out


def test_lanes_are_numbered_and_one_is_elected():
    np.testing.assert_array_equal(on_lanes("lane"), repeat(LANES))
    np.testing.assert_array_equal(on_lanes("subgroup.elect()"), repeat(LANES == 0))
    assert 1 << subgroup.log2_group_size() == SIZE
    assert (on_lanes("subgroup.group_size() + 0 * lane") == SIZE).all()


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.float32, np.int64, np.uint64, np.float64])
def test_shuffles(dtype):
    x = (np.arange(64) * 3 + 1).astype(dtype)
    rows = x.reshape(-1, SIZE)

    def get(expression):
        return on_lanes(expression, x.dtype, x=x).reshape(-1, SIZE)

    np.testing.assert_array_equal(get(f"subgroup.shuffle(x[i], {SIZE - 1} - lane)"), rows[:, ::-1])
    np.testing.assert_array_equal(get("subgroup.shuffle_xor(x[i], 5)"), rows[:, LANES ^ 5])
    np.testing.assert_array_equal(get("subgroup.shuffle_up(x[i], 3)"), rows[:, np.where(LANES < 3, LANES, LANES - 3)])
    np.testing.assert_array_equal(get("subgroup.shuffle_down(x[i], qd.u32(4))"), rows[:, np.where(LANES >= SIZE - 4, LANES, LANES + 4)])
    np.testing.assert_array_equal(get("subgroup.broadcast(x[i], 7)"), np.repeat(rows[:, 7:8], SIZE, axis=1))
    np.testing.assert_array_equal(get("subgroup.broadcast_first(x[i])"), np.repeat(rows[:, :1], SIZE, axis=1))


def test_votes():
    odd = sum(2 << lane for lane in range(0, SIZE, 2))
    assert (on_lanes("subgroup.ballot(lane % 2)", np.uint64) == odd).all()
    assert (on_lanes("subgroup.ballot_first_n(lane % 2, 5)", np.uint32) == 0b01010).all()
    np.testing.assert_array_equal(on_lanes("subgroup.all_true_tiled(lane >= 4, 2)"), repeat(LANES >= 4))
    np.testing.assert_array_equal(on_lanes("subgroup.any_true_tiled(lane == 5, 2)"), repeat(LANES // 4 == 1))
    np.testing.assert_array_equal(on_lanes("subgroup.all_equal_tiled(lane // 4, 2)"), np.ones(64))
    assert (on_lanes(f"subgroup.all_equal(i // {SIZE})") == 1).all() and (on_lanes(f"subgroup.all_equal(i // {SIZE // 2})") == 0).all()
    assert (on_lanes("subgroup.all_true(1)") == 1).all() and (on_lanes("subgroup.any_true(0)") == 0).all()


def test_lane_masks():
    lanes = repeat(LANES).astype(np.uint64)
    mask = np.uint64 if SIZE > 32 else np.uint32
    below = (np.uint64(1) << lanes) - np.uint64(1)
    own = np.uint64(1) << lanes
    whole = np.uint64(np.iinfo(mask).max)
    for name, expected in {"lt": below, "le": below | own, "eq": own, "gt": whole ^ (below | own), "ge": whole ^ below}.items():
        np.testing.assert_array_equal(on_lanes(f"subgroup.lanemask_{name}(lane)", mask), expected)


def test_lane_masks_of_64_bits():
    below = (np.uint64(1) << np.arange(64).astype(np.uint64)) - np.uint64(1)
    own = below + np.uint64(1)
    whole = np.uint64(2**64 - 1)
    for name, expected in {"lt": below, "le": below | own, "eq": own, "gt": whole ^ (below | own), "ge": whole ^ below}.items():
        np.testing.assert_array_equal(on_lanes(f"subgroup.lanemask_{name}_u64(i)", np.uint64), expected)


def test_lanes_with_equal_values_find_each_other():
    found = on_lanes("subgroup.match_any(lane % 3)", np.uint64)
    assert found[:SIZE].tolist() == [sum(1 << other for other in range(SIZE) if other % 3 == lane % 3) for lane in range(SIZE)]
    whole = (1 << SIZE) - 1
    assert on_lanes(f"subgroup.match_all(i // {SIZE})", np.uint64).tolist() == [whole] * 64
    assert (on_lanes("subgroup.match_all(lane // 4)", np.uint64) == 0).all()


def test_structs_and_vectors_are_shuffled_as_a_whole():
    Pair = qd.types.struct(number=qd.i32, place=qd.types.vector(2, qd.f32), inner=qd.types.struct(flag=qd.u1, half=qd.f16))

    @qd.kernel
    def work(out: qd.types.ndarray()):
        qd.loop_config(block_dim=64)
        for i in range(64):
            own = Pair(number=i, place=qd.Vector([i, 2.0]), inner=qd.Struct(flag=i % 2 == 0, half=i / 2))
            got = subgroup.shuffle_xor(own, 3)
            out[0, i] = got.number
            out[1, i] = got.place[0] + got.place[1]
            out[2, i] = got.inner.flag
            out[3, i] = got.inner.half

    out = np.zeros((4, 64), np.float32)
    work(out)
    other = np.arange(64) ^ 3
    np.testing.assert_array_equal(out, [other, other + 2, other % 2 == 0, other / 2])


@pytest.mark.parametrize("log2_size", [0, 1, 3, None])
def test_reductions_and_scans_of_tiles(log2_size):
    log2_size = subgroup.log2_group_size() if log2_size is None else log2_size
    x = np.random.default_rng(3).integers(-50, 50, 64).astype(np.int32)
    tiles = x.reshape(-1, 1 << log2_size)

    def get(name, *more):
        return on_lanes(f"subgroup.{name}_tiled(x[i], {', '.join([*more, str(log2_size)])})", x=x).reshape(tiles.shape)

    for name, function in {"add": np.add, "min": np.minimum, "max": np.maximum}.items():
        whole = np.repeat(function.reduce(tiles, axis=1)[:, None], tiles.shape[1], axis=1)
        np.testing.assert_array_equal(get(f"reduce_all_{name}"), whole)
        np.testing.assert_array_equal(get(f"reduce_{name}")[:, 0], whole[:, 0])
    scans = {
        "add": (np.add, 0), "mul": (np.multiply, 1), "min": (np.minimum, 2**31 - 1), "max": (np.maximum, -(2**31)),
        "and": (np.bitwise_and, -1), "or": (np.bitwise_or, 0), "xor": (np.bitwise_xor, 0),
    }  # fmt: skip
    for name, (function, identity) in scans.items():
        inclusive = function.accumulate(tiles, axis=1, dtype=np.int32)
        before = np.concatenate([np.full((len(tiles), 1), identity, np.int32), inclusive[:, :-1]], axis=1)
        np.testing.assert_array_equal(get(f"inclusive_{name}"), inclusive)
        np.testing.assert_array_equal(get(f"exclusive_{name}"), before)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.float32])
def test_reductions_of_each_type(dtype):
    high = np.iinfo(dtype).max if np.issubdtype(dtype, np.integer) else 100
    x = np.random.default_rng(6).integers(0, high, 64, dtype if high != 100 else np.int64, endpoint=True).astype(dtype)
    x[3] = np.iinfo(dtype).min if np.issubdtype(dtype, np.integer) else -3
    rows = x.reshape(-1, SIZE)
    for name, function in {"add": np.add, "min": np.minimum, "max": np.maximum}.items():
        whole = np.repeat(function.reduce(rows, axis=1, dtype=dtype), SIZE)
        np.testing.assert_array_equal(on_lanes(f"subgroup.reduce_all_{name}(x[i])", dtype, x=x), whole)
        np.testing.assert_array_equal(on_lanes(f"subgroup.reduce_{name}_tiled(x[i], 0)", dtype, x=x), x)


def test_vectors_are_reduced_by_component():
    out = on_lanes("subgroup.reduce_all_add(qd.Vector([i, 2.0]))[0] + subgroup.reduce_all_max(qd.Vector([i, 2.0]))[1]", np.float32)
    np.testing.assert_array_equal(out, np.repeat(np.arange(64).reshape(-1, SIZE).sum(axis=1), SIZE) + 2)


def test_lanes_of_a_branch_work_together():
    @qd.kernel
    def work(out: qd.types.ndarray()):
        qd.loop_config(block_dim=64)
        for i in range(64):
            lane = subgroup.invocation_id()
            if lane < 5:
                mask = subgroup.active_mask()
                out[0, i] = mask
                out[1, i] = subgroup.shuffle(10 * i, 2, mask)
                out[2, i] = subgroup.ballot(lane % 2, mask)
                out[3, i] = subgroup.match_any(lane % 3, mask)
                out[4, i] = subgroup.match_all(lane // 8, mask) + subgroup.match_all(lane // 4, mask)
            else:
                others = ~qd.u64(31)
                out[0, i] = subgroup.active_mask()
                out[1, i] = subgroup.shuffle_down(10 * i, 1, others)
                out[2, i] = subgroup.ballot(1, others)
            out[5, i] = subgroup.reduce_all_add(i)

    out = np.zeros((6, 64), np.uint64)
    work(out)
    first, i = LANES < 5, np.arange(64).reshape(-1, SIZE)
    few, most = 31, (1 << SIZE) - 32
    rows = out.reshape(6, -1, SIZE)
    assert (rows[0] == np.where(first, np.uint64(few), np.uint64(most))).all()
    shuffled = np.where(first, i[:, 2:3], i + (LANES < SIZE - 1))
    np.testing.assert_array_equal(rows[1], 10 * shuffled)
    assert (rows[2] == np.where(first, np.uint64(0b01010), np.uint64(most))).all()
    assert rows[3, 0, :5].tolist() == [0b01001, 0b10010, 0b00100, 0b01001, 0b10010]
    assert (rows[4, :, :5] == few).all()
    np.testing.assert_array_equal(rows[5], np.repeat(i.sum(axis=1)[:, None], SIZE, axis=1))


def test_lanes_leave_a_loop_one_by_one():
    @qd.kernel
    def work(out: qd.types.ndarray()):
        qd.loop_config(block_dim=64)
        for i in range(64):
            lane = subgroup.invocation_id()
            total = 0
            k = 0
            while k < lane:
                there = subgroup.active_mask()
                total += subgroup.shuffle(k, qd.math.ffs(there) - 1, there) + qd.i32(qd.math.popcnt(subgroup.ballot(1, there)))
                k += 1
            out[i] = total

    out = np.zeros(64, np.int64)
    work(out)
    expected = [sum(k + SIZE - 1 - k for k in range(lane)) for lane in range(SIZE)]
    assert out.tolist() == repeat(expected).tolist()


def test_a_mask_of_a_warp_includes_some_lanes():
    @qd.kernel
    def work(out: qd.types.ndarray()):
        qd.loop_config(block_dim=64)
        for i in range(64):
            own = block.SharedArray((64,), qd.i32)
            lane = subgroup.invocation_id()
            if lane % 32 < 4:
                mask = qd.u32(0b1111)
                own[i] = 3 * i
                warp.sync(mask)
                out[0, i] = own[i ^ 1]
                out[1, i] = warp.shfl_down_i32(mask, i, 2)
                out[2, i] = warp.all_nonzero(mask, lane < 9) + 2 * warp.any_nonzero(mask, lane % 32 == 3) + 4 * warp.unique(mask, lane)
                out[3, i] = warp.match_all(mask, lane // 4)
            out[4, i] = warp.all_nonzero(qd.u32(0xFFFFFFFF), lane < 9)

    out = np.zeros((5, 64), np.int64)
    work(out)
    for i in range(64):
        lane = i % SIZE
        if lane < 4:
            # Metal has no barrier of some lanes: they run in step on its GPUs, and do not in the emulator.
            assert out[0, i] == 3 * (i ^ 1) or os.environ.get("QD_ARCH") == "metal"
            assert lane >= 2 or out[1, i] == i + 2
            assert out[3, i] in (0b1111, 0) if SIZE > 32 else out[3, i] == 0b1111
            assert out[2, i] == 3 or SIZE > 32
        assert out[4, i] == (SIZE <= 8)


@pytest.mark.skipif(os.environ.get("QD_ARCH", "cpu") != "cpu", reason="devices have one size")
@pytest.mark.parametrize("size", [8, 16])
def test_the_processor_has_smaller_subgroups(size):
    qd.init(arch=qd.cpu, cpu_subgroup_size=size, offline_cache=False, log_level="error")
    assert subgroup.group_size() == size and subgroup.log2_group_size() == size.bit_length() - 1
    x = np.random.default_rng(7).integers(-50, 50, 64).astype(np.int32)
    rows = x.reshape(-1, size)
    np.testing.assert_array_equal(on_lanes("lane"), np.tile(np.arange(size), 64 // size))
    np.testing.assert_array_equal(on_lanes("subgroup.reduce_all_add(x[i])", x=x), np.repeat(rows.sum(axis=1), size))
    np.testing.assert_array_equal(on_lanes("subgroup.inclusive_max(x[i])", x=x), np.maximum.accumulate(rows, axis=1).ravel())
    np.testing.assert_array_equal(on_lanes(f"subgroup.shuffle(x[i], {size - 1})", x=x), np.repeat(rows[:, -1], size))
    assert (on_lanes("subgroup.ballot(1)", np.uint64) == (1 << size) - 1).all()
    np.testing.assert_array_equal(on_lanes("block.inclusive_add(x[i], 64, qd.i32)", x=x), np.cumsum(x))
    with pytest.raises(ValueError, match="cpu_subgroup_size is 8, 16 or 32, got 12"):
        qd.init(arch=qd.cpu, cpu_subgroup_size=12)


def test_segments_begin_anew_at_their_heads():
    x = np.random.default_rng(4).integers(0, 100, 64).astype(np.int32)
    out = on_lanes("subgroup.segmented_reduce_add(x[i], lane % 5 == 0)", x=x)
    least = on_lanes("subgroup.segmented_reduce_min_tiled(x[i], lane % 5 == 0, 2)", x=x)
    for i in range(64):
        lane = i % SIZE
        first = i - lane + lane // 5 * 5
        assert out[i] == x[first : i + 1].sum()
        assert least[i] == x[max(first, i - i % 4) : i + 1].min()


def test_pairs_are_sorted_by_key_then_value():
    rng = np.random.default_rng(5)
    keys, values = rng.integers(0, 8, 64).astype(np.int32), rng.permutation(64).astype(np.float32)

    @qd.kernel
    def work(keys: qd.types.ndarray(), values: qd.types.ndarray()):
        qd.loop_config(block_dim=64)
        for i in range(64):
            key, value = subgroup.bitonic_sort_kv(keys[i], values[i])
            keys[i] = key
            values[i] = value

    pairs = list(zip(keys.tolist(), values.tolist(), strict=True))
    work(keys, values)
    expected = [pair for first in range(0, 64, SIZE) for pair in sorted(pairs[first : first + SIZE])]
    assert list(zip(keys.tolist(), values.tolist(), strict=True)) == expected


def test_a_warp_outside_of_parallel_loops_waits_for_nobody():
    @qd.kernel
    def k(n: qd.i32) -> qd.i32:
        warp.sync(qd.u32(0xFFFFFFFF))
        total = n
        for _ in range(3):
            total += 1
        if n > 1:
            for _ in range(2):
                warp.sync(qd.u32(0xFFFFFFFF))
                total += 1
        return total

    assert k(4) == 9


def test_older_names_of_warps():
    mask = "qd.u32(0xFFFFFFFF)"
    np.testing.assert_array_equal(on_lanes(f"warp.shfl_down_i32({mask}, lane, 1)"), repeat(np.minimum(LANES + 1, SIZE - 1)))
    odd = sum(2 << lane for lane in range(0, min(SIZE, 32), 2))
    np.testing.assert_array_equal(on_lanes(f"warp.match_any({mask}, lane % 2)", np.uint32), np.tile([odd >> 1, odd], 32))
    assert (on_lanes(f"warp.all_nonzero({mask}, 1) + warp.any_nonzero({mask}, lane == 3) + warp.unique({mask}, 1)") == 3).all()
    assert (on_lanes("warp.active_mask()", np.uint32) == odd | odd >> 1).all()


def test_groups_take_turns_in_their_own_time():
    @qd.kernel
    def work(out: qd.types.ndarray()):
        qd.loop_config(block_dim=4 * subgroup.group_size())
        for i in range(4 * subgroup.group_size()):
            group = i // subgroup.group_size()
            total = i
            for _ in range(group):  # uniform in a group, not in the block
                total = subgroup.reduce_all_add(total)
            out[i] = total

    out = np.zeros(4 * SIZE, np.int64)
    work(out)
    rows = np.arange(4 * SIZE).reshape(4, SIZE)
    expected = [functools.reduce(lambda row, _: np.full(SIZE, row.sum()), range(group), rows[group]) for group in range(4)]
    np.testing.assert_array_equal(out.reshape(4, SIZE), expected)


def test_functions_of_one_operator_take_no_other():
    for call in (
        "subgroup.reduce_add(lane, 5)",
        "subgroup.reduce_add(lane, log2_size=5)",
        "subgroup.reduce_add_tiled(lane, 5, subgroup.sync)",
    ):
        with pytest.raises(qd.QuadrantsSyntaxError, match="Too many arguments|Unexpected argument"):
            on_lanes(call)
    assert subgroup.reduce_add.__doc__ == "The sum of the subgroup, on its first lane."
