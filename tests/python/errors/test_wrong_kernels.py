"""Hundreds of wrong kernels: each ends in a short message that points at the culprit, and none in anything else.

The bodies are paragraphs of the files in wrong_kernels/, with the culprit between « and »; `error_support` says what stands around them.
"""

import itertools
from pathlib import Path

import pytest
from error_support import mistake, place_complaint, report_complaint

import quadrants as qd

WRITTEN = [body for file in sorted(Path(__file__).parent.glob("wrong_kernels/*.txt")) for body in file.read_text().strip().split("\n\n")]

OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|", "^", "@", "<", "==", "and"]
OPERATIONS = [f"x = «n {op} {right}»" for op, right in itertools.product(OPERATORS, ["'text'", "field1", "g", "func2", "qd"])]
FUNCTIONS = ["sqrt", "sin", "exp", "log", "tan", "floor", "atan2", "pow", "raw_div", "bit_shr", "cast"]
CALLS = [f"x = «qd.{name}({arguments})»" for name, arguments in itertools.product(FUNCTIONS, ["", "field1", "'text'", "n, n, n, n"])]

CORPUS = list(dict.fromkeys([*WRITTEN, *OPERATIONS, *CALLS]))


@pytest.fixture(autouse=True)
def runtime():
    yield
    qd.reset()


@pytest.mark.parametrize("body", CORPUS, ids=[body.splitlines()[-1] for body in CORPUS])
def test_mistake_is_reported_where_it_is(body):
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    error, place = mistake(body)
    assert isinstance(error, qd.QuadrantsCompilationError), repr(error)
    assert report_complaint(error) == ""
    assert place_complaint(error, place) == ""


def test_the_interpreter_raises_exceptions_of_ours_too():
    qd.init(arch=qd.python, log_level="error")
    errors = [(body, mistake(body)[0]) for body in CORPUS]  # some are correct Python, and run
    assert [(body, error) for body, error in errors if error and not isinstance(error, qd.QuadrantsCompilationError)] == []
    assert sum(1 for _, error in errors if error is None) < len(CORPUS) // 20
