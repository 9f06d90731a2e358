"""Names that modules and objects offer."""

from __future__ import annotations

import operator
from types import ModuleType
from typing import Any, TypeGuard


def list_public(names: dict[str, Any], *helpers: str) -> list[str]:
    """Returns the names for the `__all__` of a module whose table is `names`: all except private names, modules and `helpers`."""
    return sorted(
        name
        for name, value in names.items()
        if not name.startswith("_") and name not in ("annotations", *helpers) and not isinstance(value, ModuleType)
    )


def is_dataclass(kind: Any) -> TypeGuard[type]:
    """Whether `kind` is a class made by `dataclasses.dataclass`. That module takes a millisecond to import, so it is not asked."""
    return isinstance(kind, type) and hasattr(kind, "__dataclass_fields__")


def forwarded(path: str, doc: str | None = None) -> Any:
    """Returns a property that reads the attribute at a dotted path, such as `_impl.shape`."""
    return property(operator.attrgetter(path), doc=doc)
