"""The wheel, installed where there is neither LLVM nor a compiler."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import numpy
import pytest

ROOT = Path(__file__).resolve().parents[3]
MAXIMUM_BYTES = 20_000_000
READELF = "/usr/lib/llvm-22/bin/llvm-readelf"

PROGRAM = """
import sys
import numpy as np
import quadrants as qd

qd.init(arch=qd.cpu)

@qd.kernel
def double(values: qd.types.ndarray(dtype=qd.f32, ndim=1)) -> qd.f32:
    total = 0.0
    for i in values:
        values[i] = values[i] * 2.0
        total += values[i]
    return total

values = np.arange(1000, dtype=np.float32)
assert double(values) == 999000.0
assert (values == np.arange(1000, dtype=np.float32) * 2).all()
assert qd.__file__.startswith(sys.prefix), qd.__file__
for line in open("/proc/self/maps"):
    assert "LLVM" not in line and "MLIR" not in line, line
print("passed")
"""

# The mounts are seen by this process only.
WITHOUT_LLVM = """
set -e
mount -t tmpfs none /usr/lib/llvm-22
for library in /usr/lib/*/libLLVM* /usr/lib/*/libMLIR* /usr/lib/*/liblld* /usr/lib/*/libclang*; do
  [ ! -e "$library" ] || mount --bind /dev/null "$library"
done
exec env -i PATH=/nonexistent HOME="$2" LANG=C.UTF-8 "$1" "$2/program.py"
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this source tree."""
    workers = tmp_path_factory.getbasetemp()
    # All workers build in one folder of the tree: the first one does, and the others take its wheel.
    folder = (workers.parent if "PYTEST_XDIST_WORKER" in os.environ else workers) / "wheel"
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not list(folder.glob("*.whl")):
            command = [sys.executable, str(ROOT / "tools" / "make_wheel.py"), str(folder)]
            result = subprocess.run(command, capture_output=True, text=True)
            assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    (path,) = folder.glob("*.whl")
    return path


def run_without_llvm(python: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs folder/program.py in a mount namespace where LLVM's libraries are hidden (as a plain user, in a user namespace too).

    Where the system forbids namespaces nothing is hidden, and the program's own look at its maps has to do.
    """
    unshare = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    if subprocess.run([*unshare, "true"], capture_output=True).returncode == 0:
        return subprocess.run([*unshare, "sh", "-c", WITHOUT_LLVM, "sh", str(python), str(folder)], capture_output=True, text=True)
    bare = {"PATH": "/nonexistent", "HOME": str(folder), "LANG": "C.UTF-8"}
    return subprocess.run([str(python), str(folder / "program.py")], capture_output=True, text=True, env=bare)


def test_wheel_is_small_and_typed(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert wheel.stat().st_size <= MAXIMUM_BYTES
    files = {f"quadrants/_files/{name}" for name in ("errors/QD305.md", "gallery/julia.py", "guide/from_warp.md")}
    assert {"quadrants/py.typed", *files} <= set(names) and "quadrants/_files/guide/kernels.md" not in names
    assert sorted(name.split("/")[1].split(".")[0] for name in names if name.endswith(".so")) == ["_compiler", "_runtime"]
    assert not [name for name in names if not name.startswith("quadrants")]


def test_wheel_is_for_systems_since_glibc_2_28(wheel: Path, tmp_path: Path) -> None:
    assert wheel.name.endswith(f"-manylinux_2_28_{os.uname().machine}.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        (description,) = [name for name in archive.namelist() if name.endswith(".dist-info/WHEEL")]
        assert re.findall(r"^Tag: (.*)$", archive.read(description).decode(), re.MULTILINE) == ["-".join(wheel.stem.split("-")[2:])]
        for name in archive.namelist():
            if name.endswith(".so"):
                text = subprocess.check_output([READELF, "--dyn-syms", "--dynamic", archive.extract(name, tmp_path)], text=True)
                assert max(int(minor) for minor in re.findall(r"@GLIBC_2\.(\d+)", text)) <= 28
                assert "RELR" not in text  # older loaders skip these relocations
                assert re.findall(r" GLOBAL +\w+ +UND +(?!_?Py)(\w+)$", text, re.MULTILINE) == []  # symbols that no version promises


def test_wheel_runs_a_kernel_where_there_is_no_llvm(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False, symlinks=True)
    python = environment / "bin" / "python"
    site = Path(
        subprocess.check_output([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True, env={}).strip(),
    )
    zipfile.ZipFile(wheel).extractall(site)
    # NumPy, the only dependency, is lent by this environment, so that the test needs no network.
    for source in Path(numpy.__file__).parent.parent.glob("numpy*"):
        (site / source.name).symlink_to(source)
    (tmp_path / "program.py").write_text(PROGRAM)
    result = run_without_llvm(python, tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.strip() == "passed"
