"""YAML of unknown origin: small, not nested without end, and never more than it looks like.

An alias is a few characters, and stands for all of its anchor: nine lists of nine aliases each unfold to a billion
values. What a file amounts to is counted before anybody unfolds it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from proq_agent.common.errors import one_line

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
    try:
        if len(text) > MAX_CHARACTERS:
            raise ValueError(f"more than {MAX_CHARACTERS} characters")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is not None:
            _count(node, 0, ())
        return node
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _invalid(where, error) from error


def construct(node: yaml.Node | None, where: str) -> Any:
    """
    The plain value of a node that :func:`compose` returned.

    :raises ValueError: if it says that it is of a type that it is not
    """
    try:
        return None if node is None else yaml.SafeLoader("").construct_document(node)
    except Exception as error:  # of any kind: a number that says it is a date, a date that is none
        raise _invalid(where, error) from error


def _invalid(where: str, error: Exception) -> ValueError:
    return ValueError(f"{where} is not valid YAML: {one_line(error)}")


def read_yaml(path: Path) -> Any:
    """
    :param path: a file of plain values
    :raises ValueError: naming the file, whatever is wrong with it
    """
    return construct(compose(read_text(path), str(path)), str(path))


def read_text(path: Path) -> str:
    """
    As much of a file as is needed to find that it is too long.

    :raises ValueError: if it is no text
    """
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(MAX_CHARACTERS + 1)
    except UnicodeDecodeError as error:
        raise _invalid(str(path), error) from error


def _count(node: yaml.Node, n_values: int, around: tuple[yaml.Node, ...]) -> int:
    n_values += 1
    if n_values > MAX_VALUES or len(around) > MAX_DEPTH:
        raise ValueError(f"more than {MAX_VALUES} values, or nested more than {MAX_DEPTH} deep")
    if node in around:
        raise ValueError(f"line {node.start_mark.line + 1}: this is merged into, or part of, itself")
    if isinstance(node, yaml.CollectionNode):
        for item in node.value:
            for part in item if isinstance(item, tuple) else (item,):
                n_values = _count(part, n_values, (*around, node))
    return n_values
