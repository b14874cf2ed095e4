"""By what an action is judged: where its trajectory was some steps later."""

from __future__ import annotations

import pytest
import torch as th
from conftest import TINY
from hypothesis import given
from hypothesis import strategies as st
from numbered import numbered

from proq_agent import ProQ
from proq_agent.common.goal_sampling import GoalMixture, GoalSampling
from proq_agent.proq.look_ahead import look_ahead
from proq_agent.proq.objectives import actor_objective


@given(
    lengths=st.lists(st.integers(2, 9), min_size=1, max_size=5),
    steps=st.integers(1, 12),
    future=st.floats(0.0, 1.0),
    seed=st.integers(0, 99),
)
def test_neither_the_end_of_a_trajectory_nor_its_goal_is_passed(lengths, steps, future, seed):
    dataset, mixture = numbered(lengths), GoalMixture(future=future).filled("uniform")
    batch = GoalSampling(actor=mixture).sample(dataset, 64, th.Generator().manual_seed(seed))
    goals, taken = look_ahead(dataset, batch, mixture, steps)
    trajectory, time = batch.achieved_goals.T
    assert th.equal(goals[:, 0], trajectory) and th.equal(goals[:, 1], time + taken)
    most = (th.tensor(lengths)[trajectory.long()] - 1 - time).clamp_max(steps)
    part = mixture.parts(64).get("future", slice(0))
    most[part] = th.minimum(most[part], batch.actor_goals[part, 1] - time[part])
    assert th.equal(taken, most.long()) and (taken >= 1).all()


def test_a_later_state_changes_what_the_actor_learns_and_nothing_of_the_map(walks):
    near, far = (ProQ(**TINY, dataset=walks, advantage_steps=n).learn(3, log_interval=None) for n in (1, 5))
    for name, value in near.policy.state_dict().items():
        same = th.equal(value, far.policy.state_dict()[name])
        assert same or name.startswith(("actor.", "log_std"))
    assert not th.equal(near.policy.actor.output.weight, far.policy.actor.output.weight)


def test_the_next_state_is_as_the_paper_has_it(walks):
    model = ProQ(**TINY, dataset=walks)
    model.policy.set_training_mode(False)  # no dropout
    batch = model.draw(th.Generator().manual_seed(0))
    later = look_ahead(walks, batch, model.goals.actor, 1)
    losses = [actor_objective(model.policy, batch, seen, None, 5.0, 100.0, None)[0] for seen in (None, later)]
    th.testing.assert_close(*losses)


@pytest.mark.parametrize("steps", [0, -1])
def test_no_step_is_no_advantage(walks, steps):
    with pytest.raises(ValueError, match="advantage_steps must be a number of steps, at least 1"):
        ProQ(**TINY, dataset=walks, advantage_steps=steps)
