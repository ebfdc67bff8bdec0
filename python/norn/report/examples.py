# SPDX-License-Identifier: Apache-2.0
"""Recommendations of a run's model for some examples, by name, made by the program predictor."""
from __future__ import annotations

import csv
import pathlib
import subprocess
import tempfile
import zlib
from typing import TYPE_CHECKING, NamedTuple

from ..errors import DataError
from ..programs import path_of
from .runs import lines_of

if TYPE_CHECKING:
    from .._types import Path
SHOWN_ITEMS = 14  # of what an example holds
PREDICTOR_SECONDS = 600


class Wish(NamedTuple):
    """What is recommended, of which examples."""

    examples: int
    features: Path | None
    input_features: Path | None
    requests: Path | None
    model: Path | None
    top: int
    predictor: Path | None


def recommendations(run, wish):
    """[(example, what it holds, [(name, score)])]"""
    model = wish.model or run.record.get("result", {}) and run.record["result"].get("model")
    if not model or not pathlib.Path(model).exists():
        raise DataError(f"`examples`: the run's model {model or '(none was written)'} is not there; give `model`")
    with tempfile.TemporaryDirectory(prefix="norn-report-") as folder:
        requests = pathlib.Path(folder) / "requests.csv"
        held = from_text(wish.requests, wish.examples) if wish.requests else from_datasets(run, wish)
        with open(requests, "w", newline="", encoding="utf-8", errors="surrogateescape") as file:
            csv.writer(file, lineterminator="\n").writerows((name, item) for name, items in held for item in items)
        made = predict(wish, model, requests)
    return [(name, items, made.get(name, [])) for name, items in held]


def predict(wish, model, requests):
    indexes = [*(("-i", str(wish.input_features or wish.features)) if wish.input_features or wish.features else ()),
               *(("-o", str(wish.features)) if wish.features else ())]
    command = [str(path_of("predictor", wish.predictor, "`predictor`")), "-n", str(model), "-r", str(requests), "--request-format", "csv",
               "--request-header", "no",
               *indexes, "--exclude-seen", "-k", str(wish.top), "-s", "-", "--format", "tsv", "-p", ".6g", "--device", "cpu",
               "--quiet"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=PREDICTOR_SECONDS)
    except OSError as error:
        raise DataError(f"`predictor` {wish.predictor}: cannot be run: {error.strerror}; give the program's path") from error
    if done.returncode != 0:
        raise DataError(f"the predictor failed: {done.stderr.decode(errors='replace').strip()}")
    made = {}
    for line in lines_of(done.stdout):
        name, _, item, score = line.split("\t")
        made.setdefault(name, []).append((item, float(score)))
    return made


def from_text(path, wanted):
    """The first examples of a text of requests that hold something."""
    try:
        lines = lines_of(pathlib.Path(path).read_bytes())
    except OSError as error:
        raise DataError(f"`requests` {path}: cannot be read: {error.strerror}") from error
    held = [(line.split("\t")[0], line.split("\t")[1].split(":")) for line in lines if "\t" in line]
    return [(name, [item.split(",")[0] for item in items if item]) for name, items in held if any(items)][:wanted]


def from_datasets(run, wish):
    """Examples at equal distances of the run's first sparse input set, with the names of a feature index or those that the set
    keeps."""
    try:
        import netCDF4  # only here: everything else does without
    except ImportError as error:
        raise DataError("`examples`: python3-netcdf4 is not installed; give examples as text with `requests`") from error
    inputs = {layer["DataSet"] for layer in run.record["network"]["Layers"] if layer["Kind"] == "Input"}
    sets = [s for s in run.record["sets"] if s["name"] in inputs]
    index_file = wish.input_features or wish.features
    with netCDF4.Dataset(sets[0]["file"]) as file:
        n = next(i for i in range(int(file.datasets)) if file.getncattr(f"name{i}") == sets[0]["name"])
        if f"sparseStart{n}" not in file.variables:
            raise DataError("`examples`: the run's data are dense; give examples as text with `requests`")
        names = read_index(index_file) if index_file else labels_of(file, n)
        begins, ends = file.variables[f"sparseStart{n}"][:], file.variables[f"sparseEnd{n}"][:]
        rows = [r for r in range(len(begins)) if ends[r] - begins[r] >= 3] or list(range(len(begins)))
        chosen = [rows[i * len(rows) // wish.examples] for i in range(min(wish.examples, len(rows)))]
        index = file.variables[f"sparseIndex{n}"]
        return [(f"example {r}", [names[int(u)] for u in index[int(begins[r]):int(ends[r])] if int(u) in names]) for r in chosen]


def labels_of(file, n):
    """The labels of set n; docs/user/formats.md."""
    n = int(getattr(file, f"featureLabelsOf{n}", n))
    if getattr(file, f"featureLabelsAreNumbers{n}", 0):
        return {unit: str(unit) for unit in range(int(getattr(file, f"width{n}")))}
    if f"featureLabels{n}" not in file.variables:
        raise DataError("`examples`: the run's data keep no labels; give the feature index with `features`")
    lines = zlib.decompress(file[f"featureLabels{n}"][:].tobytes())
    return dict(enumerate(lines_of(lines)))


def read_index(path):
    try:
        lines = lines_of(pathlib.Path(path).read_bytes())
    except OSError as error:
        raise DataError(f"`features` {path}: cannot be read: {error.strerror}") from error
    pairs = (line.rpartition("\t") for line in lines if "\t" in line)
    return {int(number): name for name, _, number in pairs}
