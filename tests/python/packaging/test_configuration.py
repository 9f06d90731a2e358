"""What `pyproject.toml` says about the package."""

import re
from pathlib import Path

import pytest

tomllib = pytest.importorskip("tomllib", reason="Python 3.11 has it")
ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_folders_of_the_wheel_exist_under_names_that_the_build_accepts():
    packages = PROJECT["tool"]["scikit-build"]["wheel"]["packages"]
    assert packages["quadrants"] == "python/quadrants"
    for target, source in packages.items():
        assert (ROOT / source).is_dir()
        assert Path(target).name == Path(source).name  # scikit-build-core refuses others


def test_the_readme_names_the_oldest_python():
    oldest = PROJECT["project"]["requires-python"].removeprefix(">=")
    named = re.findall(r"Python (3\.\d+)", (ROOT / "README.md").read_text())
    assert named and set(named) == {oldest}


def test_extras_are_those_that_messages_name():
    extras = PROJECT["project"]["optional-dependencies"]
    assert extras.keys() >= {"viz", "solvers", "torch", "jax", "docs"}
    named = {found for path in (ROOT / "python").rglob("*.py") for found in re.findall(r"quadrants\[(\w+)\]", path.read_text())}
    assert named and named <= extras.keys()


def test_fragments_of_the_changelog_have_a_kind_and_a_text():
    kinds = {each["directory"] for each in PROJECT["tool"]["towncrier"]["type"]}
    for path in (ROOT / "changes").glob("*"):
        if path.name != "README.md":
            assert re.fullmatch(rf"(\d+|\+\w+)\.({'|'.join(kinds)})(\.\d+)?\.md", path.name), path.name
            assert len(path.read_text()) > 20


def test_the_citation_has_the_version_of_the_package():
    assert f"version: {PROJECT['project']['version']}\n" in (ROOT / "CITATION.cff").read_text()


def test_workflows_call_commands_that_exist():
    commands = (ROOT / "dev").read_text()
    called = {name for path in (ROOT / ".github").rglob("*.yml") for name in re.findall(r"\./dev (\w+)", path.read_text())}
    assert called >= {"test", "wheel", "site"} and all(f'"{name}": ' in commands for name in called)


def test_an_isolated_build_has_what_cmake_looks_for():
    required = {re.split(r"[<>=]", each)[0] for each in PROJECT["build-system"]["requires"]}
    cmake = (ROOT / "cmake" / "python.cmake").read_text()
    wanted = {word.lower() for word in re.search(r"find_package\(Python .* Development.Module (.*)\)", cmake)[1].split()}
    wanted |= set(re.findall(r"-m (\w+) --cmake_dir", cmake))
    assert wanted == {"numpy", "nanobind"} and wanted <= required


def test_the_sdist_takes_its_sources_from_the_root():
    options = PROJECT["tool"]["scikit-build"]["sdist"]
    assert all(pattern.startswith("/") for pattern in options["include"])
    assert {"/build*", "/out"} <= set(options["exclude"])


def test_systems_without_tests_are_experimental_in_the_workflow():
    workflow = (ROOT / ".github/workflows/wheels.yml").read_text()
    job = re.search(r"^  other-systems:.*?(?=^  \w)", workflow, re.MULTILINE | re.DOTALL)[0]
    assert "continue-on-error: true" in job and "untested" in job and "workflow_dispatch" in job
    assert PROJECT["tool"]["cibuildwheel"].keys() >= {"macos", "windows"}
    assert ";" not in PROJECT["tool"]["cibuildwheel"]["macos"]["environment"]["CMAKE_PREFIX_PATH"]  # CMake reads it like PATH
    assert not any("MacOS" in each or "Windows" in each for each in PROJECT["project"]["classifiers"])
