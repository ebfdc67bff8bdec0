# SPDX-License-Identifier: Apache-2.0
"""Trainings that were made before, in this study or in another one beside it: the same descriptor, data, program, device, precision and
epochs give the same bits, so what came of them is known without training again.

The journals of the studies are the only list of them. An outcome carries the key of what it came from; who looks for one reads what has
been appended since the last look. A journal that is removed takes its outcomes with it, and nothing else: what was taken stands in the
journal of the study that took it."""
import copy
import hashlib
import json
import os
import pathlib
import re
import time
from typing import Any, Callable, NamedTuple

from .._files import read_json
from ..errors import Error
from . import descriptor
from .facts import Training, origin_text
from .journal import parse_event
from .program import options_without_files
from .study import Study

LOOK_SECONDS = 5.0  # between two looks for studies that are new
_KEYED = re.compile(rb'"key": "([0-9a-f]{32}/[0-9]+)"')
_OUTCOMES = {"value": ("values", "checksum"), "broken": ("state", "why")}  # what came of a training
_SAID = "why"  # of that: in somebody's own words


class Place(NamedTuple):
    """A line of a journal."""

    journal: pathlib.Path
    begin: int
    length: int


class Taken(NamedTuple):
    """What came of a training that was made before."""

    event: str
    members: dict[str, Any]
    origin: dict[str, Any]  # study (its id), folder, trial, and the seed of one of --confirm

    @property
    def same(self) -> tuple:
        """What is the same whoever makes it."""
        return self.event, {name: value for name, value in self.members.items() if name != _SAID}


class _Journal:
    """How far it was read."""

    def __init__(self, path: pathlib.Path):
        self.path, self.read, self.file = path, 0, None

    def news(self) -> list[tuple[str, Place]]:
        """[(key, its line)] of what has been appended; all of it where another file stands there now. A line that is being written is left
        for the next look."""
        try:
            facts = os.stat(self.path)
            if (facts.st_dev, facts.st_ino) != self.file or facts.st_size < self.read:
                self.file, self.read = (facts.st_dev, facts.st_ino), 0
            if facts.st_size == self.read:
                return []
            with open(self.path, "rb") as file:
                file.seek(self.read)
                data = file.read()
        except OSError:
            return []
        found, at = [], self.read
        for line in data[:data.rfind(b"\n") + 1].splitlines(keepends=True):
            keyed = _KEYED.search(line)
            if keyed:
                found.append((keyed.group(1).decode(), Place(self.path, at, len(line))))
            at += len(line)
        self.read = at
        return found


class Known:
    """What the studies in `folders`, and this one, have made; `folders` None: nothing is looked for."""

    def __init__(self, study: Study, folders: list[pathlib.Path] | None, warn: Callable[[str], None]):
        self.study, self.folders, self._warn = study, folders, warn
        self.made, self._data = study.seen()
        self._own = _Journal(study.folder / "journal.jsonl")
        self._others: dict[pathlib.Path, _Journal] = {}
        self._places: dict[str, list[Place]] = {}
        self._looked: float | None = None
        self._doubted: set[str] = set()
        self._contents: dict[tuple[Training, str], str] = {}

    def key(self, training: Training, settings: dict[str, Any], epoch: int, made: str) -> str:
        """Of a training to the end of that epoch; `made` is trial.made_of of what trains it."""
        content = self._contents.get((training, made))
        if content is None:
            content = self._contents[training, made] = content_of(self.study, settings, training.seed, [made, *self._data])
        return f"{content}/{epoch}"

    def find(self, key: str) -> Taken | None:
        """What came of such a training."""
        if self.folders is None:
            return None
        self._look()
        found: list[Taken] = []
        for place in self._places.get(key, []):
            one = _read(place, key)
            if one is not None:
                found.append(one)
        if any(one.same != found[0].same for one in found):
            other = next(one for one in found if one.same != found[0].same)
            self.doubt(key, origin_text(found[0].origin), other)
            return None
        return found[0] if found else None

    def doubt(self, key: str, one: str, other: Taken) -> None:
        """Somebody's hardware was at fault, or a journal was changed: nobody is believed."""
        if key not in self._doubted:
            self._doubted.add(key)
            self._warn(f"warning: {one} and {origin_text(other.origin)} are the same training and came to something else, so it is made "
                       f"again: check the hardware (trainer --doctor, --verify)")

    def _look(self) -> None:
        journals = [self._own]
        if self._looked is None or time.monotonic() - self._looked > LOOK_SECONDS:
            self._looked = time.monotonic()
            journals += self._beside()
        for journal in journals:
            for key, place in journal.news():
                self._places.setdefault(key, []).append(place)

    def _beside(self) -> list[_Journal]:
        own = os.path.realpath(self._own.path)
        paths = sorted({path for folder in self.folders for path in folder.glob("*/journal.jsonl") if os.path.realpath(path) != own})
        return [self._others.setdefault(path, _Journal(path)) for path in paths]


def content_of(study: Study, settings: dict[str, Any], seed: int | None, made: list[str]) -> str:
    """A digest of all that the bits of a training follow from, but for its epochs. The seed stands apart: it may come from the descriptor,
    from --seed or from the trainer."""
    network = copy.deepcopy(study.network_of(settings))
    training = descriptor.get(network, "Training", {})
    own = training.pop(descriptor.key_in(training, "Seed"), study.identity["made_of"]["seed"])
    whole = [network, own if seed is None else seed, study.objective.casefold(), options_without_files(study.identity["options"]), made]
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:32]


def _read(place: Place, key: str) -> Taken | None:
    """The outcome; None where the file is gone, or another line stands there."""
    try:
        with open(place.journal, "rb") as file:
            file.seek(place.begin)
            line = file.read(place.length)
        event = parse_event(line.rstrip(b"\n"), place.journal, 0)
    except (OSError, Error):
        return None
    needed = _OUTCOMES.get(event["event"], ("",))
    if event.get("key") != key or any(name not in event for name in (*needed, "trial")):
        return None
    return Taken(event["event"], {name: event[name] for name in needed}, event.get("taken") or _origin(place.journal, event))


def _origin(journal: pathlib.Path, event: dict) -> dict[str, Any]:
    try:
        study = read_json(journal.parent / "study.json")["study"]
    except (Error, KeyError, TypeError):
        study = ""
    return {"study": study, "folder": str(journal.parent), **{key: event[key] for key in ("trial", "seed") if key in event}}
