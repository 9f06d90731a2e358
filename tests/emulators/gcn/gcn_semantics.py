"""What instructions of AMD GPUs do: AMD's pseudocode, data of the package tinygrad, as C++ functions.

Each instruction that a program contains is translated once, and compiled together with the others of that program into a library in the
cache folder. What the translation of the text gets wrong, or the text leaves open, is in OVERRIDES.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import os
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FLAGS = "-std=c++20 -O1 -w -ffp-contract=off -fno-math-errno -fno-strict-aliasing -fwrapv -fPIC".split()

OVERRIDES = {
    "V_LDEXP_F64": "D0.f64 = ldexp(S0.f64, S1.i32)",
    "V_LDEXP_F32": "D0.f32 = ldexpf(S0.f32, S1.i32)",
    "V_LDEXP_F16": "D0.f16 = (f16)ldexpf((f32)S0.f16, S1.i16)",
    "V_MAD_U64_U32": "D0.u64 = (u64)S0.u32 * S1.u32 + S2.u64; LANE = D0.u64 < S2.u64",
    "V_MAD_I64_I32": "D0.u64 = (i64)S0.i32 * S1.i32 + S2.u64",
    "V_DIV_SCALE_F64": "LANE = divScale(S0.f64, S1.f64, S2.f64, D0.f64, 768, 53, 128)",
    "V_DIV_SCALE_F32": "LANE = divScale(S0.f32, S1.f32, S2.f32, D0.f32, 96, 23, 64)",
    "V_DIV_FIXUP_F32": "D0.f32 = S2.f32 / S1.f32",
    "V_DIV_FIXUP_F16": "D0.f16 = (f16)((f32)S2.f16 / (f32)S1.f16)",
    "V_DIV_FIXUP_F64": "f64 q = S2.f64 / S1.f64; D0.f64 = q == q && isfinite(q) && q != 0 ? S0.f64 : q",
    "V_MBCNT_LO_U32_B32": "D0.u32 = S1.u32 + __builtin_popcountll(S0.u32 & (u32)((1ull << (l > 31 ? 32 : l)) - 1))",
    "V_MBCNT_HI_U32_B32": "D0.u32 = S1.u32 + (l > 31 ? __builtin_popcountll(S0.u32 & ((1ull << (l - 32)) - 1)) : 0)",
    "V_FREXP_EXP_I32_F64": "int e = 0; if (isfinite(S0.f64)) frexp(S0.f64, &e); D0.i32 = e",
    "V_FREXP_EXP_I32_F32": "int e = 0; if (isfinite(S0.f32)) frexpf(S0.f32, &e); D0.i32 = e",
    "V_FREXP_EXP_I16_F16": "int e = 0; if (isfinite((f32)S0.f16)) frexpf((f32)S0.f16, &e); D0.i16 = e",
    "V_FREXP_MANT_F64": "int e; D0.f64 = isfinite(S0.f64) ? frexp(S0.f64, &e) : S0.f64",
    "V_FREXP_MANT_F32": "int e; D0.f32 = isfinite(S0.f32) ? frexpf(S0.f32, &e) : S0.f32",
    "V_FREXP_MANT_F16": "int e; f32 x = (f32)S0.f16; D0.f16 = isfinite(x) ? (f16)frexpf(x, &e) : S0.f16",
    "V_EXP_F32": "D0.f32 = exp2f(S0.f32)",
    "V_LOG_F32": "D0.f32 = log2f(S0.f32)",
    "V_RCP_F64": "D0.f64 = 1.0 / S0.f64",
    "V_RCP_F32": "D0.f32 = 1.0f / S0.f32",
    "V_RCP_F16": "D0.f16 = (f16)(1.0f / (f32)S0.f16)",
    "V_RCP_IFLAG_F32": "D0.f32 = 1.0f / S0.f32",
    "V_RSQ_F32": "D0.f32 = (f32)(1.0 / sqrt((f64)S0.f32))",
    "V_RSQ_F16": "D0.f16 = (f16)(1.0f / sqrtf((f32)S0.f16))",
    "V_RSQ_F64": "D0.f64 = 1.0 / sqrt(S0.f64)",
    "V_SQRT_F32": "D0.f32 = sqrtf(S0.f32)",
    "V_SQRT_F16": "D0.f16 = (f16)sqrtf((f32)S0.f16)",
    "V_SQRT_F64": "D0.f64 = sqrt(S0.f64)",
    "S_BREV_B32": "D0.u32 = __builtin_bitreverse32(S0.u32)",
    "S_BREV_B64": "D0.u64 = __builtin_bitreverse64(S0.u64)",
    "V_BFREV_B32": "D0.u32 = __builtin_bitreverse32(S0.u32)",
    "V_MUL_HI_I32": "D0.i32 = (i64)S0.i32 * S1.i32 >> 32",
    "V_ALIGNBIT_B32": "D0.u32 = ((u64)S0.u32 << 32 | S1.u32) >> (S2.u32 & 31)",
    "V_ALIGNBYTE_B32": "D0.u32 = ((u64)S0.u32 << 32 | S1.u32) >> 8 * (S2.u32 & 3)",
    "V_PK_MOV_B32": "D0.u64 = (S0.u64 & 0xffffffffull) | (S1.u64 & ~0xffffffffull)",
    "S_BCNT1_I32_B64": "D0.i32 = __builtin_popcountll(S0.u64); w->scc = D0.i32 != 0",
    "S_BCNT1_I32_B32": "D0.i32 = __builtin_popcount(S0.u32); w->scc = D0.i32 != 0",
    "S_ADDK_I32": "D0.i32 = D0.i32 + (i16)S0.i32; w->scc = 0",
    "S_MULK_I32": "D0.i32 = D0.i32 * (i16)S0.i32",
    "S_MOVK_I32": "D0.i32 = (i16)S0.i32",
    "S_MUL_U64": "D0.u64 = S0.u64 * S1.u64",
    "V_SUBREV_CO_U32": "LANE = S0.u32 > S1.u32; D0.u32 = S1.u32 - S0.u32",
    "V_PERM_B32": "u64 both = (u64)S0.u32 << 32 | S1.u32; u32 r = 0; for (int i = 0; i < 4; ++i) { "
    "int k = S2.u32 >> 8 * i & 255; u32 b = k < 8 ? both >> 8 * k & 255 : "
    "k < 12 ? (both >> (16 * (k - 8) + 15) & 1 ? 255 : 0) : k == 12 ? 0 : 255; r |= b << 8 * i; } D0.u32 = r",
    "V_BCNT_U32_B32": "D0.u32 = S1.u32 + __builtin_popcount(S0.u32)",
    "V_CVT_PK_RTZ_F16_F32": "D0.u32 = bitsOf((f16)S0.f32) | bitsOf((f16)S1.f32) << 16",
    "V_CVT_F16_F32": "D0.f16 = (f16)S0.f32",
    "V_NOT_B16": "D0.u16 = ~S0.u16",
    "S_CVT_F16_F32": "D0.f16 = (f16)S0.f32",
    "V_CVT_U32_U16": "D0.u32 = S0.u16",
    "V_CVT_I32_I16": "D0.i32 = S0.i16",
    "S_PACK_LL_B32_B16": "D0.u32 = S0.u16 | (u32)S1.u16 << 16",
    "S_PACK_LH_B32_B16": "D0.u32 = S0.u16 | (S1.u32 & 0xffff0000u)",
    "S_PACK_HH_B32_B16": "D0.u32 = S0.u32 >> 16 | (S1.u32 & 0xffff0000u)",
    "S_PACK_HL_B32_B16": "D0.u32 = S0.u32 >> 16 | (u32)S1.u16 << 16",
    "V_PACK_B32_F16": "D0.u32 = bitsOf(S0.f16) | bitsOf(S1.f16) << 16",
    "S_BCNT0_I32_B32": "D0.i32 = 32 - __builtin_popcount(S0.u32); w->scc = D0.i32 != 0",
    "S_BCNT0_I32_B64": "D0.i32 = 64 - __builtin_popcountll(S0.u64); w->scc = D0.i32 != 0",
    "S_FMAC_F32": "D0.f32 = fmaf(S0.f32, S1.f32, D0.f32)",
    "S_FMAC_F16": "D0.f16 = (f16)fma((f64)S0.f16, (f64)S1.f16, (f64)D0.f16)",
    # Of gfx906 to gfx90a; the table of gfx940 does not have them.
    "V_MAD_F32": "D0.f32 = S0.f32 * S1.f32 + S2.f32",
    "V_MAC_F32": "D0.f32 = S0.f32 * S1.f32 + D0.f32",
    "V_MADMK_F32": "D0.f32 = S0.f32 * SIMM32.f32 + S1.f32",
    "V_MADAK_F32": "D0.f32 = S0.f32 * S1.f32 + SIMM32.f32",
    "V_MAD_LEGACY_U16": "D0.u16 = S0.u16 * S1.u16 + S2.u16",
    "V_MAD_LEGACY_I16": "D0.u16 = S0.u16 * S1.u16 + S2.u16",
    "V_MAD_LEGACY_F16": "D0.f16 = S0.f16 * S1.f16 + S2.f16",
    "V_FMA_LEGACY_F16": "D0.f16 = fma(S0.f16, S1.f16, S2.f16)",
    "V_MAC_F16": "D0.f16 = S0.f16 * S1.f16 + D0.f16",
    "V_MADMK_F16": "D0.f16 = S0.f16 * SIMM32.f16 + S1.f16",
    "V_MADAK_F16": "D0.f16 = S0.f16 * S1.f16 + SIMM32.f16",
    "V_CVT_PKRTZ_F16_F32": "D0.u32 = bitsOf((f16)S0.f32) | bitsOf((f16)S1.f32) << 16",
    "V_SAD_U32": "D0.u32 = (S0.u32 > S1.u32 ? S0.u32 - S1.u32 : S1.u32 - S0.u32) + S2.u32",
    "V_BFI_B32": "D0.u32 = (S0.u32 & S1.u32) | (~S0.u32 & S2.u32)",
}
for _bits in ("F16", "F32", "F64"):
    _kind, _wide = _bits.lower(), "f64" if _bits == "F64" else "f32"
    _call = "" if _bits == "F64" else "f"
    for _op, _f in (("RNDNE", "rint"), ("FLOOR", "floor"), ("CEIL", "ceil"), ("TRUNC", "trunc")):
        OVERRIDES[f"V_{_op}_{_bits}"] = f"D0.{_kind} = ({_kind}){_f}{_call}(({_wide})S0.{_kind})"
    for _op in ("MAX", "MIN", "MAX_NUM", "MIN_NUM"):
        OVERRIDES[f"V_{_op}_{_bits}"] = f"D0.{_kind} = v_{_op[:3].lower()}_{_kind}(S0.{_kind}, S1.{_kind})"
    OVERRIDES[f"V_FMA_{_bits}"] = f"D0.{_kind} = ({_kind})fma{_call}(({_wide})S0.{_kind}, ({_wide})S1.{_kind}, ({_wide})S2.{_kind})"
    OVERRIDES[f"V_FMAC_{_bits}"] = f"D0.{_kind} = ({_kind})fma{_call}(({_wide})S0.{_kind}, ({_wide})S1.{_kind}, ({_wide})D0.{_kind})"
OVERRIDES["V_FMA_F16"] = "D0.f16 = (f16)fma((f64)S0.f16, (f64)S1.f16, (f64)S2.f16)"
OVERRIDES["V_FMAC_F16"] = "D0.f16 = (f16)fma((f64)S0.f16, (f64)S1.f16, (f64)D0.f16)"
for _name, _size, _signs in (
    ("V_DOT4_U32_U8", 8, "0"),
    ("V_DOT4_I32_I8", 8, "3"),
    ("V_DOT4_I32_IU8", 8, "op->number[1]"),
    ("V_DOT2_U32_U16", 16, "0"),
    ("V_DOT2_I32_I16", 16, "3"),
    ("V_DOT8_U32_U4", 4, "0"),
    ("V_DOT8_I32_I4", 4, "3"),
    ("V_DOT8_I32_IU4", 4, "op->number[1]"),
):
    OVERRIDES[_name] = f"D0.u32 = dot(S0.u32, S1.u32, S2.u32, {_size}, {_signs})"
for _bits, _signed in (("32", "u"), ("64", "u"), ("32", "i"), ("64", "i")):
    _body = f"bfe{_signed}(S0.{_signed}{_bits}, S1.u32 & {int(_bits) - 1}, S1.u32 >> 16 & 127, {_bits})"
    OVERRIDES[f"S_BFE_{_signed.upper()}{_bits}"] = f"D0.u64 = {_body}; w->scc = D0.u{_bits} != 0"
for _names, _value in (
    (("V_FFBH_U32", "V_CLZ_I32_U32", "S_FLBIT_I32_B32", "S_CLZ_I32_U32"), "S0.u32 ? __builtin_clz(S0.u32) : -1"),
    (("V_FFBL_B32", "V_CTZ_I32_B32", "S_FF1_I32_B32", "S_CTZ_I32_B32"), "S0.u32 ? __builtin_ctz(S0.u32) : -1"),
    (("S_FF1_I32_B64", "S_CTZ_I32_B64"), "S0.u64 ? __builtin_ctzll(S0.u64) : -1"),
    (("S_FLBIT_I32_B64", "S_CLZ_I32_U64"), "S0.u64 ? __builtin_clzll(S0.u64) : -1"),
    (
        ("V_FFBH_I32", "V_CLS_I32", "S_FLBIT_I32", "S_CLS_I32"),
        "S0.i32 == 0 || S0.i32 == -1 ? -1 : __builtin_clz(S0.i32 < 0 ? ~S0.i32 : S0.i32)",
    ),
):
    for _name in _names:
        OVERRIDES[_name] = f"D0.i32 = {_value}"
for _op, _e in (("FMA", "fmaf({0}, {1}, {2})"), ("MUL", "{0} * {1}"), ("ADD", "{0} + {1}")):
    _parts = [_e.format(*(f"asF32(bits(S{i}.u64, {high}, {high - 31}))" for i in range(3))) for high in (31, 63)]
    OVERRIDES[f"V_PK_{_op}_F32"] = f"D0.u64 = bitsOf((f32)({_parts[0]})) | bitsOf((f32)({_parts[1]})) << 32"
OVERRIDES["V_MAD_CO_U64_U32"], OVERRIDES["V_MAD_CO_I64_I32"] = OVERRIDES["V_MAD_U64_U32"], OVERRIDES["V_MAD_I64_I32"]
for _name in ("MIN", "MAX", "MIN_NUM", "MAX_NUM"):
    for _kind in ("f32", "f16"):
        OVERRIDES[f"S_{_name}_{_kind.upper()}"] = f"D0.{_kind} = v_{_name[:3].lower()}_{_kind}(S0.{_kind}, S1.{_kind})"
_MIXED = "(f32)fmaf(MIX(0), MIX(1), MIX(2))"
OVERRIDES |= {
    "V_FMA_MIX_F32": f"D0.f32 = {_MIXED}",
    "V_MAD_MIX_F32": f"D0.f32 = {_MIXED}",
    "V_MAD_MIXLO_F16": f"put(D0, 15, 0, bitsOf((f16){_MIXED}))",
    "V_MAD_MIXHI_F16": f"put(D0, 31, 16, bitsOf((f16){_MIXED}))",
    "V_FMA_MIXLO_F16": f"put(D0, 15, 0, bitsOf((f16){_MIXED}))",
    "V_FMA_MIXHI_F16": f"put(D0, 31, 16, bitsOf((f16){_MIXED}))",
}
# With clamp, results of integers are limited to their type.
SATURATED = {
    "V_ADD_U32": ("(u64)S0.u32 + S1.u32", "u32"), "V_ADD_NC_U32": ("(u64)S0.u32 + S1.u32", "u32"),
    "V_ADD_CO_U32": ("(u64)S0.u32 + S1.u32", "u32"),
    "V_SUB_U32": ("(i64)S0.u32 - S1.u32", "u32"), "V_SUB_NC_U32": ("(i64)S0.u32 - S1.u32", "u32"),
    "V_SUB_CO_U32": ("(i64)S0.u32 - S1.u32", "u32"),
    "V_ADD_I32": ("(i64)S0.i32 + S1.i32", "i32"), "V_ADD_NC_I32": ("(i64)S0.i32 + S1.i32", "i32"),
    "V_SUB_I32": ("(i64)S0.i32 - S1.i32", "i32"), "V_SUB_NC_I32": ("(i64)S0.i32 - S1.i32", "i32"),
    "V_ADD_U16": ("(i64)S0.u16 + S1.u16", "u16"), "V_ADD_NC_U16": ("(i64)S0.u16 + S1.u16", "u16"),
    "V_SUB_U16": ("(i64)S0.u16 - S1.u16", "u16"), "V_SUB_NC_U16": ("(i64)S0.u16 - S1.u16", "u16"),
    "V_ADD_I16": ("(i64)S0.i16 + S1.i16", "i16"), "V_ADD_NC_I16": ("(i64)S0.i16 + S1.i16", "i16"),
    "V_SUB_I16": ("(i64)S0.i16 - S1.i16", "i16"), "V_SUB_NC_I16": ("(i64)S0.i16 - S1.i16", "i16"),
}  # fmt: skip
LIMITS = {"u32": (0, 2**32 - 1), "i32": (-(2**31), 2**31 - 1), "u16": (0, 65535), "i16": (-32768, 32767)}


@cache
def load_pseudocode(family: str) -> dict[str, str]:
    table = importlib.import_module(f"tinygrad.runtime.autogen.amd.{family}.str_pcode").PCODE
    names = {re.sub(r"_E(32|64)$", "", op.name): text for op, text in table.items()}
    return names | {name.replace("_NOT1_", "N2_"): text for name, text in names.items() if "_NOT1_" in name}  # as gfx10 calls them


@cache
def find_text(family: str, name: str) -> str:
    """The pseudocode of an instruction without its encoding, or C++ in its place; raises `KeyError`."""
    return OVERRIDES.get(name) or load_pseudocode(family)[name]


def _slice(match: re.Match[str]) -> str:
    place, high, low, kind = match[1], match[2], match[3], match[4] or ""
    value = f"bits({place}.u64, {high}, {low})"
    return {"f16": f"asF16({value})", "f32": f"asF32({value})", "i16": f"(i16){value}", "i32": f"(i32){value}", "i8": f"(i8){value}",
            "i24": f"((i32)({value} << 8) >> 8)"}.get(kind, value)  # fmt: skip


@cache
def to_cpp(text: str) -> str:
    text = re.sub(r"//.*", "", text)
    text = re.sub(r"\bdeclare (\w+) : [^;\n]*;?", "", text)
    text = re.sub(r"\b\d+'U\(", "(u64)(", text)
    text = re.sub(r"\b(16|32|64)'I\(", r"(i\1)(", text)
    text = re.sub(r"\b64'F\(", "toF64(", text)
    text = re.sub(r"\b(?:32|16)'F\(", "toF32(", text)
    text = re.sub(r"\b\d+'(0x)?(\d+)U?", r"\1\2", text)
    text = re.sub(r"\b(VCC|D0|EXEC)\.u(64|32)\[laneId\] =(?!=)", "LANE =", text)
    text = re.sub(r"\bVCC\.u(?:32|64)\[laneId\](\.u\d+)?", "VCCIN", text)
    number = r"(\d+)"
    assignment = rf"\b(D0|tmp)\[{number} : {number}\](?:\.(\w+))? =(?!=) ([^;\n]*)"

    def assign(match: re.Match[str]) -> str:
        value = f"bitsOf(({match[4]})({match[5]}))" if match[4] in ("f16", "f32") else f"({match[5]})"
        return f"put({match[1]}, {match[2]}, {match[3]}, {value})"

    text = re.sub(assignment, assign, text)
    text = re.sub(rf"\b(\w+)(?:\.\w+)?\[{number} : {number}\](?:\.(\w+))?", _slice, text)
    index = r"\[(\w+|sign\([^)]*\) \? \d+ : \d+|\w+\.\w+|bits\([^()]*\)|\(?i?\d* ?- [\w.]+\)?)\]"
    text = re.sub(rf"\b(D0|tmp)(?:\.\w+)?{index} =(?!=) ([^;\n]*)", r"put(\1, \2, \2, \3)", text)
    text = re.sub(rf"\b([SD]\d|tmp|VCC|EXEC)(?:\.\w+)?{index}", r"bits(\1.u64, \2, \2)", text)
    text = re.sub(r"(\S+) \*\* (\S+)", r"pow(\1, \2)", text)
    text = re.sub(r"([\w.]+) <> ([\w.]+)", r"(\1 < \2 || \1 > \2)", text)  # false of NaN
    text = text.replace("+INF", "INFINITY").replace("-INF", "-INFINITY")
    text = re.sub(r"\belsif (.*) then", r"} else if (\1) {", text)
    text = re.sub(r"\bif (.*) then", r"if (\1) {", text)
    text = re.sub(r"\belse\b(?! if)", "} else {", text)
    text = re.sub(r"\bend(if|for)\b", "}", text)
    text = re.sub(r"\bfor (\w+) in (\w+) : (\w+) do", r"for (int \1 = \2; \1 <= \3; ++\1) {", text)
    text = re.sub(r"\bSCC(\.u\d+)?\b", "w->scc", text)
    text = re.sub(r"\babs\(", "fabs(", text)
    text = re.sub(r"\b(S\d)\.u24\b", r"(\1.u32 & 0xffffffu)", text)
    text = re.sub(r"\b(S\d)\.i24\b", r"((i32)(\1.u32 << 8) >> 8)", text)
    return "\n".join(line if re.search(r"[{};]\s*$", line) or not line.strip() else line + ";" for line in text.split("\n"))


@cache
def find_result(text: str) -> tuple[int, bool]:
    """Bits of the result, and whether it is a float."""
    kinds = re.findall(r"\bD0\.([fuib])(\d+)\b(?!\[laneId)", text)
    return (int(kinds[0][1]), kinds[0][0] == "f") if kinds else (32, False)


def make_function(family: str, name: str, variant: str) -> str:
    """The C++ function of an instruction; `variant` is "clamp" for integers whose result is limited."""
    text = find_text(family, name)
    body = to_cpp(text) if name not in OVERRIDES else text + ";"
    if variant == "clamp" and name in SATURATED:
        value, kind = SATURATED[name]
        low, high = LIMITS[kind]
        body = f"i64 x = {value}; D0.{kind} = x < {low}ll ? {low}ll : x > {high}ll ? {high}ll : x;"
    body = re.sub(r"MIX\((\d)\)", r"(op->number[1] >> \1 & 1 ? (f32)asF16(S\1.u64 >> (op->number[0] >> \1 & 1 ? 16 : 0)) : S\1.f32)", body)
    if name.startswith(("S_", "V_S_")):  # the latter compute one number in the vector unit
        body = f"R SIMM16, SIMM32; SIMM16.u64 = read(w, op->s[2], 0); SIMM32.u64 = u64(op->number[2]); {body}"
        sources = "".join(f"R S{i}; S{i}.u64 = read(w, op->s[{i}], 0); " for i in range(3))
        exec_in = "R EXEC, VCC; EXEC.u64 = w->exec(); VCC.u64 = w->vcc();"
        exec_out = "w->s[126] = u32(EXEC.u64); w->s[127] = u32(EXEC.u64 >> 32);" if "EXEC" in body else ""
        old = "D0.u64 = read(w, op->d, 0);"
        return (
            f"{{ R D0, D1, tmp, result, saveexec; {old} {sources} {exec_in} {body}\n"
            + f"{exec_out} writeScalar(w, op->d, D0.u64); return kNext; }}"
        )
    gathers = "".join(f"u64 s{i}[64]; gather(w, op, {i}, s{i}, exec); " for i in range(3))
    sources = "".join(f"R S{i}; S{i}.u64 = s{i}[l]; " for i in range(3))
    carry = "u64 vccin = op->s[3].kind ? read(w, op->s[3], 0) : w->vcc(), outmask = 0;"
    head = "const int laneId = l; u64 LANE = 0, VCCIN = vccin >> l & 1; R D0, D1, tmp, result, sign_out; D0.u64 = read(w, op->d, l);"
    # A half of a register that is read and changed counts from bit 0.
    head += " if (op->d.part == 2) D0.u64 >>= 16;" if "D0" in re.sub(r"D0\.\w+ =", "", body) else ""
    loop = f"for (int l = 0; l < 64; ++l) if (exec >> l & 1) {{ {head} {sources} R SIMM32; SIMM32.u64 = u64(op->number[2]); {body}\n"
    return f"{{ u64 exec = w->exec(); {gathers} {carry} {loop} outmask |= (LANE & 1) << l; write(w, op, l, finish(op, D0)); }} " + (
        "if (op->mask.kind) writeScalar(w, op->mask, outmask); return kNext; }"
    )


@cache
def _open(path: Path) -> Any:
    return ctypes.CDLL(str(path), ctypes.RTLD_LOCAL)


def make_source(family: str, name: str, variant: str) -> str:
    """The function of an instruction under its name; raises `KeyError`."""
    return f'extern "C" int {name}_{variant or "plain"}(Wave *w, const Op *op) {make_function(family, name, variant)}'


def list_instructions(family: str) -> list[tuple[str, str]]:
    """All that the pseudocode or we describe, apart from accesses to memory."""
    names = {name for name, text in load_pseudocode(family).items() if "MEM[" not in text and name[:2] in ("V_", "S_")} | set(OVERRIDES)
    return sorted([(name, "") for name in names] + [(name, "clamp") for name in SATURATED if name in names])


def compile_functions(sources: list[str], made: Path, *options: str) -> bool:
    source = made.with_suffix(f".{os.getpid()}.cpp")
    source.write_text('#include "machine.h"\nusing namespace std;\n' + "\n".join(sources) + "\n")
    unfinished = source.with_suffix(".part")
    command = ["clang++-22", *FLAGS, *(options or ["-shared"]), "-I", HERE, source, "-o", unfinished]
    compiled = subprocess.run(command, capture_output=True, text=True)
    source.unlink()
    if compiled.returncode == 0:
        unfinished.replace(made)
    return compiled.returncode == 0


def _find_packed(library: Any, wanted: set[tuple[str, str]]) -> dict[tuple[str, str], int]:
    places = {key: getattr(library, f"{key[0]}_{key[1] or 'plain'}", None) for key in wanted}
    return {key: ctypes.cast(place, ctypes.c_void_p).value or 0 for key, place in places.items() if place}


_known: dict[tuple[str, str, str], int] = {}


@cache
def _load_common() -> dict[str, set[tuple[str, str]]]:
    sections = re.findall(r"^\[(\w+)\]\n([^\[]*)", (HERE / "common.txt").read_text(), re.MULTILINE)
    return {family: {(name, "") for name in names.split()} for family, names in sections}


def find_functions(family: str, wanted: set[tuple[str, str]], folder: Path) -> dict[tuple[str, str], int]:
    """The addresses of the functions of instructions; those that no translation exists for are missing."""
    if pack := os.environ.get("GCN_PACK"):
        return _find_packed(_open(Path(pack) / f"{family}.so"), wanted)
    if common := _load_common().pop(family, None):
        find_functions(family, common, folder)
    missing = sorted(key for key in wanted if (family, *key) not in _known)
    if missing:
        sources, names = [], []
        for name, variant in missing:
            try:
                sources.append(make_source(family, name, variant))
            except KeyError:
                continue
            names.append((name, variant))
        header = (HERE / "machine.h").read_text()
        key = hashlib.blake2b("\n".join([header, *sources]).encode(), digest_size=12).hexdigest()
        library = folder / f"{family}_{key}.so"
        if not library.exists() and not compile_functions(sources, library):
            # A text that the translation does not cover: its instruction stays unknown, the others do not.
            if len(missing) == 1:
                return {key: _known[(family, *key)] for key in wanted if (family, *key) in _known}
            for key in missing:
                find_functions(family, {key}, folder)
            return {key: _known[(family, *key)] for key in wanted if (family, *key) in _known}
        opened = _open(library)
        for name, variant in names:
            address = ctypes.cast(getattr(opened, f"{name}_{variant or 'plain'}"), ctypes.c_void_p).value
            _known[family, name, variant] = address or 0
    return {key: _known[(family, *key)] for key in wanted if (family, *key) in _known}
