"""Subclasses of arrays that override how they are copied, detached or converted: kernels work on the memory of what was passed."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import numpy as np
import pytest

import quadrants as qd

ARCHS = [os.environ["QD_ARCH"]] if os.environ.get("QD_ARCH") else ["cpu", "python"]
ANY = qd.types.ndarray()


@pytest.fixture(params=ARCHS, autouse=True)
def _runtime(request):
    qd.init(arch=getattr(qd, request.param), offline_cache=False, log_level="error", default_fp=qd.f64)
    yield
    qd.reset()


@qd.kernel
def fill(a: qd.types.ndarray()):
    for i in range(a.shape[0]):
        a[i] = 5


@qd.kernel
def square(a: qd.types.ndarray(), out: qd.types.ndarray()):
    for i in range(a.shape[0]):
        out[i] += a[i] * a[i]


def copying_tensors() -> Any:
    torch = pytest.importorskip("torch")

    class Copies(torch.Tensor):
        """Every method gives a copy, of the memory, too."""

        def detach(self, *arguments: Any, **keywords: Any) -> Any:
            return super().detach(*arguments, **keywords).clone()

        def numpy(self, *arguments: Any, **keywords: Any) -> Any:
            return super().detach().numpy().copy()

        def data_ptr(self) -> int:
            return 0

        def __dlpack__(self, *arguments: Any, **keywords: Any) -> Any:
            return self.as_subclass(torch.Tensor).clone().__dlpack__()

    class Overrides(torch.Tensor):
        """Every function of torch gives a copy."""

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = super().__torch_function__(func, types, args, kwargs or {})
            with torch._C.DisableTorchFunctionSubclass():
                return result.clone() if isinstance(result, torch.Tensor) else result

    return Copies, Overrides


@pytest.mark.host_memory
@pytest.mark.parametrize("number", [0, 1])
def test_writes_reach_tensors_of_subclasses(number: int):
    torch = pytest.importorskip("torch")
    cls = copying_tensors()[number]
    for dtype in (torch.float32, torch.bfloat16, torch.int32):
        for _ in range(2):
            plain = torch.zeros(3, dtype=dtype)
            fill(plain.as_subclass(cls))
            assert plain.tolist() == [5, 5, 5]
    plain = torch.zeros(6)
    fill(plain[::2].as_subclass(cls))
    assert plain.tolist() == [5, 0] * 3


@pytest.mark.host_memory
@pytest.mark.parametrize("number", [0, 1])
def test_tensors_of_subclasses_as_members(number: int):
    torch = pytest.importorskip("torch")
    cls = copying_tensors()[number]

    @dataclasses.dataclass
    class Pair:
        a: ANY
        b: ANY

    @qd.kernel
    def copy(pair: Pair):
        for i in range(3):
            pair.b[i] = pair.a[i]

    a, b = torch.tensor([1.0, 2.0, 3.0]), torch.zeros(3)
    copy(Pair(a.as_subclass(cls), b.as_subclass(cls)))
    assert b.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.host_memory
@pytest.mark.parametrize("number", [0, 1])
def test_gradients_reach_tensors_of_subclasses(number: int):
    torch = pytest.importorskip("torch")
    cls = copying_tensors()[number]
    x, loss = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64).as_subclass(cls), torch.zeros(1, dtype=torch.float64).as_subclass(cls)
    with torch._C.DisableTorchFunctionSubclass():
        x.requires_grad_(), loss.requires_grad_()
    plain = torch.Tensor.as_subclass
    for _ in range(2):
        with torch._C.DisableTorchFunctionSubclass():
            x.grad = None

        @qd.kernel
        def total(x: ANY, loss: ANY):
            for i in range(3):
                loss[0] += x[i] * x[i]

        with qd.ad.Tape(loss):
            total(x, loss)
            with torch._C.DisableTorchFunctionSubclass(), torch.no_grad():
                x.mul_(2.0)
            total(x, loss)
            with torch._C.DisableTorchFunctionSubclass(), torch.no_grad():
                x.mul_(0.5)
        with torch._C.DisableTorchFunctionSubclass():
            assert plain(loss, torch.Tensor).tolist() == [70.0]
            assert plain(x.grad, torch.Tensor).tolist() == [6.0, 12.0, 18.0]


@pytest.mark.host_memory
def test_parameters():
    torch = pytest.importorskip("torch")
    parameter = torch.nn.Parameter(torch.zeros(3))
    fill(parameter)
    assert parameter.tolist() == [5.0] * 3


@pytest.mark.host_memory
def test_tensors_without_memory_are_refused():
    torch = pytest.importorskip("torch")

    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner: Any) -> Any:
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            unwrap = [value.inner if isinstance(value, cls) else value for value in args]
            return func(*unwrap, **(kwargs or {}))

    inner = torch.zeros(3)
    for _ in range(2):
        with pytest.raises((TypeError, ValueError)):
            fill(Wrapper(inner))
        fill(torch.zeros(3))
    assert inner.tolist() == [0.0] * 3


@pytest.mark.host_memory
def test_writes_reach_arrays_of_subclasses():
    class Copies(np.ndarray):
        def view(self, *arguments: Any, **keywords: Any) -> Any:
            return super().copy().view(*arguments, **keywords)

        def __array__(self, *arguments: Any, **keywords: Any) -> Any:
            return np.array(self.tolist())

        def __array_finalize__(self, source: Any) -> None:
            self.unit = "m"

        def reshape(self, *arguments: Any, **keywords: Any) -> Any:
            return super().reshape(*arguments, **keywords).copy()

    for _ in range(2):
        plain = np.zeros(3)
        fill(np.ndarray.view(plain, Copies))
        assert plain.tolist() == [5.0] * 3


@pytest.mark.host_memory
def test_masked_arrays_are_refused():
    masked = np.ma.masked_array(np.zeros(3), [True, False, False])
    for _ in range(2):
        with pytest.raises(TypeError, match="masked array"):
            fill(masked)
        fill(np.zeros(3))
    field = qd.field(qd.f64, shape=3)
    with pytest.raises(TypeError, match="masked array"):
        field.from_numpy(masked)
    assert masked.data.tolist() == [0.0] * 3


@pytest.mark.host_memory
def test_wrappers_that_only_convert_are_refused():
    class Wrapper:
        def __init__(self, array: Any) -> None:
            self.array = array

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.array(self.array)

    array = np.zeros(3)
    with pytest.raises(TypeError):
        fill(Wrapper(array))


@pytest.mark.host_memory
def test_wrappers_that_show_their_memory():
    class Interface:
        def __init__(self, array: Any) -> None:
            self.__array_interface__ = array.__array_interface__
            self.array = array

    class Capsule:
        def __init__(self, array: Any) -> None:
            self.array = array

        def __dlpack__(self, **keywords: Any) -> Any:
            return self.array.__dlpack__(**keywords)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    for wrap in (Interface, Capsule, memoryview):
        array = np.zeros(3)
        fill(wrap(array))
        assert array.tolist() == [5.0] * 3


@pytest.mark.host_memory
def test_capsules_that_are_copies_are_refused():
    class Copy:
        def __init__(self, array: Any) -> None:
            self.array = array

        def __dlpack__(self, *, copy: Any = None, **keywords: Any) -> Any:
            if copy is False:
                raise BufferError("only copies")
            return self.array.copy().__dlpack__(**keywords)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    array = np.zeros(3)
    with pytest.raises((BufferError, ValueError, TypeError)):
        fill(Copy(array))
