"""A second process with the real compiler: it loads what was compiled, or compiles again when anything that was read has changed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import quadrants as qd

MODULES = Path(qd.__file__).parents[1]

KERNELS = """
import numpy as np
import quadrants as qd

SCALE = 3

@qd.func
def stage(x):
    return x * SCALE

@qd.data_oriented
class Model:
    def __init__(self):
        self.x = qd.field(qd.f32, 8)
        self.gain = 2

    @qd.kernel
    def step(self, a: qd.types.ndarray(dtype=qd.f32, ndim=1)):
        for i in self.x:
            self.x[i] += stage(a[i]) * self.gain

@qd.kernel
def total(x: qd.template()) -> qd.f32:
    s: qd.f32 = 0
    for i in x:
        s += x[i]
    return s
"""
MAIN = """
import json, sys
from quadrants import _runtime
qd.init(offline_cache_file_path=sys.argv[1], **json.loads(sys.argv[2]))
model = Model()
model.step(np.arange(8, dtype=np.float32))
result = total(model.x)
with open("/proc/self/maps") as maps:
    has_compiler = any("_compiler" in line for line in maps)
print(json.dumps([result, _runtime.statistics()["compiled"], has_compiler]))
"""


@pytest.fixture
def run(tmp_path: Path) -> Any:
    def start(kernels: str = KERNELS, main: str = MAIN, modules: Path = MODULES, **options: Any) -> list[Any]:
        program = tmp_path / "program.py"
        program.write_text(kernels + main)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(modules), os.environ.get("PYTHONPATH", "")])}
        command = [sys.executable, str(program), str(tmp_path / "cache"), json.dumps(options)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return start


def test_second_process_does_not_load_the_compiler(run: Any) -> None:
    assert run() == [28 * 6, 2, True]
    assert run() == [28 * 6, 0, False]


def test_python_files_of_the_package_decide(run: Any, tmp_path: Path) -> None:
    copy = tmp_path / "modules" / "quadrants"
    shutil.copytree(MODULES / "quadrants", copy, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for module in (MODULES / "quadrants").glob("*.so"):
        (copy / module.name).symlink_to(module)
    assert [run(modules=copy.parent)[1] for _ in range(2)] == [2, 0]
    with (copy / "_language" / "builtins.py").open("a") as file:
        file.write("\n")
    assert [run(modules=copy.parent)[1] for _ in range(2)] == [2, 0]


def test_functions_in_an_archive_are_found_again(run: Any, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "modules.zip", "w") as archive:
        archive.writestr("archived.py", "import quadrants as qd\n@qd.func\ndef twice(x: qd.f32):\n    y: qd.f32 = x\n    return y * 2\n")
    program = """
import json, sys
sys.path.insert(0, sys.argv[1].replace("cache", "modules.zip"))
import quadrants as qd
from quadrants import _runtime
from archived import twice

@qd.kernel
def use(x: qd.f32) -> qd.f32:
    return twice(x)

qd.init(offline_cache_file_path=sys.argv[1])
print(json.dumps([use(3), _runtime.statistics()["compiled"]]))
"""
    assert [run(program, "") for _ in range(2)] == [[6, 1], [6, 0]]


def test_methods_of_matrices_need_no_compiler_either(run: Any) -> None:
    scaled = KERNELS.replace("s += x[i]", "s += x[i] * (qd.Matrix([[0.5, 0.0], [0.0, 0.25]]).inverse() @ qd.Vector([1.0, 0.0]))[0]")
    assert scaled != KERNELS
    assert run(scaled) == [28 * 12, 2, True]
    assert run(scaled) == [28 * 12, 0, False]


@pytest.mark.parametrize(
    ("before", "after", "result", "compiled"),
    [
        ("SCALE = 3", "SCALE = 4", 28 * 8, 1),
        ("self.gain = 2", "self.gain = 5", 28 * 15, 1),
        ("x * SCALE", "x * SCALE + 1", 28 * 6 + 16, 1),
        ("s += x[i]", "s += x[i] + 1", 28 * 6 + 8, 1),
        ("s: qd.f32 = 0", "s: qd.i32 = 0", 28 * 6, 1),
        ("qd.field(qd.f32, 8)", "qd.field(qd.f32, 9)[0:0] if 0 else qd.field(qd.f32, 8)", 28 * 6, 0),
        ("qd.field(qd.f32, 8)", "qd.field(qd.f64, 8)", 28 * 6, 2),
        ("@qd.func\n", "\n\n@qd.func\n", 28 * 6, 0),
    ],
)
def test_what_was_read_decides(run: Any, before: str, after: str, result: float, compiled: int) -> None:
    run()
    assert before in KERNELS
    assert run(KERNELS.replace(before, after))[:2] == [result, compiled]
    assert run()[:2] == [28 * 6, 0]


FOLD = """
import numpy as np
import quadrants as qd

reduce = qd.algorithms.reduce_add

@qd.kernel
def fold(x: qd.types.ndarray(qd.f32, 1), out: qd.types.ndarray(qd.f32, 1), scratch: qd.types.ndarray(qd.u32, 1)):
    reduce(x, out, scratch, 8, qd.f32, 1)
"""
FOLD_MAIN = """
import json, sys
from quadrants import _runtime
qd.init(offline_cache_file_path=sys.argv[1])
out = np.zeros(1, np.float32)
fold(np.arange(8, dtype=np.float32), out, np.zeros(8, np.uint32))
print(json.dumps([float(out[0]), _runtime.statistics()["compiled"]]))
"""


def test_functions_of_the_library_that_share_their_text_are_told_apart(run: Any) -> None:
    assert run(FOLD, FOLD_MAIN) == [28, 1]
    assert run(FOLD.replace("reduce_add", "reduce_max"), FOLD_MAIN) == [7, 1]
    assert run(FOLD, FOLD_MAIN) == [28, 0]


def test_options_that_change_code_are_a_miss(run: Any) -> None:
    run()
    assert run(fast_math=False)[1] == 2
    assert run(cpu_max_num_threads=1)[1] == 0


def test_moved_check_reports_its_new_line(run: Any) -> None:
    checked = KERNELS.replace("s += x[i]", "s += x[i + 1]")
    main = MAIN.replace("result = total(model.x)", "try: result = total(model.x)\nexcept AssertionError as error: result = error.line")
    line = run(checked, main, debug=True)[0]
    moved = run(checked.replace("@qd.kernel\ndef total", "\n\n@qd.kernel\ndef total"), main, debug=True)
    assert moved[0] == line + 2


COMPUTED = """
import json, sys
import quadrants as qd
from quadrants import _runtime

def table(n):
    return [i * i + OFFSET for i in range(n)]

OFFSET = 0

@qd.kernel
def look_up(i: qd.i32) -> qd.i32:
    result = 0
    for k in qd.static(range(4)):
        if i == k:
            result = table(4)[k]
    assert result >= 0, "negative"
    return result
"""
COMPUTED_MAIN = """
qd.init(offline_cache_file_path=sys.argv[1], **json.loads(sys.argv[2]))
result = look_up(3)
try:
    look_up(1)
    line = 0
except AssertionError as error:
    line = int(str(error).split("line ")[1].split(",")[0])
stages = [stage for stage, _ in qd.compile_report()[-1].stages]
print(json.dumps([result, stages, line]))
"""


def test_kernels_that_run_python_code_need_only_the_frontend_again(run: Any) -> None:
    stages = [run(COMPUTED, COMPUTED_MAIN)[1] for _ in range(2)]
    assert "lld" in stages[0]
    assert stages[1] == ["frontend", "cached code"]


def test_what_the_python_code_returns_is_part_of_the_key(run: Any) -> None:
    assert run(COMPUTED, COMPUTED_MAIN)[0] == 9
    changed = COMPUTED.replace("OFFSET = 0", "OFFSET = 1")
    result, stages, _ = run(changed, COMPUTED_MAIN)
    assert result == 10 and "lld" in stages
    for option in ({"fast_math": False}, {"debug": True}):
        assert "lld" in run(changed, COMPUTED_MAIN, **option)[1]
        assert "lld" not in run(changed, COMPUTED_MAIN, **option)[1]


def test_places_in_cached_code_are_those_of_the_source(run: Any) -> None:
    failing = COMPUTED.replace("OFFSET = 0", "OFFSET = -5")
    lines = [run(source, COMPUTED_MAIN, debug=True)[2] for source in (failing, failing, "\n\n" + failing, "\n\n" + failing)]
    assert lines[0] > 0
    assert lines == [lines[0], lines[0], lines[0] + 2, lines[0] + 2]


def test_moved_code_without_texts_is_found_again(run: Any) -> None:
    plain = COMPUTED.replace('    assert result >= 0, "negative"\n', "")
    assert "lld" in run(plain, COMPUTED_MAIN)[1]
    assert "lld" not in run("\n\n" + plain, COMPUTED_MAIN)[1]


CALLABLES = """
import functools
import quadrants as qd

SCALE = 3
def make(n): return lambda x: x * n
one, other = lambda x: x + 1, lambda x: x * SCALE
part = functools.partial(lambda a, x: a - x, 10)

class Line:
    def __init__(self): self.slope = 7
    def __call__(self, x): return x * self.slope

@qd.data_oriented
class Ray:
    unit = 1
    def __init__(self, o): self.o = o
    @qd.func
    def at(self, t): return self.o + t * self.unit

def inside():
    weight = 2
    @qd.dataclass
    class P:
        x: qd.i32
        @qd.func
        def twice(self): return P(self.x * weight)
    @qd.kernel
    def method(p: P) -> qd.i32: return p.twice().x
    return method, P

line, factor = Line(), make(5)
method, P = inside()

@qd.kernel
def called(x: qd.i32) -> qd.i32:
    return one(x) + other(x) * 10 + part(x) * 100 + line(x) * 1000 + factor(x) * 10000

@qd.kernel
def objects(x: qd.i32) -> qd.i32:
    return Ray(x).at(x)
"""
CALLABLES_MAIN = """
import json, sys, warnings
from quadrants import _runtime
warnings.simplefilter("ignore")
qd.init(offline_cache_file_path=sys.argv[1], **json.loads(sys.argv[2]))
print(json.dumps([called(1), objects(1), method(P(3)), _runtime.statistics()["compiled"]]))
"""


@pytest.mark.parametrize(
    ("before", "after", "results"),
    [
        ("SCALE = 3", "SCALE = 4", [57942, 2, 6, 1]),
        ("lambda x: x + 1", "lambda x: x + 2", [57933, 2, 6, 1]),
        ("make(5)", "make(6)", [67932, 2, 6, 1]),
        ("a - x, 10", "a - x, 20", [58932, 2, 6, 1]),
        ("self.slope = 7", "self.slope = 8", [58932, 2, 6, 1]),
        ("return x * self.slope", "return x - self.slope", [44932, 2, 6, 1]),
        ("unit = 1", "unit = 5", [57932, 6, 6, 1]),
        ("self.o = o", "self.o = o * 3", [57932, 4, 6, 1]),
        ("weight = 2", "weight = 3", [57932, 2, 9, 1]),
        ("P(self.x * weight)", "P(self.x + weight)", [57932, 2, 5, 1]),
    ],
)
def test_what_callables_and_objects_read_decides(run: Any, before: str, after: str, results: list[int]) -> None:
    assert run(CALLABLES, CALLABLES_MAIN) == [57932, 2, 6, 3]
    assert run(CALLABLES, CALLABLES_MAIN) == [57932, 2, 6, 0]
    assert run(CALLABLES.replace(before, after), CALLABLES_MAIN) == results
    assert run(CALLABLES.replace(before, after), CALLABLES_MAIN)[-1] == 0


ENTRIES = """
import enum
import quadrants as qd

class Phase(enum.Enum):
    WATER = 1
    ICE = 2

@qd.kernel
def weigh() -> qd.i32:
    total = 0
    for phase, field in qd.static(FIELDS.items()):
        total += phase.value * field[0]
    return total + 100 * FIELDS[Phase.ICE][0]

FIELDS = {}
"""
ENTRIES_MAIN = """
import json, sys
from quadrants import _runtime
qd.init(offline_cache_file_path=sys.argv[1])
for phase in Phase:
    FIELDS[phase] = qd.field(qd.i32, shape=2)
    FIELDS[phase][0] = 5
print(json.dumps([weigh(), _runtime.statistics()["compiled"]]))
"""


@pytest.mark.parametrize(
    ("before", "after", "result"), [("ICE = 2", "ICE = 3", 520), ("ICE = 2", "ICE = 2; STEAM = 4", 535), ("items()", "items(  )", 515)]
)
def test_entries_of_dicts_decide(run: Any, before: str, after: str, result: int) -> None:
    changed = ENTRIES.replace(before, after)
    assert [run(ENTRIES, ENTRIES_MAIN) for _ in range(2)] == [[515, 1], [515, 0]]
    assert [run(changed, ENTRIES_MAIN) for _ in range(2)] == [[result, 1], [result, 0]]


WARNS = """
import quadrants as qd

@qd.kernel
def last(n: qd.i32) -> qd.i32:
    t = 0
    for i in range(n):
        t = t * 2 + i
    return t
"""
PRINTS_WARNINGS = """
import json, sys, warnings
from quadrants import _runtime
qd.init(offline_cache_file_path=sys.argv[1])
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    last(1), last(1)
print(json.dumps([_runtime.statistics()["compiled"], [(w.lineno, w.category.__name__, str(w.message)) for w in caught]]))
"""


def test_warnings_of_the_compiler_come_again_from_the_disk(run: Any) -> None:
    (compiled, first), (again, second), (moved, third) = (run(text + WARNS, PRINTS_WARNINGS) for text in ("", "", "\n\n"))
    assert (compiled, again) == (1, 0) and len(first) == 1 and first == second
    line, category, text = first[0]
    assert (line, category) == (8, "UserWarning") and "read and write 't'" in text
    # The line is part of the artifact, so a function that has moved is compiled again.
    assert moved == 1 and [(line + 2, category, text)] == list(map(tuple, third))


def test_a_warning_of_the_compile_time_comes_with_a_compilation_only(run: Any) -> None:
    unrolls = WARNS.replace("range(n)", "qd.static(range(40))")
    (compiled, first), again, moved = (run(text + unrolls, PRINTS_WARNINGS) for text in ("", "", "\n\n"))
    assert compiled == 1 and [(line, category) for line, category, _ in first] == [(7, "SyntaxWarning")]
    assert again == moved == [0, []]


def test_warnings_of_the_compiler_that_are_errors_are_errors_from_the_disk(run: Any) -> None:
    raises = (
        PRINTS_WARNINGS.split("with")[0]
        + """
warnings.simplefilter("error", UserWarning)
errors = []
for _ in range(2):
    try:
        last(1)
    except UserWarning as error:
        errors.append(str(error))
print(json.dumps([len(errors), last.specialization_count]))
"""
    )
    run(WARNS, PRINTS_WARNINGS)
    assert run(WARNS, raises) == [2, 0]


LISTS_MODULES = """
import json, sys
qd.init(offline_cache_file_path=sys.argv[1])
last(3)
loaded = [name for name in ("_compiler", "_session.reports", "_session.progress") if "quadrants." + name in sys.modules]
print(json.dumps([loaded, [[each.miss, "argument n" in each.reads] for each in qd.compile_report()]]))
"""


def test_a_kernel_from_the_disk_loads_no_module_of_compilations_and_reports(run: Any) -> None:
    run(WARNS, LISTS_MODULES)
    assert run(WARNS, LISTS_MODULES) == [[], [["", True]]]
