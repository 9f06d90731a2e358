"""Which names of a module are for its users."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def list_public(names: dict[str, Any], *helpers: str) -> list[str]:
    """The names of a module whose table is `names`, for its `__all__`: those that are neither private, nor modules, nor `helpers`."""
    return sorted(
        name
        for name, value in names.items()
        if not name.startswith("_") and name not in ("annotations", *helpers) and not isinstance(value, ModuleType)
    )
