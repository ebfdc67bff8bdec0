# SPDX-License-Identifier: Apache-2.0
"""Data sets: sparse examples with the names of examples and features."""
from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from .data import splits
from .data.entries import Entries, Rows, check_rule, core, rows_of, with_features, without_duplicates
from .data.labels import from_text, to_text
from .data.matrices import csr_of, matrix_of, read_npz, rows_of_matrix
from .data.sources import Wanted, format_of, is_importers, read_path, read_table
from .data.where import parse
from .errors import DataError, UsageError


class Dataset:
    """Examples as rows of a sparse matrix, with the names of rows and columns.

    `norn.Dataset(csr)` takes a scipy.sparse matrix [examples x features] as it stands, without a copy where its values are
    float32, its columns int32 and in order. `Dataset.from_table` reads tables and files, `Dataset.from_netcdf` what importer
    wrote.

    Args:
        matrix: scipy.sparse matrix or NumPy array [examples x features] of finite numbers.
        targets: [examples x targets] what is to be predicted; None: the matrix itself.
        feature_labels: a name for each column, in order; None: columns are numbers.
        example_labels: a name for each row.
        target_labels: a name for each column of `targets` where these are other things than the features of the matrix;
            where only the widths differ they are numbers.
        name: the data sets in files are NAME_input and NAME_output.

    Raises DataError for values that are not finite, columns out of range or there twice, labels that are not as many as they
    should be, and UsageError for arguments of another kind.
    """

    feature_labels: list[str] | None  # a name for each column, in order
    example_labels: list[str] | None  # for each row
    target_labels: list[str] | None  # for each column of `targets`, where these are other things
    left_out: int  # entries of features that a given index lacks

    def __init__(
        self,
        matrix: Any,
        *,
        targets: Any = None,
        feature_labels: Iterable[str] | None = None,
        example_labels: Iterable[str] | None = None,
        target_labels: Iterable[str] | None = None,
        name: str = "data",
    ):
        inputs = csr_of(matrix, "matrix")
        wanted = None if targets is None else csr_of(targets, "targets")
        indicator = bool(np.all(inputs.data == 1))
        target_indicator = None if wanted is None else bool(np.all(wanted.data == 1))
        self._begin(inputs, wanted, indicator, target_indicator, name)
        self.feature_labels = _labels(feature_labels, "feature_labels", inputs.shape[1])
        self.example_labels = _labels(example_labels, "example_labels", inputs.shape[0])
        self.target_labels = None if wanted is None else _labels(target_labels, "target_labels", wanted.shape[1])
        if wanted is None and target_labels is not None:
            raise UsageError("`target_labels` are for `targets`, which are not given")
        if wanted is not None and wanted.shape[0] != inputs.shape[0]:
            raise DataError(f"`targets` has {wanted.shape[0]} rows, `matrix` has {inputs.shape[0]}; both have a row for each example")
        if wanted is not None and self.target_labels is None and wanted.shape[1] != inputs.shape[1]:
            self.target_labels = [str(unit) for unit in range(wanted.shape[1])]

    def _begin(self, matrix: sp.csr_matrix | None, targets: sp.csr_matrix | None, indicator: bool, target_indicator: bool | None, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise UsageError(f"`name` {name!r}: expected a text that is not empty")
        self._matrix, self._targets = matrix, targets
        self._rows: Rows | None = None  # entries in the order of their text, where that is known
        self._target_rows: Rows | None = None
        self._width = 0 if matrix is None else matrix.shape[1]
        self._parts: dict[str, Dataset] | None = None
        self.indicator, self.target_indicator = indicator, target_indicator
        self.name = name
        self.feature_labels = self.example_labels = self.target_labels = None
        self.left_out = 0
        self._has_given_features = False

    @classmethod
    def _of_rows(cls, rows: Rows, targets: Rows | None, like: Dataset, example_labels: list[str] | None) -> Dataset:
        made = cls.__new__(cls)
        made._begin(None, None, rows.values is None, None if targets is None else targets.values is None, like.name)
        made._rows, made._target_rows, made._width = rows, targets, like._width
        made.feature_labels, made.example_labels = like.feature_labels, example_labels
        made.target_labels = like.target_labels
        return made

    # What it holds.

    @property
    def matrix(self) -> sp.csr_matrix:
        """What is known of the examples: [examples x features], float32, int32 columns in order. Without values all are 1."""
        if self._matrix is None:
            assert self._rows is not None
            self._matrix = matrix_of(self._rows, self._width)
        return self._matrix

    @property
    def targets(self) -> sp.csr_matrix | None:
        """What is to be found, where that is not the matrix itself: [examples x targets]."""
        if self._targets is None and self._target_rows is not None:
            width = self._width if self.target_labels is None else len(self.target_labels)
            self._targets = matrix_of(self._target_rows, width)
        return self._targets

    @property
    def shape(self) -> tuple[int, int]:
        """How many examples and features there are."""
        return len(self), self._width

    @property
    def entries(self) -> int:
        """How many features all examples have together."""
        return int(self._rows.columns.size if self._rows is not None else self.matrix.nnz)

    def __len__(self) -> int:
        return self._rows.examples if self._rows is not None else int(self.matrix.shape[0])

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_native_labels"}  # made anew where they are wanted

    def __repr__(self) -> str:
        kind = "" if self.indicator else ", with values"
        parts = "" if self._parts is None else f"; parts: {', '.join(self._parts)}"
        targets = ""
        if self._target_rows is not None or self._targets is not None:
            targets = f", {self.targets.nnz:,} to be found"  # type: ignore[union-attr]
        return f"<norn.Dataset \"{self.name}\": {len(self):,} examples, {self._width:,} features, {self.entries:,} entries{kind}{targets}{parts}>"

    # Parts.

    @property
    def parts(self) -> dict[str, Dataset]:
        """By name: train, test and perhaps validation. UsageError for data that are not split."""
        if self._parts is None:
            raise UsageError("the data are not split; give from_table(..., split=\"ratio:0.8/0.2\"), or call split()")
        return self._parts

    def _part(self, name: str) -> Dataset:
        if name not in self.parts:
            raise UsageError(f"the data have no part {name!r}; they have: {', '.join(self.parts)}")
        return self.parts[name]

    @property
    def train(self) -> Dataset:
        """The part to train on."""
        return self._part("train")

    @property
    def validation(self) -> Dataset:
        """The part to validate with, of a split into three."""
        return self._part("validation")

    @property
    def test(self) -> Dataset:
        """The part to evaluate on: `matrix` has what is known of its examples, `targets` what was held out."""
        return self._part("test")

    def split(self, rule: str, *, by: str = "entry", seed: int = 1) -> Dataset:
        """Shares the data out, as importer does with the same rule and seed.

        Args:
            rule: "ratio:0.8/0.2", "ratio:0.8/0.1/0.1", "leave-one-out"; of data with times "time:2026-01-31" (what is older
                trains, the rest tests; "time:A/B": validation from A, test from B) and "leave-last-out" (the newest entry).
            by: "entry" (of each example), "example" (whole ones) or "pair" (an entry stays in its part when the data grow).
            seed: of what is drawn.

        Returns the data with the parts `train`, `test` and, of three, `validation`.
        """
        if not isinstance(rule, str):
            raise UsageError(f"`split` {rule!r}: expected a rule such as \"ratio:0.8/0.2\"")
        has_targets = self._target_rows is not None or self._targets is not None
        if has_targets and by != "example":
            raise UsageError("a split by entry needs data that are their own targets; use `split_by` example")
        made = self._by_label() if splits.by_time(rule) else Dataset._of_rows(self._given_rows(), self._given_target_rows(), self, self.example_labels)
        rows, labels = made._given_rows(), made.example_labels
        lines = to_text(labels or [str(row) for row in range(len(self))], "example", self.name) if by == "pair" else b""
        made._parts = {}
        for part in splits.split_rows(rows, rule, by, seed, lines, f"data \"{self.name}\""):
            names = None if labels is None else [labels[number] for number in part.examples]
            targets = part.targets
            if has_targets:
                kept = np.zeros(len(self), dtype=bool)
                kept[part.examples] = True
                targets = self._given_target_rows().of_examples(kept)  # type: ignore[union-attr]
            made._parts[part.name] = Dataset._of_rows(part.inputs, targets, made, names)
        return made

    def _by_label(self) -> Dataset:
        """Numbered as importer does for a split by time, which is the same in any order of lines."""
        rows = self._given_rows()
        if rows.times is None or self.example_labels is None or self.feature_labels is None:
            return self
        entries = Entries(rows.row_of(), rows.columns, rows.values, self.example_labels, self.feature_labels, self.name, rows.times)
        entries = entries.by_label(self._has_given_features)
        made = Dataset._of_rows(rows_of(entries), None, self, list(entries.example_labels))
        made.feature_labels = list(entries.feature_labels)
        return made

    def _given_rows(self) -> Rows:
        return self._rows if self._rows is not None else rows_of_matrix(self.matrix, self.indicator)

    def _given_target_rows(self) -> Rows | None:
        if self._target_rows is not None or self._targets is None:
            return self._target_rows
        return rows_of_matrix(self._targets, bool(self.target_indicator))

    # Tables and files.

    @classmethod
    def from_table(
        cls, table: Any, example: str | int | None = None, feature: str | int | None = None, value: str | int | None = None, *,
        time: str | int | None = None, where: str | Sequence[str] | None = None, min_features: int = 1, min_examples: int = 1,
        duplicates: str = "error", features: Dataset | Sequence[str] | None = None,
        split: str | None = None, split_by: str = "entry", seed: int = 1, name: str = "data",
        format: str = "auto", separator: str | None = None, header: str = "auto", skip_malformed: int = 0, empty_rows: str = "error",
    ) -> Dataset:
        """Reads a table of entries, an example and a feature in each row.

        Args:
            table: a path (Parquet, Arrow, JSON lines, CSV, TSV and other columns of text, SciPy's .npz, RecBole's .inter,
                MovieLens' files, and what importer reads; compressed or not; or a folder of such), a table of pandas, polars,
                DuckDB or pyarrow, or a mapping of arrays. A column of lists holds all features of an example in one row.
            example, feature: columns, by name or, of text, by number from 1. Text and tables of two columns need not say them.
            value: column of numbers; without it features are present or absent.
            time: column of dates, times or numbers since 1970.
            where: filters such as "rating >= 4" or "event in (buy, view)"; of several all must hold.
            min_features, min_examples: leaves out examples with fewer features and features of fewer examples, until none is left.
            duplicates: a feature that an example names twice: "error", "sum" or "first".
            features: labels, or data that have them: the numbers that features are to have. Others are left out (`left_out`).
            split, split_by, seed: as split() takes them.
            name: of the data sets in files.
            format: "auto", "parquet", "arrow", "jsonl", "npz", "columns", "recbole", "dsstne", "libsvm", "csv", "tsv" or "list".
            separator: of columns of text, such as ";" or "::" or "tab".
            header: whether text begins with the names of columns: "auto", "yes" or "no".
            skip_malformed: so many malformed lines are passed over, of the formats that importer reads.
            empty_rows: an example whose list is empty: "error" or "drop".

        Examples and features are numbered as they appear, so `to_netcdf` writes the bytes that importer makes of the same rows
        in CSV. Raises UsageError for columns that are not there and filters that are not understood, DataError naming file,
        column, row and value for data that are wrong.
        """
        columns = [None if column is None else str(column) for column in (example, feature, value, time)]
        wanted = Wanted(columns[0], columns[1], columns[2], columns[3], conditions=parse(where), needs_time=split is not None and splits.by_time(split), format=format,
                        separator=separator, header=header, skip_malformed=_count(skip_malformed, "skip_malformed", 0),
                        empty_rows=_word(empty_rows, "empty_rows", ("error", "drop")))
        at_least = _count(min_features, "min_features", 1), _count(min_examples, "min_examples", 1)
        check_rule(duplicates)
        whole = _read_whole(cls, table, wanted, name) if isinstance(table, (str, os.PathLike)) or sp.issparse(table) else None
        if whole is not None:
            if wanted.columns or at_least != (1, 1) or features is not None:
                raise UsageError("a matrix has no columns with names: `example`, `feature`, `value`, `time`, `where`, `min_features`, "
                                 "`min_examples` and `features` do not go with it")
            made = whole
        else:
            entries = read_path(pathlib.Path(table), wanted) if isinstance(table, (str, os.PathLike)) else read_table(table, wanted)
            made = cls._of_entries(entries, at_least, duplicates, features, name, wanted.needs_time and entries.times is not None)
        return made if split is None else made.split(split, by=split_by, seed=seed)

    @classmethod
    def _of_entries(cls, entries: Entries, at_least: tuple[int, int], duplicates: str, features: Dataset | Sequence[str] | None, name: str,
                    in_time: bool) -> Dataset:
        left_out = 0
        if features is not None:
            given = features.feature_labels if isinstance(features, Dataset) else list(features)
            if given is None:
                raise UsageError("`features`: these data have no labels of features")
            entries, left_out = with_features(entries, given)
        if in_time:  # duplicates are merged in the order of their times
            entries = entries.oldest_first()
        entries = core(without_duplicates(entries, duplicates), *at_least)
        if not len(entries):
            raise DataError(f"{entries.place}: no entry is left with at least {at_least[0]} features an example and {at_least[1]} examples a "
                            "feature" + (", of the features given" if features is not None else ""))
        if features is None:
            entries = entries.numbered()
        elif at_least != (1, 1):
            labels, numbers = entries.feature_labels, entries.features
            entries = entries.numbered()
            entries.feature_labels, entries.features = labels, numbers
        made = cls.__new__(cls)
        made._begin(None, None, entries.values is None, None, name)
        made._rows, made._width = rows_of(entries), len(entries.feature_labels)
        made.feature_labels, made.example_labels = list(entries.feature_labels), list(entries.example_labels)
        made.left_out, made._has_given_features = left_out, features is not None
        return made

    @classmethod
    def from_netcdf(cls, path: os.PathLike | str, name: str | None = None) -> Dataset:
        """Reads sparse data sets that importer, to_netcdf or another program wrote.

        Args:
            path: of the file.
            name: of NAME_input and NAME_output, or of one set; None: the only ones in the file.

        Raises DataError for a file that is missing, damaged, dense or weighted, UsageError where `name` must be said.
        """
        from . import _core

        sets = {found["name"]: found for found in _core.read_sets(os.fspath(path))}
        chosen, inputs, outputs = _pair_of(sets, name, os.fspath(path))
        for found in (inputs, outputs):
            if found is not None and (found["dense"] is not None or found["weights"] is not None):
                kind = "is dense" if found["dense"] is not None else "has weights of examples"
                raise DataError(f"{path}: data set \"{found['name']}\" {kind}, and norn.Dataset holds sparse examples alone; train from the file")
        rows = _rows_of_set(inputs)
        targets = None if outputs is None or _same(inputs, outputs) else _rows_of_set(outputs)
        made = cls.__new__(cls)
        made._begin(None, None, rows.values is None, None if targets is None else targets.values is None, chosen)
        made._rows, made._target_rows, made._width = rows, targets, inputs["width"]
        made.feature_labels, made.example_labels = from_text(inputs["feature_labels"]), from_text(inputs["example_labels"])
        if outputs is not None and targets is not None and (outputs["own_units"] or outputs["width"] != inputs["width"]):
            made.target_labels = from_text(outputs["feature_labels"]) or [str(unit) for unit in range(outputs["width"])]
        return made

    def to_netcdf(self, path: os.PathLike | str, *, name: str | None = None, target_values: bool = False) -> list[str]:
        """Writes what importer would make of the same rows in CSV, byte by byte. Data that are split go to PATH.train.nc,
        PATH.test.nc and so on.

        Args:
            path: of the file, NAME.nc.
            name: instead of the data's own.
            target_values: targets have values too (`importer --target-type analog`).

        Returns the files. They are complete or absent; DataError says why one cannot be written.
        """
        path = pathlib.Path(path)
        if self._parts is not None:
            stem = path.with_suffix("") if path.suffix == ".nc" else path
            return [file for part, data in self._parts.items() for file in data.to_netcdf(f"{stem}.{part}.nc", name=name or self.name, target_values=target_values)]
        from . import _core

        name = name or self.name
        features = None if self.feature_labels is None else to_text(self.feature_labels, "feature", name)
        examples = b"" if self.example_labels is None else to_text(self.example_labels, "example", name)
        rows, targets = self._given_rows(), self._given_target_rows()
        own = self.target_labels is not None
        of_targets = to_text(self.target_labels, "target", name) if self.target_labels is not None else features
        width = self._width if targets is None or not own else len(self.target_labels or ())
        has_values = target_values or (targets is not None and own)
        sets = [_set_of(f"{name}_input", rows, self._width, True, features, False),
                _set_of(f"{name}_output", targets or rows, width, has_values, of_targets, own)]
        _core.write_sets(os.fspath(path), sets, examples)
        return [os.fspath(path)]


def _labels(labels: Iterable[str] | None, argument: str, count: int) -> list[str] | None:
    if labels is None:
        return None
    made = [str(label) if isinstance(label, (int, np.integer)) else label for label in labels]
    if len(made) != count:
        raise DataError(f"`{argument}`: {len(made)} labels for {count} {'rows' if argument.startswith('example') else 'columns'}")
    wrong = next((number for number, label in enumerate(made) if not isinstance(label, str)), None)
    if wrong is not None:
        raise DataError(f"`{argument}`: label {wrong} is {made[wrong]!r}, of type {type(made[wrong]).__name__}; labels are text")
    if len(set(made)) != count:
        seen: set[str] = set()
        twice = next(label for label in made if label in seen or seen.add(label))  # type: ignore[func-returns-value]
        raise DataError(f"`{argument}`: {twice!r} is there twice; every label is there once")
    to_text(made, argument.removesuffix("_labels"), f"`{argument}`")
    return made


def _count(value: Any, argument: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise UsageError(f"`{argument}` {value!r}: expected a whole number of at least {least}")
    return int(value)


def _word(value: str, argument: str, words: Sequence[str]) -> str:
    if value not in words:
        raise UsageError(f"`{argument}` {value!r}: there is no such choice; choose of: {', '.join(words)}")
    return value


def _read_whole(cls: type[Dataset], table: Any, wanted: Wanted, name: str) -> Dataset | None:
    """Matrices and text of numbers, which have no columns; None: a table."""
    if sp.issparse(table):
        return cls(table, name=name)
    path = pathlib.Path(table)
    kind = format_of(path, wanted.format)
    if kind == "npz":
        return cls(read_npz(path), name=name)
    if kind == "netcdf":
        raise UsageError(f"{path}: is a NetCDF file; read it with norn.Dataset.from_netcdf")
    if not is_importers(path, wanted):
        return None
    from . import _core

    settings: dict[str, Any] = {"input": os.fspath(path), "format": "auto" if kind == "text" else kind, "header": wanted.header}
    if _core.text_format(settings) != "libsvm":
        return None
    with tempfile.TemporaryDirectory(prefix="norn-") as folder:
        made = os.path.join(folder, "made.nc")
        settings |= {"output": made, "name": name, "skip_malformed": wanted.skip_malformed, "empty_rows": wanted.empty_rows}
        _core.import_text(settings)
        return cls.from_netcdf(made)


def _pair_of(sets: Mapping[str, dict], name: str | None, path: str) -> tuple[str, dict, dict | None]:
    listed = ", ".join(sets)
    if name is None:
        names = [one.removesuffix("_input") for one in sets if one.endswith("_input") and one.removesuffix("_input") + "_output" in sets]
        if len(sets) == 1:
            only = next(iter(sets))
            return only.removesuffix("_input"), sets[only], None
        if len(names) != 1:
            raise UsageError(f"{path}: which data sets? Say `name`; there are: {listed}")
        name = names[0]
    if name in sets:
        return name, sets[name], None
    if f"{name}_input" not in sets:
        raise UsageError(f"{path}: `name` {name!r}: there is no data set {name}_input; there are: {listed}")
    return name, sets[f"{name}_input"], sets.get(f"{name}_output")


def _rows_of_set(found: dict) -> Rows:
    columns = found["columns"] if found["columns"] is not None else np.zeros(0, dtype=np.uint32)
    return Rows(found["row_begin"], columns.view(np.int32), found["values"])


def _same(inputs: dict, outputs: dict) -> bool:
    """Whether the targets are the inputs themselves; importer drops their values."""
    return (not outputs["own_units"] and np.array_equal(inputs["row_begin"], outputs["row_begin"])
            and np.array_equal(inputs["columns"], outputs["columns"]))


def _set_of(name: str, rows: Rows, width: int, with_values: bool, labels: bytes | None, own_units: bool) -> dict:
    values = rows.values if with_values else None
    return {"name": name, "width": width, "own_units": own_units, "row_begin": np.ascontiguousarray(rows.begin, dtype=np.int64),
            "columns": np.ascontiguousarray(rows.columns).view(np.uint32), "values": values, "feature_labels": labels}
