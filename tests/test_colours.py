"""What is told apart by its colour is told apart by people with any kind of colour vision."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from colour_vision import VISIONS, lab, seen
from matplotlib.colors import to_rgb

from zoo.exploring.views import STYLE
from zoo.figures.canvas import BLUE, COLOURS, GREEN, PURPLE, VERMILLION, WALL

APART = 15.0  # of ΔE; 2 is just noticed by somebody who looks at large fields side by side
WHITE = "#ffffff"


def as_seen(colours: list[str], vision: str) -> np.ndarray:
    return lab(seen(np.array([to_rgb(colour) for colour in colours]), vision))


def too_close(colours: list[str], vision: str) -> list[tuple[str, str]]:
    names = dict(zip(colours, as_seen(colours, vision), strict=True))
    return [
        pair for pair in itertools.combinations(names, 2) if np.linalg.norm(names[pair[0]] - names[pair[1]]) < APART
    ]


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize(
    "colours",
    [COLOURS, (BLUE, VERMILLION, GREEN, PURPLE, WALL, WHITE)],
    ids=["lines of figures, portals of the page", "walk, plan, goal, portal, wall, floor"],
)
def test_colours_stay_apart(colours: tuple[str, ...], vision: str) -> None:
    assert too_close(list(colours), vision) == []


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("name", ["psi", "amount"])
def test_more_is_darker_and_plans_stand_out(name: str, vision: str) -> None:
    ramp = as_seen(STYLE["ramps"][name], vision)  # type: ignore[index]
    assert (np.diff(ramp[:, 0]) < 0).all() and ramp[0, 0] - ramp[-1, 0] > 50
    (plan,) = as_seen([VERMILLION], vision)
    assert np.linalg.norm(ramp - plan, axis=1).min() > APART


def test_red_and_green_of_the_same_lightness_would_be_noticed() -> None:
    """The simulation itself: what people with normal vision tell apart at once, others do not."""
    pair = ["#a05a2c", "#5f7a2c"]
    assert {vision for vision in VISIONS if too_close(pair, vision)} == {"protanopia", "deuteranopia"}
