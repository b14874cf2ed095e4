"""An agent as the folder of a repository on the Hugging Face Hub, laid out as RL Zoo does, and back again::

README.md                   the model card
<algo>-<env>.zip            the agent
config.yml                  hyperparameters, dataset, versions, results
map.png, replay.mp4         pictures of it, if there are some; or replay.gif
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import yaml

from proq_agent.common.files import env_name, write_text
from zoo.figures.learned_map import has_map
from zoo.figures.maps import draw_map
from zoo.plain_yaml import read_yaml
from zoo.registry import ALGOS, algorithm
from zoo.runs.folder import RunFolder, create_run, run_of
from zoo.sharing.card import make_card

VIDEOS = (".mp4", ".gif")
PICTURES = ("map.png", *(f"replay{suffix}" for suffix in VIDEOS))
# Of config.yml; the rest is about the machine that trained, and paths on it.
PUBLIC = ("env", "algo", "seed", "preset", "hyperparams", "dataset", "versions", "git_commit", "training", "results")


def write_repository(
    agent: Path, folder: Path, repo_id: str, algo: str, env: str | None = None, video: Path | None = None
) -> None:
    """
    Write what :func:`~zoo.sharing.hub.push_to_hub` uploads.

    :param agent: an agent file; results, map and video are those of its run, if it lies in the folder of one
    :param folder: where to; files there are replaced
    :param repo_id: ``owner/name``, for the model card
    :param algo: name of the algorithm
    :param env: environment or dataset id; None for that of the run
    :param video: to show instead of the run's
    :raises ValueError: if the agent cannot be read without pickles, or nobody knows its environment
    """
    model = algorithm(algo).load(agent, device="cpu")
    run = run_of(agent)
    config = {key: value for key, value in (run.read_config() if run else {}).items() if key in PUBLIC}
    config = {"env": env, **config, "algo": algo}
    if config["env"] is None:
        raise ValueError(f"nothing says what {agent} was trained on; give --env ID")
    if isinstance(config.get("dataset"), dict):
        config["dataset"].pop("path", None)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(agent, folder / f"{algo}-{env_name(config['env'])}.zip")
    write_text(folder / "config.yml", yaml.safe_dump(config, sort_keys=False))
    if run and run.map.is_file():
        shutil.copyfile(run.map, folder / "map.png")
    elif has_map(model):
        draw_map(model, folder / "map.png")
    video = video or (_video(run) if run else None)
    if video is not None:
        if video.suffix.lower() not in VIDEOS:
            raise ValueError(f"a video's name must end in {' or '.join(VIDEOS)}, got {video}")
        shutil.copyfile(video, folder / f"replay{video.suffix.lower()}")
    # The Hub shows replay.mp4 by itself.
    pictures = [name for name in ("map.png", "replay.gif") if (folder / name).is_file()]
    make_card(repo_id, config, _command(run), pictures).save(folder / "README.md")


def read_repository(folder: Path, log_folder: Path) -> Path:
    """
    Make a run of a repository, so that the commands find its agent.

    :param folder: what :func:`write_repository` wrote, or a stranger
    :param log_folder: root of all runs
    :return: the agent's file in the new run
    :raises ValueError: if there is not exactly one agent in it, or one that cannot be read without pickles
    """
    config = _config(folder)
    agents = sorted(folder.glob("*.zip"))
    if len(agents) != 1:
        raise ValueError(f"{folder} holds {len(agents)} agent files (*.zip), expected one")
    algorithm(config["algo"]).load(agents[0], device="cpu")
    run = create_run(log_folder, config["algo"], config["env"])
    try:
        shutil.copyfile(agents[0], run.agent)
        run.write_config(config)
        for name in PICTURES:
            if (folder / name).is_file():
                shutil.copyfile(folder / name, run.path / name)
    except BaseException:
        run.remove()
        raise
    return run.agent


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "config.yml"
    config = read_yaml(path) if path.is_file() else None
    if not isinstance(config, dict) or config.get("algo") not in ALGOS or not isinstance(config.get("env"), str):
        raise ValueError(f"{folder} is no repository of ours: no config.yml that names algorithm and environment")
    if not re.search(r"\w", config["env"]):
        raise ValueError(f"{path} names no environment: {config['env']!r:.40}")
    return {key: value for key, value in config.items() if key in PUBLIC}


def _video(run: RunFolder) -> Path | None:
    videos = (path for suffix in VIDEOS for path in sorted(run.path.glob(f"*{suffix}")))
    return next(videos, None)


def _command(run: RunFolder | None) -> str | None:
    path = run.config.with_name("command.txt") if run else None
    return path.read_text(encoding="utf-8").strip() if path and path.is_file() else None
