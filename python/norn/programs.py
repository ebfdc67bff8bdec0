# SPDX-License-Identifier: Apache-2.0
"""Where Norn's programs are: one order for all that run them."""
from __future__ import annotations

import os
import pathlib
import signal
import sys
from collections.abc import Iterator

from .errors import UsageError

PROGRAMS = ("importer", "trainer", "predictor", "evaluator")
SCRIPTS = ("report", "tuner", "daily")  # of Python
_PACKAGE = pathlib.Path(__file__)
_SOURCE = _PACKAGE.resolve().parents[2]  # of a package in the source tree, or in a build folder, whose files are links


def _own_folders() -> Iterator[pathlib.Path]:
    """Of the package: a wheel's and a build folder's, that of an installation, whose packages are in share/norn, and the scripts' of the
    source tree."""
    yield _PACKAGE.parent / "bin"
    if _SOURCE.name == "share":
        yield _SOURCE.parent / "bin"
    yield _SOURCE / "tools"


def _folders(name: str) -> list[pathlib.Path]:
    """In the order in which they are searched. Where $NORN_BIN says it, programs are there and nowhere else; scripts may be ours."""
    given = os.environ.get("NORN_BIN")
    if given:
        return [pathlib.Path(given), *(_own_folders() if name in SCRIPTS else ())]
    in_path = [pathlib.Path(one) for one in os.environ.get("PATH", "").split(os.pathsep) if one]
    return [*_own_folders(), *in_path, _SOURCE / "build/cpu/bin"]


def _is_program(path: pathlib.Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def path_of(name: str, given: str | os.PathLike[str] | None = None, argument: str = "") -> pathlib.Path:
    """The program: the one that is given by that argument, or of $NORN_BIN, of the package itself, in PATH, or built in the source tree.
    UsageError where there is none."""
    names = (name, f"{name}.py") if name in SCRIPTS else (name,)
    candidates = [pathlib.Path(given)] if given else [folder / one for folder in _folders(name) for one in names]
    found = next(filter(_is_program, candidates), None)
    if found is not None:
        return pathlib.Path(os.path.abspath(found))
    if given:
        raise UsageError(f"{argument}: {os.fspath(given)} is not there, or cannot be run; give the path of the program")
    looked = os.environ.get("NORN_BIN") or "the package and in PATH"
    raise UsageError(f"the program {name} is not in {looked}; install Norn's programs, or say where they are with the variable NORN_BIN"
                     + (f" or with {argument}" if argument else ""))


def find_program(name: str) -> list[str]:
    """The words that begin a command line; UsageError where there is no such program."""
    path = os.fspath(path_of(name))
    return [sys.executable, "-B", path] if name in SCRIPTS else [path]


def environment_of(name: str) -> dict[str, str]:
    """Variables for a child: scripts, which run programs, find those of this package."""
    if name in SCRIPTS and not os.environ.get("NORN_BIN") and (_PACKAGE.parent / "bin").is_dir():
        return {"NORN_BIN": os.fspath(_PACKAGE.parent / "bin")}
    return {}


def run_instead(name: str, arguments: list[str], command: str) -> None:
    """Becomes the program: with its output, its signals and its exit code. In what it says it is `norn COMMAND`."""
    words = find_program(name)
    more = environment_of(name) | {"NORN_COMMAND": f"norn {command}"}
    sys.stdout.flush()
    sys.stderr.flush()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, which a program would inherit
        signal.signal(number, signal.SIG_DFL)
    os.execve(words[0], [*words, *arguments], os.environ | more)
