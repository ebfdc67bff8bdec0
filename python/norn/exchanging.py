# SPDX-License-Identifier: Apache-2.0
"""`norn export` and `norn convert`: models in the formats of others, by norn.interchange (docs/user/interchange.md)."""
from __future__ import annotations

import pathlib
from collections.abc import Iterable
from typing import Any

from ._options import Command, Option
from ._words import did_you_mean
from .errors import UsageError
from .interchange.files import FORMATS, READ_ALONE

_ONNX = "Of ONNX"
_WORDS = "|".join(FORMATS.values())
COMMANDS = {
    "export": Command(
        "writes a model as ONNX or safetensors", f"MODEL.nc FILE [--format {_WORDS}] [options]",
        about=("The format follows from the ending of FILE unless it is said. docs/user/interchange.md says what is written.",),
        options=(Option(("--format",), _WORDS, "of FILE, where its ending does not tell", tuple(FORMATS.values())),
                 Option(("--top-k",), "", "the graph gives the best items, with their number k as an input", section=_ONNX),
                 Option(("--seen",), "LAYER|no", "with --top-k: whose entries are left out [the input as wide as the output]",
                        section=_ONNX),
                 Option(("--output",), "LAYER", "which output layer, of several", section=_ONNX),
                 Option(("--dense",), "", "inputs are dense, however wide", section=_ONNX),
                 Option(("--external-over",), "BYTES", "larger weights go to files of their own beside FILE [1 GiB]", section=_ONNX)),
        files="file", examples=(("Scores of all items", "model.nc model.onnx"),
                                ("The best items, without those that a user has", "model.nc model.onnx --top-k"))),
    "convert": Command(
        "a model from another format, or into one", "FROM TO",
        about=(f"Formats follow from the endings: .nc (Norn's), {', '.join(FORMATS)}; {' and '.join(READ_ALONE)} are read.",),
        files="file", examples=(("A model of Keras", "model.keras model.nc"),)),
}


def _format_of(arguments: list[str]) -> str:
    """What is said, or by the ending of the last file that has one."""
    for at, word in enumerate(arguments):
        name, given, value = word.partition("=")
        if name == "--format" and (given or at + 1 < len(arguments)):
            return value if given else arguments[at + 1]
    endings = [FORMATS[end] for end in (pathlib.PurePath(word).suffix for word in arguments) if end in FORMATS]
    if not endings:
        raise UsageError(f"{arguments[-1]}: which format? Say --format; there are: {', '.join(FORMATS.values())}")
    return endings[-1]


def _value(text: str) -> Any:
    try:
        return int(text)
    except ValueError:
        return {"true": True, "yes": True, "false": False, "no": False}.get(text.lower(), text)


def _parsed(command: str, arguments: list[str], known: Iterable[Option]) -> tuple[list[str], dict[str, Any]]:
    """Files, and options by the names that they have in Python."""
    values = {one.names[0]: one.value for one in known}
    files: list[str] = []
    options: dict[str, Any] = {}
    left = list(arguments)
    while left:
        word = left.pop(0)
        if not word.startswith("--"):
            files.append(word)
            continue
        name, given, value = word.partition("=")
        if name not in values:
            raise UsageError(f"{name}: there is no such option.{did_you_mean(name, values)} There are: {', '.join(values) or 'none'}")
        if not given and values[name] and not left:
            raise UsageError(f"{name}: its value is missing")
        options[name[2:].replace("-", "_")] = _value(value) if given else _value(left.pop(0)) if values[name] else True
    if len(files) != 2:
        raise UsageError(f"{len(files)} files are given, expected two: what is read and what is written; norn {command} --help shows how")
    return files, options


def main(command: str, arguments: list[str]) -> int:
    from . import interchange

    if command == "convert":
        files, _ = _parsed(command, arguments, ())
        interchange.convert(files[0], files[1])
        return 0
    format = _format_of(arguments) if arguments else "onnx"
    files, options = _parsed(command, arguments, [one for one in COMMANDS[command].options if one.section != _ONNX or format == "onnx"])
    options.pop("format", None)
    interchange.export(files[0], format, files[1], **options)
    return 0
