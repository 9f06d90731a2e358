"""tools/check_words.py: which names of files it refuses."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.python.tools.loading import load_tool

FILES = {"src/ir/ops.td", "ir/ops.td", "ops.td"}


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_tool("check_words")


@pytest.mark.parametrize(
    ("name", "line", "missing"),
    [
        ("docs/dev/page.md", "a record in `src/ir/ops.td`", None),
        ("docs/dev/page.md", "a record in `src/ir/operations.td` or `ops.td`", "src/ir/operations.td"),
        ("src/ir/dialect.cpp", "int x; // as in ops.def", "ops.def"),
        ("src/ir/dialect.cpp", '#include "ir/ops.h.inc"', None),
        ("docs/dev/page.md", "only `frontend` includes `Python.h`", None),
    ],
)
def test_source_files_that_do_not_exist_are_named(tool: ModuleType, name: str, line: str, missing: str | None) -> None:
    assert tool.find_missing(name, line, FILES) == missing
