"""Algorithms that save and load themselves without pickles."""

from __future__ import annotations

import copy
import inspect
import io
import math
import pathlib
import warnings
from collections.abc import Iterable
from typing import Any, ClassVar, TypeVar

import torch as th
from stable_baselines3.common import utils
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, TensorDict

from proq_agent.common.archive import Archive, read_archive, write_archive
from proq_agent.common.errors import CheckpointError, check_names, within
from proq_agent.common.json_values import from_json_value, space_from_json, space_to_json, to_json_value
from proq_agent.common.settings import Renamed, changed, to_dict
from proq_agent.common.state_checks import (
    at_most_tensors,
    check_module_state,
    check_optimizer_state,
    set_generator_state,
)
from proq_agent.common.tensor_file import check_finite

SelfSaved = TypeVar("SelfSaved", bound="SavedAlgorithm")

_METADATA = ("algorithm", "observation_space", "action_space", "counters", "learned", "hyperparameters")
_COUNTERS = ("num_timesteps", "_total_timesteps", "_n_updates", "_current_progress_remaining")
_NOT_SAVED = {
    "env",
    "legacy",
    "device",
    "dataset",
    "tensorboard_log",
    "stats_window_size",
    "verbose",
    "_init_setup_model",
}
_SAVED_APART = {"self", "policy", "observation_space", "action_space"}
_SPARE_TENSORS = 100  # what an algorithm may build besides its policy


class SavedAlgorithm(BaseAlgorithm):
    """
    Saved as plain JSON and tensors, see :mod:`proq_agent.common.archive`.

    A subclass keeps each constructor argument as an attribute of the same name, which is how they are saved.
    """

    training_restored = False  #: whether this was loaded from a file with all that exact resumption needs
    learned: ClassVar[tuple[str, ...]] = ()  #: attributes that belong to the agent
    learned_since: ClassVar[dict[str, Any]] = {}  #: those of them that older files lack, and what stands in for each
    stateful: ClassVar[tuple[str, ...]] = ()  #: attributes with a state dict, kept to resume exactly
    generators: ClassVar[tuple[str, ...]] = ()  #: attributes that are generators, likewise
    renamed: ClassVar[Renamed] = Renamed({}, {})  #: arguments of earlier versions

    @classmethod
    def _hyperparameter_names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name not in _NOT_SAVED | _SAVED_APART]

    @classmethod
    def _default_policy(cls) -> type[BasePolicy]:
        return cls.policy_aliases["MultiInputPolicy"]

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
        :param include: nothing else can be stored; here for SB3's signature
        :raises ValueError: if a number of the agent is not finite; an earlier file stays as it is
        """
        excluded = set(exclude or ()) - _NOT_SAVED
        if excluded - {"training"}:
            raise ValueError(f"only 'training' can be excluded, got {sorted(excluded)}")
        if include:
            raise ValueError(f"an agent's file has room for the agent alone, cannot include {sorted(include)}")
        metadata = {
            "algorithm": type(self).__name__,
            "observation_space": space_to_json(self.observation_space),
            "action_space": space_to_json(self.action_space),
            "counters": {name: getattr(self, name) for name in _COUNTERS},
            "learned": {name: to_json_value(value, name) for name, value in self._learned_values().items()},
        }
        hyperparameters, pickled = {}, {}
        for name in self._hyperparameter_names():
            try:
                hyperparameters[name] = to_json_value(to_dict(getattr(self, name)), name)
            except ValueError:
                pickled[name] = getattr(self, name)
        if self.policy_class is not self._default_policy():
            pickled["policy_class"] = self.policy_class
        weights = self.get_parameters()["policy"]  # of a part that is compiled alone under their usual names, too
        states: dict[str, Any] = {"policy": {key.replace("_orig_mod.", ""): value for key, value in weights.items()}}
        if "training" not in excluded:
            states["training"] = self._training_state()
        self._check_finite_states(states)
        write_archive(path, metadata | {"hyperparameters": hyperparameters}, states, pickled)

    def _check_finite_states(self, states: dict[str, Any]) -> None:
        for name, state in states.items():
            check_finite(state, name, getattr(self.policy, "may_be_infinite", ()))

    @property
    def plain_policy(self) -> BasePolicy:
        """The policy as it is without ``torch.compile``, which renames its tensors."""
        return getattr(self.policy, "_orig_mod", self.policy)

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        return ["policy", *self.stateful], []

    def _training_state(self) -> dict[str, Any]:
        state = {name: getattr(self, name).state_dict() for name in self.stateful}
        generators = {name: getattr(self, name) for name in self.generators}
        return state | {name: generator.get_state() for name, generator in generators.items() if generator is not None}

    def _set_training_state(self, state: dict[str, Any]) -> None:
        if state.keys() - {*self.stateful, *self.generators}:
            raise ValueError(f"unknown state {sorted(state.keys() - {*self.stateful, *self.generators})}")
        self._check_training_state(state)
        for name in self.stateful:
            with within(name):  # a module checks its extra state itself
                getattr(self, name).load_state_dict(state[name])
        for name in self.generators:
            generator = getattr(self, name)
            with within(name):
                exact = generator is None or (name in state and set_generator_state(generator, state[name]))
            if not exact:
                warnings.warn(
                    f"the state of {name} is of another device; training will not resume exactly", stacklevel=4
                )

    def _check_training_state(self, state: dict[str, Any]) -> None:
        for name in self.stateful:
            owner = getattr(self, name)
            check = check_optimizer_state if isinstance(owner, th.optim.Optimizer) else check_module_state
            with within(name):
                check(owner, state[name])

    def _learned_values(self) -> dict[str, Any]:
        """What ``learned`` names, as plain values."""
        return {name: getattr(self, name) for name in self.learned}

    def _set_learned_values(self, values: dict[str, Any]) -> None:
        """
        Take over what :meth:`_learned_values` returned; a subclass checks them first.

        :raises Exception: of any kind, if they are malformed
        """
        for name, value in values.items():
            setattr(self, name, value)

    def set_parameters(
        self,
        load_path_or_dict: str | pathlib.Path | io.BufferedIOBase | TensorDict,
        exact_match: bool = True,
        device: th.device | str = "auto",
    ) -> None:
        """
        Take over the weights of another agent, and what its optimisers remember.

        :param load_path_or_dict: a file that :meth:`save` wrote, or what ``get_parameters`` returned
        :param exact_match: as in SB3; a file saved without ``training`` is a match, and leaves optimisers alone
        :param device: not used: the agent stays where it is
        :raises CheckpointError: if the file is no agent of this kind and these sizes
        """
        if isinstance(load_path_or_dict, dict):
            # Copied: an optimiser would go on in the memory of the other.
            self._set_parameters(copy.deepcopy(load_path_or_dict), exact_match)
            return
        archive = read_archive(load_path_or_dict)
        self._check_algorithm(archive)
        with within(f"policy in {archive.label}"):
            check_module_state(self.plain_policy, archive.states["policy"])
            self._check_finite_states(archive.states)
        parameters = {"policy": archive.states["policy"]}
        with within(f"training in {archive.label}"):
            if "training" in archive.states:
                self._check_training_state(archive.states["training"])
                parameters |= {name: archive.states["training"][name] for name in self.stateful}
            self._set_parameters(parameters, exact_match and "training" in archive.states)

    def _set_parameters(self, parameters: TensorDict, exact_match: bool) -> None:
        policy, self.policy = self.policy, self.plain_policy
        try:
            super().set_parameters(parameters, exact_match)
        finally:
            self.policy = policy

    @classmethod
    def load(
        cls: type[SelfSaved],
        path: str | pathlib.Path | io.BufferedIOBase,
        env: GymEnv | str | None = None,
        device: th.device | str = "auto",
        custom_objects: dict[str, Any] | None = None,
        print_system_info: bool = False,
        force_reset: bool = True,
        *,
        trust_pickle: bool = False,
        **kwargs: Any,
    ) -> SelfSaved:
        """
        Read an agent that :meth:`save` wrote. Nothing in the file is executed unless you say so, and no file takes more
        than a small multiple of its own size in memory: sizes are compared with the tensors before anything is built
        (but for a policy class of your own, which need not be able to tell them beforehand).

        :param path: the file; ``.zip`` may be left out
        :param env: an environment to act in, or its name; its spaces must be the agent's
        :param device: where to put it
        :param custom_objects: hyperparameters to use instead of the saved ones, and ``policy_class``; ignores others
        :param print_system_info: print the versions that the agent was saved with, and the present ones
        :param force_reset: not used; here for SB3's signature
        :param trust_pickle: also unpickle what could not be stored as plain data. Runs code of the file's author
        :param kwargs: constructor arguments to change, as ``verbose`` or, within a group of settings, with a dict:
            ``planning={"patience": 20}``; ``dataset`` to go on learning
        :raises CheckpointError: if the file is damaged, foreign, of a newer version or of other spaces
        """
        archive = read_archive(path, trust_pickle)
        if print_system_info:
            print("== Saved with ==", *(f"{k}: {v}" for k, v in archive.versions.items()), sep="\n")
            utils.get_system_info()
        cls._check_algorithm(archive)
        allowed = {*cls._hyperparameter_names(), "verbose", "tensorboard_log", "stats_window_size", "dataset"}
        if unknown := sorted(name for name in kwargs if name not in allowed and name not in cls.renamed):
            raise ValueError(f"load() does not know {', '.join(unknown)}")
        with within(f"metadata.json in {archive.label}"):
            check_names(archive.metadata, _METADATA)
            learned = cls.learned_since | archive.metadata["learned"]
            check_names(learned, cls.learned)
            arguments = cls._saved_arguments(archive, custom_objects or {}, kwargs)
        policy = arguments.pop("policy_class", cls._default_policy())
        dataset = arguments.pop("dataset", None)
        with within(f"policy in {archive.label}"):
            weights = archive.states["policy"]
            if policy is cls._default_policy():
                cls._check_sizes(policy, arguments, weights)
        with within(f"hyperparameters in {archive.label}"):
            model = cls(policy, device=device, **arguments)
        with within(f"policy in {archive.label}"):
            check_module_state(model.policy, weights)
            model._check_finite_states(archive.states)
            model.policy.load_state_dict(weights)
            if hasattr(model.policy, "check_weights"):  # not of every policy of one's own
                model.policy.check_weights()  # type: ignore[operator]
        with within(f"training in {archive.label}"):
            model.training_restored = "training" in archive.states
            if model.training_restored:
                model._set_training_state(archive.states["training"])
        with within(f"metadata.json in {archive.label}"):
            for name, value in _counters(archive.metadata["counters"]).items():
                setattr(model, name, value)
            model._set_learned_values({name: from_json_value(learned[name]) for name in cls.learned})
        if dataset is not None:
            model.set_dataset(dataset)  # type: ignore[attr-defined]
        if env is not None:
            model.set_env(env)  # type: ignore[arg-type]
            assert model.env is not None
            model.env.seed(model.seed)
        return model

    @classmethod
    def _check_algorithm(cls, archive: Archive) -> None:
        algorithm = archive.metadata.get("algorithm")
        if algorithm != cls.__name__:
            raise CheckpointError(f"{archive.label} holds a {algorithm!r:.40} agent, not {cls.__name__}")

    @classmethod
    def _saved_arguments(cls, archive: Archive, custom: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
        known = {*cls._hyperparameter_names(), "policy_class"}
        given = {name: from_json_value(value) for name, value in archive.metadata["hyperparameters"].items()}
        given = cls.renamed(given | archive.pickled, stacklevel=4)
        if given.keys() - known:
            raise CheckpointError(f"unknown hyperparameters {', '.join(sorted(given.keys() - known))[:200]}")
        custom = {name: value for name, value in custom.items() if name in known or name in cls.renamed}
        given = cls.renamed(changed(given, custom | changes), stacklevel=4)
        lost = [name for name in archive.skipped if name not in given]
        if lost:
            raise CheckpointError(
                f"{', '.join(lost)[:200]} of this agent is stored as pickled code, which is not run by default; "
                "pass it in custom_objects, or trust_pickle=True if you trust the author"
            )
        for name in ("observation_space", "action_space"):
            given[name] = space_from_json(archive.metadata[name])
        return given

    @classmethod
    def _check_sizes(cls, policy: type[BasePolicy], arguments: dict[str, Any], weights: Any) -> None:
        """Build the agent where tensors have shapes but no memory, and compare it with what the file holds."""
        with at_most_tensors(2 * len(weights) + _SPARE_TENSORS), th.device("meta"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they come when the agent itself is built
            check_module_state(cls(policy, device="meta", **arguments | {"verbose": 0}).policy, weights)


def _counters(counters: dict[str, Any]) -> dict[str, Any]:
    check_names(counters, _COUNTERS)
    for name, value in counters.items():
        whole = name != "_current_progress_remaining"
        if type(value) not in ((int,) if whole else (int, float)) or not math.isfinite(value):
            raise ValueError(f"{name} is {value!r:.40}")
        if whole and not 0 <= value < 2**62:
            raise ValueError(f"{name} is {value}")
    return counters
