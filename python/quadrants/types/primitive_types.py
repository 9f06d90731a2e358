"""The scalar types by name and in lists: `all_types`, `real_types`, `integer_types`."""

from .._base.dtypes import *  # noqa: F403 (the names of the data types)
from .._base.dtypes import DATA_TYPES as _DATA_TYPES
from .._base.dtypes import __all__ as _names
from .._values.types import ref

__all__ = ["RefType", "all_types", "integer_types", "real_types", "ref", *_names]

RefType = ref
all_types = list(_DATA_TYPES)
real_types = [dtype for dtype in all_types if dtype.is_real]
integer_types = [dtype for dtype in all_types if dtype.is_integral]


__dir__ = __all__.copy
