"""Agents to and from the Hugging Face Hub."""

from __future__ import annotations

import tempfile
from pathlib import Path

from proq_agent.common.errors import within
from zoo.sharing.repository import PICTURES, read_repository, write_repository

REMEDY = "check its name and your connection; to push, and for private ones, log in with `hf auth login`"


def push_to_hub(
    agent: str | Path,
    repo_id: str,
    algo: str = "proq",
    env: str | None = None,
    video: Path | None = None,
    message: str = "Add an agent",
    private: bool = False,
) -> str:
    """
    Upload an agent with a model card: its results, its map and a video.

    :param agent: an agent file, best in the folder of its run
    :param repo_id: ``owner/name``; made if it is not there
    :param algo: name of the algorithm
    :param env: environment or dataset id, if the agent lies outside of a run
    :param video: ``.mp4`` or ``.gif``; by default one that lies in the run's folder
    :param message: of the commit
    :param private: whether a new repository is
    :return: its address
    :raises ValueError: if it cannot be uploaded
    """
    check_package()
    from huggingface_hub import HfApi

    with tempfile.TemporaryDirectory() as folder:
        write_repository(Path(agent), Path(folder), repo_id, algo, env, video)
        with within(f"cannot upload to {repo_id}", REMEDY, ValueError):
            api = HfApi()
            url = api.create_repo(repo_id, private=private, exist_ok=True)
            api.upload_folder(repo_id=repo_id, folder_path=folder, commit_message=message)
    return str(url)


def load_from_hub(repo_id: str, log_folder: str | Path = "logs", revision: str | None = None) -> Path:
    """
    Download an agent as a new run, where the commands find it.

    :param repo_id: ``owner/name``, or a folder with the files of a repository
    :param log_folder: root of all runs
    :param revision: branch, tag or commit
    :return: the agent's file, for ``ProQ.load``
    :raises ValueError: if there is no such repository, or no agent in it that can be read without pickles
    """
    folder = Path(repo_id)
    if not folder.is_dir():
        check_package()
        from huggingface_hub import snapshot_download

        names = ["*.zip", "config.yml", *PICTURES]
        with within(f"cannot download {repo_id}", REMEDY, ValueError):
            folder = Path(snapshot_download(repo_id, revision=revision, allow_patterns=names))
    return read_repository(folder, Path(log_folder))


def check_package() -> None:
    """
    :raises ImportError: if the package is missing
    """
    try:
        import huggingface_hub  # noqa: F401
    except ImportError as error:
        raise ImportError("the Hugging Face Hub needs `pip install huggingface_hub`") from error
