"""The examples of many processes give what one process gives."""

import subprocess
import sys

import numpy as np
import pytest
from rank_processes import get_environment, run_groups, run_ranks


def test_heat_and_fluid_have_the_bits_of_one_process_with_up_to_eight_ranks():
    numbers = range(1, 9)
    heat, fluid = zip(*run_groups(numbers, ("heat", 24, 10), ("lattice_boltzmann", 24, 10)), strict=True)
    for results in (heat, fluid):
        [alone] = results[0]
        assert list(results) == [[alone] + [None] * (ranks - 1) for ranks in numbers]


def test_vortices_decay_as_theory_says():
    script = "import quadrants as qd, lattice_boltzmann as example; qd.distributed.init(); print(abs(example.run(48, 100)).max())"
    done = subprocess.run([sys.executable, "-c", script], env=get_environment(), capture_output=True, text=True, timeout=100, check=True)
    assert float(done.stdout) == pytest.approx(0.05 * np.exp(-2 * 0.05 * (2 * np.pi / 48) ** 2 * 100), rel=0.01)


def test_particles_move_between_parts_and_none_is_lost():
    [[alone]] = run_ranks(1, ("migrating_particles", 32, 300))
    [results] = run_ranks(2, ("migrating_particles", 32, 300))
    assert results[0] == results[1] and results[0]["moved"] > 20
    assert results[0]["count"] == results[0]["end_count"] == alone["count"]
    assert results[0]["energy"] == pytest.approx(alone["energy"], rel=1e-12)
    assert results[0]["end_energy"] == pytest.approx(alone["end_energy"], rel=1e-6)


def test_training_in_parallel_finds_what_one_process_finds():
    [[alone]], [results] = run_ranks(1, ("data_parallel", 16, 30)), run_ranks(2, ("data_parallel", 16, 30))
    assert results[0] == results[1] == pytest.approx(alone, rel=1e-9)
    assert abs(alone[0] - 4.0) < 0.5


@pytest.mark.parametrize("engine", ["joblib", "dask", "ray"])
def test_a_sweep_in_other_processes(engine):
    pytest.importorskip({"dask": "distributed"}.get(engine, engine))
    script = (
        "import sweep\nif __name__ == '__main__':\n"
        "    given = [0.0, 0.05], [30.0, 35.0, 40.0, 45.0, 50.0]\n"
        f"    print(sweep.run({engine!r}, *given) == sweep.run('none', *given) == [(0.0, 45.0), (0.05, 40.0)])"
    )
    done = subprocess.run([sys.executable, "-c", script], env=get_environment(), capture_output=True, text=True, timeout=200)
    assert done.stdout.splitlines()[-1:] == ["True"], done.stdout + done.stderr


def test_a_saved_state_goes_on_with_any_number_of_ranks(tmp_path):
    path = str(tmp_path / "state")
    whole, halves = run_ranks(2, ("heat", 24, 8), ("heat_in_two_runs", path, 4))
    [resumed] = run_ranks(3, ("resume", path, 4))
    assert halves[0] == resumed[0] == whole[0]
    assert [file.name for file in tmp_path.iterdir()] == ["state"]


def test_a_file_that_does_not_fit_is_an_exception_on_every_rank(tmp_path):
    [results] = run_ranks(2, ("bad_files", str(tmp_path)))
    for messages in results:
        for message, text in zip(messages, ("rank 0: [Errno 2]", "No such file", "no array 'y'", "rank 0: [Errno 2]"), strict=True):
            assert text in message
