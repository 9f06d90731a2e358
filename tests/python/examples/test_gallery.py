"""The programs of examples/gallery: each draws, obeys the laws of its subject, and is a program for Taichi but for the names."""

import os
import runpy
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import quadrants as qd
from quadrants._command.port import port

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "gallery"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.py"))


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a program for some frames; returns its names and its animation."""

    def run(name, frames=3):
        monkeypatch.chdir(tmp_path)
        for variable, value in (("QD_GUI", "file"), ("QD_GUI_FRAMES", str(frames)), ("QD_LOG_LEVEL", "error")):
            monkeypatch.setenv(variable, value)
        # Other tests may have left an emulated GPU in this process, which qd.gpu would find.
        monkeypatch.setenv("QD_ARCH", os.environ.get("QD_ARCH", "cpu"))
        names = runpy.run_path(str(FOLDER / f"{name}.py"))
        (made,) = tmp_path.glob("*.gif")
        return names, Image.open(made)

    yield run
    qd.reset()


def test_there_are_sixteen():
    assert len(PROGRAMS) == 16


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_a_program_for_taichi_with_other_names(name):
    text = (FOLDER / f"{name}.py").read_text()
    original = text.replace("import quadrants as qd", "import taichi as ti").replace("qd.", "ti.")
    ported, findings = port(original)
    assert (ported, findings) == (text, [])


def test_julia(run):
    names, picture = run("julia")
    pixels = names["pixels"].to_numpy()
    assert picture.n_frames == 3 and picture.size == (640, 320)
    assert np.allclose(pixels, pixels[::-1, ::-1], atol=0.25) or abs(pixels.mean() - pixels[::-1, ::-1].mean()) < 0.02  # z and -z
    assert pixels.min() <= 0.05 and pixels.max() > 0.9


def test_mandelbrot(run):
    names, _ = run("mandelbrot", 1)
    image = names["image"].to_numpy()
    assert not image[240, 160].all() or image[240, 160].max() <= 1  # colors are in range
    assert 0.02 < (image == 0).all(2).mean() < 0.6  # the set itself is black


def test_game_of_life(run):
    names, _ = run("game_of_life", 2)
    n, alive, step = names["n"], names["alive"], names["step"]
    glider = np.zeros((n, n), np.int32)
    glider[[1, 2, 3, 3, 3], [2, 3, 1, 2, 3]] = 1
    alive.from_numpy(glider)
    for _ in range(4):
        step()
    assert np.array_equal(alive.to_numpy(), np.roll(glider, (1, 1), (0, 1)))


def test_bodies_keep_their_momentum(run):
    names, _ = run("nbody", 1)
    before = names["v"].to_numpy().astype(np.float64).sum(0)
    for _ in range(20):
        names["kick"]()
        names["drift"]()
    assert np.abs(names["v"].to_numpy().astype(np.float64).sum(0) - before).max() < 0.02


def test_material_points_fall_and_stay_in_the_box(run):
    names, _ = run("mpm88", 3)
    x = names["x"].to_numpy()
    assert 0 < x.min() and x.max() < 1 and x[:, 1].mean() < 0.4
    assert abs(names["grid_m"].sum() / (names["n_particles"] * names["mass"]) - 1) < 1e-4


def test_smoke_flows_without_sources(run):
    names, _ = run("stable_fluids", 4)
    before = np.abs(names["divergence"].to_numpy()).mean()
    names["find_divergence"]()
    assert np.abs(names["divergence"].to_numpy()).mean() < 0.8 * before
    assert names["smoke"].max() > 0.01


def test_lattice_conserves_mass_until_the_outlet_and_slows_behind_the_cylinder(run):
    names, _ = run("lattice_boltzmann", 20)
    density = names["f"].to_numpy().sum(-1)
    assert 0.9 < density.min() and density.max() < 1.15
    flow = names["flow"].to_numpy()
    assert flow[int(names["nx"] / 5 + names["radius"] * 1.6), 58, 0] < 0.5 * names["inflow"] < flow[5, 58, 0]


def test_vortices_keep_their_impulse(run):
    names, _ = run("vortex_rings", 1)
    strength = names["strength"].to_numpy()[:, None]
    before = (strength * names["vortex"].to_numpy()).sum(0)
    for _ in range(50):
        names["move"]()
    assert np.abs((strength * names["vortex"].to_numpy()).sum(0) - before).max() < 1e-4


def test_rays_end_at_the_surface(run):
    names, _ = run("ray_marching", 1)
    distance, image = names["distance"], names["image"].to_numpy()
    assert 0 <= image.min() and image.max() <= 1 and image.std() > 0.1

    @qd.kernel
    def measure(x: float, y: float) -> float:
        return distance(qd.math.vec3(x, y, 0.0), 0.0)

    assert measure(50.0, 0.25) == 0.25 and measure(0.0, 0.0) <= 0.0


def test_cloth_rests_on_the_ball(run):
    names, _ = run("cloth", 12)
    x = names["x"].to_numpy()
    assert np.linalg.norm(x, axis=-1).min() > names["radius"] - 0.01
    assert np.isfinite(x).all() and x[:, :, 1].max() < 0.5


def test_points_keep_their_distance(run):
    names, _ = run("poisson_disk", 4)
    points = names["points"].to_numpy()[: names["count"][None]].astype(np.float64)
    away = np.linalg.norm(points[:, None] - points, axis=-1) + 9 * np.eye(len(points))
    assert len(points) > 100 and away.min() > names["least"] * (1 - 1e-5)


def test_waves_keep_their_volume(run):
    names, _ = run("waves", 3)
    total = names["height"].to_numpy().astype(np.float64).sum()
    for _ in range(30):
        names["step"]()
    assert abs(names["height"].to_numpy().astype(np.float64).sum() / total - 1) < 0.02


def test_diffusion_stays_between_nothing_and_everything(run):
    names, _ = run("diffusion", 3)
    uv = names["uv"].to_numpy()
    assert uv.min() >= 0 and uv.max() <= 1 and (uv[0, :, :, 1] > 0.2).any()


def test_outlines_are_where_the_value_is_the_level(run):
    names, _ = run("marching_squares", 1)
    lines, n = names["trace"](), names["n"]
    ends, value = names["ends"].to_numpy()[:lines] * n, names["value"].to_numpy()
    cell = np.minimum(np.floor(ends).astype(int), n - 1)
    share = ends - cell
    corners = [value[tuple((cell + corner).T)] for corner in ((0, 0), (1, 0), (0, 1), (1, 1))]
    low, high = corners[0] + share[:, 0] * (corners[1] - corners[0]), corners[2] + share[:, 0] * (corners[3] - corners[2])
    assert lines > 20 and np.abs(low + share[:, 1] * (high - low) - names["level"]).max() < 1e-3


def test_values_are_sorted(run):
    names, _ = run("sorting", 64)
    values = names["values"].to_numpy()
    assert (np.diff(values) >= 0).all() and values[0] < 0.1


def test_particles_of_a_fluid_spread_at_their_density(run):
    names, _ = run("sph", 12)
    x, density = names["x"].to_numpy(), names["density"].to_numpy()
    assert 0.02 <= x.min() and x.max() <= 0.98 and x[:, 0].max() > 0.58
    assert 700 < np.median(density) < 1300
