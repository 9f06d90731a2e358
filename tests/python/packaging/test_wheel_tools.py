"""What puts wheels together and finds the interpreters for them; `test_wheel.py` has the wheel itself."""

import base64
import email
import hashlib
import importlib
import platform
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[3] / "tools"
MODULES = ("make_wheel", "check_wheels", "pythons", "debian_root")


@pytest.fixture
def tools(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    yield importlib.import_module
    for name in MODULES:
        sys.modules.pop(name, None)


def test_a_python_is_described_by_its_headers(tools):
    target = tools("make_wheel").Target.of(sys.executable, "aarch64")
    version = f"3{sys.version_info.minor}"
    assert (target.tag, target.abi) == (f"cp{version}", f"cpython-{version}-aarch64-linux-gnu")
    assert (Path(target.headers) / "Python.h").is_file()


def test_a_wheel_gets_modules_a_tag_addresses_and_a_record(tools, tmp_path, monkeypatch):
    monkeypatch.setenv("QD_REPOSITORY", "https://example.org/quadrants")
    monkeypatch.setenv("QD_SITE", "https://example.org/site/")
    make_wheel = tools("make_wheel")
    source = tmp_path / "quadrants-1.0-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(source, "w") as archive:
        archive.writestr("quadrants/__init__.py", "x = 1\n" * 1000)
        archive.writestr("quadrants-1.0.dist-info/WHEEL", "Root-Is-Purelib: false\nTag: cp311-cp311-linux_x86_64\n")
        archive.writestr("quadrants-1.0.dist-info/METADATA", "Name: quadrants\nVersion: 1.0\n\n# Quadrants\n\nText.\n")
        records = [f"quadrants-1.0.dist-info/{name},sha256=x,1" for name in ("WHEEL", "METADATA")]
        archive.writestr("quadrants-1.0.dist-info/RECORD", "\n".join(["quadrants/__init__.py,,", *records, ""]))
    (tmp_path / "module").write_bytes(b"code" * 100)
    target = make_wheel.Target("cp313", "", "cpython-313-aarch64-linux-gnu", "aarch64")
    (tmp_path / "dist").mkdir()
    path = make_wheel.write_wheel(source, {"quadrants/_runtime.so": tmp_path / "module"}, target, tmp_path / "dist")
    assert path.name == "quadrants-1.0-cp313-cp313-manylinux_2_28_aarch64.whl"
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None and archive.read("quadrants/__init__.py") == b"x = 1\n" * 1000
        description = archive.read("quadrants-1.0.dist-info/WHEEL")
        assert description.endswith(b"Tag: cp313-cp313-manylinux_2_28_aarch64\n")
        assert archive.getinfo("quadrants/_runtime.so").external_attr >> 16 == 0o100755
        metadata = email.message_from_bytes(archive.read("quadrants-1.0.dist-info/METADATA"))
        assert metadata["Version"] == "1.0" and metadata.get_payload() == "# Quadrants\n\nText.\n"
        assert metadata.get_all("Project-URL") == [
            "Documentation, https://example.org/site/",
            "Source, https://example.org/quadrants",
            "Issues, https://example.org/quadrants/issues",
            "Changelog, https://example.org/quadrants/blob/main/CHANGELOG.md",
        ]
        lines = archive.read("quadrants-1.0.dist-info/RECORD").decode().splitlines()
    digest = base64.urlsafe_b64encode(hashlib.sha256(description).digest()).rstrip(b"=").decode()
    assert f"quadrants-1.0.dist-info/WHEEL,sha256={digest},{len(description)}" in lines
    assert [line.split(",")[0] for line in lines if "init" not in line and "RECORD" not in line] == [
        "quadrants-1.0.dist-info/WHEEL",
        "quadrants-1.0.dist-info/METADATA",
        "quadrants/_runtime.so",
    ]


def test_interpreters_are_found_with_their_headers(tools, monkeypatch):
    pythons = tools("pythons")
    monkeypatch.setattr(pythons.shutil, "which", lambda name: sys.executable if name == "python3.99" else None)
    assert pythons.find("3.99") == Path(sys.executable)
    assert pythons.find("3.98") is None


def test_a_wheel_for_another_processor_is_checked_with_a_python_of_debian(tools, monkeypatch):
    check_wheels = tools("check_wheels")
    monkeypatch.setattr(check_wheels.pythons, "find", lambda version: f"python{version}")
    monkeypatch.setattr(check_wheels.pythons, "find_of_debian", lambda version, machine: f"{machine} {version}")
    other = "aarch64" if platform.machine() == "x86_64" else "x86_64"
    for machine, expected in ((platform.machine(), "python3.9"), (other, f"{other} 3.9")):
        assert check_wheels.find_interpreter(Path(f"q-1.0-cp39-cp39-manylinux_2_28_{machine}.whl")) == expected


def test_wheels_that_no_python_here_runs_do_not_fail_unless_they_are_all(tools, monkeypatch, tmp_path, capsys):
    check_wheels = tools("check_wheels")
    monkeypatch.setattr(check_wheels, "find_interpreter", lambda wheel: "python3.11" if "cp311" in wheel.name else None)
    monkeypatch.setattr(check_wheels, "check", lambda wheel, interpreter: "41 passed in 3 s")
    monkeypatch.setattr(check_wheels.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(sys, "argv", ["check_wheels.py", str(tmp_path)])
    results = []
    for name in ("cp310-cp310-manylinux_2_28_aarch64", "cp311-cp311-manylinux_2_28_aarch64", "cp310-cp310-manylinux_2_28_x86_64"):
        (tmp_path / f"q-1.0-{name}.whl").write_text("")
        results.append(check_wheels.main())
    assert results == [1, 0, 1]  # none ran; one did; a Python of this processor is missing
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3].endswith("not run: there is no interpreter") and lines[-2].endswith("FAILED: there is no interpreter")


def test_an_unpacked_interpreter_starts_by_its_path(tools, tmp_path):
    program = tmp_path / "usr" / "bin" / "python3.14"
    loader = tmp_path / "lib64" / "ld-linux-x86-64.so.2"
    for path, text in ((program, ""), (loader, '#!/bin/sh\necho "$@"\n')):
        path.parent.mkdir(parents=True)
        path.write_text(text)
        path.chmod(0o755)
    tools("debian_root").make_pythons_runnable(tmp_path, "amd64")
    libraries = tmp_path / "usr" / "lib" / "x86_64-linux-gnu"
    expected = f"--library-path {libraries} --argv0 {program} {program}.program -c pass\n"
    assert subprocess.check_output([program, "-c", "pass"], text=True) == expected
