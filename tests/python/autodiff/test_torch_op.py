"""Kernels as operators of torch: autograd, fake tensors, `torch.compile`."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np
import pytest

import quadrants as qd

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("on_every_backend")


def _wave() -> Any:
    @qd.ad.torch_op(outputs="y")
    @qd.kernel
    def wave(x: qd.types.ndarray(dtype=qd.f64), scale: float, y: qd.types.ndarray(dtype=qd.f64)):
        """A sine."""
        for I in qd.grouped(x):
            y[I] = qd.sin(x[I]) * scale

    return wave


def _input(*shape: int) -> Any:
    return torch.linspace(-1.0, 1.0, int(np.prod(shape)), dtype=torch.float64).reshape(shape).requires_grad_()


def test_forward_and_backward():
    wave, x = _wave(), _input(2, 3)
    y = wave(x, 2.0)
    assert torch.allclose(y, 2 * torch.sin(x))
    y.sum().backward()
    assert torch.allclose(x.grad, 2 * torch.cos(x))


def test_gradient_against_differences():
    wave = _wave()
    assert torch.autograd.gradcheck(lambda x: wave(x, 2.0), (_input(2, 3),))


def test_operator_keeps_the_rules_of_torch():
    torch.library.opcheck(_wave().operator, (_input(4), 2.0))


def test_whole_graph_is_compiled():
    wave, x = _wave(), _input(5)

    @torch.compile(fullgraph=True, backend="aot_eager")
    def loss(x: Any) -> Any:
        return (wave(x * 2.0, scale=3.0) ** 2).sum()

    loss(x).backward()
    expected = 2 * 3 * torch.sin(2 * x) * 3 * torch.cos(2 * x) * 2
    assert torch.allclose(x.grad, expected.detach())


def test_several_outputs_and_inputs():
    @qd.ad.torch_op(outputs={"s": lambda a, b, n: a.new_empty(()), "p": "b"})
    @qd.kernel
    def both(a: qd.types.ndarray(dtype=qd.f64), s: qd.types.ndarray(dtype=qd.f64), b: qd.types.ndarray(dtype=qd.f64), n: int, p: qd.types.ndarray(dtype=qd.f64)):  # fmt: skip  # noqa: E501
        for i in a:
            s[None] += a[i] * b[i] * n
            p[i] = a[i] * a[i] + b[i]

    a, b = _input(3), _input(3)
    torch.autograd.gradcheck(lambda a, b: both(a, b, 2), (a, b))
    total, product = both(a, b, n=2)
    assert total.shape == () and torch.allclose(product, a * a + b)


def test_only_what_needs_a_gradient_gets_one():
    wave, x = _wave(), _input(3)
    plain = x.detach()
    assert not wave(plain, 1.0).requires_grad
    wave(x[1:], 1.0).sum().backward()
    assert x.grad[0] == 0


def test_strided_tensors():
    wave, x = _wave(), _input(4, 3)
    wave(x.T[::2], 1.0).sum().backward()
    assert torch.allclose(x.grad[:, ::2], torch.cos(x[:, ::2])) and not x.grad[:, 1].any()


def test_gradient_of_the_gradient_is_refused():
    x = _input(3)
    (first,) = torch.autograd.grad(_wave()(x, 1.0).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError):
        first.sum().backward()


def test_wrong_uses_are_refused():
    def plain(x: int) -> None: ...

    with pytest.raises(TypeError, match="takes a kernel"):
        qd.ad.torch_op(plain, outputs="x")

    @qd.kernel
    def run(x: qd.types.ndarray(), flag: qd.template()):
        x[0] = 1.0

    with pytest.raises(TypeError, match="has no array 'z'"):
        qd.ad.torch_op(run, outputs="z")
    with pytest.raises(TypeError, match="no type for parameter 'flag'"):
        qd.ad.torch_op(run, outputs={"x": lambda flag: torch.zeros(1)})
    with pytest.raises(TypeError, match="no array that its outputs are like"):
        qd.ad.torch_op(run, outputs="x")


def test_calls_give_every_parameter_once():
    wave, x = _wave(), _input(3)
    torch.testing.assert_close(wave(scale=2.0, x=x), wave(x, 2.0))
    for call, message in {
        lambda: wave(x): "Missing argument 'scale'",
        lambda: wave(x, 1.0, 2.0): "Too many arguments",
        lambda: wave(x, 1.0, scale=1.0): "Multiple values for argument 'scale'",
        lambda: wave(x, 1.0, y=x): "Unexpected argument 'y'",
    }.items():
        with pytest.raises(qd.QuadrantsSyntaxError, match=message):
            call()


@pytest.mark.parametrize("given", [[1.0], None, np.ones(3), torch.eye(2).to_sparse()], ids=["list", "None", "numpy", "sparse"])
def test_inputs_that_are_no_dense_tensors_are_refused(given):
    with pytest.raises(
        TypeError, match="wave: x must be a dense tensor of torch, got (list|NoneType|ndarray|one of layout torch.sparse_coo)"
    ):
        _wave()(given, 1.0)


def test_gradients_under_checkpoints_of_torch():
    from torch.utils.checkpoint import checkpoint

    wave, x = _wave(), _input(3)
    checkpoint(lambda x: wave(wave(x, 2.0), 1.0), x, use_reentrant=False).sum().backward()
    found, x.grad = x.grad, None
    wave(wave(x, 2.0), 1.0).sum().backward()
    torch.testing.assert_close(found, x.grad)


def test_autograd_function_of_the_user():
    @qd.kernel
    def square(x: qd.types.ndarray(), y: qd.types.ndarray()):
        for i in x:
            y[i] = x[i] * x[i]

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = torch.zeros_like(x)
            square(x, y)
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            x, y = (tensor.detach().requires_grad_() for tensor in ctx.saved_tensors)
            y.grad = gradient.clone()
            square.grad(x, y)
            return x.grad

    x = _input(3)
    Square.apply(x).sum().backward()
    assert torch.allclose(x.grad, 2 * x.detach())


@pytest.mark.host_memory
@pytest.mark.parametrize("how", ["detached", "numpy", "part", "container"])
def test_kernel_that_changes_what_a_gradient_needs_is_seen(how: str):
    wave, x = _wave(), _input(4)
    y = wave(x, 2.0)

    @qd.kernel
    def double(a: qd.types.ndarray()):
        for i in range(a.shape[0]):
            a[i] = 2.0 * a[i]

    changed = {
        "detached": lambda: x.detach(),
        "numpy": lambda: x.detach().numpy(),
        "part": lambda: x.detach()[1:3],
        "container": lambda: torch.Tensor.view(x.detach(), 2, 2)[1],
    }[how]()
    version = x._version
    double(changed)
    assert x._version > version
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.host_memory
def test_kernel_that_changes_something_else_is_no_matter():
    wave, x = _wave(), _input(4)
    y = wave(x, 2.0)
    other = torch.zeros(4, dtype=torch.float64)
    wave(other, 3.0)

    @qd.kernel
    def copy(a: qd.types.ndarray(), b: qd.types.ndarray()):
        for i in range(4):
            b[i] = a[i]

    copy(x.detach(), other)
    y.sum().backward()
    assert torch.allclose(x.grad, 2 * torch.cos(x))


@pytest.mark.skipif(os.environ.get("QD_ARCH") != "cuda" or not torch.cuda.is_available(), reason="needs a GPU that torch sees")
def test_tensors_on_the_gpu():
    wave = _wave()
    x = torch.linspace(-1.0, 1.0, 5, dtype=torch.float64, device="cuda", requires_grad=True)
    wave(x, 2.0).sum().backward()
    assert torch.allclose(x.grad, 2 * torch.cos(x))

    @qd.kernel
    def total(x: qd.types.ndarray(dtype=qd.f64), loss: qd.types.ndarray(dtype=qd.f64)):
        for i in x:
            loss[0] += x[i] * x[i]

    loss = torch.zeros(1, dtype=torch.float64, device="cuda", requires_grad=True)
    for _ in range(3):
        x.grad = None
        with qd.ad.Tape(loss):
            total(x, loss)
        assert torch.allclose(x.grad, 2 * x)


def test_torch_that_is_missing_is_named_with_its_extra(monkeypatch):
    @qd.kernel
    def run(x: qd.types.ndarray(), y: qd.types.ndarray()):
        y[0] = x[0]

    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ModuleNotFoundError, match=r"torch is not installed: pip install 'quadrants\[torch\]'"):
        qd.ad.torch_op(run, outputs="y")
