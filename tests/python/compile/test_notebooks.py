"""Kernels in notebooks and in IPython: what these do to syntax trees, cells with magics, kernels after an exception."""

import ast
import os
import pty
import subprocess
import sys
import threading

import numpy as np
import pytest

import quadrants as qd

INDEX_ERROR = "import numpy as np\nx = np.zeros(3)\nx[3 + 1]"
ADD = "@qd.kernel\ndef add(a: qd.i32, b: qd.i32) -> qd.i32:\n    return a + b\n"
BEGIN = "import quadrants as qd\nqd.init(arch=qd.{arch}, offline_cache=False, log_level='error')"


@pytest.fixture
def linked_nodes():
    """What formatters of tracebacks do: each node, also those that Python shares between all trees, leads to its parent."""
    text = "\n".join(f"def f{n}(a, b):\n    x = [a {op} b, -a, not b, a < b]\n    x[0] += 1" for n, op in enumerate("+-*/%&|^"))
    tree = ast.parse(text)
    touched = []
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            child.parent = node
            child.lock = threading.Lock()  # neither copied nor pickled
            touched.append(child)
    yield tree
    for node in touched:
        vars(node).pop("parent", None), vars(node).pop("lock", None)


@pytest.mark.parametrize("arch", ["cpu", "python"])
def test_attributes_of_others_on_syntax_trees_mean_nothing(linked_nodes, arch):
    qd.init(arch=getattr(qd, arch), offline_cache=False)
    out = qd.field(qd.i32, 4)

    @qd.func
    def twice(x):
        y = x
        y += x
        return y

    @qd.kernel
    def work(n: qd.i32) -> qd.i32:
        total = 0
        qd.loop_config(serialize=True)
        for i in range(n):
            if -i < 3 and not i == 7:
                out[i] = twice(i) * 2 - 1
            total = total + i % 3 | 1 ^ (n & 2)
        match n:
            case 3:
                total += 1
            case _:
                pass
        return total

    def expected(n):
        total = 0
        for i in range(n):
            total = total + i % 3 | 1 ^ (n & 2)
        return total + (n == 3)

    assert work(4) == expected(4) and work(3) == expected(3)
    assert np.array_equal(out.to_numpy(), 4 * np.arange(4) - 1)
    qd.reset()


def test_coverage_of_a_kernel_among_linked_trees(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import ast, threading\nfor node in ast.walk(ast.parse('x = a + b')):\n"
        "    for child in ast.iter_child_nodes(node): child.parent, child.lock = node, threading.Lock()\n"
        + BEGIN.format(arch="cpu") + "\n" + ADD + "print(add(2, 3))\n"
    )  # fmt: skip
    environment = {**os.environ, "QD_KERNEL_COVERAGE": "1"}
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60, env=environment, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "5\n"), done.stderr


def test_a_notebook():
    nbclient = pytest.importorskip("nbclient")
    from nbformat.v4 import new_code_cell, new_notebook

    cells = [
        (BEGIN.format(arch="cpu"), ""),
        (INDEX_ERROR, "IndexError"),
        (ADD + "print(add(2, 3))", "5\n"),
        (
            "%%time\n@qd.func\ndef twice(n):\n    return 2 * n\n@qd.kernel\ndef k(n: qd.i32) -> qd.i32:\n    return twice(n)\nprint(k(4))",
            "8\n",
        ),
        ("%%timeit -n 1 -r 1\n" + ADD + "print(add(3, 3))", "6\n"),
        ("%%capture shown\n" + ADD + "print(add(3, 4))", ""),
        ("print(shown)", "7\n"),
        ("%%prun -q\n" + ADD + "print(add(4, 4))", "8\n"),
        ("exec('''" + ADD + "print(add(4, 5))''')", "9\n"),
        ("%%time\n@qd.kernel\ndef wrong() -> qd.i32:\n    return missing\nwrong()", "QuadrantsNameError"),
        ("print(add(5, 5))", "10\n"),
    ]
    notebook = new_notebook(cells=[new_code_cell(text) for text, _ in cells])
    nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3", allow_errors=True).execute()
    for cell, (text, expected) in zip(notebook.cells, cells, strict=True):
        shown = "".join(output.get("text", output.get("ename", "")) for output in cell.outputs)
        assert expected in shown, f"{text}: {cell.outputs}"
        if expected == "QuadrantsNameError":
            assert "return missing\n           ^^^^^^^" in cell.outputs[-1]["evalue"]


def test_ipython_in_a_terminal(tmp_path):
    pytest.importorskip("IPython")
    lines = [*BEGIN.format(arch="cpu").splitlines(), *INDEX_ERROR.splitlines(), *ADD.splitlines(), "", "print('sum', add(2, 3))", "exit"]
    main, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "dumb", "IPYTHONDIR": str(tmp_path)}
    command = [sys.executable, "-m", "IPython", "--simple-prompt", "--no-banner", "--no-confirm-exit", "--colors=NoColor"]
    python = subprocess.Popen(command, stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, text=True)
    os.close(terminal)
    os.write(main, "".join(f"{line}\n" for line in lines).encode())
    try:
        shown, _ = python.communicate(timeout=60)
    finally:
        python.kill()
        os.close(main)
    assert "IndexError" in shown and "sum 5\n" in shown


def test_a_long_compile_is_reported_below_the_cell():
    nbclient = pytest.importorskip("nbclient")
    from nbformat.v4 import new_code_cell, new_notebook

    slow = "import time\n@qd.kernel\ndef slow() -> qd.i32:\n    qd.static(time.sleep(1.3))\n    return 1\nprint(slow())"
    quick = ADD + "print(add(2, 3))"
    begin = BEGIN.format(arch="cpu").replace("'error'", "'info'")
    cells = [new_code_cell(text) for text in (begin, slow, quick, "x = qd.field(qd.i32, shape=(2, 20))\nx[1, 0] = 7\nx")]
    nbclient.NotebookClient(notebook := new_notebook(cells=cells), timeout=60, kernel_name="python3").execute()
    texts = [[(output.get("name"), output.get("text", "")) for output in cell.outputs] for cell in notebook.cells]
    assert any(name == "stderr" and "compiling slow: 1." in text for name, text in texts[1]) and ("stdout", "1\n") in texts[1]
    assert texts[2] == [("stdout", "5\n")]
    table = notebook.cells[3].outputs[0]["data"]["text/html"]
    assert "qd.field of i32, shape (2, 20)" in table and "<td>1</td><td>7</td>" in table and "<td>…</td>" in table


def test_a_window_below_a_cell(monkeypatch):
    nbclient = pytest.importorskip("nbclient")
    from nbformat.v4 import new_code_cell, new_notebook

    monkeypatch.setenv("QD_GUI_FRAMES", "3")
    monkeypatch.delenv("QD_GUI", raising=False)
    loop = "gui, n = qd.GUI('t', 16), 0\nwhile gui.running:\n    gui.clear(n)\n    gui.show()\n    n += 1\nn"
    picture = "qd.tools.show(qd.field(qd.f32, shape=(4, 4)))"
    cells = [new_code_cell(text) for text in (BEGIN.format(arch="cpu"), loop, picture)]
    nbclient.NotebookClient(notebook := new_notebook(cells=cells), timeout=60, kernel_name="python3").execute()
    shown, number = notebook.cells[1].outputs
    assert "image/png" in shown["data"] and number["data"]["text/plain"] == "3"
    assert "image/png" in notebook.cells[2].outputs[0]["data"]
