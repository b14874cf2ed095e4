"""What makes one run another."""

from __future__ import annotations

from pathlib import Path

import pytest

from zoo.benchmarking import identity


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the packages' layout, whose version is computed anew at each call."""
    modules = [part if part.endswith(".py") else f"{part}/a.py" for part in identity.CODE]
    for name in ("proq_agent/common/a.py", "zoo/figures/d.py", *modules):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    monkeypatch.setattr(identity, "__file__", str(tmp_path / "zoo" / "benchmarking" / "identity.py"))
    monkeypatch.setattr(identity, "code_version", identity.code_version.__wrapped__)
    return tmp_path


@pytest.mark.parametrize(
    "name",
    ["proq_agent/common/a.py", "wrappers/a.py", "zoo/data/a.py", "zoo/worlds/a.py", "zoo/runs/experiment.py"],
)
def test_code_that_results_depend_on_makes_another_version(code: Path, name: str) -> None:
    before = identity.code_version()
    assert identity.code_version() == before
    (code / name).write_text("x = 2\n")
    assert identity.code_version() != before


def test_the_name_of_a_module_belongs_to_the_version(code: Path) -> None:
    before = identity.code_version()
    (code / "wrappers/a.py").rename(code / "wrappers/b.py")
    assert identity.code_version() != before


def test_all_of_that_code_is_there() -> None:
    root = Path(identity.__file__).parents[2]
    assert all((root / part).exists() for part in identity.CODE)


def test_pictures_and_documents_do_not(code: Path) -> None:
    before = identity.code_version()
    (code / "zoo/figures/d.py").write_text("x = 2\n")
    (code / "proq_agent/notes.md").write_text("x")
    assert identity.code_version() == before


def test_a_digest_does_not_depend_on_order_and_does_on_values() -> None:
    assert identity.digest({"a": 1, "b": [2.0, None]}) == identity.digest({"b": [2.0, None], "a": 1})
    assert identity.digest({"a": 1}) != identity.digest({"a": 2}) != identity.digest({"a": 1}, 0)
