"""Data methods of containers on a GPU: every layout, type and source, by kernels there; run on the Vulkan device of the processor."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from tests.python.vulkan.vulkan_device import find_absence

COUNT = 600  # elements, so that the smallest container is no less than what the host moves
LAYOUTS = {
    "scalar": lambda dtype: qd.field(dtype, shape=(COUNT, 60)),
    "transposed": lambda dtype: qd.field(dtype, shape=(COUNT, 60), order="ji"),
    "vector": lambda dtype: qd.Vector.field(3, dtype, shape=(COUNT, 60)),
    "vector SOA": lambda dtype: qd.Vector.field(3, dtype, shape=(COUNT, 60), layout=qd.Layout.SOA),
    "vector, ndarray": lambda dtype: qd.Vector.ndarray(3, dtype, shape=(COUNT, 60)),
    "matrix SOA": lambda dtype: qd.Matrix.field(2, 2, dtype, shape=(COUNT, 60), layout=qd.Layout.SOA),
    "long element": lambda dtype: qd.Matrix.field(5, 4, dtype, shape=(COUNT, 60), layout=qd.Layout.SOA),
    "member of a struct": lambda dtype: qd.Struct.field({"a": qd.types.vector(3, dtype), "b": qd.i32}, shape=(COUNT, 60)).a,
    "with an offset": lambda dtype: qd.field(dtype, shape=(COUNT, 60), offset=(-3, 7)),
}
NUMPY = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "u8": np.uint8, "i16": np.int16, "f16": np.float16}


@pytest.fixture(autouse=True)
def _device(monkeypatch: pytest.MonkeyPatch) -> Any:
    if absence := find_absence():
        pytest.skip(absence)
    monkeypatch.setenv("QD_ARCH", "vulkan")
    monkeypatch.setenv("LP_NUM_THREADS", "1")
    qd.init(arch=qd.vulkan, log_level="error")
    yield
    qd.reset()


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the copies that a kernel has made."""
    from quadrants._library import device_copies

    names: list[str] = []
    for name in ("copy_from_device", "copy_from_host", "fill", "pack"):
        own = getattr(device_copies, name)

        def note(*arguments: Any, own: Any = own, name: str = name) -> Any:
            done = own(*arguments)
            names.extend([name] if done is not None and done is not False else [])
            return done

        monkeypatch.setattr(device_copies, name, note)
    return names


def make_values(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return np.random.default_rng(1).uniform(0, 100, shape).astype(NUMPY[dtype])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", NUMPY)
def test_arrays_of_every_type_come_and_go(layout: str, dtype: str) -> None:
    x = LAYOUTS[layout](getattr(qd, dtype))
    for source in ("f64", "i32", dtype):
        values = make_values(x.shape + x.element_shape, source)
        x.from_numpy(values)
        np.testing.assert_array_equal(x.to_numpy(), values.astype(NUMPY[dtype]))
    np.testing.assert_array_equal(np.array(x), values)


@pytest.mark.parametrize("to, of", [pair for pair in itertools.product(LAYOUTS, LAYOUTS) if pair[0].split(",")[0][:4] == pair[1][:4]])
def test_containers_of_other_layouts_and_types_are_copied(to: str, of: str, launched: list[str]) -> None:
    target, source = LAYOUTS[to](qd.f32), LAYOUTS[of](qd.i16)
    source.from_numpy(make_values(source.shape + source.element_shape, "i16"))
    launched.clear()
    target.copy_from(source)
    assert launched == ["copy_from_device"]
    np.testing.assert_array_equal(target.to_numpy(), source.to_numpy())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["f32", "u8"])
def test_elements_and_numbers_fill_parts(layout: str, dtype: str) -> None:
    x = LAYOUTS[layout](getattr(qd, dtype))
    element = make_values(x.element_shape, dtype)
    x.fill(element)
    wanted = np.broadcast_to(element, x.shape + x.element_shape).copy()
    np.testing.assert_array_equal(x.to_numpy(), wanted)
    if layout != "with an offset":
        x[100:500:2, ::-1].fill(7)
        wanted[100:500:2] = 7
        np.testing.assert_array_equal(x.to_numpy(), wanted)


@pytest.mark.parametrize("dtype", ["u8", "i8", "f16", "i16"])
@pytest.mark.parametrize("shape", [(2,), (4,), (2, 2)])
def test_a_short_element_fills_components_that_are_apart(dtype: str, shape: tuple[int, ...]) -> None:
    make = qd.Vector.field if len(shape) == 1 else qd.Matrix.field
    x = make(*shape, getattr(qd, dtype), shape=8, layout=qd.Layout.SOA)
    element = np.arange(1, np.prod(shape) + 1).reshape(shape)
    x.fill(element)
    np.testing.assert_array_equal(x.to_numpy(), np.broadcast_to(element, (8, *shape)))


def test_parts_that_overlap_are_copied_as_if_all_were_read_first(launched: list[str]) -> None:
    x = LAYOUTS["vector"](qd.f32)
    values = make_values((COUNT, 60, 3), "f32")
    x.from_numpy(values)
    launched.clear()
    x[1:].copy_from(x[:-1])
    assert "copy_from_device" not in launched
    np.testing.assert_array_equal(x.to_numpy()[1:], values[:-1])
    x[300:, ::2].copy_from(x[:300, ::2])
    assert "copy_from_device" in launched
    x[300:].copy_from(x[:300])
    np.testing.assert_array_equal(x.to_numpy()[300:], x.to_numpy()[:300])


def test_a_tape_takes_copies_as_writes_of_the_host(launched: list[str]) -> None:
    x, y, loss = (qd.field(qd.f32, shape=shape, needs_grad=True) for shape in ((COUNT, 60), (COUNT, 60), ()))

    @qd.kernel
    def total() -> None:
        for i in qd.grouped(x):
            loss[None] += x[i] * x[i]

    y.fill(2)
    with qd.ad.Tape(loss):
        x.copy_from(y)
        x.from_numpy(np.full((COUNT, 60), 3.0))
        total()
    assert "copy_from_device" not in launched and "copy_from_host" not in launched
    np.testing.assert_array_equal(x.grad.to_numpy(), 6.0)
    assert not y.grad.to_numpy().any()


def test_wrong_shapes_raise_as_on_the_cpu() -> None:
    x, y = LAYOUTS["vector"](qd.f32), qd.Vector.field(3, qd.f32, shape=(60, COUNT))
    with pytest.raises(ValueError, match="copy_from shape mismatch"):
        x.copy_from(y)
    with pytest.raises(ValueError, match="Mismatch shape"):
        x.from_numpy(y)
    with pytest.raises(ValueError, match="copy_from shape mismatch"):
        x.copy_from(LAYOUTS["scalar"](qd.f32))
