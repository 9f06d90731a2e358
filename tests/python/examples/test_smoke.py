"""Smoke on a sparse grid: it rises, its mass stays, and memory follows it."""

import numpy as np
import pytest
import smoke as example

import quadrants as qd


@pytest.fixture
def smoke():
    qd.init(arch=qd.cpu)
    made = example.Smoke(128)
    made.emit(8.0)
    yield made
    qd.reset()


def height(image):
    rows = np.arange(len(image))[::-1]
    return float((image.sum(1) * rows).sum() / image.sum())


def test_smoke_rises_and_memory_follows_it(smoke):
    before, after = np.zeros((128, 128), np.float32), np.zeros((128, 128), np.float32)
    smoke.project(before)
    mass = smoke.total()
    assert mass == pytest.approx(4 / 3 * np.pi * 8**3, rel=0.05)
    for step in range(8):
        smoke.step(step / 30, 1 / 30)
    smoke.project(after)
    assert height(after) > height(before) + 1
    assert smoke.total() == pytest.approx(mass, rel=0.35)
    blocks = smoke.blocks._cells.observe()
    assert 0 < blocks < 16**3 // 10
