"""Machine code of an AMD GPU as records that the machine runs: LLVM's disassembler gives the text of each instruction."""

from __future__ import annotations

import ctypes
import os
import re
import struct
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import gcn_semantics

NONE, VECTOR, SCALAR, CONSTANT, SCC = range(5)
APERTURES = {
    "src_shared_base": 0x5A << 32,
    "src_private_base": 0x5B << 32,
    "src_shared_limit": 0x5A_FFFFFFFF,
    "src_private_limit": 0x5B_FFFFFFFF,
}
SPECIAL = {"vcc": (106, 2), "vcc_lo": (106, 1), "vcc_hi": (107, 1), "exec": (126, 2), "exec_lo": (126, 1), "exec_hi": (127, 1),
           "m0": (124, 1), "flat_scratch": (102, 2), "flat_scratch_lo": (102, 1), "flat_scratch_hi": (103, 1),
           "xnack_mask": (104, 2)}  # fmt: skip
SIZES = {"dword": 4, "b32": 4, "dwordx2": 8, "b64": 8, "dwordx3": 12, "b96": 12, "dwordx4": 16, "b128": 16, "dwordx8": 32, "b256": 32,
         "dwordx16": 64, "b512": 64, "ubyte": 1, "u8": 1, "sbyte": 1, "i8": 1, "byte": 1, "b8": 1, "ushort": 2, "u16": 2, "sshort": 2,
         "i16": 2,         "short": 2, "b16": 2}  # fmt: skip
WHOLE, UNSIGNED, SIGNED, LOW_HALF, HIGH_HALF = range(5)
GLOBAL, SCRATCH, SHARED, BUFFER = range(4)
UPDATES = "add sub swap cmpswap and or xor umin umax smin smax fadd fmin fmax inc dec".split()
NOTHING = re.compile(
    r"s_nop|s_wait|s_delay|s_clause|s_inst_prefetch|s_setprio|s_sleep|s_code_end|s_set_inst|buffer_(gl[01]_)?(inv|wbl2)|buffer_wb|global_(inv|wb)|"
    r"s_setreg|s_sendmsg$|v_nop|s_icache|s_dcache|s_barrier_signal|s_set_vgpr|s_wakeup|s_round_mode|s_denorm_mode|s_prefetch|s_ttrace|s_version"
)
# Of an instruction with this name, the words behind it that make it reach all blocks (scopes.h).
RELEASE = {"buffer_wbl2": r"\bsc1\b"}
ACQUIRE = {"buffer_wbinvl1": "", "buffer_wbinvl1_vol": "", "buffer_inv": r"\bsc1\b", "buffer_gl1_inv": "", "global_inv": r"SCOPE_(DEV|SYS)"}
CONDITIONS = ["", "scc0", "scc1", "vccz", "vccnz", "execz", "execnz"]
MOVES = {"row_shr": 2, "row_shl": 3, "row_ror": 4, "row_xmask": 7, "row_share": 8, "row_newbcast": 8}
PARTS = {"WORD_0": 1, "WORD_1": 2, "BYTE_0": 3, "BYTE_1": 4, "BYTE_2": 5, "BYTE_3": 6, "DWORD": 0}
ALL = 2**64 - 1


class Operand(ctypes.Structure):
    _fields_ = [("value", ctypes.c_uint64), ("keep", ctypes.c_uint64), ("flip", ctypes.c_uint64), ("index", ctypes.c_uint16),
                ("kind", ctypes.c_uint8), ("words", ctypes.c_uint8), ("part", ctypes.c_uint8), ("is_signed", ctypes.c_uint8),
                ("low", ctypes.c_uint8), ("high", ctypes.c_uint8), ("width", ctypes.c_uint8), ("pad", ctypes.c_uint8 * 5)]  # fmt: skip


class Op(ctypes.Structure):
    _fields_ = [("run", ctypes.c_void_p), ("at", ctypes.c_uint32), ("bytes", ctypes.c_uint32), ("d", Operand), ("mask", Operand),
                ("s", Operand * 4), ("number", ctypes.c_int64 * 4), ("lane", ctypes.c_uint32), ("rows", ctypes.c_uint32),
                ("banks", ctypes.c_uint32), ("distance", ctypes.c_int32), ("is_bound", ctypes.c_uint8), ("clamp", ctypes.c_uint8),
                ("scale", ctypes.c_uint8), ("zeroes", ctypes.c_uint8), ("result_bits", ctypes.c_uint8), ("is_float", ctypes.c_uint8),
                ("is_of_device", ctypes.c_uint8), ("pad", ctypes.c_uint8)]  # fmt: skip


class UnknownInstruction(Exception):
    pass


# --- Text of instructions ---


@cache
def _llvm() -> Any:
    pack = os.environ.get("GCN_PACK")
    llvm = ctypes.CDLL(f"{pack}/libdisassembler.so" if pack else "libLLVM-22.so", ctypes.RTLD_LOCAL)
    for part in ("TargetInfo", "TargetMC", "Disassembler"):
        getattr(llvm, f"LLVMInitializeAMDGPU{part}")()
    llvm.LLVMCreateDisasmCPUFeatures.restype = ctypes.c_void_p
    llvm.LLVMDisasmInstruction.restype = ctypes.c_size_t
    llvm.LLVMDisasmInstruction.argtypes = [
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_uint64,
        ctypes.c_uint64,
        ctypes.c_char_p,
        ctypes.c_size_t,
    ]
    return llvm


@cache
def _disassembler(target: str) -> int:
    processor, *settings = target.split(":")
    features = ",".join(["+wavefrontsize64", "-wavefrontsize32", *(setting[-1] + setting[:-1] for setting in settings)])
    return _llvm().LLVMCreateDisasmCPUFeatures(b"amdgcn-amd-amdhsa", processor.encode(), features.encode(), None, 0, None, None)


def disassemble(target: str, code: bytes, start: int) -> list[tuple[int, int, str]]:
    """Offset, bytes and text of each instruction."""
    found, at, text = [], 0, ctypes.create_string_buffer(512)
    memory = ctypes.create_string_buffer(code, len(code))
    address = ctypes.addressof(memory)
    while at < len(code):
        size = _llvm().LLVMDisasmInstruction(_disassembler(target), address + at, len(code) - at, start + at, text, 512)
        if size:
            found.append((start + at, size, text.value.decode().strip().split(" //")[0]))
        at += size or 4
    return found


def split(text: str) -> tuple[str, list[str], str]:
    """Name, operands, and what follows them."""
    name, _, rest = re.sub(r"\s+", " ", text).partition(" ")
    parts = [part.strip() for part in re.split(r",(?![^\[(]*[\])])", rest)]
    tail = ""
    if match := re.match(r"(-?\|[^|]*\||sext\([^)]*\)|neg\([^)]*\)|lit(?:64)?\([^)]*\)|\S+)\s*(.*)", parts[-1]):
        parts[-1], tail = match[1], match[2]
    return name, [part for part in parts if part], tail


def field(tail: str, name: str, default: int = 0) -> int:
    match = re.search(rf"\b{name}:(-?\w+)", tail)
    return int(match[1], 0) if match else default


def bits_field(tail: str, name: str, count: int, default: int) -> list[int]:
    match = re.search(rf"\b{name}:\[([\d,]+)\]", tail)
    values = [int(word) for word in match[1].split(",")] if match else []
    return values + [default] * (count - len(values))


# --- Operands ---


def register(text: str) -> tuple[int, int, int, int] | None:
    """Kind, number, words, part."""
    if text in SPECIAL:
        return SCALAR, *SPECIAL[text], 0
    if match := re.fullmatch(r"(v|s|a|ttmp)(?:(\d+)|\[(\d+):(\d+)\])(\.[lh])?", text):
        first = int(match[2] or match[3])
        words = 1 if match[2] else int(match[4]) - first + 1
        kind = SCALAR if match[1] in ("s", "ttmp") else VECTOR
        return kind, first + {"a": 256, "ttmp": 108}.get(match[1], 0), words, {None: 0, ".l": 1, ".h": 2}[match[5]]
    return None


def float_bits(text: str, kind: str) -> int:
    form = "<d" if kind.endswith("64") else {"f16": "<e"}.get(kind, "<f")  # operations on bits of 64 take doubles, too
    return int.from_bytes(struct.pack(form, float(text)), "little")


def operand(text: str, kind: str = "u32") -> Operand:
    """An operand that is read as this type."""
    made = Operand(keep=ALL, low=2)
    top = 1 << {"f64": 63, "f16": 15}.get(kind, 31)
    while True:
        if match := re.fullmatch(r"-\|(.*)\||neg\(\|(.*)\|\)", text):
            text, made.keep, made.flip = match[1] or match[2], ALL & ~top, top
        elif match := re.fullmatch(r"\|(.*)\|", text):
            text, made.keep = match[1], ALL & ~top
        elif match := re.fullmatch(r"neg\((.*)\)", text):
            text, made.flip = match[1], top
        elif text.startswith("-") and register(text[1:]):
            text, made.flip = text[1:], top
        elif match := re.fullmatch(r"sext\((.*)\)", text):
            text, made.is_signed = match[1], 1
        elif match := re.fullmatch(r"lit(?:64)?\((.*)\)", text):
            text = match[1]
        else:
            break
    if place := register(text):
        made.kind, made.index, made.words, made.part = place
        return made
    if text == "scc":
        made.kind = SCC
        return made
    made.kind, made.words = CONSTANT, 2
    if text in ("null", "off"):
        made.value = 0
    elif text in APERTURES:
        made.value = APERTURES[text]
    elif re.fullmatch(r"-?\d+|0x[0-9a-f]+", text):
        value = int(text, 0)
        if text.startswith("0x") and value < 1 << 32:
            if kind == "f64":
                value <<= 32
            elif kind == "i64" and value >= 1 << 31:
                value -= 1 << 32
        made.value = value & ALL
    elif re.fullmatch(r"-?\d+\.\d*(e[-+]\d+)?", text):
        made.value = float_bits(text, kind)
    else:
        raise UnknownInstruction(f"operand {text}")
    return made


# --- Instructions ---


@cache
def find_kinds(text: str) -> list[str]:
    """The types of the sources in a pseudocode."""
    return [(re.search(rf"\bS{i}(?:\[[^]]*\])?\.([fuib]\d+)", text) or [0, "u32"])[1] for i in range(3)]


class Decoder:
    def __init__(self, machine: Any, target: str, folder: Path) -> None:
        self.machine, self.target, self.folder = machine, target, folder
        self.gfx = target.split(":")[0]
        self.family = "cdna" if self.gfx.startswith("gfx9") else "rdna4" if self.gfx.startswith("gfx12") else "rdna3"
        self.reach = 64 if self.family == "cdna" else 32
        self.pending: list[tuple[Op, tuple[str, str]]] = []  # whose functions are made of pseudocode

    def address(self, name: str) -> int:
        return ctypes.cast(getattr(self.machine, f"op_{name}"), ctypes.c_void_p).value or 0

    def decode(self, at: int, size: int, text: str) -> Op:
        op = Op(at=at, bytes=size, rows=15, banks=15)
        for place in (op.d, op.mask, *op.s):
            place.keep, place.low = ALL, 2
        try:
            self.fill(op, *split(text))
        except (UnknownInstruction, KeyError, ValueError, IndexError):
            op.run = self.address("unknown")
        return op

    def fill(self, op: Op, name: str, operands: list[str], tail: str) -> None:
        if self.control(op, name, operands, tail) or self.lanes(op, name, operands, tail) or self.memory(op, name, operands, tail):
            return
        self.operation(op, name, operands, tail)

    def control(self, op: Op, name: str, operands: list[str], tail: str) -> bool:
        if name in ("s_barrier", "s_barrier_wait"):
            op.run = self.address("barrier")
        elif name in ("s_endpgm", "s_endpgm_saved", "s_trap"):
            op.run = self.address("end")
        elif match := re.fullmatch(r"s_c?branch_?(\w*)", name):
            offset = int(operands[0], 0)
            op.number[0] = op.at + 4 + 4 * (offset - 65536 if offset > 32767 else offset)
            op.number[1] = CONDITIONS.index(match[1])
            op.run = self.address("branch")
        elif name == "s_getpc_b64":
            op.d, op.run = operand(operands[0]), self.address("getpc")
        elif name in ("s_setpc_b64", "s_swappc_b64"):
            op.s[0], op.run = operand(operands[-1]), self.address("setpc")
            if name == "s_swappc_b64":
                op.d = operand(operands[0])
        elif (
            name in ("s_memtime", "s_memrealtime")
            or name.startswith("s_sendmsg_rtn")
            or (name == "s_getreg_b32" and "SHADER_CYCLES" in str(operands))
        ):
            op.d, op.run = operand(operands[0]), self.address("clock")
            op.number[0], op.number[1] = "REAL" in name.upper() + str(operands), 32 if "CYCLES_HI" in str(operands) else 0
            op.number[2] = (1 << 20) - 1 if tail == "0, 20)" else -1
        elif name == "s_getreg_b32":
            op.d, op.run = operand(operands[0]), self.address("zero")
        elif match := re.fullmatch(r"s_set_gpr_idx_(on|off)", name):
            if match[1] == "on":
                op.s[0] = operand(operands[0])
                op.number[0] = sum(1 << i for i, place in enumerate(("SRC0", "SRC1", "SRC2", "DST")) if place in operands[1])
            op.run = self.address("index")
        elif name in RELEASE and re.search(RELEASE[name], f"{operands} {tail}"):
            op.run = self.address("release")
        elif name in ACQUIRE and re.search(ACQUIRE[name], f"{operands} {tail}"):
            op.run = self.address("acquire")
        elif NOTHING.match(name):
            op.run = self.address("nothing")
        else:
            return False
        return True

    def lanes(self, op: Op, name: str, operands: list[str], tail: str) -> bool:
        plain = re.sub(r"_e(32|64)$", "", name)
        if plain == "ds_bpermute_b32":
            op.number[0], op.number[1] = field(tail, "offset"), self.reach
        elif match := re.fullmatch(r"v_movrel(s|d|sd)_b32", plain):
            op.number[0] = {"s": 1, "d": 8, "sd": 9}[match[1]]
        elif match := re.fullmatch(r"v_permlane(x?16|64)_b32", plain):
            op.number[0] = {"16": 16, "x16": 17, "64": 64}[match[1]]
        elif plain not in ("v_readlane_b32", "v_readfirstlane_b32", "v_writelane_b32", "v_accvgpr_read_b32", "v_accvgpr_write_b32",
                           "v_accvgpr_mov_b32", "v_swap_b32"):  # fmt: skip
            return False
        op.d = operand(operands[0])
        for i, word in enumerate(operands[1:]):
            op.s[i] = operand(word)
        kinds = {"bpermute": "bpermute", "permlane": "permlane", "movrel": "move_indexed", "accvgpr": "move"}
        op.run = self.address(next((kind for part, kind in kinds.items() if part in plain), plain.split("_")[1]))
        return True

    def memory(self, op: Op, name: str, operands: list[str], tail: str) -> bool:
        op.number[0] = field(tail, "offset")
        if match := re.fullmatch(r"s_load_(\w+)", name):
            op.d, op.s[0] = operand(operands[0]), operand(operands[1])
            if len(operands) > 2:
                op.s[1] = operand(operands[2])
            op.number[1], op.number[3] = SIZES[match[1]], SIGNED if match[1][0] == "i" else UNSIGNED
            op.run = self.address("scalar_load")
        elif match := re.fullmatch(r"(buffer|global|flat|scratch)_(load|store)_(\w+)", name):
            self.transfer(op, match[1], match[2] == "load", match[3], operands, tail)
            op.is_of_device = self.is_of_device(tail)
        elif match := re.fullmatch(r"(global|flat)_atomic_(\w+)", name):
            returns = re.search(r"\b(glc|sc0|TH_ATOMIC_RETURN)", tail) is not None
            words = list(operands)
            if returns:
                op.d = operand(words.pop(0))
            op.s[0], op.s[3] = operand(words[0]), operand(words[1])
            self.base(op, words[2:])
            self.update(op, match[2])
            op.is_of_device = self.is_of_device(tail) if self.family == "rdna4" else 1
        elif match := re.fullmatch(r"ds_(read|load|write|store)(2)?_?(2addr)?_?(st64|stride64)?_?(\w+)", name):
            self.shared(op, match[1] in ("read", "load"), bool(match[2] or match[3]), bool(match[4]), match[5], operands, tail)
        elif match := re.fullmatch(r"ds_(\w+)", name):
            returns = "_rtn" in name
            words = list(operands)
            if returns:
                op.d = operand(words.pop(0))
            op.s[0], op.number[2] = operand(words[0]), SHARED
            if re.search(r"cmpst(ore)?_", name):
                # The order of the two data operands has changed with the name.
                new, compared = (words[1], words[2]) if "cmpstore" in name else (words[2], words[1])
                op.s[3], op.mask = operand(new), operand(compared)
            else:
                op.s[3] = operand(words[1])
            self.update(op, match[1].replace("_rtn", ""))
        else:
            return False
        return True

    def is_of_device(self, tail: str) -> int:
        """Whether an access passes by the caches of the block."""
        if self.family == "rdna4":
            return int(re.search(r"SCOPE_(DEV|SYS)", tail) is not None)
        bits = ("sc1",) if self.gfx[:5] in ("gfx94", "gfx95") else ("glc", "dlc") if self.gfx.startswith("gfx10") else ("glc",)
        return int(all(re.search(rf"\b{bit}\b", tail) for bit in bits))

    def base(self, op: Op, words: list[str]) -> None:
        if words and words[0] not in ("off", "null"):
            op.s[1] = operand(words[0])

    def transfer(self, op: Op, space: str, is_load: bool, kind: str, operands: list[str], tail: str) -> None:
        half = WHOLE
        if match := re.fullmatch(r"(short|ubyte|sbyte|byte)_d16(_hi)?()", kind) or re.fullmatch(r"()d16_(hi_)?(\w+)", kind):
            half = HIGH_HALF if match[2] else LOW_HALF
            kind = (match[3] or match[1]).strip("_")
        size = SIZES[kind]
        op.number[1] = size
        op.number[3] = half or (SIGNED if kind in ("sbyte", "i8", "sshort", "i16") else UNSIGNED if size < 4 else WHOLE)
        words = list(operands)
        if space == "buffer":  # of private memory
            data, address, _, offset = words[:4]
            op.number[2] = BUFFER
            if "offen" in tail:
                op.s[0] = operand(address)
            op.s[2] = operand(offset)
        else:
            data, address = (words[0], words[1]) if is_load else (words[1], words[0])
            op.number[2] = SCRATCH if space == "scratch" else GLOBAL
            if address not in ("off", "null"):
                op.s[0] = operand(address)
            self.base(op, words[2:])
        place = operand(data)
        place.is_signed = int(kind in ("sbyte", "i8", "sshort", "i16"))
        if place.part == 2:
            op.number[3] = HIGH_HALF
        elif place.part == 1 and is_load:
            op.number[3] = LOW_HALF
        if is_load:
            op.d = place
        else:
            op.s[3] = place
        op.run = self.address("load" if is_load else "store")

    def shared(self, op: Op, is_load: bool, is_pair: bool, is_wide: bool, kind: str, operands: list[str], tail: str) -> None:
        half = WHOLE
        if match := re.fullmatch(r"(\w+?)_d16(_hi)?", kind):
            kind, half = match[1], HIGH_HALF if match[2] else LOW_HALF
        size = SIZES[kind]
        op.number[1], op.number[2] = size, SHARED
        op.number[3] = half or (SIGNED if kind[0] == "i" else UNSIGNED if size < 4 else WHOLE)
        if is_load:
            op.d, op.s[0] = operand(operands[0]), operand(operands[1])
            op.d.is_signed = int(kind[0] == "i")
        else:
            op.s[0], op.s[3] = operand(operands[0]), operand(operands[1])
        if not is_pair:
            part = (op.d if is_load else op.s[3]).part
            op.number[3] = HIGH_HALF if part == 2 else LOW_HALF if part == 1 and is_load else op.number[3]
            op.run = self.address("load" if is_load else "store")
            return
        step = size * (64 if is_wide else 1)
        op.number[0], op.number[3] = field(tail, "offset0") * step, field(tail, "offset1") * step
        if not is_load:
            op.s[2], op.s[3] = operand(operands[1]), operand(operands[2])
        op.run = self.address("load2" if is_load else "store2")

    def update(self, op: Op, what: str) -> None:
        match = re.fullmatch(r"(\w+?)_?(x2|[buif]\d+)?", what)
        assert match
        name, kind = match[1], match[2] or ""
        is_wide = kind == "x2" or "64" in kind
        if kind[:1] == "f" or name.endswith("_num"):
            name = "f" + name.removesuffix("_num")
        elif name in ("min", "max"):
            name = {"i": "s"}.get(kind[:1], "u") + name
        name = {"storexchg": "swap", "wrxchg": "swap", "cmpst": "cmpswap", "cmpstore": "cmpswap", "fcmpswap": "cmpswap"}.get(name, name)
        if name.startswith("f") and name[1:] in ("fadd", "fmin", "fmax"):
            name = name[1:]
        op.number[1], op.number[3] = 8 if is_wide else 4, UPDATES.index(name)
        op.run = self.address("atomic")

    # --- Operations that the pseudocode describes ---

    def operation(self, op: Op, name: str, operands: list[str], tail: str) -> None:
        key = re.sub(r"_(e32|e64|dpp|e64_dpp|sdwa)$", "", re.sub(r"_(dpp|sdwa)$", "", name)).upper()
        key = re.sub(r"_E(32|64)$", "", key)
        text = gcn_semantics.find_text(self.family, key)
        if name[:2] not in ("v_", "s_") or "MEM[" in text:
            raise UnknownInstruction(name)
        body = gcn_semantics.to_cpp(text) if key not in gcn_semantics.OVERRIDES else text
        words = list(operands)
        compares = key.startswith("V_CMP")
        if compares:
            op.mask = operand("exec" if key.startswith("V_CMPX") and self.family != "cdna" else words.pop(0))
        elif not key.startswith(("S_CMP", "S_BITCMP")):
            op.d = operand(words.pop(0))
        if name[0] == "v" and not compares and (re.search(r"\bLANE =", body) or re.match(r"V_MAD_(CO_)?[UI]64", key)):
            op.mask = operand(words.pop(0))
        if name[0] == "v" and "VCCIN" in body and not key.startswith("V_DIV_FMAS"):
            op.s[3] = operand(words.pop())
        kinds = find_kinds(text)
        is_packed = re.match(r"V_PK_", key) is not None
        is_mixed = "_MIX" in key
        is_high, is_half = bits_field(tail, "op_sel", 3, 0), bits_field(tail, "op_sel_hi", 3, 0)
        if "SIMM32" in body:  # v_fmamk D, S0, K, S1 and v_fmaak D, S0, S1, K
            index = 1 if re.search(r"(AMK|ADMK)", key) else 2
            op.number[2] = operand(words.pop(index), kinds[0]).value
        for i, word in enumerate(words):
            is_pair_of_floats = is_packed and kinds[i].endswith("64") and "." in word  # such a constant is of one word
            mixed = "f16" if is_half[i % 3] and not is_high[i % 3] else "f32"  # signs of the upper half are those of the word
            op.s[i] = operand(word, mixed if is_mixed else "f32" if is_pair_of_floats else kinds[i])
            if kinds[i] == "f16" and is_packed and op.s[i].kind == CONSTANT:
                op.s[i] = operand(word, "f16")
        if key.startswith("S_CMPK") or key.startswith("S_CMOVK"):
            op.s[2] = op.s[1 if key.startswith("S_CMPK") else 0]
        op.result_bits, op.is_float = gcn_semantics.find_result(text)
        op.clamp = int(re.search(r"\bclamp\b", tail) is not None)
        op.scale = 1 if "mul:2" in tail else 2 if "mul:4" in tail else 3 if "div:2" in tail else 0
        # On gfx9 most results of 16 bits clear the other half (GCNSubtarget::zeroesHigh16BitsOfDest); later families keep it.
        op.zeroes = int(self.family == "cdna" and "FMAC" not in key and "MIX" not in key)
        if key.startswith("V_DOT"):
            op.number[1] = sum(bit << i for i, bit in enumerate(bits_field(tail, "neg_lo", 3, 0)))
        elif is_mixed:
            op.number[0] = sum(bit << i for i, bit in enumerate(is_high))
            op.number[1] = sum(bit << i for i, bit in enumerate(is_half))
            op.result_bits = 32
        elif is_packed:
            self.pack(op, key, tail, len(words))
        else:
            self.parts(op, tail, len(words))
        if "_sdwa" in name:
            self.sub_words(op, tail)
        if "_dpp" in name:
            self.move(op, tail)
        variant = "clamp" if op.clamp and not op.is_float else ""
        if variant and key not in gcn_semantics.SATURATED:
            raise UnknownInstruction(f"clamp of {name}")
        self.pending.append((op, (key, variant)))

    def pack(self, op: Op, key: str, tail: str, count: int) -> None:
        width = 32 if re.search(r"_[FB]32$", key) else 16
        op.result_bits = 2 * width
        low, high = bits_field(tail, "op_sel", 3, 0), bits_field(tail, "op_sel_hi", 3, 1)
        if key == "V_PK_MOV_B32":
            high = low  # its second source gives the upper word, which op_sel chooses, too
        neg_low, neg_high = bits_field(tail, "neg_lo", 3, 0), bits_field(tail, "neg_hi", 3, 0)
        for i in range(count):
            source = op.s[i]
            source.low, source.high, source.width = low[i], high[i], width
            source.flip = neg_low[i] << (width - 1) | neg_high[i] << (2 * width - 1)

    def parts(self, op: Op, tail: str, count: int) -> None:
        if "op_sel:[" not in tail:
            return
        chosen = bits_field(tail, "op_sel", count + 1, 0)
        for i in range(count):
            if chosen[i]:
                op.s[i].part = 2
        if chosen[count]:
            op.d.part, op.zeroes = 2, 0
        elif op.result_bits == 16:
            op.d.part, op.zeroes = 1, 0

    def sub_words(self, op: Op, tail: str) -> None:
        for i in range(2):
            if match := re.search(rf"src{i}_sel:(\w+)", tail):
                op.s[i].part = PARTS[match[1]]
        if (match := re.search(r"dst_sel:(\w+)", tail)) and match[1] != "DWORD":
            op.d.part = PARTS[match[1]]
            op.zeroes = int("UNUSED_PRESERVE" not in tail)
            if "UNUSED_SEXT" in tail:
                raise UnknownInstruction("dst_unused:UNUSED_SEXT")

    def move(self, op: Op, tail: str) -> None:
        if match := re.search(r"quad_perm:\[(\d),(\d),(\d),(\d)\]", tail):
            op.lane, op.distance = 1, sum(int(match[i + 1]) << 4 * i for i in range(4))
        elif match := re.search(r"(row_shr|row_shl|row_ror|row_xmask|row_share|row_newbcast):(\d+)", tail):
            op.lane, op.distance = MOVES[match[1]], int(match[2])
        elif match := re.search(r"row_bcast:(\d+)", tail):
            op.lane = 9 if match[1] == "15" else 10
        else:
            rest = {"row_mirror": 5, "row_half_mirror": 6, "wave_shr": 11, "wave_rol": 12, "wave_shl": 13, "wave_ror": 14}
            (op.lane,) = (number for word, number in rest.items() if re.search(rf"\b{word}\b", tail))
        op.rows, op.banks = field(tail, "row_mask", 15), field(tail, "bank_mask", 15)
        op.is_bound = int("bound_ctrl" in tail)

    def resolve(self) -> None:
        """Gives the operations of the pseudocode their functions."""
        functions = gcn_semantics.find_functions(self.family, {key for _, key in self.pending}, self.folder)
        for op, key in self.pending:
            op.run = functions.get(key) or self.address("unknown")


# --- Code objects ---


def read_message(data: bytes, at: int = 0) -> tuple[Any, int]:
    """A value of MessagePack, and where the next one begins."""
    kind = data[at]
    at += 1

    def number(size: int) -> int:
        return int.from_bytes(data[at : at + size], "big")

    if kind < 0x80:
        return kind, at
    if kind >= 0xE0:
        return kind - 256, at
    if 0xCC <= kind <= 0xD3:
        size = 1 << (kind - 0xCC & 3)
        return int.from_bytes(data[at : at + size], "big", signed=kind >= 0xD0), at + size
    if kind in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[kind], at
    sizes = {0xD9: 1, 0xDA: 2, 0xDB: 4, 0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4}
    count = number(sizes[kind]) if kind in sizes else kind & (31 if kind >= 0xA0 else 15)
    at += sizes.get(kind, 0)
    if 0xA0 <= kind <= 0xBF or 0xD9 <= kind <= 0xDB:
        return data[at : at + count].decode(), at + count
    is_map = kind & 0xF0 == 0x80 or kind in (0xDE, 0xDF)
    values = []
    for _ in range(count * (2 if is_map else 1)):
        value, at = read_message(data, at)
        values.append(value)
    return (dict(zip(values[::2], values[1::2], strict=True)) if is_map else values), at


def read_object(memory: bytes) -> tuple[list[tuple[int, int]], dict[str, int], list[dict[str, Any]]]:
    """The ranges of instructions, the symbols and the kernels of a code object at its addresses."""
    header = struct.unpack_from("<16sHHIQQQIHHHHHH", memory)
    segments = [struct.unpack_from("<IIQQQQQQ", memory, header[5] + 56 * i) for i in range(header[10])]
    code = [(segment[3], segment[5]) for segment in segments if segment[0] == 1 and segment[1] & 1]
    kernels: list[dict[str, Any]] = []
    symbols: dict[str, int] = {}
    for kind, _, _, at, _, size, *_ in segments:
        if kind == 4:  # PT_NOTE
            note = at
            while note < at + size:
                name_size, data_size, note_kind = struct.unpack_from("<III", memory, note)
                note += 12 + ((name_size + 3) & ~3)
                if note_kind == 32:
                    kernels = read_message(memory[note : note + data_size])[0]["amdhsa.kernels"]
                note += (data_size + 3) & ~3
        if kind == 2:  # PT_DYNAMIC
            entries = dict(struct.unpack_from("<QQ", memory, at + 16 * i) for i in range(size // 16))
            table, strings, hashes = entries[6], entries[5], entries[4]
            for i in range(struct.unpack_from("<I", memory, hashes + 4)[0]):
                name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", memory, table + 24 * i)
                end = memory.index(b"\0", strings + name)
                symbols[memory[strings + name : end].decode()] = value
    return code, symbols, kernels


def find_folder() -> Path:
    folder = Path(os.environ.get("GCN_CACHE") or Path(tempfile.gettempdir()) / f"gcn-{os.getuid()}")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def check_wave_size(kernel: dict[str, Any], memory: bytes, descriptor: int) -> None:
    """Raises `ValueError` for waves of 32 threads, by the description or by the descriptor, which the driver goes by."""
    described, chosen = kernel[".wavefront_size"], 32 if memory[descriptor + 57] & 4 else 64
    if (described, chosen) != (64, 64):
        raise ValueError(f"gcn: {kernel['.name']}: waves of {chosen} threads, described as {described}; all code is for 64")


def load(machine: str, code: int, target: str) -> None:
    """Gives the driver in the library `machine` the records and kernels of a code object that it has mapped."""
    library = ctypes.CDLL(machine)
    assert library.gcn_op_size() == ctypes.sizeof(Op), "Op in machine.h and here"
    library.gcn_memory.restype = ctypes.c_uint64
    size = ctypes.c_uint64()
    address = library.gcn_memory(ctypes.c_void_p(code), ctypes.byref(size))
    memory = ctypes.string_at(address, size.value)
    ranges, symbols, kernels = read_object(memory)
    decoder = Decoder(library, target, find_folder())
    ops, texts = [], []
    for start, length in ranges:
        for at, count, text in disassemble(target, memory[start : start + length], start):
            if not text.startswith("s_code_end"):
                ops.append(decoder.decode(at, count, text))
                texts.append(text)
    decoder.resolve()
    records = (Op * len(ops))(*ops)
    library.gcn_set_ops(ctypes.c_void_p(code), records, ctypes.c_size_t(len(ops)), b"\0".join(text.encode() for text in texts) + b"\0")
    for kernel in kernels:
        check_wave_size(kernel, memory, symbols[kernel[".name"] + ".kd"])
        explicit = max((a[".offset"] + a[".size"] for a in kernel[".args"] if not a[".value_kind"].startswith("hidden_")), default=0)
        descriptor = ctypes.c_uint64(symbols[kernel[".name"] + ".kd"])
        library.gcn_add_kernel(ctypes.c_void_p(code), kernel[".name"].encode(), descriptor, ctypes.c_size_t(explicit))
