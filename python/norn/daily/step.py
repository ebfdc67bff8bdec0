# SPDX-License-Identifier: Apache-2.0
"""One step of one region: it takes its lock, looks whether it is made already, works beside its place, and renames."""
import importlib
import os
import pathlib
from typing import Any, NamedTuple

from .._files import write_json
from ..errors import DataError, Error, RegionError
from .days import FAILED, HELD_BACK, MADE, STAMP, Day, RegionDay, days_between
from .programs import Programs
from .regions import Region, Regions


class HeldBack(RegionError):
    """By the gate, a rollback, or a later day: there is nothing to mend."""


class Work(NamedTuple):
    """What a step works with. A step is a module with
      inputs(work)        what its result follows from, as JSON
      make(work, folder)  makes it in that folder, where a killed one may have left a part; (names of the files that later steps
                          read, what there is to say of it)"""

    regions: Regions
    region: Region
    day: RegionDay
    programs: Programs
    threads: int
    search_words: tuple[str, ...] = ("--workers", "1")  # of tuner: what trials run on

    def build(self, name: str) -> str:
        return self.programs.build(name, self.day.day.own)

    def run(self, name: str, words: list[Any], folder: pathlib.Path, launch: list[str] | None = None) -> None:
        self.programs.run(name, list(map(str, words)), folder, launch)


def day_pattern(pattern: str, day: str) -> pathlib.Path:
    return pathlib.Path(pattern.replace("{day}", day))


def _module(step: str) -> Any:
    return importlib.import_module(f".{step}_step", __package__)


def is_made(step: str, work: Work) -> bool:
    """Whether there is nothing to do, as far as can be seen from here; what came of the step is then noted."""
    day = work.day
    if not (day.made(step) / STAMP).exists():
        return False
    lock = day.lock(step, work.programs.stop.check)
    try:
        if not lock.try_once() or not day.is_made(step, _module(step).inputs(work)):
            return False
    except (Error, OSError):
        return False  # the step itself will say it
    finally:
        os.close(lock.file)
    _note(day, step, MADE, "")
    return True


def do(step: str, work: Work) -> dict:
    """Makes the step where it is not made of the same already; its stamp. What went wrong stands in a file beside it, until it is made."""
    day, module = work.day, _module(step)
    with day.lock(step, work.programs.stop.check) as lock:
        work.programs.locks.append(lock.file)
        try:
            inputs = module.inputs(work)
            if not day.is_made(step, inputs):
                folder = day.begin(step, inputs)
                outputs, result = module.make(work, folder)
                day.finish(step, inputs, outputs, result)
            _note(day, step, MADE, "")
            return day.stamp(step)
        except OSError as error:
            failed = RegionError(f"{error.filename or day.folder}: {error.strerror}; make room or mend it, then run the same command again")
            _note(day, step, FAILED, str(failed))
            raise failed from error
        except DataError as error:
            _note(day, step, FAILED, str(error))
            raise RegionError(str(error)) from error
        except RegionError as error:
            _note(day, step, HELD_BACK if isinstance(error, HeldBack) else FAILED, str(error))
            raise


def _note(day: RegionDay, step: str, state: str, message: str) -> None:
    try:
        write_json(day.outcome(step), {"state": state, "message": message})
    except Error:
        pass  # a full disk; the message is said, too


def follow(path: pathlib.Path, name: pathlib.Path) -> None:
    """`name` becomes a link to `path`, whatever it was."""
    name.unlink(missing_ok=True)
    os.symlink(path, name)


def earlier_study(day: Day, region: str) -> tuple[str, pathlib.Path] | None:
    """(day, its study) of the newest earlier day on which the region was tuned."""
    return next(((one.day, study) for one in day.earlier() if (study := study_of(one, region)) is not None), None)


def is_due(regions: Regions, day: Day, region: str) -> bool:
    """Whether the region is searched on that day; else the descriptor of its last search is good for it, too."""
    earlier = earlier_study(day, region)
    return earlier is None or days_between(earlier[0], day.day) >= regions.tune["Every"]


def study_of(day: Day, region: str) -> pathlib.Path | None:
    """The study that a region has finished on a day."""
    found = day.folder / region / "tune/study"
    return found if (found / "best.json").exists() else None
