# SPDX-License-Identifier: Apache-2.0
"""`norn info`: what a model or a file of data sets is."""
from __future__ import annotations

import hashlib
import json
import os
from typing import Any

from ._options import Command, Option, Parser
from .errors import DataError, Error

COMMAND = Command(
    "what a model or a file of data sets is", "FILE [--format text|json|md]",
    about=("Of a model: layers with their units and labels, what it was trained on and how far, the best of what was watched, settings, "
           "checksums. Of data: sets, examples, units, entries, labels, checksums.",),
    options=(Option(("--format",), "text|json|md", "of what is printed; md is a page to keep beside the file", ("text", "json", "md"),
                    "text"),),
    files="file", examples=(("A model or data", "model.nc"), ("For scripts", "model.nc --format json")))


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What the file says of itself, as a dictionary with the member "kind": "model" or "data". DataError for others."""
    from . import _core

    path = os.fspath(path)
    if not os.path.exists(path):
        raise DataError(f"{path}: no such file; check the path")
    try:
        facts: dict[str, Any] = json.loads(_core.describe_file(path))
    except DataError:
        _require_own_format(path)
        raise
    with open(path, "rb") as file:
        summed = hashlib.sha256()
        while piece := file.read(1 << 20):
            summed.update(piece)
    return facts | {"sha256": summed.hexdigest(), "version": _core.version()}


def _require_own_format(path: str) -> None:
    """Raises DataError naming the way for a file that by its ending is a model of others."""
    if os.path.isfile(path) and path.lower().endswith((".onnx", ".safetensors", ".keras", ".caffemodel")):
        own = os.path.splitext(path)[0] + ".nc"
        raise DataError(f"{path}: is no file of Norn's; `norn convert {path} {own}` makes one of it") from None


def require_model(path: str) -> None:
    """Raises DataError saying what the file is instead, where that is known."""
    from . import _core

    _require_own_format(path)
    try:
        kind = json.loads(_core.describe_file(path))["kind"]
    except Error:
        return
    if kind == "data":
        raise DataError(f"{path}: this is a data set, not a model; norn.Dataset.from_netcdf reads it") from None


def _labels(labels: dict[str, Any] | None) -> str:
    if labels is None:
        return "none"
    if labels["numbers"]:
        return f"numbers, {labels['count']:,}"
    return f"{labels['count']:,} ({'' if labels['kept'] else 'checksum alone, '}{labels['sha256'][:8]})"


def _units(count: int, extent: list[int]) -> str:
    return f"{count:,}" + (f" = {' x '.join(map(str, extent))}" if len(extent) > 1 else "")


def _of_layer(layer: dict[str, Any], facts: dict[str, Any]) -> list[str]:
    found = next(one for one in facts["layers"] if one["name"] == layer["Name"])
    source = layer.get("Source", layer.get("DataSet", ""))
    shown = ", ".join(source) if isinstance(source, list) else str(source)
    data = f"; {layer['DataSet']}" if "Source" in layer and layer.get("DataSet") else ""
    return [layer["Name"], layer.get("Kind", ""), _units(found["units"], found["extent"]), layer.get("Activation", ""), shown + data,
            _labels(found["labels"])]


def _of_training(facts: dict[str, Any]) -> list[list[str]]:
    training = facts["training"]
    if training is None:
        return [["trained", "not told by the file"]]
    within = f" and {training['batch']:,} batches of the next" if training["batch"] else ""
    rows = [["trained", f"to the end of epoch {training['epoch']:,}{within}, step {training['step']:,}"]]
    if "watched" in training:
        rows.append(["best", f"{training['watched']} {training['best']:.6g}, in epoch {training['best_epoch']:,}"])
    rows += [["trained on", f"{one['name']}: {one['examples']:,} examples, checksum {one['checksum']}"] for one in training["sets"]]
    return rows


def _settings(network: dict[str, Any]) -> list[list[str]]:
    shown = {key: value for key, value in network.items() if key not in ("Layers", "Training", "Name", "Version")}
    shown |= network.get("Training", {})
    return [[key, value if isinstance(value, str) else json.dumps(value)] for key, value in shown.items()]


def _file_rows(facts: dict[str, Any]) -> list[list[str]]:
    sealed = "its seal is whole" if facts["sealed"] else "without Norn's seal"
    return [["file", f"{facts['file']}, {facts['bytes']:,} bytes, {sealed}"], ["sha256", facts["sha256"]]]


def _sections(facts: dict[str, Any]) -> tuple[str, list[tuple[str, list[str] | None, list[list[str]]]]]:
    """A title, and tables: each with a heading, names of columns or None, and rows."""
    if facts["kind"] == "data":
        names = ["name", "kind", "examples", "units", "entries", "labels", "examples' names", "checksum"]
        rows = []
        for one in facts["sets"]:
            kind = one["storage"] + (", " + one["values"] if one["values"] else "") + (", weighted" if one["weighted"] else "")
            entries = "" if one["entries"] is None else f"{one['entries']:,}"
            rows.append([one["name"], kind, f"{one['examples']:,}", _units(one["width"], one["extent"]), entries, _labels(one["labels"]),
                         "yes" if one["example_labels"] else "no", one["checksum"]])
        return "Data sets", [("", None, _file_rows(facts)), ("Sets", names, rows)]
    network = facts["network"]
    layers = [_of_layer(layer, facts) for layer in network["Layers"]]
    origin = f"format {facts['format']}" if facts["format"] else "written by DSSTNE"
    about = [*_file_rows(facts), ["network", f"{network.get('Name') or 'without a name'}, {origin}"], *_of_training(facts)]
    return "Model", [("", None, about), ("Layers", ["name", "kind", "units", "activation", "from", "labels"], layers),
                     ("Settings", None, _settings(network))]


def _as_text(title: str, tables: list[tuple[str, list[str] | None, list[list[str]]]]) -> str:
    lines = [title]
    for heading, names, rows in tables:
        every = ([names] if names else []) + rows
        widths = [max(len(row[i]) for row in every) for i in range(len(every[0]))] if every else []
        lines += [""] + ([heading] if heading else [])
        lines += ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in every]
    return "\n".join(lines) + "\n"


def _as_markdown(title: str, tables: list[tuple[str, list[str] | None, list[list[str]]]]) -> str:
    def row_of(cells: list[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    lines = [f"# {title}"]
    for heading, names, rows in tables:
        if not rows:
            continue
        head = names or [""] * len(rows[0])
        lines += [""] + ([f"## {heading}", ""] if heading else []) + [row_of(head),
                                                                      "|" + "---|" * len(head)] + [row_of(row) for row in rows]
    return "\n".join(lines) + "\n"


def text_of(facts: dict[str, Any], format: str = "text") -> str:
    """The facts of describe() for people: "text" or "md"; or "json"."""
    if format == "json":
        return json.dumps(facts, indent=2) + "\n"
    return (_as_markdown if format == "md" else _as_text)(*_sections(facts))


def main(_command: str, arguments: list[str]) -> int:
    parser = Parser(prog="norn info", add_help=False, allow_abbrev=False)
    parser.add_argument("FILE")
    COMMAND.add_to(parser)
    wish = parser.parse_args(arguments)
    print(text_of(describe(wish.FILE), wish.format), end="")
    return 0
