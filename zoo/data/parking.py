"""
A driver on highway-env's parking lot, forwards and backwards, into spots and elsewhere, with noise, or at random.

The car is highway-env's; what of its road has no effect on the car (which lane is the closest) is left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zoo.data.playing import plain_env

LOT = np.array([31.0, 17.0])  # half sides of where places are, in metres: a car's half length from the walls
AISLE = 8.0  # half of its width
NEAR_WALL = np.array([31.0, 17.0])  # from where on a car may touch one
SCALES = np.array([100.0, 100.0, 5.0, 5.0, 1.0, 1.0])
TOP_SPEED, ARRIVED = 8.0, 1.5
MEAN_HOLD = 5  # steps for which a random pedal and wheel are held


class Driver:
    """
    What one driver means to do: park in spots and back out of them, go to places in between, or nothing in particular.

    :param noise: standard deviation of the Gaussian noise on pedal and wheel
    :param rng: source of randomness
    """

    def __init__(self, noise: float, rng: np.random.Generator) -> None:
        self.noise, self.rng = noise, rng
        self.wanders = bool(rng.uniform() < 0.2)
        self.push = rng.uniform(-1.0, 1.0, 2)
        self.places: list[np.ndarray] = []

    def act(self, car: Any) -> np.ndarray:
        """Pedal and wheel, each from -1 to 1."""
        means = self._wander(car.speed) if self.wanders else self._drive(car)
        return means + self.rng.normal(0.0, self.noise, 2)

    def _wander(self, speed: float) -> np.ndarray:
        if self.rng.uniform() < 1 / MEAN_HOLD:
            self.push = self.rng.uniform(-1.0, 1.0, 2)
        brake = np.sign(speed) if abs(speed) > TOP_SPEED else 0.0
        return self.push - np.array([brake, 0.0])

    def _drive(self, car: Any) -> np.ndarray:
        if self.places and np.hypot(*(self.places[0] - car.position)) < ARRIVED:
            self.places.pop(0)
        if not self.places or self.rng.uniform() < 1 / 100:
            self._plan(*car.position)
        way = self.places[0] - car.position
        bearing = np.arctan2(*way[::-1]) - car.heading + (np.pi if self.gear < 0 else 0.0)
        bearing = (bearing + np.pi) % (2 * np.pi) - np.pi
        pedal = 0.5 * (self.gear * min(self.speed, np.hypot(*way)) - car.speed)
        return np.array([pedal, 1.5 * self.gear * bearing])

    def _plan(self, x: float, y: float) -> None:
        self.speed = self.rng.uniform(1.0, TOP_SPEED)
        self.gear = self.rng.choice([1.0, -1.0])
        if abs(y) > AISLE:  # back out
            self.gear = -1.0
            self.places = [np.array([x, 0.0]) + self.rng.uniform(-1.0, 1.0, 2) * [6.0, AISLE]]
        elif self.rng.uniform() < 0.5:
            spot = self.rng.uniform(-26.0, 26.0)
            side = self.rng.choice([1.0, -1.0])
            self.gear = 1.0
            self.places = [np.array([spot, 3.0 * side]), np.array([spot, 15.0 * side])]
        else:
            self.places = [self.rng.uniform(-LOT, LOT)]


def play(dataset_id: str, rows: int, noise: float, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """
    Play one episode; it ends early at a wall.

    :param dataset_id: its environment is played in
    :param rows: the most that the episode has, one more than its transitions
    :param noise: standard deviation of the Gaussian noise on pedal and wheel
    :param rng: source of every random number of the episode
    """
    env = plain_env(dataset_id)
    env.reset(seed=int(rng.integers(2**31)))
    car, driver = env.vehicle, Driver(noise, rng)
    car.on_state_update = lambda: None
    frames = env.config["simulation_frequency"] // env.config["policy_frequency"]
    observations, actions = [_observe(car)], []
    while not car.crashed and len(observations) < rows:
        actions.append(driver.act(car).clip(-1.0, 1.0).astype(np.float32))
        env.action_type.act(actions[-1])
        for _ in range(frames):
            _advance(env.road, car, 1 / env.config["simulation_frequency"])
        observations.append(_observe(car))
    actions.append(np.zeros(2, dtype=np.float32))  # none is taken in the last state
    return {
        "observations": np.array(observations, dtype=np.float32),
        "actions": np.array(actions),
        "terminals": np.arange(len(actions)) == len(actions) - 1,
    }


def _advance(road: Any, car: Any, seconds: float) -> None:
    """Exactly what the road does, but for looking at walls that are far away."""
    car.step(seconds)
    if (np.abs(car.position) > NEAR_WALL).any():
        for wall in road.objects:
            car.handle_collisions(wall, seconds)


def _observe(car: Any) -> np.ndarray:
    return np.concatenate([car.position, car.velocity, car.direction]) / SCALES
