"""Kernels and funcs are copied and pickled by reference, as functions are."""

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import quadrants as qd

WORK = """
import quadrants as qd

@qd.kernel
def scale(n: qd.i32) -> qd.i32:
    return 2 * n

@qd.func
def inner(n):
    return n

@qd.real_func
def outer(n: qd.i32) -> qd.i32:
    return n

@qd.pyfunc
def both(n):
    return n

@qd.dataclass
class Ray:
    origin: qd.types.vector(3, qd.f32)
    time: qd.f32

    @qd.func
    def at(self):
        return self.origin * self.time

@qd.data_oriented
class Solver:
    def __init__(self, factor):
        self.factor = factor
        self.chosen = self.step

    @qd.kernel
    def step(self, n: qd.i32) -> qd.i32:
        return self.factor * n

    @qd.func
    def helper(self):
        return self.factor

    @staticmethod
    @qd.kernel
    def fixed() -> qd.i32:
        return 5

@qd.perf_dispatch(get_geometry_hash=lambda n: 0)
def fastest(n: qd.i32): ...

def begin():
    qd.init(arch=qd.cpu, cpu_max_num_threads=1, log_level="error")
"""


@qd.ad.torch_op(outputs="out")
@qd.kernel
def square(a: qd.types.ndarray(dtype=qd.f64), out: qd.types.ndarray(dtype=qd.f64)):
    for i in range(a.shape[0]):
        out[i] = a[i] ** 2


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "pickled_work.py").write_text(WORK)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "pickled_work", raising=False)
    import pickled_work

    pickled_work.begin()
    yield pickled_work
    qd.reset()


def through_pickle(value):
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("twin_of", [copy.copy, copy.deepcopy, through_pickle])
def test_functions_and_types_stay_what_they_are(work, twin_of):
    of_class = [work.Solver.step, work.Solver.helper, work.Solver.fixed]
    derived = [work.scale.grad, work.scale._tangent, work.Solver.step.grad]
    for value in [work.scale, work.inner, work.outer, work.both, work.Ray, work.fastest, square, *of_class, *derived]:
        assert twin_of(value) is value


def test_local_kernels_are_copied_but_not_pickled():
    @qd.kernel
    def local():
        pass

    assert copy.copy(local) is local and copy.deepcopy(local) is local
    with pytest.raises((pickle.PicklingError, AttributeError), match="local"):
        pickle.dumps(local)


@pytest.mark.parametrize("twin_of", [copy.copy, copy.deepcopy, through_pickle])
def test_kernels_of_objects_go_with_their_objects(work, twin_of):
    solver = work.Solver(3)
    step = twin_of(solver.step)
    assert step(4) == 12 and (step == solver.step) == (twin_of is copy.copy)
    twin = twin_of(solver)
    twin.factor = 5
    assert twin.step(4) == 20 and twin.chosen(4) == (12 if twin_of is copy.copy else 20)


POOLS = {
    "multiprocessing": """
import multiprocessing
with multiprocessing.get_context("spawn").Pool(1, pickled_work.begin) as pool:
    print(pool.map(pickled_work.scale, [1, 2]), pool.map(pickled_work.Solver(3).step, [4]))
""",
    "joblib": """
import joblib
from joblib.externals.loky import get_reusable_executor
executor = get_reusable_executor(1, initializer=pickled_work.begin)
jobs = [joblib.delayed(pickled_work.scale)(n) for n in (1, 2)], [joblib.delayed(pickled_work.Solver(3).step)(4)]
print(*([executor.submit(function, *given).result() for function, given, _ in work] for work in jobs))
""",
}


@pytest.mark.parametrize("pool", POOLS)
def test_kernels_are_tasks_of_other_processes(work, tmp_path, pool):
    if pool == "joblib":
        pytest.importorskip("joblib")
    program = tmp_path / "main.py"
    program.write_text("import pickled_work\nif __name__ == '__main__':" + POOLS[pool].replace("\n", "\n    "))
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[2, 4] [12]\n"
