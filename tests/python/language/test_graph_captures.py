"""`with qd.graph.capture() as graph`: calls of several kernels that are recorded, and run by `graph()`."""

import threading

import numpy as np
import pytest

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")

Array, Flag = qd.types.NDArray[qd.i32, 1], qd.types.NDArray[qd.i32, 0]


@qd.kernel
def add(x: Array, value: qd.i32):
    for i in x:
        x[i] += value


@qd.kernel
def total(x: Array, out: Array):
    for i in x:
        out[0] += x[i]


@qd.kernel
def get(x: Array) -> qd.i32:
    return x[0]


def make(size=4, value=0):
    array = qd.ndarray(qd.i32, shape=size)
    array.fill(value)
    return array


def capture(*calls):
    with qd.graph.capture() as graph:
        for kernel, *arguments in calls:
            assert kernel(*arguments) is None
    return graph


def test_calls_in_the_block_run_when_the_graph_does():
    x, out = make(), make(1)
    graph = capture((add, x, 1), (total, x, out), (add, x, 10))
    assert (x[0], out[0]) == (0, 0)
    seen = []
    for _ in range(4):
        graph()
        seen.append((x[3], out[0]))
    graph.launch()
    assert seen == [(11, 4), (22, 52), (33, 144), (44, 280)]
    assert x[3] == 55


def test_arguments_are_the_objects_of_the_calls_with_their_present_contents():
    x, numbers = make(), np.array([5, 6], np.int32)

    @qd.kernel
    def copy(x: Array, numbers: qd.types.ndarray(qd.i32, ndim=1), n: qd.i32):
        for i in range(2):
            x[i] = numbers[i] + n

    n = 1
    graph = capture((copy, x, numbers, n))
    n = 100
    numbers[:] = 7, 8
    graph()
    assert x.to_numpy().tolist() == [8, 9, 0, 0]
    numbers[:] = 1, 2
    graph()
    assert x.to_numpy().tolist() == [2, 3, 0, 0]


def test_members_and_keywords_are_read_at_each_run():
    @qd.data_oriented
    class Body:
        def __init__(self):
            self.x = make()

        @qd.kernel
        def move(self, by: qd.i32 = 1):
            for i in self.x:
                self.x[i] += by

    body = Body()
    with qd.graph.capture() as graph:
        body.move()
        body.move(by=10)
    graph()
    before, body.x = body.x, make(6, 1)
    graph()
    assert set(before.to_numpy()) == {11}
    assert set(body.x.to_numpy()) == {12}


def test_a_kernel_that_needs_another_version_at_a_run_is_compiled_then():
    setting = {"scale": 2}

    @qd.kernel
    def scale(x: Array):
        for i in x:
            x[i] *= setting["scale"]

    x = make(value=3)
    graph = capture((add, x, 1), (scale, x), (add, x, 1))
    graph()
    setting["scale"] = 5
    graph()
    assert set(x.to_numpy()) == {(9 + 1) * 5 + 1}


def test_graph_kernels_and_streams_take_part():
    @qd.kernel(graph=True)
    def count(x: Array, y: Array, left: Flag):
        left[None] = 3
        while qd.graph.do_while(left):
            with qd.graph.parallel_context():
                with qd.graph.parallel():
                    for i in x:
                        x[i] += 1
                with qd.graph.parallel():
                    for i in y:
                        y[i] += 2
            left[None] -= 1

    x, y = make(), make(3)
    graph = capture((count, x, y, make(())), (total, x, y), (count, y, x, make(())))
    stream = qd.create_stream()
    graph(qd_stream=stream)
    stream.synchronize()
    assert x.to_numpy().tolist() == [9] * 4
    assert y.to_numpy().tolist() == [6 + 12 + 3, 9, 9]
    with qd.use_stream(stream):
        graph()
    stream.synchronize()
    assert x.to_numpy().tolist() == [18] * 4


def test_gradients_take_part():
    x, loss = (qd.field(qd.f32, shape=n, needs_grad=True) for n in (3, ()))

    @qd.kernel
    def square():
        for i in x:
            loss[None] += x[i] ** 2

    x.from_numpy(np.array([1, 2, 3], np.float32))
    loss.grad[None] = 1.0
    with qd.graph.capture() as graph:
        square()
        square.grad()
    for _ in range(2):
        graph()
    assert loss[None] == 28
    assert x.grad.to_numpy().tolist() == [4, 8, 12]


def test_random_numbers_differ_between_runs():
    x = qd.ndarray(qd.f32, shape=8)

    @qd.kernel
    def draw(x: qd.types.NDArray[qd.f32, 1]):
        for i in x:
            x[i] = qd.random()

    graph = capture((draw, x))
    seen = []
    for _ in range(3):
        graph()
        seen += x.to_numpy().tolist()
    assert len(set(seen)) == len(seen)


def test_prints_come_in_the_order_of_the_calls(capsys):
    @qd.kernel
    def tell(x: Array, name: qd.i32):
        print("call", name, x[0])

    x = make()
    graph = capture((tell, x, 1), (add, x, 5), (tell, x, 2), (add, x, 5))
    graph()
    graph()
    qd.sync()
    assert capsys.readouterr().out.splitlines() == ["call 1 0", "call 2 5", "call 1 10", "call 2 15"]


def test_a_failed_call_ends_the_run(on_every_backend):
    on_every_backend(debug=True)

    @qd.kernel
    def check(x: Array):
        assert x[0] < 3, "too large"

    x = make()
    graph = capture((add, x, 2), (check, x), (add, x, 100))
    graph()
    assert x[0] == 102
    with pytest.raises(qd.QuadrantsAssertionError, match="too large"):
        graph()
    assert x[0] == 104


def test_a_graph_in_a_graph_and_under_a_tape():
    x, loss = (qd.field(qd.f32, shape=n, needs_grad=True) for n in (3, ()))

    @qd.kernel
    def square():
        for i in x:
            loss[None] += x[i] ** 2

    inner = capture((square,))
    with qd.graph.capture() as outer:
        inner()
        inner()
    assert loss[None] == 0
    x.fill(2.0)
    outer()
    assert loss[None] == 24
    with qd.ad.Tape(loss):
        inner()
    assert (loss[None], x.grad[1]) == (12, 4)


def test_other_threads_run_their_calls():
    x, y = make(), make()
    with qd.graph.capture() as graph:
        add(x, 1)
        thread = threading.Thread(target=lambda: add(y, 3))
        thread.start()
        thread.join()
    assert (x[0], y[0]) == (0, 3)
    graph()
    assert (x[0], y[0]) == (1, 3)


def test_parts_of_containers_are_arguments():
    x = make(6)
    with qd.graph.capture() as graph:
        add(x[2:4], 1)
    graph()
    assert x.to_numpy().tolist() == [0, 0, 1, 1, 0, 0]


REFUSED = {
    "an element": lambda x, field: x[0],
    "an element to write": lambda x, field: x.__setitem__(1, 3),
    "an element of a field": lambda x, field: field[2],
    "a vector": lambda x, field: field[2][0],
    "fill": lambda x, field: x.fill(3),
    "fill with a vector": lambda x, field: field.fill(qd.Vector([1, 2])),
    "to_numpy": lambda x, field: x.to_numpy(),
    "from_numpy": lambda x, field: x.from_numpy(np.zeros(4, np.int32)),
    "copy_from": lambda x, field: x.copy_from(make()),
    "a part to write": lambda x, field: x.__setitem__(slice(1, 3), 3),
    "an array of NumPy": lambda x, field: np.asarray(x),
    "print": lambda x, field: str(x.to_numpy()),
    "sync": lambda x, field: qd.sync(),
    "an event": lambda x, field: qd.create_event().record(),
    "a stream": lambda x, field: qd.create_stream().synchronize(),
    "a tape": lambda x, field: qd.ad.Tape().__enter__(),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_recorded_is_refused(what):
    x, field = make(), qd.Vector.field(2, qd.i32, shape=4)
    field.fill(0)
    with pytest.raises(RuntimeError, match=r"is not possible while qd\.graph\.capture\(\) records"):
        with qd.graph.capture() as graph:
            add(x, 1)
            REFUSED[what](x, field)
    with pytest.raises(qd.QuadrantsRuntimeError, match="its capture is failed"):
        graph()
    assert x.to_numpy().tolist() == [0, 0, 0, 0]


def test_calls_that_cannot_be_recorded_are_refused():
    @qd.kernel(graph=True, checkpoints=True)
    def suspends(x: Array, flag: Flag):
        with qd.checkpoint(1, yield_on=flag):
            x[0] = 1

    x, flag, stream, loss = make(), make(()), qd.create_stream(), qd.field(qd.f32, (), needs_dual=True)
    calls = {
        "returns a value": lambda: get(x),
        "suspends> returns a value": lambda: suspends(x, flag),
        "qd_stream is not compatible": lambda: add(x, 1, qd_stream=stream),
        "inside of a tape, or of another": lambda: qd.ad.FwdMode(loss, loss).__enter__(),
        "not in the block of another": lambda: qd.graph.capture().__enter__(),
        "capture is recording": lambda: graph(),
    }
    for text, call in calls.items():
        with pytest.raises(RuntimeError, match=text):
            with qd.graph.capture() as graph:
                call()
    with pytest.raises(qd.QuadrantsRuntimeError, match="captured once"), graph:
        pass
    with pytest.raises(qd.QuadrantsRuntimeError, match="tape or forward mode"):
        with qd.ad.Tape(), qd.graph.capture():
            pass
    with pytest.raises(qd.QuadrantsRuntimeError, match="its capture is new"):
        qd.graph.capture()()
    add(x, 1)
    assert x[0] == 1


def test_mistakes_are_reported_by_the_call():
    @qd.kernel
    def wrong(x: Array):
        x[0] = x.nothing

    x = make()
    for call, text in ((lambda: wrong(x), "nothing"), (lambda: add(x), "Missing"), (lambda: add(1.5, 1), "x")):
        with pytest.raises((qd.QuadrantsCompilationError, qd.QuadrantsRuntimeError, TypeError), match=text):
            with qd.graph.capture():
                call()


def test_a_graph_ends_with_its_runtime(on_every_backend):
    graph = capture((add, make(), 1))
    graph()
    on_every_backend()
    with pytest.raises(qd.QuadrantsRuntimeError, match="runtime has ended"):
        graph()
