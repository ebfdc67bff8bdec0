# SPDX-License-Identifier: Apache-2.0
"""Where entries come from: files of many formats, and tables in memory."""
from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._words import choice
from ..errors import DataError, UsageError
from . import arrow, text
from .columns import ArrayColumn, Table, unknown_column
from .entries import Entries
from .labels import from_text
from .matrices import read_npz
from .netcdf import Pair, read_numbers
from .packed import files_of, plain_name, require_pyarrow, unpacked
from .times import times_of
from .where import Condition, rows_where

_log = logging.getLogger("norn")
_ENDINGS = {
    ".parquet": "parquet", ".pq": "parquet", ".feather": "arrow", ".arrow": "arrow", ".ipc": "arrow",
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".npz": "npz", ".nc": "netcdf",
    ".inter": "columns", ".dat": "columns", ".data": "columns", ".csv": "csv", ".tsv": "tsv",
}
# By the importer's formats whether lines have columns (tools/dev/write_reference.sh).
_TEXT_FORMATS = json.loads(pathlib.Path(__file__).with_name("text_formats.json").read_text(encoding="utf-8"))
IMPORTER_FORMATS = tuple(_TEXT_FORMATS)
_WITHOUT_COLUMNS = tuple(name for name, in_columns in _TEXT_FORMATS.items() if not in_columns)
_OF_TEXT = ("separator", "header", "skip_malformed")
_OF_COLUMNS = ("example", "feature", "value", "time", "where")
# By what a source is: its name in messages, and the arguments that have no meaning for it.
_MEANINGLESS = {
    "dsstne": ("dsstne text, which has no columns", ("example", "feature", "header")),
    "list": ("list text, which has neither columns nor values", ("example", "feature", "value", "header")),
    "libsvm": ("LibSVM text, which has numbers in place of names and always values", ("example", "feature", "value", "header")),
    "columns": ("columns that importer does not read by itself: other separators, filters, RecBole's and MovieLens' files",
                ("skip_malformed",)),
    "parquet": ("Parquet", _OF_TEXT), "arrow": ("Arrow and Feather files", _OF_TEXT), "jsonl": ("JSON lines", _OF_TEXT),
    "npz": (".npz, which has a matrix", (*_OF_COLUMNS, *_OF_TEXT, "duplicates", "empty_rows")),
    "matrix": ("a matrix", (*_OF_COLUMNS, *_OF_TEXT, "duplicates", "empty_rows", "format")),
    "table": ("a table in memory", (*_OF_TEXT, "format")),
}
FORMATS = ("auto", "parquet", "arrow", "jsonl", "npz", "columns", "recbole", *IMPORTER_FORMATS)


@dataclasses.dataclass
class Wanted:
    """What is asked of a source."""

    example: str | None = None
    feature: str | None = None
    value: str | None = None
    time: str | None = None
    conditions: Sequence[Condition] = ()
    needs_time: bool = False  # a split asks for it
    format: str = "auto"
    separator: str | None = None
    header: str = "auto"
    skip_malformed: int = 0
    empty_rows: str = "error"
    duplicates: str = "error"

    def refuse_for(self, kind: str, place: str) -> None:
        """UsageError for arguments that are given and have no meaning for such a source."""
        called, names = _MEANINGLESS[kind]
        unlike = {name: getattr(self, name) != getattr(Wanted, name)
                  for name in names if name != "where"} | {"where": bool(self.conditions)}
        given = [f"`{name}`" for name in names if unlike[name]]
        if given:
            raise UsageError(f"{place}: {', '.join(given)} {'does' if len(given) == 1 else 'do'} not go with {called}; leave "
                             f"{'it' if len(given) == 1 else 'them'} out")

    @property
    def columns(self) -> dict[str, str]:
        """The columns that are needed, in order, each with what asks for it."""
        asked = [(self.example, "example"), (self.feature, "feature"), (self.value, "value"), (self.time, "time")]
        asked += [(one.column, f"where {one.text}") for one in self.conditions]
        needed: dict[str, str] = {}
        for name, argument in asked:
            if name is not None:
                needed.setdefault(name, argument)
        return needed

    @property
    def names_both(self) -> bool:
        """Whether examples and features are asked for by name, which may be the empty one."""
        return self.example is not None and self.feature is not None

    @property
    def named(self) -> bool:
        """Whether a column is asked for by name, so that text has a line of names."""
        return any(not name.isdigit() for name in self.columns)


def format_of(path: pathlib.Path, given: str) -> str:
    """A word of FORMATS; "text" for what importer tells apart."""
    choice("format", given, FORMATS)
    if given == "recbole":
        return "columns"
    if given != "auto":
        return given
    if path.is_dir() and any(path.glob("*.parquet")):  # beside them may stand other files, and folders of parts
        return "parquet"
    name = plain_name(files_of(path)[0])
    return _ENDINGS.get(pathlib.PurePath(name).suffix, "columns" if name.endswith((".base", ".test")) else "text")


def is_importers(path: pathlib.Path, wanted: Wanted) -> bool:
    """Whether the engine reads the text by itself: all that it can, so that there is one reading of it."""
    kind = format_of(path, wanted.format)
    timed = wanted.needs_time or wanted.time is not None
    plain = not (wanted.conditions or wanted.separator is not None or timed != wanted.needs_time)
    if kind == "text" and wanted.separator is None and not plain:
        kind = _without_columns(path, wanted) or kind
    if kind in _WITHOUT_COLUMNS and (timed or not plain):
        raise UsageError(f"{path}: {kind} text has no columns, so `where`, `time` and `separator` do not go with it")
    if kind not in (*IMPORTER_FORMATS, "text") or not plain:
        return False
    if kind in _WITHOUT_COLUMNS or not (wanted.columns or kind != "text"):
        return True
    layout = text.layout_of(path, None, wanted.header, False)
    return layout.separator in (",\t" if kind == "text" else {"csv": ",", "tsv": "\t"}[kind]) and not layout.known


def _without_columns(path: pathlib.Path, wanted: Wanted) -> str | None:
    """What the engine takes a text for, where that has no columns."""
    from .. import _core

    with contextlib.suppress(DataError):  # it knows no format of these lines: other columns
        found: str = _core.text_format({"input": os.fspath(path), "header": wanted.header})
        return found if found in _WITHOUT_COLUMNS else None
    return None


def read_path(path: pathlib.Path, wanted: Wanted) -> Entries | Pair | Any:
    """The entries of a file or folder; of numbers without names a matrix (.npz), or what importer makes of them (LibSVM)."""
    kind = format_of(path, wanted.format)
    place = str(path)
    if kind in ("npz", "parquet", "arrow", "jsonl"):
        wanted.refuse_for(kind, place)
    if kind == "npz":
        return read_npz(path)
    if kind == "netcdf":
        raise UsageError(f"{path}: is a NetCDF file; read it with norn.Dataset.from_netcdf")
    if kind in (*IMPORTER_FORMATS, "text"):
        with unpacked(path) as plain:
            found = _read_by_engine(plain, wanted, place) if is_importers(plain, wanted) else _read_columns(plain, wanted, place)
        return found
    if kind == "parquet":
        source, known = arrow.read_parquet(path, [*wanted.columns, "timestamp", "time"] if wanted.names_both else None)
        return _from_arrow(source, wanted, place, known)
    if kind == "arrow":
        return _from_arrow(arrow.read_feather(path), wanted, place)
    if kind == "jsonl":
        as_text = [name.split(".")[0] for name in (wanted.example, wanted.feature) if name is not None]
        source = arrow.read_json_lines(path, as_text)
        if not as_text and len(source.column_names) == 2:
            source = arrow.read_json_lines(path, source.column_names)
        return _from_arrow(source, wanted, place)
    return _read_columns(path, wanted, place)


def _read_by_engine(path: pathlib.Path, wanted: Wanted, place: str) -> Entries | Pair:
    from .. import _core

    settings: dict[str, Any] = {"input": os.fspath(path), "header": wanted.header, "skip_malformed": wanted.skip_malformed,
                                "format": wanted.format if wanted.format in IMPORTER_FORMATS else "auto"}
    kind = _core.text_format(settings)
    if kind in _WITHOUT_COLUMNS:
        wanted.refuse_for(kind, place)
    settings["empty_rows"] = wanted.empty_rows
    if kind == "libsvm":
        return read_numbers(path, settings | {"duplicates": wanted.duplicates, "name": "data"})
    settings["type"] = "indicator" if wanted.value is None else "analog"
    for setting, given in (("example_column", wanted.example), ("feature_column", wanted.feature), ("value_column", wanted.value)):
        if given is not None:
            settings[setting] = given
    if wanted.needs_time:
        settings["split"] = "leave-last-out"  # lines have times
        names = text.layout_of(path, None, wanted.header, wanted.named).names
        time = wanted.time or _usual_time(names)
        if time is not None:
            settings["time_column"] = time
    examples, features, values, times, example_labels, feature_labels, *doubts = _core.read_entries(settings)
    for doubt in filter(None, doubts):
        _log.warning("%s: %s", place, doubt)
    return Entries(examples.view(np.int32), features.view(np.int32), values, from_text(example_labels) or [],
                   from_text(feature_labels) or [], place, times)


_USUAL_TIMES = ("timestamp", "timestamp:float", "time")


def _usual_time(names: Sequence[str]) -> str | None:
    return next((name for name in _USUAL_TIMES if name in names), None)


def _read_columns(path: pathlib.Path, wanted: Wanted, place: str) -> Entries:
    from .. import _core

    wanted.refuse_for("columns", place)
    layout = text.layout_of(path, wanted.separator, wanted.header, wanted.named)
    guessed = wanted.header == "auto" and not wanted.named and not layout.known
    wanted = _resolved(wanted, layout.names, place, True, layout.known)
    assert wanted.example is not None and wanted.feature is not None
    as_text = [wanted.example, wanted.feature]
    source = arrow.read_columns(path, layout.separator, None if layout.header else layout.names, as_text)
    entries = entries_of(arrow.table_of(source, wanted.columns, place), wanted)
    lines = text.first_lines(path, layout.separator) if guessed else []
    least = 1 if layout.header else 2  # rows that have what the first line has
    doubt = _core.first_line_doubt(layout.header, lines, _count(lines[0][0], entries.example_labels, entries.examples) >= least,
                                   _count(lines[0][1], entries.feature_labels, entries.features) >= least) if lines else None
    if doubt:
        _log.warning("%s: %s", place, doubt)
    return entries


def _count(word: str, labels: Sequence[str], numbers: Any) -> int:
    """How many entries have a label."""
    return int(np.count_nonzero(numbers == labels.index(word))) if word in labels else 0


def _from_arrow(source: Any, wanted: Wanted, place: str, known: Sequence[str] | None = None) -> Entries:
    names = list(known or source.column_names)
    wanted = _resolved(wanted, names, place, False, False)
    return entries_of(arrow.table_of(source, wanted.columns, place, names), wanted)


def _resolved(wanted: Wanted, names: list[str], place: str, numbered: bool, known: bool) -> Wanted:
    """With the source's own names of columns. Without any, text has the example first and the feature second, as importer
    takes them, and so have tables of two columns."""
    def own(name: str | None) -> str | None:
        return None if name is None else text.found_name(name, names, numbered)

    example, feature = own(wanted.example), own(wanted.feature)
    if example is None or feature is None:
        usual = next((pair for pair in (("userId", "movieId"), ("user_id:token", "item_id:token")) if set(pair) <= set(names)), None)
        if usual is None and not numbered and len(others := [name for name in names if name not in _USUAL_TIMES]) == 2:
            usual = others[0], others[1]
        if usual is None and not (numbered or known or len(names) == 2):
            raise UsageError(f"{place}: which column has the examples (users, baskets) and which the features (items)? Say `example` and "
                             f"`feature`; there are: {', '.join(names[:30])}")
        if len(names) < 2:
            raise DataError(f"{place}: has {len(names)} columns, expected an example and a feature at least")
        first, second = usual or (names[0], names[1])
        example, feature = first if example is None else example, second if feature is None else feature
    time = own(wanted.time)
    if time is None and wanted.needs_time:
        time = _usual_time(names)
    conditions = [one._replace(column=own(one.column) or one.column) for one in wanted.conditions]
    return dataclasses.replace(wanted, example=example, feature=feature, value=own(wanted.value), time=time, conditions=conditions)


def read_table(source: Any, wanted: Wanted) -> Entries:
    """The entries of a table in memory: whatever has __arrow_c_stream__, a pandas.DataFrame, or a mapping of arrays."""
    wanted.refuse_for("table", "table")
    if isinstance(source, Mapping):
        return _from_arrays({str(name): array for name, array in source.items()}, wanted, "table")
    place = f"{type(source).__module__.split('.')[0]} table"
    try:
        import pyarrow as pa
    except ImportError:
        pa = None
    if _is_pandas(source) and (pa is None or not hasattr(source, "__arrow_c_stream__")):
        return _from_arrays({str(name): _pandas_array(source[name]) for name in source.columns}, wanted, place)
    if not hasattr(source, "__arrow_c_stream__"):  # older versions of polars and DuckDB have but these
        give = getattr(source, "to_arrow", None) or getattr(source, "fetch_arrow_table", None)
        source = give() if callable(give) and pa is not None else source
    if not hasattr(source, "__arrow_c_stream__"):
        raise UsageError(f"`table` is of type {type(source).__name__}; give a path, a table (pandas, polars, DuckDB, pyarrow: all that has "
                         "__arrow_c_stream__), a mapping of arrays, or a scipy.sparse matrix")
    pa = require_pyarrow("to take tables")
    try:
        if _is_pandas(source):
            return _from_arrow(pa.table(_named_alone(source, wanted)), wanted, place, list(map(str, source.columns)))
        return _from_arrow(pa.table(source), wanted, place)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise DataError(f"{place}: {_mixed_column(source) or error}") from None


def _mixed_column(source: Any) -> str:
    """What is said of a column of pandas that Arrow does not take: it holds text and numbers; else nothing."""
    for name in source.columns if _is_pandas(source) else ():
        by_kind = {type(value): value for value in source[name] if value is not None and value == value}
        if source[name].dtype == object and len(by_kind) > 1:
            shown = " and ".join(repr(value) for value in list(by_kind.values())[:2])
            return (f'column "{name}" holds mixed types, such as {shown}: labels are all text or all whole numbers; '
                    ".astype(str) makes text of them")
    return ""


def _is_pandas(source: Any) -> bool:
    return type(source).__module__.split(".")[0] == "pandas" and hasattr(source, "columns")


def _named_alone(frame: Any, wanted: Wanted) -> Any:
    """Without columns that nobody asked for: Arrow may not know what they hold."""
    if len(set(map(str, frame.columns))) != len(frame.columns):
        raise DataError("pandas table: two columns have the same name; rename one")
    if not wanted.names_both:
        return frame
    names = {*wanted.columns, *(arrow.top_of(name, list(map(str, frame.columns))) for name in wanted.columns), "timestamp", "time"}
    kept = [name for name in frame.columns if str(name) in names]
    return frame[kept].rename(columns=str) if len(kept) > 1 else frame


def _pandas_array(series: Any) -> Any:
    if series.dtype.kind == "M" and getattr(series.dtype, "tz", None) is not None:
        return series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
    if series.dtype.kind in "iufbM" and isinstance(series.dtype, np.dtype):
        return series.to_numpy()
    objects = series.astype(object)
    return objects.where(objects.notna(), None).to_numpy()


def _from_arrays(arrays: Mapping[str, Any], wanted: Wanted, place: str) -> Entries:
    wanted = _resolved(wanted, list(arrays), place, False, False)
    columns: dict[str, ArrayColumn] = {}
    for name, argument in wanted.columns.items():
        if name not in arrays:
            raise UsageError(unknown_column(name, argument, arrays, place))
        columns[name] = ArrayColumn(name, arrays[name])
    sizes = {name: len(column.array) for name, column in columns.items()}
    if len(set(sizes.values())) > 1:
        raise DataError(f"{place}: its columns are not as long as each other: {sizes}")
    return entries_of(Table(dict(columns), next(iter(sizes.values())), place), wanted)


def entries_of(table: Table, wanted: Wanted) -> Entries:
    """Entries of the rows of which the filters hold."""
    assert wanted.example is not None and wanted.feature is not None
    if table.rows == 0:
        raise DataError(f"{table.place}: the table has no rows")
    if table.empty_rows.size and wanted.empty_rows != "drop":
        raise DataError(f"{table.place}: row {table.empty_rows[0]} (from 0) has no features; leave it out, or choose with "
                        "`empty_rows` drop")
    table.kept = rows_where(table, wanted.conditions)
    if table.kept is not None and table.kept.size == 0:
        raise DataError(f"{table.place}: no row is left of {table.rows} where "
                        + " and ".join(dict.fromkeys(one.text for one in wanted.conditions)))
    examples, example_labels = table.labels(wanted.example, "example")
    features, feature_labels = table.labels(wanted.feature, "feature")
    values = None if wanted.value is None else table.values(wanted.value, "value")
    times = None if wanted.time is None else times_of(table, wanted.time)
    return Entries(examples, features, values, example_labels, feature_labels, table.place, times)
