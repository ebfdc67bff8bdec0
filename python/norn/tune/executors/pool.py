# SPDX-License-Identifier: Apache-2.0
"""Attempts that are under way. Their folders say what came of them: a result; a lock that an attempt and its trainer hold; a lease that
a living attempt touches. The executor is asked of those alone that have not begun.

Clocks of other hosts do not matter: a lease is stale when this process has not seen it change for HeartbeatSeconds."""
import os
import pathlib
import socket
import time
from typing import Callable, Iterable

from ..._files import JsonText, read_json
from ...errors import CommunicationError, DataError, UsageError
from .. import trial
from . import GONE, JOB_OUTPUT, Attempt, Executor, Place
from .local import gpu_places
from .settings import Settings, make

ENDED, LOST, UNBEGUN = "ended", "lost", "unbegun"
PATIENCE = 300.0    # seconds for which an executor may be out of reach
UNBEGUN_TRIES = 5   # attempts in a row that never began
MPIRUN = ("mpirun", "--bind-to", "none", "-np")
SRUN = ("srun", "--mpi=pmix", "--wait=60", "-n")


class Pool:
    """So many attempts at a time as it has places."""

    def __init__(self, executor: Executor, places: list[Place], settings: Settings, warn: Callable[[str], None] = print):
        self.executor, self.places, self.settings, self.warn = executor, places, settings, warn
        self._host = socket.gethostname()
        self._unsent: set[Attempt] = set()
        self._stopped: set[Attempt] = set()
        self._waits: dict[pathlib.Path, int] = {}  # how often an attempt there waited too long
        self._since: dict[Attempt, float] = {}     # when it was submitted
        self._changed: dict[Attempt, tuple[int, float]] = {}  # {attempt: (a lease's time, when it was first seen)}
        self._asked: float | None = None           # when the executor was
        self._trouble: float | None = None         # since when it has been out of reach
        self._unbegun = 0                          # in a row

    @property
    def is_here(self) -> bool:
        """Whether trials run on this machine."""
        return self.settings.executor == "local"

    def members(self, place: Place) -> dict:
        """What an attempt is to know of where it runs."""
        ranks = self.settings.ranks
        launch = [*(SRUN if self.settings.executor == "slurm" else MPIRUN), str(ranks)] if ranks > 1 else []
        named = list(place.gpus) or self.settings.get("GpuNames")
        return {"launch": launch, "heartbeat": self.settings["HeartbeatSeconds"], "gpus": named,
                "gpu_count": len(place.gpus) or self.settings.get("Gpus") or 0}

    def threads(self, wanted: int | None) -> int:
        """Of each rank; 0: as many as the trainer takes by itself."""
        if wanted or self.settings.get("Cpus"):
            return wanted or self.settings["Cpus"]
        if self.settings.executor != "local":
            return 0 if self.settings["Gpus"] else 1
        return 0 if self.places[0].gpus else max(1, (os.cpu_count() or 1) // (len(self.places) * self.settings.ranks))

    def submit(self, attempt: Attempt) -> None:
        self._since[attempt] = time.monotonic()
        self._unsent.add(attempt)
        self._send()

    def stop(self, attempt: Attempt) -> None:
        """It writes a checkpoint and ends, or never begins."""
        if attempt in self._stopped:
            return
        (attempt.folder / trial.STOP).touch()
        self._stopped.add(attempt)
        self._asked = None
        if attempt not in self._unsent and not trial.Lease(attempt.folder).begun(attempt.number):
            self._bear(lambda: self.executor.stop(attempt.name))

    def ended(self, attempts: Iterable[Attempt]) -> dict[Attempt, str]:
        """Those that are over, and how: with a result, lost on their way, or before they began."""
        found, waiting = {}, []
        for attempt in attempts:
            how = self._look(attempt)
            if how is None:
                waiting.append(attempt)
            elif how:
                found[attempt] = how
        found.update(self._ask(waiting))
        for attempt, how in found.items():
            self._forget(attempt, how)
        return found

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def _look(self, attempt: Attempt) -> str | None:
        """What the folder says: ENDED, LOST, "" while it is at work, None where it has not begun."""
        lease = trial.Lease(attempt.folder)
        stale = self._stale(attempt, lease)
        if self._result(attempt) and (not lease.held or stale):
            return ENDED
        if not lease.begun(attempt.number):
            return None
        return LOST if not lease.held and (stale or lease.host == self._host) else ""

    def _result(self, attempt: Attempt) -> bool:
        path = attempt.folder / trial.RESULT
        try:
            return path.exists() and read_json(path)["attempt"] == attempt.number
        except DataError:
            return False

    def _stale(self, attempt: Attempt, lease: "trial.Lease") -> bool:
        time_of, since = self._changed.get(attempt, (None, 0.0))
        if time_of != lease.touched:
            self._changed[attempt] = lease.touched, time.monotonic()
            return False
        return time.monotonic() - since > self.settings["HeartbeatSeconds"]

    def _ask(self, waiting: list[Attempt]) -> dict[Attempt, str]:
        """The executor, of what has not begun; not all the time."""
        now = time.monotonic()
        if not waiting or self._asked is not None and now - self._asked < self.settings["PollSeconds"]:
            return {}
        self._asked = now
        found = dict.fromkeys(self._unsent & self._stopped, UNBEGUN)
        self._unsent -= self._stopped
        self._send()
        sent = [attempt for attempt in waiting if attempt not in self._unsent and attempt not in found]
        states: dict[str, str] = {}
        if sent:
            self._bear(lambda: states.update(self.executor.poll([attempt.name for attempt in sent])))
        for attempt in sent:
            # It may have begun, and even ended, while the executor was asked.
            if states.get(attempt.name) == GONE and self._look(attempt) is None:
                found[attempt] = UNBEGUN
            elif attempt not in self._stopped and self._late(attempt, now):
                self._waits[attempt.folder] = self._waits.get(attempt.folder, 0) + 1
                self.warn(f"warning: {attempt.name} has waited for {now - self._since[attempt]:.0f} s (StartSeconds) and is submitted "
                          f"anew; does anybody work on the queue?")
                self.stop(attempt)
                found[attempt] = UNBEGUN
        return found

    def _late(self, attempt: Attempt, now: float) -> bool:
        """Whether it has waited so long that it may be lost. Each time the next one may wait twice as long: where a queue is only full,
        it comes to its turn."""
        seconds = self.settings["StartSeconds"]
        return seconds is not None and now - self._since.setdefault(attempt, now) > seconds * 2 ** self._waits.get(attempt.folder, 0)

    def _send(self) -> None:
        for attempt in list(self._unsent):
            if self._bear(lambda: self.executor.submit(attempt)):
                self._unsent.discard(attempt)

    def _bear(self, call: Callable[[], object]) -> bool:
        """An executor that is out of reach for a while ends nothing: what runs goes on, and its folders are read."""
        try:
            call()
        except CommunicationError as error:
            now = time.monotonic()
            if self._trouble is None:
                self._trouble = now
                self.warn(f"warning: {error}; trying again for {PATIENCE:.0f} s")
            elif now - self._trouble > PATIENCE:
                raise
            return False
        self._trouble = None
        return True

    def _forget(self, attempt: Attempt, how: str) -> None:
        stopped = attempt in self._stopped
        self._stopped.discard(attempt)
        self._changed.pop(attempt, None)
        self._since.pop(attempt, None)
        if how != UNBEGUN:
            self._waits.pop(attempt.folder, None)
            self._unbegun = 0
        elif not stopped:
            self._unbegun += 1
            if self._unbegun >= UNBEGUN_TRIES:
                raise CommunicationError(f"{attempt.folder / JOB_OUTPUT}: {_last_words(attempt)}; {UNBEGUN_TRIES} attempts in a row never "
                                         f"began: check that the folder of the study and {os.path.dirname(trial.__file__)} have the same "
                                         "paths where trials run, then run the same command again")


def _last_words(attempt: Attempt) -> str:
    try:
        lines = (attempt.folder / JOB_OUTPUT).read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1] if lines else "says nothing"


def open_pool(wish, ranks: int) -> Pool:
    """As the options say."""
    if wish.executor_file and wish.executor == "local":
        raise UsageError("--executor-file: is for another --executor; on this machine --workers, --gpus and --threads say all")
    if wish.gpus and wish.executor != "local":
        raise UsageError(f"--gpus: are those of this machine; give Gpus, how many a trial has, in a file for --executor {wish.executor} "
                         "(--executor-file)")
    if wish.workers > 1 and wish.gpus:
        raise UsageError("--workers and --gpus: give one of the two; with --gpus there is a worker for each")
    settings = Settings(wish.executor, ranks, JsonText(wish.executor_file) if wish.executor_file else None)
    if wish.executor == "local":
        settings["PollSeconds"] = 0.0
    places = gpu_places(wish.gpus, settings.ranks) if wish.gpus else [Place(f"worker {number}") for number in range(wish.workers)]
    return Pool(make(settings), places, settings)
