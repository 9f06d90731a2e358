"""The path tracer against radiometry that can be written down."""

import math

import numpy as np
import path_tracer
import pytest

import quadrants as qd


@pytest.fixture(autouse=True)
def runtime():
    qd.init(arch=qd.cpu, log_level="error", random_seed=5)


def test_irradiance_of_a_ball_of_light_is_the_closed_form():
    """A ball of radiance L, radius R at distance d lights a surface that faces it at an angle with π L (R/d)² cos: all of it is above."""
    radiance, radius, height = 3.0, 0.2, 1.0
    room = path_tracer.Room(4, 4, [((0.0, height, 0.0), radius, path_tracer.LIGHT, (radiance,) * 3)], walls=False)
    places = np.array([[x, 0.0, 0.0] for x in (0.0, 0.3, 0.7, 1.5)], np.float32)
    result = np.zeros_like(places)
    room.measure_irradiance(places, result, qd.Vector([0.0, 1.0, 0.0]), 20000)
    distance = np.sqrt(places[:, 0] ** 2 + height**2)
    expected = math.pi * radiance * (radius / distance) ** 2 * height / distance
    np.testing.assert_allclose(result, np.repeat(expected[:, None], 3, axis=1), rtol=0.01)


def test_a_ball_of_light_fills_its_solid_angle_of_the_picture():
    room = path_tracer.Room(128, 128, [((0.0, 0.0, 0.0), 0.5, path_tracer.LIGHT, (2.0, 1.0, 0.5))], walls=False)
    for _ in range(4):
        room.add_samples(2)
    film = room.film.to_numpy() / 4
    # The camera stands 3.6 away and sees 1 / 2.6 to each side: the ball's rim is at tan(asin(0.5 / 3.6)).
    share = math.pi * (2.6 * math.tan(math.asin(0.5 / 3.6))) ** 2 / 4
    np.testing.assert_allclose(film.mean(axis=(0, 1)), share * np.array([2.0, 1.0, 0.5]), rtol=0.02)


def test_the_room_is_lit_and_its_walls_are_colored():
    room = path_tracer.build_room(96, 96)
    for _ in range(8):
        room.add_samples(4)
    film = room.film.to_numpy() / 8
    assert np.isfinite(film).all() and (film >= 0).all()
    left, right = film[:12].mean(axis=(0, 1)), film[-12:].mean(axis=(0, 1))
    assert left[0] > 1.5 * left[2]
    assert right[2] > 1.5 * right[0]
