"""The emulator of AMD GPUs: its instructions against the processor, what it does not know, and mistakes that it must notice."""

from __future__ import annotations

import ctypes
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import amd_emulation
import numpy as np
import pytest

import quadrants as qd

gcn = amd_emulation.import_emulator()
TARGETS = ("gfx906", "gfx942", "gfx1030", "gfx1100", "gfx1201")


class Wave(ctypes.Structure):
    _fields_ = [("v", ctypes.c_uint32 * 64 * 512), ("s", ctypes.c_uint32 * 132), ("pc", ctypes.c_uint64),
                ("scc", ctypes.c_uint32), ("done", ctypes.c_uint32), ("block", ctypes.c_void_p),
                ("scratch", ctypes.c_void_p), ("scratch_bytes", ctypes.c_uint32), ("indexing", ctypes.c_uint32)]  # fmt: skip


class Lanes:
    """A wave whose registers are NumPy arrays: `v[n]` has 64 words, `s` is the scalar registers."""

    def __init__(self, target: str, exec_mask: int = 2**64 - 1) -> None:
        self.machine, self.target, self.wave = ctypes.CDLL(str(gcn.build.build())), target, Wave()
        assert self.machine.gcn_wave_size() == ctypes.sizeof(Wave)
        self.v = np.ctypeslib.as_array(self.wave.v)
        self.s = np.ctypeslib.as_array(self.wave.s)
        self.s[126:128] = exec_mask & 0xFFFFFFFF, exec_mask >> 32

    def prepare(self, *lines: str) -> list[Any]:
        """The records of instructions."""
        code = gcn.assemble.assemble(self.target, *lines)
        decoder = gcn.decode.Decoder(self.machine, self.target, gcn.decode.find_folder())
        ops = [decoder.decode(at, size, text) for at, size, text in gcn.decode.disassemble(self.target, code, 0)]
        decoder.resolve()
        return ops

    def run(self, *lines: str) -> None:
        """Runs instructions in their order."""
        for op in self.prepare(*lines):
            assert self.step(op) == 0, lines

    def step(self, op: Any) -> int:
        return self.machine.gcn_step(ctypes.byref(self.wave), ctypes.byref(op))

    def set_pair(self, register: int, values: np.ndarray) -> None:
        words = values.astype(values.dtype).view(np.uint32).reshape(-1, 2)
        self.v[register], self.v[register + 1] = words[:, 0], words[:, 1]

    def get_pair(self, register: int, dtype: Any) -> np.ndarray:
        return np.stack([self.v[register], self.v[register + 1]], axis=1).copy().view(dtype)[:, 0]


def make_numbers(dtype: Any, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        values = (rng.standard_normal(64) * 10.0 ** rng.integers(-3, 4, 64)).astype(dtype)
        values[:6] = 0.0, -0.0, np.inf, 1.0, -1.5, np.finfo(dtype).smallest_subnormal
        return values
    info = np.iinfo(dtype)
    values = rng.integers(info.min, info.max, 64, dtype=dtype, endpoint=True)
    values[:4] = 0, 1, info.max, info.min
    return values


def names(old: str, new: str) -> dict[str, str]:
    """An instruction that has another name from gfx10 on."""
    return {target: old if target.startswith("gfx9") else new for target in TARGETS}


A, B, C = (f"v{i}" for i in (1, 2, 3))
# Instruction by target, type, what it computes.
OF_WORDS: list[tuple[Any, Any, Callable[..., Any]]] = [
    (f"v_add_f32 v0, {A}, {B}", np.float32, lambda a, b, c: a + b),
    (f"v_sub_f32 v0, {A}, {B}", np.float32, lambda a, b, c: a - b),
    (f"v_mul_f32 v0, {A}, {B}", np.float32, lambda a, b, c: a * b),
    (f"v_mul_f32 v0, -{A}, |{B}|", np.float32, lambda a, b, c: -a * abs(b)),
    (f"v_fma_f32 v0, {A}, {B}, {C}", np.float32, lambda a, b, c: (a.astype(np.longdouble) * b + c).astype(np.float32)),
    (f"v_add_f32 v0, {A}, {B} clamp", np.float32, lambda a, b, c: np.clip(a + b, 0, 1)),
    (f"v_add_f32_e64 v0, {A}, {B} mul:2", np.float32, lambda a, b, c: (a + b) * 2),
    (f"v_floor_f32 v0, {A}", np.float32, lambda a, b, c: np.floor(a)),
    (f"v_rndne_f32 v0, {A}", np.float32, lambda a, b, c: np.rint(a)),
    (f"v_trunc_f32 v0, {A}", np.float32, lambda a, b, c: np.trunc(a)),
    (names(f"v_add_u32 v0, {A}, {B}", f"v_add_nc_u32 v0, {A}, {B}"), np.uint32, lambda a, b, c: a + b),
    (names(f"v_sub_u32 v0, {A}, {B}", f"v_sub_nc_u32 v0, {A}, {B}"), np.uint32, lambda a, b, c: a - b),
    (names(f"v_sub_u32 v0, {A}, {B} clamp", f"v_sub_nc_u32 v0, {A}, {B} clamp"), np.uint32, lambda a, b, c: np.where(a > b, a - b, 0)),
    (f"v_mul_lo_u32 v0, {A}, {B}", np.uint32, lambda a, b, c: a * b),
    (f"v_mul_hi_u32 v0, {A}, {B}", np.uint32, lambda a, b, c: (a.astype(np.uint64) * b >> np.uint64(32)).astype(np.uint32)),
    (f"v_mul_hi_i32 v0, {A}, {B}", np.int32, lambda a, b, c: (a.astype(np.int64) * b >> 32).astype(np.int32)),
    (f"v_mul_u32_u24 v0, {A}, {B}", np.uint32, lambda a, b, c: (a & np.uint32(0xFFFFFF)) * (b & np.uint32(0xFFFFFF))),
    (f"v_mul_i32_i24 v0, {A}, {B}", np.int32, lambda a, b, c: (a << 8 >> 8) * (b << 8 >> 8)),
    (f"v_mad_u32_u24 v0, {A}, {B}, {C}", np.uint32, lambda a, b, c: (a & np.uint32(0xFFFFFF)) * (b & np.uint32(0xFFFFFF)) + c),
    (f"v_and_b32 v0, {A}, {B}", np.uint32, lambda a, b, c: a & b),
    (f"v_xor_b32 v0, {A}, {B}", np.uint32, lambda a, b, c: a ^ b),
    (f"v_bfi_b32 v0, {A}, {B}, {C}", np.uint32, lambda a, b, c: (a & b) | (~a & c)),
    (f"v_lshlrev_b32 v0, 5, {A}", np.uint32, lambda a, b, c: a << np.uint32(5)),
    (f"v_ashrrev_i32 v0, 7, {A}", np.int32, lambda a, b, c: a >> 7),
    (f"v_alignbit_b32 v0, {A}, {B}, 9", np.uint32, lambda a, b, c: a << np.uint32(23) | b >> np.uint32(9)),
    (f"v_bfe_u32 v0, {A}, 4, 11", np.uint32, lambda a, b, c: a >> np.uint32(4) & np.uint32(2047)),
    (f"v_bfe_i32 v0, {A}, 4, 11", np.int32, lambda a, b, c: (a << 17) >> 21),
    (f"v_min_i32 v0, {A}, {B}", np.int32, lambda a, b, c: np.minimum(a, b)),
    (f"v_max_u32 v0, {A}, {B}", np.uint32, lambda a, b, c: np.maximum(a, b)),
    (f"v_med3_i32 v0, {A}, {B}, {C}", np.int32, lambda a, b, c: np.median([a, b, c], axis=0).astype(np.int32)),
    (f"v_add3_u32 v0, {A}, {B}, {C}", np.uint32, lambda a, b, c: a + b + c),
    (f"v_lshl_add_u32 v0, {A}, 3, {C}", np.uint32, lambda a, b, c: (a << np.uint32(3)) + c),
    (f"v_cvt_f32_i32 v0, {A}", np.int32, lambda a, b, c: a.astype(np.float32).view(np.int32)),
    (f"v_cvt_f32_u32 v0, {A}", np.uint32, lambda a, b, c: a.astype(np.float32).view(np.uint32)),
    (f"v_bfrev_b32 v0, {A}", np.uint32, lambda a, b, c: np.array([int(f"{x:032b}"[::-1], 2) for x in a], np.uint32)),
    (f"v_bcnt_u32_b32 v0, {A}, {B}", np.uint32, lambda a, b, c: np.bitwise_count(a) + b),
]
OF_PAIRS: list[tuple[Any, Any, Callable[..., Any]]] = [
    ("v_add_f64 v[0:1], v[2:3], v[4:5]", np.float64, lambda a, b: a + b),
    ("v_mul_f64 v[0:1], v[2:3], v[4:5]", np.float64, lambda a, b: a * b),
    ("v_add_f64 v[0:1], v[2:3], 0.5", np.float64, lambda a, b: a + 0.5),
    ("v_max_f64 v[0:1], v[2:3], -v[4:5]", np.float64, lambda a, b: np.maximum(a, -b)),
    ("v_floor_f64 v[0:1], v[2:3]", np.float64, lambda a, b: np.floor(a)),
    ("v_ldexp_f64 v[0:1], v[2:3], 3", np.float64, lambda a, b: np.ldexp(a, 3)),
    ("v_lshlrev_b64 v[0:1], 12, v[2:3]", np.uint64, lambda a, b: a << np.uint64(12)),
    ("v_ashrrev_i64 v[0:1], 12, v[2:3]", np.int64, lambda a, b: a >> 12),
]


def choose(instruction: Any, target: str) -> str:
    text = instruction if isinstance(instruction, str) else instruction[target]
    # Names that gfx12 has changed.
    if target.startswith("gfx12"):
        text = text.replace("v_max_f64", "v_max_num_f64").replace("_lshlrev_b64 v[", "_lshlrev_b64_e64 v[")
    return text


@pytest.mark.parametrize("target", TARGETS)
def test_operations_of_words_agree_with_numpy(target: str) -> None:
    lanes = Lanes(target, exec_mask=0x0FFF_FFFF_FFFF_FFF7)
    active = np.array([bool(lanes.s[126 + l // 32] >> (l % 32) & 1) for l in range(64)])
    for op, (instruction, dtype, compute) in zip(lanes.prepare(*(choose(row[0], target) for row in OF_WORDS)), OF_WORDS, strict=True):
        numbers = [make_numbers(dtype, seed) for seed in (1, 2, 3)]
        for i, values in enumerate(numbers):
            lanes.v[i + 1] = values.view(np.uint32)
        lanes.v[0] = 77
        assert lanes.step(op) == 0, instruction
        with np.errstate(all="ignore"):
            expected = np.asarray(compute(*numbers)).astype(dtype)
        np.testing.assert_array_equal(lanes.v[0].view(dtype)[active], expected[active], err_msg=str(instruction))
        assert (lanes.v[0][~active] == 77).all(), "threads that are not active keep their registers"


@pytest.mark.parametrize("target", TARGETS)
def test_operations_of_pairs_agree_with_numpy(target: str) -> None:
    lanes = Lanes(target)
    for op, (instruction, dtype, compute) in zip(lanes.prepare(*(choose(row[0], target) for row in OF_PAIRS)), OF_PAIRS, strict=True):
        numbers = [make_numbers(dtype, seed) for seed in (1, 2)]
        lanes.set_pair(2, numbers[0])
        lanes.set_pair(4, numbers[1])
        assert lanes.step(op) == 0, instruction
        with np.errstate(all="ignore"):
            expected = compute(*numbers)
        np.testing.assert_array_equal(lanes.get_pair(0, dtype), expected, err_msg=str(instruction))


@pytest.mark.parametrize("target", TARGETS)
def test_halves_of_registers(target: str) -> None:
    """On gfx9 a result of 16 bits clears the other half; later it is kept. Packed operations choose halves."""
    numbers = [make_numbers(np.float16, seed) for seed in (1, 2)]
    low, high = (values.view(np.uint16).astype(np.uint32) for values in numbers)
    lanes = Lanes(target)
    lanes.v[1], lanes.v[2] = low | high << np.uint32(16), high | low << np.uint32(16)
    lanes.v[0] = lanes.v[5] = 0xABCD0000
    # gfx11 and later name the halves.
    has_names = target in ("gfx1100",)
    add = "v_add_f16 v0.l, v1.l, v2.l" if has_names else "v_add_f16 v0, v1, v2"
    lanes.run(add, "v_pk_add_f16 v3, v1, v2 op_sel:[0,1] op_sel_hi:[1,0]", "v_pk_fma_f16 v4, v1, v1, v2 neg_lo:[1,0,0]")
    with np.errstate(all="ignore"):
        total = (numbers[0] + numbers[1]).view(np.uint16)
        twice = np.stack([numbers[0] + numbers[0], numbers[1] + numbers[1]])
        fused = (-numbers[0].astype(np.float64) * numbers[0] + numbers[1]).astype(np.float16)
    assert ((lanes.v[0] & 0xFFFF).astype(np.uint16) == total).all()
    assert ((lanes.v[0] >> 16) == (0 if target.startswith("gfx9") else 0xABCD)).all()
    np.testing.assert_array_equal((lanes.v[3] & 0xFFFF).astype(np.uint16).view(np.float16), twice[0])
    np.testing.assert_array_equal((lanes.v[3] >> 16).astype(np.uint16).view(np.float16), twice[1])
    np.testing.assert_array_equal((lanes.v[4] & 0xFFFF).astype(np.uint16).view(np.float16), fused)


@pytest.mark.parametrize("target", [target for target in TARGETS if target in ("gfx90a", "gfx942", "gfx950")])
def test_pairs_of_moved_words(target: str) -> None:
    """op_sel names the word of each source, and nothing else does: [0,1] copies a pair, [1,0] swaps its words."""
    low, high = (np.random.default_rng(seed).integers(0, 1 << 32, 64, np.uint64).astype(np.uint32) for seed in (1, 2))
    lanes = Lanes(target)
    lanes.v[0], lanes.v[1] = low, high
    lanes.run("v_pk_mov_b32 v[2:3], v[0:1], v[0:1] op_sel:[0,1]", "v_pk_mov_b32 v[4:5], v[0:1], v[0:1] op_sel:[1,0]")
    for register, expected in zip((2, 3, 4, 5), (low, high, high, low), strict=True):
        np.testing.assert_array_equal(lanes.v[register], expected)


def test_roots_of_scalars() -> None:
    """gfx12 computes functions of one scalar in its vector unit, whatever threads are active."""
    lanes = Lanes("gfx1201")
    lanes.s[0] = int(np.array(-4.0, np.float32).view(np.uint32))
    lanes.run("v_s_sqrt_f32 s2, -s0", "v_s_rsq_f32 s3, |s0|", "v_s_rcp_f32 s4, s0")
    assert [np.array(int(lanes.s[i]), np.uint32).view(np.float32) for i in (2, 3, 4)] == [2, 0.5, -0.25]


def test_clocks_and_counters_of_cycles() -> None:
    """The counter of gfx11 has 20 bits. A thousandth of a second is 100,000 ticks of the clock and 1.5 million cycles."""
    clocks = {"gfx942": "s_memtime s[{0}:{1}]", "gfx1100": "s_sendmsg_rtn_b64 s[{0}:{1}], sendmsg(MSG_RTN_GET_REALTIME)"}
    passed = {}
    for target, text in clocks.items():
        lanes = Lanes(target)
        lanes.run(text.format(0, 1))
        time.sleep(0.001)
        lanes.run(text.format(2, 3))
        before, after = lanes.s[:4].astype(np.uint32).view(np.uint64)
        passed[target] = int(after - before)
    assert passed["gfx942"] >= 1_500_000 and passed["gfx1100"] >= 100_000
    lanes = Lanes("gfx1100")
    lanes.s[0] = 0xFFFFFFFF
    lanes.run("s_getreg_b32 s0, hwreg(HW_REG_SHADER_CYCLES, 0, 20)")
    assert lanes.s[0] < 1 << 20


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("target", TARGETS)
def test_comparisons_with_nan(target: str, dtype: Any) -> None:
    """Each predicate and its opposite; `lg` is less or greater, which NaN is not."""
    lanes = Lanes(target)
    a, b = (values.ravel() for values in np.meshgrid(np.array([np.nan, -1, 0, np.inf] * 2, dtype), np.array([np.nan, 1, -1, 0] * 2, dtype)))
    for register, values in ((2, a), (4, b)):
        if dtype == np.float64:
            lanes.set_pair(register, values)
        else:
            lanes.v[register] = values.view(f"u{values.itemsize}")
    less, equal, greater = a < b, a == b, a > b
    expected = {"lt": less, "eq": equal, "le": less | equal, "gt": greater, "lg": less | greater, "ge": greater | equal}
    expected |= {name: ~expected[name[1:]] for name in ("nlt", "nle", "ngt", "nlg", "nge")} | {"neq": ~equal}
    expected |= {"o": less | equal | greater, "u": ~(less | equal | greater)}
    kind = f"f{8 * a.itemsize}"
    for name, wanted in expected.items():
        lanes.run(f"v_cmp_{name}_{kind} vcc, {'v[2:3], v[4:5]' if kind == 'f64' else 'v2, v4'}")
        found = [bool(lanes.s[106 + lane // 32] >> lane % 32 & 1) for lane in range(64)]
        np.testing.assert_array_equal(found, wanted, err_msg=name)


@pytest.mark.parametrize("target", TARGETS)
def test_signs_of_halves_among_floats(target: str) -> None:
    """v_fma_mix takes halves and floats; absolute values and negations are of the half that it takes."""
    low, high = (make_numbers(np.float16, seed) for seed in (1, 2))
    lanes = Lanes(target)
    lanes.v[1] = low.view(np.uint16).astype(np.uint32) | high.view(np.uint16).astype(np.uint32) << np.uint32(16)
    single = make_numbers(np.float32, 3)
    lanes.v[2] = single.view(np.uint32)
    lanes.run("v_fma_mix_f32 v3, |v1|, -v1, v2 op_sel_hi:[1,1,0]", "v_fma_mix_f32 v4, -|v1|, v1, -v2 op_sel:[1,0,0] op_sel_hi:[1,1,0]")
    a, b, c = low.astype(np.float64), high.astype(np.float64), single.astype(np.float64)
    with np.errstate(all="ignore"):
        wanted = [(np.abs(a) * -a + c).astype(np.float32), (-np.abs(b) * a - c).astype(np.float32)]
    for register, expected in zip((3, 4), wanted, strict=True):
        np.testing.assert_array_equal(lanes.v[register].view(np.float32), expected)


@pytest.mark.parametrize("target", TARGETS)
def test_halves_in_memory(target: str) -> None:
    """The high half of a register is stored; a load keeps the other half."""
    lanes = Lanes(target)
    address = ctypes.c_uint64()
    assert lanes.machine.hipMalloc(ctypes.byref(address), ctypes.c_size_t(1024)) == 0
    lanes.set_pair(2, address.value + np.arange(64, dtype=np.uint64) * np.uint64(4))
    lanes.v[1], lanes.v[4], lanes.v[5] = 0x8234_5678 + np.arange(64), 0xAAAA_BBBB, 0xCCCC_DDDD
    old = not target.startswith(("gfx11", "gfx12"))
    byte = "sbyte_d16" if old else "d16_i8"
    high = "short_d16_hi" if old else "d16_hi_b16"
    lanes.run(f"global_store_{high} v[2:3], v1, off", f"global_load_{high} v4, v[2:3], off", f"global_load_{byte} v5, v[2:3], off offset:1")
    assert lanes.machine.hipFree(address) == 0
    assert (lanes.v[4] == 0x8234_BBBB).all()
    assert (lanes.v[5] == 0xCCCC_FF82).all()
    if target.startswith("gfx9"):
        lanes.v[0] = 0xABCD_0000
        lanes.run("v_mad_legacy_u16 v0, v1, 3, v4")
        assert (lanes.v[0] == ((lanes.v[1] & 0xFFFF) * 3 + 0xBBBB & 0xFFFF)).all()


@pytest.mark.parametrize("target", TARGETS)
def test_products_of_bytes(target: str) -> None:
    """LLVM makes them of sums of products of i8 and u8."""
    lanes = Lanes(target)
    lanes.v[1:4] = np.random.default_rng(5).integers(0, 2**32, (3, 64), np.uint32)
    a, b = (lanes.v[i].copy().view(np.int8).reshape(64, 4).astype(np.int64) for i in (1, 2))
    expected = lanes.v[3] + np.sum((a % 256) * (b % 256), axis=1)
    signed = lanes.v[3] + np.sum(a * b, axis=1)
    if target in ("gfx1100", "gfx1201"):
        dot = "v_dot4_i32_iu8 v4, v1, v2, v3 neg_lo:[1,1,0]"
    else:
        dot = "v_dot4_i32_i8 v4, v1, v2, v3"
    lanes.run("v_dot4_u32_u8 v0, v1, v2, v3", dot)
    np.testing.assert_array_equal(lanes.v[0], expected.astype(np.uint32))
    np.testing.assert_array_equal(lanes.v[4], signed.astype(np.uint32))


@pytest.mark.parametrize("target", TARGETS)
def test_lanes_reach_what_their_family_reaches(target: str) -> None:
    lanes = Lanes(target)
    lanes.v[1] = np.arange(64) * 10
    lanes.v[2] = 4 * ((np.arange(64) + 40) % 64)
    move = "v_mov_b32_dpp v3, v1 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:1"
    lanes.run("ds_bpermute_b32 v0, v2, v1", move, "v_readlane_b32 s5, v1, 37")
    wanted = (np.arange(64) + 40) % 64
    reached = wanted if target.startswith("gfx9") else wanted % 32 + np.arange(64) // 32 * 32
    np.testing.assert_array_equal(lanes.v[0], reached * 10)
    np.testing.assert_array_equal(lanes.v[3], np.where(np.arange(64) % 16 == 0, 0, lanes.v[1] - np.uint32(10)))
    assert lanes.s[5] == 370


@pytest.mark.parametrize("target", TARGETS)
def test_registers_by_index(target: str) -> None:
    lanes = Lanes(target)
    for i in range(8):
        lanes.v[i] = 10 * i
    if target.startswith("gfx9"):
        reading = ["s_set_gpr_idx_on s4, gpr_idx(SRC0)", "v_mov_b32_e32 v0, v1", "s_set_gpr_idx_off"]
        writing = ["s_set_gpr_idx_on s4, gpr_idx(DST)", "v_mov_b32_e32 v2, v7", "s_set_gpr_idx_off"]
    else:
        reading, writing = ["s_mov_b32 m0, s4", "v_movrels_b32 v0, v1"], ["v_movreld_b32 v2, v7"]
    lanes.run("s_mov_b32 s4, 3", *reading, *writing, "v_mov_b32 v3, v7")
    assert [int(lanes.v[i][5]) for i in range(8)] == [40, 10, 20, 70, 40, 70, 60, 70]


@pytest.mark.parametrize("target", TARGETS)
def test_scalars_and_masks(target: str) -> None:
    lanes = Lanes(target)
    lanes.v[1] = np.arange(64)
    masks = ["v_cmp_gt_u32 vcc, 40, v1", "s_and_saveexec_b64 s[4:5], vcc", "v_cndmask_b32 v0, 1, v1, vcc"]
    lanes.run(*masks, "s_mov_b32 s6, 0x80000000", "s_bfe_u32 s8, s6, 0x1001f", "s_add_u32 s7, s6, s6")
    assert (int(lanes.s[126]), int(lanes.s[127])) == (0xFFFFFFFF, 0xFF)
    assert (int(lanes.s[4]), int(lanes.s[5])) == (0xFFFFFFFF, 0xFFFFFFFF)
    assert list(lanes.v[0][:3]) == [0, 1, 2]
    assert (int(lanes.s[7]), lanes.wave.scc) == (0, 1)
    assert int(lanes.s[8]) == 1


@pytest.mark.parametrize("target", TARGETS)
def test_constants_have_the_width_of_the_operation(target: str) -> None:
    """Random program 5004: of 1.0 as 64 bits only the 32 of a float were there."""
    lanes = Lanes(target)
    lanes.run("s_mov_b64 s[4:5], 1.0", "s_mov_b32 s6, 1.0", "s_mov_b64 s[8:9], -2", *["v_mov_b64 v[2:3], 1.0"] * (target == "gfx942"))
    assert lanes.s[4:6].copy().view(np.float64) == 1.0
    assert lanes.s[6:7].view(np.float32) == 1.0
    assert lanes.s[8:10].copy().view(np.int64) == -2
    lanes.v[1] = 0x3800
    lanes.run("v_pack_b32_f16 v0, 1.0, -v1" if target != "gfx1100" else "v_pack_b32_f16 v0, 1.0, -v1.l")
    assert (lanes.v[0] == 0xB800_3C00).all()
    if target == "gfx942":
        assert (lanes.get_pair(2, np.float64) == 1.0).all()
        lanes.run("v_mov_b32 v4, 2.0", "v_mov_b32 v5, 3.0", "v_pk_add_f32 v[6:7], v[4:5], 1.0 op_sel_hi:[1,0]")
        assert (lanes.v[6].view(np.float32) == 3.0).all() and (lanes.v[7].view(np.float32) == 4.0).all()


def test_an_unknown_instruction_stops_with_address_and_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    def replace(code: bytes) -> bytes:
        return gcn.assemble.edit("gfx942", code, r"v_(pk_)?add_f32.*", "v_cvt_off_f32_i4_e32 v0, v0", which=None)

    with amd_emulation.running("gfx942", monkeypatch, replace):
        x = qd.ndarray(qd.f32, 64)

        @qd.kernel
        def kernel(x: qd.types.ndarray(qd.f32, 1)) -> None:
            for i in x:
                x[i] = x[i] + 1.0

        with pytest.raises(RuntimeError, match="a kernel has faulted: hipErrorLaunchFailure"):
            kernel(x)
            x.to_numpy()
    assert "gcn: unknown instruction at 0x" in (text := capfd.readouterr().err)
    assert "v_cvt_off_f32_i4" in text


def test_a_pack_has_the_instructions_that_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gcn_pack
    import gcn_semantics

    wanted = {("S_MOV_B32", ""), ("S_TRAP", ""), ("V_ADD_U32", "clamp")}
    monkeypatch.setattr(gcn_semantics, "list_instructions", lambda family: sorted(wanted))
    gcn_pack.compile_family("cdna", tmp_path)
    monkeypatch.setenv("GCN_PACK", str(tmp_path))
    found = gcn_semantics.find_functions("cdna", wanted | {("V_ADD_F32", "")}, tmp_path)
    assert set(found) == wanted - {("S_TRAP", "")}


@qd.kernel
def reverse_in_blocks(x: qd.types.ndarray(qd.i32, 1)) -> qd.i32:
    qd.loop_config(block_dim=128)
    for i in range(256):
        tile = qd.simt.block.SharedArray((128,), qd.i32)
        tile[i % 128] = x[i] * 3 + 1
        qd.simt.block.sync()
        x[i] = tile[127 - i % 128]
    return 0


@qd.kernel
def add_up(x: qd.types.ndarray(qd.i32, 1)) -> qd.i32:
    total = 0
    for i in x:
        total += x[i]
    return total


@qd.kernel
def reverse_in_grid(x: qd.types.ndarray(qd.i32, 1)) -> qd.i32:
    qd.loop_config(block_dim=64)
    for i in range(256):
        x[i] = x[i] * 3 + 1
        qd.simt.grid.sync()
        value = x[255 - i]
        qd.simt.grid.sync()
        x[i] = value
    return 0


def is_right(kernel: Any) -> bool:
    """Whether a kernel computes what it should."""
    values = np.random.default_rng(3).integers(-1000, 1000, 5000).astype(np.int32)
    x = qd.ndarray(qd.i32, 5000)
    x.from_numpy(values)
    result = kernel(x)
    if kernel is add_up:
        return result == values.sum()
    expected = values.copy()
    expected[:256] = (values[:256] * 3 + 1).reshape(1 if kernel is reverse_in_grid else 2, -1)[:, ::-1].ravel()
    return np.array_equal(x.to_numpy(), expected)


# Processor, kernel, the instruction that is wrong, what stands in its place, and which of those that match.
MISTAKES = [
    ("gfx942", reverse_in_blocks, r"s_barrier", "s_nop 0", 0),
    ("gfx942", reverse_in_blocks, r"v_xor_b32_e32 (v\d+), 0x1fc, (v\d+)", r"v_xor_b32_e32 \1, 0x1f8, \2", 0),
    ("gfx942", reverse_in_blocks, r"ds_write_b32 (v\d+), (v\d+)", r"ds_write_b32 \1, \2 offset:4", 0),
    ("gfx942", reverse_in_blocks, r"ds_write_b32 (v\d+), (v\d+)", r"ds_write_b32 \2, \1", 0),
    ("gfx942", reverse_in_blocks, r"ds_read_b32 (v\d+), (v\d+)", r"ds_read_b32 \1, \2 offset:4", 0),
    ("gfx942", reverse_in_blocks, r"v_mad_u64_u32 (.*), 3, 1", r"v_mad_u64_u32 \1, 3, 2", 0),
    ("gfx942", reverse_in_blocks, r"v_lshl_or_b32 (v\d+), (s\d+), 7, (v\d+)", r"v_lshl_or_b32 \1, \2, 6, \3", 0),
    ("gfx942", reverse_in_blocks, r"v_and_b32_e32 (v\d+), 0x3ff, (v\d+)", r"v_and_b32_e32 \1, 0x1f, \2", 0),
    ("gfx942", reverse_in_blocks, r"s_load_dword (s\d+), (s\[4:5\]), 0x50", r"s_load_dword \1, \2, 0x54", 0),
    ("gfx942", reverse_in_blocks, r"global_store_dword (v\[\d+:\d+\]), (v\d+), off", r"global_store_dword \1, \2, off offset:4", 0),
    ("gfx942", add_up, r"ds_bpermute_b32 (v\d+), (v\d+), (v\d+) offset:128", r"ds_bpermute_b32 \1, \2, \3 offset:124", 0),
    ("gfx942", add_up, r"ds_bpermute_b32 (v\d+), (v\d+), (v\d+) offset:64", r"ds_bpermute_b32 \1, \2, \3 offset:32", 0),
    ("gfx942", add_up, r"v_add_u32_e32 (v\d+), (v\d+), (v\d+)", r"v_sub_u32_e32 \1, \2, \3", 0),
    ("gfx942", add_up, r"global_load_dword (v\d+), (v\[\d+:\d+\]), off offset:1536", r"global_load_dword \1, \2, off offset:1540", 0),
    ("gfx1100", reverse_in_blocks, r"s_barrier", "s_nop 0", 0),
    ("gfx1100", reverse_in_blocks, r"ds_load_b32 (v\d+), (v\d+)", r"ds_load_b32 \1, \2 offset:4", 0),
    ("gfx1100", reverse_in_blocks, r"ds_store_b32 (v\d+), (v\d+)", r"ds_store_b32 \2, \1", 0),
    ("gfx1100", reverse_in_blocks, r"v_xor_b32_e32 (v\d+), 0x1fc, (v\d+)", r"v_xor_b32_e32 \1, 0x1f8, \2", 0),
    ("gfx1100", reverse_in_blocks, r"s_load_b32 (s\d+), (s\[4:5\]), 0x50", r"s_load_b32 \1, \2, 0x54", 0),
    ("gfx1100", add_up, r"ds_store_b32 (v\d+), (v\d+)", r"ds_store_b32 \1, \2 offset:4", 0),
]
ATOMIC = r"(global|flat)_atomic_add_u32 (.*) th:TH_ATOMIC_RETURN scope:SCOPE_DEV"
# Releases, acquires and accesses that reach the block in place of the device.
WRONG_SCOPES = [
    *(("gfx942", kernel, r"buffer_wbl2 sc1", "buffer_wbl2 sc0", 0) for kernel in (add_up, reverse_in_grid)),
    *(("gfx942", kernel, r"buffer_inv sc1", "buffer_inv sc0", 1) for kernel in (add_up, reverse_in_grid)),
    *((target, add_up, "buffer_wbinvl1_vol", "s_nop 0", 1) for target in ("gfx906", "gfx90a")),
    *((target, reverse_in_grid, "buffer_gl1_inv", "s_nop 0", 1) for target in ("gfx1030", "gfx1100")),
    ("gfx1201", add_up, "global_inv scope:SCOPE_DEV", "global_inv scope:SCOPE_SE", 1),
    *(("gfx1201", kernel, ATOMIC, r"\1_atomic_add_u32 \2 th:TH_ATOMIC_RETURN scope:SCOPE_SE", 0) for kernel in (add_up, reverse_in_grid)),
    ("gfx942", reverse_in_grid, r"flat_load_dword (.*) sc0 sc1", r"flat_load_dword \1 sc0", 0),
    ("gfx1030", reverse_in_grid, r"flat_load_dword (.*) glc dlc", r"flat_load_dword \1 glc", 0),
]


@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_mistakes_in_the_code_are_noticed(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    target, kernel, pattern, replacement, which = MISTAKES[number]
    edits = []

    def plant(code: bytes) -> bytes:
        edits.append(pattern)
        return gcn.assemble.edit(target, code, pattern, replacement, which)

    with amd_emulation.running(target, monkeypatch, plant):
        try:
            assert not is_right(kernel)
        except RuntimeError as error:
            assert "a kernel has faulted: hipError" in str(error)
    assert edits


@pytest.mark.parametrize("number", range(len(WRONG_SCOPES)))
def test_scopes_that_do_not_reach_the_device_are_noticed(number: int, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    """The values are right on an emulator without caches: what is noticed is that another block need not see them."""
    target, kernel, pattern, replacement, which = WRONG_SCOPES[number]

    def plant(code: bytes) -> bytes:
        return gcn.assemble.edit(target, code, pattern, replacement, which)

    with amd_emulation.running(target, monkeypatch, plant), pytest.raises(RuntimeError, match="a kernel has faulted"):
        is_right(kernel)
    assert re.search(r"gcn: block \d+ reads what block \d+ has written in the same launch and", capfd.readouterr().err)


def describe_halves(code: bytes) -> bytes:
    return code.replace(b".wavefront_size\x40", b".wavefront_size\x20")


@pytest.mark.parametrize("plant", [gcn.assemble.halve_waves, describe_halves], ids=["descriptor", "description"])
@pytest.mark.parametrize("target", ["gfx1030", "gfx1100", "gfx1201"])
def test_waves_of_another_size_are_noticed(target: str, plant: Any, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    with amd_emulation.running(target, monkeypatch, plant), pytest.raises(RuntimeError, match="hipError"):
        is_right(reverse_in_blocks)
    assert "waves of " in capfd.readouterr().err


@pytest.mark.parametrize("target", TARGETS)
def test_the_same_programs_without_mistakes(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with amd_emulation.running(target, monkeypatch):
        assert is_right(reverse_in_blocks)
        assert is_right(add_up)
        assert is_right(reverse_in_grid)


@pytest.mark.parametrize("target", ["gfx942", "gfx1100"])
def test_addresses_of_remainders(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random program 200257: LLVM 22 multiplied 32 bits of a remainder where it had computed 24."""
    with amd_emulation.running(target, monkeypatch):
        table, x, y = qd.field(qd.i64, shape=(17, 5)), qd.ndarray(qd.u64, 64), qd.ndarray(qd.i64, 64)

        @qd.kernel
        def kernel(x: qd.types.ndarray(qd.u64, 1), y: qd.types.ndarray(qd.i64, 1)) -> None:
            for i in x:
                y[i] = table[qd.cast(x[i] % 17, qd.i32), qd.cast(x[i] % 5, qd.i32)]

        values = np.arange(85, dtype=np.int64).reshape(17, 5)
        large = np.uint64(2**63 - 70) + np.arange(64, dtype=np.uint64)
        table.from_numpy(values)
        x.from_numpy(large)
        kernel(x, y)
        np.testing.assert_array_equal(y.to_numpy(), values[(large % np.uint64(17)).astype(int), (large % np.uint64(5)).astype(int)])


@pytest.mark.parametrize("target", ["gfx906", "gfx942", "gfx1030", "gfx1100", "gfx1201"])
def test_sums_of_squares_of_bytes(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random program 200138: LLVM 22 took a shift for a sum when it looked for products of four bytes."""
    with amd_emulation.running(target, monkeypatch):
        x, y = qd.ndarray(qd.i32, 1), qd.ndarray(qd.u16, 1)

        @qd.kernel
        def kernel(x: qd.types.ndarray(qd.i32, 1), y: qd.types.ndarray(qd.u16, 1)) -> qd.u8:
            a, b = qd.cast(x[0], qd.i8), qd.cast(y[0], qd.i8)
            return qd.cast(qd.math.ffs(qd.Vector([a, b, a]).norm_sqr()), qd.u8)

        x[0], y[0] = 2, 3
        assert kernel(x, y) == 1  # of 17; it was 2, of 2 * 2 + 3 * 3 + 1


@pytest.mark.parametrize("target", ["gfx906", "gfx942", "gfx1100", "gfx1201"])
def test_products_rounded_to_halves_keep_the_sign_of_zero(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random program 200801: LLVM 22 adds 0 to them."""
    with amd_emulation.running(target, monkeypatch, fast_math=False):
        x, y = qd.ndarray(qd.f32, 64), qd.ndarray(qd.f16, 64)

        @qd.kernel
        def kernel(x: qd.types.ndarray(qd.f32, 1), y: qd.types.ndarray(qd.f16, 1)) -> None:
            for i in x:
                y[i] = qd.cast(x[i] * 0.0, qd.f16)

        x.fill(-1.0)
        kernel(x, y)
        assert np.signbit(y.to_numpy()).all()


@pytest.mark.parametrize("target", ["gfx942", "gfx1100", "gfx1201"])
def test_halves_that_a_loop_leaves_unchanged_are_stored(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random program 300275: LLVM 22 stored 0 for two of four halves on gfx11."""
    with amd_emulation.running(target, monkeypatch, fast_math=False):
        x = qd.Matrix.ndarray(2, 2, qd.f16, shape=64)

        @qd.kernel
        def kernel(a: qd.f64, b: qd.f64, x: qd.types.ndarray(qd.types.matrix(2, 2, qd.f16), 1)) -> None:
            for i in x:
                x[i] = qd.Matrix([[qd.cast(x[i][0, 0], qd.f64) + 1.0, a / b], [a % b, qd.cast(x[i][1, 1], qd.f64) + 2.0]])

        x.fill(0)
        kernel(7.5, 2.0, x)
        np.testing.assert_array_equal(x.to_numpy(), np.tile([[1, 3.75], [1.5, 2]], (64, 1, 1)))


@pytest.mark.parametrize("target", ["gfx942", "gfx1100"])
def test_offsets_of_shared_memory_from_below_zero(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random program 300516: the address in the register is negative, and its sum with the offset is not."""
    with amd_emulation.running(target, monkeypatch):
        x = qd.ndarray(qd.u64, 17)

        @qd.kernel
        def kernel(x: qd.types.ndarray(qd.u64, 1)) -> None:
            for i in range(-qd.i64(2**63 - 1) + 17, -qd.i64(2**63 - 1), -1):
                for j in range(3):
                    qd.atomic_max(x[i + qd.i64(2**63 - 1) - 1], qd.cast(j, qd.u64))

        x.fill(0)
        kernel(x)
        assert (x.to_numpy() == 2).all()
