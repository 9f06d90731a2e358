"""The material-point scene keeps what physics keeps."""

import mpm
import numpy as np
import pytest

import quadrants as qd


@pytest.fixture
def floating_scene():
    qd.init(arch=qd.cpu, log_level="error")
    positions, materials = mpm.seed_scene(2000, 2000)
    middle = positions * 0.5 + 0.25
    scene = mpm.Scene(middle.astype(np.float32), materials, n_grid=64, gravity=0.0)
    velocities = np.random.default_rng(3).uniform(-1.0, 1.0, (4000, 2)).astype(np.float32)
    scene.v.from_numpy(velocities)
    return scene


def test_silhouette_is_one_large_connected_region():
    from skimage.data import camera

    mask = mpm.find_silhouette(camera())
    assert mask.shape == (512, 512)
    assert 0.05 < mask.mean() < 0.4


def test_grid_receives_all_mass_and_momentum(floating_scene):
    scene = floating_scene
    scene.clear_grid()
    scene.particles_to_grid()
    mass = scene.grid_m.to_numpy().astype(np.float64).sum()
    momentum = scene.grid_v.to_numpy().astype(np.float64).sum(axis=(0, 1))
    expected = scene.particle_mass * scene.v.to_numpy().astype(np.float64).sum(axis=0)
    assert mass == pytest.approx(scene.particle_mass * scene.n_particles, rel=1e-5)
    np.testing.assert_allclose(momentum, expected, atol=1e-6 * mass * 1e3, rtol=1e-3)


def test_momentum_is_conserved_away_from_the_walls(floating_scene):
    scene = floating_scene
    before = scene.v.to_numpy().astype(np.float64).sum(axis=0)
    for _ in range(50):
        scene.step()
    after = scene.v.to_numpy().astype(np.float64).sum(axis=0)
    np.testing.assert_allclose(after, before, atol=0.02)
    assert np.isfinite(scene.x.to_numpy()).all()


def test_scene_stays_in_the_box():
    qd.init(arch=qd.cpu, log_level="error")
    scene = mpm.Scene(*mpm.seed_scene(4000, 4000), n_grid=64)
    for _ in range(400):
        scene.step()
    x = scene.x.to_numpy()
    assert x.min() > 0.0 and x.max() < 1.0
    picture = np.asarray(mpm.draw(scene, 100))
    assert (picture == mpm.COLORS[mpm.JELLY]).all(axis=-1).sum() > 100
    assert (picture == mpm.COLORS[mpm.WATER]).all(axis=-1).sum() > 100
