"""`with qd.checkpoint(label, yield_on=flag)`: launches that suspend themselves, and launches that resume them."""

import enum

import numpy as np
import pytest
from language_support import define

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")

Array, Flag = qd.types.NDArray[qd.i32, 1], qd.types.NDArray[qd.i32, 0]
PASSED = qd.GraphStatus(False)


class Stage(enum.IntEnum):
    GROW = 7
    SORT = 9


def make(size=(), value=0):
    array = qd.ndarray(qd.i32, shape=size)
    array.fill(value)
    return array


@qd.kernel(graph=True, checkpoints=True)
def three_loops(x: Array, flag: Flag):
    for i in x:
        x[i] += 1
    with qd.checkpoint(Stage.GROW, yield_on=flag):
        for i in x:
            x[i] += 10
    for i in x:
        x[i] += 100


def test_a_launch_passes_checkpoints_whose_flags_are_zero():
    x, flag = make(500), make()
    assert three_loops(x, flag) == PASSED
    assert set(x.to_numpy()) == {111}


def test_a_flag_suspends_the_launch_behind_the_body_and_stays_as_it_is():
    x, flag = make(500), make(value=5)
    status = three_loops(x, flag)
    assert repr(status) == "GraphStatus(yielded=True, checkpoint=<Stage.GROW: 7>)"
    assert status.checkpoint is Stage.GROW
    assert (set(x.to_numpy()), flag[()]) == ({11}, 5)


def test_a_resumed_launch_runs_the_body_again_and_what_follows():
    x, flag = make(500), make(value=1)
    status = three_loops(x, flag)
    flag.fill(0)
    assert repr(three_loops.resume(x, flag, from_checkpoint=status.checkpoint)) == "GraphStatus(yielded=False)"
    assert set(x.to_numpy()) == {121}  # 1 once, 10 twice, 100 once
    assert three_loops.resume(x, flag=flag, from_checkpoint=7) == PASSED
    assert set(x.to_numpy()) == {231}


def test_a_resumed_launch_may_be_suspended_again():
    x, flag = make(3), make(value=1)
    for rounds in (1, 2, 3):
        status = three_loops(x, flag) if rounds == 1 else three_loops.resume(x, flag, from_checkpoint=Stage.GROW)
        assert (status.checkpoint, x[0]) == (7, 1 + 10 * rounds)


def test_checkpoints_are_independent_of_each_other():
    @qd.kernel(graph=True, checkpoints=True)
    def work(log: Array, first: Flag, second: Flag):
        with qd.checkpoint(30, yield_on=first):
            for i in range(1):
                log[0] += 1
        with qd.checkpoint(-4, yield_on=second):
            log[1] += 1
            for i in range(1):
                log[2] += 1
        log[3] += 1

    log, first, second = make(4), make(), make(value=1)
    assert work(log, first, second) == qd.GraphStatus(True, -4)
    assert log.to_numpy().tolist() == [1, 1, 1, 0]
    assert work.resume(log, first, second, from_checkpoint=30) == qd.GraphStatus(True, -4)
    assert log.to_numpy().tolist() == [2, 2, 2, 0]
    second.fill(0)
    assert work.resume(log, first, second, from_checkpoint=-4) == PASSED
    assert log.to_numpy().tolist() == [2, 3, 3, 1]
    first.fill(1)
    assert work(log, first, second).checkpoint == 30
    assert log.to_numpy().tolist() == [3, 3, 3, 1]


@qd.kernel(graph=True, checkpoints=True)
def nested_loops(log: Array, outer: Flag, inner: Flag, full: Flag, late: Flag):
    log[0] += 1
    while qd.graph.do_while(outer):
        log[1] += 1
        for _ in range(1):
            inner[()] = 2
        while qd.graph.do_while(inner):
            log[2] += 1
            with qd.checkpoint(1, yield_on=full):
                for _ in range(1):
                    log[3] += 1
                    full[()] = log[3] == 3
            log[4] += 1
            inner[()] -= 1
        with qd.checkpoint(2, yield_on=late):
            log[5] += 1
        while qd.graph.do_while(inner):
            log[6] += 1
        outer[()] -= 1
    log[7] += 1


def run_nested(late_value=0, outer_value=2):
    log, outer, inner, full, late = make(8), make(value=outer_value), make(), make(), make(value=late_value)
    return (log, outer, inner, full, late), nested_loops(log, outer, inner, full, late)


def test_a_suspended_launch_leaves_all_loops_and_keeps_their_counters():
    (log, outer, inner, *_), status = run_nested()
    assert status.checkpoint == 1
    assert log.to_numpy().tolist() == [1, 2, 3, 3, 2, 1, 1, 0]
    assert (outer[()], inner[()]) == (1, 2)


def test_a_resumed_launch_continues_the_interrupted_round():
    arguments, _ = run_nested()
    assert nested_loops.resume(*arguments, from_checkpoint=1) == PASSED
    # The rest of the inner round, one more of it, then the rest of the outer round.
    assert arguments[0].to_numpy().tolist() == [1, 2, 4, 5, 4, 2, 2, 1]


def test_a_label_in_a_loop_skips_the_loops_before_it():
    arguments, status = run_nested(late_value=1)
    log, outer, _, full, late = arguments
    assert status.checkpoint == 2
    assert log.to_numpy().tolist() == [1, 1, 2, 2, 2, 1, 0, 0]
    late.fill(0)
    assert nested_loops.resume(*arguments, from_checkpoint=2).checkpoint == 1
    assert log.to_numpy().tolist() == [1, 2, 3, 3, 2, 2, 1, 0]
    full.fill(0)
    assert (nested_loops.resume(*arguments, from_checkpoint=1), outer[()]) == (PASSED, 0)
    assert log.to_numpy().tolist() == [1, 2, 4, 5, 4, 3, 2, 1]


def test_a_label_behind_a_loop_skips_the_loop():
    @qd.kernel(graph=True, checkpoints=True)
    def work(log: Array, left: Flag, flag: Flag):
        while qd.graph.do_while(left):
            log[0] += 1
            with qd.checkpoint(1, yield_on=flag):
                log[1] += 1
        with qd.checkpoint(2, yield_on=flag):
            log[2] += 1

    log, left = make(3), make(value=1)
    assert work.resume(log, left, make(), from_checkpoint=2) == PASSED
    assert (log.to_numpy().tolist(), left[()]) == ([0, 0, 1], 1)


def test_an_earlier_checkpoint_of_a_loop_suspends_a_later_round():
    @qd.kernel(graph=True, checkpoints=True)
    def work(log: Array, left: Flag, first: Flag, second: Flag):
        while qd.graph.do_while(left):
            with qd.checkpoint(1, yield_on=first):
                log[0] += 1
            with qd.checkpoint(2, yield_on=second):
                log[1] += 1
            first[()] = 1

    log, left, first, second = make(2), make(value=1), make(), make()
    assert work.resume(log, left, first, second, from_checkpoint=2).checkpoint == 1
    assert log.to_numpy().tolist() == [1, 1]


def test_a_checkpoint_may_hold_a_loop_over_tasks():
    @qd.kernel(graph=True, checkpoints=True)
    def work(log: Array, left: Flag, flag: Flag):
        log[0] += 1
        with qd.checkpoint(5, yield_on=flag):
            while qd.graph.do_while(left):
                for i in range(1):
                    log[1] += 1
                    left[()] -= 1
            log[2] += 1

    log, left, flag = make(3), make(value=3), make(value=1)
    assert work(log, left, flag).checkpoint == 5
    assert log.to_numpy().tolist() == [1, 3, 1]
    left.fill(2)
    flag.fill(0)
    assert work.resume(log, left, flag, from_checkpoint=5) == PASSED
    assert log.to_numpy().tolist() == [1, 5, 2]


@qd.kernel(graph=True, checkpoints=True)
def checkpoints_in_a_checkpoint(log: Array, outer: Flag, inner: Flag, left: Flag):
    log[0] += 1
    with qd.checkpoint(Stage.GROW, yield_on=outer):
        log[1] += 1
        with qd.checkpoint(Stage.SORT, yield_on=inner):
            for i in range(1):
                log[2] += 1
        while qd.graph.do_while(left):
            with qd.checkpoint(1, yield_on=log[3] == 2):
                log[3] += 1
            left[()] -= 1
        log[4] += 1
    for i in range(1):
        log[5] += 1


def test_a_checkpoint_may_hold_others():
    log, outer, inner, left = arguments = make(6), make(), make(), make(value=1)
    resume = checkpoints_in_a_checkpoint.resume

    def see(status):
        return status.checkpoint, log.to_numpy().tolist()

    assert see(checkpoints_in_a_checkpoint(*arguments)) == (None, [1, 1, 1, 1, 1, 1])
    outer.fill(1)
    inner.fill(1)
    assert see(checkpoints_in_a_checkpoint(*arguments)) == (Stage.SORT, [2, 2, 2, 1, 1, 1])
    inner.fill(0)
    left.fill(2)
    # The rest of the body of the outer checkpoint follows, and a checkpoint of its loop suspends the first round.
    assert see(resume(*arguments, from_checkpoint=Stage.SORT)) == (1, [2, 2, 3, 2, 1, 1])
    assert left[()] == 2
    assert see(resume(*arguments, from_checkpoint=1)) == (Stage.GROW, [2, 2, 3, 4, 2, 1])
    outer.fill(0)
    left.fill(1)
    assert see(resume(*arguments, from_checkpoint=Stage.GROW)) == (None, [2, 3, 4, 5, 3, 2])
    assert checkpoints_in_a_checkpoint._primal.checkpoint_user_labels_by_cp_id == [Stage.GROW, Stage.SORT, 1, None]
    assert [level.cond_arg_name for level in checkpoints_in_a_checkpoint._primal.graph_do_while_levels] == ["left"]


def test_suspended_launches_of_other_arguments_do_not_meet():
    sets = [(make(3 + n), make(value=1)) for n in range(3)]
    assert all(three_loops(*each).checkpoint is Stage.GROW for each in sets)
    for (x, flag), times in zip(reversed(sets), (1, 2, 3), strict=True):
        for _ in range(times - 1):
            assert three_loops.resume(x, flag, from_checkpoint=7).yielded
        flag.fill(0)
    for (x, flag), times in zip(sets, (3, 2, 1), strict=True):
        assert three_loops.resume(x, flag, from_checkpoint=7) == PASSED
        assert set(x.to_numpy()) == {101 + 10 * (times + 1)}


def test_variables_are_known_to_a_resumed_launch():
    @qd.func
    def double(value: qd.i32) -> qd.i32:
        return 2 * value

    @qd.kernel(graph=True, checkpoints=True)
    def work(x: Array, out: Array, flag: Flag):
        n = double(x.shape[0])
        total = 0
        for i in x:
            total += x[i]
        out[0] += 1
        with qd.checkpoint(1, yield_on=flag):
            scale = x[0] + 1
            for i in out:
                out[i] += scale * total
        out[1] += n * scale

    x, out = make(3, 2), make(2)
    assert work.resume(x, out, make(), from_checkpoint=1) == PASSED
    assert out.to_numpy().tolist() == [18, 18 + 18]


def test_a_variable_that_a_skipped_statement_assigns_is_refused():
    @qd.kernel(graph=True, checkpoints=True)
    def work(x: Array, flag: Flag):
        old = qd.atomic_add(x[0], 1)
        with qd.checkpoint(1, yield_on=flag):
            x[1] = old

    with pytest.raises(qd.QuadrantsSyntaxError, match=r"old = qd.atomic_add.*\n(.*\n)*.*does not know the variable"):
        work(make(2), make())


def test_flags_are_members_and_numbers_that_the_kernel_computes():
    @qd.data_oriented
    class Solver:
        def __init__(self):
            self.x, self.full = make(4), make()
            self.stop = qd.field(qd.i32, shape=())

        @qd.kernel(graph=True, checkpoints=True)
        def work(self, limit: qd.i32):
            with qd.checkpoint(Stage.GROW, yield_on=self.full):
                for i in self.x:
                    self.x[i] += 1
            with qd.checkpoint(Stage.SORT, yield_on=self.stop):
                self.x[0] += 10
            with qd.checkpoint(1, self.x[0] > limit):
                self.x[1] += 100

    solver = Solver()
    assert solver.work(1000) == PASSED
    assert solver.work(12).checkpoint == 1
    solver.full.fill(1)
    assert solver.work(12).checkpoint is Stage.GROW
    solver.full.fill(0)
    solver.stop[None] = 1
    assert solver.work.resume(12, from_checkpoint=Stage.GROW).checkpoint is Stage.SORT
    assert solver.x.to_numpy().tolist() == [34, 204, 4, 4]


def test_sections_are_skipped_with_their_context():
    @qd.kernel(graph=True, checkpoints=True)
    def work(x: Array, y: Array, flag: Flag):
        with qd.graph.parallel_context():
            with qd.graph.parallel():
                for i in x:
                    x[i] += 1
            with qd.graph.parallel():
                for i in y:
                    y[i] += 1
        with qd.checkpoint(1, yield_on=flag):
            with qd.graph.parallel_context():
                with qd.graph.parallel():
                    x[0] += 10
                with qd.graph.parallel():
                    y[0] += 10
        x[1] += 100

    x, y, flag = make(2), make(2), make(value=1)
    assert work(x, y, flag).yielded
    flag.fill(0)
    assert work.resume(x, y, flag, from_checkpoint=1) == PASSED
    assert (x.to_numpy().tolist(), y.to_numpy().tolist()) == ([21, 101], [21, 1])


def test_static_branches_hold_checkpoints():
    @qd.kernel(graph=True, checkpoints=True)
    def work(x: Array, flag: Flag, stops: qd.template()):
        if qd.static(stops):
            with qd.checkpoint(1, yield_on=flag):
                x[0] += 1
        for k in qd.static(range(2)):
            x[1] += k + 1

    x = make(2)
    assert work(x, make(value=1), True).yielded
    assert work(x, make(value=1), False) is None
    assert x.to_numpy().tolist() == [1, 3]


def test_kernels_without_a_checkpoint_return_their_value():
    @qd.kernel(graph=True, checkpoints=True)
    def value(x: Array) -> qd.i32:
        old = qd.atomic_add(x[0], 1)
        return x[0] + 10 * old

    @qd.kernel(graph=True, checkpoints=True)
    def vector(x: Array) -> qd.types.vector(2, qd.i32):
        return qd.Vector([x[0], 5])

    @qd.kernel(graph=True, checkpoints=True)
    def nothing(x: Array):
        x[0] = 3

    x = make(1, 4)
    assert (value(x), vector(x).to_list(), nothing(x), x[0]) == (45, [5, 5], None, 3)


def test_a_kernel_with_checkpoints_returns_the_status_instead_of_its_value():
    @qd.kernel(graph=True, checkpoints=True)
    def work(x: Array, flag: Flag) -> qd.i32:
        with qd.checkpoint(1, yield_on=flag):
            x[0] += 1
        return x[0]

    assert (work(make(1), make()), work(make(1), make(value=1)).checkpoint) == (PASSED, 1)


def test_labels_that_the_kernel_does_not_have_are_refused():
    x, flag = make(3), make()
    for label in (3, True):
        with pytest.raises(RuntimeError, match=rf"from_checkpoint={label} does not match any qd.checkpoint\(cp_id=...\).*<Stage.GROW: 7>"):
            three_loops.resume(x, flag, from_checkpoint=label)
    for label in ("GROW", None, 7.0):
        with pytest.raises(RuntimeError, match="must be an int or IntEnum value"):
            three_loops.resume(x, flag, from_checkpoint=label)
    with pytest.raises(TypeError, match="from_checkpoint"):
        three_loops.resume(x, flag)
    assert x.to_numpy().tolist() == [0, 0, 0]

    @qd.kernel(graph=True)
    def plain(x: Array):
        x[0] = 1

    with pytest.raises(RuntimeError, match=r"does not match any .* labels .*: \[\]"):
        plain.resume(x, from_checkpoint=1)
    assert x[0] == 0


def test_labels_from_unrolled_loops_are_checked_by_the_launch():
    @qd.kernel(graph=True, checkpoints=True)
    def work(x: Array, flag: Flag):
        for k in qd.static(range(3)):
            with qd.checkpoint(10 + k, yield_on=flag):
                x[k] += 1

    x, flag = make(3), make()
    assert work.resume(x, flag, from_checkpoint=11) == PASSED
    assert x.to_numpy().tolist() == [0, 1, 1]
    with pytest.raises(RuntimeError, match="from_checkpoint does not match any"):
        work.resume(x, flag, from_checkpoint=13)
    assert x.to_numpy().tolist() == [0, 1, 1]


def test_what_the_source_says_is_part_of_the_kernel():
    primal = three_loops._primal
    assert primal.checkpoint_user_labels_by_cp_id == [None, Stage.GROW, None]
    assert primal.checkpoint_yield_on_args == [None, "flag", None]
    assert primal.checkpoint_yield_on_cpp_arg_ids == [-1, 1, -1]
    levels = nested_loops._primal.graph_do_while_levels
    assert nested_loops._primal.graph_do_while_arg == "outer"
    assert [(level.cond_arg_name, level.parent_id, level.cond_cpp_arg_id) for level in levels] == [
        ("outer", -1, 1), ("inner", 0, 2), ("inner", 0, 2),
    ]  # fmt: skip


def test_checkpoints_need_a_graph_and_have_no_derivative():
    with pytest.raises(qd.QuadrantsSyntaxError, match=r"checkpoints=True\) requires graph=True"):
        qd.kernel(checkpoints=True)
    with pytest.raises(qd.QuadrantsRuntimeError, match="has no derivative"):
        three_loops.grad(make(3), make())


BODY = "\n        x[0] = 1"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("with qd.checkpoint(yield_on=flag):" + BODY, "missing required argument `cp_id`"),
        ("with qd.checkpoint(1):" + BODY, "missing required argument `yield_on`"),
        ("with qd.checkpoint(1, flag, 2):" + BODY, r"qd.checkpoint\(cp_id, yield_on=flag\)"),
        ("with qd.checkpoint(1, flag, yield_on=flag):" + BODY, "both positionally and as a keyword"),
        ("with qd.checkpoint(1, yield_on=flag, name='a'):" + BODY, "unexpected keyword argument 'name'"),
        ("with qd.checkpoint('a', yield_on=flag):" + BODY, "must be an int literal or an IntEnum value"),
        ("with qd.checkpoint(True, yield_on=flag):" + BODY, "must be an int literal or an IntEnum value"),
        ("with qd.checkpoint(x[0], yield_on=flag):" + BODY, "must be an int literal or an IntEnum value"),
        ("with qd.checkpoint(2**70, yield_on=flag):" + BODY, "64 bits"),
        (
            f"with qd.checkpoint(1, yield_on=flag):{BODY}\n    with qd.checkpoint(1, yield_on=flag):{BODY}",
            "already used by another checkpoint",
        ),
        ("with qd.checkpoint(1, yield_on=1):" + BODY, "must reference a kernel ndarray argument"),
        ("with qd.checkpoint(1, yield_on=nothing):" + BODY, "does not resolve to an ndarray kernel parameter"),
        ("with qd.checkpoint(1, yield_on=x):" + BODY, "0-d array of integers"),
        (
            "with qd.checkpoint(1, yield_on=flag):\n        with qd.checkpoint(1, yield_on=flag):\n            x[0] = 1",
            "already used by another checkpoint",
        ),
        ("for i in range(3):\n        with qd.checkpoint(2, yield_on=flag):\n            x[0] = 1", "cannot be nested"),
        ("if x[0] == 0:\n        with qd.checkpoint(2, yield_on=flag):\n            x[0] = 1", "at the kernel top level"),
        ("with qd.checkpoint(1, yield_on=flag):\n        return", r"Return inside qd.checkpoint\(\)"),
        (
            "with qd.graph.parallel_context():\n        with qd.graph.parallel():\n            with qd.checkpoint(1, yield_on=flag):\n"
            "                x[0] = 1",
            r"qd.checkpoint\(\) cannot appear inside a qd.graph.parallel",
        ),
    ],
)
def test_misuse_is_refused(body, text):
    source = f"@qd.kernel(graph=True, checkpoints=True)\ndef k(x: Array, flag: Flag):\n    {body}\n"
    with pytest.raises((qd.QuadrantsSyntaxError, qd.QuadrantsTypeError), match=text):
        define(source, Array=Array, Flag=Flag)["k"](make(3), make())


def test_checkpoints_outside_of_their_kernels_are_refused():
    @qd.func
    def part(x: qd.template(), flag: qd.template()):
        with qd.checkpoint(1, yield_on=flag):
            x[0] = 1

    @qd.kernel(graph=True, checkpoints=True)
    def calls(x: Array, flag: Flag):
        part(x, flag)

    @qd.kernel(graph=True)
    def undeclared(x: Array, flag: Flag):
        with qd.checkpoint(1, yield_on=flag):
            x[0] = 1

    with pytest.raises(qd.QuadrantsSyntaxError, match="only be used inside @qd.kernel"):
        calls(make(3), make())
    with pytest.raises(qd.QuadrantsSyntaxError, match="checkpoints=True"):
        undeclared(make(3), make())
    with qd.checkpoint(1, yield_on=make()):
        pass


def test_floats_are_no_flags():
    @qd.kernel(graph=True, checkpoints=True)
    def work(x: Array, flag: qd.types.NDArray[qd.f32, 0]):
        with qd.checkpoint(1, yield_on=flag):
            x[0] = 1

    with pytest.raises(qd.QuadrantsTypeError, match="0-d array of integers"):
        work(make(3), qd.ndarray(qd.f32, shape=()))


def test_numpy_arrays_are_flags():
    @qd.kernel(graph=True, checkpoints=True)
    def work(x: qd.types.ndarray(), flag: qd.types.ndarray(qd.i32, ndim=0)):
        with qd.checkpoint(1, yield_on=flag):
            x[0] += 1

    x = np.zeros(1, np.int32)
    assert [work(x, np.array(value, np.int32)).yielded for value in (0, 2)] == [False, True]
