"""The jobs of a grid as tasks of a Ray cluster: a job whose machine is lost is done again on another one."""

from __future__ import annotations

import logging
import os
import runpy
import shlex
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from proq_agent.common.errors import one_line
from proq_agent.common.files import atomic_file
from zoo.benchmarking.side_by_side import POLL_SECONDS, Job, terminable

RETRIES = 5  # of a job whose machine, or process, was lost; what fails by itself is not tried again
CONNECT_SECONDS, SECONDS_TO_SAVE = 10.0, 60.0
LOOPBACK = ("127.0.0.1", "localhost")


def run_on_ray(
    jobs: Sequence[Job],
    address: str,
    on_end: Callable[[Job, int], None],
    num_cpus: int = 1,
    device: str = "auto",
) -> None:
    """
    Run all jobs on the machines of a cluster, as many at a time as it has CPUs and GPUs for. Ctrl-C, SIGTERM or SIGHUP
    ends those that run as Ctrl-C does, and waits for them to save what they have.

    :param jobs: commands of this package, which the machines have, too
    :param address: ``host:port`` of the cluster, or ``auto`` for the one that this machine is part of
    :param on_end: called with a job that has ended and its exit code; its results are here then
    :param num_cpus: that each needs
    :param device: that each learns on; each has a GPU to itself unless that is the CPU, or there is none
    :raises ValueError: if there is no such cluster
    """
    ray = connect(address)
    try:
        has_gpus = device != "cpu" and ray.cluster_resources().get("GPU", 0) > 0
        # A process for each job, which cannot outlive its machine.
        task = ray.remote(num_cpus=num_cpus, num_gpus=int(has_gpus), max_retries=RETRIES, max_calls=1)(_run)
        with terminable():
            waiting = {task.remote(job, os.getcwd()): job for job in jobs}
            try:
                while waiting:
                    for done in ray.wait(list(waiting), timeout=POLL_SECONDS)[0]:
                        job = waiting.pop(done)
                        on_end(job, _fetch(ray, done, job))
            finally:
                for reference in waiting:
                    ray.cancel(reference)
                if waiting:
                    ray.wait(list(waiting), num_returns=len(waiting), timeout=SECONDS_TO_SAVE)
    finally:
        ray.shutdown()


def connect(address: str) -> Any:
    """
    Join a cluster; none is started.

    :param address: see :func:`run_on_ray`
    :return: the module ``ray``
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    host, _, port = address.rpartition(":")
    if host in LOOPBACK:  # or Ray looks for the address that others see
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        import ray
    except ImportError as error:
        raise ImportError("--ray needs Ray: pip install ray") from error
    try:
        if host:  # where nobody listens, Ray waits for minutes
            socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError) as error:
        start = "start one: ray start --head --include-dashboard=false --disable-usage-stats"
        raise ValueError(f"--ray {address}: there is no Ray cluster ({str(error).splitlines()[0]}); {start}") from error
    return ray


def _run(job: Job, folder: str) -> tuple[int, dict[Path, bytes]]:
    """
    What a machine of the cluster does: the command, in a process that is Ray's own.

    :param job: to do
    :param folder: current directory of whoever gave it; made, if the machines share none
    :return: exit code, and the files that the job leaves for others
    """
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    os.environ.update(job.env)
    job.log.parent.mkdir(parents=True, exist_ok=True)
    with job.log.open("ab") as log:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
    _, _, module, *options = job.command
    print(f"on {socket.gethostname()}: {shlex.join(job.command)}", flush=True)
    sys.argv = [module, *options]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except Exception:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code, {path: path.read_bytes() for path in (job.log, *job.results) if path.is_file()}


def _fetch(ray: Any, reference: Any, job: Job) -> int:
    """The exit code of a job that has ended; its files are written here, unless they are there already."""
    try:
        code, files = ray.get(reference)
    except ray.exceptions.RayError as error:
        code, files = 1, {job.log: f"{one_line(error)}\n".encode()}
    for path, content in files.items():
        if not path.is_file():
            with atomic_file(path) as file:
                file.write(content)
    return code
