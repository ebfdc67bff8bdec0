# SPDX-License-Identifier: Apache-2.0
"""The folders of a day, and what a step leaves in them.

  DAYS/2026-11-22/.daily/            what is of no region: plan.json, the runner's lock, what steps print
  DAYS/2026-11-22/REGION/STEP/       what the step has made, with stamp.json: of what it was made
  DAYS/2026-11-22/REGION/STEP.work/  the same while it is being made
  DAYS/2026-11-22/REGION/STEP.lock   held while somebody is at work on it, by that process and by the program that it runs"""
import datetime
import fcntl
import hashlib
import json
import os
import pathlib
import re
import shutil
import time
from typing import Any, Callable

from .._files import read_json, write_json
from ..errors import DataError, RegionError, UsageError


STEPS = ("import", "tune", "train", "gate", "publish", "recommend")
ON_GPU = ("tune", "train", "gate", "recommend")
STAMP, BEGUN = "stamp.json", "begun.json"
MADE, HELD_BACK, FAILED = "made", "held back", "failed"  # outcomes
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
WAIT_SECONDS = 0.1


def day_of(text: str) -> str:
    """2026-11-22, a day that there is. One that is to come is refused: what is published for it would bar the days before it."""
    try:
        day = datetime.date.fromisoformat(text) if _DAY.fullmatch(text) else None
    except ValueError:
        day = None
    if day is None:
        raise UsageError(f"--day: \"{text}\" is no day; write year, month and day such as 2026-11-22")
    if day > datetime.datetime.now(datetime.timezone.utc).date() + datetime.timedelta(days=1):
        raise UsageError(f"--day: {text} is to come; check the date")
    return text


def is_day(text: str) -> bool:
    try:
        return _DAY.fullmatch(text) is not None and bool(datetime.date.fromisoformat(text))
    except ValueError:
        return False


def days_between(earlier: str, later: str) -> int:
    return (datetime.date.fromisoformat(later) - datetime.date.fromisoformat(earlier)).days


def day_before(day: str, back: int) -> str:
    """The day so many days before."""
    return (datetime.date.fromisoformat(day) - datetime.timedelta(back)).isoformat()


def checksum(path: pathlib.Path) -> str:
    """SHA-256 of a file; of a folder that of its files in the order of their names. RegionError: it cannot be read."""
    sums = hashlib.sha256()
    try:
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            if file != path:
                sums.update(file.name.encode() + b"\0")
            with open(file, "rb") as stream:
                while piece := stream.read(1 << 20):
                    sums.update(piece)
    except OSError as error:
        raise RegionError(f"{error.filename}: cannot be read: {error.strerror}") from error
    return sums.hexdigest()


def digest_of(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


class Lock:
    """Of a file; whoever inherits `file` holds it too. It waits as long as `go_on` lets it."""

    def __init__(self, path: pathlib.Path, go_on: Callable[[], Any]):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise DataError(f"{path}: cannot be made: {error.strerror}; check Days in the file of --regions") from error
        self._go_on = go_on

    def try_once(self) -> bool:
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return False

    def __enter__(self) -> "Lock":
        try:
            while not self.try_once():
                self._go_on()
                time.sleep(WAIT_SECONDS)
        except BaseException:
            os.close(self.file)
            raise
        return self

    def __exit__(self, *_) -> None:
        os.close(self.file)


class Day:
    """Of all regions."""

    def __init__(self, days: pathlib.Path, day: str):
        self.days, self.day = days, day
        self.folder = days / day
        self.own = self.folder / ".daily"

    def region(self, name: str) -> "RegionDay":
        return RegionDay(self, name)

    def earlier(self) -> list["Day"]:
        """Days before this one that have a folder, the newest first."""
        try:
            names = sorted((p.name for p in self.days.iterdir() if is_day(p.name) and p.name < self.day), reverse=True)
        except FileNotFoundError:
            return []
        return [Day(self.days, name) for name in names]


class RegionDay:
    """Of one region."""

    def __init__(self, day: Day, name: str):
        self.day, self.name = day, name
        self.folder = day.folder / name

    def made(self, step: str) -> pathlib.Path:
        return self.folder / step

    def work(self, step: str) -> pathlib.Path:
        return self.folder / f"{step}.work"

    def outcome(self, step: str) -> pathlib.Path:
        """What came of the step when it was called last: state and message; not there while it is at work, or was killed."""
        return self.folder / f"{step}.outcome.json"

    def lock(self, step: str, go_on: Callable[[], Any]) -> Lock:
        return Lock(self.folder / f"{step}.lock", go_on)

    def stamp(self, step: str) -> dict | None:
        """What the step has made, if it has."""
        path = self.made(step) / STAMP
        return read_json(path) if path.exists() else None

    def outputs(self, step: str) -> dict[str, str]:
        """{file: checksum} of a step that must have been made."""
        stamp = self.stamp(step)
        if stamp is None:
            raise RegionError(f"{self.name}: step {step} has not been made on {self.day.day}; run it first")
        return stamp["outputs"]

    def earlier(self, path: str) -> pathlib.Path | None:
        """That file or folder of the newest earlier day that has it."""
        return next((found for day in self.day.earlier() if (found := day.folder / self.name / path).exists()), None)

    def is_made(self, step: str, inputs: Any) -> bool:
        """Whether it was made of the same, and is whole."""
        stamp = self.stamp(step)
        return stamp is not None and stamp["digest"] == digest_of(inputs) and all(
            (self.made(step) / name).is_file() and (self.made(step) / name).stat().st_size == size for name, size in stamp["sizes"].items())

    def begin(self, step: str, inputs: Any) -> pathlib.Path:
        """The folder to work in: as a killed step left it, where that was made of the same."""
        work, digest = self.work(step), digest_of(inputs)
        if work.exists() and not ((work / BEGUN).exists() and read_json(work / BEGUN) == digest):
            shutil.rmtree(work)
        work.mkdir(parents=True, exist_ok=True)
        write_json(work / BEGUN, digest)
        return work

    def finish(self, step: str, inputs: Any, outputs: list[str], result: dict) -> None:
        """Puts what was made into its place, beside which nothing is left."""
        work, made = self.work(step), self.made(step)
        write_json(work / STAMP, {"step": step, "digest": digest_of(inputs), "inputs": inputs, "result": result,
                                  "outputs": {name: checksum(work / name) for name in outputs},
                                  "sizes": {name: (work / name).stat().st_size for name in outputs}})
        self.forget(step)
        os.replace(work, made)

    def forget(self, step: str) -> None:
        """What the step made is away at once; it is made again when it is asked for."""
        old = self.folder / f"{step}.old"
        shutil.rmtree(old, ignore_errors=True)
        if self.made(step).exists():
            os.replace(self.made(step), old)
            shutil.rmtree(old)
