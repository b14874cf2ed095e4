"""Let pages show the figures that the benchmark writes, where it writes them, and the roles of docstrings as names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

RESULTS = Path(__file__).parents[1] / "results"
ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):<code>(~?)([\w.]+)</code>")
DATASET = re.compile(r"<td>([\w/-]+-v\d)</td>")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add every picture below ``zoo/results`` to the site, under ``results/``."""
    for path in sorted(path for suffix in ("png", "gif") for path in RESULTS.rglob(f"*.{suffix}")):
        name = f"results/{path.relative_to(RESULTS).as_posix()}"
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_content(html: str, **_: Any) -> str:
    """Write ``:class:`~a.b.Name``` as Name, with a link where the page has it, and keep datasets' names on a line."""

    def name(role: re.Match[str]) -> str:
        tilde, path = role.groups()
        words = f"<code>{path.rpartition('.')[2] if tilde else path}</code>"
        return f'<a href="#{path}">{words}</a>' if f'id="{path}"' in html else words

    return DATASET.sub(r'<td style="white-space: nowrap">\1</td>', ROLE.sub(name, html))
