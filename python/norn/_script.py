# SPDX-License-Identifier: Apache-2.0
"""What programs in Python have in common: the name they were called by, and how they end."""
from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from collections.abc import Callable
from typing import Any

from ._options import styler
from .errors import DataError, Error

# What the program norn calls this one ("norn tune"). Programs that this one runs keep their own names.
_CALLED = os.environ.pop("NORN_COMMAND", "")


def called_as(program: str) -> str:
    """The program's name in texts for people."""
    return _CALLED or program


def as_called(program: str, text: str) -> str:
    """The text with its command lines, which are indented by two, as the user would write them."""
    return re.sub(rf"(?m)^  {re.escape(program)}(?= )", f"  {called_as(program)}", text)


class Parser(argparse.ArgumentParser):
    """Of which run_script hears when its help cannot be written: argparse of Python 3.12 and newer passes over that."""

    def print_help(self, file: Any = None) -> None:
        (file or sys.stdout).write(self.format_help())


def say_error(program: str, message: str) -> None:
    """On stderr, each of its lines."""
    for line in message.splitlines():
        print(f"{called_as(program)}: {styler(sys.stderr)('error:', 'red')} {line}", file=sys.stderr)


def run_script(program: str, body: Callable[[], int], in_words: Callable[[str], str] = str, go_on: str = "") -> int:
    """The exit code of `body`, when all that it printed has been written. Norn's errors are said `in_words` of the program. A reader who
    goes away (`| head`) ends it by SIGPIPE without a word, as it does other programs; a disk that is full is an error. `go_on`: what the
    same command goes on with where a file was in the way, such as "the study"."""
    try:
        try:
            code = body()
        except SystemExit as end:  # of argparse, which has printed help or an error
            code = int(end.code or 0)
        except Error as error:
            say_error(program, in_words(str(error)))
            code = error.exit_code
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _require_broken_output()
        _forget_output()
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGPIPE)
        return 128 + signal.SIGPIPE
    except OSError as error:
        if go_on and error.filename is not None:
            say_error(program, f"{error.filename}: {error.strerror}; mend it, then run the same command again: {go_on} goes on")
            return DataError.exit_code
        if error.filename is not None:
            raise
        _require_broken_output()
        _forget_output()
        say_error(program, f"standard output: could not be written: {error.strerror}; is the disk full?")
        return DataError.exit_code


def _require_broken_output() -> None:
    """Raises the error that is handled again where standard output takes a line: then it came from elsewhere, as from a connection."""
    try:
        print(flush=True)
    except OSError:
        return
    raise


def _forget_output() -> None:
    """What is left of it would be written at the end once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
