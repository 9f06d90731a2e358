"""How errors look, and how the source of a function is found."""

import linecache
import textwrap

import pytest
from language_support import define

import quadrants as qd
from quadrants._base import errors as _errors
from quadrants._base.source import get_source


def compiled(text, name="f", file="<test source>"):
    text = textwrap.dedent(text)
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    scope = {"qd": qd, "__name__": "test"}
    exec(compile(text, file, "exec"), scope)
    return scope[name]


def test_a_message_shows_place_line_and_caret():
    f = compiled("def f(a):\n\treturn a + \N{GREEK SMALL LETTER BETA}\n")
    node = get_source(f).tree.body[0].value
    place = ("<test source>", "f", node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
    error = _errors.compile_error("QuadrantsTypeError", "no such operator", [place])
    assert isinstance(error, qd.QuadrantsTypeError) and isinstance(error, TypeError)
    assert str(error).split("\n") == [
        'File "<test source>", line 2, in f:',
        "    return a + \N{GREEK SMALL LETTER BETA}",
        "           ^^^^^",
        "no such operator",
    ]
    assert (error.file, error.line, error.col, error.end_line, error.kernel_name) == ("<test source>", 2, 8, 2, "f")
    assert error.source == "\treturn a + \N{GREEK SMALL LETTER BETA}"


def test_long_chains_and_long_statements_stay_within_twelve_lines():
    compiled("def f(a):\n" + "    x = (a +\n" + "         a +\n" * 9 + "         a)\n")
    frames = [("<test source>", f"f{i}", 2, 4, 12, 11) for i in range(9)]
    lines = str(_errors.compile_error("QuadrantsSyntaxError", "text", frames[:1])).split("\n")
    assert len(lines) <= 12 and lines[-1] == "text"
    short = [("<test source>", f"f{i}", 1, 0, 1, 9) for i in range(9)]
    lines = str(_errors.compile_error("QuadrantsSyntaxError", "text", short)).split("\n")
    assert len(lines) <= 12 and "in f0:" in lines[0] and "in f8:" in lines[-4]


def test_statements_with_a_body_show_their_header():
    compiled("def f(a):\n    for i in range(3):\n        a = 1\n        a = 2\n")
    error = _errors.compile_error("QuadrantsSyntaxError", "text", [("<test source>", "f", 2, 4, 4, 13)])
    assert str(error).split("\n")[1:] == ["    for i in range(3):", "    ^^^^^^^^^^^^^^^^^^", "text"]


def test_run_time_errors_are_assertions():
    error = _errors.runtime_error(([("out of range", None, ())], b""), [])
    assert isinstance(error, qd.QuadrantsAssertionError) and isinstance(error, AssertionError) and str(error) == "out of range"


SOURCES = {
    "plain": "def f(a):\n    return a\n",
    "nested": "def outer():\n    def f(a):\n        return a\n    return f\nf = outer()\n",
    "method": "class C:\n    @staticmethod\n    def f(a):\n        return a\nf = C.f\n",
    "string at the margin": "def f(a):\n    x = '''\nmargin\n'''\n    return a\n\nx = 1\n",
    "indented string at the margin": "if True:\n    def f(a):\n        x = '''\nmargin'''\n        return a\n    y = 2\n",
    "bracket at the margin": "def f(\n    a,\n):\n    return [a,\n1]\n",
    "comment at the margin": "def f(a):\n    x = 1\n# note\n    return a\nz = 3\n",
    "one line": "def f(a): return a\ny = 1\n",
    "decorated": "def deco(*a):\n    return lambda g: g\n@deco(\n    1,\n)\n@deco()\ndef f(a):\n    return a\n",
    "last line without end": "def f(a):\n    return a",
    "continued": "def f(a):\n    return a + \\\n1\n",
    "tabs": "if True:\n\tdef f(a):\n\t\treturn a\n\tx = 1\n",
}


@pytest.mark.parametrize("text", SOURCES.values(), ids=SOURCES.keys())
def test_source_has_the_places_of_the_file(text):
    f = compiled(text)
    source = get_source(f)
    assert source.tree.name == "f"
    lines = text.split("\n")
    returned = source.tree.body[-1]
    assert lines[returned.lineno - 1][returned.col_offset :].startswith("return")


def test_source_is_found_again_when_the_file_changes(tmp_path):
    file = tmp_path / "module.py"
    for value in (1, 22):
        file.write_text(f"def f():\n    return {value}\n")
        scope = {}
        exec(compile(file.read_text(), str(file), "exec"), scope)
        assert get_source(scope["f"]).tree.body[0].value.value == value


def test_functions_without_source_are_refused():
    scope = {}
    exec("def f(a):\n    return a\n", scope)
    with pytest.raises(OSError, match="Cannot find source code for Object"):
        get_source(scope["f"])
    with pytest.raises(qd.QuadrantsSyntaxError, match='Unsupported node "Lambda"'):
        get_source(lambda: 0, is_kernel=True)


TOP = "@qd.func(requires_top_level=True)\ndef op():\n    pass\n"
REFERENCE = "@qd.real_func\ndef g(x: qd.types.ref(qd.i32)):\n    x = 1\n"


@pytest.mark.parametrize(
    "preamble, body, kind, text",
    [
        (TOP, "if n > 0:\n        op()", qd.QuadrantsSyntaxError, "`op` is decorated with requires_top_level=True and must be called at"),
        (REFERENCE, "y = 1.5\n    g(y)", qd.QuadrantsTypeError, "a variable of type 'i32' is expected"),
        (REFERENCE, "g(n)", qd.QuadrantsTypeError, "a variable of type 'i32' is expected"),
        ("@qd.real_func\ndef g(x: qd.i32):\n    return x\n", "g(n)", qd.QuadrantsSyntaxError, "must be annotated with a return type"),
        (
            "@qd.real_func\ndef g(x: qd.i32) -> qd.i32:\n    pass\n",
            "y = g(n)",
            qd.QuadrantsTypeError,
            "Function has a return type but does not have a return statement",
        ),
    ],
)
def test_calls_that_a_func_refuses(preamble, body, kind, text):
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    scope = define(f"{preamble}@qd.kernel\ndef k(n: qd.i32):\n    {body}\n")
    with pytest.raises(kind) as caught:
        scope["k"](1)
    assert text in str(caught.value)
    qd.reset()


FINAL = "import dataclasses, typing\n"
CONSTANTS = [
    ("@dataclasses.dataclass\nclass A:\n    n: typing.Final[int]\n", TypeError, "A is not frozen"),
    (
        "@dataclasses.dataclass(frozen=True)\nclass A:\n    n: typing.Final[list]\n",
        TypeError,
        "cannot be baked as a Quadrants compile-time",
    ),
    ("@dataclasses.dataclass(frozen=True)\nclass A:\n    n: typing.Final\n", TypeError, "cannot be baked as a Quadrants compile-time"),
]


@pytest.mark.parametrize("preamble, kind, text", CONSTANTS)
def test_dataclasses_that_cannot_be_arguments_are_refused(preamble, kind, text):
    with pytest.raises(kind) as caught:
        define(f"{FINAL}{preamble}@qd.kernel\ndef k(a: A):\n    pass\n")
    assert text in str(caught.value)


DEBUGGERS = ["breakpoint()", "pdb.set_trace()", "pdb.Pdb().set_trace()", "sys.breakpointhook()", "code.interact()"]


@pytest.mark.parametrize("call", DEBUGGERS)
def test_debuggers_in_compiled_kernels_are_sent_to_the_interpreter(call):
    qd.init(arch=qd.cpu, offline_cache=False)
    text = f"import code, pdb, sys\ndef k(n: qd.i32) -> qd.i32:\n    m = n + 1\n    {call}\n    return m\n"
    with pytest.raises(qd.QuadrantsSyntaxError, match=r"qd.init\(arch=qd.python\).* \[QD210\]") as caught:
        qd.kernel_from_source(text)(1)
    assert caught.value.line == 4
    qd.reset()
