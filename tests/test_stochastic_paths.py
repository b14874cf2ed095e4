"""Policies where hops may go wrong, against all policies that there are."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proq_agent.chance.hazards import Risks
from proq_agent.planning.stochastic_paths import StochasticPaths

INF, MISS = np.inf, 1000.0


def chain(case: dict, policy: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Transition matrix of nodes, goal and failure, and cost of each step, if nodes keep to a policy."""
    n = len(case["hop_costs"])
    transition, cost = np.zeros((n + 2, n + 2)), np.zeros(n + 2)
    transition[n, n] = transition[n + 1, n + 1] = 1.0
    for i, j in enumerate(policy):
        if i in case["entrances"]:
            e = list(case["entrances"]).index(i)
            transition[i, :n], cost[i] = case["outcomes"][e], case["waits"][e]
        elif j < 0:
            transition[i, n + 1], cost[i] = 1.0, MISS
        else:
            survival, losses = (case["survival"][i, j], case["losses"][i, j])
            transition[i, j] += survival
            transition[i, :n] += losses @ case["outcomes"]
            cost[i] = case["last_hops"][i] if j == n else case["hop_costs"][i, j]
    return transition, cost


def value(case: dict, policy: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Expected cost and odds of each node, inf if it may never end."""
    transition, cost = chain(case, policy)
    n = len(cost) - 2
    ends = np.linalg.matrix_power(transition, 2**14)[:n, n:].sum(axis=1)
    if (ends < 1.0 - 1e-6).any():
        return np.full(n, INF), np.zeros(n)
    leaving = np.eye(n) - transition[:n, :n]
    return np.linalg.solve(leaving, cost[:n]), np.linalg.solve(leaving, transition[:n, n])


@st.composite
def cases(draw: st.DrawFn) -> dict:
    """Three or four nodes, of which one or two are entrances, with hops that may go wrong."""
    n = draw(st.integers(3, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    n_entrances = draw(st.integers(1, 2))
    entrances = np.sort(rng.choice(n, n_entrances, replace=False))
    hop_costs = np.where(rng.random((n, n)) < 0.5, rng.integers(1, 30, (n, n)).astype(float), INF)
    np.fill_diagonal(hop_costs, INF)
    hop_costs[entrances] = INF
    last_hops = np.where(rng.random(n) < 0.5, rng.integers(1, 30, n).astype(float), INF)
    last_hops[entrances] = INF
    survival = np.where(rng.random((n, n + 1)) < 0.5, 1.0, rng.choice([0.9, 0.5, 0.1], (n, n + 1)))
    share = rng.dirichlet(np.ones(n_entrances), (n, n + 1))
    outcomes = rng.dirichlet(np.full(n, 0.5), n_entrances)
    return {
        "hop_costs": hop_costs,
        "last_hops": last_hops,
        "survival": survival,
        "losses": (1.0 - survival)[..., None] * share,
        "entrances": entrances,
        "waits": rng.integers(1, 20, n_entrances).astype(float),
        "outcomes": outcomes,
    }


def solved(case: dict):
    n = len(case["hop_costs"])
    risky = np.nonzero(np.isfinite(case["hop_costs"]) & (case["survival"][:, :n] < 1.0))
    risks = Risks(case["survival"][:, :n][risky], case["losses"][:, :n][risky])
    paths = StochasticPaths(case["hop_costs"], risky, risks, case["entrances"], case["waits"], case["outcomes"], MISS)
    return paths.best(np.full(n, -1), case["last_hops"], Risks(case["survival"][:, n], case["losses"][:, n]))


@settings(max_examples=60, deadline=None)
@given(cases())
def test_no_policy_is_better(case: dict) -> None:
    n = len(case["hop_costs"])
    options = [
        [-1, *(j for j in range(n) if case["hop_costs"][i, j] < INF), *([n] if case["last_hops"][i] < INF else [])]
        for i in range(n)
    ]
    best = np.min([value(case, policy)[0] for policy in itertools.product(*options)], axis=0)
    found = solved(case)
    values, odds = value(case, tuple(found.successors))
    np.testing.assert_allclose(values, best, rtol=1e-6)
    np.testing.assert_allclose(found.odds, odds, atol=1e-6)


def test_a_circle_that_only_chance_leaves_is_followed_to_its_end() -> None:
    """Two nodes are quickest taken to the third by the hops to each other, which go wrong half of the time."""
    survival, losses = np.ones((4, 5)), np.zeros((4, 5, 1))
    survival[0, 1] = survival[1, 0] = survival[2, 4] = 0.5
    losses[0, 1] = losses[1, 0] = losses[2, 4] = 0.5
    case = {
        "hop_costs": np.array([[INF, 2.0, INF, INF], [2.0, INF, INF, INF], [INF] * 4, [INF] * 4]),
        "last_hops": np.array([INF, INF, 20.0, INF]),
        "survival": survival,
        "losses": losses,
        "entrances": np.array([3]),
        "waits": np.array([10.0]),
        "outcomes": np.array([[0.5, 0.0, 0.5, 0.0]]),
    }
    found = solved(case)
    assert found.successors[:2].tolist() == [1, 0]
    values, odds = value(case, tuple(found.successors))
    np.testing.assert_allclose(found.odds, odds, atol=1e-9)
    np.testing.assert_allclose(found.costs, values, rtol=1e-9)


@settings(max_examples=20, deadline=None)
@given(cases())
def test_odds_and_costs_are_those_of_simulation(case: dict) -> None:
    found = solved(case)
    transition, cost = chain(case, tuple(found.successors))
    n, rng = len(cost) - 2, np.random.default_rng(0)
    free = [i for i in range(n) if i not in case["entrances"]]
    at, spent = np.repeat(free[0], 4000), np.zeros(4000)
    for _ in range(3000):
        spent += cost[at]
        at = (transition[at].cumsum(axis=1) > rng.random((len(at), 1))).argmax(axis=1)
        if (at >= n).all():
            break
    success = at == n
    assert success.mean() == pytest.approx(found.odds[free[0]], abs=0.04)
    if success.sum() > 200:
        error = 5 * spent[success].std() / np.sqrt(success.sum()) + 0.02 * found.costs[free[0]]
        assert spent[success].mean() == pytest.approx(found.costs[free[0]], abs=error)
    elif not found.odds[free[0]]:
        assert np.isinf(found.costs[free[0]])


def band(survival: float, detour: float, back: bool) -> dict:
    """From 0 to the goal by a risky hop of 10, or by node 1 on a detour; chance leads back to 0, or to a dead end."""
    hop_costs = np.full((4, 4), INF)  # 2 is the entrance, 3 the dead end
    hop_costs[0, 1] = detour
    outcomes = np.array([[1.0, 0.0, 0.0, 0.0]] if back else [[0.0, 0.0, 0.0, 1.0]])
    survivals = np.ones((4, 5))
    survivals[0, 4] = survival
    return {
        "hop_costs": hop_costs,
        "last_hops": np.array([10.0, 1.0, INF, INF]),
        "survival": survivals,
        "losses": (1.0 - survivals)[..., None],
        "entrances": np.array([2]),
        "waits": np.array([10.0]),
        "outcomes": outcomes,
    }


def test_a_hazard_is_passed_around_if_that_is_better_and_crossed_if_not() -> None:
    found = solved(band(0.2, detour=30.0, back=True))
    assert found.successors[0] == 1 and found.odds[0] == 1.0 and found.costs[0] == 31.0
    found = solved(band(0.2, detour=60.0, back=True))  # five tries of ten steps are fewer
    assert found.successors[0] == 4 and found.odds[0] == 1.0 and found.costs[0] == pytest.approx(50.0)
    found = solved(band(0.2, detour=60.0, back=False))  # but there is only one
    assert found.successors[0] == 1 and found.odds[0] == 1.0
    found = solved(band(0.2, detour=INF, back=False))
    assert found.successors[0] == 4 and found.odds[0] == pytest.approx(0.2) and found.costs[0] == pytest.approx(10.0)
    found = solved(band(0.99, detour=500.0, back=False))  # a miss counts 1,000: one in a hundred is not worth 490 steps
    assert found.successors[0] == 4 and found.odds[0] == pytest.approx(0.99)


def test_who_lands_at_entrances_for_ever_has_missed() -> None:
    case = band(0.5, detour=INF, back=False)
    case["outcomes"] = np.array([[0.0, 0.0, 1.0, 0.0]])
    found = solved(case)
    assert found.odds[0] == pytest.approx(0.5) and found.landing_odds[0] == 0.0 and np.isinf(found.costs[2])


def test_from_one_entrance_to_the_next_and_to_the_goal() -> None:
    hop_costs = np.full((4, 4), INF)  # 1 and 2 are entrances, one to the other and on to 3
    hop_costs[0, 1] = 5.0
    case = {
        "hop_costs": hop_costs,
        "last_hops": np.array([INF, INF, INF, 1.0]),
        "survival": np.ones((4, 5)),
        "losses": np.zeros((4, 5, 2)),
        "entrances": np.array([1, 2]),
        "waits": np.array([2.0, 4.0]),
        "outcomes": np.array([[0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]),
    }
    found = solved(case)
    assert found.successors[0] == 1 and found.odds[0] == 1.0 and found.costs[0] == 5.0 + 2.0 + 4.0 + 1.0
