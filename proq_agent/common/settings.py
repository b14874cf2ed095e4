"""Settings as small frozen dataclasses: checked when they are made, plain dicts where they are written down."""

from __future__ import annotations

import difflib
import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

S = TypeVar("S", bound="Settings")

MAX_WHOLE = 2**53  # beyond, a whole number is not the float that it stands for, and PyTorch takes few of them


@dataclass(frozen=True)
class Settings:
    """
    A group of settings that is refused as a whole if one of them makes no sense.

    A subclass is a frozen dataclass of numbers, truth values and further groups; it says what is allowed in
    :meth:`check`. A group within it may be given as a dict.

    :raises ValueError: naming the setting
    """

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self)).items():
            value = getattr(self, name)
            if isinstance(hint, type) and issubclass(hint, Settings):
                object.__setattr__(self, name, as_settings(hint, value))
            elif not any(_is_a(value, option) for option in _options(hint)):
                wanted = " or ".join(_NAMES.get(option, str(option)) for option in _options(hint))
                raise ValueError(f"{name} must be {wanted}, got {value!r}")
        self.check()

    def check(self) -> None:
        """Refuse values that make no sense."""

    def require(self, condition: bool, name: str, rule: str) -> None:
        """
        :param condition: whether the setting is as it should be
        :param name: of the setting
        :param rule: completes "it must ..."
        """
        if not condition:
            raise ValueError(f"{name} must {rule}, got {getattr(self, name)!r}")


_NAMES: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    NoneType: "None",
    str: "text",
}


def _options(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _is_a(value: Any, kind: Any) -> bool:
    if kind is float and _is_a(value, int):
        return bool(abs(value) <= MAX_WHOLE)
    if kind is float:
        return isinstance(value, float) and not math.isnan(value)
    return isinstance(value, kind) and (kind is not int or not isinstance(value, bool))


def is_finite_number(value: Any) -> bool:
    """
    Whether PyTorch can compute with it; a truth value is no number.

    :param value: anything
    """
    return _is_a(value, float) and math.isfinite(value)


def as_settings(kind: type[S], value: S | Mapping[str, Any] | None) -> S:
    """
    Settings from however they are given.

    :param kind: class of the group
    :param value: an instance, a dict of some of its settings, or ``None`` for the defaults
    :raises ValueError: naming an unknown setting, and the closest known one
    """
    if isinstance(value, kind):
        return value
    if value is not None and not isinstance(value, Mapping):
        raise ValueError(f"{kind.__name__} or a dict of its settings is needed, got {value!r}")
    given, known = dict(value or {}), [field.name for field in fields(kind)]
    for name in given:
        if name not in known:
            closest = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
            hint = f"did you mean {closest[0]}?" if closest else f"known are {', '.join(known)}"
            raise ValueError(f"{kind.__name__} has no setting {name!r}; {hint}")
    return kind(**given)


def to_dict(value: Any) -> Any:
    """Settings as plain dicts; anything else as it is."""
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def changed(arguments: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments with changes, of which a dict changes within a dict."""
    result = dict(arguments)
    for name, value in changes.items():
        inner = to_dict(result.get(name))
        result[name] = changed(inner, value) if isinstance(inner, dict) and isinstance(value, Mapping) else value
    return result


@dataclass(frozen=True)
class Renamed:
    """
    Where arguments of earlier versions have gone.

    :param places: by old name, the new one: ``"max_hop": "planning.max_hop"``
    :param gone: by old name, the only value that can still be honoured, because that is what happens now
    """

    places: Mapping[str, str]
    gone: Mapping[str, Any]

    def __contains__(self, name: object) -> bool:
        return name in self.places or name in self.gone

    def __call__(self, arguments: Mapping[str, Any], stacklevel: int = 3) -> dict[str, Any]:
        """
        Arguments under their present names, with one warning if any of them had an old one.

        :param arguments: groups of settings may be given beside old names, which then change them
        :param stacklevel: of the warning
        :raises ValueError: if what an argument asks for is no longer there
        """
        new = {name: value for name, value in arguments.items() if name not in self}
        old = {name: value for name, value in arguments.items() if name in self}
        for name, value in old.items():
            if name in self.places:
                for part in reversed(self.places[name].split(".")):
                    value = {part: value}
                groups: dict[str, Any] = {group: {} for group in value if new.get(group) is None}
                new = changed(new | groups, value)
            elif value != self.gone[name]:
                raise ValueError(f"{name} is no longer an option: leave it out ({self.gone[name]!r} is what is done)")
        moved = [f"{name} is {self.places[name]} now" for name in old if name in self.places]
        if moved:
            warnings.warn(f"settings have new names: {', '.join(moved)}", FutureWarning, stacklevel)
        return new
