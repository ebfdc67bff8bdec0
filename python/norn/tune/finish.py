# SPDX-License-Identifier: Apache-2.0
"""What comes of a study: the best trials are trained again with other seeds, because the best of many by one seed owes a part of that to
the seed; the best mean wins. It is kept where it is better than the plain recipe."""
import bisect
import os
import pathlib
import shutil
import statistics
from typing import Any

from .._files import write_json, write_whole
from ..errors import DataError
from . import descriptor, plain
from .facts import PLAIN, Facts, Training
from .search import DONE, HALVED, Search, Trial
from .study import Study

SEEDS = 2**64  # that there are

class Finish:
    """`best` trials (0 or 1: none) are trained with `seeds` other seeds; `compares`: with the plain recipe, too."""

    def __init__(self, study: Study, facts: Facts, best: int, seeds: int, compares: bool = False):
        self.study, self.facts = study, facts
        self.compares = compares and plain.has_examples(study.objective)
        self.best, self.seeds = (best, seeds) if best > 0 and seeds > 0 else (0, 0)
        self._top: list[tuple[float, int]] = []

    def ranked(self, search: Search) -> list[Trial]:
        """Trials that came to their end, the best first; of equal ones the earlier."""
        done = [one for one in search.finished if one.state == DONE]
        return sorted(done, key=lambda one: (-one.values[one.stops[-1]], one.number))

    def ended(self, one: Trial) -> list[int]:
        """To be told of each trial that has ended; those whose models nobody needs any more."""
        if one.state != DONE:
            return [one.number]
        bisect.insort(self._top, (-one.values[one.stops[-1]], one.number))
        return [self._top.pop()[1] for _ in range(len(self._top) - max(1, self.best))]

    def _trainings(self, one: Trial) -> list[Training]:
        seed = descriptor.get(descriptor.get(self.study.network, "Training", {}), "Seed", self.study.identity["made_of"]["seed"])
        return [Training(one.number, (int(seed) + number) % SEEDS) for number in range(1, self.seeds + 1)]

    def plain_wanted(self) -> list[tuple[Training, int]]:
        """The plain recipe's training, where it has still to be made."""
        is_open = self.compares and PLAIN not in self.facts.broken and self.facts.best_value(PLAIN, self.study.epochs) is None
        return [(PLAIN, self.study.epochs)] if is_open else []

    def asks_examples(self, training: Training, epoch: int, search: Search) -> bool:
        """Whether a training to the end of that epoch is to write the values of examples."""
        if not self.compares or training.seed is not None:
            return False
        return training == PLAIN or epoch == search.trials[training.trial].stops[-1]

    def wanted(self, search: Search) -> list[tuple[Training, int]]:
        found = self.plain_wanted()
        for one in self.ranked(search)[:self.best]:
            for training in self._trainings(one):
                if training not in self.facts.broken and self.facts.best_value(training, one.stops[-1]) is None:
                    found.append((training, one.stops[-1]))
        if not found and self.ranked(search):
            # Its model was removed when fewer were kept; it has the same bytes again.
            winner = search.trials[self._winner(search)["trial"]]
            found += self._without_files(Training(winner.number), winner.stops[-1])
            if self._has_plain:
                found += self._without_files(PLAIN, self.study.epochs)
        return found

    @property
    def _has_plain(self) -> bool:
        return self.compares and PLAIN not in self.facts.broken

    def _without_files(self, training: Training, last: int) -> list[tuple[Training, int]]:
        """That training, where what may be kept, and is compared, is not there."""
        folder = self.study.trial_folder(training.folder)
        here = self.facts.trained.get(training) == last  # else its end was taken from another study
        examined = not self._has_plain or training in self.facts.examined  # what has been asked for may not be given
        return [] if here and examined and (folder / "model.nc").exists() else [(training, last)]

    def seconds_left(self, search: Search) -> float:
        """Of one worker, for the trainings with other seeds: about as long as the trials themselves took."""
        took = [self.facts.seconds.get(Training(number), 0.0) for _, number in self._top]
        missing = len(self.wanted(search)) if search.done else self.best * self.seeds + len(self.plain_wanted())
        return missing * sum(took) / len(took) if took else 0.0

    def _confirmed(self, one: Trial) -> list[float]:
        values = [self.facts.best_value(training, one.stops[-1]) for training in self._trainings(one)]
        return [value for value in values if value is not None]

    def _table(self, search: Search) -> list[dict]:
        table = []
        for one in self.ranked(search)[:max(1, self.best)]:
            values = self._confirmed(one)
            table.append({"trial": one.number, "value": self.study.shown(one.values[one.stops[-1]]),
                          "mean": self.study.shown(statistics.fmean(values)) if values else None,
                          "spread": statistics.stdev(values) if len(values) > 1 else None, "values": [self.study.shown(v) for v in values]})
        return table

    def _winner(self, search: Search) -> dict:
        """By the mean of the other seeds, where each has one; else by the search's own value."""
        table = self._table(search)
        if self.best > 1 and all(row["mean"] is not None for row in table):
            return max(table, key=lambda row: (self.study.sign * row["mean"], -row["trial"]))
        return table[0]

    def _compare(self, search: Search, winner: int, trainer, warn) -> dict[str, Any] | None:
        """With the plain recipe; None where that has not come to its end, or nobody asks."""
        if not self._has_plain:
            return None
        looked_at = sum(one.state in (DONE, HALVED) for one in search.finished)
        folders = [self.study.trial_folder(one.folder) for one in (Training(winner), PLAIN)]
        return plain.compared(trainer, *folders, looked_at, warn)

    def conclude(self, search: Search, trainer, warn) -> dict[str, Any]:
        """Writes best.json and best.nc; {best, value, confirmed, kept, comparison, ...}."""
        ranked = self.ranked(search)
        if not ranked:
            states = [one.state for one in search.finished]
            raise DataError(f"{self.study.folder}: none of {len(states)} trials came to its end ({_counted(states)}); --status says why, "
                            f"and a smaller rate or a smaller network may help")
        winner, table = self._winner(search), self._table(search)
        comparison = self._compare(search, winner["trial"], trainer, warn)
        kept = comparison["kept"] if comparison else plain.TRIAL
        training = PLAIN if kept == plain.PLAIN_RECIPE else Training(winner["trial"])
        settings = {} if training == PLAIN else self.facts.decided["propose"][winner["trial"]]["settings"]
        self._write(training, settings)
        for one in ranked[:self.best]:
            for training in self._trainings(one):
                for model in self.study.trial_folder(training.folder).glob("model*.nc"):
                    model.unlink(missing_ok=True)
        remove_pieces(self.study.folder)
        return {"best": winner["trial"], "value": winner["value"], "settings": settings, "confirmed": table if self.best else [],
                "kept": kept, "comparison": comparison}

    def _write(self, training: Training, settings: dict[str, Any]) -> None:
        folder = self.study.trial_folder(training.folder)
        write_json(self.study.folder / "best.json", self.study.network_of(settings))
        model = folder / "model.nc"
        if model.exists():
            copy_whole(model, self.study.folder / "best.nc")


def copy_whole(source: pathlib.Path, target: pathlib.Path) -> None:
    """A second name for the file, where the file system has that; else a copy."""
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        beside.unlink(missing_ok=True)
        os.link(source, beside)
        os.replace(beside, target)
    except OSError:
        beside.unlink(missing_ok=True)
        with open(source, "rb") as file:
            write_whole(target, lambda out: shutil.copyfileobj(file, out))


def remove_pieces(folder: pathlib.Path) -> None:
    """Files that were being written when somebody was killed."""
    for at, _, files in os.walk(folder):
        for name in files:
            if name.startswith(".") and name.rpartition(".")[2].isdigit():
                pathlib.Path(at, name).unlink(missing_ok=True)


def _counted(states: list[str]) -> str:
    return ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states))) or "none began"
