"""The run half of the CUDA backend on a stand-in for NVIDIA's driver: launches, staging, memory, failures, faults, fork."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hand_made import DYNAMIC, HandMade, Input, Task, build_driver

import quadrants as qd

# Adds the second argument to every element; the argument block follows the launch block.
ADD = """
void add(const QdGpuLaunch *launch, unsigned blocks, unsigned threads, unsigned shared) {
  const unsigned char *arguments = (const unsigned char *)(launch + 1);
  const QdTensorArgument *x = (const QdTensorArgument *)arguments;
  float value = *(const float *)(arguments + 16);
  if ((int64_t)blocks * threads < x->extents_and_strides[0]) return;
  for (int64_t i = 0; i < x->extents_and_strides[0]; ++i) ((float *)x->data)[i] += value;
}
"""
ADDED = [Input((0,), 0, "f32", extents=(DYNAMIC,), component_stride=4), Input((1,), 16, "f32")]
# Two tasks: a serial one that leaves a number in the scratch block, and one that returns and checks it.
TWO_TASKS = """
void first(const QdGpuLaunch *launch, unsigned blocks, unsigned threads, unsigned shared) {
  *(int64_t *)launch->scratch = *(const int64_t *)(launch + 1) * 10;
}
void second(const QdGpuLaunch *launch, unsigned blocks, unsigned threads, unsigned shared) {
  int64_t value = *(int64_t *)launch->scratch;
  if (launch->result) *(int64_t *)launch->result = value + blocks;
  if (value >= 0) return;
  launch->failure->claimed = launch->failure->failed = launch->state->failed = 1;
  launch->failure->site = 0;
  launch->failure->values[0] = (uint64_t)value;
}
"""
PRINT = """
void print(const QdGpuLaunch *launch, unsigned blocks, unsigned threads, unsigned shared) {
  for (int64_t i = 0; i < *(const int64_t *)(launch + 1); ++i) {
    uint64_t at = launch->prints->used;
    launch->prints->used += 2;
    if (at + 2 > launch->prints->capacity) continue;
    launch->prints->words[at] = 0;
    launch->prints->words[at + 1] = (uint64_t)i;
  }
}
"""
NUMBER = [Input((0,), 0, "i64")]
NEGATIVE = [("assert", ["the number is ", ("", "i64", ())], [("model.py", "step", 7, 4, 7, 20)])]


@qd.kernel
def add(x: qd.types.ndarray(dtype=qd.f32, ndim=1), value: qd.f32) -> None:
    pass


@qd.kernel
def check(number: qd.i64) -> None:
    pass


@qd.kernel
def compute(number: qd.i64) -> qd.i64:
    return number


@pytest.fixture
def launching(compiler: Any, driver: Any) -> Any:
    compiler.attach(add, HandMade(ADD, ADDED, tasks=[Task("add", ("i64", 8))]))
    tasks = [Task("first", 1, block_size=1), Task("second", ("i64", 0), most_blocks=3)]
    compiler.attach(check, HandMade(TWO_TASKS, NUMBER, sites=NEGATIVE, scratch_bytes=8, tasks=tasks))
    compiler.attach(compute, HandMade(TWO_TASKS, NUMBER, sites=NEGATIVE, results=[("i64", (), 0)], scratch_bytes=8, tasks=tasks))
    return driver


# Postfix expressions of the argument, and what they are for it.
A = ("i64", 0)
EXPRESSIONS = {
    "sum and product": ([A, 3, "Add", 2, "Mul"], 10, 26),
    "difference": ([A, 4, "Sub"], 10, 6),
    "quotients are rounded down": ([A, 4, "Div", 10, "Add"], -5, 8),
    "the least quotient": ([A, -1, "Div", 1, "Min", 5, "Max"], -(2**63), 5),
    "division by zero is zero": ([A, 0, "Div", 7, "Add"], 5, 7),
    "minimum": ([A, 4, "Min"], 10, 4),
    "maximum": ([A, 4, "Max"], -10, 4),
    "the first 32 bits": ([("u32", 0), 1, "Add"], -1, 2**32),
    "the first 8 bits": ([("i8", 0), 9, "Add"], 255, 8),
}
BLOCKS = """
void blocks(const QdGpuLaunch *launch, unsigned blocks, unsigned threads, unsigned shared) {
  *(int64_t *)launch->result = (int64_t)blocks * threads;
}
"""


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_grids_are_sized_by_expressions_of_the_arguments(compiler: Any, driver: Any, name: str) -> None:
    @qd.kernel
    def sized(number: qd.i64) -> qd.i64:
        return number

    steps, number, iterations = EXPRESSIONS[name]
    width = 2**16 if iterations > 2**20 else 1
    task = Task("blocks", steps, block_size=width)
    compiler.attach(sized, HandMade(BLOCKS, NUMBER, results=[("i64", (), 0)], tasks=[task]))
    assert sized(number) == iterations


def count(driver: Any) -> tuple[int, int]:
    return driver.launches, driver.graph_launches


def test_ndarrays_are_worked_on_where_they_are(launching: Any) -> None:
    x = qd.ndarray(qd.f32, (300,))
    x.fill(1)
    copies = launching.copies_in + launching.copies_out
    add(x, 2.5)
    assert launching.copies_in + launching.copies_out == copies
    assert np.array_equal(x.to_numpy(), np.full(300, 3.5, np.float32))


def test_launches_after_the_first_are_graphs_whose_arguments_change(launching: Any) -> None:
    x, y = qd.ndarray(qd.f32, (300,)), qd.ndarray(qd.f32, (70_000,))
    before = count(launching)
    for step in range(5):
        add(x, 1)
        add(y, float(step))
    assert (x[299], y[69_999]) == (5, 10)
    assert count(launching) == (before[0] + 1, before[1] + 9)


def test_without_the_option_graph_tasks_are_launched_one_by_one(launching: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QD_GRAPH", "0")
    qd.init(arch=qd.cuda, enable_fallback=False, offline_cache=False, log_level="error")
    x = qd.ndarray(qd.f32, (300,))
    before = count(launching)
    for _ in range(5):
        add(x, 1)
    assert x[299] == 5
    assert count(launching) == (before[0] + 5, before[1])


def test_numpy_arrays_are_copied_in_and_what_is_written_comes_back(launching: Any) -> None:
    array = np.arange(1_000_000, dtype=np.float32)
    before = launching.bytes_in_use
    add(array, 1)
    assert np.array_equal(array, np.arange(1, 1_000_001, dtype=np.float32))
    assert launching.bytes_in_use - before < 4 * 1_000_000


def test_small_blocks_are_kept_until_memory_is_short(driver: Any) -> None:
    x = qd.ndarray(qd.f32, (1000,))
    x.fill(3)
    del x
    gc.collect()
    allocations, before = driver.allocations, driver.bytes_in_use
    for _ in range(5):
        y = qd.ndarray(qd.i32, (990,))  # the same number of blocks of 512 bytes
        assert not y.to_numpy().any()
        y.fill(7)
        del y
    assert driver.allocations == allocations and driver.bytes_in_use == before
    driver.bytes_available = driver.bytes_in_use + (3 << 20)
    large = qd.ndarray(qd.u8, ((3 << 20) + 1000,))
    assert driver.bytes_in_use < before + (3 << 20) + 2000 and not large.to_numpy().any()


def test_numpy_arrays_that_are_only_read_do_not_come_back(compiler: Any, driver: Any) -> None:
    read_only = [Input((0,), 0, "f32", extents=(DYNAMIC,), component_stride=4, is_written=False), ADDED[1]]
    compiler.attach(add, HandMade(ADD, read_only, tasks=[Task("add", ("i64", 8))]))
    array = np.zeros(50, np.float32)
    copies = driver.copies_out
    add(array, 1)
    qd.sync()
    assert driver.copies_out == copies and not array.any()


class Foreign:
    """An array of another library on the GPU."""

    def __init__(self, of: Any, **changes: Any):
        self.__cuda_array_interface__ = {**of.__cuda_array_interface__, **changes}
        self.owner = of


def test_arrays_of_other_libraries_on_the_device_are_taken_as_they_are(launching: Any) -> None:
    x = qd.ndarray(qd.f32, (40,))
    copies = launching.copies_in + launching.copies_out
    for _ in range(3):
        add(Foreign(x), 2)
    add(Foreign(x, shape=(10,), strides=None), 1)
    assert launching.copies_in + launching.copies_out == copies
    assert list(x.to_numpy()) == [7] * 10 + [6] * 30
    with pytest.raises(ValueError, match="required array has dtype=f32"):
        add(Foreign(x, typestr="<f8"), 1)
    with pytest.raises(ValueError, match="required array has ndim=1"):
        add(Foreign(x, shape=(5, 8), strides=None), 1)


def test_fills_and_copies_stay_on_the_device(driver: Any) -> None:
    x, y = qd.ndarray(qd.f32, (1000,)), qd.ndarray(qd.f32, (1000,))
    v = qd.Vector.ndarray(3, qd.f16, (11,))
    copies = driver.copies_in + driver.copies_out
    x.fill(1.5)
    y.copy_from(x)
    v.fill(0)
    assert driver.copies_in + driver.copies_out == copies
    assert y[999] == 1.5
    v.fill([1, 2, 3])
    assert v[10].to_list() == [1, 2, 3]


def test_containers_on_arrays_of_the_host_are_copied_for_a_launch(launching: Any) -> None:
    array = np.zeros(30, np.float32)
    shared = qd.from_dlpack(array)
    for _ in range(3):
        add(shared, 1)
    assert array.tolist() == [3] * 30 and shared[29] == 3
    add(shared[10:20], 1)
    assert array.tolist() == [3] * 10 + [4] * 10 + [3] * 10


def test_fills_convert_to_the_type_in_memory(driver: Any) -> None:
    for dtype in (qd.bf16, qd.f16, qd.u1, qd.u8, qd.i64):
        x = qd.ndarray(dtype, (5,))
        x.fill(2.5)
        assert x.to_numpy(dtype=qd.f32).tolist() == [{qd.bf16: 2.5, qd.f16: 2.5, qd.u1: 1}.get(dtype, 2)] * 5


def test_results_of_several_tasks(launching: Any) -> None:
    for _ in range(3):
        assert compute(4) == 40 + 1
        assert compute(1000) == 10_000 + 3


def test_failed_checks_surface_at_once(launching: Any) -> None:
    for _ in range(3):
        check(5)
        with pytest.raises(AssertionError, match="the number is -20"):
            check(-2)
        qd.sync()  # once


def test_failed_checks_of_kernels_with_results(launching: Any) -> None:
    with pytest.raises(AssertionError, match=r"(?s)model.py.*7.*the number is -70|the number is -70.*model.py.*7"):
        compute(-7)
    assert compute(2) == 21


def test_prints_come_out_in_order_and_end_where_the_room_ends(compiler: Any, driver: Any, capfd: pytest.CaptureFixture[str]) -> None:
    sites = [("print", [("", "i64", ()), "\n"], [])]
    compiler.attach(check, HandMade(PRINT, NUMBER, sites=sites, has_print=True, tasks=[Task("print", 1)]))
    check(3)
    check(2)
    check(200_000)
    printed = capfd.readouterr().out.split()
    assert printed[:5] == ["0", "1", "2", "0", "1"]
    assert printed[5:] == [str(number) for number in range(len(printed) - 5)] and len(printed) > 10_000


def test_element_access_and_whole_copies(driver: Any) -> None:
    x = qd.Matrix.field(2, 2, qd.i32, shape=(3, 2))
    x[1, 1] = [[1, 2], [3, 4]]
    x[1, 1][1, 0] = 7
    assert x[1, 1].to_list() == [[1, 2], [7, 4]] and x.to_numpy().sum() == 14
    values = np.random.default_rng(1).random((700, 1500))
    y = qd.ndarray(qd.f64, values.shape)
    y.from_numpy(values)
    assert np.array_equal(y.to_numpy(), values) and y[3, 4] == values[3, 4]
    z = qd.ndarray(qd.f32, values.shape)
    z.copy_from(y)
    assert np.array_equal(np.asarray(z), values.astype(np.float32))


def test_containers_without_axes_keep_their_shape(driver: Any) -> None:
    assert qd.field(qd.f32, ()).to_numpy().shape == qd.ndarray(qd.i32, ()).to_numpy().shape == ()


def test_members_of_one_buffer_keep_what_is_beside_them(driver: Any) -> None:
    x, y = qd.field(qd.f32), qd.field(qd.i32)
    qd.root.dense(qd.i, 50).place(x, y)
    y.from_numpy(np.arange(50, dtype=np.int32))
    x.fill(2)
    assert np.array_equal(y.to_numpy(), np.arange(50)) and set(x.to_numpy()) == {2}


def test_views_of_numpy_are_refused_and_slices_write_to_the_device(driver: Any) -> None:
    x = qd.ndarray(qd.f32, (4, 2))
    with pytest.raises(ValueError, match="Zero-copy not available"):
        x.to_numpy(copy=False)
    x[1:3, :][0, 0] = 1
    assert x[1, 0] == 1 and x.to_numpy().sum() == 1
    x[1:3, :] = 5
    assert x.to_numpy().sum() == 20
    assert x.__dlpack_device__() == (2, 0) and x.__cuda_array_interface__["shape"] == (4, 2)


def test_memory_goes_back_when_its_last_owner_goes(driver: Any) -> None:
    before = driver.bytes_in_use
    for _ in range(3):
        x = qd.ndarray(qd.f32, (1 << 20,))
        assert driver.bytes_in_use >= before + (4 << 20)
        del x
    assert driver.bytes_in_use == before
    x = qd.field(qd.f32, shape=(1 << 20,))
    x[5] = 1
    assert driver.bytes_in_use >= before + (4 << 20)
    qd.reset()
    assert driver.bytes_in_use <= before


def test_out_of_memory_says_who_holds_it_and_leaves_the_runtime_usable(driver: Any) -> None:
    driver.bytes_available = driver.bytes_in_use + (10 << 20)
    x = qd.ndarray(qd.u8, (9 << 20,))
    with pytest.raises(RuntimeError, match=r"(?s)cannot allocate 2097152 bytes on the GPU \(cuda\).*are free.*test_cuda.py"):
        qd.ndarray(qd.u8, (2 << 20,))
    del x
    assert qd.ndarray(qd.u8, (2 << 20,))[5] == 0


def test_garbage_is_collected_before_memory_is_refused(driver: Any) -> None:
    driver.bytes_available = driver.bytes_in_use + (10 << 20)
    held: dict[str, Any] = {"x": qd.ndarray(qd.u8, (9 << 20,))}
    held["self"] = held
    del held
    assert qd.ndarray(qd.u8, (9 << 20,)).shape == (9 << 20,)


def test_a_fault_is_an_exception_and_init_starts_again(launching: Any) -> None:
    x = qd.ndarray(qd.f32, (3,))
    add(x, 1)
    launching.fault = 700
    with pytest.raises(qd.QuadrantsRuntimeError, match="a kernel has faulted: CUDA_ERROR_ILLEGAL_ADDRESS"):
        qd.sync()
    for use in (lambda: x[0], lambda: add(x, 1), lambda: qd.ndarray(qd.f32, (3,))):
        with pytest.raises(qd.QuadrantsRuntimeError, match="all memory on the GPU is lost"):
            use()
    qd.init(arch=qd.cuda, enable_fallback=False, offline_cache=False, log_level="error")
    y = qd.ndarray(qd.f32, (3,))
    add(y, 4)
    assert y[2] == 4


def test_a_lost_context_that_another_library_has_left_behind_is_put_away(launching: Any, driver_library: str) -> None:
    library = ctypes.CDLL(driver_library)
    context = ctypes.c_void_p()
    library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    library.cuCtxSetCurrent(context)  # as torch does
    launching.fault = 700
    with pytest.raises(qd.QuadrantsRuntimeError, match="a kernel has faulted"):
        qd.sync()
    qd.init(arch=qd.cuda, enable_fallback=False, offline_cache=False, log_level="error")
    y = qd.ndarray(qd.f32, (3,))
    add(y, 4)
    assert y[2] == 4
    library.cuCtxSetCurrent(None)


def test_a_fault_in_a_launch_that_waits_on_a_thread_of_its_own(launching: Any) -> None:
    launching.fault = 700
    with pytest.raises(qd.QuadrantsRuntimeError, match="a kernel has faulted"):
        compute(4)
    qd.init(arch=qd.cuda, enable_fallback=False, offline_cache=False, log_level="error")
    assert compute(4) == 41


def test_code_is_unloaded_with_its_runtime(launching: Any) -> None:
    modules = launching.modules
    add(np.zeros(3, np.float32), 1)
    assert launching.modules == modules + 1
    qd.reset()
    assert launching.modules == modules


def test_a_forked_child_raises(driver: Any) -> None:
    x = qd.ndarray(qd.f32, (3,))
    child = os.fork()
    if child == 0:
        try:
            x[0]
        except qd.QuadrantsRuntimeError as error:
            os._exit(0 if "forked" in str(error) else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0


def test_a_device_that_is_not_there(driver: Any) -> None:
    with pytest.raises(RuntimeError, match="there is no GPU number 7: CUDA sees 2"):
        qd.init(arch=qd.cuda, device_id=7, log_level="error")
    qd.init(arch=qd.cuda, device_id=1, offline_cache=False, log_level="error")
    assert qd.ndarray(qd.f32, (3,)).__dlpack_device__() == (2, 1)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["-DVERSION=11040"], "the NVIDIA driver is too old (it is for CUDA 11.4): CUDA 11.8 or newer is needed, so update the driver"),
        (["-DcuMemPoolTrimTo=renamed"], "the NVIDIA driver is too old (it has no cuMemPoolTrimTo): CUDA 11.8 or newer is needed"),
        (["-DINIT=803"], "the NVIDIA driver does not start: a failure"),
        (["-DDEVICES=0"], "the NVIDIA driver has no device"),
    ],
)
def test_drivers_that_are_of_no_use(tmp_path: Any, options: list[str], text: str) -> None:
    with pytest.raises(RuntimeError, match=re.escape(f"Arch=[Arch.cuda] is not supported (cuda: {text}")):
        qd.init(arch=qd.cuda, enable_fallback=False, cuda_driver=build_driver(tmp_path, *options), log_level="error")


def test_drivers_that_do_not_know_the_code(launching: Any) -> None:
    launching.link_failure = 222
    with pytest.raises(
        RuntimeError, match=r"the NVIDIA driver is too old for the code of sm_90 \(CUDA_ERROR: a failure\): update the driver"
    ):
        add(np.zeros(3, np.float32), 1)


def test_numpy_arrays_that_the_device_has_no_room_for(launching: Any) -> None:
    launching.bytes_available = launching.bytes_in_use + (1 << 20)
    array = np.zeros(1 << 20, np.float32)
    with pytest.raises(RuntimeError, match=r"cannot allocate 4194304 bytes on the GPU \(cuda\): \d+ of \d+ bytes are free"):
        add(array, 1)
    assert not array.any()
    add(array[:1000], 1)
    assert array[:1000].all() and not array[1000:].any()


def test_races_are_looked_for_on_the_cpu_only(driver: Any) -> None:
    with pytest.raises(ValueError, match="check_races=True is not possible with arch=qd.cuda"):
        qd.init(arch=qd.cuda, check_races=True, log_level="error")


def test_machines_without_a_driver(tmp_path: Any) -> None:
    program = """
import quadrants as qd
try:
    qd.init(arch=qd.cuda, enable_fallback=False)
except RuntimeError as error:
    print(error)
qd.init(arch=qd.gpu)
print(qd.cfg.arch.name)
qd.init(arch=[qd.cuda, qd.python], log_level="error")
"""
    none = str(tmp_path / "none.so")  # nor one for Vulkan
    missing = {"QD_CUDA_DRIVER": none, "VK_DRIVER_FILES": none, "VK_ICD_FILENAMES": none, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", program], env={**os.environ, **missing}, capture_output=True, text=True, check=True)
    assert "Arch=[Arch.cuda] is not supported (cuda: there is no NVIDIA driver" in run.stdout
    assert "falling back to CPU" in run.stderr and run.stderr.count("\n") == 1
    assert run.stdout.split()[-1] == qd.cpu.name
