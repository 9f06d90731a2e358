"""The examples of many processes give what one process gives."""

import pytest
from rank_processes import run_ranks


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_heat_has_the_bits_of_one_process(ranks):
    [[alone]], [results] = run_ranks(1, ("heat", 24, 10)), run_ranks(ranks, ("heat", 24, 10))
    assert results == [alone] + [None] * (ranks - 1)
