"""The few objects behind the language that programs reach for: the runtime, helpers of types, log functions."""

import numpy as np
import pytest

import quadrants as qd


@pytest.fixture(autouse=True)
def runtime():
    qd.init(arch=qd.cpu)
    yield
    qd.reset()


def test_programs_extend_what_the_runtime_does(monkeypatch):
    cls, steps = qd.lang.impl.PyQuadrants, []

    def extend(name):
        original = getattr(cls, name)

        def step(self):
            original(self)
            self.prog.synchronize()
            steps.append(name)

        monkeypatch.setattr(cls, name, step)

    extend("materialize")
    extend("clear")
    x = qd.field(qd.f32)
    qd.root.dense(qd.i, 3).place(x)
    x[0] = 1
    assert steps == ["materialize"]
    qd.reset()
    assert steps == ["materialize", "clear"]


def test_the_runtime_tells_of_resets_and_knows_the_ndarrays():
    """S20.2, S20.3"""
    impl, calls = qd.lang.impl, []
    runtime = impl.get_runtime()
    array = qd.ndarray(qd.f32, 3)
    assert [one is array for one in runtime.ndarrays] == [True] and runtime.prog._get_num_ndarrays() == 1
    impl.on_reset(lambda: calls.append(1))
    qd.reset()
    qd.init(arch=qd.cpu)
    assert calls == [1] and runtime.ndarrays == [] and runtime.prog._get_num_ndarrays() == 0
    runtime.reset_hooks.pop()


def test_the_runtime_knows_the_default_types():
    assert qd.lang.impl.get_runtime().default_fp is qd.f32 and qd.lang.impl.get_runtime().default_ip is qd.i32
    assert qd.lang.impl.current_cfg().debug is False
    assert qd.lang.impl.get_max_shared_memory_bytes(is_lowerbound_ok=True) == (48 << 10 if qd.cfg.arch == "cuda" else 0)
    qd.init(default_fp=qd.f64)
    assert qd.lang.impl.get_runtime().default_fp is qd.f64


def test_data_types_of_other_packages():
    util = qd.lang.util
    assert util.to_numpy_type(qd.f32) is np.float32 and util.to_numpy_type(qd.u1) is np.bool_
    assert util.to_quadrants_type(np.int16) is qd.i16 and util.cook_dtype(float) is qd.f32
    torch = pytest.importorskip("torch")
    assert util.to_pytorch_type(qd.f16) is torch.float16 and util.to_pytorch_type(qd.u1) is torch.bool
    assert qd.f64 in qd.types.primitive_types.real_types and qd.u1 in qd.types.primitive_types.integer_types


def test_modules_can_be_marked():
    qd.lang._template_mapper.__builtins__["__debug__"] = True


def test_log_functions_are_looked_up_at_each_use(monkeypatch, capfd):
    lines = []
    monkeypatch.setattr(qd._logging, "warn", lines.append)
    monkeypatch.setenv("QD_NO_SUCH_OPTION", "1")
    qd.init()
    assert len(lines) == 1 and "QD_NO_SUCH_OPTION" in lines[0]
    qd._logging._get_logging(qd._logging.ERROR)("lost")
    assert "lost" in capfd.readouterr().err
