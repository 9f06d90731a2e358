"""Lines of the log that a compilation writes for whoever asks for level debug."""

from collections.abc import Iterator

import pytest

import quadrants as qd


@pytest.fixture
def debug_log() -> Iterator[None]:
    """Starts the compiled backend with a log of everything."""
    qd.init(arch=qd.cpu, offline_cache=False, log_level="debug")
    yield
    qd.reset()


@pytest.mark.usefixtures("debug_log")
def test_operators_that_mixed_signs_change_are_noted_once_per_line(capfd: pytest.CaptureFixture[str]):
    @qd.kernel
    def k(a: qd.i32, b: qd.u32, c: qd.u16) -> qd.u32:
        x = a // b + a % b
        y = qd.max(a, b)
        small = a < b
        return x + y + qd.cast(small, qd.u32) + a * b + b // 2 + a // c + b % b

    k(-7, 2, 1)
    lines = [line for line in capfd.readouterr().err.splitlines() if "taken as unsigned" in line]
    assert [line.split("] '")[1].split("'")[0] for line in lines] == ["//", "%", "max", "<"]
    assert all("test_notes.py:" in line and "'i32' and 'u32'" in line for line in lines)
