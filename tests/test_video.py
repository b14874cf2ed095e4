"""Videos of an agent: what they say and show, and what a GIF needs."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image
from tiny_goal import tiny_model

from zoo.figures.canvas import BLUE
from zoo.figures.learned_map import LearnedMap
from zoo.figures.video import MapVideo, check_video


@pytest.fixture(scope="module")
def learned() -> LearnedMap:
    return LearnedMap(tiny_model())


@pytest.mark.parametrize(
    ("cost", "n_hops", "said"),
    [(12.4, 3, "3 hops, cost 12"), (3.0, 1, "1 hop, cost 3"), (np.inf, 2, "2 hops, no way")],
)
def test_a_video_says_what_the_plan_costs(
    learned: LearnedMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cost: float, n_hops: int, said: str
) -> None:
    plan = learned.plan(np.zeros(2), np.ones(2))
    plan = plan._replace(cost=cost, nodes=(plan.nodes * n_hops)[:n_hops])
    monkeypatch.setattr(LearnedMap, "plan", lambda *_: plan)
    with MapVideo(tmp_path / "v.gif", learned) as video:
        video.add_frame(np.zeros(2), np.ones(2), "task 1, step 0")
        assert video._text.get_text() == f"task 1, step 0, plan: {said}"


def test_a_gif_needs_no_other_package_keeps_colours_and_holds_its_end(
    learned: LearnedMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("imageio", "imageio_ffmpeg"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install imageio imageio-ffmpeg`; a \.gif needs neither"):
        check_video(tmp_path / "v.mp4")
    with MapVideo(tmp_path / "v.gif", learned, fps=25) as video:
        for step in range(3):
            video.add_frame(np.full(2, 0.2 * step), np.ones(2), f"step {step}", repeat=10 if step == 2 else 1)
        drawn = np.asarray(video._canvas.buffer_rgba())[..., :3]
    with Image.open(tmp_path / "v.gif") as gif:
        assert gif.n_frames == 3 and gif.info["loop"] == 0
        durations = []
        for number in range(gif.n_frames):
            gif.seek(number)
            durations.append(gif.info["duration"])
        last = np.asarray(gif.convert("RGB")).astype(int)
    assert durations == [40, 40, 400]
    assert np.abs(last - drawn).max(axis=-1).mean() < 4
    agent = np.abs(drawn - 255 * np.array(to_rgb(BLUE))).max(axis=-1) < 2
    assert agent.any() and np.abs(last - drawn)[agent].max() < 16
