# SPDX-License-Identifier: Apache-2.0
"""What --executor-file may say (configs/schema/executor.schema.json)."""
import importlib
import json
from typing import Any, NamedTuple

from ..._files import JsonText
from ..._words import did_you_mean
from ...errors import CommunicationError, UsageError


class Key(NamedTuple):
    kind: str
    default: Any = None  # REQUIRED: there is none


REQUIRED = object()
WHOLE, NUMBER, TEXT, WORDS = "a whole number above 0", "a number above 0", "text", "a list of texts"
SHARED = {"HeartbeatSeconds": Key(NUMBER, 60.0), "PollSeconds": Key(NUMBER, 5.0), "StartSeconds": Key(NUMBER)}
QUEUED = {"Gpus": Key(WHOLE), "Cpus": Key(WHOLE)}
SIZED = {**QUEUED, "MemoryGiB": Key(NUMBER), "Options": Key(WORDS, [])}
CELERY = "apt-get install python3-celery python3-redis"
DASK = "apt-get install python3-distributed, or pip install distributed"
# {executor: (its class, what is to be installed for it, keys)}
EXECUTORS: dict[str, tuple[str, str, dict[str, Key]]] = {
    "local": ("Local", "", {}),
    "celery": ("Celery", CELERY, {
        **QUEUED, "Broker": Key(TEXT, REQUIRED), "Queue": Key(TEXT, "norn"), "StartSeconds": Key(NUMBER, 600.0)}),
    "slurm": ("Slurm", "", {**SIZED, "Partition": Key(TEXT), "Account": Key(TEXT), "Hours": Key(NUMBER)}),
    "gridengine": ("GridEngine", "", {**QUEUED, "Queue": Key(TEXT), "GpuResource": Key(TEXT, "gpu"), "GpuNames": Key(WORDS),
                                      "ParallelEnvironment": Key(TEXT), "Hours": Key(NUMBER), "Options": Key(WORDS, [])}),
    "htcondor": ("HtCondor", "", SIZED),
    "dask": ("Dask", DASK, {**QUEUED, "Scheduler": Key(TEXT, REQUIRED)}),
    "kubernetes": ("Kubernetes", "", {**QUEUED, "MemoryGiB": Key(NUMBER), "Image": Key(TEXT, REQUIRED), "Claim": Key(TEXT, REQUIRED),
                                      "Mount": Key(TEXT, REQUIRED), "Namespace": Key(TEXT, "default")}),
}


class Settings(dict):
    """Values by key, defaults among them; and where they stand, for messages."""

    def __init__(self, executor: str, ranks: int, text: JsonText | None):
        super().__init__()
        self.executor, self.ranks, self.text = executor, ranks, text
        self.path = text.path if text else "--executor-file"
        keys = {"$schema": Key(TEXT), **SHARED, **EXECUTORS[executor][2]}
        given = text.value if text else {}
        if not isinstance(given, dict):
            raise UsageError(f"{self.path}: expected an object with keys such as {', '.join(list(keys)[1:])}")
        wrong = [said for key, value in given.items() for said in self._faults(key, value, keys)]
        wrong += [f"{self.path}: {key} is missing; --executor {executor} needs it in a file (--executor-file)"
                  for key, known in keys.items() if known.default is REQUIRED and key not in given]
        if wrong:
            raise UsageError("\n".join(wrong))
        self.update({key: given.get(key, known.default) for key, known in keys.items()})

    def line(self, key: str) -> int:
        return self.text.line(key) if self.text else 1

    def _faults(self, key: str, value: Any, keys: dict[str, Key]) -> list[str]:
        where = f"{self.path}:{self.line(key)}: {key}"
        if key not in keys:
            return [f"{where} is unknown to --executor {self.executor}.{did_you_mean(key, keys)} Expected {', '.join(list(keys)[1:])}"]
        return [] if _is(value, keys[key].kind) else [f"{where} is {json.dumps(value)}; expected {keys[key].kind}"]


def _is(value: Any, kind: str) -> bool:
    if kind in (WHOLE, NUMBER):
        return isinstance(value, (int,) if kind == WHOLE else (int, float)) and not isinstance(value, bool) and value > 0
    if kind == WORDS:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    return isinstance(value, str) and value != ""


def make(settings: Settings):
    """The executor; what it needs beside Python is loaded here, and named where it is missing."""
    name, package, _ = EXECUTORS[settings.executor]
    try:
        module = importlib.import_module(f"{__package__}.{settings.executor}")
    except ImportError as error:
        raise CommunicationError(f"--executor {settings.executor}: {error.name} is missing; install it: {package}") from error
    return getattr(module, name)(settings)
