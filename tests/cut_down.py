"""
Commands as the documents show them, made to take seconds: little data, short episodes, few updates.

``python -m cut_down zoo.train ARGUMENTS`` is such a command as a process of its own, for ``torchrun``.
"""

from __future__ import annotations

import importlib
import sys
import threading
import urllib.request
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

N_TRANSITIONS, EPISODE_STEPS = 2000, 10
EVALUATION = ["-n", "2", "--eval-episodes", "1", "--num-threads", "1"]
# What is said last counts.
ARGUMENTS = {
    "zoo.train": EVALUATION,
    "zoo.benchmark": ["-n", "2", "--episodes", "1"],
    "zoo.optimize": [*EVALUATION, "--n-trials", "1", "--n-evaluations", "1"],
    "zoo.bench": ["--quick"],
    "zoo.enjoy": ["--n-episodes", "1"],
    "zoo.expert": ["--updates", "1"],
    "zoo.generate": ["--workers", "1"],
    "zoo.explore": ["--port", "0"],
    "zoo.push_to_hub": ["--out", "repository"],  # instead of the upload
    "zoo.load_from_hub": ["--repo-id", "repository"],
    "learned_promises": ["--updates", "2", "--episodes", "1", "--worlds", "a trap, without"],
}


def run(module: str, arguments: list[str]) -> int:
    """The exit code of a command."""
    program = importlib.import_module(module)
    arguments = [*arguments, *ARGUMENTS.get(module, ())]
    if module.startswith("zoo."):
        return program.main(arguments)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", [module, *arguments])
        return program.main() or 0


def cut_down(patch: pytest.MonkeyPatch, home: Path) -> None:
    """
    What no argument makes small.

    :param patch: undoes it
    :param home: where datasets are kept
    """
    from zoo.benchmarking.grid import Grid
    from zoo.data.catalogue import WORLDS
    from zoo.exploring.server import ExploreServer
    from zoo.exporting.parity import compare

    patch.setenv("HOME", str(home))
    patch.setenv("MINARI_DATASETS_PATH", str(home / "minari"))
    for name, world in WORLDS.items():
        patch.setitem(WORLDS, name, replace(world, episodes=-(-N_TRANSITIONS // world.rows)))
    patch.setattr("zoo.data.load._download", _offline)
    patch.setattr("learned_promises.N_TRANSITIONS", N_TRANSITIONS)
    patch.setattr(compare, "__defaults__", (20, 0))
    patch.setattr("zoo.runs.training.TrainingRun._diagnose", lambda self: None)  # zoo.diagnose is a command of its own
    patch.setattr("zoo.runs.training.TrainingRun._draw_map", lambda self: None)  # and so is zoo.plots map
    patch.setattr(webbrowser, "open", lambda address: True)
    begin, runs, serve = gym.wrappers.TimeLimit.__init__, Grid.runs, ExploreServer.serve_forever

    def begin_shorter(self: Any, env: gym.Env, max_episode_steps: int) -> None:
        begin(self, env, min(max_episode_steps, EPISODE_STEPS) if max_episode_steps > 0 else max_episode_steps)

    def serve_once(self: ExploreServer) -> None:
        threading.Thread(target=serve, args=(self,), daemon=True).start()
        with urllib.request.urlopen(self.url) as page:
            assert page.status == 200
        self.shutdown()
        raise KeyboardInterrupt

    patch.setattr(gym.wrappers.TimeLimit, "__init__", begin_shorter)
    patch.setattr(ExploreServer, "serve_forever", serve_once)
    patch.setattr(Grid, "runs", lambda self: runs(self)[-1:])


def _offline(*_: Any) -> None:
    raise OSError("not in a test")


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patching:
        cut_down(patching, Path.home())
        sys.exit(run(sys.argv[1], sys.argv[2:]))
