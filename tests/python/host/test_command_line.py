"""`python -m quadrants`: pages of errors, examples, measurements, and the port of programs for other packages."""

import ast
import os
import re
import runpy
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

import quadrants as qd
from quadrants._command.port import PACKAGES, Finding, port, read_advice

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["quadrants", *arguments])
        monkeypatch.chdir(tmp_path)
        runpy.run_module("quadrants", run_name="__main__")
        return capsys.readouterr().out

    yield run
    qd.reset()


def test_without_a_command_all_are_listed(run):
    text = run()
    assert all(f"\n    {name} " in text for name in ("diagnose", "env", "explain", "cache", "bench", "examples", "port"))


@pytest.mark.parametrize("code", ["QD305", "qd305", "305", "[QD305]", "QD305,"])
def test_the_page_of_an_error(run, code):
    assert run("explain", code) == (ROOT / "docs/errors/QD305.md").read_text().rstrip() + "\n"


def test_the_version(run, capsys):
    with pytest.raises(SystemExit) as ended:
        run("--version")
    assert ended.value.code == 0 and capsys.readouterr().out == f"quadrants {qd.__version_str__}\n"


def test_a_terminal_without_our_signs():
    command = [sys.executable, "-m", "quadrants", "examples"]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert result.returncode == 0 and "iterations of z? + c" in result.stdout, result.stderr


def test_all_codes_are_listed(run):
    lines = run("explain").splitlines()
    assert "QD305  A condition that is neither true nor false" in lines
    assert len(lines) == len(list((ROOT / "docs/errors").glob("QD*.md")))


def test_an_unknown_code(run):
    with pytest.raises(SystemExit, match="there is no code QD309X; similar ones: QD309"):
        run("explain", "QD309X")


def test_tracebacks_name_the_page():
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")

    @qd.kernel
    def wrong(n: qd.i32):
        n = 2

    for call, code in ((lambda: wrong(1), "QD103"), (lambda: wrong("a"), "QD702"), (lambda: wrong(), "QD701")):
        with pytest.raises(Exception, match=code) as caught:
            call()
        lines = traceback.format_exception(caught.value)
        assert lines[-1].strip() == f"`python -m quadrants explain {code}` shows an example and its remedy"
        assert "explain" not in str(caught.value)
    qd.reset()


def test_examples(run, tmp_path, monkeypatch):
    listed = run("examples")
    assert re.search(r"^julia +Julia set: iterations of", listed, re.MULTILINE) and len(listed.splitlines()) == 16
    assert run("examples", "sorting", "--copy", "mine.py").startswith("mine.py: run it with")
    assert (tmp_path / "mine.py").read_text() == (ROOT / "examples/gallery/sorting.py").read_text()
    with pytest.raises(SystemExit, match="mine.py exists already"):
        run("examples", "sorting", "--copy", "mine.py")
    with pytest.raises(SystemExit, match="--copy needs the name of an example"):
        run("examples", "--copy", "mine.py")
    with pytest.raises(SystemExit, match="there is no example 'sort'; did you mean 'sorting'"):
        run("examples", "sort")
    monkeypatch.setenv("QD_GUI", "file")
    monkeypatch.setenv("QD_GUI_FRAMES", "1")
    run("examples", "sorting")
    assert (tmp_path / "sorting.gif").exists()


def test_measurements(run, monkeypatch):
    from quadrants._command import bench

    monkeypatch.setattr(bench, "_SIZE", 1 << 12)
    lines = run("bench").splitlines()
    assert lines[0] == f"arch={qd.cpu.name}"
    assert lines[3].startswith("call of an empty kernel") and lines[3].endswith(" µs")
    assert re.fullmatch(r"sum of x \* x +\d+\.\d\d ms +\d+\.\d\d ms +\d+\.\d", lines[-2])


def test_files_that_cannot_be_written(run, tmp_path):
    with pytest.raises(SystemExit, match=r"cannot write 'missing/a.py': No such file or directory; give a path in a folder that exists"):
        run("examples", "sorting", "--copy", "missing/a.py")
    (tmp_path / "a.py").write_text("import taichi as ti\n")
    with pytest.raises(SystemExit, match="cannot write 'missing/b.py'"):
        run("port", "a.py", "--out", "missing/b.py")


def test_diagnosis_and_cache(run):
    assert "quadrants: " in run("diagnose") and "entries" in run("cache", "info")


def test_a_reader_that_closes_its_end():
    command = f"{sys.executable} -m quadrants explain | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    assert (done.stdout.splitlines()[0][:5], done.stderr) == ("QD101", "")


TAICHI = """import taichi as ti
import taichi.math as tm
from taichi.math import vec2, vec9

ti.init(arch=ti.opengl)
x = ti.field(ti.f32, 4)
ü = ti.Vector([1, 2]); video = ti.tools.VideoManager("ti.a")
window = ti.ui.Window("a", (3, 4))


@ti.kernel
def k(a: ti.types.ndarray()):
    for i in x:  # ti.sqrt
        x[i] = tm.sin(1.0) + ti.sqtr(2) + tm.sine(1) + other.ti.f + x.ti
"""


def test_names_of_taichi():
    text, findings = port(TAICHI)
    kept = ("ti.sqrt", '"ti.a"', "other.ti.f", "x.ti")
    expected = TAICHI.replace("taichi", "quadrants").replace("as ti\n", "as qd\n").replace(" ti.", " qd.").replace("(ti.", "(qd.")
    expected = expected.replace("@ti.", "@qd.").replace("=ti.", "=qd.").replace("# qd.sqrt", "# ti.sqrt").replace("\nti.", "\nqd.")
    assert text == expected and all(each in text for each in kept)
    assert [(line, name) for line, name, _ in findings] == [
        (3, "ti.math.vec9"), (5, "ti.opengl"), (7, "ti.tools.VideoManager"), (8, "ti.ui"), (14, "ti.math.sine"), (14, "ti.sqtr"),
    ]  # fmt: skip
    assert findings[2].advice == "use qd.tools.VideoWriter(filename, fps)" and findings[5].advice.endswith("similar: qd.sqrt")


def test_names_of_numba_and_warp_are_listed():
    text = "from numba import njit, cuda\nimport numba as nb, warp as wp\n@njit\ndef f(x): nb.prange(3); cuda.grid(1)\nwp.tid(); wp.odd()\n"
    ported, findings = port(text)
    assert ported == text
    assert findings[2] == Finding(3, "numba.njit", read_advice("numba")["njit"])
    assert [(each.line, each.name) for each in findings] == [
        (1, "numba.cuda"), (1, "numba.njit"), (3, "numba.njit"), (4, "numba.cuda.grid"), (4, "numba.prange"), (5, "wp.odd"), (5, "wp.tid"),
    ]  # fmt: skip
    assert findings[0].advice == findings[5].advice == "there is no counterpart in the table"


def test_files_are_ported(run, tmp_path):
    (tmp_path / "a.py").write_text("import taichi as ti\nti.ui\n")
    assert run("port", "a.py").splitlines() == [
        f"a.py:2: ti.ui: {read_advice('taichi')['ui']}", "a_quadrants.py: written; 1 place needs a hand",
    ]  # fmt: skip
    assert (tmp_path / "a_quadrants.py").read_text() == "import quadrants as qd\nqd.ui\n"
    (tmp_path / "b.py").write_text("import numpy\n")
    assert run("port", "b.py", "--out", "c.py") == "b.py: nothing to rename; 0 places need a hand\n" and not (tmp_path / "c.py").exists()
    (tmp_path / "d.py").write_text("def (")
    for name in ("d.py", "missing.py"):
        with pytest.raises(SystemExit, match=f"{name} cannot be read as a Python program"):
            run("port", name)


SOURCES = {
    "a mark of the byte order": "\ufeffimport {0} as {1}\n".encode(),
    "another encoding": "# coding: latin-1\nimport {0} as {1}\nname = 'é'\n".encode("latin-1"),
    "ends of lines": b"import {0} as {1}\r\n{1}.sync()\r\n",
}


@pytest.mark.parametrize("what", SOURCES)
def test_ported_files_keep(what, run, tmp_path):
    source, renamed = (SOURCES[what].replace(b"{0}", old).replace(b"{1}", new) for old, new in ((b"taichi", b"ti"), (b"quadrants", b"qd")))
    (tmp_path / "a.py").write_bytes(source)
    run("port", "a.py")
    assert (tmp_path / "a_quadrants.py").read_bytes() == renamed


@pytest.mark.parametrize("text", ["x = '\0'", "x = " + "(" * 3000 + ")" * 3000, "# coding: no-such"])
def test_files_that_python_cannot_read_are_refused(text, run, tmp_path):
    (tmp_path / "a.py").write_text(text)
    with pytest.raises(SystemExit, match="a.py cannot be read as a Python program"):
        run("port", "a.py")


def test_expressions_that_are_too_deep_for_python(run, tmp_path, monkeypatch):
    def parse(text):  # the depth at which Python's own parser ends differs between its versions
        raise RecursionError("maximum recursion depth exceeded during ast construction")

    (tmp_path / "a.py").write_text("x = 1 + 1")
    monkeypatch.setattr(ast, "parse", parse)
    with pytest.raises(SystemExit, match="a.py cannot be read as a Python program: maximum recursion depth"):
        run("port", "a.py")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_row_of_the_guide_is_read(package):
    page = (ROOT / f"docs/guide/from_{package}.md").read_text()
    rows = page.partition("\n| --- | --- |\n")[2].split("\n\n")[0].strip().splitlines()
    advice = read_advice(package)
    assert len(rows) > 15 and rows == [f"| `{PACKAGES[package]}.{name}` | {each} |" for name, each in advice.items()]


@pytest.mark.parametrize("package", PACKAGES)
def test_advice_names_what_exists(package):
    named = {name for advice in read_advice(package).values() for name in re.findall(r"\bqd(?:\.\w+)+", advice)}
    for name in sorted(named):
        found = qd
        for part in name.split(".")[1:]:
            found = getattr(found, part)
