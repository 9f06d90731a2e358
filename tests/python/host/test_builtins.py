"""The functions of the language in Python scope have the meaning that the table of operators states."""

import re
from pathlib import Path

import numpy as np
import pytest

from quadrants._language.builtins import TABLE

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
