"""Processes that share a cache folder. Each runs `cached_process.py` and reports what its kernels gave and how often it compiled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import quadrants as qd

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
MODULES = str(Path(qd.__file__).parents[1])  # those under test: `./dev sanitize` has others than the tree


class Cache:
    """A cache folder and the processes that use it."""

    def __init__(self, folder: Path, libraries: Path):
        self.folder = folder
        self.libraries = libraries

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        paths = [MODULES, str(ROOT / "tests/python/launch"), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        folder = options.pop("folder", self.folder)
        command = [sys.executable, str(HERE / "cached_process.py"), str(folder), str(self.libraries), json.dumps(options), *arguments]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *arguments: str, **options: Any) -> dict[str, Any]:
        """The report of one process; its log is under "log"."""
        process = self.start(*arguments, **options)
        out, log = process.communicate(timeout=100)
        assert process.returncode == 0, log
        return {**json.loads(out), "log": log}

    def entries(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("kernels-*/??/*") if not path.name.startswith("new."))


@pytest.fixture(scope="session")
def compiled_libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("libraries")


@pytest.fixture
def cache(tmp_path: Path, compiled_libraries: Path) -> Cache:
    return Cache(tmp_path / "qdcache", compiled_libraries)
