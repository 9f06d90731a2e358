"""qd.reset(), os.fork() and the end of the process while other threads define, launch, read and wait."""

import subprocess
import sys
import textwrap

import pytest

HEAD = """
    import threading, time
    import numpy as np
    import quadrants as qd

    A = qd.types.ndarray()
    qd.init(arch=qd.cpu, offline_cache=False, cpu_max_num_threads=2)

    @qd.kernel
    def add(x: A, v: qd.i64):
        for i in x:
            x[i] += v
"""


def run(script, tmp_path, timeout=100):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(HEAD) + textwrap.dedent(script))
    return subprocess.run([sys.executable, path], capture_output=True, text=True, check=False, timeout=timeout)


@pytest.mark.host_memory
def test_a_launch_that_waits_for_another_thread_does_not_use_memory_that_a_reset_gave_back(tmp_path):
    script = """
    @qd.kernel
    def spin(x: A):
        qd.loop_config(serialize=True)
        for k in range(1):
            while qd.volatile_load(x[1]) == 0:
                x[0] += 1

    flags, went_on, problems = np.zeros(8, np.int64), threading.Event(), []

    def first():
        small = np.zeros(8, np.int64)
        add(small, 1)
        add(small, 1)
        went_on.set()
        spin(flags)

    def second():
        array = qd.ndarray(qd.i64, 1 << 23)
        waiting.set()
        try:
            add(array, 1)
        except qd.QuadrantsRuntimeError as problem:
            problems.append(problem)

    waiting = threading.Event()
    one, other = threading.Thread(target=first), threading.Thread(target=second)
    one.start()
    went_on.wait()
    while flags[0] == 0:
        time.sleep(0.001)
    other.start()
    waiting.wait()
    time.sleep(0.2)  # until the launch has begun to wait; one that is later finds no runtime
    qd.reset()
    flags[1] = 1
    one.join()
    other.join()
    print(len(problems))
    """
    done = run(script, tmp_path)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


@pytest.mark.parametrize(
    "use, module", [("qd.ndarray(qd.i64, 4)._qd_layout", "quadrants._containers.layout"), ("Steps().step", "quadrants._language.kernel")]
)
def test_two_threads_may_be_the_first_that_need_a_class_of_the_package(use, module, tmp_path):
    # Each class is looked up once. That import lets the other thread run, which must not wait for it with the GIL.
    script = f"""
    import builtins

    class Steps:
        @qd.kernel
        def step(self):
            pass

    load = builtins.__import__

    def load_slowly(name, *rest):
        if name == {module!r}:
            time.sleep(0.2)
        return load(name, *rest)

    builtins.__import__ = load_slowly
    threads = [threading.Thread(target=lambda: {use}) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("done")
    """
    done = run(script, tmp_path, timeout=30)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_threads_that_use_the_runtime_while_it_is_reset_get_errors(tmp_path):
    script = """
    def use_arrays():
        array = qd.ndarray(qd.i64, 100)
        array[3] = 5
        add(array, 5)
        array.fill(3)
        array.to_numpy()

    def use_fields():
        field = qd.field(qd.i64, 10)
        field[3] = 5
        field.fill(2)
        field[2:5].to_numpy()

    def use_arrays_of_others():
        add(np.zeros(100, np.int64), 1)

    def compile():
        @qd.kernel
        def fresh(x: A):
            for i in x:
                x[i] *= 2

        fresh(np.zeros(4))

    others = set()

    def work(use):
        while not is_over:
            try:
                use()
            except qd.QuadrantsRuntimeError:
                time.sleep(0)
            except Exception as problem:
                others.add(repr(problem))

    is_over = False
    threads = [threading.Thread(target=work, args=[use]) for use in (use_arrays, use_fields, use_arrays_of_others, use_arrays, compile)]
    for thread in threads:
        thread.start()
    for _ in range(60):
        qd.reset()
        qd.init(arch=qd.cpu, offline_cache=False, cpu_max_num_threads=2)
        time.sleep(0.01)
    is_over = True
    for thread in threads:
        thread.join()
    print(sorted(others))
    """
    done = run(script, tmp_path)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_children_forked_while_other_threads_compile_can_compile(tmp_path):
    script = """
    import os, signal

    def define(number):
        @qd.kernel
        def scale(x: A):
            for i in x:
                x[i] *= qd.static(number)

        return scale

    def work(index):
        number = 1000 * index
        while not is_over:
            number += 1
            x = np.ones(100, np.int64)
            define(number)(x)
            assert x[0] == number

    is_over = False
    threads = [threading.Thread(target=work, args=[index]) for index in range(3)]
    for thread in threads:
        thread.start()
    ends = []
    for number in range(2, 22):
        time.sleep(0.003 * number)
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            x = np.ones(100, np.int64)
            define(number)(x)
            os._exit(int(x[0] != number))
        ends.append(os.waitpid(child, 0)[1])
    is_over = True
    for thread in threads:
        thread.join()
    print(sum(end != 0 for end in ends))
    """
    done = run(script, tmp_path, timeout=300)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


@pytest.mark.parametrize("milliseconds", [0, 7, 30, 90])
def test_the_process_ends_while_daemon_threads_compile_launch_and_reset(milliseconds, tmp_path):
    script = f"""
    def define(number):
        @qd.kernel
        def scale(x: A):
            for i in x:
                x[i] *= qd.static(number)

        return scale

    def use():
        number = 1
        while True:
            number += 1
            try:
                define(number)(np.ones(100, np.int64))
                array = qd.ndarray(qd.i64, 1 << 20)
                add(array, 5)
                array.fill(3)
            except qd.QuadrantsRuntimeError:
                pass

    def reset():
        while True:
            qd.reset()
            qd.init(arch=qd.cpu, offline_cache=False, cpu_max_num_threads=2)
            time.sleep(0.005)

    add(np.ones(100, np.int64), 1)
    for target in (use, use, reset):
        threading.Thread(target=target, daemon=True).start()
    time.sleep({milliseconds / 1000})
    """
    done = run(script, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
