"""Names that modules and objects offer."""

from __future__ import annotations

import operator
from types import ModuleType
from typing import Any


def list_public(names: dict[str, Any], *helpers: str) -> list[str]:
    """Returns the names for the `__all__` of a module whose table is `names`: all except private names, modules and `helpers`."""
    return sorted(
        name
        for name, value in names.items()
        if not name.startswith("_") and name not in ("annotations", *helpers) and not isinstance(value, ModuleType)
    )


def forwarded(path: str, doc: str | None = None) -> Any:
    """Returns a property that reads the attribute at a dotted path, such as `_impl.shape`."""
    return property(operator.attrgetter(path), doc=doc)
