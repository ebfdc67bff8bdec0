# SPDX-License-Identifier: Apache-2.0
"""A day from Python."""
from __future__ import annotations

import dataclasses
import datetime
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import _words
from .._child import run_program
from ..errors import RegionError
from . import days, status
from .regions import Regions
from .serving import CURRENT, Service

if TYPE_CHECKING:
    from .._types import Path

_NAMES = {"executor-file": "executor_settings"}  # arguments, by the options of the program that are called otherwise


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of a region's day.

    state: "published", "held back", "failed" or "open".
    made: the steps that are made.
    step: where it is held back, has failed or goes on; "" where it is published.
    why: what is said of it; of a published one its name in service.
    in_service: the model that is in service now, None where there is none.
    """

    state: str
    made: list[str]
    step: str
    why: str
    in_service: str | None


class Day:
    """What is made on a day for all regions (docs/user/daily.md): import, tune, train, gate, publish, recommend. Nothing is made twice, and
    what a kill or Ctrl-C stopped goes on, from here or by the program daily.

    regions: of which; the path of a regions.json, or Regions.
    day: such as "2026-11-22" or a date; None: today.
    """

    def __init__(self, regions: Regions | Path, day: str | datetime.date | None = None) -> None:
        self.regions = regions if isinstance(regions, Regions) else Regions(_words.path_of("regions", regions))
        self._day = days.Day(self.regions.days, days.day_of(str(day or datetime.date.today())))

    def __repr__(self) -> str:
        return f"<norn.daily.Day {self.day} of {os.fspath(self.regions.path)!r}>"

    @property
    def day(self) -> str:
        """Such as "2026-11-22"."""
        return self._day.day

    def run(self, *, only: Sequence[str] = (), slots: int | None = None, gpus: str | Sequence[int | str] | None = None,
            threads: int | None = None,
            executor: str | None = None, executor_settings: Path | None = None, from_step: str | None = None,
            until: str | None = None) -> dict[str, Outcome]:
        """Makes what is not made yet.

        only: these regions alone.
        slots, gpus, threads: steps at a time, or the GPUs that have one each ([0, 1], "0*5"), and the threads of each.
        executor, executor_settings: what steps and the searches' trials run on, and the path of its settings (docs/user/clusters.md).
        from_step: this step and those after it are made again.
        until: no step after this one is made.

        Returns the outcome of each region; that some are not published is no error. What happens is told to the log "norn". Raises
        UsageError and DataError for what is wrong with the regions, CommunicationError where another one is at work on the day. On Ctrl-C
        steps write checkpoints, KeyboardInterrupt is raised, and run() goes on later."""
        given = {"slots": slots, "gpus": gpus if gpus is None or isinstance(gpus, str) else ",".join(map(str, gpus)), "threads": threads,
                 "executor": executor, "executor-file": executor_settings, "from-step": from_step, "until": until}
        words = ["--regions", os.fspath(self.regions.path), "--day", self.day, *(word for name in only for word in ("--only", name))]
        words += [word for name, value in given.items() if value is not None for word in (f"--{name}", str(value))]
        run_program("daily", words, _NAMES, passed=(RegionError.exit_code,))
        return {name: one for name, one in self.outcomes.items() if not only or name in only}

    @property
    def outcomes(self) -> dict[str, Outcome]:
        """Of each region, as far as it is."""
        found = {}
        for name in self.regions.regions:
            one = status.state_of(self.regions, self._day, name)
            found[name] = Outcome(one.state, one.made, one.where, one.why, Service(self.regions.serving, name).target(CURRENT))
        return found

    def status(self) -> str:
        """A line a region, as text."""
        return status.table(self.regions, self._day, list(self.regions.regions))
