# SPDX-License-Identifier: Apache-2.0
"""The options of the commands of `norn`, as one table each: --help, manual pages and completion follow from it."""
from __future__ import annotations

import argparse
import dataclasses
import os
import re
import sys
import textwrap
from collections.abc import Callable
from typing import Any, NoReturn, TextIO

from .errors import UsageError

_COLUMN = 30  # where the texts of options begin, as in the programs
_WIDTH = 100


class Parser(argparse.ArgumentParser):
    """argparse whose errors are Norn's."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message[:1].lower()}{message[1:]}; {self.prog} --help lists the options")


@dataclasses.dataclass(frozen=True)
class Option:
    """One option. `names`: "--format" first. `value`: what stands for the value in texts, "" of a switch."""

    names: tuple[str, ...]
    value: str
    text: str
    words: tuple[str, ...] = ()  # what a choice is between
    default: str = ""
    repeatable: bool = False
    section: str = "Options"

    @property
    def kind(self) -> str:
        """Of the value: "none", "word", "file", "folder" or "other"."""
        if not self.value:
            return "none"
        if self.words:
            return "word"
        return {"FILE": "file", "PATH": "file", "FOLDER": "folder", "DIR": "folder"}.get(self.value.split(".")[0], "other")


@dataclasses.dataclass(frozen=True)
class Command:
    """What a command is: `usage` behind its name, `about` in paragraphs, and the options. `files`: whether words that are no
    options name files."""

    summary: str
    usage: str
    about: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()
    files: str = ""  # "file", "folder" or ""
    examples: tuple[tuple[str, str], ...] = ()  # (what it does, the words behind `norn COMMAND`)

    def every_option(self) -> tuple[Option, ...]:
        return (*self.options, _HELP)

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Puts the options into a parser of argparse."""
        for one in self.options:
            if not one.value:
                parser.add_argument(*one.names, action="store_true")
            else:
                parser.add_argument(*one.names, action="append" if one.repeatable else "store", choices=one.words or None,
                                    default=one.default or None,
                                    type=int if one.value == "N" else str)


_HELP = Option(("--help", "-h"), "", "show this and exit", section="Help")


def option_head(option: Option) -> str:
    """As texts show it: "-f, --format onnx|safetensors"."""
    short = sorted(option.names, key=len)
    return ", ".join(short) + (f" {option.value}" if option.value else "")


def option_text(option: Option) -> str:
    return option.text + (" (repeatable)" if option.repeatable else "") + (f" [{option.default}]" if option.default else "")


def help_of(name: str, command: Command, stream: TextIO | None = None) -> str:
    """What `norn NAME --help` prints."""
    bold = styler(stream or sys.stdout)
    text = f"{bold(f'norn {name}', 'bold')}: {command.summary}\n\n{bold('Usage:', 'bold')} norn {name} {command.usage}\n"
    for paragraph in command.about:
        text += "\n" + textwrap.fill(paragraph, _WIDTH, break_on_hyphens=False, break_long_words=False) + "\n"
    section = ""
    for option in command.every_option():
        if option.section != section:
            section = option.section
            text += f"\n{bold(section, 'bold')}\n"
        head = f"  {option_head(option)}"
        lines = textwrap.wrap(option_text(option), _WIDTH - _COLUMN, break_on_hyphens=False, break_long_words=False)
        text += head + "\n" + " " * _COLUMN if len(head) + 2 > _COLUMN else head.ljust(_COLUMN)
        text += ("\n" + " " * _COLUMN).join(lines) + "\n"
    if command.examples:
        text += f"\n{bold('Examples', 'bold')}\n" + "".join(f"  # {what}\n  norn {name} {words}\n" for what, words in command.examples)
    return text


def options_of(parser: argparse.ArgumentParser) -> tuple[Option, ...]:
    """Those of a parser of argparse, without its help."""
    found = []
    for group in parser._action_groups:
        for action in group._group_actions:
            if not action.option_strings or "--help" in action.option_strings or action.help == argparse.SUPPRESS:
                continue
            names = tuple(sorted(action.option_strings, key=len, reverse=True))
            found.append(Option(names, _value_of(action), _plain(action.help), tuple(map(str, action.choices or ())),
                                section=_title_of(group)))
    return tuple(found)


def _value_of(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    given = action.metavar
    if isinstance(given, tuple):
        return " ".join(given)
    return given or ("|".join(map(str, action.choices)) if action.choices else "VALUE")


def _plain(text: str | None) -> str:
    return " ".join((text or "").replace("%%", "%").split())


def _title_of(group: Any) -> str:
    title = (group.title or "options").strip()
    return title[:1].upper() + title[1:]


def as_options(message: str) -> str:
    """Messages name arguments, `min_features`; here they are options, --min-features."""
    own = {"example": "example-column", "feature": "feature-column", "value": "value-column", "time": "time-column"}
    return re.sub(r"`(\w+)`", lambda found: "--" + own.get(found[1], found[1]).replace("_", "-"), message)


_STYLES = {"bold": "1", "red": "1;31", "green": "32", "yellow": "33"}


def styler(stream: TextIO) -> Callable[[str, str], str]:
    """A function (text, style) that colours on a terminal which can, unless NO_COLOR is set (no-color.org)."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "") in ("", "dumb") or not stream.isatty()
    return lambda text, style: text if plain else f"\033[{_STYLES[style]}m{text}\033[0m"
