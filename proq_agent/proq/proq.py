"""ProQ: offline goal-conditioned RL with projective quasimetric planning."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, Schedule

from proq_agent.chance.detection import find_unpredictable
from proq_agent.chance.edges import ChanceEdge, cluster_chance
from proq_agent.common.dataset import GoalBatch, GoalDataset, GoalSampling
from proq_agent.common.offline import OfflineAlgorithm
from proq_agent.common.spaces import action_space_of, check_goal_spaces, check_observation, observation_space_of
from proq_agent.planning.map_graph import MapGraph
from proq_agent.planning.navigator import Navigator, Plan
from proq_agent.planning.progress import Progress, ProgressMonitor
from proq_agent.proq import losses
from proq_agent.proq.keypoints import diagnose_keypoints, move_keypoints, place_keypoints, settle_keypoints
from proq_agent.proq.map_goals import MapGoals
from proq_agent.proq.objectives import Located, MapObjective, actor_objective, locate, map_objective
from proq_agent.proq.policies import ProQPolicy
from proq_agent.quasimetric.multipliers import Multipliers


class ProQ(OfflineAlgorithm):
    """
    Projective Quasimetric Planning: a map, keypoints on it and a short-range controller, from logged trajectories.

    An update draws transitions (s, a, s') with value goals g_v and actor goals g_a and descends

    * the representation loss: latents z = φ(s) vary in every dimension,
    * the distance loss: λ_dist · (d(s, s') ≤ 1) while d(s, g_v) is pushed up, so that d becomes the number of steps,
    * the classifier's loss: ψ tells states of the data from points between and beyond them,
    * the actor's loss: log π(a | s, φ(g_a)) weighted by exp(α · (d(s, g_a) - d(s', g_a))),

    and, every ``keypoint_freq`` updates, moves the keypoints apart within what ψ takes for reachable. ``predict`` then
    plans over the keypoints by shortest paths of hops not longer than ``max_hop`` and heads for the first of them.

    ``num_timesteps`` counts gradient updates; no environment is needed to learn. Defaults are the paper's where it has
    them.

    :param policy: ``"MultiInputPolicy"`` or a subclass of :class:`~proq_agent.proq.policies.ProQPolicy`
    :param env: a goal environment to take the spaces from and to evaluate in; optional
    :param learning_rate: of the networks, a number or a function of the remaining progress (from 1 to 0)
    :param batch_size: transitions in an update
    :param n_keypoints: K
    :param max_hop: τ, the longest distance that the planner trusts as a single hop
    :param reach: a keypoint nearer than this is left for its successor
    :param caution: a hop of length ``max_hop`` counts 1 + caution times its length when ways are compared, shorter hops
        less; the paper counts all alike
    :param patience: steps without progress after which ``predict`` takes the way for closed and looks for another, see
        :class:`~proq_agent.planning.progress.ProgressMonitor`; None trusts the map for ever, as the paper does
    :param temperature: α of the advantage-weighted regression
    :param map_fraction: share of the updates, the first ones, in which φ, d, ψ and the keypoints are learned; then the
        keypoints settle on the nearest states of the data, and the actor goes on alone, on a map that no longer moves
    :param actor_fraction: share of the updates, the last ones, in which the actor is learned; the learning rate of map
        and actor follows the share of each
    :param discount: actor goals lie 1 / (1 - discount) steps ahead on average
    :param value_near_share: share of the value goals that are drawn near the state
    :param actor_near_share: share of the actor goals that are drawn near the state
    :param near_candidates: a near goal is the closest of so many random states
    :param value_time_share: share of the value goals that are a few steps before or after on the same trajectory
    :param value_map_share: share of the value goals that are the nearest on the map as it is, see
        :mod:`~proq_agent.proq.map_goals`
    :param actor_map_share: share of the actor goals that lie anywhere within ``max_hop`` on the map, not ahead on the
        same trajectory
    :param close_margin: ε, by how much the cost of a step may exceed one
    :param far_offset: μ, distances beyond this are no longer pushed up
    :param far_scale: softness of that offset
    :param far_focus: distance at which a pair counts half in that push; infinite counts all alike
    :param compliance: δ; ψ is to be 1 - δ on the data and on the keypoints
    :param repel_strength: weight of the keypoints' repulsion
    :param repel_range: distance beyond which keypoints do not feel each other
    :param barrier: hold the keypoints where the data is; without it they drift, as the paper's ablation shows
    :param keypoint_start: updates before the keypoints begin to move
    :param keypoint_freq: the keypoints move every so many updates
    :param keypoint_learning_rate: of the keypoints, in standardised coordinates
    :param multiplier_learning_rate: of log λ
    :param max_multiplier: upper bound of every λ
    :param stochastic: ``"plan"`` finds transitions that cannot be predicted, as through a portal with random exits,
        keeps them out of the distance and plans with their odds; ``"ignore"`` trusts them like any other, as the paper
    :param compile: fuse the update with ``torch.compile``
    :param policy_kwargs: sizes of the networks, see :class:`~proq_agent.proq.policies.ProQPolicy`
    :param stats_window_size: as in SB3
    :param tensorboard_log: the log location for tensorboard; ``None`` for no logging
    :param verbose: 0 for no output, 1 for info messages, 2 for debug messages
    :param seed: of all randomness in this object; no global state is touched
    :param device: ``"auto"`` uses CUDA where there is one
    :param _init_setup_model: whether to build the networks on creation
    :param dataset: trajectories to learn from; see also :meth:`set_dataset`
    :param observation_space: if there is neither an env nor a dataset yet
    :param action_space: likewise; without it, the range of the dataset's actions is used
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {"MultiInputPolicy": ProQPolicy}
    policy: ProQPolicy
    learned: ClassVar[tuple[str, ...]] = ("chance_edges",)
    stateful: ClassVar[tuple[str, ...]] = ("map_optimizer", "actor_optimizer", "keypoint_optimizer", "multipliers")
    generators: ClassVar[tuple[str, ...]] = ("generator", "acting_generator")

    def __init__(
        self,
        policy: str | type[ProQPolicy] = "MultiInputPolicy",
        env: GymEnv | str | None = None,
        learning_rate: float | Schedule = 3e-4,
        batch_size: int = 1024,
        n_keypoints: int = 100,
        max_hop: float = 100.0,
        reach: float = 10.0,
        caution: float = 0.0,
        patience: int | None = None,
        temperature: float = 5.0,
        map_fraction: float = 1.0,
        actor_fraction: float = 1.0,
        discount: float = 0.99,
        value_near_share: float = 0.0,
        actor_near_share: float = 0.0,
        near_candidates: int = 256,
        value_time_share: float = 0.0,
        value_map_share: float = 0.0,
        actor_map_share: float = 0.0,
        close_margin: float = 0.25,
        far_offset: float = 500.0,
        far_scale: float = 0.01,
        far_focus: float = math.inf,
        compliance: float = 0.05,
        repel_strength: float = 100.0,
        repel_range: float = 100.0,
        barrier: bool = True,
        keypoint_start: int = 100_000,
        keypoint_freq: int = 1,
        keypoint_learning_rate: float = 3e-4,
        multiplier_learning_rate: float = 1e-2,
        max_multiplier: float = 1e5,
        stochastic: str = "plan",
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
    ) -> None:
        super().__init__(
            policy=policy,
            env=env,
            learning_rate=learning_rate,
            policy_kwargs=policy_kwargs,
            stats_window_size=stats_window_size,
            tensorboard_log=tensorboard_log,
            verbose=verbose,
            device=device,
            support_multi_env=True,
            seed=seed,
            supported_action_spaces=(spaces.Box,),
        )
        self.batch_size = batch_size
        self.n_keypoints = n_keypoints
        self.max_hop = max_hop
        self.reach = reach
        self.caution = caution
        self.patience = patience
        self.temperature = temperature
        self.map_fraction = map_fraction
        self.actor_fraction = actor_fraction
        self.discount = discount
        self.value_near_share = value_near_share
        self.actor_near_share = actor_near_share
        self.near_candidates = near_candidates
        self.value_time_share = value_time_share
        self.value_map_share = value_map_share
        self.actor_map_share = actor_map_share
        self.close_margin = close_margin
        self.far_offset = far_offset
        self.far_scale = far_scale
        self.far_focus = far_focus
        self.compliance = compliance
        self.repel_strength = repel_strength
        self.repel_range = repel_range
        self.barrier = barrier
        self.keypoint_start = keypoint_start
        self.keypoint_freq = keypoint_freq
        self.keypoint_learning_rate = keypoint_learning_rate
        self.multiplier_learning_rate = multiplier_learning_rate
        self.max_multiplier = max_multiplier
        self.stochastic = stochastic
        self.compile = compile
        self.chance_edges: list[dict[str, Any]] = []
        self.dataset: GoalDataset | None = None
        self._navigator: Navigator | None = None

        if env is None:
            if dataset is not None:
                observation_space = observation_space or observation_space_of(dataset)
                action_space = action_space or action_space_of(dataset)
            if observation_space is not None and action_space is not None:
                self.observation_space, self.action_space = observation_space, action_space
            elif _init_setup_model:
                raise ValueError("give an env, a dataset, or both observation_space and action_space")
        if _init_setup_model:
            self._setup_model()
            if dataset is not None:
                self.set_dataset(dataset)

    # ---------------------------------------------------------------------------------------------------- building

    def _setup_model(self) -> None:
        self._check_hyperparameters()
        check_goal_spaces(self.observation_space, self.action_space)
        self._setup_lr_schedule()
        if self.seed is None:
            self.seed = int(np.random.SeedSequence().generate_state(1)[0])
        with th.random.fork_rng(devices=[]):
            th.default_generator.manual_seed(self.seed)
            policy = self.policy_class(
                self.observation_space, self.action_space, n_keypoints=self.n_keypoints, **self.policy_kwargs
            )
        self.policy = policy.to(self.device)  # type: ignore[assignment]
        adam = {"fused": self.device.type != "meta"}  # one kernel for all parameters
        of_actor = [*self.policy.actor.parameters(), self.policy.log_std]
        of_map = [p for p in self.policy.parameters() if p.requires_grad and not any(p is q for q in of_actor)]
        self.map_optimizer = th.optim.Adam(of_map, lr=self.lr_schedule(1.0), **adam)  # type: ignore[arg-type]
        self.actor_optimizer = th.optim.Adam(of_actor, lr=self.lr_schedule(1.0), **adam)  # type: ignore[arg-type]
        self.keypoint_optimizer = th.optim.Adam([self.policy.standard_keypoints], lr=self.keypoint_learning_rate)
        self.multipliers = Multipliers(("dist", "ood", "kps"), self.multiplier_learning_rate, self.max_multiplier).to(
            self.device
        )
        self._sampling = GoalSampling(
            self.discount, self.value_near_share, self.actor_near_share, self.near_candidates, self.value_time_share
        )
        self._map_goals = MapGoals(self.value_map_share, self.actor_map_share, self.max_hop)
        self._map_loss = th.compile(self._map_objective) if self.compile else self._map_objective
        self._actor_loss = th.compile(self._actor_objective) if self.compile else self._actor_objective
        self.set_random_seed(self.seed)

    def _check_hyperparameters(self) -> None:
        for name in ("batch_size", "n_keypoints", "keypoint_freq"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a whole number, at least 1, got {value!r}")
        if self.batch_size < 2:
            raise ValueError("batch_size must be at least 2: the representation loss is a variance over the batch")
        positive = ("max_hop", "far_offset", "far_scale", "far_focus")
        for name in (*positive, "keypoint_learning_rate", "multiplier_learning_rate"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)!r}")
        non_negative = ("reach", "caution", "temperature", "close_margin")
        for name in (*non_negative, "repel_strength", "repel_range", "keypoint_start"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)!r}")
        if self.stochastic not in ("plan", "ignore"):
            raise ValueError(f"stochastic must be 'plan' or 'ignore', got {self.stochastic!r}")
        if self.patience is not None:
            ProgressMonitor(self.patience)  # refuses what is no number of steps
        for name in ("map_fraction", "actor_fraction"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must lie in (0, 1], got {getattr(self, name)!r}")
        if self.map_fraction + self.actor_fraction < 1.0:
            raise ValueError("map_fraction and actor_fraction must add up to 1 or more: in between nothing is learned")
        if self.value_near_share + self.value_time_share + self.value_map_share > 1.0:
            raise ValueError("value_near_share, value_time_share and value_map_share must add up to 1 at most")
        if not 0.0 < self.compliance < 1.0:
            raise ValueError(f"compliance must lie strictly between 0 and 1, got {self.compliance!r}")

    def set_random_seed(self, seed: int | None = None) -> None:
        """Seed this object's own generators, its action space and its env; no global state is touched."""
        if seed is None:
            return
        self.seed = seed
        if self.device.type == "meta":
            self.generator = self.acting_generator = None
        else:
            self.generator = th.Generator(self.device).manual_seed(seed)
            # Apart, so that evaluating during training does not change what is learned.
            self.acting_generator = th.Generator(self.device).manual_seed(seed + 1)
        self.policy.generator = self.acting_generator
        self.action_space.seed(seed)
        if self.env is not None:
            self.env.seed(seed)

    def set_dataset(self, dataset: GoalDataset) -> None:
        """
        Learn from these trajectories. Before the first update, input statistics and keypoints are taken from them.

        :param dataset: moved to the model's device
        :raises ValueError: if its shapes are not those of the spaces
        """
        assert isinstance(self.observation_space, spaces.Dict) and isinstance(self.action_space, spaces.Box)
        for name, array, space in (
            ("observations", dataset.observations, self.observation_space["observation"]),
            ("achieved_goals", dataset.achieved_goals, self.observation_space["achieved_goal"]),
            ("actions", dataset.actions, self.action_space),
        ):
            if array.shape[1:] != space.shape:
                raise ValueError(f"the dataset's {name} have shape {tuple(array.shape[1:])}, the model's {space.shape}")
        self.chance_edges = []
        if self.stochastic == "plan":
            dataset = self._set_chance_apart(dataset)
        self.dataset = dataset.to(self.device)
        self._navigator = None
        if self.num_timesteps == 0:
            self.policy.observation_scaler.fit(dataset.observations)
            self.policy.goal_scaler.fit(dataset.achieved_goals)
            step = dataset.longest_step / self.policy.goal_scaler.std
            self.policy.longest_step.copy_(th.where(step > 0, step, th.inf))
            place_keypoints(self.policy, dataset.achieved_goals, self.generator)

    def _set_chance_apart(self, dataset: GoalDataset) -> GoalDataset:
        """End trajectories at unpredictable transitions, and remember these as lotteries for the planner."""
        rows = dataset.transition_rows
        observations, actions, goals = (
            array.cpu().numpy() for array in (dataset.observations, dataset.actions, dataset.achieved_goals)
        )
        assert self.seed is not None
        flagged = rows[find_unpredictable(observations[rows], actions[rows], observations[rows + 1], seed=self.seed)]
        self.chance_edges = [edge.to_dict() for edge in cluster_chance(goals[flagged], goals[flagged + 1])]
        if len(flagged) and self.verbose:
            print(f"{len(flagged)} of {len(rows)} transitions are unpredictable: {len(self.chance_edges)} chance edges")
        return dataset.cut(flagged)

    # ---------------------------------------------------------------------------------------------------- learning

    def train(self) -> None:
        """One gradient update: of the map while it is learned, and of the actor."""
        assert self.dataset is not None
        if not self.policy.training:
            self.policy.set_training_mode(True)
        self._navigator = None
        total = max(self._total_timesteps, 1)
        self._update_current_progress_remaining(self.num_timesteps, total)
        progress = 1.0 - self._current_progress_remaining
        map_end = round(self.map_fraction * total)
        actor_start = min(round((1.0 - self.actor_fraction) * total), map_end)
        learns_map, learns_actor = self.num_timesteps < map_end, self.num_timesteps >= actor_start
        batch = self.dataset.sample(self.batch_size, self.generator, self._sampling)
        self._map_goals.choose(
            batch, self.policy, self.dataset, self.generator, learns_map=learns_map, learns_actor=learns_actor
        )
        # Both losses of the map as it is now, before either is descended on.
        learned = self._map_loss(batch) if learns_map else None
        if learns_actor:
            located = learned.located if learned else locate(self.policy, batch)
            loss, metrics = self._actor_loss(batch, located)
            rate = self.lr_schedule((1.0 - progress) / self.actor_fraction)
            self._descend(self.actor_optimizer, loss, metrics, rate)
        if learned:
            rate = self.lr_schedule(1.0 - progress / self.map_fraction)
            self._descend(self.map_optimizer, learned.loss, learned.metrics, rate)
            self.multipliers.update(**learned.violations)
            if self.num_timesteps >= self.keypoint_start and self.num_timesteps % self.keypoint_freq == 0:
                self._move_keypoints()
            if self.num_timesteps + 1 == map_end < total:  # the map is finished
                settle_keypoints(self.policy, self.dataset.achieved_goals)
        self._n_updates += 1

    def _descend(
        self, optimizer: th.optim.Optimizer, loss: th.Tensor, metrics: losses.Metrics, learning_rate: float
    ) -> None:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        self._accumulate(metrics)

    def _map_objective(self, batch: GoalBatch) -> MapObjective:
        return map_objective(
            self.policy,
            batch,
            self.multipliers,
            self.generator,
            close_margin=self.close_margin,
            far_offset=self.far_offset,
            far_scale=self.far_scale,
            far_focus=self.far_focus,
            compliance=self.compliance,
        )

    def _actor_objective(self, batch: GoalBatch, located: Located) -> tuple[th.Tensor, losses.Metrics]:
        return actor_objective(self.policy, batch, located, self.temperature, self.generator)

    def _move_keypoints(self) -> None:
        """Part (B)."""
        metrics, violation = move_keypoints(
            self.policy,
            self.keypoint_optimizer,
            self.multipliers["kps"] * self.barrier,
            strength=self.repel_strength,
            reach=self.repel_range,
            compliance=self.compliance,
        )
        self.multipliers.update(kps=violation)
        self._accumulate(metrics)

    def dump_logs(self) -> None:
        """Write what happened since the last call to the logger."""
        for name, optimizer in (("", self.actor_optimizer), ("map_", self.map_optimizer)):
            self.logger.record(f"train/{name}learning_rate", optimizer.param_groups[0]["lr"])
        for name, value in self.multipliers.metrics().items():
            self.logger.record(f"train/{name}", value.item())
        super().dump_logs()

    # ------------------------------------------------------------------------------------------------------ acting

    def set_parameters(self, *args: Any, **kwargs: Any) -> None:
        """As in SB3; plans are made on the new map from now on."""
        super().set_parameters(*args, **kwargs)
        self._navigator = None

    @property
    def navigator(self) -> Navigator:
        """Plans over the map as it is now."""
        if self._navigator is None:
            self.policy.set_training_mode(False)
            chance_edges = [ChanceEdge.from_dict(edge) for edge in self.chance_edges if self.stochastic == "plan"]
            self._navigator = Navigator(MapGraph(self.policy, self.max_hop, self.reach, self.caution, chance_edges))
        return self._navigator

    @property
    def planner(self) -> MapGraph:
        """
        The graph of keypoints; nodes and edges can be blocked here. Further training builds a new one, and a saved
        agent is without what was blocked or penalised: that is of the world, not of the map.
        """
        return self.navigator.graph

    @property
    def controller(self) -> ProQPolicy:
        """The short-range controller: its ``predict`` heads straight for ``desired_goal``."""
        return self.policy

    def predict(
        self,
        observation: np.ndarray | dict[str, np.ndarray],
        state: tuple[np.ndarray, ...] | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...] | None]:
        """
        Plan, and act towards the next target on the plan.

        :param observation: one dict of ``observation``, ``achieved_goal`` and ``desired_goal``, or a batch of them
        :param state: with ``patience``, what the last call returned; without it only the observation matters
        :param episode_start: rows whose ``state`` is of another episode
        :param deterministic: the mean action; by default actions are sampled, as in the paper's Algorithm 2
        :return: the action (or a batch of them), and the ``state`` for the next call
        """
        arrays, single = check_observation(observation, self.observation_space)
        achieved, desired = arrays["achieved_goal"], arrays["desired_goal"]
        navigator = self.navigator
        hops, here, target = navigator.next_hops(achieved, desired)
        if self.patience is not None:
            targets = navigator.targets(hops.target, desired)
            known = None if state is None else Progress(*state)
            state, stuck = ProgressMonitor(self.patience).watch(
                navigator.graph, achieved, desired, targets, hops.cost, hops.arrived, known, episode_start
            )
            if stuck:
                _, here, target = navigator.next_hops(achieved, desired)
        actions = navigator.act(arrays["observation"], here, target, deterministic, self.acting_generator)
        return (actions[0] if single else actions), state

    def plan(self, start: np.ndarray, goal: np.ndarray) -> Plan:
        """
        The whole plan between two points of goal space.

        :param start: ``[goal_dim]`` where the agent is
        :param goal: ``[goal_dim]`` where it wants to be
        """
        return self.navigator.plan(start, goal)

    def diagnose(self) -> dict[str, float]:
        """Share of keypoints in distribution, their spread, and how much of the graph is connected."""
        return diagnose_keypoints(self.policy, self.planner)
