"""YAML of unknown origin: small, not nested without end, and never more than it looks like.

An alias is a few characters, and stands for all of its anchor: nine lists of nine aliases each unfold to a billion
values. What a file amounts to is counted before anybody unfolds it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from proq_agent.common.errors import within

MAX_CHARACTERS = 200_000  # some hundred times a file of hyperparameters
MAX_VALUES = 20_000
MAX_DEPTH = 50


def compose(text: str, where: str) -> yaml.Node | None:
    """
    Parse one document, without making values of it.

    :param text: YAML
    :param where: what to call it in an error
    :return: None if it is empty
    :raises ValueError: if it is no YAML, or too much of it
    """
    with within(f"{where} is not valid YAML", kind=ValueError):
        if len(text) > MAX_CHARACTERS:
            raise ValueError(f"more than {MAX_CHARACTERS} characters")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is not None:
            _count(node, 0, 0)
        return node


def construct(node: yaml.Node | None, where: str) -> Any:
    """
    The plain value of a node that :func:`compose` returned.

    :raises ValueError: if it says that it is of a type that it is not
    """
    with within(f"{where} is not valid YAML", kind=ValueError):
        return None if node is None else yaml.SafeLoader("").construct_document(node)


def read_yaml(path: Path) -> Any:
    """
    :param path: a file of plain values
    :raises ValueError: naming the file, whatever is wrong with it
    """
    with within(f"{path} cannot be read", kind=ValueError), path.open(encoding="utf-8") as file:
        text = file.read(MAX_CHARACTERS + 1)
    return construct(compose(text, str(path)), str(path))


def _count(node: yaml.Node, n_values: int, depth: int) -> int:
    n_values += 1
    if n_values > MAX_VALUES or depth > MAX_DEPTH:
        raise ValueError(f"more than {MAX_VALUES} values, or nested more than {MAX_DEPTH} deep")
    if isinstance(node, yaml.CollectionNode):
        for item in node.value:
            for part in item if isinstance(item, tuple) else (item,):
                n_values = _count(part, n_values, depth + 1)
    return n_values
