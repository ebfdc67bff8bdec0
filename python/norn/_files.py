# SPDX-License-Identifier: Apache-2.0
"""JSON with comments, as descriptors have it, and files that are whole or not there. Standard library alone: trials use it
on machines of their own."""
from __future__ import annotations

import json
import os
import pathlib
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .errors import DataError, UsageError

if TYPE_CHECKING:
    from ._types import Path

MOST_BYTES = 64 << 20  # of a document: devices and pipes may have no end

# A string, or a comment of one of the two kinds.
_STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.S)


def without_comments(text: str) -> str:
    """The same text with blanks for comments: lines and columns stay."""
    def blank(match: re.Match[str]) -> str:
        found = match.group()
        return found if found[0] == '"' else re.sub(r"[^\n]", " ", found)
    return _STRING_OR_COMMENT.sub(blank, text)


class JsonText:
    """A JSON document and where its keys stand."""

    def __init__(self, path: Path):
        self.path = pathlib.Path(path)
        try:
            with open(self.path, "rb") as file:
                data = file.read(MOST_BYTES + 1)
            if len(data) > MOST_BYTES:
                raise UsageError(f"{path}: has more than {MOST_BYTES >> 20} MiB, which no document has; name another file")
            self.text = without_comments(data.decode("utf-8").replace("\r\n", "\n"))
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}; check the path") from error
        except UnicodeDecodeError as error:
            raise UsageError(f"{path}: is not UTF-8 text (byte {error.start}); write it as UTF-8") from error
        try:
            self.value = json.loads(self.text, object_pairs_hook=self._pairs, parse_constant=self._constant)
            json.dumps(self.value, ensure_ascii=False).encode()
        except json.JSONDecodeError as error:
            raise UsageError(f"{path}:{error.lineno}: not JSON: {error.msg} (column {error.colno})") from error
        except RecursionError as error:
            raise UsageError(f"{path}: brackets are nested too deep") from error
        except UnicodeEncodeError as error:
            raise UsageError(f"{path}: a string holds half a character, such as \\ud800; write both halves, or the character "
                             "itself") from error

    def _constant(self, word: str) -> None:
        at = self.text.count("\n", 0, self.text.find(word)) + 1
        raise UsageError(f"{self.path}:{at}: {word} is no number of JSON; write a finite one")

    def _pairs(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise UsageError(f"{self.path}:{self.line(key, last=True)}: \"{key}\" is given twice; remove one of the two")
            found[key] = value
        return found

    def line(self, key: str, last: bool = False) -> int:
        """The line, from 1, that the key stands on: its first place, or the last; 1 where it is not found."""
        places = [match.start() for match in re.finditer(re.escape(json.dumps(key, ensure_ascii=False)) + r"\s*:", self.text)]
        return self.text.count("\n", 0, places[-1 if last else 0]) + 1 if places else 1


def read_json(path: Path) -> Any:
    """A file that a program wrote; DataError where it is not whole."""
    try:
        return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise DataError(f"{path}: not JSON: {error}; it was written by a program, and something has changed it") from error


def write_whole(path: Path, write: Callable[[Any], None], lasting: bool = True) -> None:
    """`write` gets a binary file beside `path`, which then takes its place: a reader sees the old one or the new one whole,
    after a power cut too where it is to be `lasting`."""
    path = pathlib.Path(path)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(beside, "wb") as file:
            write(file)
            file.flush()
            if lasting:
                os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        try:
            beside.unlink(missing_ok=True)
        except OSError:
            pass
        raise DataError(f"{path}: cannot be written: {error.strerror}; make room or mend its folder, then run the same command "
                        "again") from error


def write_json(path: Path, value: Any, indent: int | None = 2, lasting: bool = True) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=False) + "\n"
    write_whole(path, lambda file: file.write(text.encode()), lasting)
