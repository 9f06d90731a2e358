"""Kernels find their text wherever Python runs (P22)."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
import zipapp
from pathlib import Path

import pytest

import quadrants as qd

PROGRAM = """
import sys
import quadrants as qd

qd.init(arch=getattr(qd, {arch!r}), offline_cache=False, log_level="error")

@qd.func
def twice(n):
    return 2 * n

@qd.kernel
def answer(n: qd.i32) -> qd.i32:
    return twice(n) + 1

print(answer(20) + 1)
"""


@pytest.fixture(params=["cpu", "python"])
def program(request: pytest.FixtureRequest) -> str:
    return PROGRAM.format(arch=request.param)


def run(arguments: list[str], **options: object) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=300, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_text_behind_c(program: str) -> None:
    assert run(["-c", program]) == "42\n"


def test_text_redirected_to_the_input(program: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(program)
    with (tmp_path / "program.py").open() as file:
        assert run(["-"], stdin=file) == "42\n"


def test_text_that_is_gone_is_said_to_be(program: str) -> None:
    done = subprocess.run([sys.executable, "-"], input=program, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "OSError: Cannot find source code for Object <function answer" in done.stderr
    assert "qd.kernel_from_source" in done.stderr


def test_zip_of_modules(program: str, tmp_path: Path) -> None:
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "work.py").write_text(program)
    (folder / "__main__.py").write_text("import work\n")
    zipapp.create_archive(folder, tmp_path / "program.pyz")
    assert run([str(tmp_path / "program.pyz")]) == "42\n"


def test_prompt(program: str) -> None:
    """The interactive prompt, in a terminal."""
    main, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "dumb", "PYTHONSTARTUP": "", "PYTHON_BASIC_REPL": "1", "PYTHON_HISTORY": os.devnull}
    python = subprocess.Popen([sys.executable, "-q", "-i"], stdin=terminal, stdout=terminal, stderr=terminal, env=environment)
    os.close(terminal)
    shown = b""

    def read_until(end: bytes) -> None:
        nonlocal shown
        limit = time.monotonic() + 300
        while not shown.endswith(end) and time.monotonic() < limit and python.poll() is None:
            if select.select([main], [], [], 0.1)[0]:
                shown += os.read(main, 4096)

    read_until(b">>> ")
    for line in program.splitlines():
        if line:
            os.write(main, line.encode() + b"\n")
        elif shown.endswith(b"... "):
            os.write(main, b"\n")
        else:
            continue
        shown = b""
        read_until(b"... " if line.startswith(("@", "def", " ")) else b">>> ")
    os.write(main, b"exit()\n")
    python.wait(60)
    while select.select([main], [], [], 0.1)[0]:
        try:
            shown += os.read(main, 4096)
        except OSError:  # the terminal is closed
            break
    os.close(main)
    assert b"42" in shown


def test_text_in_exec_with_its_lines_known(program: str) -> None:
    """As notebooks do it."""
    host = f"""
import linecache
text = {program!r}
linecache.cache["<cell 1>"] = (len(text), None, text.splitlines(True), "<cell 1>")
exec(compile(text, "<cell 1>", "exec"), {{}})
"""
    assert run(["-c", host]) == "42\n"


def test_code_of_exec_is_not_taken_for_the_text_behind_c() -> None:
    host = """
text = '''
import quadrants as qd
qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
@qd.kernel
def answer() -> qd.i32:
    return 1
'''
scope = {}
exec(text, scope)
try:
    scope["answer"]()
except OSError as error:
    print(str(error).split(" (")[0].split(" at ")[0])

@scope["qd"].kernel
def answer() -> scope["qd"].i32:
    return 42
print(answer())
"""
    assert run(["-c", host]) == "Cannot find source code for Object <function answer\n42\n"


@pytest.mark.parametrize("arch", ["cpu", "python"])
def test_kernel_from_source(arch: str) -> None:
    qd.init(arch=getattr(qd, arch), offline_cache=False)
    add = qd.kernel_from_source("def add(a: qd.i32, b: qd.i32) -> qd.i32:\n    return a + b\n")
    assert add(40, 2) == 42
    namespace = {"limit": 7}
    text = "@qd.func\ndef f(x):\n    return x * limit\n\n@qd.kernel\ndef k(x: qd.i32) -> qd.i32:\n    return f(x)\n"
    assert qd.kernel_from_source(text, namespace)(6) == 42
    with pytest.raises(qd.QuadrantsNameError, match=r'(?s)kernel_from_source.*line 2.*y = z.*Name "z" is not defined'):
        qd.kernel_from_source("def wrong():\n    y = z\n")()
    with pytest.raises(qd.QuadrantsSyntaxError, match="needs the text of a function"):
        qd.kernel_from_source("x = 1")
    qd.reset()
