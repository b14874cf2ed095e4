"""``policy_kwargs`` in Stable-Baselines3's words: what has another name here is understood or answered with it."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from typing import Any

# What Stable-Baselines3 calls something that is not chosen here, and what there is instead.
_ANSWERS = {
    "activation_fn": "the units are GELU",
    "optimizer_class": "the optimiser is Adam, with the agent's learning_rate",
    "optimizer_kwargs": "the optimiser is Adam, with the agent's learning_rate",
    "features_extractor_class": "vectors go straight to the networks; n_fourier_features adds features",
    "features_extractor_kwargs": "vectors go straight to the networks; n_fourier_features adds features",
    "share_features_extractor": "vectors go straight to the networks",
    "normalize_images": "observations are vectors; standardise shifts and scales them",
    "log_std_init": "the spread of sampled actions is learned, or the agent's acting_std",
}


def as_policy_kwargs(policy: type, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """
    Arguments of a policy's constructor, ``net_arch`` as ``hidden_sizes``.

    :param policy: its class
    :param given: what the user calls them
    :raises ValueError: naming one that the policy does not have, and what there is instead
    """
    arguments = dict(given or {})
    parameters = inspect.signature(policy.__init__).parameters  # type: ignore[misc]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return arguments  # a class of the user's own, which takes anything
    if "net_arch" in arguments and "net_arch" not in parameters:
        if "hidden_sizes" in arguments:
            raise ValueError("policy_kwargs has both net_arch and hidden_sizes, which mean the same: give one")
        sizes = arguments.pop("net_arch")
        if not isinstance(sizes, list | tuple):
            raise ValueError(f"net_arch is hidden_sizes here, one list for all networks, as [256, 256], got {sizes!r}")
        arguments["hidden_sizes"] = sizes
    known = [name for name, parameter in parameters.items() if parameter.default is not parameter.empty]
    known = [name for name in known if name != "lr_schedule"]
    for name in arguments:
        if name not in parameters:
            closest = difflib.get_close_matches(str(name), known, n=1, cutoff=0.6)
            hint = _ANSWERS.get(name) or (f"did you mean {closest[0]}?" if closest else f"known are {', '.join(known)}")
            raise ValueError(f"policy_kwargs: {policy.__name__} has no {name!r}; {hint}")
    return arguments
