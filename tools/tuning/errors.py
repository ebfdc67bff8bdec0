# SPDX-License-Identifier: Apache-2.0
"""What ends the tuner with a message. Exit codes are the trainer's (docs/user/errors.md)."""


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
