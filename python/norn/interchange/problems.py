# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a file of others: gathered, and told at once."""
from __future__ import annotations

import contextlib
import functools
import inspect
import os
import re
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol

import numpy as np

from norn.errors import DataError, Error

if TYPE_CHECKING:
    from norn.interchange.parts import Parts
    from norn.network import Network

P = ParamSpec("P")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # of terminals


class Unsupported(Exception):
    """An operation that no layer of Norn's computes; its message says which and why."""


class Problems:
    """Gathers what is wrong with a file, or with what a function was given."""

    MOST_SHOWN = 40

    def __init__(self, where: str, kind: type[Error] = DataError):
        self.where = where
        self.kind = kind
        self.messages: list[str] = []

    def add(self, message: str) -> None:
        if message not in self.messages:
            self.messages.append(message)

    @contextlib.contextmanager
    def of(self, what: str) -> Generator[None, None, None]:
        """Gathers what is unsupported of a layer, a node, an output."""
        try:
            yield
        except Unsupported as error:
            self.add(f"{what}: {error}")

    def raise_any(self) -> None:
        """Raises DataError, or the kind that was given, with a line for each, if there are any."""
        if not self.messages:
            return
        lines = [f"{self.where}: {message}" for message in self.messages[:self.MOST_SHOWN]]
        if len(self.messages) > self.MOST_SHOWN:
            lines.append(f"{self.where}: and {len(self.messages) - self.MOST_SHOWN} problems more")
        raise self.kind("\n".join(lines), problems=[{"file": self.where, "message": message} for message in self.messages])


def fail(where: str, message: str) -> DataError:
    """The error of a file with one thing wrong."""
    return DataError(f"{where}: {message}", problems=[{"file": where, "message": message}])


def shown(name: object) -> str:
    """A name out of a file, short and in one line, for messages."""
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in _COLOURS.sub("", str(name)[:400])[:200])
    return text if len(text) <= 160 else text[:157] + "..."


class Importer(Protocol[P]):
    """Gives a Network; `parts` stops before one is made."""

    def __call__(self, *arguments: P.args, **settings: P.kwargs) -> Network: ...
    def parts(self, *arguments: P.args, **settings: P.kwargs) -> Parts: ...


def imports(what: str) -> Callable[[Callable[P, Parts]], Importer[P]]:
    """For functions that read the parts of a network out of a file, their first argument, or what was read of one, of that kind:
    the Network of these. Whatever the contents lead to, but for Norn's own errors, is a DataError that names the file."""
    def wrap(function: Callable[P, Parts]) -> Importer[P]:
        def parts(*arguments: P.args, **settings: P.kwargs) -> Parts:
            with reading(place_of(arguments[0], what), what):
                return function(*arguments, **settings)

        @functools.wraps(function)
        def network(*arguments: P.args, **settings: P.kwargs) -> Network:
            from norn.interchange.parts import network_of
            return network_of(parts(*arguments, **settings), place_of(arguments[0], what))

        made: Any = network
        made.parts = parts
        made.__signature__ = inspect.signature(function).replace(return_annotation="Network")
        return made
    return wrap


@contextlib.contextmanager
def reading(where: str, what: str) -> Generator[None, None, None]:
    """Errors of others become DataErrors of the file `where`."""
    try:
        with np.errstate(all="ignore"):  # the engine refuses what is not finite
            yield
    except FileNotFoundError as error:
        raise fail(where, "does not exist") from error
    except (Error, ImportError):
        raise
    except Exception as error:
        raise fail(where, f"cannot be read as {what}, it is damaged or of another kind: {shown(error)}") from error


def place_of(source: Any, what: str) -> str:
    return os.fspath(source) if isinstance(source, (str, os.PathLike)) else what


def need(module: str, package: str, purpose: str) -> Any:
    """A module that is not needed to use Norn. Raises ImportError that says what to install."""
    import importlib
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{purpose} needs the package {package}; install it: pip install {package}") from error
