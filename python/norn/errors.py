# SPDX-License-Identifier: Apache-2.0
"""What Norn raises. The engine's errors come as these classes, with the messages of the programs."""
from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

from ._door import HERE, in_python

Problem: TypeAlias = dict[str, Any]


class Error(RuntimeError):
    """Base of all that Norn raises. `exit_code` is what a program ends with; `problems` has a dictionary for each thing that is wrong:
    file, line, column, key, message, suggestion, those that are known."""

    exit_code = 1

    def __init__(self, *arguments: object, problems: list[Problem] | None = None):
        super().__init__(*arguments)
        self.problems: list[Problem] = problems or [_problem_of(line) for line in str(self).splitlines() or [""]]


class UsageError(Error, ValueError):
    """A wrong argument, setting or descriptor."""

    exit_code = 2


class DataError(Error, ValueError):
    """Data, a model or an index that is wrong, missing, damaged or cannot be written."""

    exit_code = 3


class DeviceError(Error):
    """A device that failed, or memory that does not suffice."""

    exit_code = 4


class CommunicationError(Error):
    """Another process is gone, late, out of reach, or at work on the same."""

    exit_code = 5


class DivergenceError(Error, ArithmeticError):
    """Losses or weights that are no longer finite."""

    exit_code = 6


class RegionError(Error):
    """A region goes no further on a day; it keeps the model that is in service, and others go on."""

    exit_code = 7


class Stopped(Error):
    """Stopped by a signal; the same command goes on."""

    exit_code = 75


class Killed(Error):
    """A program of a step was killed, by somebody or for its memory: the step is begun again a few times."""

    exit_code = 137


class ExitCode(NamedTuple):
    """What a program ends with: a word for --errors=json, a few words for people, what it means, what to do."""

    kind: str
    words: str
    meaning: str
    advice: str


# Those of the compiled programs stand in tools/common/explain.cpp, too, which a test compares; docs/user/errors.md is made of these.
EXIT_CODES = {
    0: ExitCode("", "done", "done", ""),
    1: ExitCode("unforeseen", "unforeseen", "a fault of the program", "report it, with the message"),
    2: ExitCode("usage", "command line or descriptor", "the command line or a descriptor is wrong; nothing was begun",
                "mend what the message names"),
    3: ExitCode("data", "data", "a data, model or index file is wrong, missing, damaged, or cannot be written",
                "mend the file, or make room"),
    4: ExitCode("device", "device or memory",
                "a device failed, a processor lacks what the program was built for, or memory does not suffice",
                "another machine, or a smaller run (trainer --plan says how large it is)"),
    5: ExitCode("communication", "communication", "another process is gone, late, out of reach, or at work on the same",
                "look what became of it, then run the same command again, trainer with --resume"),
    6: ExitCode("divergence", "divergence", "numbers stopped being finite",
                "lower the learning rate; --resume goes on from the last checkpoint, if there is one"),
    7: ExitCode("", "not published", "some regions are not published (of daily alone)",
                "mend what --status says, then run the same command again"),
    75: ExitCode("stopped", "stopped by a signal after a checkpoint", "stopped by a signal after a checkpoint was written",
                 "run the same command again, trainer with --resume"),
}


def exit_codes_text(codes: Iterable[int] = EXIT_CODES) -> str:
    """The end of a program's help."""
    text = f"Exit codes: {', '.join(f'{code} {EXIT_CODES[code].words}' for code in codes)}."
    return "\n".join(textwrap.wrap(text, 100))


def _problem_of(message: str) -> Problem:
    named = re.match("`([^`]+)`", message)
    return {"key": named[1], "message": message} if named else {"message": message}


_BY_CODE = {kind.exit_code: kind for kind in (Error, *Error.__subclasses__())}


def error_of(message: str, exit_code: int, problems: list[Problem] | None = None) -> Error:
    """What the engine's error is in Python, or that of a program: the native module asks, too."""
    for problem in problems or []:
        problem["message"] = in_python(problem["message"])
        if "key" in problem:
            problem["key"] = HERE.get(problem["key"], problem["key"])
    return _BY_CODE.get(exit_code, Error)(in_python(message), problems=problems)
