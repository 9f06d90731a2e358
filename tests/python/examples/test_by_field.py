"""The programs about statistics, solvers, torch and JAX find what is known otherwise."""

import numpy as np
import plate
import posterior
import pytest

import quadrants as qd


@pytest.fixture(autouse=True)
def runtime():
    qd.init(arch=qd.cpu, log_level="error")
    yield
    qd.reset()


def test_samples_have_the_moments_of_the_density():
    counts, means = posterior.run(chains=4000, steps=1000, size=64)
    assert np.allclose(means[:4], (0, 0, 1, 0.75), atol=0.03) and 0.2 < means[4] < 0.6
    bottom = counts.argmax(0)[[8, 32, 56]]  # the density is bent upward: rows count from the top
    assert bottom[1] > bottom[0] + 10 and bottom[1] > bottom[2] + 10


def test_a_plate_without_holes_has_a_straight_slope():
    temperature = plate.solve(np.ones((6, 10), bool))
    assert np.abs(temperature - (1 - (np.arange(10) + 0.5) / 10)).max() < 1e-10


def test_as_much_heat_flows_in_as_out():
    temperature = plate.solve(plate.make_plate(60, 120))
    assert np.nansum(1 - temperature[:, 0]) == pytest.approx(np.nansum(temperature[:, -1]), rel=1e-9)
    assert 0 < np.nanmin(temperature) and np.nanmax(temperature) < 1 and np.isnan(temperature).any()
    pixels = np.asarray(plate.draw(temperature))
    assert (pixels[np.isnan(temperature)] == 255).all() and pixels[5, 2, 0] > pixels[5, -3, 0]


def test_a_blurred_picture_becomes_sharper():
    torch = pytest.importorskip("torch")
    pytest.importorskip("skimage")
    import deblur

    photo = torch.zeros(40, 40)
    photo[10:30, 15:25] = 1.0
    blurred = deblur.blur(photo)
    weights = torch.from_numpy(deblur.WEIGHTS.astype(np.float32))
    assert torch.allclose(blurred[:, 20], torch.nn.functional.conv1d(photo[None, :, 20], weights[None, None], padding=4)[0], atol=1e-3)
    before, after = ((each - photo).square().mean() for each in (blurred, deblur.sharpen(blurred, 60)))
    assert after < 0.4 * before


def test_seven_charges_form_a_hexagon():
    pytest.importorskip("jax")
    import crystal

    points, energies = crystal.cool(7, 800)
    away = np.sort(np.linalg.norm(points[:, None] - points, axis=-1), axis=1)
    center = away[:, 1:].max(1).argmin()
    ring = np.delete(np.linalg.norm(points - points[center], axis=1), center)
    assert energies[-1] < energies[0] and np.ptp(ring) < 0.02 and np.linalg.norm(points[center]) < 0.02
    # Where the energy is least, heights hold half of the energy of the pairs: E is homogeneous in both.
    pairs = sum(1 / np.linalg.norm(points[i] - points[j]) for i in range(7) for j in range(i))
    assert (points**2).sum() == pytest.approx(pairs, rel=1e-3)
