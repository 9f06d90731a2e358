"""tools/size.py: budgets of folders."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from tests.python.tools.loading import load_tool


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_tool("size")


def test_what_exceeds_its_budget_or_has_none_is_named(tool: ModuleType) -> None:
    most = tool.BUDGETS["src/ir"]
    assert tool.check(Counter({"src/ir": most, "tests/ir": 10**6})) == []
    exceeded, missing = tool.check(Counter({"src/ir": most + 1, "src/new": 1}))
    assert exceeded.startswith(f"src/ir has {most + 1} lines of code; its budget in tools/size.py is {most}: remove some, or move lines")
    assert missing == "src/new has no budget in tools/size.py"


def test_budgets_add_up_to_the_totals(tool: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tool.check(Counter()) == []
    monkeypatch.setitem(tool.TOTALS, "python", 1)
    whole = sum(most for folder, most in tool.BUDGETS.items() if folder.startswith("python"))
    assert tool.check(Counter()) == [f"python has 0 lines of code and budgets of {whole}; its total is 1"]


def test_files_count_for_their_folder(tool: ModuleType) -> None:
    names = (
        "src/compile.cpp",
        "src/codegen/llvm/body.cpp",
        "python/quadrants/_language/kernel.py",
        "python/quadrants/ad/_tape.py",
        "tests/ir/a.mlir",
    )
    assert [tool.find_folder(name) for name in names] == [
        "src",
        "src/codegen",
        "python/quadrants/_language",
        "python/quadrants/ad",
        "tests/ir",
    ]


def test_comments_and_docstrings_are_no_code(tool: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text('"""Two\nlines."""\n\n# a comment\nx = 1\ny = """\ntext\n"""\n')
    assert tool.count_code(file) == 4
