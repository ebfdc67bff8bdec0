# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a file of others: gathered, and told at once."""
from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from norn.errors import DataError, Error


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
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(name)[:200])
    return text if len(text) <= 160 else text[:157] + "..."


def reads(what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """For functions whose first argument is a file, or what was read of one, of that kind: whatever its contents lead to, but for
    Norn's own errors, is a DataError that names it."""
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def read(source: Any, *arguments: Any, **settings: Any) -> Any:
            where = place_of(source, what)
            try:
                with np.errstate(all="ignore"):  # the engine refuses what is not finite
                    return function(source, *arguments, **settings)
            except FileNotFoundError as error:
                raise fail(where, "does not exist") from error
            except (Error, ImportError):
                raise
            except Exception as error:
                raise fail(where, f"cannot be read as {what}, it is damaged or of another kind: {shown(error)}") from error
        return read
    return wrap


def place_of(source: Any, what: str) -> str:
    return os.fspath(source) if isinstance(source, (str, os.PathLike)) else what


def need(module: str, package: str, purpose: str) -> Any:
    """A module that is not needed to use Norn. Raises ImportError that says what to install."""
    import importlib
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{purpose} needs the package {package}; install it: pip install {package}") from error
