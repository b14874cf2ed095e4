"""What the results of a run depend on, as short hashes."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proq_agent.common.offline import OfflineAlgorithm

# What learns, acts, evaluates, makes data and judges maps, and the worlds themselves; commands, tables and pictures may
# change.
CODE = (
    "proq_agent",
    "wrappers",
    "zoo/data",
    "zoo/worlds",
    "zoo/runs/experiment.py",
    "zoo/figures/learned_map.py",
    "zoo/figures/map_quality.py",
    "zoo/figures/maze_geometry.py",
)


def digest(*parts: Any) -> str:
    """A short hash of plain values."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def agent_digest(model: OfflineAlgorithm) -> str:
    """A short hash of an agent, as it acts."""
    file = io.BytesIO()
    model.save(file, exclude=["training"])
    return hashlib.sha256(file.getvalue()).hexdigest()[:12]


@cache
def code_version() -> str:
    """
    A hash of the source that results depend on. A git commit would not do: two states of the code that are not
    committed share one, and so do not two commits that differ in a picture.
    """
    root = Path(__file__).resolve().parents[2]
    code = hashlib.sha256()
    for path in sorted(path for part in CODE for path in _modules(root / part)):
        code.update(f"{path.relative_to(root).as_posix()}\n".encode())
        code.update(path.read_bytes())
    return code.hexdigest()[:12]


def _modules(part: Path) -> Iterable[Path]:
    return part.rglob("*.py") if part.is_dir() else [part]
