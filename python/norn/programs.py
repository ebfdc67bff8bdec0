# SPDX-License-Identifier: Apache-2.0
"""Where Norn's programs are."""
from __future__ import annotations

import os
import pathlib
import signal
import sys

from .errors import UsageError

PROGRAMS = ("importer", "trainer", "predictor", "evaluator")
SCRIPTS = ("report", "tuner", "daily")  # of Python


def _folders() -> list[pathlib.Path]:
    here = pathlib.Path(__file__)
    given = os.environ.get("NORN_BIN")
    if given:
        return [pathlib.Path(given), here.resolve().parents[2] / "tools"]
    in_path = [pathlib.Path(one) for one in os.environ.get("PATH", "").split(os.pathsep) if one]
    return [here.parent / "bin", here.resolve().parents[2] / "tools", *in_path]


def find_program(name: str) -> list[str]:
    """The words that begin a command line: those of $NORN_BIN, of the package itself, of the source tree, or in PATH.
    UsageError where there is no such program."""
    names = (name, f"{name}.py") if name in SCRIPTS else (name,)
    for folder in _folders():
        for one in names:
            path = folder / one
            if path.is_file() and os.access(path, os.X_OK):
                return [sys.executable, "-B", os.fspath(path)] if name in SCRIPTS else [os.fspath(path)]
    looked = os.environ.get("NORN_BIN") or "the package and in PATH"
    raise UsageError(f"the program {name} is not in {looked}; install Norn's programs, or say where they are with the variable NORN_BIN")


def run_instead(name: str, arguments: list[str], command: str) -> None:
    """Becomes the program: with its output, its signals and its exit code. In what it says it is `norn COMMAND`. Scripts, which
    run programs, find those of $NORN_BIN first."""
    words = find_program(name)
    more = {"NORN_COMMAND": f"norn {command}"}
    if name in SCRIPTS and os.environ.get("NORN_BIN"):
        more["PATH"] = os.environ["NORN_BIN"] + os.pathsep + os.environ.get("PATH", os.defpath)
    sys.stdout.flush()
    sys.stderr.flush()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, which a program would inherit
        signal.signal(number, signal.SIG_DFL)
    os.execve(words[0], [*words, *arguments], os.environ | more)
