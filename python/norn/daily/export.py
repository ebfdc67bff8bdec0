# SPDX-License-Identifier: Apache-2.0
"""The day's steps for other engines. Each step is a script that may be called any number of times: the engine need not know what is done.
A region that goes no further ends its scripts with 0, so that others go on; the last one, report.sh, tells by its exit code."""

import graphlib
import os
import pathlib
import shlex
from typing import NamedTuple

from ..errors import DataError, UsageError
from ..tune.standing import BLAS_SETTING
from .days import ON_GPU, Day
from .graph import Node, graph_of
from .plan import Plan
from .regions import Regions


class Job(NamedTuple):
    """A node under a name that every engine takes: regions have blanks and other letters in theirs."""

    name: str
    before: list[str]
    step: str
    comment: str


class Exported(NamedTuple):
    """Jobs, each after those it needs."""

    jobs: list[Job]
    folder: pathlib.Path
    day: str
    gpus: bool  # steps that use one ask for it

    def gpu(self, job: Job) -> bool:
        return self.gpus and job.step in ON_GPU

    @property
    def last(self) -> list[str]:
        """Jobs that no other comes after."""
        needed = {name for job in self.jobs for name in job.before}
        return [job.name for job in self.jobs if job.name not in needed]


def _jobs(graph: dict[Node, list[Node]], names: list[str]) -> dict[Node, Job]:
    numbers = {name: f"r{number:0{len(str(len(names)))}d}" for number, name in enumerate(names)}
    of = {node: f"{numbers[node.region]}_{node.step}" for node in graph}
    return {node: Job(of[node], [of[before] for before in graph[node]], node.step, f"{node.region}: {node.step}")
            for node in graphlib.TopologicalSorter(graph).static_order()}


def _put(path: pathlib.Path, text: str, program: bool = False) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755 if program else 0o644)


def _script(comment: str, words: list[str]) -> str:
    """The setting that chooses BLAS kernels, and so bits, goes with it: HTCondor's DAGMan gives its jobs a few variables only."""
    kept = f"export {BLAS_SETTING}={shlex.quote(os.environ[BLAS_SETTING])}\n" if BLAS_SETTING in os.environ else ""
    return f"#!/bin/sh\n# {comment}\n{kept}exec {shlex.join(words)}\n"


def export(kind: str, folder: pathlib.Path, regions: Regions, day: Day, plan: Plan, names: list[str], command: list[str],
           gpus: bool) -> str:
    """Writes the files; how to start it."""
    if kind not in EXPORTS:
        raise UsageError(f"--export {kind}: is no engine; take one of {', '.join(EXPORTS)}")
    if any(letter.isspace() or letter in "\"'\\$#%:;&|" for letter in str(folder)):
        raise UsageError(f"--export {kind} {folder}: some engines take no blanks, quotes and marks in paths; give another folder")
    graph = graph_of(regions, plan, names)
    jobs = _jobs(graph, names)
    try:
        (folder / "steps").mkdir(parents=True, exist_ok=True)
        (folder / "logs").mkdir(exist_ok=True)
        for node, job in jobs.items():
            words = [*command, "--region", node.region, "--step", node.step, "--go-on"]
            _put(folder / f"steps/{job.name}.sh", _script(job.comment, words), program=True)
        only = [word for name in names for word in ("--only", name)] if len(names) < len(regions.regions) else []
        _put(folder / "report.sh", _script("how far each region is", [*command, *only, "--status"]), program=True)
        return EXPORTS[kind](Exported(list(jobs.values()), folder, day.day, gpus))
    except OSError as error:
        raise DataError(f"{error.filename or folder}: cannot be written: {error.strerror}; give another folder to --export") from error


def _make(day: Exported) -> str:
    lines = [f"# The steps of {day.day}: make -f {day.folder}/Makefile -j 4 -k", ".PHONY: report " + " ".join(job.name for job in day.jobs),
             f"report: {' '.join(day.last)}", f"\t{day.folder}/report.sh"]
    for job in day.jobs:
        lines += [f"# {job.comment}", f"{job.name}: {' '.join(job.before)}".rstrip(), f"\t@{day.folder}/steps/{job.name}.sh"]
    _put(day.folder / "Makefile", "\n".join(lines) + "\n")
    return f"make -f {day.folder}/Makefile -j 4 -k"


def _slurm(day: Exported) -> str:
    lines = ["#!/usr/bin/env bash",
             f"# Submits the steps of {day.day}. Options go to every sbatch. A step may be repeated, so a job that is preempted is "
             "requeued.",
             "set -euo pipefail",
             f"submit() {{ sbatch --parsable --requeue --kill-on-invalid-dep=yes --output {day.folder}/logs/%x.txt "
             f"--open-mode=append \"$@\" | cut -d';' -f1; }}",
             "declare -A job"]
    for job in day.jobs:
        waits = [f"--dependency=afterany:{':'.join(f'${{job[{name}]}}' for name in job.before)}"] if job.before else []
        gpu = ["--gres=gpu:1"] if day.gpu(job) else []
        lines += [f"job[{job.name}]=$(submit {' '.join([*waits, '--job-name', job.name, *gpu])} \"$@\" {day.folder}/steps/{job.name}.sh)"]
    lines += [f"submit --dependency=afterany:{':'.join(f'${{job[{name}]}}' for name in day.last)} --job-name report \"$@\" "
              f"{day.folder}/report.sh"]
    _put(day.folder / "submit.sh", "\n".join(lines) + "\n", program=True)
    return f"{day.folder}/submit.sh --partition NAME"


def _dagman(day: Exported) -> str:
    _put(day.folder / "step.sub", "\n".join([
        "# One step. 75: stopped by the pool, goes on where it was.", "universe = vanilla", f"executable = {day.folder}/$(script)",
        f"initialdir = {day.folder}",
        "output = logs/$(job).txt", "error = logs/$(job).txt", "log = logs/events.log", "getenv = True", "should_transfer_files = NO",
        "on_exit_remove = (ExitBySignal == False) && (ExitCode =!= 75)", "kill_sig = SIGUSR1", "job_max_vacate_time = 120",
        "request_gpus = $(gpus)",
        "request_cpus = 1", "queue"]) + "\n")
    lines = [f"# The steps of {day.day}."]
    for job in day.jobs:
        lines += [f"# {job.comment}", f"JOB {job.name} {day.folder}/step.sub",
                  f"VARS {job.name} script=\"steps/{job.name}.sh\" job=\"{job.name}\" gpus=\"{int(day.gpu(job))}\"",
                  f"RETRY {job.name} 2 UNLESS-EXIT 2", f"CATEGORY {job.name} {'gpu' if job.step in ON_GPU else 'cpu'}"]
    lines += [f"PARENT {' '.join(job.before)} CHILD {job.name}" for job in day.jobs if job.before]
    lines += ["# At most so many at a time that use a GPU.", "MAXJOBS gpu 4", f"FINAL report {day.folder}/step.sub",
              "VARS report script=\"report.sh\" job=\"report\" gpus=\"0\"", f"NODE_STATUS_FILE {day.folder}/status.txt 30"]
    _put(day.folder / "day.dag", "\n".join(lines) + "\n")
    return f"condor_submit_dag -f {day.folder}/day.dag"


def _snakemake(day: Exported) -> str:
    lines = [f"# The steps of {day.day}: snakemake -s {day.folder}/Snakefile --cores 4 --keep-going", "rule report:", "    input:",
             *(f"        \"{day.folder}/done/{name}\"," for name in day.last), f"    shell: \"{day.folder}/report.sh\""]
    for job in day.jobs:
        lines += [f"# {job.comment}", f"rule {job.name}:"]
        if job.before:
            lines += ["    input:", *(f"        \"{day.folder}/done/{name}\"," for name in job.before)]
        lines += [f"    output: touch(\"{day.folder}/done/{job.name}\")", f"    shell: \"{day.folder}/steps/{job.name}.sh\""]
    _put(day.folder / "Snakefile", "\n".join(lines) + "\n")
    return f"snakemake -s {day.folder}/Snakefile --cores 4 --keep-going"


EXPORTS = {"make": _make, "slurm": _slurm, "dagman": _dagman, "snakemake": _snakemake}


