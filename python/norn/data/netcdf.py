# SPDX-License-Identifier: Apache-2.0
"""Files of data sets (NetCDF), as importer writes them: the inputs and the targets of the same examples."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._words import word
from ..errors import DataError, UsageError
from .entries import Rows
from .labels import from_text, to_text

if TYPE_CHECKING:
    from .._types import Facts


class Side(NamedTuple):
    """A data set. `own_units`: its units are other things than those of the inputs."""

    rows: Rows
    width: int
    labels: list[str] | None
    own_units: bool = False


class Pair(NamedTuple):
    """`targets` None: the inputs themselves."""

    name: str
    inputs: Side
    targets: Side | None
    example_labels: list[str] | None


def read_pair(path: str, name: str | None = None) -> Pair:
    """NAME_input and NAME_output, or one set; unless it is said the only ones in the file."""
    from .. import _core

    sets: dict[str, Facts] = {found["name"]: found for found in _core.read_sets(path)}
    listed = ", ".join(sets)
    pairs = [one.removesuffix("_input") for one in sets if one.endswith("_input") and one.removesuffix("_input") + "_output" in sets]
    if name is not None:
        word("name", name)
    elif len(sets) != 1 and len(pairs) != 1:
        raise UsageError(f"{path}: which data sets? Say `name`; there are: {listed}")
    else:
        name = next(iter(sets)) if len(sets) == 1 else pairs[0]
    first, second = (name, "") if name in sets else (f"{name}_input", f"{name}_output")
    if first not in sets:
        raise UsageError(f"{path}: `name` {name!r}: there is no data set {first}; there are: {listed}")
    inputs, outputs = sets[first], sets.get(second)
    for found in (inputs, outputs):
        if found is not None and (found["dense"] is not None or found["weights"] is not None):
            kind = "is dense" if found["dense"] is not None else "has weights of examples"
            raise DataError(f"{path}: data set \"{found['name']}\" {kind}, and norn.Dataset holds sparse examples alone; train from the "
                            "file")
    same = outputs is not None and not outputs["own_units"] and all(np.array_equal(inputs[key], outputs[key])
                                                                    for key in ("row_begin", "columns"))
    targets = None if outputs is None or same else _side(outputs, inputs["width"])
    return Pair(name.removesuffix("_input"), _side(inputs, inputs["width"]), targets, from_text(inputs["example_labels"]))


def _side(found: Facts, inputs_width: int) -> Side:
    columns = found["columns"] if found["columns"] is not None else np.zeros(0, dtype=np.uint32)
    rows = Rows(found["row_begin"], columns.view(np.int32), found["values"])
    return Side(rows, found["width"], from_text(found["feature_labels"]), found["own_units"] or found["width"] != inputs_width)


def write_pair(path: str, pair: Pair, target_values: bool) -> None:
    """Byte by byte what importer writes of the same rows. Targets that are the inputs are written without values unless
    `target_values` says so."""
    from .. import _core

    targets = pair.targets or pair.inputs
    sets = [_set_of(f"{pair.name}_input", pair.inputs, True, "feature", pair.name),
            _set_of(f"{pair.name}_output", targets, target_values or targets.own_units, "target" if targets.own_units else "feature",
                    pair.name)]
    examples = b"" if pair.example_labels is None else to_text(pair.example_labels, "example", pair.name)
    _core.write_sets(path, sets, examples)


def _set_of(name: str, side: Side, with_values: bool, what: str, place: str) -> dict[str, Any]:
    return {"name": name, "width": side.width, "own_units": side.own_units,
            "row_begin": np.ascontiguousarray(side.rows.begin, dtype=np.int64),
            "columns": np.ascontiguousarray(side.rows.columns).view(np.uint32), "values": side.rows.values if with_values else None,
            "feature_labels": None if side.labels is None else to_text(side.labels, what, place)}


def read_numbers(path: os.PathLike[str], settings: dict[str, Any]) -> Pair:
    """Of text that importer reads, LibSVM's, whose columns are numbers: what importer makes of it."""
    import tempfile

    from .. import _core

    with tempfile.TemporaryDirectory(prefix="norn-") as folder:
        made = os.path.join(folder, "made.nc")
        _core.import_files(settings | {"input": os.fspath(path), "output": made})
        return read_pair(made)
