"""Python objects whose methods raise, or end, start and use the runtime, while the package asks them for something."""

import numpy as np
import pytest

import quadrants as qd

pytestmark = pytest.mark.host_memory


def refuse(*_):
    raise RuntimeError("not loaded yet")


class Lazy:
    __getattr__ = refuse


class Truth:
    __bool__ = refuse


class Equal:
    __eq__ = refuse
    __hash__ = None


class Hashed:
    __hash__ = refuse
    __eq__ = refuse


class Number:
    __index__ = refuse


class Property:
    value = property(refuse)


class Masked:
    __class__ = property(refuse)


class Iterable:
    __iter__ = refuse


class Speechless(Exception):
    def __str__(self):
        raise Speechless


class Mute:
    def __getattr__(self, name):
        raise Speechless


class Leaver:
    def __getattr__(self, name):
        raise SystemExit(3)


lazy, truth, equal, hashed, number, member, masked, items = Lazy(), Truth(), Equal(), Hashed(), Number(), Property(), Masked(), Iterable()


@qd.kernel
def call_it(x: qd.i32) -> qd.i32:
    return lazy(x)


@qd.kernel
def read_it(x: qd.i32) -> qd.i32:
    return member.value + x


@qd.kernel
def branch_on_it(x: qd.i32) -> qd.i32:
    if truth:
        x += 1
    return x


@qd.kernel
def compare_it(x: qd.i32) -> qd.i32:
    if qd.static(equal == 1):
        x += 1
    return x


@qd.kernel
def look_it_up(x: qd.i32) -> qd.i32:
    return {1: 2}[hashed] + x


@qd.kernel
def index_with_it(x: qd.i32) -> qd.i32:
    return qd.Vector([x, 2])[number]


@qd.kernel
def count_to_it(x: qd.i32) -> qd.i32:
    for _ in range(number):
        x += 1
    return x


@qd.kernel
def ask_for_its_class(x: qd.i32) -> qd.i32:
    return masked + x


@qd.kernel
def loop_over_it(x: qd.i32) -> qd.i32:
    for _ in qd.static(items):
        x += 1
    return x


@qd.kernel
def choose_with_it(x: qd.i32) -> qd.i32:
    qd.loop_config(serialize=bool(truth))
    for _ in range(3):
        x += 1
    return x


KERNELS = [
    call_it, read_it, branch_on_it, compare_it, look_it_up, index_with_it, count_to_it, ask_for_its_class, loop_over_it, choose_with_it,
]  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_what_a_global_raises_while_it_is_compiled_is_an_error_at_the_line(kernel):
    qd.init(arch=qd.cpu, offline_cache=False)
    for _ in range(2):
        with pytest.raises(qd.QuadrantsCompilationError, match="RuntimeError.*not loaded yet") as caught:
            kernel(1)
        assert __file__ in str(caught.value) and kernel.__name__ in str(caught.value) and "^" in str(caught.value)
        assert isinstance(caught.value.__cause__, RuntimeError)


def test_an_exception_without_a_text_is_an_error_at_the_line():
    mute = Mute()

    @qd.kernel
    def read() -> qd.i32:
        return mute.value

    qd.init(arch=qd.cpu, offline_cache=False)
    with pytest.raises(qd.QuadrantsCompilationError, match="Speechless"):
        read()


def test_what_ends_the_program_passes_through_the_compiler():
    leaver = Leaver()

    @qd.kernel
    def read() -> qd.i32:
        return leaver(1)

    qd.init(arch=qd.cpu, offline_cache=False)
    with pytest.raises(SystemExit):
        read()


class Computed:
    """Its member is what `compute` returns."""

    def __init__(self, compute):
        self.compute = compute

    @property
    def value(self):
        return self.compute()


@qd.kernel
def increment(x: qd.i32) -> qd.i32:
    return x + 1


def define_and_launch():
    @qd.kernel
    def double(x: qd.i32) -> qd.i32:
        return x * 2

    return double(4)


def compile_itself():
    computed.compute = lambda: 3
    return 5 * add_computed(2)


@pytest.mark.parametrize(("compute", "expected"), [(lambda: increment(4), 7), (define_and_launch, 10), (compile_itself, 27)])
def test_a_kernel_is_compiled_and_launched_while_another_one_is_compiled(compute, expected):
    qd.init(arch=qd.cpu, offline_cache=False)
    computed.compute = compute
    assert add_computed(2) == expected


computed = Computed(None)


@qd.kernel
def add_computed(x: qd.i32) -> qd.i32:
    return computed.value + x


def restart():
    qd.reset()
    qd.init(arch=qd.cpu, offline_cache=False)
    return 3


@pytest.mark.parametrize("end", [qd.reset, restart])
def test_a_reset_while_a_kernel_is_compiled_is_an_error(end):
    qd.init(arch=qd.cpu, offline_cache=False)
    computed.compute = lambda: end() or 3
    with pytest.raises(qd.QuadrantsRuntimeError, match="reset while kernel .*add_computed was compiled"):
        add_computed(2)
    qd.init(arch=qd.cpu, offline_cache=False)
    computed.compute = lambda: 3
    assert add_computed(2) == 5


class Ending:
    """A number or an array that ends the runtime when it is asked for its value."""

    def __init__(self, value=0):
        self.value = value

    def __index__(self):
        qd.reset()
        return self.value

    def __array__(self, *_, **__):
        qd.reset()
        return np.ones(8, np.int32)


def write(container, key, value):
    container[key] = value


ACCESSES = {
    "read": lambda field, plane, array: field[Ending()],
    "write": lambda field, plane, array: write(field, Ending(), 3),
    "second index": lambda field, plane, array: plane[1, Ending()],
    "list of indices": lambda field, plane, array: plane[[1, Ending()]],
    "row": lambda field, plane, array: plane[Ending()],
    "row with a slice": lambda field, plane, array: plane[Ending(), :],
    "value": lambda field, plane, array: write(field, 0, Ending()),
    "value of an ndarray": lambda field, plane, array: write(array, 0, Ending()),
    "beginning of a slice": lambda field, plane, array: array[Ending() : 5],
    "end of a slice": lambda field, plane, array: array[2 : Ending(5)],
    "write to a slice": lambda field, plane, array: write(array, slice(2, Ending(5)), 4),
    "behind an ellipsis": lambda field, plane, array: array[..., Ending()],
    "another array": lambda field, plane, array: array.from_numpy(Ending()),
    "argument": lambda field, plane, array: fill(array, Ending()),
    "slice as an argument": lambda field, plane, array: fill(array[Ending() :], 1),
}


@qd.kernel
def fill(a: qd.types.ndarray(), value: qd.i32):
    for i in a:
        a[i] = value


@pytest.mark.parametrize("access", ACCESSES.values(), ids=ACCESSES)
def test_memory_that_an_index_or_value_gives_back_is_not_used(access):
    qd.init(arch=qd.cpu)
    field, plane, array = qd.field(qd.i32, 4), qd.field(qd.i32, (4, 4)), qd.ndarray(qd.i32, 8)
    fill(array, 1)
    assert field[0] == 0 and plane[0, 0] == 0
    with pytest.raises(qd.QuadrantsRuntimeError, match=r"created before qd\.reset\(\)|no runtime"):
        access(field, plane, array)
    qd.init(arch=qd.cpu)
    array = qd.ndarray(qd.i32, 8)
    fill(array, 2)
    assert array.to_numpy().sum() == 16


def test_elements_of_vectors_are_not_used_after_an_index_has_ended_the_runtime():
    qd.init(arch=qd.cpu)
    field = qd.Vector.field(2, qd.f32, 4)
    assert field[0][1] == 0
    for access in (lambda: field[Ending()], lambda: write(field, Ending(), [1, 2])):
        with pytest.raises(qd.QuadrantsRuntimeError, match="created before"):
            access()
        qd.init(arch=qd.cpu)
        field = qd.Vector.field(2, qd.f32, 4)


def test_an_index_that_empties_its_list():
    qd.init(arch=qd.cpu)
    plane = qd.field(qd.i32, (4, 4))
    plane[1, 2] = 7

    class Emptying:
        def __index__(self):
            key.clear()
            return 1

    key = [Emptying(), 2]
    assert plane[key] == 7


def test_a_destructor_that_starts_a_runtime_while_one_ends():
    class Memory(np.ndarray):
        def __del__(self):
            if type(self.base) is not Memory:
                qd.init(arch=qd.cpu)
                made.append(qd.ndarray(qd.i32, 4))

    made = []
    qd.init(arch=qd.cpu)
    memory = np.zeros(16, np.int32).view(Memory)
    array = qd.from_dlpack(memory)
    del memory
    qd.init(arch=qd.cpu)
    assert len(made) == 1
    with pytest.raises(qd.QuadrantsRuntimeError, match="created before"):
        fill(made[0], 1)
    array = qd.ndarray(qd.i32, 8)
    fill(array, 2)
    assert array.to_numpy().sum() == 16


@qd.data_oriented
class Simulation:
    def __init__(self):
        self.end = None

    @property
    def steps(self):
        return 3 if self.end is None else self.end()

    @qd.kernel
    def step(self, a: qd.types.ndarray()):
        for i in a:
            a[i] += self.steps


def test_a_member_that_ends_the_runtime_when_a_launch_reads_it():
    qd.init(arch=qd.cpu)
    simulation, array = Simulation(), qd.ndarray(qd.i32, 8)
    simulation.step(array)
    simulation.end = lambda: qd.reset() or 3
    with pytest.raises(qd.QuadrantsRuntimeError):
        simulation.step(array)
    qd.init(arch=qd.cpu)
    simulation.end, array = None, qd.ndarray(qd.i32, 8)
    simulation.step(array)
    assert array.to_numpy().sum() == 24


def test_an_array_that_gets_another_shape_when_a_launch_reads_a_number():
    qd.init(arch=qd.cpu)

    @qd.kernel
    def number_rows(a: qd.types.ndarray(), step: int):
        for i, j in a:
            a[i, j] = step * i

    array = np.zeros((2, 8), np.int32)

    class Step:
        def __index__(self):
            array.shape = (8, 2)
            return 3

    number_rows(array, 1)
    number_rows(array, Step())
    np.testing.assert_array_equal(array, np.repeat(3 * np.arange(8), 2).reshape(8, 2))
