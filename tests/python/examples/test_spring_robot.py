"""The robot's gradient is right, and it learns to walk."""

import numpy as np
import pytest
import spring_robot

import quadrants as qd


@pytest.fixture(autouse=True)
def double_precision():
    qd.init(arch=qd.cpu, log_level="error", default_fp=qd.f64)


def test_gradient_is_the_slope_of_the_loss():
    robot = spring_robot.SpringRobot(steps=20)
    weights = 0.1 * np.random.default_rng(1).standard_normal(robot.weight.shape)
    robot.weight.from_numpy(weights)
    _, gradient = robot.evaluate()
    direction = np.random.default_rng(2).standard_normal(weights.shape)
    losses = []
    for step in (1e-6, -1e-6):
        robot.weight.from_numpy(weights + step * direction)
        losses.append(robot.evaluate()[0])
    assert np.sum(gradient * direction) == pytest.approx((losses[0] - losses[1]) / 2e-6, rel=1e-4)


def test_robot_learns_to_walk():
    losses = spring_robot.SpringRobot(steps=250).learn(25)
    assert min(losses) < losses[0] - 0.05
