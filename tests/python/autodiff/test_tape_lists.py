"""What programs see of a tape: its calls, and calls that are put there by hand."""

from __future__ import annotations

import warnings

import pytest
from autodiff_support import numbers, scalar_loss

import quadrants as qd
from quadrants.types.enums import AutodiffMode

pytestmark = pytest.mark.usefixtures("on_every_backend")


def test_calls_are_pairs_of_kernels_and_all_arguments():
    x, loss = numbers([1.0, 2.0]), scalar_loss()

    @qd.kernel
    def run(scale: int, offset: int = 5):
        for i in x:
            loss[None] += scale * x[i] + offset

    with qd.ad.Tape(loss) as tape:
        run(3)
        run(scale=4, offset=6)
        x[0] = 7.0
        assert tape.calls == [(run, (3, 5)), (run, (4, 6))]
        assert tape.modes == [AutodiffMode.NONE, AutodiffMode.NONE]


def test_inserted_call_has_a_gradient():
    x, loss = numbers([1.0, 2.0]), scalar_loss()

    @qd.kernel
    def run(scale: int):
        for i in x:
            loss[None] += scale * x[i]

    with qd.ad.Tape(loss) as tape:
        tape.insert(run, (3,))
        run(2)
    assert x.grad.to_numpy().tolist() == [5.0, 5.0]


def test_validation_without_debug_mode_warns(on_every_backend):
    x, loss = numbers([1.0]), scalar_loss()

    @qd.kernel
    def run():
        for i in x:
            loss[None] += x[i]

    with pytest.warns(UserWarning, match="Debug mode is disabled"), qd.ad.Tape(loss, validation=True):
        run()
    assert x.grad[0] == 1.0
    on_every_backend(debug=True)
    x, loss = numbers([1.0]), scalar_loss()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with qd.ad.Tape(loss, validation=True):
            run()


def test_gradient_of_a_kernel_without_gradients_warns():
    x = qd.field(qd.f64, shape=2)

    @qd.kernel
    def double():
        for i in x:
            x[i] = 2.0

    with pytest.warns(UserWarning, match="no container that it uses, such as .*, has one"):
        double.grad()
    assert x.to_numpy().tolist() == [0.0, 0.0]
