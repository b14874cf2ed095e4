"""What makes one run another."""

from __future__ import annotations

from pathlib import Path

import pytest

from zoo.benchmarking import identity


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the packages' layout, whose version is computed anew at each call."""
    for name in ("proq_agent/common/a.py", "wrappers/b.py", "zoo/data/c.py", "zoo/figures/d.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("x = 1\n")
    monkeypatch.setattr(identity, "__file__", str(tmp_path / "zoo" / "benchmarking" / "identity.py"))
    monkeypatch.setattr(identity, "code_version", identity.code_version.__wrapped__)
    return tmp_path


@pytest.mark.parametrize("name", ["proq_agent/common/a.py", "wrappers/b.py", "zoo/data/c.py"])
def test_code_that_results_depend_on_makes_another_version(code: Path, name: str) -> None:
    before = identity.code_version()
    assert identity.code_version() == before
    (code / name).write_text("x = 2\n")
    changed = identity.code_version()
    (code / name).rename(code / name.replace(".py", "2.py"))
    assert len({before, changed, identity.code_version()}) == 3


def test_pictures_and_documents_do_not(code: Path) -> None:
    before = identity.code_version()
    (code / "zoo/figures/d.py").write_text("x = 2\n")
    (code / "proq_agent/notes.md").write_text("x")
    assert identity.code_version() == before


def test_a_digest_does_not_depend_on_order_and_does_on_values() -> None:
    assert identity.digest({"a": 1, "b": [2.0, None]}) == identity.digest({"b": [2.0, None], "a": 1})
    assert identity.digest({"a": 1}) != identity.digest({"a": 2}) != identity.digest({"a": 1}, 0)
