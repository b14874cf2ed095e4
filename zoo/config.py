"""Hyperparameter files: plain YAML, every key and value checked against the constructors before anything runs.

``zoo/hyperparams/<algo>.yml`` has an entry for an environment each, or for several, as ``antmaze-*``, and ``default``
for all others. Those of the preset ``paper`` are called ``paper/antmaze-*``, and ``paper`` for all others. Besides,
there is ``search`` for :mod:`zoo.optimize` and ``ablations`` for :mod:`zoo.benchmark`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from zoo.plain_yaml import compose, construct, read_text, read_yaml
from zoo.registry import DEFAULT_ALGO, PRESETS, algorithm
from zoo.schema import Schema, convert, schema_of, to_plain, unknown, with_defaults

if TYPE_CHECKING:
    from proq_agent.common.offline import OfflineAlgorithm


FOLDER = Path(__file__).parent / "hyperparams"
N_TIMESTEPS = "n_timesteps"
ABLATIONS, SEARCH = "ablations", "search"

__all__ = ["N_TIMESTEPS", "all_hyperparams", "hyperparams_of", "load_hyperparams", "to_plain"]


def load_hyperparams(
    env_id: str,
    preset: str = "tuned",
    conf_file: str | Path | None = None,
    overrides: Sequence[str] = (),
    algo: str = DEFAULT_ALGO,
) -> tuple[dict[str, Any], int | None]:
    """
    Look up the hyperparameters for an environment.

    :param env_id: name of the entry, else the first that fits with its ``*``, else ``default``
    :param preset: ``tuned``, or ``paper`` for the entries whose names begin with ``paper/``, else ``paper``
    :param conf_file: a file like ``zoo/hyperparams/proq.yml``, which is the default
    :param overrides: ``key:value`` with the value in YAML; ``group.key:value`` for one setting of a group
    :param algo: name of the algorithm
    :return: keyword arguments for its constructor, and the number of updates, None if that is left to the data
    :raises ValueError: naming file, line and the nearest valid key
    """
    if preset not in PRESETS:
        raise ValueError(f"unknown preset {preset!r}; choose one of {', '.join(PRESETS)}")
    path = _file(algo, conf_file)
    reader = _Reader(algorithm(algo))
    entry = reader.entry(path, env_id, preset)
    for override in overrides:
        reader.override(entry, override)
    reader.warn()
    if N_TIMESTEPS not in entry:
        raise ValueError(f"{path}: the entry for {env_id} has no {N_TIMESTEPS}")
    n_timesteps = entry.pop(N_TIMESTEPS)
    return entry, n_timesteps


def all_hyperparams(algo: str, hyperparams: Mapping[str, Any]) -> dict[str, Any]:
    """
    Hyperparameters with the defaults of all that are not given, in plain values.

    :param algo: name of the algorithm
    :param hyperparams: as returned by :func:`load_hyperparams`
    """
    return to_plain(with_defaults(algorithm(algo), hyperparams))


def hyperparams_of(model: OfflineAlgorithm) -> dict[str, Any]:
    """All hyperparameters of an agent, the defaults included, in plain values."""
    names = schema_of(type(model))
    return to_plain(with_defaults(type(model), {name: getattr(model, name) for name in names}))


def read_block(name: str, algo: str, conf_file: str | Path | None = None) -> dict[str, Any]:
    """
    One of the parts of a hyperparameter file that are no entries.

    :param name: ``search`` or ``ablations``
    :param algo: name of the algorithm
    :param conf_file: looked into first; that of the algorithm is the default
    :raises ValueError: if there is none
    """
    for path in dict.fromkeys((_file(algo, conf_file), _file(algo))):
        content = read_yaml(path)
        block = content.get(name) if isinstance(content, dict) else None
        if isinstance(block, dict):
            return block
    raise ValueError(f"{path} has no part {name}")


def _file(algo: str, conf_file: str | Path | None = None) -> Path:
    path = Path(conf_file).expanduser() if conf_file else FOLDER / f"{algo}.yml"
    if not path.is_file():
        raise ValueError(f"there is no hyperparameter file {path}")
    return path


class _Reader:
    """
    Reads entries and overrides for an algorithm, under the names of earlier versions too.

    :param algorithm: whose hyperparameters they are
    """

    def __init__(self, algorithm: type[OfflineAlgorithm]) -> None:
        self.schema: Schema = schema_of(algorithm) | {N_TIMESTEPS: int | None}
        self.places, self.gone = algorithm.renamed.places, algorithm.renamed.gone
        self.moved: dict[str, str] = {}

    def warn(self) -> None:
        """Name the new places of all old names that were met, once."""
        if self.moved:
            places = ", ".join(f"{old} is {new} now" for old, new in self.moved.items())
            warnings.warn(f"hyperparameters have new names: {places}", FutureWarning, stacklevel=3)

    def entry(self, path: Path, env_id: str, preset: str) -> dict[str, Any]:
        prefix, others = ("", "default") if preset == "tuned" else (f"{preset}/", preset)
        root = compose(read_text(path), str(path))
        entries = _items(root, root, str(path))
        of_preset = [key for key in entries if key.startswith(prefix)]
        fitting = (key for key in of_preset if fnmatchcase(env_id, key.removeprefix(prefix)))
        names = [name for name in (prefix + env_id, *fitting, others) if name in entries]
        if not names:
            known = ", ".join(entries) or "none"
            raise ValueError(f"{path}: there is no entry {prefix}{env_id} and no {others}; it has {known}")
        result: dict[str, Any] = {}
        self._read(*entries[names[0]], str(path), self.schema, result)
        return result

    def override(self, entry: dict[str, Any], override: str) -> None:
        """Change an entry by ``key:value`` or ``group.key:value``."""
        key, colon, text = override.partition(":")
        if not colon or not text.strip():
            raise ValueError(f"-params {' '.join(override.split()):.100}: write key:value, as in batch_size:512")
        where = f"-params {' '.join(override.split()):.100}"
        node = compose(text, f"{where}: the value")
        if node is None:
            raise ValueError(f"{where}: the value is only a comment")
        for name in reversed(key.split(".")):
            scalar = yaml.ScalarNode("tag:yaml.org,2002:str", name, node.start_mark, node.end_mark)
            node = yaml.MappingNode("tag:yaml.org,2002:map", [(scalar, node)], node.start_mark, node.end_mark)
        change: dict[str, Any] = {}
        self._read(None, node, where, self.schema, change)
        _merge(entry, change, depth=len(self.places.get(key, key).split(".")))

    def _read(self, at: yaml.Node | None, node: yaml.Node, where: str, schema: Schema, result: dict[str, Any]) -> None:
        """Put the checked values of a mapping into ``result``."""
        for name, (key, value) in _items(at, node, where).items():
            place = _place(where, key)
            if schema is self.schema and name in self.gone:
                if construct(value, place) != self.gone[name]:
                    raise ValueError(f"{place}: {name} is no longer an option; leave it out")
            elif schema is self.schema and name in self.places:
                self.moved[name] = self.places[name]
                *groups, last = self.places[name].split(".")
                inner, hints = result, schema
                for group in groups:
                    inner, hints = inner.setdefault(group, {}), hints[group]
                inner[last] = _value(name, value, hints[last], place)
            elif name not in schema:
                raise ValueError(f"{place}: {unknown(name, schema)}")
            elif isinstance(schema[name], dict):
                self._read(key, value, where, schema[name], result.setdefault(name, {}))
            else:
                result[name] = _value(name, value, schema[name], place)


def _value(name: str, node: yaml.Node, hint: Any, place: str) -> Any:
    plain = construct(node, f"{place}: {name}")
    try:
        value = convert(plain, hint)
    except ValueError as error:
        raise ValueError(f"{place}: {name} must be {error}") from None
    if name == N_TIMESTEPS and value is not None and value < 1:
        raise ValueError(f"{place}: {name} must be at least 1, got {value}")
    return value


def _merge(entry: dict[str, Any], change: dict[str, Any], depth: int) -> None:
    """Replace what lies at the given depth, and keep what is beside it."""
    for name, value in change.items():
        if depth > 1:
            entry[name] = dict(entry.get(name) or {})
            _merge(entry[name], value, depth - 1)
        else:
            entry[name] = value


# ---- YAML with line numbers ----------------------------------------------------------------------------


def _items(at: yaml.Node | None, node: yaml.Node | None, where: str) -> dict[str, tuple[yaml.Node, yaml.Node]]:
    """
    The nodes of a mapping's keys and values; merged keys (``<<``) are those that are not given directly.

    :param at: the key of the mapping, whose line errors name: that of a value may be the one of its anchor
    """
    if not isinstance(node, yaml.MappingNode):
        raise ValueError(f"{_place(where, at)}: expected 'key: value' lines")
    direct: dict[str, tuple[yaml.Node, yaml.Node]] = {}
    merged: dict[str, tuple[yaml.Node, yaml.Node]] = {}
    for key, value in node.value:
        if key.tag == "tag:yaml.org,2002:merge":
            for source in reversed(value.value if isinstance(value, yaml.SequenceNode) else [value]):
                merged |= _items(key, source, where)
        elif not isinstance(key, yaml.ScalarNode):
            raise ValueError(f"{_place(where, key)}: a key must be a name, not a list or a mapping")
        elif key.value in direct:
            raise ValueError(f"{_place(where, key)}: {key.value:.80} is given twice")
        else:
            direct[key.value] = key, value
    return merged | direct


def _place(where: str, node: yaml.Node | None) -> str:
    return where if node is None or where.startswith("-params") else f"{where}, line {node.start_mark.line + 1}"
