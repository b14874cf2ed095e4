"""The README's guide from arrays to a trained agent, run as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

README = Path(__file__).parents[1] / "README.md"
HEADING = "## Bring your own data"


def code_blocks() -> list[str]:
    """The Python blocks of the guide's section, in their order."""
    section = README.read_text(encoding="utf-8").split(f"{HEADING}\n")[1].split("\n## ")[0]
    return re.findall(r"^```python\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL)


def test_the_way_from_arrays_to_an_agent_takes_ten_lines() -> None:
    assert len([line for line in code_blocks()[-1].splitlines() if line]) <= 10


@pytest.mark.slow
def test_the_guide_trains_an_agent_that_heads_for_its_goal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in code_blocks():
        exec(block, names)
    agent, rng = names["agent"], np.random.default_rng(1)
    assert names["action"].shape == (2,) and (tmp_path / "agent.zip").is_file()

    position, velocity, goals = np.zeros((50, 2)), np.zeros((50, 2)), rng.uniform(-4.0, 4.0, (50, 2))
    reached = np.zeros(50, dtype=bool)
    for _ in range(40):
        states = {"observation": np.hstack([position, velocity]), "achieved_goal": position, "desired_goal": goals}
        velocity, _ = agent.predict(states)
        position = position + velocity
        reached |= np.linalg.norm(position - goals, axis=1) < 1.0
    assert reached.mean() >= 0.9
