# SPDX-License-Identifier: Apache-2.0
"""What is in service: SERVING/REGION/current is a link to the folder of a model, which never changes.

  SERVING/north/2026-11-22-3fa2c1d0/   model.nc, features.txt, run.json, net.json, gate.json, published.json
  SERVING/north/current                -> 2026-11-22-3fa2c1d0
  SERVING/north/recommendations        -> lists-2026-11-22-8c01b2aa

A name is the day and a part of the checksum of what is in the folder: the same is published once."""
import os
import pathlib
import shutil

from .._files import read_json, write_json
from ..errors import DataError, RegionError, UsageError
from .days import Lock, is_day

RECORD, WITHDRAWN = "published.json", "withdrawn.json"
CURRENT, LISTS = "current", "recommendations"
LISTS_PREFIX = "lists-"


def _sync(folder: pathlib.Path) -> None:
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _copy(source: pathlib.Path, target: pathlib.Path) -> None:
    try:
        with open(source, "rb") as old, open(target, "wb") as new:
            shutil.copyfileobj(old, new, 1 << 20)
            new.flush()
            os.fsync(new.fileno())
    except OSError as error:
        raise DataError(f"{error.filename or target}: {error.strerror}; make room or mend it, then run the same command again: what is in "
                        f"service stays until then") from error


class Service:
    """Of one region."""

    def __init__(self, serving: pathlib.Path, region: str):
        self.folder = serving / region

    def lock(self, go_on) -> Lock:
        return Lock(self.folder / ".lock", go_on)

    def target(self, link: str) -> str | None:
        """What a link names."""
        try:
            return os.readlink(self.folder / link)
        except OSError:
            return None

    def current(self) -> dict | None:
        """The record of the model in service; its "id" is the folder's name."""
        name = self.target(CURRENT)
        return self.record(name) if name is not None else None

    def record(self, name: str) -> dict:
        path = self.folder / name / RECORD
        if not path.exists():
            raise RegionError(f"{path}: is missing, and {self.folder / CURRENT} names its folder; restore it, or point the link at another "
                              "model")
        return read_json(path)

    def is_withdrawn(self, name: str) -> bool:
        return (self.folder / name / WITHDRAWN).exists()

    def put(self, name: str, files: dict[str, pathlib.Path], record: dict) -> None:
        """A folder of these files, whole or not there; one that is there stays."""
        if (self.folder / name).exists():
            return
        work = self.folder / f".{name}.work"
        shutil.rmtree(work, ignore_errors=True)
        try:
            work.mkdir()
            for target, source in files.items():
                _copy(source, work / target)
            write_json(work / RECORD, record)
            _sync(work)
            os.replace(work, self.folder / name)
            _sync(self.folder)
        except BaseException:
            shutil.rmtree(work, ignore_errors=True)
            raise

    def point(self, link: str, name: str) -> None:
        """The link names that folder, from one moment to the next."""
        if self.target(link) == name:
            return
        beside = self.folder / f".{link}.{os.getpid()}"
        beside.unlink(missing_ok=True)
        os.symlink(name, beside)
        os.replace(beside, self.folder / link)
        _sync(self.folder)

    def _entries(self) -> list[tuple[str, str]]:
        """(day, name) of the folders of models and lists, the newest first."""
        found = []
        for path in self.folder.iterdir() if self.folder.exists() else []:
            day = path.name.removeprefix(LISTS_PREFIX)[:10]
            if not path.is_symlink() and path.is_dir() and is_day(day):
                found.append((day, path.name))
        return sorted(found, reverse=True)

    def prune(self, keep: int) -> None:
        """Removes what is older than the newest `keep` days that were published; what is in service, and what was before it, stays."""
        entries, current = self._entries(), self.current()
        days = sorted({day for day, _ in entries}, reverse=True)[:keep]
        stays = {self.target(CURRENT), self.target(LISTS), (current or {}).get("previous")}
        for day, name in entries:
            if day not in days and name not in stays:
                gone = self.folder / f".{name}.gone"
                shutil.rmtree(gone, ignore_errors=True)
                os.replace(self.folder / name, gone)
        for left in (*self.folder.glob(".*.gone"), *self.folder.glob(".*.work")):
            shutil.rmtree(left, ignore_errors=True)
        for left in self.folder.glob(".*.[0-9]*"):
            if left.is_symlink():
                left.unlink(missing_ok=True)

    def roll_back(self) -> tuple[str, str]:
        """(what was in service, what is now): the model before it. What was taken back is not published again."""
        current = self.current()
        if current is None:
            raise UsageError(f"{self.folder / CURRENT} is not there: nothing of region \"{self.folder.name}\" is in service")
        before = current["previous"]
        if before is None or not (self.folder / before).exists():
            raise UsageError(f"there is no model before {current['id']} in {self.folder}")
        write_json(self.folder / current["id"] / WITHDRAWN, {"for": before})
        self.point(CURRENT, before)
        return current["id"], before
