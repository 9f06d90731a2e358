"""The kernels of the example programs, on small scenes."""

import sys
from pathlib import Path
from unittest import mock

import numpy as np

import quadrants as qd
from quadrants._language.kernel import derive

from .gradients import ADJOINTS_ON_TAPE, FUSED
from .recording import Launches

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import image_pipeline
import mpm
import orbit_fit
import path_tracer
import solar_system
import spring_robot


def images() -> Launches:
    plane = np.zeros((8, 8), np.float32)
    yield image_pipeline.bilateral_filter, plane, plane.copy(), 2, 0.5, 1.0
    yield image_pipeline.count_levels, plane, np.zeros(256, np.int32)
    yield image_pipeline.apply_curve, plane, np.zeros(256, np.float32)


def material_points() -> Launches:
    with mock.patch.object(mpm.Scene, "reset"):
        scene = mpm.Scene(np.zeros((4, 2), np.float32), np.zeros(4, np.int32))
    yield (mpm.Scene.reset, scene)
    yield (scene.clear_grid,)
    yield (scene.particles_to_grid,)
    yield (scene.move_grid,)
    yield (scene.grid_to_particles,)


def orbits() -> Launches:
    with mock.patch.object(orbit_fit.OrbitFit, "_observe"):
        fit = orbit_fit.OrbitFit()
    yield fit.advance, 1
    yield derive(fit.advance, ADJOINTS_ON_TAPE), 1
    yield (derive(fit.compare, FUSED),)


def rooms() -> Launches:
    room = path_tracer.build_room(8, 8)
    yield room.add_samples, 4
    places, result = qd.Vector.ndarray(3, qd.f32, 4), qd.Vector.ndarray(3, qd.f32, 4)
    yield room.measure_irradiance, places, result, qd.Vector([0.0, 1.0, 0.0]), 4


def planets() -> Launches:
    system = solar_system.SolarSystem(n_asteroids=8)
    yield system.drift, 1.0
    yield system.kick, 1.0
    yield (system.sum_energy,)


def robots() -> Launches:
    robot = spring_robot.SpringRobot(steps=4)
    for kernel in (robot.pull, robot.move):
        yield kernel, 1
        yield derive(kernel, ADJOINTS_ON_TAPE), 1
    yield (derive(robot.measure, FUSED),)
