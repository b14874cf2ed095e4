"""YAML that is too much, or not what it says, is refused at once and by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_files import within_bounds

from zoo.plain_yaml import MAX_CHARACTERS, compose, construct, read_yaml

LAUGHS = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
MERGES = "m0: &m0 {x: 1}\n" + "".join(f"m{n}: &m{n}\n  <<: [{', '.join([f'*m{n - 1}'] * 9)}]\n" for n in range(1, 12))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LAUGHS, "more than 20000 values"),
        (MERGES, "more than 20000 values"),
        ("- 1\n" * 30_000, "more than 20000 values"),
        ("[" * 60 + "]" * 60, "nested more than 50 deep"),
        ("[" * 10_000, "recursion"),
        ("{" * 10_000, "recursion"),
        ("a" * (MAX_CHARACTERS + 1), "more than 200000 characters"),
        ("a: &a\n  <<: *a", "line 1: this is merged into, or part of, itself"),
        ("&a [1, *a]", "part of, itself"),
        ('!!bool "x"', "is not valid YAML"),
        ("!!timestamp x", "is not valid YAML"),
        ("!!int x", "is not valid YAML"),
        ("!!python/object/apply:os.system [touch x]", "could not determine a constructor"),
        ("{[a]: b}", "unhashable"),
        ("a: b: c", "mapping values are not allowed"),
        ("\0", "special characters are not allowed"),
        ("a\n---\nb", "expected a single document"),
    ],
)
def test_what_is_no_reasonable_yaml_is_one_clear_line(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.yml"
    path.write_text(text)
    with within_bounds(len(text)), pytest.raises(ValueError, match=message) as caught:
        read_yaml(path)
    assert str(caught.value).startswith(f"{path} is not valid YAML: ") and "\n" not in str(caught.value)
    assert [file.name for file in tmp_path.iterdir()] == ["x.yml"]


def test_no_text_at_all(tmp_path: Path) -> None:
    (tmp_path / "x.yml").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"x\.yml is not valid YAML"):
        read_yaml(tmp_path / "x.yml")
    assert construct(compose("# nothing", "x"), "x") is None


def test_ordinary_files_are_read(tmp_path: Path) -> None:
    text = "base: &base {a: 1, b: [1.5, null]}\nmine:\n  <<: *base\n  a: é\n"
    (tmp_path / "x.yml").write_text(text, encoding="utf-8")
    assert read_yaml(tmp_path / "x.yml") == {"base": {"a": 1, "b": [1.5, None]}, "mine": {"a": "é", "b": [1.5, None]}}
