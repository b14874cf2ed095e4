"""Videos of an agent at work, seen from above: where it is, where it heads, and the plan that remains."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from zoo.figures.canvas import BLUE, GREEN, STYLE, VERMILLION
from zoo.figures.learned_map import LearnedMap, in_plane
from zoo.figures.maps import draw_backdrop, map_bounds

if TYPE_CHECKING:
    from zoo.figures.maze_geometry import MazeGeometry


SUFFIXES = (".mp4", ".gif")
DPI = 120
BLOCK = 16  # video encoders want sides that are multiples of this


def check_video(path: Path) -> None:
    """
    Find out early whether a video can be written.

    :raises ValueError: if the suffix is not one of ``SUFFIXES``
    :raises ImportError: if the packages are missing
    """
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"cannot write {path}: a video's name must end in {' or '.join(SUFFIXES)}")
    try:
        import imageio  # noqa: F401

        if path.suffix.lower() == ".mp4":
            import imageio_ffmpeg  # noqa: F401
    except ImportError as error:
        raise ImportError("videos need `pip install imageio imageio-ffmpeg`") from error


class MapVideo:
    """
    A video that appears whole when the ``with`` block ends without an error. Only what moves is drawn anew.

    :param path: ``.mp4`` or ``.gif``
    :param learned: the agent's map; None if it has none, then there is no plan to show
    :param maze: its walls are drawn
    :param fps: frames a second
    """

    def __init__(self, path: Path, learned: LearnedMap | None, maze: MazeGeometry | None = None, fps: int = 30) -> None:
        check_video(path)
        self.path, self.learned, self.fps = path, learned, fps
        self._temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix.lower()}")
        self._trail: list[np.ndarray] = []
        bounds = map_bounds(learned, maze)
        left, right, bottom, top = bounds
        aspect = min(max((top - bottom) / (right - left), 0.3), 1.5)
        pixels = [BLOCK * round(side / BLOCK) for side in (768, 768 * aspect + 48)]
        with matplotlib.rc_context(STYLE):
            figure = Figure(figsize=(pixels[0] / DPI, pixels[1] / DPI), dpi=DPI)
            self._canvas = FigureCanvasAgg(figure)
            axes = figure.add_axes((0.01, 0.01, 0.98, 0.98 - 48 / pixels[1]))
            draw_backdrop(axes, learned, bounds, maze)
            axes.set_axis_off()
            self._lines = {
                "trail": axes.plot([], [], color=BLUE, linewidth=1.0, alpha=0.6)[0],
                "plan": axes.plot([], [], "o--", color=VERMILLION, linewidth=1.0, markersize=3)[0],
                "target": axes.plot([], [], "o", color=VERMILLION, markersize=9, fillstyle="none", mew=1.8)[0],
                "goal": axes.plot([], [], "*", color=GREEN, markersize=13, mec="black", mew=0.6)[0],
                "agent": axes.plot([], [], "o", color=BLUE, markersize=7, mec="black", mew=0.6)[0],
            }
            self._text = figure.text(0.02, 1.0 - 24 / pixels[1], "", va="center", fontsize=9)
            for artist in (*self._lines.values(), self._text):
                artist.set_animated(True)
                artist.set_zorder(6)
            self._canvas.draw()
        self._background = self._canvas.copy_from_bbox(figure.bbox)

    def __enter__(self) -> MapVideo:
        import imageio.v2 as imageio

        options: dict[str, Any] = {"fps": self.fps}
        if self.path.suffix.lower() == ".gif":
            options = {"duration": 1000 / self.fps, "loop": 0}  # milliseconds a frame, for ever
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._writer = imageio.get_writer(self._temporary, mode="I", **options)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._writer.close()
            if kind is None:
                os.replace(self._temporary, self.path)
        finally:
            self._temporary.unlink(missing_ok=True)

    def start_episode(self) -> None:
        """Forget the last episode's trail."""
        self._trail = []

    def add_frame(self, position: np.ndarray, goal: np.ndarray, text: str, repeat: int = 1) -> None:
        """
        Draw the agent and what it plans from there.

        :param position: ``[goal_dim]``
        :param goal: ``[goal_dim]``
        :param text: above the map; what is left of the plan is added
        :param repeat: show it for so many frames
        """
        self._trail.append(in_plane(position))
        here = self._trail[-1][None]
        for name, points in (("trail", np.array(self._trail)), ("goal", in_plane(goal)[None]), ("agent", here)):
            self._lines[name].set_data(*points.T)
        if self.learned is not None:
            plan = self.learned.plan(position, goal)
            ahead = in_plane(plan.points)
            self._lines["plan"].set_data(*np.concatenate([here, ahead]).T)
            self._lines["target"].set_data(*ahead[:1].T)
            cost = f"cost {plan.cost:.0f}" if np.isfinite(plan.cost) else "no way"
            text = f"{text}, plan: {len(plan.nodes)} hops, {cost}"
        self._text.set_text(text)
        self._canvas.restore_region(self._background)
        for line in self._lines.values():
            assert line.axes is not None
            line.axes.draw_artist(line)
        self._canvas.figure.draw_artist(self._text)
        frame = np.asarray(self._canvas.buffer_rgba())[..., :3]
        for _ in range(repeat):
            self._writer.append_data(frame)
