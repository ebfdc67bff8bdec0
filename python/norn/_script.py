# SPDX-License-Identifier: Apache-2.0
"""What the programs in Python have in common: the name they were called by, and how they end."""
import argparse
import os
import re
import signal
import sys
from typing import IO, Callable

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

    def print_help(self, file: IO[str] | None = None) -> None:
        (file or sys.stdout).write(self.format_help())


def run_script(program: str, body: Callable[[], int]) -> int:
    """The exit code of `body`, when all that it printed has been written. A reader who goes away (`| head`) ends it by SIGPIPE
    without a word, as it does other programs; a disk that is full is an error."""
    try:
        try:
            code = body()
        except SystemExit as end:  # of argparse, which has printed help or an error
            code = end.code
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _require_broken_output()
        _forget_output()
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGPIPE)
        return 128 + signal.SIGPIPE
    except OSError as error:
        if error.filename is not None:
            raise
        _require_broken_output()
        _forget_output()
        print(f"{called_as(program)}: error: standard output: could not be written: {error.strerror}; is the disk full?", file=sys.stderr)
        return 3


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
