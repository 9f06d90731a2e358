"""PTX for kernels of every kind, made without a device. `pytest --assemble=sm_90` does the same with every kernel of the suite."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from assembling import assemble, make_ptx

import quadrants as qd
from tests.corpus import language, parallel
from tests.corpus.recording import Launches


@pytest.fixture(autouse=True)
def _cpu() -> Iterator[None]:
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    yield
    qd.reset()


def copy_between_arrays() -> Any:
    @qd.kernel
    def kernel(x: qd.types.ndarray(qd.f32, 1), y: qd.types.ndarray(qd.f32, 1)) -> None:
        for i in x:
            y[i] = x[i]

    return make_ptx(kernel, qd.ndarray(qd.f32, 100), qd.ndarray(qd.f32, 100))


def copy_between_fields() -> Any:
    x, y = qd.field(qd.f32, 1000), qd.field(qd.f32, 1000)

    @qd.kernel
    def kernel() -> None:
        for i in x:
            y[i] = x[i]

    return make_ptx(kernel)


def serial_statements_and_returns() -> Any:
    x = qd.field(qd.i32, 10)

    @qd.kernel
    def kernel(n: qd.i32) -> qd.i32:
        total = 0
        if n < 0:
            return -1
        for i in range(n):
            x[i] = i
        bound = x[3]
        for i in range(bound):
            x[i] += 1
        total = x[0] + x[1]
        return total

    return make_ptx(kernel, 5)


def checks_and_prints() -> Any:
    qd.init(arch=qd.cpu, offline_cache=False, debug=True, log_level="error")
    x = qd.field(qd.f32, 10)

    @qd.kernel
    def kernel(n: qd.i32) -> None:
        for i in range(n):
            x[i] = qd.f32(i * n)
            assert x[i] < 5, "too large"
        for i in x:
            print(i, x[i], qd.Vector([i, 2 * i]))

    return make_ptx(kernel, 5)


def random_numbers_and_functions() -> Any:
    x = qd.field(qd.f32, (20, 30))

    @qd.kernel
    def kernel() -> None:
        for i, j in x:
            r = qd.random() * qd.random(qd.f64)
            x[i, j] = qd.f32(qd.sin(r) + qd.exp(qd.log(r) ** 2) + qd.tan(r) + qd.atan2(r, 2.0) + qd.pow(r, 0.3)) / qd.sqrt(qd.f32(r))
            x[i, j] += qd.f32(i // (j - 3) + i % (j - 4)) + qd.round(r) + qd.tanh(qd.f32(r))

    return make_ptx(kernel)


def recursion() -> Any:
    x = qd.field(qd.i32, 20)

    @qd.real_func
    def fibonacci(n: qd.i32) -> qd.i32:
        result = n
        if n > 1:
            result = fibonacci(n - 1) + fibonacci(n - 2)
        return result

    @qd.kernel
    def kernel() -> None:
        for i in x:
            x[i] = fibonacci(i)

    return make_ptx(kernel)


def many_arguments() -> Any:
    x = qd.field(qd.f32, 40)

    @qd.kernel
    def kernel(a: qd.types.matrix(40, 40, qd.f32)) -> None:
        for i in range(40):
            x[i] = a[i, i]

    return make_ptx(kernel, qd.Matrix([[1.0] * 40] * 40))


SAMPLES = (
    copy_between_arrays,
    copy_between_fields,
    serial_statements_and_returns,
    checks_and_prints,
    random_numbers_and_functions,
    recursion,
    many_arguments,
)
PROGRAMS_OF_THE_CORPUS = (
    parallel.sums_of_every_type,
    parallel.histograms,
    parallel.atomic_updates_of_every_type,
    language.branches_and_loops_with_exits,
)


def make_program_ptx(program: Callable[[], Launches]) -> str:
    ((kernel, *arguments),) = program()
    return make_ptx(kernel, *arguments)


def check_ptx(ptx: str, folder: Path) -> None:
    assert ".visible .entry qd_task_0" in ptx
    assert "unreachable" not in ptx
    assemble(ptx, folder)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.__name__)
def test_ptxas_takes_what_kernels_become(sample: Any, tmp_path: Path) -> None:
    check_ptx(sample(), tmp_path)


@pytest.mark.parametrize("program", PROGRAMS_OF_THE_CORPUS, ids=lambda program: program.__name__)
def test_ptxas_takes_programs_of_the_corpus(program: Callable[[], Launches], tmp_path: Path) -> None:
    check_ptx(make_program_ptx(program), tmp_path)


def test_memory_is_accessed_as_global_memory_and_read_only_where_nothing_writes() -> None:
    ptx = copy_between_fields()
    assert "ld.global.nc.b32" in ptx
    assert "st.global.b32" in ptx
    # The arrays of this launch share no memory.
    assert "ld.global.nc" in copy_between_arrays()


def test_arrays_that_share_memory_are_read_again_after_each_store() -> None:
    @qd.kernel
    def kernel(x: qd.types.ndarray(qd.f32, 1), y: qd.types.ndarray(qd.f32, 1)) -> None:
        for i in y:
            for _ in qd.static(range(4)):
                y[i] = y[i] * 0.5 + x[i]

    x, y = qd.ndarray(qd.f32, 100), qd.ndarray(qd.f32, 100)
    apart, shared = make_ptx(kernel, x, y), make_ptx(kernel, x, x)
    assert (apart.count("ld.global"), apart.count("st.global")) == (2, 1)
    assert (shared.count("ld.global"), shared.count("st.global")) == (5, 4)


def test_kernels_with_many_containers_use_the_read_only_cache() -> None:
    read = [qd.field(qd.f32, 64) for _ in range(80)]
    x = qd.field(qd.f32, 64)

    @qd.kernel
    def kernel() -> None:
        for i in x:
            total = 0.0
            for k in qd.static(range(80)):
                total += read[k][i]
            x[i] = total

    ptx = make_ptx(kernel)
    assert ptx.count("ld.global.nc") == 80 and ptx.count("ld.global.") == 80


def test_sums_are_combined_by_shuffles_and_counts_in_shared_memory() -> None:
    assert "shfl.sync.down" in make_program_ptx(parallel.sums_of_every_type)
    assert "atom.shared.add.u32" in make_program_ptx(parallel.histograms)


def test_integers_of_a_warp_are_combined_by_one_instruction() -> None:
    from quadrants.simt import block, subgroup

    @qd.kernel
    def kernel(x: qd.types.ndarray(), y: qd.types.ndarray()):
        qd.loop_config(block_dim=64)
        for i in range(64):
            x[i] = subgroup.reduce_all_add(x[i]) + block.reduce_max(x[i], 64, qd.i32)
            y[i] = subgroup.reduce_all_add(y[i])
        total = 0
        for i in range(4096):
            total += i * i
        x[0] = total

    arguments = qd.ndarray(qd.i32, 64), qd.ndarray(qd.f32, 64)
    ptx = make_ptx(kernel, *arguments)
    assert "redux.sync.add.s32" in ptx and "redux.sync.max.s32" in ptx
    assert ptx.count("shfl.sync") == 5  # of the floats
    assert "redux" not in make_ptx(kernel, *arguments, target="cuda:sm_75")


def test_neighbors_along_rows_are_read_once() -> None:
    x, y = qd.field(qd.f32, (4098, 4098)), qd.field(qd.f32, (4098, 4098))

    @qd.kernel
    def kernel() -> None:
        for i, j in qd.ndrange((1, 4097), (1, 4097)):
            y[i, j] = x[i - 1, j] + x[i, j] + x[i + 1, j]

    ptx = make_ptx(kernel)
    assert ptx.count("st.global") == 8 and ptx.count("ld.global") == 10


def test_neighboring_columns_are_one_access() -> None:
    x, y = qd.field(qd.f32, (4096, 4096)), qd.field(qd.f32, (4096, 4096))

    @qd.kernel
    def kernel() -> None:
        for i, j in qd.ndrange((1, 4095), (1, 4095)):
            y[i, j] = x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]

    ptx = make_ptx(kernel)
    assert ptx.count("st.global.v4.b32") == 4 and ptx.count("ld.global.nc.v4.b32") == 6

    @qd.kernel
    def of_arrays(x: qd.types.ndarray(qd.f32, 2), y: qd.types.ndarray(qd.f32, 2)) -> None:
        for i, j in qd.ndrange((1, 4095), (1, 4095)):
            y[i, j] = x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]

    # Whether they are one array does not matter: iterations are in no order.
    ptx = make_ptx(of_arrays, *(qd.ndarray(qd.f32, (4096, 4096)) for _ in range(2)))
    assert ptx.count("st.global.v4.b32") == 4 and ptx.count("ld.global.nc.v4.b32") == 6
    shared = qd.ndarray(qd.f32, (4096, 4096))
    ptx = make_ptx(of_arrays, shared, shared)
    assert ptx.count("st.global.v4.b32") == 4 and ptx.count("ld.global.v4.b32") >= 6


def test_transposed_accesses_are_tiles_of_a_block() -> None:
    x, y = qd.field(qd.f32, (4096, 4096)), qd.field(qd.f32, (4096, 4096))

    @qd.kernel
    def kernel() -> None:
        for i, j in y:
            y[i, j] = x[j, i]

    ptx = make_ptx(kernel)
    # Eight rows of a column; a warp takes the columns given by the lowest three bits of its threads.
    assert ptx.count("st.global") == 8 and ptx.count("ld.global.nc") == 8
    assert re.search(r"and.b32\s+%r\d+, %r\d+, 7;", ptx)


def test_short_loops_of_constant_length_are_unrolled() -> None:
    x, y = qd.field(qd.f32, 100_000), qd.field(qd.f32, 100_000)

    @qd.kernel
    def kernel() -> None:
        qd.loop_config(block_dim=256)
        for i in range(100_000):
            part = qd.simt.block.SharedArray((16, 16), qd.f32)
            part[i % 256 // 16, i % 16] = x[i]
            qd.simt.block.sync()
            total = 0.0
            for k in range(16):
                total += part[i % 16, k] * part[k, i % 256 // 16]
            y[i] = total

    ptx = make_ptx(kernel)
    # Four elements of a row at a time, and single ones of a column.
    assert ptx.count("ld.shared.v4") == 4 and ptx.count("ld.shared") == 20 and ptx.count("fma.rn.f32") == 16
    assert ".minnctapersm" not in ptx  # such loads are short: more threads are better than more registers


@pytest.mark.parametrize(
    ("stages", "rounds", "blocks"), [(10, 16, {128: 8, 16: 32}), (100, 4, {128: 4, 16: 16}), (400, 4, {128: 4, 16: 16})]
)
def test_long_tasks_unroll_less_and_have_fewer_threads(stages: int, rounds: int, blocks: dict[int, int]) -> None:
    x, y = qd.field(qd.f32, 100_000), qd.field(qd.f32, 1 << 20)

    def make(block: int) -> Any:
        @qd.kernel
        def kernel(begin: qd.i32, end: qd.i32) -> None:
            qd.loop_config(block_dim=block)
            for i in y:
                total = 0.0
                for k in range(begin, end):
                    total = total * 0.5 + x[k]
                for s in qd.static(range(stages)):
                    total = total * total + y[i] * s
                y[i] = total

        return kernel

    for block, least in blocks.items():
        ptx = make_ptx(make(block), 0, 5)
        assert f".minnctapersm {least}" in ptx
        loads = ptx.count("ld.global.nc")
        assert rounds <= loads <= rounds + 1, loads  # the loop, and one iteration of those that are left over


@pytest.mark.parametrize(("block", "under_condition", "blocks"), [(128, True, 8), (128, False, 4), (32, True, 16)])
def test_tasks_whose_threads_wait_for_a_few_of_them_have_many_threads(block: int, under_condition: bool, blocks: int) -> None:
    x = qd.field(qd.f32, 1_000_000)

    @qd.kernel
    def kernel(end: qd.i32) -> None:
        qd.loop_config(block_dim=block)
        for i in x:
            shared = qd.simt.block.SharedArray((block,), qd.f32)
            shared[i % block] = x[i]
            qd.simt.block.sync()
            total = 0.0
            if not qd.static(under_condition) or i % block < end:
                for s in qd.static(range(400)):
                    total = total * total + shared[s % block] * s
            qd.simt.block.sync()
            x[i] = total

    assert f".minnctapersm {blocks}\n" in make_ptx(kernel, 5)


def test_loops_that_load_under_an_if_are_not_unrolled() -> None:
    near, x = qd.field(qd.i32, 100_000), qd.field(qd.f32, 100_000)

    @qd.kernel
    def kernel(begin: qd.i32, end: qd.i32) -> None:
        for i in x:
            total = 0.0
            for k in range(begin, end):
                if near[k] != i:
                    total += x[near[k]]
            x[i] = total

    ptx = make_ptx(kernel, 0, 5)
    assert ptx.count("ld.global") == 2 and ".minnctapersm" not in ptx


def test_one_thread_that_searches_loads_several_elements_at_a_time() -> None:
    near, x, found = qd.field(qd.i32, 100_000), qd.field(qd.f32, 100_000), qd.field(qd.f32, ())

    @qd.kernel
    def kernel(begin: qd.i32, end: qd.i32) -> None:
        for _ in range(1):
            total = 0.0
            for k in range(begin, end):
                if near[k] != 7:
                    total += x[near[k]]
            found[None] = total

    # Four iterations, and one of those that are left over, each with a load of `near` and one of `x`.
    assert make_ptx(kernel, 0, 5).count("ld.global") == 10


def test_elements_of_shared_arrays_that_one_thread_updates_need_no_atomics() -> None:
    x, sums = qd.field(qd.f32, 4096), qd.field(qd.f32, 4096 // 64)

    @qd.kernel
    def kernel() -> None:
        qd.loop_config(block_dim=64)
        for i in x:
            part = qd.simt.block.SharedArray((64,), qd.f32)
            thread = i % 64
            part[thread] = x[i]
            qd.simt.block.sync()
            width = 32
            while width > 0:
                if thread < width:
                    part[thread] += part[thread + width]
                qd.simt.block.sync()
                width //= 2
            if thread == 0:
                sums[i // 64] = part[0]

    assert "atom.shared" not in make_ptx(kernel)


def test_registers_are_limited_where_many_threads_help() -> None:
    long, short = qd.field(qd.f32, 1 << 22), qd.field(qd.f32, 4096)

    @qd.func
    def add_up(x: qd.template(), steps: qd.i32) -> qd.f32:
        total = 0.0
        for k in range(steps):
            total += x[k] * x[k]
        return total

    @qd.kernel
    def of_long(steps: qd.i32) -> None:
        for i in long:
            long[i] = add_up(short, steps)

    @qd.kernel
    def of_short(steps: qd.i32) -> None:
        for i in short:
            short[i] = add_up(long, steps)

    @qd.kernel
    def of_much(steps: qd.i32) -> None:
        for i in long:
            total = 0.0
            for _ in qd.static(range(20)):
                total = total * add_up(short, steps)
            long[i] = total

    # Blocks of 128 threads that a multiprocessor must have room for: 64 registers for each thread, or 128.
    assert ".minnctapersm 8" in make_ptx(of_long, 9)
    assert ".minnctapersm 1\n" in make_ptx(of_short, 9)  # there are no more threads
    assert ".minnctapersm 4\n" in make_ptx(of_much, 9)


@pytest.mark.parametrize("sites", [1, 60])
def test_rare_parts_of_a_few_routines_are_inlined(sites: int) -> None:
    """Code that calls nothing has more registers; the same code many times is not worth them."""
    x = qd.field(qd.f32, 1 << 20)

    @qd.kernel
    def kernel() -> None:
        for i in x:
            for _ in qd.static(range(sites)):
                x[i] = qd.sin(x[i]) * qd.exp(-x[i])

    assert ("call" in make_ptx(kernel)) == (sites == 60)


def test_whether_any_lane_is_special_is_asked_by_predicates() -> None:
    x, y = qd.field(qd.f32, 1 << 25), qd.field(qd.f32, 1 << 25)

    @qd.kernel
    def kernel() -> None:
        for i in x:
            y[i] = qd.exp(x[i])

    ptx = make_ptx(kernel)
    assert re.search(r"(and|or)\.pred", ptx)
    assert "shl.b16" not in ptx


@pytest.mark.parametrize(("dtype", "instruction"), [(qd.i32, "div.s32"), (qd.u32, "div.u32"), (qd.i16, "div.s32"), (qd.u8, "div.u16")])
def test_integers_are_divided_by_the_device(dtype: Any, instruction: str) -> None:
    x, y = qd.field(dtype, 1 << 20), qd.field(dtype, 1 << 20)

    @qd.kernel
    def kernel() -> None:
        for i in x:
            x[i] = x[i] // y[i]

    ptx = make_ptx(kernel)
    assert instruction in ptx
    assert not re.search(r"div\.\w+\.f\d\d", ptx)


def test_unrolled_rounds_of_loops_share_an_address() -> None:
    x = qd.field(qd.f32, (512, 512))

    @qd.kernel
    def kernel(first: qd.i32, last: qd.i32) -> qd.f32:
        for _ in range(1):
            total = 0.0
            for k in range(first, last):
                if x[7, k] > 0:
                    total += x[7, k] * total
            x[0, 0] = total
        return x[0, 0]

    offsets = {int(offset) for offset in re.findall(r"ld.global.b32.*\+(-?\d+)\]", make_ptx(kernel, 3, 9))}
    assert any(offsets >= {first + 4, first + 8} for first in offsets | {0})


def test_offsets_of_accesses_are_whole_elements() -> None:
    """Also where the stride of the axis is known at launch only, which is no offset."""
    array = qd.types.ndarray

    @qd.kernel
    def kernel(x: array(qd.f32, 2), y: array(qd.f32, 2), first: array(qd.i32, 1)) -> None:
        for i in range(x.shape[1]):
            for k in range(first[i], first[i + 1]):
                y[k, i] = x[k, i] * 2

    ptx = make_ptx(kernel, qd.ndarray(qd.f32, (50, 40)), qd.ndarray(qd.f32, (50, 40)), qd.ndarray(qd.i32, 41))
    assert all(int(offset) % 4 == 0 for offset in re.findall(r"(?:ld|st).global\S* .*\+(-?\d+)\]", ptx))


def test_loaded_indices_are_compared_in_32_bits() -> None:
    index, x, y = qd.field(qd.i32, 1000), qd.field(qd.f32, 1000), qd.field(qd.f32, 1000)

    @qd.kernel
    def kernel() -> None:
        for i in index:
            if index[i] != -1:
                y[i] = x[index[i]]

    ptx = make_ptx(kernel)
    assert "mul.wide.s32" in ptx and not re.search(r"setp.\w+.b64.*, -1;", ptx)


def test_whole_vectors_are_read_written_and_added() -> None:
    x, y = qd.Vector.field(2, qd.f32, 100_000), qd.Vector.field(4, qd.f32, 100_000)

    @qd.kernel
    def kernel() -> None:
        for i in y:
            if y[i][0] > 1.0:
                y[i] = y[i] * 2.0
                x[i // 2] += qd.Vector([1.0, 2.0])

    ptx = make_ptx(kernel)
    for access in ("ld.global.v4.b32", "st.global.v4.b32", "red.relaxed.gpu.global.add.v2.f32"):
        assert access in ptx
    assert "v2.f32" not in make_ptx(kernel, target="cuda:sm_80")


@pytest.mark.parametrize(("shape", "dtype", "access"), [((4, 4), qd.f32, "v4.b32"), ((2, 3), qd.f32, "v2.b32"), ((3, 2), qd.f64, "v2.b64")])
def test_matrices_are_read_and_written_several_components_at_a_time(shape: tuple[int, int], dtype: Any, access: str) -> None:
    x, y = (qd.Matrix.field(*shape, dtype, 100_000) for _ in range(2))

    @qd.kernel
    def kernel() -> None:
        for i in y:
            y[i] = y[i] + x[i]

    ptx = make_ptx(kernel)
    count = shape[0] * shape[1] // int(access[1])
    assert ptx.count(f"ld.global.nc.{access}") == count and ptx.count(f"st.global.{access}") == count


def test_tasks_wait_for_those_before_them_where_they_may_be_launched_early() -> None:
    ptx = copy_between_fields()
    assert ptx.index("griddepcontrol.launch_dependents;") < ptx.index("griddepcontrol.wait;") < ptx.index("ld.global")


def test_operands_of_checks_are_stored_whole() -> None:
    qd.init(arch=qd.cpu, offline_cache=False, check_nan=True, log_level="error")

    @qd.kernel
    def kernel(a: qd.f32, b: qd.f32) -> qd.f32:
        return a - b

    ptx = make_ptx(kernel, 1.0, 2.0)
    assert "st.local.b64" in ptx and "st.local.b32" not in ptx


def test_a_warp_adds_to_a_counter_once() -> None:
    x, count = qd.field(qd.i32, 100), qd.field(qd.i64, ())

    @qd.kernel
    def kernel() -> None:
        for i in range(100):
            if i % 3 == 0:
                x[qd.i32(qd.atomic_add(count[None], 1))] = i

    ptx = make_ptx(kernel)
    assert "activemask" in ptx and ptx.count("shfl.sync.idx") == 2 and ptx.count("atom.") == 1


@pytest.mark.parametrize("dtype", [qd.i8, qd.i16])
@pytest.mark.parametrize("operation", ["neg", "abs"])
def test_narrow_integers_are_negated_in_32_bits(dtype: Any, operation: str) -> None:
    x, y = qd.field(dtype, 10), qd.field(qd.i32, 10)

    @qd.kernel
    def kernel() -> None:
        for i in x:
            if qd.static(operation == "neg"):
                y[i] = -x[i]
            else:
                y[i] = abs(x[i])

    ptx = make_ptx(kernel)
    assert f"{operation}.s32" in ptx and f"{operation}.s16" not in ptx


def test_strict_arithmetic_rounds_every_operation() -> None:
    qd.init(arch=qd.cpu, offline_cache=False, fast_math=False, log_level="error")
    x = qd.field(qd.f32, 100)

    @qd.kernel
    def kernel() -> None:
        for i in x:
            x[i] = qd.sqrt(x[i] * x[i] + 2.0) / x[i]

    ptx = make_ptx(kernel)
    for exact in ("mul.rn.f32", "add.rn.f32", "sqrt.rn.f32", "div.rn.f32"):
        assert exact in ptx
    for loose in ("fma.", "approx", "mul.f32", "add.f32"):
        assert loose not in ptx


def test_code_for_other_devices(tmp_path: Path) -> None:
    x = qd.field(qd.f16, 100)

    @qd.kernel
    def kernel() -> None:
        for i in x:
            x[i] = x[i] * x[i]

    for capability in ("sm_75", "sm_80", "sm_100"):
        ptx = make_ptx(kernel, target=f"cuda:{capability}")
        assert f".target {capability}" in ptx
        assemble(ptx, tmp_path, capability)


def test_small_loops_that_follow_each_other_are_one_launch() -> None:
    x, y, long = qd.field(qd.i32, 100), qd.field(qd.i32, 50), qd.field(qd.i32, 100_000)

    @qd.kernel
    def kernel() -> qd.i32:
        for i in x:
            x[i] = i
        for i in y:
            y[i] = x[99 - i]
        y[3] = 7
        for i in x:
            x[i] += y[i % 50]
        for i in long:
            long[i] = x[i % 100]
        for i in x:
            x[i] = 0
        return y[3]

    ptx = make_ptx(kernel)
    assert ptx.count(".visible .entry") == 3
    first = ptx.split(".visible .entry")[1]
    assert first.count("barrier") + first.count("bar.sync") == 3
    assert "ld.global.nc" not in first  # what the first loop writes the others read


def test_loops_with_blocks_of_other_sizes_are_launched_apart() -> None:
    x = qd.field(qd.i32, 100)

    @qd.kernel
    def kernel() -> None:
        for i in x:
            x[i] = i
        qd.loop_config(block_dim=64)
        for i in range(50):
            x[i] += x[99 - i]
        for i in range(2000):
            x[i % 100] += 1

    assert make_ptx(kernel).count(".visible .entry") == 3


def test_edited_ptx_takes_the_place_of_the_compiled_one(tmp_path: Path) -> None:
    edited = tmp_path / "kernel.s"
    edited.write_text(copy_between_fields().replace("ret;", "ret; // edited"))
    qd.init(arch=qd.cpu, offline_cache=False, replay=str(tmp_path / "{kernel}.s"))
    assert "// edited" in copy_between_fields()


@pytest.mark.parametrize("blocks", [3, 7])
def test_a_loop_may_say_how_many_blocks_a_multiprocessor_holds(blocks: int, tmp_path: Path) -> None:
    @qd.kernel
    def kernel(x: qd.types.ndarray(qd.f32, 1)) -> None:
        qd.loop_config(block_dim=256, min_blocks=blocks)
        for i in x:
            x[i] += 1.0
        for i in x:
            x[i] *= 2.0

    ptx = make_ptx(kernel, qd.ndarray(qd.f32, 100))
    assert re.findall(r"\.minnctapersm (\d+)", ptx) == [str(blocks)]  # only of the loop behind the call
    assemble(ptx, tmp_path)


def test_a_loop_may_limit_the_registers_of_a_thread(tmp_path: Path) -> None:
    @qd.kernel
    def kernel(x: qd.types.ndarray(qd.f32, 2)) -> None:
        qd.loop_config(block_dim=(32, 8), grid_dim=24, persistent=True, min_blocks=2, max_registers=40)
        for i, j in x:
            x[i, j] += 1.0

    ptx = make_ptx(kernel, qd.ndarray(qd.f32, (100, 100)))
    assert re.findall(r"\.(?:maxnreg|minnctapersm|maxntid) (\d+)", ptx)[-3:] == ["256", "2", "40"]
    assemble(ptx, tmp_path)


def test_copies_to_shared_memory_are_instructions(tmp_path: Path) -> None:
    @qd.kernel
    def kernel(x: qd.types.ndarray(qd.f32, 1), z: qd.types.ndarray(qd.f64, 1)) -> None:
        qd.loop_config(block_dim=64)
        for i in x:
            own = qd.simt.block.SharedArray((64,), qd.f32)
            wide = qd.simt.block.SharedArray((64,), qd.f64)
            thread = qd.simt.block.thread_idx()
            qd.simt.block.copy_async(own[thread], x[i])
            qd.simt.block.copy_async(wide[thread], z[i])
            qd.simt.block.wait_copies()
            qd.simt.block.sync()
            x[i] = own[63 - thread] + qd.f32(wide[thread])

    ptx = make_ptx(kernel, qd.ndarray(qd.f32, 128), qd.ndarray(qd.f64, 128))
    assert re.findall(r"cp\.async\.ca\.shared\.global \[[^]]*\], \[[^]]*\], (\d+);", ptx) == ["4", "8"]
    assert "cp.async.wait_all" in ptx and "st.shared" not in ptx
    assemble(ptx, tmp_path)


def test_large_arrays_are_in_memory_that_the_launch_asks_for(tmp_path: Path) -> None:
    @qd.kernel
    def kernel(x: qd.types.ndarray(qd.f64, 1)) -> None:
        qd.loop_config(block_dim=64)
        for i in x:
            own = qd.simt.block.SharedArray((100, 92), qd.f64)
            own[i % 100, i % 92] = x[i]
            qd.simt.block.sync()
            x[i] = own[i % 64, 63 - i % 64]

    ptx = make_ptx(kernel, qd.ndarray(qd.f64, 128))
    assert ".extern .shared .align 16 .b8 qd_dynamic_shared[]" in ptx and "st.shared" in ptx
    assemble(ptx, tmp_path)
