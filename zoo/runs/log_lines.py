"""Printed logs for files and pipes: a line an entry."""

from __future__ import annotations

import sys
from typing import Any

from stable_baselines3.common.logger import KVWriter


class LogLines(KVWriter):
    """A logger output that prints the losses in one line; evaluations print their own."""

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        losses = {
            key.removeprefix("train/"): value
            for key, value in sorted(key_values.items())
            if key.startswith("train/") and key.endswith("loss")
        }
        if not losses:
            return
        speed = f" ({key_values['time/fps']} a second)" if "time/fps" in key_values else ""
        shown = ", ".join(f"{name} {value:.4g}" for name, value in losses.items())
        print(f"{step} updates{speed}: {shown}", file=sys.stdout, flush=True)

    def close(self) -> None:
        """Nothing is kept open."""
