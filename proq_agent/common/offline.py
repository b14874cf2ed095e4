"""Stable-Baselines3's base class for algorithms that learn from a dataset instead of an environment."""

from __future__ import annotations

import math
import sys
import time
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common import utils
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback, CallbackList, ConvertCallback
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback, Schedule
from stable_baselines3.common.vec_env import VecEnv

from proq_agent.common import distributed
from proq_agent.common.agent_file import SavedAlgorithm
from proq_agent.common.callbacks import ProgressBar, fit_for_offline
from proq_agent.common.dataset import GoalDataset
from proq_agent.common.goal_limits import GoalLimits
from proq_agent.common.named_env import make_named_env
from proq_agent.common.normalised import warn_if_normalised
from proq_agent.common.policy_settings import as_policy_kwargs
from proq_agent.common.prefetch import Prefetch
from proq_agent.common.settings import is_finite_number
from proq_agent.common.spaces import (
    action_space_of,
    check_actions,
    check_goal_spaces,
    check_observation,
    observation_space_of,
)
from proq_agent.common.updates import enough_updates

SelfOffline = TypeVar("SelfOffline", bound="OfflineAlgorithm")

MAX_BATCH_SIZE, MAX_SEED = 2**24, 2**62
MAX_POLICY_SIZE = 2**28  # numbers in its tensors; learning takes some six times as many
MAX_UNCHECKED = 1000  # losses and other metrics, of some hundred updates: a look at them waits for the device


class TrainingDiverged(ValueError):
    """A loss is no longer a finite number: nothing can be learned any more."""


class OfflineAlgorithm(SavedAlgorithm):
    """
    Learns by calling :meth:`train` once for each time step, so that ``num_timesteps`` counts gradient updates.

    An environment is optional. A subclass has ``observation_space``, ``action_space`` and ``dataset`` as its last
    constructor arguments and ``MultiInputPolicy`` among its ``policy_aliases``, keeps each argument as an attribute of
    the same name, which is how they are saved, and ends its constructor with :meth:`_finish_init`. It implements
    :meth:`train`, and what it needs of :meth:`draw`, :meth:`_setup_training`, :meth:`_prepare_dataset`, :meth:`_fit`
    and :meth:`first_useful_evaluation`.

    :param policy: name of a policy, or its class
    :param env: a goal environment, or the name of one, to take the spaces from and to evaluate in; optional
    :param learning_rate: a number or a function of the remaining progress (from 1 to 0)
    :param batch_size: transitions in an update
    :param dataset: trajectories to learn from, here to take the spaces from
    :param observation_space: if there is neither an env nor a dataset yet
    :param action_space: likewise; without it, the range of the dataset's actions is used
    :param policy_kwargs: of the policy's constructor
    :param stats_window_size: as in SB3
    :param tensorboard_log: the log location for tensorboard; ``None`` for no logging
    :param verbose: 0 for no output, 1 for info messages, 2 for debug messages
    :param seed: of all randomness in this object; no global state is touched
    :param device: ``"auto"`` uses CUDA where there is one
    """

    dataset: GoalDataset | None = None
    goal_limits: GoalLimits | None = None  #: of the data that the agent knows
    learned: ClassVar[tuple[str, ...]] = ("goal_limits",)
    learned_since: ClassVar[dict[str, Any]] = {"goal_limits": None}
    _said_strange = False
    _prefetch: Prefetch[Any] | None = None  # of what lies on disk
    generators: ClassVar[tuple[str, ...]] = ("generator", "acting_generator")
    #: whether :meth:`train` lets networks see ``own_rows`` and losses ``whole`` batches, see ``distributed.py``
    shares_batches: ClassVar[bool] = False
    #: how many of its updates take the CPU time of one of ProQ's, so that algorithms are compared at equal time
    updates_at_equal_time: ClassVar[float] = 1.0

    def __init__(
        self,
        policy: str | type[BasePolicy],
        env: GymEnv | str | None,
        learning_rate: float | Schedule,
        batch_size: int,
        *,
        dataset: GoalDataset | None = None,
        observation_space: spaces.Space | None = None,
        action_space: spaces.Space | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: th.device | str = "auto",
    ) -> None:
        super().__init__(
            policy=policy,
            env=make_named_env(env) if isinstance(env, str) else env,
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
        if not isinstance(batch_size, int) or not 2 <= batch_size <= MAX_BATCH_SIZE:
            limits = f"at most {MAX_BATCH_SIZE} and at least 2"
            raise ValueError(f"batch_size must be a whole number, {limits}, got {batch_size!r}")
        if seed is not None and (not isinstance(seed, int) or not 0 <= seed <= MAX_SEED):
            raise ValueError(f"seed must be a whole number in 0..{MAX_SEED}, or None for any, got {seed!r}")
        if isinstance(learning_rate, int | float) and not (is_finite_number(learning_rate) and learning_rate > 0):
            raise ValueError(f"learning_rate must be positive and finite, got {learning_rate!r}")
        self.batch_size = batch_size
        self.policy_kwargs = as_policy_kwargs(self.policy_class, policy_kwargs)
        self._metric_sums: dict[str, th.Tensor] = {}
        self._metric_counts: dict[str, int] = {}
        self._unchecked: list[tuple[int, str, th.Tensor]] = []
        if env is None and dataset is not None:
            observation_space = observation_space or observation_space_of(dataset)
            action_space = action_space or action_space_of(dataset)
        if env is None and observation_space is not None and action_space is not None:
            self.observation_space, self.action_space = observation_space, action_space

    def _finish_init(self, build: bool, dataset: GoalDataset | None) -> None:
        """
        Build the networks and take the dataset, once every argument is an attribute.

        :param build: SB3's ``_init_setup_model``
        :param dataset: may be None
        :raises ValueError: if the spaces are not known
        """
        if not build:
            return
        if getattr(self, "observation_space", None) is None:
            raise ValueError("give an env, a dataset, or both observation_space and action_space")
        self._setup_model()
        if dataset is not None:
            self.set_dataset(dataset)

    # ---------------------------------------------------------------------------------------------------- building

    def _setup_model(self) -> None:
        check_goal_spaces(self.observation_space, self.action_space)
        self._setup_lr_schedule()
        if not 0.0 < self.lr_schedule(1.0) < math.inf:
            raise ValueError(f"learning_rate must begin with a positive number, got {self.lr_schedule(1.0)!r}")
        if self.seed is None:
            self.seed = int(np.random.SeedSequence().generate_state(1)[0])
        arguments = self._policy_arguments() | self.policy_kwargs
        with th.random.fork_rng(devices=[]):
            self._check_policy_size(arguments)
            th.default_generator.manual_seed(self.seed)
            try:
                policy = self.policy_class(self.observation_space, self.action_space, **arguments)
            except (TypeError, RuntimeError, MemoryError, OverflowError) as error:  # PyTorch's of absurd sizes
                what, *_ = str(error).split("\n")  # that of its C++ follows
                raise ValueError(f"the policy cannot be built: {what}") from error
        self.policy = policy.to(self.device)
        self._setup_training()
        self.set_random_seed(self.seed)

    def _check_policy_size(self, arguments: dict[str, Any]) -> None:
        """Before memory is taken that the system may only find missing when it is used, and then ends any process."""
        size = 0
        with suppress(Exception), warnings.catch_warnings(), th.device("meta"):  # what else is wrong is said later
            warnings.simplefilter("ignore")
            tensors = self.policy_class(self.observation_space, self.action_space, **arguments).state_dict().values()
            size = sum(tensor.numel() for tensor in tensors if isinstance(tensor, th.Tensor))
        if size > MAX_POLICY_SIZE:
            raise ValueError(f"the policy would hold {size} numbers, more than {MAX_POLICY_SIZE}: choose smaller sizes")

    def _get_policy_from_name(self, policy_name: str) -> type[BasePolicy]:
        """SB3's, which leaves open what there is instead."""
        if policy_name in self.policy_aliases:
            return self.policy_aliases[policy_name]
        known = " or ".join(map(repr, self.policy_aliases))
        raise ValueError(
            f"policy {policy_name!r} is unknown; observations with goals are dicts: take {known}, or a class"
        )

    def _policy_arguments(self) -> dict[str, Any]:
        """Arguments of the policy's constructor that are not among ``policy_kwargs``."""
        return {}

    def _setup_training(self) -> None:
        """Make optimisers and whatever else learning needs besides the policy."""

    def _adam(self, parameters: Iterable[th.nn.Parameter]) -> th.optim.Adam:
        """Adam in one kernel for all parameters; :meth:`_descend` sets its learning rate."""
        return th.optim.Adam(parameters, lr=self.lr_schedule(1.0), fused=self.device.type != "meta")

    @classmethod
    def acting_settings(cls, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """
        The arguments that may change without training anew.

        :param arguments: all of the constructor's, groups of settings as dicts
        """
        return ()

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
        self.policy.generator = self.acting_generator  # type: ignore[assignment]
        self.action_space.seed(seed)
        if self.env is not None:
            self.env.seed(seed)

    def set_dataset(self, dataset: GoalDataset) -> None:
        """
        Learn from these trajectories. Before the first update, statistics are taken from them.

        :param dataset: copied to the model's device if it is not there
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
        if dataset.device.type != "meta":
            limits = self._limits_of(dataset)
            more = self.num_timesteps > 0 and self.goal_limits is not None
            self.goal_limits = self.goal_limits.union(limits) if more else limits  # type: ignore[union-attr]
        self.dataset = self._prepare_dataset(dataset).to(self.device)
        self._prefetch = None if isinstance(self.dataset.observations, th.Tensor) else Prefetch(self.draw)
        if self.num_timesteps == 0:
            self._fit(self.dataset)

    def _limits_of(self, dataset: GoalDataset) -> GoalLimits:
        """Beyond which goals are of another world."""
        return GoalLimits.of(dataset)

    def _prepare_dataset(self, dataset: GoalDataset) -> GoalDataset:
        """The trajectories as this algorithm learns from them."""
        return dataset

    def _fit(self, dataset: GoalDataset) -> None:
        """Take statistics of the data before the first update."""

    def set_env(self, env: GymEnv | str, force_reset: bool = True) -> None:
        """
        Act in this environment from now on; offline, any number of parallel ones will do.

        :param env: it, or its name; its spaces must be the model's
        :param force_reset: as in SB3
        """
        env = self._wrap_env(env, self.verbose)
        utils.check_for_correct_spaces(env, self.observation_space, self.action_space)
        self.n_envs = env.num_envs
        super().set_env(env, force_reset)

    @staticmethod
    def _wrap_env(env: GymEnv | str, verbose: int = 0, monitor_wrapper: bool = True) -> VecEnv:
        env = make_named_env(env) if isinstance(env, str) else env
        warn_if_normalised(env)
        return BaseAlgorithm._wrap_env(env, verbose, monitor_wrapper)

    # ---------------------------------------------------------------------------------------------------- learning

    @abstractmethod
    def train(self) -> None:
        """One gradient update."""

    def draw(self, generator: th.Generator | None) -> Any:
        """
        What an update reads of the dataset before it computes; a dataset on disk is read while the last one still does.

        :param generator: source of randomness
        """
        raise NotImplementedError

    def next_batch(self) -> Any:
        """What :meth:`draw` returns, drawn with the model's generator."""
        return self.draw(self.generator) if self._prefetch is None else self._prefetch.take(self.generator)

    def choose_settings(self, held_out: GoalDataset | None) -> None:
        """
        Choose those acting settings that are left to the data, once a training is over.

        :param held_out: trajectories that were not learned from
        """

    def first_useful_evaluation(self, total: int) -> int:
        """
        After how many updates it is worth while to see the agent act.

        :param total: number of updates of the whole training
        """
        return 0

    def _descend(
        self,
        optimizer: th.optim.Optimizer,
        loss: th.Tensor,
        metrics: dict[str, th.Tensor],
        learning_rate: float | None = None,
    ) -> None:
        """
        One step of an optimiser.

        :param optimizer: whose parameters move
        :param loss: to descend on
        :param metrics: for the log
        :param learning_rate: the schedule's, by default
        """
        self._differentiate(optimizer, loss)
        self._step(optimizer, metrics, learning_rate)

    def _differentiate(self, optimizer: th.optim.Optimizer, loss: th.Tensor) -> None:
        """The gradients that :meth:`_step` goes along; an update computes all of them before its first step."""
        optimizer.zero_grad(set_to_none=True)
        if self._prefetch is not None:  # losses are known: nobody draws a number until the next update
            self._prefetch.begin(self.generator)
        loss.backward()
        distributed.average_gradients(p for group in optimizer.param_groups for p in group["params"])

    def _step(
        self, optimizer: th.optim.Optimizer, metrics: dict[str, th.Tensor], learning_rate: float | None = None
    ) -> None:
        for group in optimizer.param_groups:
            group["lr"] = self.lr_schedule(self._current_progress_remaining) if learning_rate is None else learning_rate
        optimizer.step()
        self._accumulate(metrics)

    def enough_updates(self) -> int:
        """
        What :meth:`learn` takes where nobody says it: the CPU time that ProQ takes, see
        :func:`~proq_agent.common.updates.enough_updates`.
        """
        return round(self.updates_at_equal_time * enough_updates(self._known_dataset(), self.batch_size))

    def _known_dataset(self) -> GoalDataset:
        if self.dataset is None:
            raise ValueError("there is nothing to learn from: pass dataset=... or call set_dataset() first")
        return self.dataset

    def learn(
        self: SelfOffline,
        total_timesteps: int | None = None,
        callback: MaybeCallback = None,
        log_interval: int | None = 1000,
        tb_log_name: str | None = None,
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> SelfOffline:
        """
        Learn from the dataset for ``total_timesteps`` gradient updates.

        In a process group of ``torch.distributed`` the processes train one agent: each calls this with the same
        arguments, computes its share of every batch, and has the same agent in the end. Callbacks are those of each
        process; if one of them ends the training, it ends for all.

        :param total_timesteps: number of updates; None: as many as the dataset takes, see :meth:`enough_updates`
        :param callback: called after every update
        :param log_interval: updates between two writes to the logger, besides the last; ``None`` for none
        :param tb_log_name: name of the run for TensorBoard; the algorithm's by default
        :param reset_num_timesteps: start counting from zero; ``False`` goes on where the model stands
        :param progress_bar: show one
        """
        dataset = self._known_dataset()
        if total_timesteps is None:
            total_timesteps = self.enough_updates()
            if self.verbose:
                print(f"from the data: {total_timesteps} updates")
        self.check_processes()
        distributed.copy_from_main(self.policy.state_dict().values())
        total_timesteps, callback = self._setup_learn(
            total_timesteps, callback, reset_num_timesteps, tb_log_name or type(self).__name__, progress_bar
        )
        callback.on_training_start(locals(), globals())
        while self.num_timesteps < total_timesteps:
            self._update_current_progress_remaining(self.num_timesteps, max(total_timesteps, 1))
            with distributed.whole_or_not_at_all(self.generator):
                self.train()
            self.num_timesteps += 1
            callback.update_locals(locals())
            if not distributed.all_agree(callback.on_step()):
                break
            if log_interval is not None and self.num_timesteps % log_interval == 0:
                self.dump_logs()
        if log_interval is not None and self._metric_sums:  # what was learned since the last entry
            self.dump_logs()
        self.check_losses()
        if self.num_timesteps >= total_timesteps:
            self.policy.set_training_mode(False)  # settings are chosen for the agent as it will act, without dropout
            self.choose_settings(dataset.held_out)
        callback.on_training_end()
        return self

    def check_processes(self) -> None:
        """
        Find out whether the processes of this training can share it.

        :raises ValueError: in all of them
        """
        n = distributed.size()
        if n == 1:
            return
        if not self.shares_batches:
            raise ValueError(f"{type(self).__name__} cannot be trained by {n} processes: it does not share its batches")
        if self.batch_size % n:
            instead = f"make it a multiple of {n}, or start another number of them"
            raise ValueError(f"batch_size {self.batch_size} cannot be shared by {n} processes; {instead}")
        assert self.dataset is not None
        rows = (self.dataset.observations, self.dataset.actions)
        data = [distributed.checksum(array) for array in rows if isinstance(array, th.Tensor)]
        distributed.check_same(
            algorithm=type(self).__name__,
            seed=self.seed,
            batch_size=self.batch_size,
            num_timesteps=self.num_timesteps,
            dataset=self.dataset.fingerprint or tuple(data),
        )

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

    def _init_callback(self, callback: MaybeCallback, progress_bar: bool = False) -> BaseCallback:
        """As the base class does, with callbacks that need no environment."""
        callbacks = callback if isinstance(callback, list) else [callback]
        wrapped = [c if isinstance(c, BaseCallback) else ConvertCallback(c) for c in callbacks]
        bar = [ProgressBar()] if progress_bar else []
        return super()._init_callback(fit_for_offline(CallbackList([*wrapped, *bar]), self.env is not None))

    # ------------------------------------------------------------------------------------------------------ acting

    @property
    def controller(self) -> BasePolicy:
        """What acts without a plan: its ``predict`` heads straight for ``desired_goal``."""
        return self.policy

    def _check_observation(self, observation: Any) -> tuple[dict[str, np.ndarray], bool]:
        """As :func:`check_observation`; says once if it cannot be of the agent's world."""
        arrays, single = check_observation(observation, self.observation_space)
        if self.goal_limits is not None and not self._said_strange:
            for key in ("achieved_goal", "desired_goal"):
                if strange := self.goal_limits.stranger(key, arrays[key]):
                    self._said_strange = True
                    warnings.warn(strange, stacklevel=3)
                    break
        return arrays, single

    def _learned_values(self) -> dict[str, Any]:
        return {"goal_limits": self.goal_limits and self.goal_limits.to_lists()}

    def _set_learned_values(self, values: dict[str, Any]) -> None:
        goal_dim = self.observation_space["achieved_goal"].shape[0]  # type: ignore[index]
        limits = values["goal_limits"]
        self.goal_limits = None if limits is None else GoalLimits.from_lists(limits, goal_dim)

    def predict(
        self,
        observation: np.ndarray | dict[str, np.ndarray],
        state: tuple[np.ndarray, ...] | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...] | None]:
        """
        Act towards the desired goal.

        :param observation: one dict of ``observation``, ``achieved_goal`` and ``desired_goal``, or a batch of them
        :param state: returned as it is: only the observation matters
        :param episode_start: not used
        :param deterministic: the most likely action instead of a sample
        :return: the action (or a batch of them), and the state
        """
        arrays, single = self._check_observation(observation)
        self.policy.set_training_mode(False)
        tensors = {key: th.as_tensor(array, device=self.device) for key, array in arrays.items()}
        with th.no_grad():
            actions = self.policy._predict(tensors, deterministic).cpu().numpy()
        check_actions(actions)
        return (actions[0] if single else actions), state

    # ----------------------------------------------------------------------------------------------------- logging

    def _accumulate(self, metrics: dict[str, th.Tensor]) -> None:
        """Sum on the device; only `dump_logs` and, now and then, `check_losses` wait for it."""
        for name, value in metrics.items():
            value = value.detach()
            self._unchecked.append((self._n_updates + 1, name, value))
            self._metric_sums[name] = self._metric_sums[name] + value if name in self._metric_sums else value
            self._metric_counts[name] = self._metric_counts.get(name, 0) + 1
        if len(self._unchecked) >= MAX_UNCHECKED:
            self.check_losses()

    def check_losses(self) -> None:
        """
        Look at the losses since the last look: every ``MAX_UNCHECKED`` values, before they are logged and before an
        agent is saved.

        :raises TrainingDiverged: naming the first that is not finite
        """
        unchecked, self._unchecked = self._unchecked, []
        if not unchecked or self.device.type == "meta":
            return
        finite = th.stack([value for *_, value in unchecked]).isfinite().cpu()
        if not finite.all():
            update, name, value = unchecked[int(finite.int().argmin())]
            raise TrainingDiverged(
                f"{name} is {value.item()} in update {update}: the training has diverged and its agent is lost; lower "
                "learning_rate, look for extreme values in the dataset, and begin again or from an earlier checkpoint"
            )

    def _check_finite_states(self, states: dict[str, Any]) -> None:
        self.check_losses()  # says more than the tensors that they have spoilt
        super()._check_finite_states(states)

    def dump_logs(self) -> None:
        """Write what happened since the last call to the logger."""
        self.check_losses()
        elapsed = max((time.time_ns() - self.start_time) / 1e9, sys.float_info.epsilon)
        self.logger.record("time/fps", int((self.num_timesteps - self._num_timesteps_at_start) / elapsed))
        self.logger.record("time/time_elapsed", int(elapsed), exclude="tensorboard")
        self.logger.record("time/total_timesteps", self.num_timesteps, exclude="tensorboard")
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        for name, total in self._metric_sums.items():
            self.logger.record(f"train/{name}", (total / self._metric_counts[name]).item())
        self._metric_sums, self._metric_counts = {}, {}
        self.logger.dump(step=self.num_timesteps)
