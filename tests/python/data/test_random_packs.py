"""Random programs on quantized fields, compiled and interpreted, against all numbers that their types have."""

import pytest

import quadrants as qd
from tests.python.data import random_packs


@pytest.mark.parametrize("arch", ["cpu", "python"])
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_programs(arch, first):
    for seed in range(first, first + 10):
        qd.init(arch=arch)
        random_packs.run_program(seed)
    qd.reset()
