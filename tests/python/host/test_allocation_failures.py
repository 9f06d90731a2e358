"""A sample of what `python -m tests.python.host.allocation_failures` goes through."""

import os
import shutil

import pytest
from allocation_failures import PROGRAMS, build_library, sweep

pytestmark = pytest.mark.skipif(
    bool(os.environ.get("LD_PRELOAD")) or not (shutil.which("clang-22") or shutil.which("cc")), reason="allocations cannot be failed here"
)

# Positions of each program: those that compile have thousands.
STRIDES = {
    "init": 19,
    "reinit": 19,
    "load": 17,
    "first": 2900,
    "compile": 2900,
    "launch": 3,
    "tape": 5,
    "fields": 11,
    "ndarrays": 3,
    "errors": 1500,
}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build_library(tmp_path_factory.mktemp("library"))


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_failed_allocation_is_a_memory_error_and_the_process_goes_on(program, library):
    outcomes = list(sweep(library, program, STRIDES[program], processes=2, offset=STRIDES[program] // 2))
    assert len(outcomes) >= 3
    assert [outcome for outcome in outcomes if not outcome.is_right] == []
