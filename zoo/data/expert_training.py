"""
Train the walker behind the AntMaze data: soft actor-critic that learns about all directions from every step.

The reward is the distance along the direction that the ant was told. Three things make it quick on one core:

- *Relabelling*: the ant's dynamics do not depend on the direction, so half of a batch gets directions drawn anew.
- *Symmetry*: the networks see the ant as :mod:`zoo.data.ant` shows it, in which all headings and the four legs are
  the same, and half of a batch is mirrored.
- Physics are cheap beside an update, so several ants walk for each.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch as th
from torch import nn
from tqdm import tqdm

from proq_agent.common.files import atomic_file
from zoo.data.ant import (
    ACTION_DIM,
    ACTION_INDEX,
    ACTION_SIGN,
    DIRECTION,
    FEATURE_INDEX,
    FEATURE_SIGN,
    LAYERS,
    WALKER_PATH,
    Walker,
    ant_features,
    leg_actions,
    motor_actions,
    world_axes,
)
from zoo.data.expert_networks import Actor, Critics
from zoo.data.flat_floor import FlatFloor, measure

SAVE_INTERVAL = 5_000  # updates
MEASURED_STEPS = 10_000  # while it trains
BATCH_SIZE = 256
LEARNING_RATE = 3e-4
ANNEALED = 0.2  # share of the updates, at the end, in which the learning rate falls to zero
DISCOUNT = 0.98
TARGET_SHARE = 0.005  # of the critics in their targets, an update
REWARD_SCALE = 10.0
TARGET_ENTROPY = -ACTION_DIM / 2
RELABELLED = 0.5  # share of a batch whose directions are drawn anew
ACTOR_INTERVAL = 2  # critic updates for one of the actor
N_ANTS = 8  # steps of physics an update
RANDOM_STEPS = 8_000  # at the start, before the first update
REPLAY_STEPS = 600_000  # that are remembered


class Symmetries:
    """The symmetries of the ant, one for each row of a batch."""

    def __init__(self) -> None:
        self._features = th.as_tensor(FEATURE_INDEX), th.as_tensor(FEATURE_SIGN, dtype=th.float32)
        self._actions = th.as_tensor(ACTION_INDEX), th.as_tensor(ACTION_SIGN, dtype=th.float32)

    def features(self, features: th.Tensor, numbers: th.Tensor) -> th.Tensor:
        index, sign = self._features
        return features.gather(1, index[numbers]) * sign[numbers]

    def actions(self, actions: th.Tensor, numbers: th.Tensor) -> th.Tensor:
        index, sign = self._actions
        return actions.gather(1, index[numbers]) * sign[numbers]


def quarter_turns(features: th.Tensor) -> th.Tensor:
    """How many quarters to turn each ant by until its direction is in front."""
    x, y, _ = features[:, DIRECTION].T
    return th.where(x.abs() >= y.abs(), th.where(x >= 0, 0, 2), th.where(y >= 0, 1, 3))


class Replay:
    """The last rows that were added."""

    def __init__(self, capacity: int):
        self._columns: dict[str, th.Tensor] = {}
        self.capacity, self.added = capacity, 0

    def add(self, n_rows: int, **arrays: np.ndarray) -> None:
        rows = (self.added + np.arange(n_rows)) % self.capacity
        for name, array in arrays.items():
            values = th.as_tensor(array, dtype=th.float32)
            if name not in self._columns:
                self._columns[name] = th.empty(self.capacity, *values.shape[1:])
            self._columns[name][rows] = values
        self.added += n_rows

    def sample(self, n_rows: int, generator: th.Generator) -> dict[str, th.Tensor]:
        rows = th.randint(min(self.added, self.capacity), (n_rows,), generator=generator)
        return {name: column[rows] for name, column in self._columns.items()}


class WalkerTraining:
    """
    Everything that training changes.

    :param n_updates: how many updates there will be
    :param seed: of all random numbers
    """

    def __init__(self, n_updates: int, seed: int = 0):
        self.generator = th.Generator().manual_seed(seed)
        self.n_updates = n_updates
        self.updates = 0
        self.floor = FlatFloor(N_ANTS, np.random.default_rng(seed))
        self.replay = Replay(REPLAY_STEPS)
        self.symmetries = Symmetries()
        with th.random.fork_rng(devices=[]):
            th.manual_seed(seed)
            self.actor, self.critics, self.targets = Actor(), Critics(), Critics().requires_grad_(False)
        self.targets.load_state_dict(self.critics.state_dict())
        self.log_temperature = nn.Parameter(th.tensor(-1.0))
        self._optimizers = [
            th.optim.Adam(parameters, lr=LEARNING_RATE, fused=True)
            for parameters in (self.critics.parameters(), self.actor.parameters(), [self.log_temperature])
        ]

    def advance(self) -> None:
        """Walk a step with all ants, and learn from what is remembered."""
        if self.replay.added == 0:
            # Also after a resume, where the first steps are not random: the memory is not saved.
            for _ in range(RANDOM_STEPS // N_ANTS):
                self._walk()
        self._walk()
        self._update()

    def walker(self) -> Walker:
        """What was learned so far."""
        return Walker(
            {
                f"{layer}.{part}": array.numpy().T
                for layer in LAYERS
                for part, array in getattr(self.actor, layer).state_dict().items()
            }
        )

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed training needs; the memory fills anew."""
        return {
            "updates": self.updates,
            "generator": self.generator.get_state(),
            "log_temperature": self.log_temperature.detach(),
            "networks": [network.state_dict() for network in (self.actor, self.critics, self.targets)],
            "optimizers": [optimizer.state_dict() for optimizer in self._optimizers],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.updates = state["updates"]
        self.generator.set_state(state["generator"])
        self.log_temperature.data.copy_(state["log_temperature"])
        for network, values in zip((self.actor, self.critics, self.targets), state["networks"], strict=True):
            network.load_state_dict(values)
        for optimizer, values in zip(self._optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(values)

    @th.no_grad()
    def _walk(self) -> None:
        floor = self.floor
        axes = world_axes(floor.qpos)
        features = ant_features(floor.qpos, floor.qvel, floor.directions, axes)
        directions = floor.directions.copy()
        if self.updates == 0:
            actions = floor.rng.uniform(-1.0, 1.0, size=(N_ANTS, ACTION_DIM))
        else:
            rows = th.as_tensor(features, dtype=th.float32)
            turns = quarter_turns(rows)
            legs, _ = self.actor.sample(self.symmetries.features(rows, turns), self.generator)
            actions = motor_actions(self.symmetries.actions(legs, -turns % 4).numpy())
        moves, fallen = floor.step(actions)
        next_axes = world_axes(floor.qpos)
        self.replay.add(
            N_ANTS,
            features=features,
            axes=axes[:, :2],
            actions=leg_actions(actions),
            moves=moves,
            directions=directions,
            alive=~fallen,
            next_features=ant_features(floor.qpos, floor.qvel, directions, next_axes),
            next_axes=next_axes[:, :2],
        )
        floor.renew(fallen)

    def _batch(self) -> tuple[th.Tensor, ...]:
        """Features, actions, rewards, next features and whether the ant still stands, relabelled and mirrored."""
        batch = self.replay.sample(BATCH_SIZE, self.generator)
        angles = th.rand(BATCH_SIZE, generator=self.generator) * (2 * math.pi)
        relabelled = th.rand(BATCH_SIZE, 1, generator=self.generator) < RELABELLED
        directions = th.where(relabelled, th.stack((angles.cos(), angles.sin()), dim=-1), batch["directions"])
        views = []
        for prefix in ("", "next_"):
            features = batch[f"{prefix}features"]
            features[:, DIRECTION] = th.einsum("ni,nij->nj", directions, batch[f"{prefix}axes"])
            turns = quarter_turns(features)
            mirrors = 4 * th.randint(2, (BATCH_SIZE,), generator=self.generator)
            # A mirror leaves the direction in front.
            views.append((self.symmetries.features(self.symmetries.features(features, turns), mirrors), turns, mirrors))
        (features, turns, mirrors), (next_features, _, _) = views
        actions = self.symmetries.actions(self.symmetries.actions(batch["actions"], turns), mirrors)
        rewards = REWARD_SCALE * (batch["moves"] * directions).sum(dim=-1)
        return features, actions, rewards, next_features, batch["alive"]

    def _update(self) -> None:
        features, actions, rewards, next_features, alive = self._batch()
        rate = LEARNING_RATE * min(1.0, (self.n_updates - self.updates) / (ANNEALED * self.n_updates))
        temperature = self.log_temperature.exp().detach()
        with th.no_grad():
            next_actions, next_log_density = self.actor.sample(next_features, self.generator)
            next_values = self.targets(next_features, next_actions).amin(dim=0) - temperature * next_log_density
            targets = rewards + DISCOUNT * alive * next_values
        critic_loss = (self.critics(features, actions) - targets).square().mean(dim=-1).sum()
        self.updates += 1
        self._descend(0, critic_loss, rate)
        if self.updates % ACTOR_INTERVAL == 0:
            self.critics.requires_grad_(False)
            policy_actions, log_density = self.actor.sample(features, self.generator)
            values = self.critics(features, policy_actions).amin(dim=0)
            self._descend(1, (temperature * log_density - values).mean(), rate)
            self.critics.requires_grad_(True)
            surplus = log_density.detach().mean() + TARGET_ENTROPY
            self._descend(2, -self.log_temperature * surplus, rate)
        with th.no_grad():
            th._foreach_lerp_(list(self.targets.parameters()), list(self.critics.parameters()), TARGET_SHARE)

    def _descend(self, number: int, loss: th.Tensor, learning_rate: float) -> None:
        optimizer = self._optimizers[number]
        optimizer.param_groups[0]["lr"] = learning_rate
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def describe_walker(walker: Walker, n_steps: int) -> str:
    """One line: how fast it is, and how often it falls."""
    speed, falls = measure(walker, n_steps)
    return f"{speed:.4f} units a step under action noise 0.2, {falls} falls in {n_steps} steps"


def measure_walker(path: Path | None = None) -> str:
    """
    Measure a walker for long.

    :param path: its weights; the shipped ones by default
    """
    return describe_walker(Walker.load(path or WALKER_PATH), 10 * MEASURED_STEPS)


def train_walker(path: Path, updates: int, seed: int) -> None:
    """
    Train a walker, or go on with its training, and save it now and then.

    :param path: weights, an ``.npz``; the state of the training goes beside it, as ``.pt``
    :param updates: in all
    :param seed: of all randomness
    """
    state = path.with_suffix(".pt")
    training = WalkerTraining(updates, seed)
    if state.exists():
        training.load_state_dict(th.load(state, weights_only=True))
        print(f"{state}: resumed after {training.updates} updates", flush=True)
    with tqdm(total=updates, initial=training.updates, unit="update", disable=None) as bar:
        while training.updates < updates:
            training.advance()
            bar.update()
            if training.updates % SAVE_INTERVAL == 0 or training.updates == updates:
                training.walker().save(path)
                with atomic_file(state) as file:
                    th.save(training.state_dict(), file)
                bar.write(f"{training.updates} updates: {describe_walker(training.walker(), MEASURED_STEPS)}")
                sys.stdout.flush()
