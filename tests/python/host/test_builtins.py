"""The functions of the language in Python scope have the meaning that the table of operators states."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import quadrants as qd
from quadrants._language.builtins import TABLE
from quadrants.interpreter.intrinsics import BY_NAME

ROWS = re.findall(
    r'^QD_(UNARY|BINARY)\( ?(\w+), +(\w+), +\w+, +"(.*?)",', (Path(__file__).parents[3] / "src/ir/builtins.def").read_text(), re.MULTILINE
)
VALUES = {
    "Real": np.array([0.25, 0.5, 2.5, -0.75, -2.5, 0.0, np.inf, np.nan], np.float32),
    "Integer": np.array([1, 7, 0, 255, 2**30], np.int32),  # NumPy counts the bits of the magnitude, kernels those of the value
}
VALUES["Any"] = VALUES["Numeric"] = VALUES["Real"]


def test_the_table_is_read():
    assert len(ROWS) > 40


@pytest.mark.parametrize("kind, name, operand, meaning", [row for row in ROWS if row[1] in TABLE and row[3] != "-"], ids=lambda text: text)
def test_functions_mean_what_the_table_says(kind, name, operand, meaning):
    x = VALUES[operand]
    y = np.roll(x, 1)
    with np.errstate(all="ignore"):
        expected = eval(meaning)
    result = TABLE[name](x) if kind == "UNARY" else TABLE[name](x, y)
    assert np.array_equal(result, expected, equal_nan=True)


STATEMENTS = ("stream_parallel", "checkpoint", "graph_do_while", "graph_parallel", "graph_parallel_context", "is_differentiated")


def test_every_builtin_is_documented():
    for name, builtin in TABLE.items():
        assert builtin.name == name and len(builtin.__doc__) > 5


@pytest.mark.parametrize("name", [name for name, builtin in TABLE.items() if builtin.host], ids=str)
def test_the_meaning_in_python_scope_takes_the_parameters(name):
    fixed = TABLE[name].parameters.partition("*")[0].split()
    try:
        meaning = inspect.signature(TABLE[name].host)
    except ValueError:  # a class of Python, such as zip
        return
    meaning.bind(*fixed)
    meaning.bind(*(word for word in fixed if not word.endswith("?")))
    if not any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in meaning.parameters.values()):
        with pytest.raises(TypeError):
            meaning.bind(*fixed, "another")


BOUND = [name for name, builtin in TABLE.items() if not re.match(r"\*|x \*xs", builtin.parameters) and name not in STATEMENTS]


@pytest.mark.parametrize("name", BOUND)
def test_kernels_take_the_parameters(name):
    fixed = TABLE[name].parameters.partition("*")[0].split()
    qd.init(arch=qd.cpu, offline_cache=False)

    @qd.kernel
    def call(function: qd.template()):
        function(0, 1, 2, 3, 4)

    required = sum(not word.endswith("?") for word in fixed)
    count = f"{required}" if required == len(fixed) else f"{required} to {len(fixed)}"
    with pytest.raises(qd.QuadrantsTypeError, match=rf"qd\.{name}\(\) takes {count} arguments, got 5"):
        call(TABLE[name])


def test_the_interpreter_knows_every_builtin():
    atomics = {name for name in TABLE if name.startswith("atomic_")}
    assert set(TABLE) - set(BY_NAME) == {*atomics, "graph_do_while"}
    assert set(BY_NAME) - set(TABLE) == {"Vector", "Matrix", "Struct"}


def test_the_type_stub_declares_the_parameters():
    declared = dict(
        re.findall(r"^def (\w+)\((.*)\) -> Any: \.\.\.$", (Path(qd.__file__).parent / "__init__.pyi").read_text(), re.MULTILINE)
    )
    for name in set(declared) & set(TABLE):
        assert re.findall(r"\*?\w+(?=:)", declared[name]) == list(map(str.strip, re.findall(r"\*?\w+(?=[?\s]|$)", TABLE[name].parameters)))
    assert "atomic_add" in declared


@pytest.mark.parametrize(
    "call",
    [
        lambda v: qd.abs(v, v),
        lambda v: qd.sin(1.0, v),
        lambda v: qd.floor(v, qd.i32, v),
        lambda v: qd.pow(v, v, v),
        lambda v: qd.select(v, v),
        lambda v: qd.cast(v),
    ],
)
def test_other_numbers_of_operands_are_refused_in_python(call):
    vector = qd.Vector([1.5, -2.0])
    with pytest.raises(TypeError, match=r"takes \d arguments, got \d"):
        call(vector)
    assert list(vector) == [1.5, -2.0]
