"""Files appear whole or not at all, and what a killed writer leaves is cleaned up by the next, never by a reader."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from proq_agent.common.files import atomic_file, locked, remove_abandoned

KILLED = """
import os, signal, sys
from pathlib import Path
from proq_agent.common.files import atomic_file
with atomic_file(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    sys.stdin.readline()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_writer_left_is_removed_by_the_next_one_but_not_while_it_writes(tmp_path: Path) -> None:
    path = tmp_path / "set [1]*.npz"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", KILLED, str(path)], **pipes, text=True) as process:  # type: ignore
        assert process.stdout and process.stdin and process.stdout.readline() == "writing\n"
        with atomic_file(path) as file:
            file.write(b"whole")
        assert path.read_bytes() == b"whole" and len(list(tmp_path.iterdir())) == 2  # the other's is still there
        print(file=process.stdin, flush=True)
        assert process.wait() == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 2
    with atomic_file(tmp_path / "another.npz") as file:
        file.write(b"x")
    assert len(list(tmp_path.iterdir())) == 3  # not of this name
    with atomic_file(path) as file:
        file.write(b"new")
    assert sorted(tmp_path.iterdir()) == [tmp_path / "another.npz", path]


def test_a_folder_is_cleaned_of_what_is_abandoned_alone(tmp_path: Path) -> None:
    (tmp_path / ".agent.zip.12-ab.tmp").touch()
    kept = {"agent.zip", ".hidden", "notes.tmp", ".agent.zip.lock"}
    for name in kept:
        (tmp_path / name).touch()
    with atomic_file(tmp_path / "busy") as file:
        remove_abandoned(tmp_path)
        file.write(b"1")
    assert {path.name for path in tmp_path.iterdir()} == kept | {"busy"}


def test_an_error_names_the_file_and_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left.*x") as caught, atomic_file(path) as file:
        file.write(b"new")
    assert caught.value.filename == str(path)
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_a_lock_lets_one_through_at_a_time_and_leaves_no_file(tmp_path: Path) -> None:
    inside, most, done = 0, 0, 0

    def work() -> None:
        nonlocal inside, most, done
        for _ in range(20):
            with locked(tmp_path / "x.lock"):
                inside += 1
                most = max(most, inside)
                time.sleep(0.0005)  # others get their turn meanwhile
                inside -= 1
                done += 1

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, done) == (1, 120)
    with pytest.raises(KeyError), locked(tmp_path / "x.lock"):
        raise KeyError
    assert not list(tmp_path.iterdir())
