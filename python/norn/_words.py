# SPDX-License-Identifier: Apache-2.0
"""Arguments that are words or whole numbers, and what is said of wrong ones."""
from __future__ import annotations

import difflib
import functools
import operator
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from .errors import UsageError

Given = TypeVar("Given")
F = TypeVar("F", bound=Callable[..., Any])


def renamed(**names: str) -> Callable[[F], F]:
    """A function that takes old keywords, too: old="new"."""
    def of(function: F) -> F:
        @functools.wraps(function)
        def called(*args: Any, **keywords: Any) -> Any:
            for old in names.keys() & keywords:
                warnings.warn(f"`{old}` is called `{names[old]}`", DeprecationWarning, stacklevel=2)
                keywords[names[old]] = keywords.pop(old)
            return function(*args, **keywords)

        return called  # type: ignore[return-value]

    return of


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """' Did you mean "rating"?', or nothing."""
    near = difflib.get_close_matches(word, list(known), 1)
    return f' Did you mean "{near[0]}"?' if near else ""


def path_of(name: str, value: str | os.PathLike[str]) -> str:
    """The path as text. Raises UsageError naming it for one that no file can have: messages of the engine would end at its zero byte."""
    path = os.fsdecode(value)
    if "\0" in path:
        raise UsageError(f"`{name}` {path!r}: no path has a zero byte")
    return path


def one_of(name: str, value: Given | None, other: str, same: Given | None) -> Given | None:
    """What was given under one of two names for the same. Raises UsageError where both were."""
    if value is not None and same is not None:
        raise UsageError(f"`{name}` and `{other}` are one; give one of the two")
    return same if value is None else value


def word(name: str, value: object) -> str:
    """Text. Raises UsageError naming it."""
    if not isinstance(value, str):
        raise UsageError(f"`{name}` {value!r}: expected a str, not {type(value).__name__}")
    return value


def choice(name: str, value: object, words: Sequence[str]) -> str:
    """One of the words. Raises UsageError that lists them."""
    if not isinstance(value, str) or value not in words:
        raise UsageError(f"`{name}` {value!r}: there is no such choice;{did_you_mean(str(value), words)} choose of: {', '.join(words)}")
    return value


def truth(name: str, value: object) -> bool:
    """Whether it is true. Raises UsageError for what is neither, as an array is."""
    try:
        return bool(value)
    except (TypeError, ValueError):
        raise UsageError(f"`{name}`: expected True or False, not {type(value).__name__}") from None


def integer(name: str, value: object) -> int:
    """A whole number of Python or NumPy. Raises UsageError naming it."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise UsageError(f"`{name}` {value!r}: expected an integer, not {type(value).__name__}") from None


def count(name: str, value: object, least: int = 1, most: int = 2**31 - 1) -> int:
    """A whole number within bounds, by default from 1 to what int32 holds."""
    number = integer(name, value)
    if not least <= number <= most:
        raise UsageError(f"`{name}` {number} is out of range: it must be from {least} to {most}")
    return number


def positive(name: str, value: object) -> float:
    """A number above 0. Raises UsageError for what is none."""
    number: Any = value
    if isinstance(value, (bool, str)) or not hasattr(value, "__float__") or not 0.0 < float(number) < float("inf"):
        raise UsageError(f"`{name}` {value!r}: expected a number above 0")
    return float(number)
