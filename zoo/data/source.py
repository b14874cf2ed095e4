"""Where a dataset comes from, as the commands' options say it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from proq_agent.common.dataset import GoalDataset
from zoo.data.catalogue import DEFAULT_DATASET_DIR
from zoo.data.load import DatasetInfo, load


@dataclass(frozen=True)
class DataSource:
    """
    The choices that :func:`zoo.data.load.load` offers.

    :param folder: of the dataset files; None for OGBench's own. Of the cache, if ``path`` is learned from on disk
    :param path: one file, whatever the dataset's name; or a folder or a pattern of many, which stay on disk
    :param source: ``auto``, ``file``, ``download`` or ``generate``
    :param seed: generate the dataset with this seed, in a folder of its own within ``folder``; None for the one there
    :param trust_dataset: build what a Minari dataset describes, see :func:`zoo.data.tasks.make_task_env`
    """

    folder: Path | None = None
    path: Path | None = None
    source: str = "auto"
    trust_dataset: bool = False
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.seed is not None and (self.path is not None or self.source not in ("auto", "generate")):
            raise ValueError("a seed is for data that are generated: leave out the path, and let the source be 'auto'")

    def load(self, dataset_id: str, progress: bool = True) -> tuple[GoalDataset, DatasetInfo]:
        """
        Load a dataset.

        :param dataset_id: see :func:`zoo.data.load.load`
        :param progress: say what takes time
        :return: the dataset, and where it came from
        """
        if self.seed is not None:
            folder = (self.folder or DEFAULT_DATASET_DIR) / f"seed_{self.seed}"
            return load(dataset_id, dataset_dir=folder, source="generate", seed=self.seed, progress=progress)
        return load(
            dataset_id,
            dataset_dir=self.folder,
            source=self.source,
            dataset_path=self.path,
            progress=progress,
            trust_dataset=self.trust_dataset,
        )
