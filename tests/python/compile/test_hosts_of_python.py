"""Kernels find their text wherever Python runs (P22)."""

from __future__ import annotations

import gc
import linecache
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
    """Python keeps no text that came through a pipe."""
    done = subprocess.run([sys.executable, "-"], input=program, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "QuadrantsSourceError: Cannot find source code for Object <function answer" in done.stderr
    assert "qd.kernel_from_source [QD209]" in done.stderr
    if "cpu" in program:
        assert str(Path(qd.__file__).parent) not in done.stderr, done.stderr


@pytest.mark.parametrize("options", [["-Wignore", "-c"], ["-Ic"]])
def test_text_behind_options_that_end_in_c(program: str, options: list[str]) -> None:
    program = f"import sys\nsys.path[:0] = {sys.path!r}\n" + program
    assert run([*options, program, "-c"]) == "42\n"


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
    assert b"42" in shown and b"ignored" not in shown  # exceptions at the end of Python


def test_text_in_exec_with_its_lines_known(program: str) -> None:
    """As notebooks do it."""
    host = f"""
import linecache
text = {program!r}
linecache.cache["<cell 1>"] = (len(text), None, text.splitlines(True), "<cell 1>")
exec(compile(text, "<cell 1>", "exec"), {{}})
"""
    assert run(["-c", host]) == "42\n"


HOSTS_OF_TEXT = {
    "a literal": "exec({program!r})",
    "a variable of a function": "def work(text):\n    exec(text, {{}})\nwork({program!r})",
    "bytes": "exec({program!r}.encode(), {{}})",
    "compiled before": "text = {program!r}\ncode = compile(text, '<input>', 'exec')\nexec(code, {{}})",
    "the body of a function": (
        "import ast\ntext = {program!r}\nshell = ast.parse('def inner(): pass\\ninner()')\n"
        "shell.body[0].body = ast.parse(text).body\nexec(compile(shell, '<magic>', 'exec'), {{}})"
    ),
    "an interactive console": (
        "import code\nconsole = code.InteractiveConsole()\nfor line in {program!r}.replace('\\n\\n', '\\n').splitlines() + ['']:\n"
        "    _ = console.push('') if line[:1] in '@p' and console.buffer and not console.buffer[-1].startswith('@') else None\n"
        "    _ = console.push(line)"
    ),
}


@pytest.mark.parametrize("host", HOSTS_OF_TEXT)
def test_text_in_exec(program: str, host: str, tmp_path: Path) -> None:
    (tmp_path / "host.py").write_text(HOSTS_OF_TEXT[host].format(program=program))
    assert run([str(tmp_path / "host.py")]) == "42\n"


def test_undecorated_functions_of_a_text_in_exec_and_their_mistakes() -> None:
    qd.init(arch=qd.cpu, offline_cache=False)
    text = """
def plain(x):
    return unknown(x)
@qd.kernel
def k(n: qd.i32) -> qd.i32:
    return plain(n)
"""
    scope = {"qd": qd}
    exec(text, scope)
    with (
        pytest.warns(SyntaxWarning, match="plain"),
        pytest.raises(qd.QuadrantsNameError, match=r"(?s)line 3.*return unknown\(x\)\n +\^{7}"),
    ):
        scope["k"](3)
    qd.reset()


def test_the_text_of_exec_goes_with_its_functions() -> None:
    for number in range(3):
        text = f"@qd.kernel\ndef k(n: qd.i32) -> qd.i32:\n    return n + {number}\n@qd.func\ndef f(n):\n    return n\n"
        exec(text, {"qd": qd})
    assert any(file.startswith("<string") for file in linecache.cache)
    gc.collect()
    assert not any(file.startswith("<string") for file in linecache.cache)


def test_code_of_exec_is_not_taken_for_the_text_behind_c(tmp_path: Path) -> None:
    (tmp_path / "text.py").write_text("""
import quadrants as qd
qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
@qd.kernel
def answer() -> qd.i32:
    return 1
""")
    host = f"""
scope = {{}}
exec(open({str(tmp_path / "text.py")!r}).read(), scope)
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
