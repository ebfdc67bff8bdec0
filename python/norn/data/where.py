# SPDX-License-Identifier: Apache-2.0
"""Filters of rows: `rating >= 4`, `event in (view, "add to cart") and day < 2026-01-01`."""
from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from ..errors import UsageError
from .columns import Column, Table
from .times import parse_moment

if TYPE_CHECKING:
    from .._types import Array

_OPERATORS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "==": operator.eq, "=": operator.eq,
              "!=": operator.ne, "<>": operator.ne}
_TOKEN = re.compile(r"""\s*(?:
    (?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)
  | (?P<operator>>=|<=|<>|!=|==|=|<|>)
  | (?P<mark>[(),])
  | (?P<word>[^\s()<>=!,"'`]+)
)""", re.X)


class Condition(NamedTuple):
    """One comparison. `values` has several entries for `in` alone."""

    column: str
    operator: str
    values: tuple[str, ...]
    text: str  # the filter that it stands in, for messages


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def _unquoted(text: str) -> str:
    return text[1:-1] if text[0] == "`" else re.sub(r"\\(.)", r"\1", text[1:-1])


class _Reader:
    def __init__(self, text: str):
        self.text, self.tokens, self.next = text, [], 0
        at, end = 0, len(text.rstrip())
        while at < end:
            at += len(text[at:]) - len(text[at:].lstrip())
            found = _TOKEN.match(text, at)
            if not found or found.end() == at:
                self.fail("is not understood", at)
            kind = found.lastgroup or ""
            word = found.group(kind)
            self.tokens.append(_Token(kind, _unquoted(word) if kind == "quoted" else word, found.start(kind)))
            at = found.end()

    def fail(self, fault: str, at: int) -> NoReturn:
        raise UsageError(f"`where` {self.text!r}: column {at + 1}: {self.text[at:at + 20]!r} {fault}; write COLUMN OP VALUE "
                         f"with OP one of {' '.join(_OPERATORS)} in, and join several by \"and\"")

    def take(self, kinds: Sequence[str], what: str) -> _Token:
        if self.next == len(self.tokens):
            raise UsageError(f"`where` {self.text!r} ends where {what} is expected; write COLUMN OP VALUE, as in \"rating >= 4\"")
        token = self.tokens[self.next]
        if token.kind not in kinds:
            self.fail(f"stands where {what} is expected", token.at)
        self.next += 1
        return token

    def condition(self) -> Condition:
        column = self.take(("word", "quoted"), "a column").text
        compared = self.take(("operator", "word"), "an operator")
        if compared.kind == "operator":
            return Condition(column, compared.text, (self.take(("word", "quoted"), "a value").text,), self.text)
        if compared.text.lower() != "in":
            self.fail("stands where an operator is expected", compared.at)
        opened = self.take(("mark",), '"("')
        if opened.text != "(":
            self.fail('stands where "(" is expected', opened.at)
        values = []
        while True:
            values.append(self.take(("word", "quoted"), "a value").text)
            mark = self.take(("mark",), '"," or ")"')
            if mark.text == ")":
                return Condition(column, "in", tuple(values), self.text)
            if mark.text != ",":
                self.fail('stands where "," or ")" is expected', mark.at)

    def conditions(self) -> list[Condition]:
        found = [self.condition()]
        while self.next < len(self.tokens):
            joined = self.take(("word",), '"and"')
            if joined.text.lower() == "or":
                self.fail("cannot be told: filters are joined by \"and\" alone; filter the table before", joined.at)
            if joined.text.lower() != "and":
                self.fail('stands where "and" is expected', joined.at)
            found.append(self.condition())
        return found


def parse(where: str | Sequence[str] | None) -> list[Condition]:
    """The conditions of one or several filters, all of which must hold."""
    if where is None:
        return []
    if not isinstance(where, (str, list, tuple)):
        raise UsageError(f"`where` is of type {type(where).__name__}, expected a filter as text, such as \"rating >= 4\", or a list of "
                         "such; rows of a frame are chosen by a mask before: frame[frame.rating >= 4]")
    texts = [where] if isinstance(where, str) else list(where)
    for text in texts:
        if not isinstance(text, str):
            raise UsageError(f"`where` {text!r} is no text such as \"rating >= 4\"")
    return [condition for text in texts for condition in _Reader(text).conditions()]


def _number(text: str) -> float | int | None:
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return None


# By kind of column: what reads a value, and what is said of one that is none.
_READERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "time": (parse_moment, "times, and {} is none; write it as 2026-01-31 or 2026-01-31T12:00:00"),
    "boolean": (lambda text: {"true": 1, "1": 1, "false": 0, "0": 0}.get(text.lower()), "true and false, and {} is neither"),
    "integer": (_number, "numbers, and {} is none"),
    "float": (_number, "numbers, and {} is none"),
}


def _refuse(condition: Condition, column: Column, fault: str) -> NoReturn:
    raise UsageError(f"`where` {condition.text!r}: column \"{column.name}\" holds {fault}")


def _literals(condition: Condition, column: Column) -> list[Any]:
    """The values in the column's own type. Only of columns that are no text."""
    if column.kind not in _READERS:
        _refuse(condition, column, f"{column.kind} data, which is not compared")
    read, fault = _READERS[column.kind]
    made = [read(text) for text in condition.values]
    if None in made:
        _refuse(condition, column, fault.format(repr(condition.values[made.index(None)])))
    return made


def _holds(values: Array, compared: str, literals: list[Any]) -> Array:
    if compared == "in":
        return np.isin(values, np.asarray(literals))
    return np.asarray(_OPERATORS[compared](values, literals[0]))


def _holds_of_text(condition: Condition, column: Column) -> Array:
    """Compared label by label, then spread to the rows. Order is that of numbers where the value is one."""
    codes, labels = column.codes()
    literals: list[Any] = list(condition.values)
    values = np.asarray(labels, dtype=object)
    number = _number(literals[0])
    if condition.operator in (">=", "<=", ">", "<") and number is not None:
        numbers = [_number(label) for label in labels]
        if None in numbers:
            wrong = labels[numbers.index(None)]
            _refuse(condition, column, f"text such as {wrong!r}, which has no order beside the number {literals[0]}")
        values, literals = np.asarray(numbers, dtype=np.float64), [number]
    elif condition.operator == "in":
        wanted = set(literals)
        held = np.fromiter((label in wanted for label in labels), dtype=bool, count=len(labels))
        return np.append(held, False)[codes]
    held = _holds(values, condition.operator, literals).astype(bool) if len(labels) else np.zeros(0, dtype=bool)
    return np.append(held, False)[codes]  # of -1, a null, nothing holds


def rows_where(table: Table, conditions: Sequence[Condition]) -> Array | None:
    """The rows of which all conditions hold, ascending; None: all rows. Of nulls no condition holds."""
    if not conditions:
        return None
    kept = np.ones(table.rows, dtype=bool)
    for condition in conditions:
        column = table.column(condition.column, f"where {condition.text}")
        if column.kind == "text":
            kept &= _holds_of_text(condition, column)
            continue
        literals = _literals(condition, column)
        values, missing = column.numbers()
        kept &= _holds(values, condition.operator, literals)
        if missing is not None:
            kept &= ~missing
        elif column.kind == "float":
            kept &= ~np.isnan(values)
    return np.flatnonzero(kept)
