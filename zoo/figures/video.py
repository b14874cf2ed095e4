"""Videos of an agent at work, seen from above: where it is, where it heads, and the plan that remains."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image

from zoo.figures.canvas import BLUE, COLOURS, GREEN, KEYPOINT, STYLE, VERMILLION, WALL
from zoo.figures.learned_map import LearnedMap, in_plane
from zoo.figures.maps import count_hops, draw_backdrop, map_bounds

if TYPE_CHECKING:
    from zoo.figures.maze_geometry import MazeGeometry


SUFFIXES = (".mp4", ".gif")
DPI = 120
TRAIL = COLOURS[5]
N_GREYS, N_SHADES = 16, 8  # of the ground, and of each colour on it: fewer than a GIF's 256
BLOCK = 16  # video encoders want sides that are multiples of this


def check_video(path: Path) -> None:
    """
    Find out early whether a video can be written.

    :raises ValueError: if the suffix is not one of ``SUFFIXES``
    :raises ImportError: if the packages are missing
    """
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"cannot write {path}: a video's name must end in {' or '.join(SUFFIXES)}")
    if path.suffix.lower() == ".mp4":
        try:
            import imageio  # noqa: F401
            import imageio_ffmpeg  # noqa: F401
        except ImportError as error:
            raise ImportError("an .mp4 needs `pip install imageio imageio-ffmpeg`; a .gif needs neither") from error


class GifWriter:
    """
    Frames in the few colours that are drawn with, so that what stays the same from frame to frame takes no room.

    :param path: file to write when it is closed
    :param fps: frames a second
    """

    def __init__(self, path: Path, fps: int) -> None:
        self._path, self._fps = path, fps
        self._frames: list[Image.Image] = []
        self._palette = Image.new("P", (1, 1))
        self._palette.putpalette(_palette())

    def append_data(self, frame: np.ndarray) -> None:
        """
        Add a frame.

        :param frame: ``[height, width, 3]``
        """
        image = Image.fromarray(frame)
        self._frames.append(image.quantize(palette=self._palette, dither=Image.Dither.NONE))

    def close(self) -> None:
        """Write the file, to be shown for ever."""
        if self._frames:
            first, *others = self._frames
            duration = max(10 * round(100 / self._fps), 20)  # milliseconds; less than 20 and browsers take 100
            first.save(self._path, "GIF", save_all=True, append_images=others, duration=duration, loop=0)


def _palette() -> list[int]:
    """Red, green and blue of every colour in a video, and of the edges between them and what is behind."""
    grounds = [np.array(to_rgb(colour)) for colour in ("white", WALL)]
    shades = [np.linspace(grounds[0], grounds[1], N_GREYS)]
    for colour in (BLUE, TRAIL, VERMILLION, GREEN, KEYPOINT, "black"):
        for ground in grounds:
            shades.append(np.linspace(np.array(to_rgb(colour)), ground, N_SHADES, endpoint=False))
    return (255 * np.concatenate(shades)).round().astype(int).ravel().tolist()


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
                "trail": axes.plot([], [], color=TRAIL, linewidth=1.8)[0],
                "plan": axes.plot([], [], "o-", color=VERMILLION, linewidth=1.2, markersize=4, label="plan")[0],
                "target": axes.plot([], [], "o", color=VERMILLION, markersize=10, fillstyle="none", mew=1.8)[0],
                "goal": axes.plot([], [], "*", color=GREEN, markersize=14, mec="black", mew=0.6, label="goal")[0],
                "agent": axes.plot([], [], "o", color=BLUE, markersize=9, mec="black", mew=0.6, label="agent")[0],
            }
            figure.legend(loc="upper right", ncols=4, handlelength=1.4, columnspacing=1.2)
            self._text = figure.text(0.02, 1.0 - 24 / pixels[1], "", va="center", fontsize=9)
            for artist in (*self._lines.values(), self._text):
                artist.set_animated(True)
                artist.set_zorder(6)
            self._canvas.draw()
        self._background = self._canvas.copy_from_bbox(figure.bbox)

    def __enter__(self) -> MapVideo:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._writer: Any
        if self.path.suffix.lower() == ".gif":
            self._writer = GifWriter(self._temporary, self.fps)
        else:
            import imageio.v2 as imageio

            self._writer = imageio.get_writer(self._temporary, mode="I", fps=self.fps)
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
            text = f"{text}, plan: {count_hops(plan)}, {cost}"
        self._text.set_text(text)
        self._canvas.restore_region(self._background)
        for line in self._lines.values():
            assert line.axes is not None
            line.axes.draw_artist(line)
        self._canvas.figure.draw_artist(self._text)
        frame = np.asarray(self._canvas.buffer_rgba())[..., :3]
        for _ in range(repeat):
            self._writer.append_data(frame)
