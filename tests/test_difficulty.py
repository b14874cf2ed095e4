"""Where is it hard to go, and do keypoints stand closer there?"""

from __future__ import annotations

import pytest
import torch as th

from proq_agent.proq import losses
from proq_agent.proq.difficulty import N_STATES, charges, difficulty


class Cross:
    """The map of two corridors that cross: who changes from one to the other goes by the middle."""

    def embed_goals(self, goals: th.Tensor) -> th.Tensor:
        return goals

    def pairwise_distances(self, x: th.Tensor, y: th.Tensor) -> th.Tensor:
        by_the_middle = x.abs().amax(dim=1)[:, None] + y.abs().amax(dim=1)
        aligned = (x[:, None] * y).abs().amax(dim=-1) > 0
        return th.where(aligned, self.straight_distances(x, y), by_the_middle)

    def straight_distances(self, x: th.Tensor, y: th.Tensor) -> th.Tensor:
        return (x[:, None] - y).abs().amax(dim=-1)


ALONG = th.linspace(-20.0, 20.0, 100)
STATES = th.cat([th.stack([ALONG, 0.0 * ALONG], dim=1), th.stack([0.0 * ALONG, ALONG], dim=1)])
POINTS = th.tensor([[0.0, 0.0], [12.0, 0.0], [-12.0, 0.0], [0.0, 12.0], [0.0, -12.0]])


def test_crossings_are_harder_than_corridors():
    """Of the ways across the middle a third is straight; round the corner they are 2r instead of 7/6 r on average."""
    found = difficulty(Cross(), POINTS, STATES)
    assert found[0].item() == pytest.approx(3 * 2 / (2 + 2 * 7 / 6), rel=0.01)
    assert th.allclose(found[1:], th.ones(4), atol=0.05)


def test_charges_are_one_on_average_and_least_where_it_is_hard():
    found = charges(Cross(), POINTS, STATES, 2.0)
    assert found.mean().item() == pytest.approx(1.0)
    assert found[0] < found[1:].min()
    ratio = difficulty(Cross(), POINTS, STATES)[0].item()
    assert (found[1] / found[0]).item() == pytest.approx(ratio**2, rel=0.1)


def test_without_a_pair_of_states_on_two_sides_nothing_is_hard():
    assert th.equal(difficulty(Cross(), POINTS, STATES[:1]), th.ones(5))


def test_so_many_states_are_compared_and_no_more():
    far = th.tensor([[1000.0, 0.0]]).expand(50, 2)
    states = STATES.repeat(2, 1)[:N_STATES]
    found = difficulty(Cross(), POINTS, states)
    assert th.equal(difficulty(Cross(), POINTS, th.cat([states, far])), found)


def test_energies_are_products_of_charges_and_without_them_what_they_were():
    distances = th.tensor([[0.0, 1.0], [3.0, 0.0]], requires_grad=True)
    loss, _ = losses.repel_loss(distances, 10.0, 100.0, charges=th.tensor([0.5, 1.5]))
    assert loss.item() == pytest.approx(10.0 * 0.75 * (1 / 2 + 1 / 4))
    others = th.tensor([[1], [0]])
    beside, _ = losses.repel_loss(th.tensor([[1.0], [3.0]]), 10.0, 100.0, others, charges=th.tensor([0.5, 1.5]))
    assert beside.item() == pytest.approx(loss.item())
    plain, same = (
        th.autograd.grad(losses.repel_loss(distances, 10.0, 100.0, charges=c)[0], distances)[0]
        for c in (None, th.ones(2))
    )
    assert th.equal(plain, same)


def test_it_is_off_unless_asked_for_and_then_moves_keypoints_alone_elsewhere(tiny, monkeypatch):
    def trained(**keypoints):
        return tiny(learning_rate=1e-2, keypoints=keypoints).learn(60, log_interval=None).policy

    dense, again = trained(density=2.0), trained(density=2.0)
    monkeypatch.setattr("proq_agent.proq.proq.charges", None)  # nobody asks for any
    plain = trained()
    assert th.equal(dense.keypoints, again.keypoints) and not th.equal(dense.keypoints, plain.keypoints)
    for name, value in plain.named_parameters():
        assert th.equal(value, dense.get_parameter(name)) or name == "standard_keypoints", name


def test_it_needs_the_floor_of_distances(tiny):
    with pytest.raises(ValueError, match="distances with their floor"):
        tiny(keypoints={"density": 1.0}, distance={"floor": False})
