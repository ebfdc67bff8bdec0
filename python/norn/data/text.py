# SPDX-License-Identifier: Apache-2.0
"""Text in columns: what separates them, whether there is a line of names, and files whose columns are known by their kind."""
from __future__ import annotations

import csv
import pathlib
import re
from typing import NamedTuple

from .._words import choice
from ..errors import UsageError
from .packed import files_of, plain_name, read_bytes

_ATOMIC = re.compile(r".+:(token|float|token_seq|float_seq)$")
_MOVIELENS_NAMES = ["user", "item", "rating", "timestamp"]
_MOVIELENS_FILES = re.compile(r"u\.data$|u[1-5]\.(base|test)$|u[ab]\.(base|test)$|ratings\.dat$")
_SEPARATORS = {".csv": ",", ".tsv": "\t", ".inter": "\t"}
_WORDS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}


class Layout(NamedTuple):
    separator: str
    names: list[str]  # of all columns; "1", "2", ... where there is no line of names
    header: bool
    known: bool  # a kind of file whose first columns are examples and features, whatever their number


def separator_named(word: str) -> str:
    """What a user calls a separator: itself, or "tab"."""
    separator = _WORDS.get(word, word)
    if not separator or "\n" in separator or '"' in separator:
        raise UsageError(f"`separator` {word!r}: expected what stands between columns, such as , ; :: or tab")
    return separator


def cut(line: str, separator: str) -> list[str]:
    if len(separator) == 1 and separator in ",;|":
        try:
            return next(csv.reader([line], delimiter=separator), [])
        except csv.Error:  # zeros before Python 3.11, fields of 128 KiB: what reads the data says what is wrong with them
            return line.split(separator)
    return line.split(separator)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _guessed(name: str, line: str) -> str:
    for ending, separator in _SEPARATORS.items():
        if name.endswith(ending) and (separator in line or ";" not in line):
            return separator
    return next((one for one in ("::", "\t", ",", ";", "|") if one in line), ",")


def layout_of(path: pathlib.Path, separator: str | None, header: str, named: bool) -> Layout:
    """Of the first file. `header`: auto, yes or no; `named`: a column is asked for by name."""
    choice("header", header, ("auto", "yes", "no"))
    first = files_of(path)[0]
    name = plain_name(first)
    lines = read_bytes(first, 1 << 16).decode("utf-8-sig", "replace").splitlines()
    lines = [line for line in lines if line][:2] or [""]
    separator = _guessed(name, lines[0]) if separator is None else separator_named(separator)
    fields = cut(lines[0], separator)
    if header != "no" and all(_ATOMIC.match(field) for field in fields):
        return Layout(separator, fields, True, True)
    if header != "yes" and len(fields) == 4 and all(map(_is_number, fields)) and (_MOVIELENS_FILES.search(name) or separator == "::"):
        return Layout(separator, _MOVIELENS_NAMES, False, True)
    if header == "auto":
        dropped = len(fields) > 2 and not _is_number(fields[2]) and fields[2] != ""
        second = cut(lines[1], separator) if len(lines) > 1 else []
        header = "yes" if named or (dropped and len(second) > 2 and _is_number(second[2])) else "no"
    if header == "yes":
        return Layout(separator, fields, True, False)
    return Layout(separator, [str(number) for number in range(1, len(fields) + 1)], False, False)


def first_lines(path: pathlib.Path, separator: str) -> list[tuple[str, str]]:
    """The first two columns of the first lines of text that has as many."""
    lines = [line for line in read_bytes(files_of(path)[0], 1 << 16).decode("utf-8-sig", "replace").splitlines()[:20] if line]
    return [(first, second) for first, second, *_ in (cut(line, separator) for line in lines)]


def found_name(name: str, names: list[str], numbered: bool) -> str:
    """A column by its name, by what RecBole's header calls it without its type, or by its number, from 1."""
    if name in names:
        return name
    short = [known for known in names if _ATOMIC.match(known) and known.rsplit(":", 1)[0] == name]
    if short:
        return short[0]
    if numbered and name.isdigit() and 1 <= int(name) <= len(names):
        return names[int(name) - 1]
    return name
