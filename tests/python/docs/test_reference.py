"""What the package offers has a docstring and a running example; the reference pages are made of these."""

import inspect
import re
from typing import Any

import pytest

import quadrants as qd
from quadrants._language.builtins import Builtin
from tests.python.tools.loading import load_tool

reference = load_tool("write_reference")


@pytest.mark.parametrize("module", reference.MODULES)
def test_every_public_name_has_a_docstring(module):
    found = reference.get_module(module)
    values = {name: getattr(found, name) for name in reference.list_names(module)}
    assert values
    assert [name for name, value in values.items() if reference.is_described(value) and len(reference.get_doc(value)) < 10] == []


def list_functions():
    """Yields the public functions, and the public methods of public classes, with their names."""
    for module in reference.MODULES:
        for name in reference.list_names(module):
            value = getattr(reference.get_module(module), name)
            if inspect.isfunction(value) or isinstance(value, reference.Func):
                yield f"{module}.{name}", value
            elif inspect.isclass(value) and value.__module__.startswith("quadrants.") and not issubclass(value, BaseException):
                members = {key: member for base in value.__mro__[-2::-1] for key, member in vars(base).items() if not key.startswith("_")}
                for key, member in members.items():
                    member = inspect.unwrap(getattr(member, "__func__", member))
                    if inspect.isfunction(member) and member.__module__.startswith("quadrants."):
                        yield f"{module}.{name}.{key}", member


FUNCTIONS = list(list_functions())


def find_parameters(function: Any) -> list[str]:
    if isinstance(function, reference.Func):
        return [parameter.name for parameter in function.parameters if not (parameter.is_named and parameter.is_placed)]
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls") and not name.startswith("_")]


def test_docstrings_describe_every_argument():
    assert len(FUNCTIONS) > 200
    missing = [
        f"{name}: {parameter}"
        for name, function in FUNCTIONS
        for parameter in find_parameters(function)
        if not re.search(rf"\b{parameter}\b", reference.get_doc(function))
    ]
    assert missing == []


def test_functions_of_many_arguments_list_them():
    for name, function in FUNCTIONS:
        if name.count(".") == 1 and len(parameters := find_parameters(function)) > 3:
            listed = re.findall(r"^    (\w+): ", reference.get_doc(function).partition("\nArgs:\n")[2].partition("\nR")[0], re.MULTILINE)
            assert listed == parameters, name


def test_docstrings_describe_results_and_exceptions():
    for name, function in FUNCTIONS:
        doc = reference.get_doc(function)
        assert not re.match(r"\w+s\b", doc), f"{name}: the summary is an imperative, such as Return"
        if inspect.isfunction(function) and function.__annotations__.get("return") not in (None, "None", "NoReturn"):
            assert re.search(r"\breturns?\b", doc, re.IGNORECASE), name
        if inspect.isfunction(function) and re.search(r"^\s+raise ", inspect.getsource(function), re.MULTILINE):
            assert re.search(r"\braises?\b", doc, re.IGNORECASE), name


@pytest.mark.parametrize("module", reference.MODULES)
def test_every_function_has_an_example_that_the_tests_run(module):
    pages = reference.find_pages()
    found = reference.get_module(module)
    functions = [name for name in reference.list_names(module) if is_function(getattr(found, name))]
    missing = [name for name in functions if f"{module}.{name}" not in pages and f"qd.{name}" not in pages]
    assert missing == [], "use these names in a Python block of a page in docs/guide"


def is_function(value: Any) -> bool:
    return inspect.isroutine(value) or isinstance(value, (Builtin, reference.Func))


def test_the_reference_lists_every_name(tmp_path):
    reference.write(tmp_path)
    text = (tmp_path / "qd.md").read_text()
    assert [name for name in qd.__all__ if f"### qd.{name}\n" not in text] == []
    assert "qd.sqrt(x)" in text and "Used in [" in text
    assert "| sqrt | floats; integers are converted | `np.sqrt(x)` | Square root. |" in (tmp_path / "operators.md").read_text()
    assert "- random_seed (0): " in (tmp_path / "options.md").read_text()
