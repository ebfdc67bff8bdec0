# SPDX-License-Identifier: Apache-2.0
"""The program trainer: what it is asked, and what it says."""
import hashlib
import itertools
import json
import os
import pathlib
import shutil
import subprocess
from typing import Any, NamedTuple

from .._files import read_json
from ..errors import Error, UsageError, error_of
from ..programs import path_of
from . import descriptor
from .search import Plan
from .trial import errors_of, made_of

# What may be handed to the trainer as it is: where and on what it validates and computes. What is trained is in descriptor and space.
_VALUE_OF = json.loads(pathlib.Path(__file__).with_name("trial_options.json").read_text(encoding="utf-8"))  # tools/dev/write_reference.sh
OPTIONS = set(_VALUE_OF)
FILES = {name for name, value in _VALUE_OF.items() if value == "FILE"}
PART = 1 << 22  # bytes that are read at a time
KILLED = 128  # codes from here on: by a signal, which says nothing of what was asked
MOST_KILLS = 3


class Failed(Exception):
    """The trainer ended with an exit code that is not 0; `errors` as it lists them with --errors=json."""

    def __init__(self, code: int, errors: list[dict], said: str):
        super().__init__(said)
        self.code, self.errors, self.said = code, errors, said

    def as_error(self, message: str = "") -> Error:
        return error_of(message or "\n".join(map(_told, self.errors)) or self.said, self.code)


class Price(NamedTuple):
    """Of one descriptor on the planned machine."""

    fits: bool
    examples_per_second: float
    bytes: int


def check_options(words: list[str]) -> list[str]:
    """Options for the trainer, files made absolute; refuses those that would win over a descriptor."""
    found, last = [], ""
    for word in words:
        name, equals, value = word.partition("=")
        if word.startswith("-") and not word[1:2].isdigit():
            if name not in OPTIONS:
                raise UsageError(f"{name}: is not among the options that go to the trainer as they are: {', '.join(sorted(OPTIONS))}; "
                                 f"settings of the training belong into the descriptor or the space")
            last = name
            found.append(f"{name}={os.path.abspath(value)}" if equals and name in FILES else word)
        else:
            found.append(os.path.abspath(word) if last in FILES else word)
    return found


def options_without_files(words: list[str]) -> list[str]:
    """The same options wherever their files stand."""
    found, last = [], ""
    for word in words:
        name, equals, _ = word.partition("=")
        is_option = word.startswith("-") and not word[1:2].isdigit()
        last = name if is_option else last
        found.append(name if is_option and equals and name in FILES else word if is_option or last not in FILES else "")
    return found


def _errors_of(line: str) -> list:
    """Of a line that may be --errors json."""
    try:
        return json.loads(line).get("errors", [])
    except (ValueError, RecursionError):
        return []


def _end(code: int) -> str:
    """Of a program that said nothing."""
    return f"it ended with signal {-code}; the same command goes on" if code < 0 else f"it ended with code {code} and said nothing"


class Trainer:
    """Calls of the program with the data of a study."""

    def __init__(self, program: pathlib.Path, inputs: list[str], outputs: list[str], options: list[str], objective: str,
                 machine: str | None, ranks: int):
        self.program, self.objective, self.machine, self.ranks, self.options = program, objective, machine, ranks, options
        self.data = [word for file in inputs for word in ("-i", file)] + [word for file in outputs for word in ("-o", file)]

    def _say(self, words: list[str], folder: pathlib.Path, program: pathlib.Path | None = None) -> str:
        program = program or self.program
        command = [str(program), *words, "--errors", "json"]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
        except OSError as error:
            raise UsageError(f"{program}: cannot be run: {error.strerror}; give --trainer") from error
        if done.returncode != 0:
            errors = next((_errors_of(line) for line in done.stderr.splitlines() if line.startswith("{")), [])
            said = "; ".join(_told(error) for error in errors) or (done.stderr.strip().splitlines() or [_end(done.returncode)])[-1]
            raise Failed(done.returncode if done.returncode > 0 else 128 - done.returncode, errors, said)
        return done.stdout

    def _object(self, words: list[str], folder: pathlib.Path, needs: str, program: pathlib.Path | None = None) -> dict:
        """JSON that it says."""
        said = self._say(words, folder, program)
        try:
            found = json.loads(said)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or needs not in found:
            raise UsageError(f"{program or self.program}: said {json.dumps(said[:60])}, where an object with \"{needs}\" was expected; "
                             f"give a --trainer of this version that prints nothing else")
        return found

    def _again_if_killed(self, words: list[str], folder: pathlib.Path, needs: str, program: pathlib.Path | None = None) -> dict:
        """What follows from it must not follow from a kill."""
        for kills in itertools.count(1):
            try:
                return self._object(words, folder, needs, program)
            except Failed as failed:
                if failed.code < KILLED or kills == MOST_KILLS:
                    raise

    def complete(self, config: pathlib.Path) -> dict:
        """The descriptor as it would be trained, recipes written out."""
        try:
            return self._object(["-c", str(config), *self.data, "-n", "none.nc", "--print-recipe"], pathlib.Path.cwd(), "Layers")
        except Failed as failed:
            raise failed.as_error() from failed

    def plan(self, config: pathlib.Path) -> Price:
        machine = ["--machine", self.machine] if self.machine else []
        words = ["-c", str(config), *self.data, "-n", "none.nc", "--plan", "--ranks", str(self.ranks), *machine, "--plan-format", "json",
                 *self._watched()]
        found = self._again_if_killed(words, config.parent, "plan")
        return Price(bool(found["memory"]["fits"]), float(found["plan"]["examples_per_second"]), int(found["memory"]["total_bytes"]))

    def _watched(self) -> list[str]:
        return ["--early-stop", "none", "--keep-best", self.objective, *self.options]

    def probe(self, config: pathlib.Path, folder: pathlib.Path) -> tuple[dict[str, Any], str]:
        """What is trained on what: an initial model is made and thrown away. Members: sets and validation_sets (name and checksum),
        binary, device, device_name, precision, examples, seed; and trial.made_of of the same."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            self._say(["-c", str(config), *self.data, "-n", "model.nc", "--run-dir", "run", "--epochs", "0", *self._watched()], folder)
        except Failed as failed:
            raise failed.as_error() from failed
        record = read_json(folder / "run/run.json")
        shutil.rmtree(folder)
        found = {key: record[key] for key in ("binary", "version", "device", "device_name", "precision", "examples", "seed")}
        for key in ("sets", "validation_sets"):
            found[key] = [{"name": one["name"], "checksum": one["checksum"]} for one in record[key]]
        return found, made_of(record)

    def compare(self, first: pathlib.Path, second: pathlib.Path, level: float, resamples: int) -> dict:
        """What the evaluator says of two folders of runs."""
        beside = self.program.with_name("evaluator")
        evaluator = beside if beside.is_file() else path_of("evaluator")
        words = ["--compare-runs", str(first), "--compare-runs", str(second), f"--interval={level!r}", "--resamples", str(resamples),
                 "--format", "json"]
        try:
            return self._again_if_killed(words, first.parent, "differences", evaluator)
        except Failed as failed:
            raise failed.as_error() from failed

    def command(self, until: int, seed: int | None, threads: int, examples: bool = False) -> list[str]:
        """That trains a trial to the end of that epoch, in its folder, going on from what stands there; `examples`: and writes the value
        of each that was held out."""
        return [str(self.program), "-c", "net.json", *self.data, "-n", "model.nc", "--run-dir", "run", "--resume", "--last-epoch",
                str(until),
                "--keep", "1", *self._watched(), *(["--seed", str(seed)] if seed is not None else []),
                *(["--threads", str(threads)] if threads else []), *(["--validation-values"] if examples else []), "--errors", "json"]


def _told(error: dict) -> str:
    where = error.get("file", "")
    if "line" in error:
        where += f":{error['line']}"
    return f"{where}: {error['message']}" if where else error["message"]


def plan_of(price: Price, network: dict, examples: int) -> Plan:
    """An epoch's planned seconds, and how many there are of them in the descriptor."""
    epochs = descriptor.get(descriptor.get(network, "Training", {}), "Epochs")
    return Plan(price.fits, examples / price.examples_per_second, int(epochs))


def digest_of_file(path: str | os.PathLike) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while part := file.read(PART):
            digest.update(part)
    return digest.hexdigest()[:16]


__all__ = ["Failed", "Price", "Trainer", "check_options", "digest_of_file", "errors_of", "options_without_files", "plan_of"]
