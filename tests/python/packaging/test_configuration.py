"""What `pyproject.toml` says about the package."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_folders_of_the_wheel_exist_under_names_that_the_build_accepts():
    packages = PROJECT["tool"]["scikit-build"]["wheel"]["packages"]
    assert packages["quadrants"] == "python/quadrants"
    for target, source in packages.items():
        assert (ROOT / source).is_dir()
        assert Path(target).name == Path(source).name  # scikit-build-core refuses others
