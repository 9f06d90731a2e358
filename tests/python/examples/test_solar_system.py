"""The solar system turns as astronomers observe it."""

import numpy as np
import pytest
import solar_system

import quadrants as qd

# Sidereal periods in days: NASA planetary fact sheets.
SIDEREAL = {"Venus": 224.701, "Earth": 365.256, "Mars": 686.980, "Jupiter": 4332.589}


@pytest.fixture(autouse=True)
def double_precision():
    qd.init(arch=qd.cpu, log_level="error", default_fp=qd.f64)


def test_states_lie_at_the_planets_distances():
    for planet in solar_system.PLANETS:
        position, velocity = solar_system.get_state(planet)
        distance = np.linalg.norm(position)
        assert planet.axis * (1 - planet.eccentricity) <= distance <= planet.axis * (1 + planet.eccentricity)
        speed_squared = solar_system.GAUSS**2 * (1 + 1 / planet.inverse_mass) * (2 / distance - 1 / planet.axis)
        assert velocity @ velocity == pytest.approx(speed_squared, rel=1e-10)


def test_energy_drifts_by_less_than_a_millionth_in_twenty_years():
    system = solar_system.SolarSystem(n_asteroids=100, step_days=2.0)
    start = system.energy()
    for _ in range(3650):
        system.step()
    assert abs(system.energy() / start - 1.0) < 1e-6


def test_periods_agree_with_observation():
    periods = solar_system.find_periods(2.0, 24.0, list(SIDEREAL))
    for name, period in SIDEREAL.items():
        assert periods[name] == pytest.approx(period, rel=1.5e-3), name


def test_asteroids_stay_in_their_belt():
    system = solar_system.SolarSystem(n_asteroids=500, step_days=4.0)
    for _ in range(900):
        system.step()
    radius = np.linalg.norm(system.x.to_numpy()[system.n_massive :], axis=1)
    assert 1.8 < radius.min() and radius.max() < 3.8
