"""Which lines of kernels have run: probes, the data file, the pytest plugin."""

import os
import sqlite3
import subprocess
import sys

import pytest

PROGRAM = """
import quadrants as qd

qd.init(arch=qd.cpu, log_level="error", OPTIONS)
x = qd.field(qd.f32, 8, needs_grad=True)
out = qd.field(qd.f32, (), needs_grad=True)

@qd.func
def double(a):
    if a > 100:
        a = 0.0
    return a * 2

@qd.kernel
def fill(n: qd.i32, wide: qd.i32):
    for i in range(n):
        if i == 3:
            continue
        x[i] = double(i)
    if wide:
        for i in range(8):
            x[i] += 1
    while n < 0:
        print(n)
    for i in x:
        out[None] += x[i] * x[i]

@qd.kernel
def never(n: qd.i32) -> qd.i32:
    if n > 3:
        return 1
    elif n > 2:
        return 2
    else:
        n2 = n
    return n2

@qd.kernel
def unused():
    x[0] = 1

fill(5, 0)
fill.grad(5, 0)
"""
LATER = """
import os
os.chdir("/")
qd.init(arch=qd.cpu, log_level="error")
x, out = qd.field(qd.f32, 8), qd.field(qd.f32, ())
never(1)
"""


def run(folder, text, **environment):
    """Runs a program in a folder; gives the lines, by their text, and the arcs of the data file that it left, or None."""
    path = folder / "program.py"
    path.write_text(text)
    given = {name: value for name, value in os.environ.items() if name not in ("QD_KERNEL_COVERAGE", "_QD_KCOV_ARC")}
    process = subprocess.run([sys.executable, path.name], cwd=folder, env=given | environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    files = list(folder.glob("_qd_kcov.*"))
    if not files:
        return None, None, process
    data = sqlite3.connect(files[0])
    assert data.execute("SELECT path FROM file").fetchall() == [(str(path),)]
    bits = data.execute("SELECT numbits FROM line_bits").fetchone() or (b"",)
    arcs = {tuple(row) for row in data.execute("SELECT fromno, tono FROM arc")}
    lines = [number * 8 + bit for number, byte in enumerate(bits[0]) for bit in range(8) if byte >> bit & 1]
    source = text.splitlines()
    return [source[line - 1].strip() for line in lines], arcs, process


def test_lines_that_ran_are_recorded_over_several_runtimes(tmp_path):
    lines, arcs, _ = run(tmp_path, PROGRAM.replace("OPTIONS", "") + LATER, QD_KERNEL_COVERAGE="1")
    body = PROGRAM[PROGRAM.index("    if a > 100") : PROGRAM.index("@qd.kernel\ndef unused")].splitlines()
    unreached = {"a = 0.0", "x[i] += 1", "print(n)", "return 1", "return 2", "for i in range(8):"}
    code = [line.strip() for line in body if line.strip() and not line.lstrip().startswith(("@", "def", "else"))]
    assert lines == [line for line in code if line not in unreached]
    assert arcs == set()


def test_branches_are_recorded_on_demand(tmp_path):
    lines, arcs, _ = run(tmp_path, PROGRAM.replace("OPTIONS", "") + LATER, QD_KERNEL_COVERAGE="1", _QD_KCOV_ARC="1")
    assert lines == []
    numbers = {line.strip(): number for number, line in enumerate(PROGRAM.splitlines(), 1)}
    at = numbers.__getitem__
    assert {(at("if a > 100:"), at("return a * 2")), (at("if i == 3:"), at("continue")), (at("continue"), at("for i in range(n):"))} <= arcs
    assert {(at("elif n > 2:"), at("n2 = n")), (at("n2 = n"), at("return n2")), (at("while n < 0:"), at("for i in x:"))} <= arcs
    branches = {(at("if a > 100:"), at("a = 0.0")), (at("while n < 0:"), at("print(n)")), (at("if n > 3:"), at("return 1"))}
    assert not branches & arcs


def test_a_data_file_is_one_of_coverage_py(tmp_path):
    coverage = pytest.importorskip("coverage")
    lines, _, _ = run(tmp_path, PROGRAM.replace("OPTIONS", ""), QD_KERNEL_COVERAGE="1")
    data = coverage.CoverageData(str(next(tmp_path.glob("_qd_kcov.*"))))
    data.read()
    assert len(data.lines(str(tmp_path / "program.py"))) == len(lines)


def test_nothing_is_recorded_unasked(tmp_path):
    text = (
        PROGRAM.replace("OPTIONS", "")
        + "\nimport sys\nassert 'quadrants._session.coverage' not in sys.modules and '_qd_cov' not in globals()\n"
    )
    assert run(tmp_path, text)[0] is None


def test_used_up_probes_are_told_of_once(tmp_path):
    lines, _, process = run(tmp_path, PROGRAM.replace("OPTIONS", ""), QD_KERNEL_COVERAGE="1", QD_COVERAGE_MAX_PROBES="2")
    assert process.stderr.count("probes for lines of kernels are used up") == 1
    assert "while n < 0:" in lines and "return a * 2" not in lines


@pytest.mark.parametrize("is_active, given, expected", [(True, None, "1"), (True, "0", "0"), (False, None, None)])
def test_the_plugin_records_beside_pytest_cov(monkeypatch, is_active, given, expected):
    from quadrants import pytest_plugin

    class Config:
        pluginmanager = type("Plugins", (), {"hasplugin": staticmethod(lambda name: is_active and name == "_cov")})
        getoption = staticmethod(lambda name, default: {"cov_branch": True}.get(name, default))

    for name in ("QD_KERNEL_COVERAGE", "_QD_KCOV_ARC"):
        monkeypatch.delenv(name, raising=False)
    if given is not None:
        monkeypatch.setenv("QD_KERNEL_COVERAGE", given)
    pytest_plugin.pytest_configure(Config)
    assert os.environ.get("QD_KERNEL_COVERAGE") == expected
    assert os.environ.get("_QD_KCOV_ARC") == ("1" if is_active else None)
    for name in ("QD_KERNEL_COVERAGE", "_QD_KCOV_ARC"):
        os.environ.pop(name, None)
