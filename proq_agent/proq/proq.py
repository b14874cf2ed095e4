"""ProQ: offline goal-conditioned RL with projective quasimetric planning."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, Schedule

from proq_agent.chance.edges import ChanceEdge, edges_from_dicts
from proq_agent.chance.separation import separate_chance
from proq_agent.common.action_range import are_clipped
from proq_agent.common.dataset import HELD_OUT, MAX_HELD_OUT, GoalDataset
from proq_agent.common.distributed import is_main, own_rows
from proq_agent.common.goal_limits import GoalLimits
from proq_agent.common.goal_sampling import GoalBatch, GoalSampling
from proq_agent.common.offline import OfflineAlgorithm
from proq_agent.common.orientations import find_quaternions
from proq_agent.common.settings import Renamed, as_settings, to_dict
from proq_agent.common.spaces import check_actions
from proq_agent.common.tensor_cores import tensor_cores
from proq_agent.planning.navigator import Navigator, Plan
from proq_agent.planning.planner import Planner
from proq_agent.planning.settings import PlanningSettings
from proq_agent.proq import losses
from proq_agent.proq.batch_map import BatchMap
from proq_agent.proq.centring import centre_keypoints
from proq_agent.proq.checks import diagnose
from proq_agent.proq.diagnosis import Diagnosis
from proq_agent.proq.difficulty import charges
from proq_agent.proq.guided import GuidedController
from proq_agent.proq.keypoints import (
    KeypointObjective,
    cover_with_keypoints,
    diagnose_keypoints,
    drift_keypoints,
    keypoint_objective,
    move_keypoints,
    place_keypoints,
    settle_keypoints,
)
from proq_agent.proq.look_ahead import Later, look_ahead
from proq_agent.proq.map_goals import choose_on_map
from proq_agent.proq.map_progress import distance_per_step
from proq_agent.proq.markov import MAPS, choose_map, needed_coordinates
from proq_agent.proq.objectives import Known, MapObjective, actor_objective, map_objective
from proq_agent.proq.pace import sampled_pace
from proq_agent.proq.places import place_coordinates
from proq_agent.proq.policies import ProQPolicy
from proq_agent.proq.row_map import ManyRowMap, RowMap
from proq_agent.proq.settings import FIRST_KEYPOINTS, RENAMED, DistanceSettings, KeypointSettings
from proq_agent.proq.time_scale import choose_distance
from proq_agent.proq.trust import check_guidance, choose_planning
from proq_agent.quasimetric.multipliers import Multipliers

N_COVERED = 4096  # states that the keypoints are to be near to
N_CENTRED = 8192  # states that they are to be in the middle of
MAX_LOGGED = 1_000_000  # rows on disk that a diagnosis walks along
_BUILDING = threading.Lock()  # a navigator; not the agent's own, so that agents can be copied and pickled


class _Phase(NamedTuple):
    """Where a training stands."""

    learns_map: bool
    learns_actor: bool
    moves_keypoints: bool
    ends_map: bool  #: this is the last update of a map that others follow
    map_rate: float  #: learning rates
    actor_rate: float


class ProQ(OfflineAlgorithm):
    """
    Projective Quasimetric Planning: a map, keypoints on it and a short-range controller, from logged trajectories.

    An update draws transitions (s, a, s') with value goals g_v and actor goals g_a and descends

    * the representation loss: latents z = φ(s) vary in every dimension,
    * the distance loss: λ_dist · (d(s, s') ≤ 1) while d(s, g_v) is pushed up, so that d becomes the number of steps,
    * the classifier's loss: ψ tells states of the data from points between and beyond them,
    * the actor's loss: log π(a | s, φ(g_a)) weighted by exp(α · (d(s, g_a) - d(s', g_a))),

    and, every ``keypoints.freq`` updates, moves the keypoints apart within what ψ takes for reachable. ``predict`` then
    plans over the keypoints by shortest paths of hops not longer than ``planning.max_hop`` and heads for the first of
    them.

    ``num_timesteps`` counts gradient updates; no environment is needed to learn. Sizes and rates are the paper's by
    default, but not every mechanism: the zoo's page "What differs from the paper" has all of them, with their switches.
    A group of settings is given as an instance of its class or as a dict of some of its settings.

    :param policy: ``"MultiInputPolicy"`` or a subclass of :class:`~proq_agent.proq.policies.ProQPolicy`
    :param env: a goal environment to take the spaces from and to evaluate in; optional
    :param learning_rate: of the networks, a number or a function of the remaining progress (from 1 to 0)
    :param batch_size: transitions in an update
    :param temperature: α of the advantage-weighted regression
    :param max_weight: upper bound of a transition's weight in it; the paper prints none
    :param advantage_steps: over how many steps an action is judged, by how much nearer the trajectory came to the goal
        in each of them; the paper looks at the next state alone, but where a body with momentum, or with legs, is then
        depends more on how it moves already
    :param map_fraction: share of the updates, the first ones, in which φ, d, ψ and the keypoints are learned; then the
        keypoints settle on the nearest states of the data, and the actor goes on alone, on a map that no longer moves
    :param actor_fraction: share of the updates, the last ones, in which the actor is learned; the learning rate of map
        and actor follows the share of each
    :param acting_std: the most that the standard deviation of sampled actions may be, on a scale from -1 to 1: whoever
        learns from noisy actions need not act as noisily; None for what is learned, as in the paper
    :param goals: how value and actor goals are drawn, see :class:`~proq_agent.common.goal_sampling.GoalSampling`
    :param distance: see :class:`~proq_agent.proq.settings.DistanceSettings`
    :param keypoints: see :class:`~proq_agent.proq.settings.KeypointSettings`
    :param planning: what may change without training anew (but ``max_hop`` bounds the goals of ``goals.actor.on_map``),
        see :class:`~proq_agent.planning.settings.PlanningSettings`
    :param map_of: ``"goals"``: every goal is a point of the map; ``"open goals"``: but for the coordinates that do not
        matter, see :class:`~proq_agent.GoalSpec`; ``"observations"``: the map is of whole observations, and a goal is
        all states that satisfy it, which helps where goals alone do not tell what comes next, as positions without
        velocities; ``"places"``: of those coordinates of goals that take long to cross, see
        :func:`~proq_agent.proq.places.place_coordinates`, or the numbers of coordinates, which that becomes; None: what
        fits the dataset, see :func:`~proq_agent.proq.markov.choose_map`
    :param stochastic: ``"plan"`` finds transitions that cannot be predicted, as through a portal with random exits,
        keeps them out of the distance and plans with their odds; ``"ignore"`` trusts them like any other, as the paper
    :param held_out: share of the trajectories that are set aside for :meth:`diagnose`, see
        :meth:`~proq_agent.common.dataset.GoalDataset.split`; a dataset that has set some aside itself is used as it is
    :param compile: fuse the update with ``torch.compile``
    :param policy_kwargs: sizes of the networks, see :class:`~proq_agent.proq.policies.ProQPolicy`
    :param stats_window_size: as in SB3
    :param tensorboard_log: the log location for tensorboard; ``None`` for no logging
    :param verbose: 0 for no output but one line, on what chance decided in the data; 1 for info messages, 2 for debug
        messages
    :param seed: of all randomness in this object; no global state is touched
    :param device: ``"auto"`` uses CUDA where there is one
    :param _init_setup_model: whether to build the networks on creation
    :param dataset: trajectories to learn from; see also :meth:`set_dataset`
    :param observation_space: if there is neither an env nor a dataset yet
    :param action_space: likewise; without it, the range of the dataset's actions is used
    :param legacy: settings under the names of earlier versions, as ``max_hop``
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {"MultiInputPolicy": ProQPolicy}
    policy: ProQPolicy
    learned: ClassVar[tuple[str, ...]] = ("chance_edges", *OfflineAlgorithm.learned)
    stateful: ClassVar[tuple[str, ...]] = ("map_optimizer", "actor_optimizer", "keypoint_optimizer", "multipliers")
    shares_batches: ClassVar[bool] = True
    renamed: ClassVar[Renamed] = RENAMED

    def __init__(
        self,
        policy: str | type[ProQPolicy] = "MultiInputPolicy",
        env: GymEnv | str | None = None,
        learning_rate: float | Schedule = 3e-4,
        batch_size: int = 1024,
        temperature: float = 5.0,
        max_weight: float = 100.0,
        advantage_steps: int = 1,
        map_fraction: float = 1.0,
        actor_fraction: float = 1.0,
        acting_std: float | None = None,
        goals: GoalSampling | dict[str, Any] | None = None,
        distance: DistanceSettings | dict[str, Any] | None = None,
        keypoints: KeypointSettings | dict[str, Any] | None = None,
        planning: PlanningSettings | dict[str, Any] | None = None,
        map_of: str | Sequence[int] | None = None,
        stochastic: str = "plan",
        held_out: float = HELD_OUT,
        compile: bool = False,
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: th.device | str = "auto",
        _init_setup_model: bool = True,
        dataset: GoalDataset | None = None,
        observation_space: spaces.Space | None = None,
        action_space: spaces.Space | None = None,
        **legacy: Any,
    ) -> None:
        super().__init__(
            policy,
            env,
            learning_rate,
            batch_size,
            dataset=dataset,
            observation_space=observation_space,
            action_space=action_space,
            policy_kwargs=policy_kwargs,
            stats_window_size=stats_window_size,
            tensorboard_log=tensorboard_log,
            verbose=verbose,
            seed=seed,
            device=device,
        )
        if unknown := [name for name in legacy if name not in RENAMED]:
            raise TypeError(f"ProQ() got an unexpected keyword argument {unknown[0]!r}")
        groups: dict[str, Any] = {"goals": goals, "distance": distance, "keypoints": keypoints, "planning": planning}
        groups = RENAMED(groups | legacy)
        self.temperature = temperature
        self.max_weight = max_weight
        self.advantage_steps = advantage_steps
        self.map_fraction = map_fraction
        self.actor_fraction = actor_fraction
        self.acting_std = acting_std
        self.goals = as_settings(GoalSampling, groups["goals"])
        self.distance = as_settings(DistanceSettings, groups["distance"])
        self.keypoints = as_settings(KeypointSettings, groups["keypoints"])
        self.planning = as_settings(PlanningSettings, groups["planning"])
        self.map_of: str | Sequence[int] = _map_of(map_of, dataset)
        if map_of is None and self.map_of == "observations" and verbose:
            print("goals and actions do not tell what comes next, observations do: the map is of these (map_of)")
        if dataset is not None:
            self._complete_policy(dataset)
        self.stochastic = stochastic
        self.held_out = held_out
        self.compile = compile
        self._check_arguments()
        self.chance_edges: tuple[ChanceEdge, ...] = ()
        self._navigator: Navigator | None = None
        self._finish_init(_init_setup_model, dataset)

    def _check_arguments(self) -> None:
        if not 0.0 <= self.temperature < math.inf:
            raise ValueError(f"temperature must be a number, 0 or more, got {self.temperature!r}")
        if not self.max_weight > 0.0:
            raise ValueError(f"max_weight must be positive, got {self.max_weight!r}")
        if self.advantage_steps < 1:
            raise ValueError(f"advantage_steps must be a number of steps, at least 1, got {self.advantage_steps!r}")
        if self.acting_std is not None and not 0.0 <= self.acting_std < math.inf:
            raise ValueError(f"acting_std must be a number, 0 or more, or None, got {self.acting_std!r}")
        if self.stochastic not in ("plan", "ignore"):
            raise ValueError(f"stochastic must be 'plan' or 'ignore', got {self.stochastic!r}")
        if not 0.0 <= self.held_out <= 0.5:
            raise ValueError(f"held_out must be a share, from 0 to one half, got {self.held_out!r}")
        if isinstance(self.map_of, str) and self.map_of not in MAPS:
            raise ValueError(
                f"map_of must be one of {', '.join(map(repr, MAPS))}, numbers of coordinates, or None, "
                f"got {self.map_of!r}"
            )
        for name in ("map_fraction", "actor_fraction"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must lie in (0, 1], got {getattr(self, name)!r}")
        if self.keypoints.density and not self.distance.floor:
            raise ValueError("keypoints.density compares distances with their floor; leave distance.floor true")
        if self.map_fraction + self.actor_fraction < 1.0:
            raise ValueError("map_fraction and actor_fraction must add up to 1 or more: in between nothing is learned")

    # ---------------------------------------------------------------------------------------------------- building

    def _complete_policy(self, dataset: GoalDataset) -> None:
        """What ``policy_kwargs`` leave to the data."""
        assert isinstance(self.action_space, spaces.Box)
        left = {"coordinates", "quaternions", "clipped_actions"} - self.policy_kwargs.keys()
        found: dict[str, tuple[Any, str]] = {}
        if self.map_of == "open goals" and "coordinates" in left and (needed := needed_coordinates(dataset)):
            of = f"the map is of coordinates {list(needed)}"
            found["coordinates"] = needed, f"goals leave open what hardly changes: {of}"
        if "quaternions" in left and (starts := find_quaternions(dataset)):
            found["quaternions"] = starts, f"orientations begin at coordinates {list(starts)} of observations"
        if "clipped_actions" in left and are_clipped(dataset, self.action_space):
            found["clipped_actions"] = True, "many actions lie at a limit of their range: they stand for all beyond it"
        for name, (value, why) in found.items():
            self.policy_kwargs[name] = value
            if self.verbose:
                print(f"{why} (policy_kwargs.{name})")

    @classmethod
    def acting_settings(cls, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """Planning is, too, unless the actor is given goals within a hop, which ``planning.max_hop`` bounds."""
        return ("acting_std",) if arguments["goals"]["actor"]["on_map"] else ("acting_std", "planning")

    def _policy_arguments(self) -> dict[str, Any]:
        return {
            "n_keypoints": self.keypoints.n or FIRST_KEYPOINTS,
            "acting_std": self.acting_std,
            "map_on_observation": self.map_of == "observations",
            "open_goals": self.map_of == "open goals",
            "coordinates": None if isinstance(self.map_of, str) else self.map_of,
        }

    def _setup_training(self) -> None:
        of_actor = [*self.policy.actor.parameters(), self.policy.log_std]
        of_map = [p for p in self.policy.parameters() if p.requires_grad and not any(p is q for q in of_actor)]
        self.map_optimizer = self._adam(of_map)
        self.actor_optimizer = self._adam(of_actor)
        self.keypoint_optimizer = self._keypoint_adam()
        rate, most = self.distance.multiplier_learning_rate, self.distance.max_multiplier
        self.multipliers = Multipliers(("dist", "ood", "kps"), rate, most).to(self.device)

    def _keypoint_adam(self) -> th.optim.Adam:
        return th.optim.Adam([self.policy.standard_keypoints], lr=self.keypoints.learning_rate)

    def _prepare_dataset(self, dataset: GoalDataset) -> GoalDataset:
        """
        Set some trajectories aside, end the others at unpredictable transitions, and remember these as chance edges
        for the planner.
        """
        self._navigator = None
        if self.policy.goal_states is not None and self.num_timesteps == 0:
            self.policy.goal_states.remember(dataset.to(self.device), self.generator)
        dataset = self.on_map(dataset)
        pace = self.chance_edges[0].pace if self.chance_edges else 1.0  # is the actor's, whatever the data
        self.chance_edges = ()
        assert self.seed is not None
        dataset = dataset.split(self.held_out, self.seed)
        if self.stochastic == "plan":
            apart = separate_chance(dataset, self.seed)
            self.chance_edges = tuple(replace(edge, pace=pace) for edge in apart.edges)
            if self.verbose or (self.num_timesteps == 0 and is_main()):  # once; who goes on with an agent was told
                print(apart.summary)
            dataset = dataset.cut(apart.rows)
        self._complete_settings(dataset)
        return dataset

    def on_map(self, dataset: GoalDataset) -> GoalDataset:
        """The same trajectories, with points of the map for goals."""
        if self.map_of == "observations":
            dataset = dataset.on_observations()
        coordinates = self.policy.coordinates
        return dataset if coordinates is None else dataset.on_coordinates(coordinates)

    def _complete_settings(self, dataset: GoalDataset) -> None:
        """Losses follow the data where they are not told; of an agent that goes on, too, if it was told to forget."""
        if not self.distance.is_known:
            self.distance, why = choose_distance(self.distance, dataset)
            if self.verbose:
                print(why)
        if self.keypoints.repel_range is None:
            farthest = min(self.distance.far_focus, self.distance.far_offset)
            self.keypoints = replace(self.keypoints, repel_range=farthest)

    def _fit(self, dataset: GoalDataset) -> None:
        if self.policy.one_sign is not None:
            self.policy.one_sign.fit(dataset.observations)
        if self.policy.standardise:
            self.policy.observation_scaler.fit(dataset.observations)
            self.policy.goal_scaler.fit(dataset.achieved_goals)
        if self.distance.floor:
            step = dataset.longest_step / self.policy.goal_scaler.std
            self.policy.longest_step.copy_(th.where(step > 0, step, th.inf))
        place_keypoints(self.policy, dataset.achieved_goals, self.generator)

    # ---------------------------------------------------------------------------------------------------- learning

    def draw(self, generator: th.Generator | None) -> GoalBatch:
        """
        Transitions and goals for them.

        :param generator: source of randomness
        """
        assert self.dataset is not None
        return self.goals.sample(self.dataset, self.batch_size, generator)

    def train(self) -> None:
        """One update of the paper's Algorithm 1: (A) the map, (B) the keypoints, (C) the actor."""
        assert self.dataset is not None
        if not self.policy.training:
            self.policy.set_training_mode(True)
        self._navigator = None
        phase = self._phase()
        batch = self.next_batch()
        if phase.learns_map:
            choose_on_map(self.policy, self.dataset, batch, self.goals.value, self.generator)
        later: Later | None = None
        if phase.learns_actor:
            if self.goals.actor.on_map:
                hop = self.planning.known().max_hop
                choose_on_map(self.policy, self.dataset, batch, self.goals.actor, self.generator, hop)
            if self.advantage_steps > 1:
                later = own_rows(look_ahead(self.dataset, batch, self.goals.actor, self.advantage_steps))
        states, batch = batch.achieved_goals, own_rows(batch)

        # Both losses of the map as it is now, and their gradients, before either is descended on.
        with tensor_cores(self.device) as rounded:
            learned = self._map_loss(batch) if phase.learns_map else None
        if phase.learns_actor:  # (C) exactly: advantages are small differences of distances, times the temperature
            known = learned.known if learned and not rounded and later is None else None
            actor_loss, actor_metrics = self._actor_loss(batch, later, known)
            self._differentiate(self.actor_optimizer, actor_loss)
        with tensor_cores(self.device):
            if learned:  # (A)
                self._differentiate(self.map_optimizer, learned.loss)
            if phase.learns_actor:
                self._step(self.actor_optimizer, actor_metrics, phase.actor_rate)
            if learned:
                self._step(self.map_optimizer, learned.metrics, phase.map_rate)
                self.multipliers.update(**learned.violations)
            if phase.moves_keypoints:  # (B)
                objective = partial(self._keypoint_loss, charges=self._charges(states))
                found = move_keypoints(self.policy, self.keypoint_optimizer, objective, self.keypoints.bounded)
                self.multipliers.update(kps=found.violation)
                self._accumulate(found.metrics)
        if phase.ends_map:
            settle_keypoints(self.policy, self.dataset.achieved_goals)
            if self.keypoints.centred:
                centre_keypoints(self.policy, self._some_goals(N_CENTRED))
        self._n_updates += 1

    def _phase(self) -> _Phase:
        done, total = self.num_timesteps, max(self._total_timesteps, 1)
        map_end = round(self.map_fraction * total)
        learns_map = done < map_end
        moves = learns_map and done >= self.keypoints.first_update(map_end) and done % self.keypoints.freq == 0
        progress = 1.0 - self._current_progress_remaining
        return _Phase(
            learns_map,
            done >= min(self.first_useful_evaluation(total), map_end),
            moves,
            done + 1 == map_end < total,
            self.lr_schedule(1.0 - progress / self.map_fraction),
            self.lr_schedule((1.0 - progress) / self.actor_fraction),
        )

    def choose_settings(self, held_out: GoalDataset | None) -> None:
        """
        Choose what ``planning`` leaves to the data, and the number of keypoints; with ``verbose`` say so. From now on
        plans know how fast sampled actions lead through regions of risk.

        :param held_out: trajectories that were not learned from; without any, plans stay what they are while it learns
        """
        if held_out is not None and None in (self.planning.max_hop, self.planning.reach, self.planning.direct):
            held_out = self.on_map(held_out.in_memory(MAX_HELD_OUT)).to(self.device)
            self.planning, why = choose_planning(self.policy, self._covering, self.planning, held_out)
            self._navigator = None
            if self.verbose:
                print(why)
        settings = self.planning.known()
        if self.keypoints.n is None:
            self._covering(settings)
        if self.chance_edges and self.dataset is not None:
            assert settings.max_hop is not None
            pace = sampled_pace(self.policy, self.dataset, settings.max_hop)
            self.chance_edges = tuple(replace(edge, pace=pace) for edge in self.chance_edges)
            self._navigator = None

    def _covering(self, settings: PlanningSettings) -> Navigator:
        """A navigator that plans as it is told, with as many keypoints as that takes if their number is left open."""
        if self.keypoints.n is None and self.dataset is not None:
            assert settings.max_hop is not None
            enough = cover_with_keypoints(self.policy, self._some_goals(N_COVERED), settings.max_hop / 2)
            self.keypoints = replace(self.keypoints, n=self.policy.n_keypoints)
            self.keypoint_optimizer = self._keypoint_adam()
            self._navigator = None
            if self.verbose:
                which = "states have" if enough else "as many states as possible have"
                print(f"from the data: {self.keypoints.n} keypoints, so that {which} one within half a hop")
        return self.navigator.replanned(settings)

    def _some_goals(self, number: int) -> th.Tensor:
        assert self.dataset is not None
        return self.dataset.achieved_goals[self.dataset.random_rows(number, self.generator)]

    def first_useful_evaluation(self, total: int) -> int:
        """Until the actor begins to learn there is nothing to see."""
        return round((1.0 - self.actor_fraction) * total)

    @cached_property
    def _map_loss(self) -> Callable[[GoalBatch], MapObjective]:
        """Compiled when it is first needed: an agent that only acts needs no compiler."""
        return th.compile(self._map_objective) if self.compile else self._map_objective

    @cached_property
    def _actor_loss(self) -> Callable[[GoalBatch, Later | None, Known | None], tuple[th.Tensor, losses.Metrics]]:
        return th.compile(self._actor_objective) if self.compile else self._actor_objective

    @cached_property
    def _keypoint_loss(self) -> Callable[..., KeypointObjective]:
        return th.compile(self._keypoint_objective) if self.compile else self._keypoint_objective

    def _map_objective(self, batch: GoalBatch) -> MapObjective:
        return map_objective(self.policy, batch, self.multipliers, self.generator, self.distance)

    def _actor_objective(
        self, batch: GoalBatch, later: Later | None, known: Known | None
    ) -> tuple[th.Tensor, losses.Metrics]:
        return actor_objective(self.policy, batch, later, known, self.temperature, self.max_weight, self.generator)

    def _charges(self, states: th.Tensor) -> th.Tensor | None:
        density = self.keypoints.density
        return charges(self.policy, self.policy.keypoints, states, density) if density else None

    def _keypoint_objective(self, points: th.Tensor, charges: th.Tensor | None = None) -> KeypointObjective:
        multiplier, compliance = self.multipliers["kps"], self.distance.compliance
        return keypoint_objective(self.policy, points, multiplier, self.keypoints, compliance, charges)

    def dump_logs(self) -> None:
        """Write what happened since the last call to the logger."""
        for name, optimizer in (("", self.actor_optimizer), ("map_", self.map_optimizer)):
            self.logger.record(f"train/{name}learning_rate", optimizer.param_groups[0]["lr"])
        for name, value in self.multipliers.metrics().items():
            self.logger.record(f"train/{name}", value.item())
        assert self.dataset is not None
        self.logger.record("train/distance_per_step", distance_per_step(self.policy, self.dataset))
        super().dump_logs()

    def _learned_values(self) -> dict[str, Any]:
        return super()._learned_values() | {"chance_edges": [edge.to_dict() for edge in self.chance_edges]}

    def _set_learned_values(self, values: dict[str, Any]) -> None:
        super()._set_learned_values(values)
        if self.goal_limits is None and self.map_of == "goals":  # older files do not tell, but their maps do
            self.goal_limits = self._limits_of_map()
        self.goal_limits = self.goal_limits and self._on_places(self.goal_limits)
        self.chance_edges = tuple(edges_from_dicts(values["chance_edges"], self.policy.goal_scaler.mean.numel()))

    def _limits_of(self, dataset: GoalDataset) -> GoalLimits:
        return self._on_places(super()._limits_of(dataset))

    def _on_places(self, limits: GoalLimits) -> GoalLimits:
        """A pose that was never seen is no other world."""
        return limits if isinstance(self.map_of, str) else limits.only(self.map_of)

    def _limits_of_map(self) -> GoalLimits | None:
        """How far the data go that the map was learned from; None if there were none."""
        policy = self.policy
        if not (policy.keypoint_low < policy.keypoint_high).any():
            return None
        step = policy.longest_step * policy.goal_scaler.std
        low, high = (policy.goal_scaler.inverse(bound) for bound in (policy.keypoint_low, policy.keypoint_high))
        return GoalLimits((low - step).cpu().numpy(), (high + step).cpu().numpy())

    # ------------------------------------------------------------------------------------------------------ acting

    def set_parameters(self, *args: Any, **kwargs: Any) -> None:
        """As in SB3; plans are made on the new map from now on."""
        super().set_parameters(*args, **kwargs)
        self._navigator = None

    @property
    def navigator(self) -> Navigator:
        """Plans over the map as it is now."""
        navigator = self._navigator
        if navigator is None:
            with _BUILDING:  # threads share the first one, and what is blocked in it
                navigator = self._navigator = self._navigator or self._new_navigator()
        return navigator

    def _new_navigator(self) -> Navigator:
        self.policy.set_training_mode(False)
        goal_map = BatchMap(self.policy)
        planner = Planner(goal_map, self.planning, self.chance_edges if self.stochastic == "plan" else ())
        goal_states = None if self.policy.goal_states is None else goal_map.goal_states
        kind = RowMap if planner.landmarks is None else ManyRowMap
        return Navigator(planner, goal_map, kind.of(self.policy) or goal_map, goal_states)

    def set_planning(self, **changes: Any) -> None:
        """
        Plan in another way from now on; what was blocked is forgotten.

        :param changes: settings of :class:`~proq_agent.planning.settings.PlanningSettings`
        """
        self.planning = as_settings(PlanningSettings, to_dict(self.planning) | changes)
        self._navigator = None

    @property
    def planner(self) -> Planner:
        """
        The graph of keypoints; nodes and edges can be blocked here. Further training builds a new one, and a saved
        agent is without what was blocked or penalised: that is of the world, not of the map.
        """
        return self.navigator.planner

    @property
    def controller(self) -> ProQPolicy:
        """The short-range controller: its ``predict`` heads straight for ``desired_goal``."""
        return self.policy

    def guide(self, agent: Any) -> GuidedController:
        """
        Let another agent act: it is shown the next target on the plan instead of its goal.

        :param agent: anything with SB3's ``predict`` for these goals, such as GCBC, GCIVL or HIQL
        """
        return GuidedController(self, agent)

    def predict(
        self,
        observation: np.ndarray | dict[str, np.ndarray],
        state: tuple[np.ndarray, ...] | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...] | None]:
        """
        Plan, and act towards the next target on the plan. Threads may share an agent that does not learn meanwhile.

        :param observation: one dict of ``observation``, ``achieved_goal`` and ``desired_goal``, or a batch of them
        :param state: with ``planning.patience``, what the last call returned; without it only the observation matters
        :param episode_start: rows whose ``state`` is of another episode
        :param deterministic: the mean action; by default actions are sampled, as in the paper's Algorithm 2
        :return: the action (or a batch of them), and the ``state`` for the next call
        """
        arrays, single = self._check_observation(observation)
        navigator = self.navigator
        here, goals = self.policy.on_map(arrays[self.policy.map_key]), self.policy.asked(arrays["desired_goal"])
        decision, state = navigator.decide(here, goals, state, episode_start)
        actions = navigator.act(arrays["observation"], decision, deterministic, self.acting_generator)
        check_actions(actions)
        return (actions[0] if single else actions), state

    def plan(self, start: np.ndarray, goal: np.ndarray) -> Plan:
        """
        The whole plan between two points of goal space.

        :param start: ``[goal_dim]`` where the agent is; its observation if that is what the map is of
        :param goal: ``[goal_dim]`` where it wants to be
        """
        return self.navigator.plan(self.policy.on_map(np.asarray(start)), self.policy.asked(np.asarray(goal)))

    def keypoints_without_barrier(self, n_updates: int) -> np.ndarray:
        """
        Where the keypoints would go from here without the OOD barrier, see
        :func:`~proq_agent.proq.keypoints.drift_keypoints`.

        :param n_updates: steps of the keypoints' optimiser
        :return: ``[K, goal_dim]``
        """
        return drift_keypoints(self.policy, self.keypoints, self.distance.compliance, n_updates)

    def diagnose(self, dataset: GoalDataset | None = None, logged: GoalDataset | None = None) -> Diagnosis:
        """
        Find out whether the agent can be trusted, without an environment.

        :param dataset: trajectories that it did not learn from; by default those that were set aside when it was given
            its dataset. Without any, only the keypoints' own numbers are known
        :param logged: more trajectories, which it may have learned from; by default its dataset, if it has one
        """
        dataset, logged = (data and self.on_map(data) for data in (dataset, logged))
        if dataset is None and self.dataset is not None:
            dataset = self.dataset.held_out
        logged = logged or self.dataset
        # What is on disk may be more than memory holds.
        dataset, logged = dataset and dataset.in_memory(MAX_HELD_OUT), logged and logged.in_memory(MAX_LOGGED)
        planner = self.planner
        if self.planning.direct:  # the keypoints are judged by the plans that would be made with them
            planner = self.navigator.replanned(replace(self.planning.known(), direct=False)).planner
        numbers = diagnose_keypoints(self.policy, planner.graph)
        found = diagnose(self.policy, planner, dataset, logged, numbers)
        if dataset is None:
            return found
        return found.with_check(check_guidance(self.policy, self.navigator, self.planning, dataset.to(self.device)))


def _map_of(given: str | Sequence[int] | None, dataset: GoalDataset | None) -> str | Sequence[int]:
    """What a map is of: as was said, or what fits the dataset."""
    if given is None:
        return "goals" if dataset is None else choose_map(dataset)
    if isinstance(given, str) and given != "places":
        return given
    if not isinstance(given, str):
        return tuple(given)
    if dataset is None:
        raise ValueError("what a place is follows from the data: give the dataset together with map_of='places'")
    chosen = place_coordinates(dataset)
    return "goals" if len(chosen) == dataset.achieved_goals.shape[1] else chosen
