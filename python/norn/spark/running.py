# SPDX-License-Identifier: Apache-2.0
"""The trainer as a child of this process, on the driver's machine or within a task."""
from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from .. import errors
from .._child import follow
from .._settings import table
from ..errors import Error, UsageError
from ..history import History, add_report
from ..programs import find_program


@dataclasses.dataclass(frozen=True)
class Job:
    """A training, as tasks are sent it."""

    inputs: tuple[str, ...]
    validation: tuple[str, ...]
    model: str
    run_dir: str
    options: tuple[str, ...]  # the settings, as the trainer's command line has them
    recipe: str
    network: str | None  # the descriptor's text
    ranks: int
    device: str
    threads: int
    precision: str
    force: bool
    resume: bool


def options_of(settings: dict[str, Any]) -> tuple[str, ...]:
    """Settings, as `norn._settings.checked` gives them, for the command line."""
    words = []
    for name, value in settings.items():
        option = "--" + name.replace("_", "-")
        if table()[name]["kind"] != "bool":
            words.append(f"{option}={value!r}" if isinstance(value, float) else f"{option}={value}")
        elif value:
            words.append(option)
    return tuple(words)


def train(job: Job, tell: Callable[[str], None], cores: int = 0, gpus: Sequence[str] = ()) -> list[str]:
    """Trains, and returns the lines that were said; `tell` gets each at once.

    cores: that the ranks share; 0: all. gpus: addresses of those that they are to take; without any as the trainer chooses.
    Raises what the trainer ended with as the classes of norn.errors. On Ctrl-C, and when this process ends, the trainer writes
    a checkpoint, where the job has any, and ends."""
    environment = {name: value for name, value in os.environ.items() if name != "SLURM_PROCID"}  # a batch job looks like a rank of srun
    device, _, gpu = job.device.partition(":")
    if gpus and not gpu and device != "cpu":
        device = "cuda"
        environment |= {"CUDA_VISIBLE_DEVICES": ",".join(gpus), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}  # as nvidia-smi counts them
    if job.ranks > 1 and not cores:
        cores = len(os.sched_getaffinity(0))
    threads = job.threads or (max(1, cores // job.ranks) if cores else 0)
    with tempfile.TemporaryDirectory(prefix="norn-launch-") as folder:
        source = ["--recipe", job.recipe]
        if job.network is not None:
            source = ["--config", os.path.join(folder, "network")]
            pathlib.Path(source[1]).write_text(job.network, encoding="utf-8")
        words = [*_launcher(job.ranks), *find_program("trainer"), *source, "--model", job.model, "--run-dir", job.run_dir, "--device",
                 device,
                 "--threads", str(threads), "--precision", job.precision, "--errors=json", *job.options, *(["--gpu", gpu] if gpu else [])]
        for option, files in (("--input", job.inputs), ("--validation-input", job.validation)):
            words += [word for file in files for word in (option, file)]
        words += [*(["--force"] if job.force else []), *(["--resume"] if job.resume else [])]
        code, lines = follow(words, environment, tell)
        if code:
            raise _error_of(code, lines, folder + os.sep)
    return lines


def _launcher(ranks: int) -> list[str]:
    if ranks == 1:
        return []
    if shutil.which("mpirun") is None:
        raise UsageError(f"`ranks` {ranks}: there is no mpirun in PATH, which starts them; install Open MPI, or train on one rank")
    return ["mpirun", "--bind-to", "none", "--oversubscribe", "-np", str(ranks)]


def _error_of(code: int, lines: Sequence[str], folder: str) -> Error:
    for line in reversed(lines):
        try:
            told = json.loads(line) if line.startswith("{") else {}
        except ValueError:
            continue
        if "errors" in told:
            problems = [{key: _in_python(value.replace(folder, "")) if isinstance(value, str) else value for key, value in one.items()}
                        for one in told["errors"]]
            place = f"rank {told['rank']} of {told['ranks']}: " if told.get("ranks", 1) > 1 else ""
            return errors.error_of("\n".join(place + _said(one) for one in problems), told["exit_code"], problems)
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return Error(f"the trainer ended with {how}, without a word of why; its last lines: " + " | ".join(list(lines)[-5:]))


def _said(problem: dict[str, Any]) -> str:
    place = "".join(f"{problem[key]}:" for key in ("file", "line") if key in problem)
    return f"{place} {problem['message']}" if place else problem["message"]


def _in_python(message: str) -> str:
    """Messages name options, --rate-schedule; here they are keywords, `rate_schedule`."""
    def named(found: re.Match) -> str:
        name = found[1].replace("-", "_")
        return f"`{name}`" if name in table() else found[0]

    return re.sub(r"--([a-z][a-z0-9-]*)", named, message)


def history_of(folder: str | os.PathLike) -> History:
    """Of a run's folder, what fit's history says."""
    history, examples = History(), 0
    for line in pathlib.Path(folder, "log.jsonl").read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        if event["event"] == "start":
            examples = event["examples"]
        elif event["event"] == "epoch":
            add_report(history, "epoch", event | {"examples": examples})
        elif event["event"] == "eval":
            metrics = {f"{name}@{at['k']}": value for at in event["metrics"] for name, value in at.items() if name != "k"}
            add_report(history, "validation", event | {"metrics": metrics})
    return history
