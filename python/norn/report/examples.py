# SPDX-License-Identifier: Apache-2.0
"""What a run's model finds best for some examples, by name, made by the program predictor: recommendations, or classes of images."""
from __future__ import annotations

import contextlib
import csv
import pathlib
import subprocess
import tempfile
from typing import TYPE_CHECKING, NamedTuple

from ..errors import DataError
from ..programs import path_of
from .labels import labels_of
from .pictures import Filters, ImageSets, Mistakes, filters_of, mistakes_of
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
    data: Path | None
    model: Path | None
    top: int
    predictor: Path | None


class Shown(NamedTuple):
    """What a page shows of the model itself."""

    filters: list[Filters] = []
    recommendations: list[tuple[str, list[str], list[tuple[str, float]]]] = []  # the example, what it holds, the best with scores
    mistakes: Mistakes | None = None


def model_of(run, wish):
    """The path, or None where none is there."""
    model = wish.model or (run.record.get("result") or {}).get("model")
    return model if model and pathlib.Path(model).exists() else None


def shown_of(run, wish):
    """Filters where model and netCDF4 are there; `wish.examples` examples, if that is not 0."""
    filters, model = [], model_of(run, wish)
    if model:
        try:
            filters = filters_of(run, model)
        except (ImportError, OSError):  # a page does without
            pass
    if not wish.examples:
        return Shown(filters)
    if not model:
        given = wish.model or (run.record.get("result") or {}).get("model")
        raise DataError(f"`examples`: the run's model {given or '(none was written)'} is not there; give `model`")
    mistakes = None if wish.requests else mistakes_in(run, wish, model)
    return Shown(filters, [] if mistakes else recommendations(run, wish, model), mistakes)


def recommendations(run, wish, model):
    """[(example, what it holds, [(name, score)])]"""
    with tempfile.TemporaryDirectory(prefix="norn-report-") as folder:
        requests = pathlib.Path(folder) / "requests.csv"
        held = from_text(wish.requests, wish.examples) if wish.requests else from_datasets(run, wish)
        with open(requests, "w", newline="", encoding="utf-8", errors="surrogateescape") as file:
            csv.writer(file, lineterminator="\n").writerows((name, item) for name, items in held for item in items)
        indexes = [*(("-i", str(wish.input_features or wish.features)) if wish.input_features or wish.features else ()),
                   *(("-o", str(wish.features)) if wish.features else ())]
        made = dict(predict(wish, model, "-r", str(requests), "--request-format", "csv", "--request-header", "no", *indexes,
                            "--exclude-seen"))
    return [(name, items, made.get(name, [])) for name, items in held]


def mistakes_in(run, wish, model):
    """Of held-out images, or those that were trained on where none were held out; None of data that are no images."""
    with opened(run, wish, ("validation_sets", "sets")) as (file, path):
        sets = ImageSets(run, file, path)
        return mistakes_of(sets, predict(wish, model, "--data", str(path)), wish.examples) if sets.has_images() else None


def predict(wish, model, *asked):
    """[(example, [(name, score)])] in the order of the examples, those with a list."""
    command = [str(path_of("predictor", wish.predictor, "`predictor`")), "-n", str(model), *asked, "-k", str(wish.top), "-s", "-",
               "--format", "tsv", "-p", ".6g", "--device", "cpu", "--quiet"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=PREDICTOR_SECONDS)
    except OSError as error:
        raise DataError(f"`predictor` {wish.predictor}: cannot be run: {error.strerror}; give the program's path") from error
    if done.returncode != 0:
        raise DataError(f"the predictor failed: {done.stderr.decode(errors='replace').strip()}")
    made = []
    for line in lines_of(done.stdout):
        name, rank, item, score = line.split("\t")
        if rank == "1":
            made.append((name, []))
        made[-1][1].append((item, float(score)))
    return made


@contextlib.contextmanager
def opened(run, wish, parts):
    """The file of data sets to take examples from, by default of the first of these parts of the record that is there, and its path."""
    try:
        import netCDF4  # only here and for filters: everything else does without
    except ImportError as error:
        raise DataError("`examples`: python3-netcdf4 is not installed; give examples as text with `requests`") from error
    inputs = {layer["DataSet"] for layer in run.record["network"]["Layers"] if layer["Kind"] == "Input"}
    path = wish.data or next(s["file"] for part in parts for s in run.record.get(part) or [] if s["name"] in inputs)
    try:
        file = netCDF4.Dataset(path)
    except OSError as error:
        raise DataError(f"`examples`: {path} cannot be read: {error.strerror or error}; give another file with `data`") from error
    with file:
        yield file, path


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
    index_file = wish.input_features or wish.features
    with opened(run, wish, ("sets",)) as (file, path):
        n = ImageSets(run, file, path).input
        if n is None:
            raise DataError(f"`examples`: {path} has no data set of the network's inputs; give another file with `data`")
        if f"sparseStart{n}" not in file.variables:
            raise DataError("`examples`: the run's data are dense; give examples as text with `requests`")
        names = read_index(index_file) if index_file else labels_of(file, n)
        begins, ends = file.variables[f"sparseStart{n}"][:], file.variables[f"sparseEnd{n}"][:]
        rows = [r for r in range(len(begins)) if ends[r] - begins[r] >= 3] or list(range(len(begins)))
        chosen = [rows[i * len(rows) // wish.examples] for i in range(min(wish.examples, len(rows)))]
        index = file.variables[f"sparseIndex{n}"]
        return [(f"example {r}", [names[int(u)] for u in index[int(begins[r]):int(ends[r])] if int(u) in names]) for r in chosen]


def read_index(path):
    try:
        lines = lines_of(pathlib.Path(path).read_bytes())
    except OSError as error:
        raise DataError(f"`features` {path}: cannot be read: {error.strerror}") from error
    pairs = (line.rpartition("\t") for line in lines if "\t" in line)
    return {int(number): name for name, _, number in pairs}
