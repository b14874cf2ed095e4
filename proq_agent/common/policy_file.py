"""Policies that save and load themselves without pickles."""

from __future__ import annotations

import io
import pathlib
from typing import Any, ClassVar, TypeVar

import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.utils import get_device

from proq_agent.common.archive import read_archive, write_archive
from proq_agent.common.errors import CheckpointError, check_names, within
from proq_agent.common.json_values import from_json_value, space_from_json, space_to_json, to_json_value
from proq_agent.common.networks import LEAST_STD, Standardise
from proq_agent.common.state_checks import at_most_tensors, check_module_state
from proq_agent.common.tensor_file import check_finite

SelfPolicy = TypeVar("SelfPolicy", bound="SavedPolicy")
PathOrStream = str | pathlib.Path | io.BufferedIOBase


class SavedPolicy(BasePolicy):
    """
    Saved alone, as an agent file without the agent around it. SB3's own ``load`` unpickles, and so runs code of the
    file's author.

    A subclass returns from ``_get_constructor_parameters`` the spaces and plain values.
    """

    may_be_infinite: ClassVar[tuple[str, ...]] = ()  #: names of tensors in which infinity has a meaning

    def check_weights(self) -> None:
        """
        Refuse numbers with which nothing would fit together, after they were loaded.

        :raises ValueError: naming them
        """
        for name in ("low", "high"):
            bound, limit = getattr(self, f"action_{name}", None), getattr(self.action_space, name)
            if bound is not None and not th.equal(bound.cpu(), th.as_tensor(limit, dtype=bound.dtype)):
                raise ValueError(f"action_{name} is not that of the action space")
        for name, module in self.named_modules():
            if isinstance(module, Standardise) and not (module.std > LEAST_STD).all():
                raise ValueError(f"{name}.std is not greater than {LEAST_STD}")
        was_training = self.training
        self.set_training_mode(False)
        with th.no_grad():
            sound = self._is_sound()
        self.set_training_mode(was_training)
        if not sound:
            raise ValueError("the weights make no sense: what they compute for a plain observation is not finite")

    def _is_sound(self) -> bool:
        """Whether it acts upon one observation at least, that of zeros: finite weights may be too large for that."""
        assert isinstance(self.observation_space, spaces.Dict)
        observation = {
            key: th.zeros(1, *space.shape, device=self.device)  # type: ignore[misc]
            for key, space in self.observation_space.spaces.items()
        }
        return bool(self._predict(observation, deterministic=True).isfinite().all())

    def save(self, path: PathOrStream) -> None:
        """
        Write the policy to one zip without pickled objects.

        :param path: ``.zip`` is appended if there is no suffix
        """
        arguments = self._get_constructor_parameters()
        metadata = {
            "policy": type(self).__name__,
            **{name: space_to_json(arguments.pop(name)) for name in ("observation_space", "action_space")},
            "arguments": {name: to_json_value(value, name) for name, value in arguments.items()},
        }
        check_finite(self.state_dict(), "policy", self.may_be_infinite)
        write_archive(path, metadata, {"policy": self.state_dict()})

    @classmethod
    def load(cls: type[SelfPolicy], path: PathOrStream, device: th.device | str = "auto") -> SelfPolicy:
        """
        Read a policy that :meth:`save` wrote. Nothing in the file is executed.

        :param path: the file; ``.zip`` may be left out
        :param device: where to put it
        :raises CheckpointError: if the file is damaged, foreign, of a newer version, or holds a whole agent
        """
        archive = read_archive(path)
        if archive.metadata.get("policy") != cls.__name__:
            found = archive.metadata.get("policy", archive.metadata.get("algorithm"))
            raise CheckpointError(
                f"{archive.label} holds a {found!r:.40}, not a {cls.__name__}; an agent has its own load(), and its "
                "policy in .policy"
            )
        with within(f"metadata.json in {archive.label}"):
            check_names(archive.metadata, ("policy", "observation_space", "action_space", "arguments"))
            arguments: dict[str, Any] = {k: from_json_value(v) for k, v in archive.metadata["arguments"].items()}
            for name in ("observation_space", "action_space"):
                arguments[name] = space_from_json(archive.metadata[name])
        with within(f"policy in {archive.label}"):
            weights = archive.states["policy"]
            with at_most_tensors(2 * len(weights)), th.device("meta"):
                check_module_state(cls(**arguments), weights)
            check_finite(weights, "policy", cls.may_be_infinite)
            with th.random.fork_rng(devices=[]):  # the weights that are drawn now do not matter
                policy = cls(**arguments)
            policy.load_state_dict(weights)
            policy.check_weights()
        return policy.to(get_device(device))
