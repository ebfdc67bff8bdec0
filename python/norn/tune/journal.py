# SPDX-License-Identifier: Apache-2.0
"""The only truth of a study: a file to which one writer appends events, a JSON object a line, each on the disk before it is
acted on (sync). Lines are numbered, so that a line that is missing, doubled or another one's is seen. A piece of a line at the end, of a
write that a crash cut short, is removed; the event had not been acted on."""
import contextlib
import datetime
import errno
import fcntl
import gc
import json
import math
import os
import pathlib
import socket
import sys
import tempfile
import time
from typing import Any, NoReturn

from ..errors import CommunicationError, DataError

LEASE_SECONDS = 60.0  # a writer of another host that has not touched the lease for so long is gone


def _number(x: Any) -> bool:
    return type(x) in (float, int) and abs(x) <= sys.float_info.max


def _count(x: Any) -> bool:
    return type(x) is int and 0 <= x < 2**53


def _seed(x: Any) -> bool:
    return type(x) is int and 0 <= x < 2**64


def _mean(row: Any) -> bool:
    return isinstance(row, dict) and _count(row.get("trial")) and _number(row.get("value")) and all(
        row.get(key, "") is None or _number(row.get(key)) for key in ("mean", "spread"))


def _comparison(x: Any) -> bool:
    return x is None or isinstance(x, dict) and isinstance(x.get("verdict"), str) and isinstance(x.get("kept"), str) and all(
        _number(x.get(key)) for key in ("value", "plain", "difference", "p", "level", "trials", "examples")) and all(
            x.get(key, "") is None or _number(x.get(key)) for key in ("low", "high"))


# What members of events are, whichever event they stand in.
_MEMBERS = {
    **dict.fromkeys(("trial", "epoch", "epochs", "attempt", "until", "trials", "among", "better", "best"), _count), "seed": _seed,
    **dict.fromkeys(("epoch_seconds", "seconds"), _number),
    **dict.fromkeys(("state", "place", "why", "decision", "from", "key", "made", "kept"), lambda x: isinstance(x, str)),
    **dict.fromkeys(("budget", "settings", "taken"), lambda x: isinstance(x, dict)),
    "running": lambda x: isinstance(x, dict) and all(value is None or type(value) is (int if key == "workers" else str)
                                                     for key, value in x.items()),
    **dict.fromkeys(("fits", "counts", "plain", "examples"), lambda x: isinstance(x, bool)),
    "value": lambda x: x is None or _number(x),
    "values": lambda x: isinstance(x, dict) and all(epoch.isdecimal() and _number(value) for epoch, value in x.items()),
    "row": lambda x: isinstance(x, list) and all(_number(place) for place in x),
    "comparison": _comparison,
    "confirmed": lambda x: isinstance(x, list) and all(_mean(row) for row in x),
}


_DECODER, _ENCODER = json.JSONDecoder(), json.JSONEncoder(ensure_ascii=False, allow_nan=False)


@contextlib.contextmanager
def _without_collection():
    """Many events at once hold no rings, and searches for such would go through all of them time and again, later ones too."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if collects:
            gc.enable()


def parse_event(line: bytes, path: pathlib.Path, number: int) -> dict:
    """Of a line, which has no end; DataError with its number where it is none."""
    try:
        text = line.decode()
        event, end = _DECODER.raw_decode(text) if text[:1] == "{" else (None, -1)
        if end != len(text):
            event = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}:{number}: is no event: {error}; something else has written to the journal: restore it from a copy, "
                        f"or remove this line and all that follow, and the study goes on from there") from error
    if not isinstance(event, dict) or not isinstance(event.get("event"), str) or not isinstance(event.get("n"), int):
        raise DataError(f"{path}:{number}: is no event: expected an object with \"n\" and \"event\"; restore the journal from a copy, "
                        f"or remove this line and all that follow, and the study goes on from there")
    strange = [key for key, value in event.items() if key in _MEMBERS and not _MEMBERS[key](value)]
    if strange:
        raise DataError(f"{path}:{number}: \"{strange[0]}\" of the event \"{event['event']}\" is {json.dumps(event[strange[0]])[:60]}; "
                        "something else has changed it: restore the journal from a copy, or remove this line and all that follow, and the "
                        "study goes on from there")
    return event


def read_events(path: pathlib.Path) -> tuple[list[dict], int]:
    """(events, bytes of the whole lines). A line that stands there twice, as copying tools leave it, counts once."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return [], 0
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    whole = data.rfind(b"\n") + 1
    events: list[dict] = []
    for number, line in enumerate(data[:whole].split(b"\n")[:-1], 1):
        event = parse_event(line, path, number)
        if 1 <= event["n"] <= len(events) and event == events[event["n"] - 1]:
            continue
        if event["n"] != len(events) + 1:
            known = "was another event before" if event["n"] <= len(events) else f"but event {len(events) + 1} is missing"
            raise DataError(f"{path}:{number}: event {event['n']} stands here, {known}; restore the journal from a copy, "
                            f"or remove this line and all that follow, and the study goes on from there")
        events.append(event)
    return events, whole


def last_opening(path: pathlib.Path) -> dict:
    """The event with which a tuner last began, of a file that may be long; empty where there is none."""
    try:
        data = path.read_bytes()
    except OSError:
        return {}
    at = data.rfind(b'"event": "open"')
    end = data.find(b"\n", at)
    if at < 0 or end < 0:
        return {}
    return parse_event(data[data.rfind(b"\n", 0, at) + 1:end], path, data.count(b"\n", 0, at) + 1)


class Journal:
    """Open for writing by this process alone. `events` are those that stand in it."""

    def __init__(self, folder: pathlib.Path):
        self.path = folder / "journal.jsonl"
        self._lease = folder / "lease.json"
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise DataError(f"{self.path}: cannot be opened: {error.strerror}; check the folder of --study") from error
        try:
            self._lock()
            with _without_collection():
                self.events, self._size = read_events(self.path)
            os.ftruncate(self._file, self._size)
            self._synced = self._size
        except BaseException:
            os.close(self._file)
            raise
        self._touched = 0.0
        self.touch()

    def _lock(self) -> None:
        holder = self._holder()
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise DataError(f"{self.path}: cannot be locked: {error.strerror}; put the study on a file system that has "
                                "locks") from error
            raise CommunicationError(f"{self.path}: another tuner is at work on this study{holder or ''}; wait for it, or "
                                     "stop it") from error
        # Locks may not reach other hosts over a network file system; the lease does.
        if holder and socket.gethostname() not in holder and self._lease_age() < LEASE_SECONDS:
            raise CommunicationError(f"{self._lease}: another tuner is at work on this study{holder}; wait for it, stop it, or wait "
                                     f"{LEASE_SECONDS:.0f} s if it is gone")

    def _lease_age(self) -> float:
        """By the clock of the file system, which wrote the lease's time: that of this host may be another. One from the future was left
        before a clock was set back."""
        try:
            with tempfile.TemporaryFile(dir=self.path.parent) as beside:
                now = os.fstat(beside.fileno()).st_mtime
        except OSError:
            now = time.time()
        try:
            return abs(now - self._lease.stat().st_mtime)
        except FileNotFoundError:  # its writer has ended meanwhile
            return math.inf

    def _holder(self) -> str | None:
        try:
            lease = json.loads(self._lease.read_text(encoding="utf-8"))
            return f", process {lease['pid']} on {lease['host']}"
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def touch(self) -> None:
        """To be called now and then: other hosts see that this one is alive."""
        if time.monotonic() - self._touched < 5.0 and self._touched:
            return
        self._touched = time.monotonic()
        try:
            self._lease.write_text(json.dumps({"host": socket.gethostname(), "pid": os.getpid()}), encoding="utf-8")
        except OSError:
            pass  # a full disk; the lock of this host stands

    def append(self, event: str, members: dict[str, Any]) -> dict:
        """The event outlives this process when this returns, and the machine after the next sync(); after an error nothing of it is
        there."""
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        written = {"n": len(self.events) + 1, "event": event, "time": now, **members}
        line = (_ENCODER.encode(written) + "\n").encode()
        try:
            done = 0
            while done < len(line):
                done += os.write(self._file, line[done:])
        except OSError as error:
            self._fail(error, self._size)
        self._size += len(line)
        self.events.append(written)
        return written

    def sync(self) -> None:
        """All events so far are on the disk. To be called before something is done that follows from them: what is only decided can be
        decided again."""
        if self._synced == self._size:
            return
        try:
            os.fdatasync(self._file)
        except OSError as error:
            self._fail(error, self._synced)
        self._synced = self._size

    def _fail(self, error: OSError, size: int) -> NoReturn:
        """What stands behind `size` is not certain to be there."""
        try:
            os.ftruncate(self._file, size)
        except OSError:
            pass  # the next reader removes the piece
        raise DataError(f"{self.path}: cannot be written: {error.strerror}; make room, then run the same command again: "
                        f"the study goes on where it was") from error

    def close(self) -> None:
        try:
            os.fdatasync(self._file)
        except OSError:
            pass  # what is missing is decided again
        try:
            self._lease.unlink(missing_ok=True)
        except OSError:
            pass
        os.close(self._file)
