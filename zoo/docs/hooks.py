"""Let pages show the figures that the benchmark writes: they stay where it writes them."""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

RESULTS = Path(__file__).parents[1] / "results"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add every picture below ``zoo/results`` to the site, under ``results/``."""
    for path in sorted(path for suffix in ("png", "gif") for path in RESULTS.rglob(f"*.{suffix}")):
        name = f"results/{path.relative_to(RESULTS).as_posix()}"
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files
