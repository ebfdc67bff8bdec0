# SPDX-License-Identifier: Apache-2.0
"""Data sets: sparse examples with the names of examples and features."""
from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import scipy.sparse as sp

from ._words import choice, count, path_of, word
from .data import splits
from .data.entries import Entries, Rows, core, rows_of, with_features, without_duplicates
from .data.labels import checked_labels, to_text
from .data.matrices import finite_csr
from .data.netcdf import Pair, Side, read_pair, write_pair
from .data.sources import Wanted, read_path, read_table
from .data.where import parse
from .errors import DataError, UsageError
from .tables import TableStream, entries_table

if TYPE_CHECKING:
    from ._types import Matrix, Path, Table


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
        matrix: Matrix,
        *,
        targets: Matrix | None = None,
        feature_labels: Iterable[str] | None = None,
        example_labels: Iterable[str] | None = None,
        target_labels: Iterable[str] | None = None,
        name: str = "data",
    ):
        inputs = finite_csr(matrix, "matrix")
        wanted = None if targets is None else finite_csr(targets, "targets")
        self._begin(_rows_of_matrix(inputs), None if wanted is None else _rows_of_matrix(wanted), inputs.shape[1], name)
        self._matrix, self._targets = inputs, wanted
        self.feature_labels = checked_labels(feature_labels, "feature_labels", inputs.shape[1])
        self.example_labels = checked_labels(example_labels, "example_labels", inputs.shape[0])
        if wanted is None:
            if target_labels is not None:
                raise UsageError("`target_labels` are for `targets`, which are not given")
            return
        if wanted.shape[0] != inputs.shape[0]:
            raise DataError(f"`targets` has {wanted.shape[0]} rows, `matrix` has {inputs.shape[0]}; both have a row for each example")
        self.target_labels = checked_labels(target_labels, "target_labels", wanted.shape[1])
        if self.target_labels is None and wanted.shape[1] != inputs.shape[1]:
            self.target_labels = [str(unit) for unit in range(wanted.shape[1])]

    def _begin(self, rows: Rows, targets: Rows | None, width: int, name: str) -> None:
        self._rows, self._target_rows, self._width, self.name = rows, targets, width, _name(name)
        self._matrix: Any = None  # made of the rows when they are asked for
        self._targets: Any = None
        self._parts: dict[str, Dataset] | None = None
        self.feature_labels = self.example_labels = self.target_labels = None
        self.left_out = 0
        self._has_given_features = False

    @classmethod
    def _of_rows(cls, rows: Rows, targets: Rows | None, width: int, name: str) -> Dataset:
        made = cls.__new__(cls)
        made._begin(rows, targets, width, name)
        return made

    def _with_rows(self, rows: Rows, targets: Rows | None, example_labels: list[str] | None) -> Dataset:
        """Other examples of the same features."""
        made = Dataset._of_rows(rows, targets, self._width, self.name)
        made.feature_labels, made.example_labels, made.target_labels = self.feature_labels, example_labels, self.target_labels
        return made

    # What it holds.

    @property
    def matrix(self) -> sp.csr_matrix:
        """What is known of the examples: [examples x features], float32, int32 columns in order. Without values all are 1."""
        if self._matrix is None:
            self._matrix = self._rows.matrix(self._width)
        return self._matrix

    @property
    def targets(self) -> sp.csr_matrix | None:
        """What is to be found, where that is not the matrix itself: [examples x targets]; else None."""
        if self._targets is None and self._target_rows is not None:
            self._targets = self._target_rows.matrix(self._width if self.target_labels is None else len(self.target_labels))
        return self._targets

    @property
    def indicator(self) -> bool:
        """Whether features are present or absent, without values."""
        return self._rows.values is None

    @property
    def shape(self) -> tuple[int, int]:
        """How many examples and features there are."""
        return len(self), self._width

    @property
    def entries(self) -> int:
        """How many features all examples have together. Zeros that are stored count here and go into files, though training and
        recommending pass over them: `matrix.eliminate_zeros()` of SciPy takes them out before."""
        return int(self._rows.columns.size)

    def __len__(self) -> int:
        return self._rows.examples

    def __repr__(self) -> str:
        kind = "" if self.indicator else ", with values"
        targets = "" if self._target_rows is None else f", {self._target_rows.columns.size:,} to be found"
        parts = "" if self._parts is None else f"; parts: {', '.join(self._parts)}"
        size = f"{len(self):,} examples, {self._width:,} features, {self.entries:,} entries"
        return f"<norn.Dataset \"{self.name}\": {size}{kind}{targets}{parts}>"

    # Parts.

    @property
    def is_split(self) -> bool:
        """Whether there are parts."""
        return self._parts is not None

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
            rule: "ratio:0.8/0.2", "ratio:0.8/0.1/0.1" (shares are divided by their sum), "leave-one-out"; of data with times
                "time:2026-01-31" (what is older trains, the rest tests; "time:A/B": validation from A, test from B) and "leave-last-out"
                (the newest entry); "new-items:0.1": a share of the items, which train does not have. In all parts they are numbered behind
                the others, as `add_items` puts them; test has what is known of examples, and of new items what is to be found.
            by: "entry" (of each example), "example" (whole ones) or "pair" (an entry stays in its part when the data grow).
            seed: of what is drawn.

        Returns the data with the parts `train`, `test` and, of three, `validation`.
        """
        in_time = splits.by_time(rule)
        if rule.startswith("new-items:"):
            return self._split_items(rule, word("split_by", by), seed)
        if self._target_rows is not None and word("split_by", by) != "example":
            raise UsageError("a split by entry needs data that are their own targets; use `split_by` example")
        made = self._by_label() if in_time else self._with_rows(self._rows, self._target_rows, self.example_labels)
        labels = made.example_labels
        lines = to_text(labels or [str(row) for row in range(len(self))], "example", self.name) if word("split_by", by) == "pair" else b""
        parts: dict[str, Dataset] = {}
        for part in splits.split_rows(made._rows, rule, by, seed, lines, f"data \"{self.name}\""):
            targets = part.targets
            if self._target_rows is not None:
                targets = self._target_rows.of_examples(np.isin(np.arange(len(self)), part.examples))
            parts[part.name] = made._with_rows(part.inputs, targets,
                                               None if labels is None else [labels[number] for number in part.examples])
        made._parts = parts
        return made

    def _split_items(self, rule: str, by: str, seed: int) -> Dataset:
        if by != "entry" or self._target_rows is not None:
            raise UsageError("a split by items needs data that are their own targets, and no other `split_by`")
        order, known = splits.items_first(rule, self._width, seed)
        number = np.empty(self._width, np.int32)
        number[order] = np.arange(self._width, dtype=np.int32)
        labels = self.feature_labels
        made = self._with_rows(dataclasses.replace(self._rows, columns=number[self._rows.columns]), None, self.example_labels)
        made.feature_labels = [str(item) if labels is None else labels[item] for item in order]
        before = made._rows.taken(made._rows.columns < known)
        new = made._rows.taken(made._rows.columns >= known)
        has_known, has_new = np.diff(before.begin) > 0, np.diff(new.begin) > 0
        trained = has_known | ~has_new

        def labels_of(kept: Any) -> list[str] | None:
            return None if self.example_labels is None else [self.example_labels[row] for row in np.flatnonzero(kept)]

        train = made._with_rows(before.of_examples(trained), None, labels_of(trained))
        train._width, train.feature_labels = known, made.feature_labels[:known]
        here = has_known & has_new
        if not here.any():
            raise DataError(f"data \"{self.name}\": no example has items of both kinds; give more data or change `split` {rule}")
        test = made._with_rows(before.of_examples(here), new.of_examples(here), labels_of(here))
        made._parts = {"train": train, "test": test}
        return made

    def _by_label(self) -> Dataset:
        """Numbered as importer does for a split by time, which is the same in any order of lines."""
        rows = self._rows
        if rows.times is None or self.example_labels is None or self.feature_labels is None:
            return self
        entries = Entries(rows.row_of(), rows.columns, rows.values, self.example_labels, self.feature_labels, self.name, rows.times)
        entries = entries.by_label(self._has_given_features)
        made = self._with_rows(rows_of(entries), None, list(entries.example_labels))
        made.feature_labels = list(entries.feature_labels)
        return made

    # Tables and files.

    @classmethod
    def from_table(
        cls, table: Table, example: str | int | None = None, feature: str | int | None = None, value: str | int | None = None, *,
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
            value: column of numbers; without it features are present or absent. Of dsstne text, which has no columns, anything: its
                values are taken.
            time: column of dates, times or numbers since 1970.
            where: filters such as "rating >= 4" or "event in (buy, view)"; of several all must hold.
            min_features, min_examples: leaves out examples with fewer features and features of fewer examples, until none is left.
            duplicates: a feature that an example names twice: "error", "sum" or "first".
            features: labels, or data that have them: the numbers that features are to have. Others are left out (`left_out`), and
                examples that have only such, with a warning, unless `empty_rows` says "drop" or "keep".
            split, split_by, seed: as split() takes them.
            name: of the data sets in files.
            format: "auto", "parquet", "arrow", "jsonl", "npz", "columns", "recbole", "dsstne", "libsvm", "csv", "tsv" or "list".
            separator: of columns of text, such as ";" or "::" or "tab".
            header: whether text begins with the names of columns: "auto", "yes" or "no".
            skip_malformed: so many malformed lines are passed over, of the formats that importer reads.
            empty_rows: an example whose list is empty: "error" or "drop"; one without any of `features`: "drop" or "keep", a row
                without entries.

        Examples and features are numbered as they appear, so `to_netcdf` writes the bytes that importer makes of the same rows
        in CSV. Raises UsageError for columns that are not there, arguments that have no meaning for the table's format and filters
        that are not understood, DataError naming file, column, row and value for data that are wrong.
        """
        wanted = Wanted(*(None if column is None else str(column) for column in (example, feature, value, time)), conditions=parse(where),
                        needs_time=split is not None and splits.by_time(split), format=format, separator=separator, header=header,
                        skip_malformed=count("skip_malformed", skip_malformed, 0),
                        empty_rows=choice("empty_rows", empty_rows, ("error", "drop", "keep")),
                        duplicates=choice("duplicates", duplicates, ("error", "sum", "first")))
        at_least = count("min_features", min_features), count("min_examples", min_examples)
        if empty_rows == "keep" and features is None:
            raise UsageError("`empty_rows` 'keep': keeps examples that have none of `features`, which are not given; choose of: "
                             "error, drop")
        if isinstance(table, (str, os.PathLike)):
            found = read_path(pathlib.Path(table), wanted)
        elif sp.issparse(table):
            wanted.refuse_for("matrix", "matrix")
            found = table
        else:
            found = read_table(table, wanted)
        if isinstance(found, Entries):
            made = cls._of_entries(found, at_least, duplicates, features, name, wanted)
        elif at_least != (1, 1) or features is not None:
            raise UsageError("a matrix has no columns with names: `min_features`, `min_examples` and `features` do not go with it")
        else:
            made = cls._of_pair(found._replace(name=name)) if isinstance(found, Pair) else cls(cast("Matrix", found), name=name)
        return made if split is None else made.split(split, by=split_by, seed=seed)

    @classmethod
    def _of_entries(cls, entries: Entries, at_least: tuple[int, int], duplicates: str, features: Dataset | Sequence[str] | None, name: str,
                    wanted: Wanted) -> Dataset:
        left_out = 0
        if features is not None:
            given = features.feature_labels if isinstance(features, Dataset) else list(features)
            if given is None:
                raise UsageError("`features`: these data have no labels of features")
            entries, left_out = with_features(entries, given, wanted.empty_rows)
        if wanted.needs_time and entries.times is not None:  # duplicates are merged in the order of their times
            entries = entries.oldest_first()
        entries = core(without_duplicates(entries, duplicates), *at_least)
        if not len(entries):
            raise DataError(f"{entries.place}: no entry is left with at least {at_least[0]} features an example and {at_least[1]} examples "
                            "a feature" + (", of the features given" if features is not None else ""))
        numbers, labels = entries.features, entries.feature_labels
        if features is None or at_least != (1, 1):
            entries = entries.numbered()
        if features is not None:  # they keep the numbers that they were given
            entries.features, entries.feature_labels = numbers, labels
        made = cls._of_rows(rows_of(entries), None, len(entries.feature_labels), name)
        made.feature_labels, made.example_labels = list(entries.feature_labels), list(entries.example_labels)
        made.left_out, made._has_given_features = left_out, features is not None
        return made

    @classmethod
    def _of_pair(cls, pair: Pair) -> Dataset:
        inputs, targets = pair.inputs, pair.targets
        made = cls._of_rows(inputs.rows, None if targets is None else targets.rows, inputs.width, pair.name)
        made.feature_labels, made.example_labels = inputs.labels, pair.example_labels
        if targets is not None and targets.own_units:
            made.target_labels = targets.labels or [str(unit) for unit in range(targets.width)]
        return made

    @classmethod
    def from_netcdf(cls, path: Path, name: str | None = None) -> Dataset:
        """Reads sparse data sets that importer, to_netcdf or another program wrote.

        Args:
            path: of the file.
            name: of NAME_input and NAME_output, or of one set; None: the only ones in the file.

        Raises DataError for a file that is missing, damaged, dense or weighted, UsageError where `name` must be said.
        """
        return cls._of_pair(read_pair(path_of("path", path), name))

    def to_netcdf(self, path: Path, *, name: str | None = None, target_values: bool = False) -> list[str]:
        """Writes what importer would make of the same rows in CSV, byte by byte. Data that are split go to PATH.train.nc,
        PATH.test.nc and so on.

        Args:
            path: of the file, NAME.nc.
            name: instead of the data's own.
            target_values: targets have values too (`importer --target-type analog`).

        Returns the files. They are complete or absent; DataError says why one cannot be written.
        """
        path = pathlib.Path(path)
        name = self.name if name is None else _name(name)
        if self._parts is not None:
            stem = path.with_suffix("") if path.suffix == ".nc" else path
            return [file for part, data in self._parts.items()
                    for file in data.to_netcdf(f"{stem}.{part}.nc", name=name, target_values=target_values)]
        inputs, targets = Side(self._rows, self._width, self.feature_labels), None
        if self._target_rows is not None and self.target_labels is not None:
            targets = Side(self._target_rows, len(self.target_labels), self.target_labels, True)
        elif self._target_rows is not None:
            targets = inputs._replace(rows=self._target_rows)
        file = path_of("path", path)
        write_pair(file, Pair(name, inputs, targets, self.example_labels), target_values)
        return [file]

    def to_table(self, example: str = "example", feature: str = "feature", value: str = "value", *, targets: bool = False) -> TableStream:
        """The entries as a table of Arrow, which from_table() reads: for Parquet, pandas, polars, DuckDB. It needs pyarrow.

        Args:
            example, feature: names of the columns, of labels, or of numbers where there are none.
            value: of the column of values, which data have that are not only present or absent.
            targets: what is to be found, in place of what is known.

        Returns a TableStream, which is made a batch of entries at a time. An example without entries has no row. Raises UsageError for
        `targets` of data without.
        """
        names = word("example", example), word("feature", feature), word("value", value)
        if len(set(names)) < len(names):
            raise UsageError(f"`example`, `feature` and `value` are {', '.join(names)}: expected other names for other columns")
        rows, labels = self._rows, self.feature_labels
        if targets:
            if self._target_rows is None:
                raise UsageError("`targets`: these data have no targets; of data that are split the parts .test and .validation have them")
            rows, labels = self._target_rows, labels if self.target_labels is None else self.target_labels
        return entries_table(rows, (self.example_labels, labels), names)


def _rows_of_matrix(matrix: sp.csr_matrix) -> Rows:
    return Rows(matrix.indptr, matrix.indices, None if np.all(matrix.data == 1) else matrix.data)


def _name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise UsageError(f"`name` {name!r}: expected a text that is not empty")
    return name
