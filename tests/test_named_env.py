"""An agent takes the name of an environment wherever it takes an environment."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pytest
from conftest import TINY

from proq_agent import QRL, ProQ
from proq_agent.common import named_env

pytestmark = pytest.mark.skipif(
    not entry_points(group=named_env.GROUP), reason="installed before environments had names: pip install -e ."
)


@pytest.mark.parametrize("name", ["pointmaze-giant-v0", "pointmaze-giant-stitch-v0", "tiny_goal:TinyGoal-v0"])
def test_environments_and_datasets_are_known_by_name(name: str, tmp_path: Path) -> None:
    model = ProQ("MultiInputPolicy", name, **TINY)
    assert model.env is not None and set(model.observation_space) == {"observation", "achieved_goal", "desired_goal"}
    observation = model.env.reset()
    assert model.predict(observation)[0].shape == (1, 2)
    model.save(tmp_path / "agent")
    loaded = ProQ.load(tmp_path / "agent", env=name, device="cpu")
    loaded.set_env(name)
    assert loaded.env is not None


def test_a_slip_in_a_name_is_answered_with_the_closest() -> None:
    with pytest.raises(ValueError, match="did you mean pointmaze-giant-v0"):
        QRL("MultiInputPolicy", "pointmaze-gaint-v0")


def test_without_a_package_that_knows_names_an_environment_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_env, "GROUP", "nobody.has_this_group")
    with pytest.raises(ValueError, match=r"pass an environment, as wrappers\.make_goal_env"):
        QRL("MultiInputPolicy", "pointmaze-giant-v0")
