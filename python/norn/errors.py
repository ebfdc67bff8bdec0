# SPDX-License-Identifier: Apache-2.0
"""What Norn raises. The engine's errors come as these classes, with the messages of the programs."""
from __future__ import annotations

import re
from typing import Any, TypeAlias

from ._door import HERE, in_python

Problem: TypeAlias = dict[str, Any]


class Error(RuntimeError):
    """Base of all that Norn raises. `exit_code` is what a program ends with; `problems` has a dictionary for each thing that is wrong:
    file, line, column, key, message, suggestion, those that are known."""

    exit_code = 1

    def __init__(self, *arguments: object, problems: list[Problem] | None = None):
        super().__init__(*arguments)
        self.problems: list[Problem] = problems or [_problem_of(str(self))]


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
    """Another rank is gone or late."""

    exit_code = 5


class DivergenceError(Error, ArithmeticError):
    """Losses or weights that are no longer finite."""

    exit_code = 6


def _problem_of(message: str) -> Problem:
    named = re.match("`([^`]+)`", message)
    return {"key": named[1], "message": message} if named else {"message": message}


_BY_CODE = {kind.exit_code: kind for kind in (Error, UsageError, DataError, DeviceError, CommunicationError, DivergenceError)}


def _make(message: str, exit_code: int, problems: list[Problem]) -> Error:  # pyright: ignore[reportUnusedFunction]
    """What the engine's error is in Python: the native module asks."""
    for problem in problems:
        problem["message"] = in_python(problem["message"])
        if "key" in problem:
            problem["key"] = HERE.get(problem["key"], problem["key"])
    return _BY_CODE.get(exit_code, Error)(in_python(message), problems=problems)
