"""Ink in lists of particles: its mass stays, the number of particles follows the flow, and the drop comes back."""

import ink as example
import numpy as np
import pytest

import quadrants as qd


@pytest.fixture
def ink():
    qd.init(arch=qd.cpu)
    made = example.Ink(64, period=2.0)
    made.drop(500, 0.15)
    yield made
    qd.reset()


def draw(ink):
    image = np.zeros((16, 16), np.float32)
    ink.draw(ink.now, image)
    return image


def test_ink_is_stretched_and_comes_back(ink):
    before, counts = draw(ink), []
    for step in range(60):
        ink.step(step / 30, 1 / 30)
        count, mass = ink.measure(ink.now)
        counts.append(count)
        assert mass == pytest.approx(1, rel=1e-4)
        if step == 29:
            stretched = draw(ink)
    assert counts[29] > 600  # particles have split
    assert np.abs(stretched - before).sum() > 5 * np.abs(draw(ink) - before).sum()
    lists = ink.now.parent()
    assert lists._cells.observe() == counts[-1]
    assert lists.parent(2)._cells.observe() < 8**2 // 2  # blocks of cells with memory
