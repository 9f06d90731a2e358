"""Enumerations."""

from __future__ import annotations

import enum

from .._base.autodiff_mode import AutodiffMode
from .._values.types import Layout

__all__ = ["AutodiffMode", "DeviceCapability", "Format", "Layout", "SNodeGradType"]


class SNodeGradType(enum.IntEnum):
    """Contents of a container: values, adjoints (`.grad`), tangents (`.dual`), or marks of elements that were read."""

    PRIMAL = 0
    ADJOINT = 1
    DUAL = 2
    ADJOINT_CHECKBIT = 3


_FORMATS = """
    unknown r8 r8u r8i rg8 rg8u rg8i rgba8 rgba8srgb rgba8u rgba8i bgra8 bgra8srgb r16 r16u r16i r16f rg16 rg16u rg16i rg16f rgb16 rgb16u
    rgb16i rgb16f rgba16 rgba16u rgba16i rgba16f r32u r32i r32f rg32u rg32i rg32f rgb32u rgb32i rgb32f rgba32u rgba32i rgba32f depth16
    depth24stencil8 depth32f"""
_CAPABILITIES = """
    version_1_3 version_1_4 version_1_5 has_int8 has_int16 has_int64 has_float16 has_float64 has_atomic_int64 has_atomic_float
    has_atomic_float_add has_atomic_float_minmax has_atomic_float16 has_atomic_float16_add has_atomic_float16_minmax has_atomic_float64
    has_atomic_float64_add has_atomic_float64_minmax has_variable_ptr has_physical_storage_buffer has_subgroup_basic has_subgroup_vote
    has_subgroup_arithmetic has_subgroup_ballot has_non_semantic_info has_no_integer_wrap_decoration"""

# Names that programs import; this package does not use them.
Format = enum.Enum("Format", _FORMATS)
Format.__doc__ = "Formats of images."
DeviceCapability = enum.Enum("DeviceCapability", [f"spirv_{name}" for name in _CAPABILITIES.split()])
DeviceCapability.__doc__ = "What a device of a SPIR-V backend may be able to do."


__dir__ = __all__.copy
