# SPDX-License-Identifier: Apache-2.0
"""How far a study that runs is, in a line: trials, the best, and when its end may be expected."""
import fcntl
import math
import struct
import sys
import termios
import time
from typing import TextIO

from .._script import called_as
from ..report.drawing import seconds
from .facts import Training

REDRAW_SECONDS, LINE_SECONDS = 0.5, 30.0


class Line:
    """The last line of a terminal, which changes in place; elsewhere lines now and then."""

    def __init__(self, out: TextIO | None = None):
        self._out = sys.stderr if out is None else out
        self._terminal = self._out.isatty()
        self._last = self._shown = ""
        self._drawn = time.monotonic() - (LINE_SECONDS if self._terminal else 0.0)

    def due(self) -> bool:
        return time.monotonic() - self._drawn >= (REDRAW_SECONDS if self._terminal else LINE_SECONDS)

    def show(self, text: str) -> None:
        """To be called when it is due."""
        self._drawn = time.monotonic()
        if text == self._last:
            return
        self._last = text
        if self._terminal:
            self._shown = text
            self._write("\r\033[K" + self._cut(text))
        else:
            self.say(text)

    def say(self, text: str) -> None:
        """A line that stays, above the one that changes."""
        clear, again = ("\r\033[K", self._cut(self._shown)) if self._shown else ("", "")
        self._drawn = self._drawn if self._terminal else time.monotonic()
        self._write(f"{clear}{called_as('tuner')}: {text}\n{again}")

    def end(self) -> None:
        if self._shown:
            self._shown = ""
            self._write("\r\033[K")

    def _cut(self, text: str) -> str:
        # A longer line would leave parts of itself behind.
        return text[:_columns(self._out) - 1]

    def _write(self, text: str) -> None:
        try:
            self._out.write(text)
            self._out.flush()
        except (OSError, ValueError):
            pass  # nobody reads any more; the study goes on


def _columns(out: TextIO) -> int:
    try:
        return struct.unpack("HHHH", fcntl.ioctl(out.fileno(), termios.TIOCGWINSZ, b"\0" * 8))[1] or 80
    except (OSError, ValueError):
        return 80


def progress(coordinator, best: float | None, taken: int) -> str:
    """Of a coordinator at work; `best` is the best value so far, and `taken` trials were made before."""
    facts, search, study = coordinator.facts, coordinator.search, coordinator.study
    told = len(facts.decided["tell"])
    done = f"{told} of {search.limit:.0f} trials" if math.isfinite(search.limit) else f"{told} trials"
    if taken:
        done += f" ({taken} taken)"
    if math.isfinite(search.epoch_limit):
        done += f", {search.spent_epochs} of {search.epoch_limit:.0f} epochs"
    if math.isfinite(search.second_limit):
        done += f", {search.spent_seconds / 3600:.3g} of {search.second_limit / 3600:.3g} planned hours"
    parts = [done, f"{len(coordinator.running)} running"]
    if best is not None:
        parts.append(f"best {study.objective} {study.shown(best):.5g}")
    left = seconds_left(coordinator)
    if left is not None:
        parts.append(f"{seconds(max(1.0, left))} left")
    return ", ".join(parts)


def seconds_left(coordinator) -> float | None:
    """From what trials took so far; None where nothing says when the search ends, or before a trial has ended."""
    facts, search = coordinator.facts, coordinator.search
    spent = sum(facts.seconds.get(Training(event["trial"]), 0.0) for event in facts.decided["tell"])
    if not spent:
        return None
    begun = sum(took for training, took in facts.seconds.items() if training.of_search)
    ended, places = len(facts.decided["tell"]), max(1, len(coordinator.pool.places))
    ends = [] if search.done else [max(0.0, spent * share - begun) / places for share in _shares(search, ended)]
    if coordinator.deadline is not None and not search.done:
        ends.append(max(0.0, coordinator.deadline - time.monotonic()) + spent / ended)
    if not ends and not search.done:
        return None
    return min(ends, default=0.0) + coordinator.finish.seconds_left(search) / places


def _shares(search, ended: int) -> list[float]:
    """By each limit how many times what has been done is the whole."""
    pairs = ((search.limit, ended), (search.epoch_limit, search.spent_epochs), (search.second_limit, search.spent_seconds))
    return [limit / done for limit, done in pairs if math.isfinite(limit) and done]
