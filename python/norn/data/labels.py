# SPDX-License-Identifier: Apache-2.0
"""Labels of examples and features: what they may be, and how they cross to the engine."""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from ..errors import DataError

LONGEST = 65_535  # bytes; that of LabelIndex
_FORBIDDEN = {"\t": "a tab", "\n": "a line feed", "\0": "a zero byte"}


def to_text(labels: Sequence[str], what: str, place: str) -> bytes:
    """One line a label, UTF-8. DataError names the first label that none may be; `what` is "example" or "feature"."""
    text = "\n".join(labels) + "\n" if labels else ""
    suspicious = "\t" in text or "\0" in text or text.count("\n") != len(labels) or text.startswith("\n") or "\n\n" in text
    if suspicious or any(len(label) * 4 > LONGEST for label in labels):
        _fail(labels, what, place)
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        number = text.count("\n", 0, error.start)
        raise DataError(f"{place}: the label of {what} {number} is no Unicode text: {labels[number]!a}; rename it") from None


def _fail(labels: Sequence[str], what: str, place: str) -> None:
    for number, label in enumerate(labels):
        if not label:
            raise DataError(f"{place}: the label of {what} {number} is empty; name it")
        for letter, name in _FORBIDDEN.items():
            if letter in label:
                raise DataError(f"{place}: the label {label[:40]!r} of {what} {number} has {name} in it, which no label may; rename it")
        if len(label.encode("utf-8", "surrogateescape")) > LONGEST:
            raise DataError(f"{place}: the label {label[:40]!r}... of {what} {number} has more than {LONGEST} bytes; rename it")


def from_text(text: bytes | None) -> list[str] | None:
    """Bytes that are no UTF-8 (of old files) stay as they are."""
    return None if text is None else text.decode("utf-8", "surrogateescape").split("\n")[:-1]


def checked_labels(labels: Iterable[object] | None, argument: str, count: int) -> list[str] | None:
    """As many as there are, each text, each once; numbers become text. DataError names what is otherwise."""
    if labels is None:
        return None
    made: list[str] = []
    for number, label in enumerate(labels):
        if not isinstance(label, (str, int, np.integer)):
            raise DataError(f"`{argument}`: label {number} is {label!r}, of type {type(label).__name__}; labels are text")
        made.append(str(label))
    if len(made) != count:
        raise DataError(f"`{argument}`: {len(made)} labels for {count} {'rows' if argument.startswith('example') else 'columns'}")
    if len(set(made)) != count:
        twice = next(label for label, times in Counter(made).items() if times > 1)
        raise DataError(f"`{argument}`: {twice!r} is there twice; every label is there once")
    to_text(made, argument.removesuffix("_labels"), f"`{argument}`")
    return made
