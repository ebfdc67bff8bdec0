# SPDX-License-Identifier: Apache-2.0
"""Arrow's tables, and the files that it reads: Parquet, Feather, JSON lines, columns of text."""
from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import DataError, UsageError
from .columns import ArrowColumn, Column, Table, unknown_column
from .packed import files_of, read_bytes, require_utf8, stream


def require_pyarrow(what: str) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise UsageError(f"pyarrow is needed {what}; install it: pip install pyarrow") from None
    return pyarrow


def top_of(name: str, known: Sequence[str]) -> str:
    """The column that "events.item" lies in."""
    if name in known:
        return name
    parts = name.split(".")
    return next((".".join(parts[:n]) for n in range(len(parts) - 1, 0, -1) if ".".join(parts[:n]) in known), name)


def read_parquet(path: pathlib.Path, names: Sequence[str] | None) -> Any:
    pa = require_pyarrow("to read Parquet")
    import pyarrow.parquet as parquet

    try:
        known = parquet.ParquetDataset(path).schema.names
        wanted = None if names is None else [name for name in dict.fromkeys(top_of(name, known) for name in names) if name in known]
        return parquet.read_table(path, columns=wanted), known
    except FileNotFoundError:
        raise DataError(f"{path}: no such file or folder; check the path") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(path, "Parquet", error) from None


def read_feather(path: pathlib.Path) -> Any:
    pa = require_pyarrow("to read Arrow's files")
    tables = []
    for file in files_of(path):
        data = read_bytes(file)
        try:
            with (pa.ipc.open_file if data.startswith(b"ARROW1") else pa.ipc.open_stream)(pa.BufferReader(data)) as reader:
                tables.append(reader.read_all())
        except (pa.ArrowException, OSError, ValueError) as error:
            raise _damaged(file, "Arrow", error) from None
    return _joined(tables, path)


def read_json_lines(path: pathlib.Path, as_text: Sequence[str]) -> Any:
    """An object a line. Arrow takes text that looks like a date for one: in the columns of `as_text` it stays text."""
    pa = require_pyarrow("to read JSON lines")
    import pyarrow.json as json

    tables = []
    for file in files_of(path):
        data = read_bytes(file)
        require_utf8(data, file)
        if not data.strip():
            raise DataError(f"{file}: holds no lines; name a file with examples")
        read = json.ReadOptions(block_size=min(len(data) + 1, 2**31 - 1))  # in one piece, so that rows are counted from its beginning
        try:
            table = json.read_json(stream(data), read_options=read)
            fields = [_without_times(table.schema.field(name)) for name in table.schema.names if name in as_text]
            if any(field != table.schema.field(field.name) for field in fields):
                table = json.read_json(stream(data), read_options=read, parse_options=json.ParseOptions(explicit_schema=pa.schema(fields)))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise DataError(f"{file}: {_first_line(error)}; every line is an object of the same kinds of values, such as "
                            '{"user": "ann", "items": ["soap", "tea"]}') from None
        tables.append(table)
    return _joined(tables, path)


def _without_times(field: Any) -> Any:
    import pyarrow as pa

    def plain(kind: Any) -> Any:
        if pa.types.is_timestamp(kind):
            return pa.string()
        if pa.types.is_list(kind):
            return pa.list_(plain(kind.value_type))
        if pa.types.is_struct(kind):
            return pa.struct([pa.field(kind.field(i).name, plain(kind.field(i).type)) for i in range(kind.num_fields)])
        return kind

    return pa.field(field.name, plain(field.type))


def read_columns(path: pathlib.Path, separator: str, names: list[str] | None, as_text: Sequence[str]) -> Any:
    """Lines of fields; `names`: of the columns, None: the first line has them. In the columns of `as_text` nothing is taken for
    a number."""
    pa = require_pyarrow("to read columns with filters, times or other separators")
    import pyarrow.csv as csv

    tables = []
    for number, file in enumerate(files_of(path)):
        data = read_bytes(file)
        if b"\0" in data:
            raise DataError(f"{file}: holds a zero byte, so it is not text; convert it first (from UTF-16, for example)")
        require_utf8(data, file)
        mark = separator
        if len(separator.encode()) > 1:
            mark = "\x1f"
            if mark.encode() in data:
                raise DataError(f"{file}: holds the letter 0x1f, so it cannot be cut at {separator!r}; cut it with another program")
            data = data.replace(separator.encode(), mark.encode())
        options = {
            "read_options": csv.ReadOptions(column_names=names, block_size=1 << 24),
            "parse_options": csv.ParseOptions(delimiter=mark, quote_char='"' if separator in ",;|" else False),
            "convert_options": csv.ConvertOptions(column_types={name: pa.string() for name in as_text}, strings_can_be_null=False),
        }
        try:
            tables.append(csv.read_csv(stream(data), **options))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise DataError(f"{file}: {_first_line(error)}; correct the line") from None
        if number and tables[-1].column_names != tables[0].column_names:
            raise DataError(f"{file}: its columns are {tables[-1].column_names}, those of the files before {tables[0].column_names}")
    return _joined(tables, path)


def _joined(tables: list[Any], path: pathlib.Path) -> Any:
    import pyarrow as pa

    if len(tables) == 1:
        return tables[0]
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(f"{path}: its files do not have the same columns: {_first_line(error)}") from None


def _damaged(path: pathlib.Path, kind: str, error: Exception) -> DataError:
    return DataError(f"{path}: cannot be read as {kind}: {_first_line(error)}; is it cut off, or another format?")


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".;") if lines else type(error).__name__


def table_of(source: Any, names: Mapping[str, str], place: str, known: Sequence[str] | None = None) -> Table:
    """Columns of an Arrow table, by name with the argument that asks for it. Lists are opened: an entry for each element, with the other columns repeated; a
    field of structures in a list is "events.item"."""
    columns: dict[str, Any] = {}
    opened: tuple[str, np.ndarray] | None = None  # the first list, and the length of each row's
    flat: dict[str, bool] = {}
    for name, argument in names.items():
        top = top_of(name, source.column_names)
        if top not in source.column_names:
            raise UsageError(unknown_column(name, argument, known or source.column_names, place))
        array = _whole(source.column(top))
        fields = name[len(top) + 1:].split(".") if name != top else []
        array, lengths = _walk(array, name, fields, place)
        flat[name] = lengths is None
        columns[name] = array
        if lengths is None:
            continue
        if opened is None:
            opened = (name, lengths)
        wrong = np.flatnonzero(lengths != opened[1])
        if wrong.size:
            row = wrong[0]
            raise DataError(f"{place}: row {row} (from 0) has {opened[1][row]} elements in \"{opened[0]}\" and {lengths[row]} in \"{name}\"; "
                            "lists of one row are as long as each other")
    if opened is None:
        return Table({name: ArrowColumn(name, array) for name, array in columns.items()}, source.num_rows, place)
    row_of = np.repeat(np.arange(source.num_rows), opened[1])
    made: dict[str, Column] = {}
    for name, array in columns.items():
        made[name] = ArrowColumn(name, array.take(row_of) if flat[name] else array)
    table = Table(made, int(row_of.size), place, row_of)
    table.empty_rows = np.flatnonzero(opened[1] == 0)
    return table


def _whole(array: Any) -> Any:
    import pyarrow as pa

    if not isinstance(array, pa.ChunkedArray):
        return array
    if pa.types.is_string(array.type):
        array = array.cast(pa.large_string())
    elif pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    return array.chunk(0) if array.num_chunks == 1 else pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)


def _walk(array: Any, name: str, fields: list[str], place: str) -> tuple[Any, np.ndarray | None]:
    """Down structures and one list; the elements, and how many each row has."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths = None
    while True:
        kind = array.type
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            if lengths is not None:
                raise DataError(f"{place}: column \"{name}\" holds lists of lists; open one level before")
            lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)
            array = pc.list_flatten(array)
        elif pa.types.is_struct(kind):
            known = [kind.field(i).name for i in range(kind.num_fields)]
            if not fields or fields[0] not in known:
                raise UsageError(f"{place}: column \"{name}\" holds structures; name one of their fields: "
                                 + ", ".join(f"{name if not fields else name.rsplit('.', len(fields))[0]}.{field}" for field in known))
            array = pc.struct_field(array, fields.pop(0))
        elif fields:
            raise UsageError(f"{place}: there is no column \"{name}\": nothing lies below {kind} data")
        else:
            return array, lengths
