"""`qd.save` and `qd.load`: what is read is what was written, and a file is the earlier one or complete."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import quadrants as qd

DTYPES = [qd.f16, qd.bf16, qd.f32, qd.f64, qd.i8, qd.i16, qd.i32, qd.i64, qd.u8, qd.u16, qd.u32, qd.u64, qd.u1]


@pytest.fixture(autouse=True)
def start():
    qd.init(arch=qd.cpu, log_level="error")
    yield
    qd.reset()


def make_everything():
    rng = np.random.default_rng(1)
    made = {str(dtype): qd.ndarray(dtype, (3, 5)) for dtype in DTYPES}
    made["vectors"] = qd.Vector.field(3, qd.f32, shape=4, order="i", layout=qd.Layout.SOA)
    made["matrices"] = qd.tensor(qd.types.matrix(2, 3, qd.f64), (2, 4), layout=(1, 0))
    made["offset"] = qd.field(qd.i32, shape=(2, 2), offset=(-1, 5))
    made["scalar"] = qd.field(qd.f32, shape=())
    made["nothing"] = qd.ndarray(qd.f32, (0, 3))
    made["tiles"] = qd.field(qd.i32)
    qd.root.dense(qd.ij, 2).dense(qd.ij, 2).place(made["tiles"])
    for container in made.values():
        shape = container.shape + container.element_shape
        container.from_numpy(rng.integers(0, 2, shape) if container.dtype == qd.u1 else rng.integers(0, 100, shape))
    made["body"] = qd.types.struct(mass=qd.f64, at=qd.types.vector(2, qd.f32)).field(shape=3)
    made["body"].mass.fill(7)
    made["body"].at.fill([1, 2])
    return made


def read_out(container):
    found = container.to_numpy()
    return found if isinstance(found, dict) else {"": found}


def assert_equal(first, second):
    for one, other in zip(read_out(first).values(), read_out(second).values(), strict=True):
        assert one.dtype == other.dtype and np.array_equal(one, other)


def test_containers_of_every_kind_come_back(tmp_path):
    made = make_everything()
    qd.save(tmp_path / "state", made)
    twins = {name: qd.ndarray(made[name].dtype, (3, 5)) for name in map(str, DTYPES)}
    twins["vectors"], twins["scalar"] = qd.Vector.field(3, qd.f32, shape=4), qd.field(qd.f32, shape=())
    twins["body"] = qd.types.struct(mass=qd.f64, at=qd.types.vector(2, qd.f32)).field(shape=3)
    twins["tiles"] = qd.ndarray(qd.i32, (4, 4))
    assert qd.load(tmp_path / "state", twins) == twins
    for name, twin in twins.items():
        assert_equal(twin, made[name])
    fresh = qd.load(tmp_path / "state")
    assert fresh.keys() == (made.keys() - {"body"}) | {"body.mass", "body.at"}
    assert fresh["matrices"].element_shape == (2, 3) and fresh["nothing"].shape == (0, 3)
    for name in made.keys() - {"body"}:
        assert_equal(fresh[name], made[name])
    assert os.listdir(tmp_path) == ["state"]


def test_the_file_is_one_of_safetensors(tmp_path):
    x = qd.Vector.ndarray(2, qd.f32, 3)
    x.from_numpy(np.arange(6).reshape(3, 2))
    qd.save(tmp_path / "state", {"x": x})
    content = (tmp_path / "state").read_bytes()
    length = int.from_bytes(content[:8], "little")
    head = json.loads(content[8 : 8 + length])
    assert head["x"] == {"dtype": "F32", "shape": [3, 2], "data_offsets": [0, 24]} and (8 + length) % 64 == 0
    assert np.frombuffer(content, np.float32, offset=8 + length).tolist() == [0, 1, 2, 3, 4, 5]
    other = b'{"y":{"dtype":"I16","shape":[2],"data_offsets":[0,4]}}'
    (tmp_path / "other").write_bytes(len(other).to_bytes(8, "little") + other + np.int16([5, -6]).tobytes())
    assert qd.load(tmp_path / "other")["y"].to_numpy().tolist() == [5, -6]


def test_safetensors_reads_it(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    made = make_everything()
    del made["bf16"]  # a type that NumPy lacks
    qd.save(tmp_path / "state", made)
    loaded = safetensors.load_file(tmp_path / "state")
    for name in made.keys() - {"body"}:
        assert np.array_equal(loaded[name], made[name].to_numpy())
    safetensors.save_file({"z": np.arange(3.0)}, tmp_path / "theirs")
    assert qd.load(tmp_path / "theirs")["z"].to_numpy().tolist() == [0, 1, 2]


def test_what_does_not_fit_changes_nothing(tmp_path):
    x, y = qd.field(qd.f32, shape=3), qd.field(qd.f32, shape=2)
    x.fill(1)
    y.fill(2)
    qd.save(tmp_path / "state", {"x": x, "y": y})
    x.fill(5)
    for containers, kind, text in [
        ({"x": x, "z": y}, KeyError, "no array 'z'; it has x, y"),
        ({"x": x, "y": qd.field(qd.f32, shape=3)}, ValueError, r"y has f32 and shape \(3,\), and in .*state f32 and shape \(2,\)"),
        ({"x": x, "y": qd.field(qd.i32, shape=2)}, ValueError, "y has i32"),
        ({"x": x, "y": np.zeros(2)}, TypeError, "y is a ndarray: a field"),
    ]:
        with pytest.raises(kind, match=text):
            qd.load(tmp_path / "state", containers)
    assert x.to_numpy().tolist() == [5, 5, 5]
    with pytest.raises(TypeError, match="n is a int"):
        qd.save(tmp_path / "state", {"n": 3})
    assert qd.load(tmp_path / "state", {"x": x})["x"][0] == 1


@pytest.mark.parametrize("length", [0, 4, 40, 200])
def test_damaged_files_are_refused(tmp_path, length):
    x = qd.field(qd.f32, shape=30)
    qd.save(tmp_path / "state", {"x": x})
    content = (tmp_path / "state").read_bytes()
    (tmp_path / "state").write_bytes(content[:length])
    with pytest.raises(ValueError, match="no complete file"):
        qd.load(tmp_path / "state")
    (tmp_path / "state").write_bytes(content.replace(b"[30]", b"[31]"))
    with pytest.raises(ValueError, match="buffer is smaller|x has not 120 bytes"):
        qd.load(tmp_path / "state")


def test_a_full_disk_leaves_the_earlier_file(tmp_path):
    script = """
import resource, signal, sys
import quadrants as qd
qd.init(arch=qd.cpu, offline_cache=False)
x = qd.field(qd.f32, shape=int(sys.argv[2]))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    qd.save(sys.argv[1], {"x": x})
except OSError as error:
    sys.exit(3)
"""
    for count, status in (("10", 0), ("1000000", 3)):
        command = [sys.executable, "-c", script, str(tmp_path / "state"), count]
        assert subprocess.run(command, timeout=60).returncode == status
        assert os.listdir(tmp_path) == ["state"]
    assert qd.load(tmp_path / "state")["x"].shape == (10,)


def test_a_killed_process_leaves_the_earlier_or_the_new_file(tmp_path):
    script = """
import itertools, sys
import quadrants as qd
qd.init(arch=qd.cpu, offline_cache=False)
x, y = qd.ndarray(qd.i32, 1 << 18), qd.ndarray(qd.i32, 1 << 18)
for number in itertools.count(1):
    x.fill(number)
    y.fill(number)
    qd.save(sys.argv[1], {"x": x, "y": y})
    print(number, flush=True)
"""
    path = tmp_path / "state"
    process = subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE)
    process.stdout.readline()
    time.sleep(0.013)
    process.send_signal(signal.SIGKILL)
    last = int(([b"1", *process.stdout.read().split()])[-1])
    process.wait()
    found = qd.load(path)
    numbers = {int(value) for name in "xy" for value in np.unique(found[name].to_numpy())}
    assert len(numbers) == 1 and numbers <= {last, last + 1}
