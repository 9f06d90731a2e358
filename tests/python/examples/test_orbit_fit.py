"""The fit finds what made the orbits, and its gradient is right."""

import numpy as np
import orbit_fit
import pytest

import quadrants as qd


@pytest.fixture(autouse=True)
def double_precision():
    qd.init(arch=qd.cpu, log_level="error", default_fp=qd.f64)


def test_gradient_is_the_slope_of_the_misfit():
    problem = orbit_fit.OrbitFit(steps=40, every=10)
    velocity, mass = problem.true_velocity * 1.05, problem.true_mass * 1.1
    problem.load(velocity, mass)
    _, by_velocity, by_mass = problem.evaluate()

    def misfit(change: np.ndarray, more: np.ndarray) -> float:
        problem.load(velocity + change, mass + more)
        return problem.evaluate()[0]

    for index in ((1, 0), (3, 1)):
        change = np.zeros_like(velocity)
        change[index] = 1e-5
        slope = (misfit(change, 0 * mass) - misfit(-change, 0 * mass)) / 2e-5
        assert by_velocity[index] == pytest.approx(slope, rel=1e-5)
    more = np.array([0.0, 0.0, 1e-5, 0.0])
    assert by_mass[2] == pytest.approx((misfit(0 * velocity, more) - misfit(0 * velocity, -more)) / 2e-5, rel=1e-5)


def test_fit_finds_the_velocities():
    problem = orbit_fit.OrbitFit(steps=100, every=10)
    losses = problem.fit(150)
    assert losses[-1] < 1e-3 * losses[0]
    assert np.abs(problem.found_velocity - problem.true_velocity)[1:].max() < 0.05
