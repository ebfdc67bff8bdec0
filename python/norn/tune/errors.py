# SPDX-License-Identifier: Apache-2.0
"""What ends the tuner with a message. Exit codes are the trainer's (docs/user/errors.md)."""
import sys
from typing import Callable


class TunerError(Exception):
    """Lines to print, each what, where, the value, what was expected and the next step."""

    code = 1

    @property
    def lines(self) -> list[str]:
        return str(self).splitlines()


class UsageError(TunerError):
    """Command line, space or descriptor."""

    code = 2


class DataError(TunerError):
    """A file that is wrong, missing, damaged, or cannot be written."""

    code = 3


class DeviceError(TunerError):
    """A device or memory that does not suffice."""

    code = 4


class ExecutorError(TunerError):
    """What trials run on cannot be reached."""

    code = 5


class Stopped(TunerError):
    """By a signal; the same command goes on."""

    code = 75


def exit_code_of(name: str, goes_on: str, body: Callable[[], int]) -> int:
    """Of a program that says on stderr what ended it. `goes_on`: what the same command goes on with, such as "the study"."""
    try:
        return body()
    except TunerError as error:
        for line in error.lines:
            print(f"{name}: error: {line}", file=sys.stderr)
        return error.code
    except BrokenPipeError:  # run_script() knows what that means
        raise
    except OSError as error:
        print(f"{name}: error: {error.filename or 'a file'}: {error.strerror}; mend it, then run the same command again: {goes_on} goes on",
              file=sys.stderr)
        return DataError.code
