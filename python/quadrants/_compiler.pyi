"""The extension module that is loaded when a kernel is neither in memory nor on disk."""

from typing import Any

def compile(
    source: Any,
    parameters: list[Any],
    arguments: tuple[Any, ...],
    results: list[Any] | None,
    options: dict[str, Any],
    target: str,
    cache_scope: str = "",
    mode: int = 0,
) -> tuple[bytes, list[tuple[str, float]]]: ...
def frontend_ir(
    source: Any, parameters: list[Any], arguments: tuple[Any, ...], results: list[Any] | None, options: dict[str, Any], mode: int = 0
) -> tuple[str, bool]: ...
