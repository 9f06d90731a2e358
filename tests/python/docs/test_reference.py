"""What the package offers has a docstring and a running example; the reference pages are made of these."""

import importlib.util
import inspect
from pathlib import Path
from typing import Any

import pytest

import quadrants as qd
from quadrants._language.builtins import Builtin

TOOL = Path(__file__).resolve().parents[3] / "tools" / "write_reference.py"
spec = importlib.util.spec_from_file_location("write_reference", TOOL)
reference = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reference)


@pytest.mark.parametrize("module", reference.MODULES)
def test_every_public_name_has_a_docstring(module):
    found = reference.get_module(module)
    values = {name: getattr(found, name) for name in reference.list_names(module)}
    assert values
    assert [name for name, value in values.items() if reference.is_described(value) and len(reference.get_doc(value)) < 10] == []


def test_docstrings_of_functions_name_their_arguments():
    missing = []
    for module in reference.MODULES:
        for name in reference.list_names(module):
            value = getattr(reference.get_module(module), name)
            if not inspect.isfunction(value):
                continue
            doc = reference.get_doc(value)
            missing += [
                f"{module}.{name}: {parameter}"
                for parameter in inspect.signature(value).parameters
                if not parameter.startswith("_") and parameter not in doc
            ]
    assert missing == []


@pytest.mark.parametrize("module", reference.MODULES)
def test_every_function_has_an_example_that_the_tests_run(module):
    pages = reference.find_pages()
    found = reference.get_module(module)
    functions = [name for name in reference.list_names(module) if is_function(getattr(found, name))]
    assert [name for name in functions if f"{module}.{name}" not in pages and f"qd.{name}" not in pages] == []


def is_function(value: Any) -> bool:
    return inspect.isroutine(value) or isinstance(value, (Builtin, reference.Func))


def test_the_reference_lists_every_name(tmp_path):
    reference.write(tmp_path)
    text = (tmp_path / "qd.md").read_text()
    assert [name for name in qd.__all__ if f"### qd.{name}\n" not in text] == []
    assert "qd.sqrt(x)" in text and "Used in [" in text
    assert "| sqrt | floats; integers are converted | `np.sqrt(x)` | Square root. |" in (tmp_path / "operators.md").read_text()
    assert "- random_seed (0): " in (tmp_path / "options.md").read_text()
