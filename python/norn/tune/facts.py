# SPDX-License-Identifier: Apache-2.0
"""What a journal says: which values are known, which attempts run, what the search has decided before."""
import math
import pathlib
from typing import Any, NamedTuple

from ..errors import DataError, Error
from .journal import Journal
from .search import DONE

TRIES = 5           # attempts in a row that are lost without a new value, and a trial has failed
UNFORESEEN_TRIES = 2
UNFORESEEN = {1, 134, 135, 136, 139}  # a fault of the program: abort, bus error, floating point, segmentation
BROKEN = 0          # the epoch of where a training broke, which is not known
STAGE = ("trials", "epochs", "seconds")
DECISIONS = {"propose": ("trial", "row", "settings"), "plan": ("trial", "fits", "epoch_seconds", "epochs"),
             "rung": ("trial", "epoch", "value"),
             "tell": ("trial", "state", "epochs", "value")}  # and what is read of each


class Training(NamedTuple):
    """A trial, one of its trainings with another seed (--confirm), or PLAIN."""

    trial: int
    seed: int | None = None

    @property
    def of_search(self) -> bool:
        return self.trial >= 0 and self.seed is None

    @property
    def folder(self) -> str:
        if self.trial < 0:
            return "plain"
        return f"{self.trial:04d}" + (f"-seed{self.seed}" if self.seed is not None else "")

    @property
    def members(self) -> dict[str, Any]:
        if self.trial < 0:
            return {"plain": True}
        return {"trial": self.trial, **({"seed": self.seed} if self.seed is not None else {})}


PLAIN = Training(-1)  # the plain recipe's


def training_of(event: dict) -> Training:
    return PLAIN if event.get("plain") else Training(event["trial"], event.get("seed"))


def origin_text(origin: dict[str, Any]) -> str:
    """trial 7 of /studies/first"""
    seed = f" with seed {origin['seed']}" if "seed" in origin else ""
    return f"trial {origin.get('trial')}{seed} of {origin.get('folder')}"


class Facts:
    """Follows a journal, event by event. Values are larger for better, whatever the metric."""

    def __init__(self, journal: Journal):
        self.journal = journal
        self.original = None  # of a search that is made again (repeat.py): each decision is compared with its own
        self._begin(journal.path, journal.events)

    @classmethod
    def read_only(cls, path: pathlib.Path, events: list[dict]) -> "Facts":
        """Of a journal that somebody else may be writing."""
        facts = cls.__new__(cls)
        facts._begin(path, events)
        return facts

    def _begin(self, path: pathlib.Path, events: list[dict]) -> None:
        self.values: dict[Training, dict[int, float]] = {}
        self.checksums: dict[Training, dict[int, str]] = {}
        self.seconds: dict[Training, float] = {}
        self.broken: dict[Training, str] = {}
        self.attempts: dict[Training, int] = {}
        self.taken: dict[Training, dict[int, dict]] = {}  # {training: {epoch: where its outcome was taken from}}
        self.trained: dict[Training, int] = {}  # the epoch to which it was last trained here: that of its model, where it has one
        self.examined: set[Training] = set()    # trained to their end with the values of examples asked for
        self.made: str | None = None            # trial.made_of of the last training
        self.open: dict[Training, dict] = {}    # {training: its submit event}, while nothing has come of it
        self.lost_in_row: dict[Training, int] = {}
        self.budget: dict[str, Any] = {}
        self.stages: list[dict[str, Any]] = []  # budgets, each of which the search makes to its end before the next one counts
        self.ended: dict | None = None
        self.decided: dict[str, list[dict]] = {kind: [] for kind in DECISIONS}
        self._confirmed: dict[str, int] = {kind: 0 for kind in DECISIONS}
        for event in events:
            try:
                self._take(event)
            except (KeyError, TypeError, ValueError) as error:
                raise DataError(f"{path}:{event['n']}: the event \"{event['event']}\" lacks {error} or has another type there; "
                                f"restore the journal from a copy, or remove this line and all that follow") from error

    def note(self, event: str, members: dict[str, Any]) -> None:
        """Writes an event down, then it counts."""
        self._take(self.journal.append(event, members))

    def _take(self, event: dict) -> None:
        kind = event["event"]
        if kind in DECISIONS:
            missing = [key for key in DECISIONS[kind] if key not in event or (event[key] is None and event.get("state") == DONE)]
            if missing:
                raise KeyError(missing[0])
            self.decided[kind].append({key: value for key, value in event.items() if key not in ("n", "event", "time")})
        elif kind == "open":
            self.budget, self.ended = event["budget"], None
            if event["stage"]:
                self.stages.append({key: event["budget"][key] for key in STAGE if event["budget"][key] is not None})
        elif kind == "limit":
            self.stages[event["stage"]]["trials"] = event["trials"]
            self.stages[event["stage"]]["cut"] = True
        elif kind == "end":
            self.ended = {**event, "best": event["best"], "confirmed": event["confirmed"]}
        elif kind == "submit":
            training = training_of(event)
            self.attempts[training], self.open[training] = event["attempt"], event
        elif kind in ("value", "lost", "broken"):
            self._take_outcome(kind, training_of(event), event)

    def _take_outcome(self, kind: str, training: Training, event: dict) -> None:
        begun = self.open.pop(training, {})
        self.seconds[training] = self.seconds.get(training, 0.0) + event.get("seconds", 0.0)
        if kind == "value":
            self.lost_in_row.pop(training, None)
            if begun.get("examples"):
                self.examined.add(training)
            for epoch, value in event["values"].items():
                self.values.setdefault(training, {})[int(epoch)] = float(value)
            last = max(map(int, event["values"]), default=0)
            self.checksums.setdefault(training, {})[last] = event["checksum"]
            if "taken" in event:
                self.taken.setdefault(training, {})[last] = event["taken"]
            else:
                self.made, self.trained[training] = event.get("made", self.made), last
        elif kind == "broken":
            self.broken[training] = event["state"]
            if "taken" in event:
                self.taken.setdefault(training, {})[BROKEN] = event["taken"]
        elif event.get("counts", True):
            self.lost_in_row[training] = self.lost_in_row.get(training, 0) + 1

    def differing(self, training: Training, values: dict[int, float]) -> int | None:
        """The first epoch of which another value is known."""
        known = self.values.get(training, {})
        return next((epoch for epoch, value in values.items() if known.get(epoch, value) != value), None)

    def compare(self, training: Training, values: dict[int, float]) -> None:
        """The same training gave the same values before, or the hardware or the build is another."""
        epoch = self.differing(training, values)
        if epoch is not None:
            origin = next((f" ({origin_text(one)})" for at, one in sorted(self.taken.get(training, {}).items()) if at >= epoch), "")
            raise Error(f"trials/{training.folder}: epoch {epoch} gave {self.values[training][epoch]!r} before{origin} and gives "
                        f"{values[epoch]!r} now; the same training must give the same: check the hardware (trainer --doctor, --verify), "
                        "and that the program is the same build")

    def origin(self, training: Training, epoch: int) -> dict | None:
        """Where what came of it by that epoch was taken from; None: it was trained here."""
        taken = self.taken.get(training, {})
        return taken.get(BROKEN if training in self.broken and epoch not in taken else epoch)

    def tries_left(self, training: Training, code: int) -> bool:
        """Whether a training that was lost is begun again."""
        return self.lost_in_row.get(training, 0) + 1 < (UNFORESEEN_TRIES if code in UNFORESEEN else TRIES)

    def decide(self, kind: str, members: dict[str, Any]) -> bool:
        """Writes a decision down; one that was taken before must be the same again. True: it is a new one."""
        at = self._confirmed[kind]
        self._confirmed[kind] += 1
        if self.original is not None:
            self.original.compare(kind, at, members)
        if at >= len(self.decided[kind]):
            self.note(kind, members)
            return True
        if self.decided[kind][at] != members:
            differing = next(key for key in {**members, **self.decided[kind][at]} if members.get(key) != self.decided[kind][at].get(key))
            raise DataError(f"{self.journal.path}: {kind} {at + 1} has {differing} {self.decided[kind][at].get(differing)!r}, and from "
                            f"what stands before it follows {members.get(differing)!r}; the file was changed, or another version wrote it: "
                            f"restore it from a copy, or begin another study (--from takes what this one knows)")
        return False

    def best_value(self, training: Training, epoch: int) -> float | None:
        return best_until(self.values.get(training, {}), epoch)


def best_until(values: dict[int, float], epoch: int) -> float | None:
    """The best value up to that epoch; None where nothing was validated."""
    return max((value for at, value in values.items() if at <= epoch and math.isfinite(value)), default=None)
