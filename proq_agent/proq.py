"""ProQ: offline goal-conditioned RL with projective quasimetric planning."""

from __future__ import annotations

import inspect
import io
import pathlib
import sys
import time
from collections.abc import Iterable
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common import utils
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback, Schedule

from proq_agent import losses
from proq_agent.checkpoint import (
    CheckpointError,
    from_json_value,
    read_archive,
    space_from_json,
    space_to_json,
    to_json_value,
    write_archive,
)
from proq_agent.dataset import GoalBatch, GoalDataset, GoalSampling
from proq_agent.keypoints import diagnose_keypoints, move_keypoints, place_keypoints
from proq_agent.multipliers import Multipliers
from proq_agent.navigator import Navigator
from proq_agent.planner import KeypointGraph
from proq_agent.policies import GOAL_KEYS, ProQPolicy, check_goal_spaces

SelfProQ = TypeVar("SelfProQ", bound="ProQ")


class ProQ(BaseAlgorithm):
    """
    Projective Quasimetric Planning: a map, keypoints on it and a short-range controller, from logged trajectories.

    An update draws transitions (s, a, s') with value goals g_v and actor goals g_a and descends

    * the representation loss: latents z = φ(s) vary in every dimension,
    * the distance loss: λ_dist · (d(s, s') ≤ 1) while d(s, g_v) is pushed up, so that d becomes the number of steps,
    * the classifier's loss: ψ tells states of the data from points between and beyond them,
    * the actor's loss: log π(a | s, φ(g_a)) weighted by exp(α · (d(s, g_a) - d(s', g_a))),

    and, every ``keypoint_freq`` updates, moves the keypoints apart within what ψ takes for reachable. ``predict`` then
    plans over the keypoints by shortest paths of hops not longer than ``max_hop`` and heads for the first of them.

    ``num_timesteps`` counts gradient updates; no environment is needed to learn. The defaults are the paper's.

    :param policy: ``"MultiInputPolicy"`` or a subclass of :class:`~proq_agent.policies.ProQPolicy`
    :param env: a goal environment to take the spaces from and to evaluate in; optional
    :param learning_rate: of the networks, a number or a function of the remaining progress (from 1 to 0)
    :param batch_size: transitions in an update
    :param n_keypoints: K
    :param max_hop: τ, the longest distance that the planner trusts as a single hop
    :param reach: a keypoint nearer than this is left for its successor
    :param temperature: α of the advantage-weighted regression
    :param discount: actor goals lie 1 / (1 - discount) steps ahead on average
    :param value_near_share: share of the value goals that are drawn near the state
    :param actor_near_share: share of the actor goals that are drawn near the state
    :param near_candidates: a near goal is the closest of so many random states
    :param close_margin: ε, by how much the cost of a step may exceed one
    :param far_offset: μ, distances beyond this are no longer pushed up
    :param far_scale: softness of that offset
    :param compliance: δ; ψ is to be 1 - δ on the data and on the keypoints
    :param repel_strength: weight of the keypoints' repulsion
    :param repel_range: distance beyond which keypoints do not feel each other
    :param keypoint_start: updates before the keypoints begin to move
    :param keypoint_freq: the keypoints move every so many updates
    :param keypoint_learning_rate: of the keypoints, in standardised coordinates
    :param multiplier_learning_rate: of log λ
    :param max_multiplier: upper bound of every λ
    :param compile: fuse the update with ``torch.compile``
    :param policy_kwargs: sizes of the networks, see :class:`~proq_agent.policies.ProQPolicy`
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

    def __init__(
        self,
        policy: str | type[ProQPolicy] = "MultiInputPolicy",
        env: GymEnv | str | None = None,
        learning_rate: float | Schedule = 3e-4,
        batch_size: int = 1024,
        n_keypoints: int = 100,
        max_hop: float = 100.0,
        reach: float = 10.0,
        temperature: float = 5.0,
        discount: float = 0.99,
        value_near_share: float = 0.0,
        actor_near_share: float = 0.0,
        near_candidates: int = 256,
        close_margin: float = 0.25,
        far_offset: float = 500.0,
        far_scale: float = 0.01,
        compliance: float = 0.05,
        repel_strength: float = 100.0,
        repel_range: float = 100.0,
        keypoint_start: int = 100_000,
        keypoint_freq: int = 1,
        keypoint_learning_rate: float = 3e-4,
        multiplier_learning_rate: float = 1e-2,
        max_multiplier: float = 1e5,
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
        self.temperature = temperature
        self.discount = discount
        self.value_near_share = value_near_share
        self.actor_near_share = actor_near_share
        self.near_candidates = near_candidates
        self.close_margin = close_margin
        self.far_offset = far_offset
        self.far_scale = far_scale
        self.compliance = compliance
        self.repel_strength = repel_strength
        self.repel_range = repel_range
        self.keypoint_start = keypoint_start
        self.keypoint_freq = keypoint_freq
        self.keypoint_learning_rate = keypoint_learning_rate
        self.multiplier_learning_rate = multiplier_learning_rate
        self.max_multiplier = max_multiplier
        self.compile = compile
        self.dataset: GoalDataset | None = None
        self._navigator: Navigator | None = None
        self._metric_sums: dict[str, th.Tensor] = {}
        self._metric_counts: dict[str, int] = {}

        if env is None:
            if dataset is not None:
                observation_space = observation_space or _dataset_observation_space(dataset)
                action_space = action_space or _dataset_action_space(dataset)
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
            th.manual_seed(self.seed)
            policy = self.policy_class(
                self.observation_space, self.action_space, n_keypoints=self.n_keypoints, **self.policy_kwargs
            )
        self.policy = policy.to(self.device)  # type: ignore[assignment]
        # `capturable` keeps Adam's step counter on a CUDA device.
        adam = {"foreach": True, "capturable": self.device.type == "cuda"}
        learned = [p for p in self.policy.parameters() if p.requires_grad]
        self.optimizer = th.optim.Adam(learned, lr=self.lr_schedule(1.0), **adam)  # type: ignore[arg-type]
        self.keypoint_optimizer = th.optim.Adam([self.policy.standard_keypoints], lr=self.keypoint_learning_rate)
        self.multipliers = Multipliers(("dist", "ood", "kps"), self.multiplier_learning_rate, self.max_multiplier).to(
            self.device
        )
        self._sampling = GoalSampling(self.discount, self.value_near_share, self.actor_near_share, self.near_candidates)
        self._train_losses = th.compile(self._losses) if self.compile else self._losses
        self.set_random_seed(self.seed)

    def _check_hyperparameters(self) -> None:
        for name in ("batch_size", "n_keypoints", "keypoint_freq"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a whole number, at least 1, got {value!r}")
        if self.batch_size < 2:
            raise ValueError("batch_size must be at least 2: the representation loss is a variance over the batch")
        for name in (
            "max_hop",
            "far_offset",
            "far_scale",
            "keypoint_learning_rate",
            "multiplier_learning_rate",
        ):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)!r}")
        for name in (
            "reach",
            "temperature",
            "close_margin",
            "repel_strength",
            "repel_range",
            "keypoint_start",
        ):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)!r}")
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
        self.action_space.seed(seed)
        if self.env is not None:
            self.env.seed(seed)

    def set_env(self, env: GymEnv, force_reset: bool = True) -> None:
        """
        Act in this environment from now on; offline, any number of parallel ones will do.

        :param env: its spaces must be the model's
        :param force_reset: not used; here for SB3's signature
        """
        env = self._wrap_env(env, self.verbose)
        utils.check_for_correct_spaces(env, self.observation_space, self.action_space)
        self.env, self.n_envs = env, env.num_envs

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
        self.dataset = dataset.to(self.device)
        if self.num_timesteps == 0:
            self.policy.observation_scaler.fit(dataset.observations)
            self.policy.goal_scaler.fit(dataset.achieved_goals)
            place_keypoints(self.policy, dataset.achieved_goals, self.generator)
            self._navigator = None

    # ---------------------------------------------------------------------------------------------------- learning

    def learn(
        self: SelfProQ,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int | None = 1000,
        tb_log_name: str = "ProQ",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> SelfProQ:
        """
        Learn from the dataset for ``total_timesteps`` gradient updates.

        :param total_timesteps: number of updates
        :param callback: called after every update
        :param log_interval: updates between two writes to the logger; ``None`` for none
        :param tb_log_name: name of the run for TensorBoard
        :param reset_num_timesteps: start counting from zero; ``False`` goes on where the model stands
        :param progress_bar: show one
        """
        if self.dataset is None:
            raise ValueError("there is nothing to learn from: pass dataset=... or call set_dataset() first")
        total_timesteps, callback = self._setup_learn(
            total_timesteps, callback, reset_num_timesteps, tb_log_name, progress_bar
        )
        callback.on_training_start(locals(), globals())
        while self.num_timesteps < total_timesteps:
            self.train()
            self.num_timesteps += 1
            callback.update_locals(locals())
            if not callback.on_step():
                break
            if log_interval is not None and self.num_timesteps % log_interval == 0:
                self.dump_logs()
        callback.on_training_end()
        return self

    def _setup_learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        reset_num_timesteps: bool = True,
        tb_log_name: str = "run",
        progress_bar: bool = False,
    ) -> tuple[int, BaseCallback]:
        """As the base class does, but without an environment."""
        self.start_time = time.time_ns()
        if reset_num_timesteps:
            self.num_timesteps = 0
        else:
            total_timesteps += self.num_timesteps
        self._total_timesteps = total_timesteps
        self._num_timesteps_at_start = self.num_timesteps
        if not self._custom_logger:
            self._logger = utils.configure_logger(self.verbose, self.tensorboard_log, tb_log_name, reset_num_timesteps)
        return total_timesteps, self._init_callback(callback, progress_bar)

    def train(self) -> None:
        """One gradient update of everything that is learned."""
        assert self.dataset is not None
        self.policy.set_training_mode(True)
        self._navigator = None
        self._update_current_progress_remaining(self.num_timesteps, max(self._total_timesteps, 1))
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr_schedule(self._current_progress_remaining)

        batch = self.dataset.sample(self.batch_size, self.generator, self._sampling)
        loss, violations, metrics = self._train_losses(batch)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.multipliers.update(**violations)
        self._accumulate(metrics)

        if self.num_timesteps >= self.keypoint_start and self.num_timesteps % self.keypoint_freq == 0:
            metrics, violation = move_keypoints(
                self.policy,
                self.keypoint_optimizer,
                self.multipliers["kps"],
                strength=self.repel_strength,
                reach=self.repel_range,
                compliance=self.compliance,
            )
            self.multipliers.update(kps=violation)
            self._accumulate(metrics)
        self._n_updates += 1

    def _losses(self, batch: GoalBatch) -> tuple[th.Tensor, dict[str, th.Tensor], losses.Metrics]:
        """Parts (A) and (C) of the paper's Algorithm 1: total loss, violations of the constraints, metrics."""
        policy = self.policy
        states, value_goals = (policy.goal_scaler(x) for x in (batch.achieved_goals, batch.value_goals))
        alpha, beta = th.rand(2, len(states), 1, generator=self.generator, device=states.device)
        points = th.cat(
            [
                states,
                policy.goal_scaler(batch.next_achieved_goals),
                value_goals,
                policy.goal_scaler(batch.actor_goals),
                states + alpha * (value_goals - states),
                states - beta * (value_goals - states),
            ]
        )
        latents = policy.encode_standard(points)
        z, z_next, z_value, z_actor, z_between, z_beyond = latents.chunk(6)
        embedded, embedded_next, embedded_value = policy.embedder(th.cat([z, z_next, z_value])).chunk(3)
        with th.no_grad():
            embedded_actor = policy.embedder(z_actor)
            actor_distance = policy.quasimetric(embedded, embedded_actor)
            actor_next_distance = policy.quasimetric(embedded_next, embedded_actor)

        representation, metrics = losses.representation_loss(z)
        close, close_metrics = losses.close_loss(policy.quasimetric(embedded, embedded_next), self.close_margin)
        far, far_metrics = losses.far_loss(
            policy.quasimetric(embedded, embedded_value), self.far_offset, self.far_scale
        )
        logits = policy.classifier(th.cat([z, z_between, z_beyond])).squeeze(-1)
        data_logits, between_logits, beyond_logits = logits.chunk(3)
        ood, ood_metrics = losses.ood_loss(data_logits, between_logits, beyond_logits, self.multipliers["ood"])
        mean, std = policy.action_distribution(batch.observations, z_actor.detach(), self.generator)
        actions = policy.scale_actions(batch.actions)
        log_probs = th.distributions.Normal(mean, std, validate_args=False).log_prob(actions).sum(dim=-1)
        actor, actor_metrics = losses.awr_loss(log_probs, actor_distance, actor_next_distance, self.temperature)

        violations = {"dist": close, "ood": losses.compliance_violation(data_logits, self.compliance)}
        loss = representation + self.multipliers["dist"] * close + far + ood + actor
        metrics |= close_metrics | far_metrics | ood_metrics | actor_metrics | {"loss": loss}
        return loss, violations, metrics

    def _accumulate(self, metrics: losses.Metrics) -> None:
        """Sum on the device; only `dump_logs` waits for it."""
        for name, value in metrics.items():
            value = value.detach()
            self._metric_sums[name] = self._metric_sums[name] + value if name in self._metric_sums else value
            self._metric_counts[name] = self._metric_counts.get(name, 0) + 1

    def dump_logs(self) -> None:
        """Write what happened since the last call to the logger."""
        elapsed = max((time.time_ns() - self.start_time) / 1e9, sys.float_info.epsilon)
        self.logger.record("time/fps", int((self.num_timesteps - self._num_timesteps_at_start) / elapsed))
        self.logger.record("time/time_elapsed", int(elapsed), exclude="tensorboard")
        self.logger.record("time/total_timesteps", self.num_timesteps, exclude="tensorboard")
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/learning_rate", self.optimizer.param_groups[0]["lr"])
        for name, value in self.multipliers.metrics().items():
            self.logger.record(f"train/{name}", value.item())
        for name, total in self._metric_sums.items():
            self.logger.record(f"train/{name}", (total / self._metric_counts[name]).item())
        self._metric_sums, self._metric_counts = {}, {}
        self.logger.dump(step=self.num_timesteps)

    # ------------------------------------------------------------------------------------------------------ acting

    @property
    def navigator(self) -> Navigator:
        """Plans over the map as it is now."""
        if self._navigator is None:
            self.policy.set_training_mode(False)
            self._navigator = Navigator(self.policy, self.max_hop, self.reach)
        return self._navigator

    @property
    def planner(self) -> KeypointGraph:
        """The graph of keypoints; nodes and edges can be blocked here. Further training builds a new one."""
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
        :param state: not used: the plan follows from the observation
        :param episode_start: not used
        :param deterministic: the mean action; by default actions are sampled, as in the paper's Algorithm 2
        :return: the action (or a batch of them), and ``state`` as it was
        """
        arrays, single = self._check_observation(observation)
        tensors = {key: th.from_numpy(arrays[key]).to(self.device) for key in ("observation", "achieved_goal")}
        navigator = self.navigator
        _, latents = navigator.next_hops(tensors["achieved_goal"], arrays["desired_goal"])
        self.policy.set_training_mode(False)
        with th.no_grad():
            actions = self.policy.act(tensors["observation"], latents, deterministic, self.acting_generator)
        result = actions.cpu().numpy()
        return (result[0] if single else result), state

    def _check_observation(self, observation: Any) -> tuple[dict[str, np.ndarray], bool]:
        """Observations as float32 arrays with a batch axis, and whether there was none."""
        if not isinstance(observation, dict):
            hint = "; from `obs, info = env.reset()` pass obs alone" if isinstance(observation, tuple) else ""
            raise ValueError(
                f"predict() needs a dict with {', '.join(GOAL_KEYS)}, got {type(observation).__name__}{hint}"
            )
        missing = [key for key in GOAL_KEYS if key not in observation]
        if missing:
            raise ValueError(f"the observation has no {', '.join(missing)}; wrap the environment in wrappers.GoalDict")
        arrays = {key: np.ascontiguousarray(observation[key], dtype=np.float32) for key in GOAL_KEYS}
        single = arrays["observation"].ndim == 1
        if single:
            arrays = {key: array[None] for key, array in arrays.items()}
        n = len(arrays["observation"])
        for key, array in arrays.items():
            expected = (n, *self.observation_space[key].shape)  # type: ignore[index]
            if array.shape != expected:
                raise ValueError(f"the observation's {key} has shape {array.shape}, expected {expected}")
            if not np.isfinite(array).all():
                raise ValueError(f"the observation's {key} is not finite")
        return arrays, single

    def diagnose(self) -> dict[str, float]:
        """Share of keypoints in distribution, their spread, and how much of the graph is connected."""
        navigator = self.navigator
        return diagnose_keypoints(self.policy, navigator.graph)

    # --------------------------------------------------------------------------------------------- saving, loading

    @classmethod
    def _hyperparameter_names(cls) -> list[str]:
        given_elsewhere = {
            "self", "policy", "env", "device", "dataset", "observation_space", "action_space", "tensorboard_log",
            "stats_window_size", "verbose", "_init_setup_model",
        }  # fmt: skip
        return [name for name in inspect.signature(cls.__init__).parameters if name not in given_elsewhere]

    def save(
        self,
        path: str | pathlib.Path | io.BufferedIOBase,
        exclude: Iterable[str] | None = None,
        include: Iterable[str] | None = None,
    ) -> None:
        """
        Write the agent, and what exact resumption of its training needs, to one zip without pickled objects.

        :param path: ``.zip`` is appended if there is no suffix; the file appears whole or not at all
        :param exclude: ``["training"]`` leaves optimisers, multipliers and generators out: a smaller file, to act with
        :param include: not used; here for SB3's signature
        """
        excluded = set(exclude or ())
        if excluded - {"training"}:
            raise ValueError(f"only 'training' can be excluded, got {sorted(excluded)}")
        metadata = {
            "algorithm": type(self).__name__,
            "observation_space": space_to_json(self.observation_space),
            "action_space": space_to_json(self.action_space),
            "counters": {name: getattr(self, name) for name in _COUNTERS},
        }
        hyperparameters, pickled = {}, {}
        for name in self._hyperparameter_names():
            try:
                hyperparameters[name] = to_json_value(getattr(self, name), name)
            except ValueError:
                pickled[name] = getattr(self, name)
        if self.policy_class is not ProQPolicy:
            pickled["policy_class"] = self.policy_class
        tensors: dict[str, Any] = {"policy": self.policy.state_dict()}
        if "training" not in excluded:
            tensors["training"] = self._training_state()
        write_archive(path, metadata | {"hyperparameters": hyperparameters}, tensors, pickled)

    def _training_state(self) -> dict[str, Any]:
        state = {name: getattr(self, name).state_dict() for name in ("optimizer", "keypoint_optimizer", "multipliers")}
        state["multiplier_optimizer"] = self.multipliers.optimizer.state_dict()
        if self.generator is not None and self.acting_generator is not None:
            state["generator"] = self.generator.get_state()
            state["acting_generator"] = self.acting_generator.get_state()
        return state

    def _set_training_state(self, state: dict[str, Any]) -> None:
        for name in ("optimizer", "keypoint_optimizer", "multipliers"):
            getattr(self, name).load_state_dict(state[name])
        self.multipliers.optimizer.load_state_dict(state["multiplier_optimizer"])
        try:
            self.generator.set_state(state["generator"].cpu())  # type: ignore[union-attr]
            self.acting_generator.set_state(state["acting_generator"].cpu())  # type: ignore[union-attr]
        except (RuntimeError, KeyError, AttributeError):
            pass  # saved on another kind of device: it goes on with fresh random numbers

    @classmethod
    def load(
        cls: type[SelfProQ],
        path: str | pathlib.Path | io.BufferedIOBase,
        env: GymEnv | None = None,
        device: th.device | str = "auto",
        custom_objects: dict[str, Any] | None = None,
        print_system_info: bool = False,
        force_reset: bool = True,
        *,
        trust_pickle: bool = False,
        **kwargs: Any,
    ) -> SelfProQ:
        """
        Read an agent that :meth:`save` wrote. Nothing in the file is executed unless you say so.

        :param path: the file; ``.zip`` may be left out
        :param env: an environment to act in; its spaces must be the agent's
        :param device: where to put it
        :param custom_objects: hyperparameters to use instead of the saved ones; ``policy_class`` too
        :param print_system_info: print the versions that the agent was saved with, and the present ones
        :param force_reset: not used; here for SB3's signature
        :param trust_pickle: also unpickle what could not be stored as plain data. Runs code of the file's author
        :param kwargs: constructor arguments to change, as ``verbose`` or ``tensorboard_log``
        :raises CheckpointError: if the file is damaged, foreign, of a newer version or of other spaces
        """
        archive = read_archive(path, device="cpu", trust_pickle=trust_pickle)
        if print_system_info:
            print("== Saved with ==", *(f"{k}: {v}" for k, v in archive.versions.items()), sep="\n")
            utils.get_system_info()
        if archive.metadata.get("algorithm") != cls.__name__:
            raise CheckpointError(f"the file holds a {archive.metadata.get('algorithm')!r} agent, not {cls.__name__}")
        known = cls._hyperparameter_names()
        given = {name: from_json_value(value) for name, value in archive.metadata["hyperparameters"].items()}
        given |= archive.pickled | (custom_objects or {}) | kwargs
        policy = given.pop("policy_class", ProQPolicy)
        lost = [name for name in archive.skipped if name not in given and name != "policy_class"]
        if lost or (policy is ProQPolicy and "policy_class" in archive.skipped):
            raise CheckpointError(
                f"{', '.join(archive.skipped)} of this agent is stored as pickled code, which is not run by default; "
                "pass it in custom_objects, or trust_pickle=True if you trust the author"
            )
        unknown = sorted(set(given) - set(known) - {"verbose", "tensorboard_log", "stats_window_size"})
        if unknown:
            raise CheckpointError(f"unknown hyperparameters in the file: {', '.join(unknown)}")
        observation_space = space_from_json(archive.metadata["observation_space"])
        action_space = space_from_json(archive.metadata["action_space"])
        model = cls(policy, device=device, observation_space=observation_space, action_space=action_space, **given)
        try:
            model.policy.load_state_dict(archive.tensors["policy"])
            if "training" in archive.tensors:
                model._set_training_state(archive.tensors["training"])
            for name in _COUNTERS:
                setattr(model, name, archive.metadata["counters"][name])
        except (RuntimeError, KeyError, ValueError) as error:
            raise CheckpointError(f"the file's tensors do not fit its hyperparameters: {error}") from error
        if env is not None:
            model.set_env(env)
        return model


_COUNTERS = ("num_timesteps", "_total_timesteps", "_n_updates", "_current_progress_remaining")


def _dataset_observation_space(dataset: GoalDataset) -> spaces.Dict:
    def box(array: th.Tensor) -> spaces.Box:
        return spaces.Box(-np.inf, np.inf, (array.shape[1],), np.float32)

    goal = box(dataset.achieved_goals)
    return spaces.Dict(observation=box(dataset.observations), achieved_goal=goal, desired_goal=goal)


def _dataset_action_space(dataset: GoalDataset) -> spaces.Box:
    low, high = (bound.cpu().numpy() for bound in dataset.actions.aminmax(dim=0))
    if not (low < high).all():
        raise ValueError("an action dimension never changes in the dataset; give the action_space")
    return spaces.Box(low, high, dtype=np.float32)
