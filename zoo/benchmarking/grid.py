"""A grid of benchmark runs: which they are, which are done, and several of them side by side."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.benchmarking.on_ray import run_on_ray
from zoo.benchmarking.report import write_report
from zoo.benchmarking.results import DEFAULT_VARIANT, read_results
from zoo.benchmarking.run import BenchmarkRun, summary
from zoo.benchmarking.side_by_side import Job, run_side_by_side
from zoo.config import ABLATIONS, read_block
from zoo.data.tasks import task_envs
from zoo.runs.experiment import Experiment

if TYPE_CHECKING:
    from zoo.data.source import DataSource


PROG = "python -m zoo.benchmark"
KEYPOINTS_VARIANT = "keypoints"


@dataclass(frozen=True)
class Grid:
    """
    Every algorithm on every dataset, with every variant and seed.

    :param algos: names of the algorithms
    :param envs: ids of the datasets
    :param seeds: of training and evaluation, with the seed of the data; None for the dataset that is found
    :param variants: by name, changes to the hyperparameters as ``key:value``; none is the default alone
    :param shared: what all runs have in common; its env, algo and seed are replaced
    :param data: where the datasets come from
    :param episodes: of each task, for each way of acting
    :param out: folder of the results
    :param log_folder: folder of agents and logs
    :param jobs: runs side by side, on this machine
    :param cluster: address of a Ray cluster to run them on instead, see :func:`~zoo.benchmarking.on_ray.run_on_ray`
    :param num_threads: of each of them
    :param ablation: the algorithm's ablations besides the variants, and their table
    :param repeat: options that repeat a run on any machine
    :param here: further options for processes on this one
    :param keypoints: whose plan the agents follow, see :func:`~zoo.runs.agents.load_map`; None for nobody's
    :param side_by_side: runs that share the machine, for the record
    :param verbose: 0 for no output
    """

    algos: Sequence[str]
    envs: Sequence[str]
    seeds: Mapping[int, int | None]
    variants: Mapping[str, tuple[str, ...]]
    shared: Experiment
    data: DataSource
    episodes: int
    out: Path
    log_folder: Path
    jobs: int
    num_threads: int
    ablation: bool = False
    repeat: Sequence[str] = ()
    here: Sequence[str] = ()
    keypoints: str | None = None
    side_by_side: int = 1
    cluster: str | None = None
    verbose: int = 1

    def runs(self) -> list[BenchmarkRun]:
        """All runs; seed by seed, so that a table of all datasets is there early."""
        for env in self.envs:
            task_envs(env, self.data.trust_dataset)[0].close()
        return [
            self._run(algo, env, seed, name, own)
            for seed in self.seeds
            for env in self.envs
            for algo in self.algos
            for name, own in self._variants(algo).items()
        ]

    def _variants(self, algo: str) -> dict[str, tuple[str, ...]]:
        variants = dict(self.variants)
        if self.ablation:
            own = read_block(ABLATIONS, algo, self.shared.conf_file)
            variants = {DEFAULT_VARIANT: (), **{name: tuple(changes) for name, changes in own.items()}, **variants}
        for name in variants:
            if not re.fullmatch(r"[\w.=-]+", name):
                raise ValueError(f"--variant {name}: give a name of letters, digits and . = - _ first, then KEY:VALUE")
        return variants or {DEFAULT_VARIANT if self.keypoints is None else KEYPOINTS_VARIANT: ()}

    def _run(self, algo: str, env: str, seed: int, variant: str, own: tuple[str, ...]) -> BenchmarkRun:
        overrides = (*self.shared.overrides, *own)
        command = self._command(algo, env, seed, {variant: overrides})
        return BenchmarkRun(
            experiment=replace(self.shared, env=env, algo=algo, seed=seed, overrides=overrides),
            data=replace(self.data, seed=self.seeds[seed]),
            variant=variant,
            episodes=self.episodes,
            out=self.out,
            log_folder=self.log_folder,
            command=shlex.join(command),
            keypoints=self.keypoints,
            side_by_side=self.side_by_side,
            verbose=self.verbose,
        )

    def _command(self, algo: str, env: str, seed: int, variants: Mapping[str, Sequence[str]]) -> list[str]:
        """What repeats runs of a dataset and a seed, on any machine."""
        of_variants = [part for name, overrides in variants.items() for part in ("--variant", name, *overrides)]
        of_data = () if self.seeds[seed] is None else ("--dataset-seeds", str(self.seeds[seed]))
        which = ("--algo", algo, "--env", env, "--seeds", str(seed), *of_data)
        return [*PROG.split(), *which, *of_variants, *self.repeat]

    def execute(self, report: bool = True, export: Path | None = None) -> None:
        """
        Do what is not done yet; a single training takes place in this process, several in processes of their own.

        :param report: render table and figure after each run
        :param export: then copy the first seed's agents there
        :raises ValueError: if a run fails, once the others are done
        """
        runs = self.runs()
        todo = [run for run in runs if not run.is_done()]
        if self.verbose and len(runs) > 1:
            print(f"{len(runs)} runs, {len(runs) - len(todo)} of them done before", flush=True)
        trainings = _by_training(todo)
        if len(trainings) == 1 and self.cluster is None:
            for run in trainings[0]:
                results = run.execute()
                if self.verbose:
                    print(summary(results), flush=True)
        else:
            self._execute_all(trainings, report)
        if export:
            for first in {(run.experiment.algo, run.experiment.env): run for run in reversed(runs)}.values():
                first.export(export)

    def _execute_all(self, trainings: Sequence[Sequence[BenchmarkRun]], report: bool) -> None:
        here = min(self.jobs, len(trainings)) if self.cluster is None else 1
        at_once = ["--side-by-side", str(here)]
        jobs: dict[Job, Sequence[BenchmarkRun]] = {}
        for runs in trainings:
            first = runs[0].experiment
            variants = {run.variant: run.experiment.overrides for run in runs}
            command = self._command(first.algo, first.env, first.seed or 0, variants)
            job = Job(
                ", ".join(map(str, runs)),
                (sys.executable, *command[1:], *self.here, *at_once, "--no-report", "--out", str(self.out)),
                self.log_folder / "benchmark" / f"{first.algo}_{runs[0].csv.stem}.log",
                {"OMP_NUM_THREADS": str(self.num_threads)},
                tuple(run.csv for run in runs),
            )
            jobs[job] = runs
        total, ended, failed = sum(map(len, trainings)), 0, 0

        def on_end(job: Job, code: int) -> None:
            nonlocal ended, failed
            for run in jobs[job]:
                ended += 1
                if not run.csv.is_file():
                    failed += 1
                    print(f"{run} failed: {job.last_line()}", file=sys.stderr, flush=True)
                elif self.verbose:
                    print(f"[{ended}/{total}]", summary(read_results(run.csv)), flush=True)
            if report and failed < ended:
                write_report(self.out, self.ablation)

        if self.cluster is None:
            run_side_by_side(list(jobs), self.jobs, on_end)
        else:
            run_on_ray(list(jobs), self.cluster, on_end, self.num_threads, self.shared.device)
        if failed:
            raise ValueError(f"{failed} of {total} runs failed; see the logs in {self.log_folder / 'benchmark'}")


def _by_training(runs: Sequence[BenchmarkRun]) -> list[list[BenchmarkRun]]:
    trainings: dict[str, list[BenchmarkRun]] = {}
    for run in runs:
        trainings.setdefault(run.training, []).append(run)
    return list(trainings.values())
