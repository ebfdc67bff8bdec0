# SPDX-License-Identifier: Apache-2.0
"""Arrow's tables, and the files that it reads: Parquet, Feather, JSON lines, columns of text."""
from __future__ import annotations

import contextlib
import io
import pathlib
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError, UsageError
from .columns import ArrowColumn, Table, decoded, unknown_column
from .packed import files_of, read_bytes, require_pyarrow, require_there, require_utf8

if TYPE_CHECKING:
    from .._types import Array


@contextlib.contextmanager
def _told(message: str) -> Generator[None, None, None]:
    """What Arrow finds wrong is a DataError with this message, in which {} is the first line of Arrow's."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise DataError(message.replace("{}", lines[0].rstrip(".;"))) from None


def _damaged(path: pathlib.Path, kind: str) -> contextlib.AbstractContextManager[None]:
    return _told(f"{path}: cannot be read as {kind}: {{}}; is it cut off, or another format?")


def top_of(name: str, known: Sequence[str]) -> str:
    """The column that "events.item" lies in."""
    parts = name.split(".")
    return next((top for n in range(len(parts), 0, -1) if (top := ".".join(parts[:n])) in known), name)


def read_parquet(path: pathlib.Path, names: Sequence[str] | None) -> tuple[Any, list[str]]:
    """The table, of these columns alone, and the names of all."""
    require_pyarrow("to read Parquet")
    import pyarrow.parquet

    parquet: Any = pyarrow.parquet
    require_there(path)
    with _damaged(path, "Parquet"):
        known: list[str] = parquet.ParquetDataset(path).schema.names
        wanted = None if names is None else [name for name in dict.fromkeys(top_of(name, known) for name in names) if name in known]
        return parquet.read_table(path, columns=wanted), known


def _of_files(path: pathlib.Path, read: Callable[[pathlib.Path, bytes], Any]) -> Any:
    """The tables of a file or of a folder's, one behind the other."""
    tables: list[Any] = [read(file, read_bytes(file)) for file in files_of(path)]
    if len(tables) == 1:
        return tables[0]
    import pyarrow as pa

    with _told(f"{path}: its files do not have the same columns: {{}}"):
        return pa.concat_tables(tables, promote_options="permissive")


def read_feather(path: pathlib.Path) -> Any:
    pa = require_pyarrow("to read Arrow's files")

    def read(file: pathlib.Path, data: bytes) -> Any:
        with _damaged(file, "Arrow"), (pa.ipc.open_file if data.startswith(b"ARROW1")
                                       else pa.ipc.open_stream)(pa.BufferReader(data)) as reader:
            return reader.read_all()

    return _of_files(path, read)


def read_json_lines(path: pathlib.Path, as_text: Sequence[str]) -> Any:
    """An object a line. Arrow takes text that looks like a date for one: in the columns of `as_text` it stays text."""
    pa = require_pyarrow("to read JSON lines")
    import pyarrow.json

    json: Any = pyarrow.json

    def read(file: pathlib.Path, data: bytes) -> Any:
        require_utf8(data, file)
        if not data.strip():
            raise DataError(f"{file}: holds no lines; name a file with examples")
        # In one piece, so that rows are counted from its beginning
        options = {"read_options": json.ReadOptions(block_size=min(len(data) + 1, 2**31 - 1))}
        with _told(f"{file}: {{}}; every line is an object of the same kinds of values, such as " '{"user": "ann", "items": ["soap", '
                                                                                                  '"tea"]}'):
            table = json.read_json(io.BytesIO(data), **options)
            fields = [_without_times(table.schema.field(name)) for name in table.schema.names if name in as_text]
            if any(field != table.schema.field(field.name) for field in fields):
                table = json.read_json(io.BytesIO(data), **options, parse_options=json.ParseOptions(explicit_schema=pa.schema(fields)))
        return table

    return _of_files(path, read)


def _without_times(field: Any) -> Any:
    import pyarrow

    pa: Any = pyarrow

    def plain(kind: Any) -> Any:
        if pa.types.is_timestamp(kind):
            return pa.string()
        if pa.types.is_list(kind):
            return pa.list_(plain(kind.value_type))
        if pa.types.is_struct(kind):
            return pa.struct([_without_times(kind.field(i)) for i in range(kind.num_fields)])
        return kind

    return pa.field(field.name, plain(field.type))


def read_columns(path: pathlib.Path, separator: str, names: list[str] | None, as_text: Sequence[str]) -> Any:
    """Lines of fields; `names`: of the columns, None: the first line has them. In the columns of `as_text` nothing is taken for
    a number."""
    pa = require_pyarrow("to read columns with filters, times or other separators")
    import pyarrow.csv

    csv: Any = pyarrow.csv
    first: list[str] = []

    def read(file: pathlib.Path, data: bytes) -> Any:
        if b"\0" in data:
            raise DataError(f"{file}: holds a zero byte, so it is not text; convert it first (from UTF-16, for example)")
        require_utf8(data, file)
        mark = separator
        if len(separator.encode()) > 1:
            mark = "\x1f"
            if mark.encode() in data:
                raise DataError(f"{file}: holds the letter 0x1f, so it cannot be cut at {separator!r}; cut it with another program")
            data = data.replace(separator.encode(), mark.encode())
        with _told(f"{file}: {{}}; correct the line"):
            table = csv.read_csv(
                io.BytesIO(data), csv.ReadOptions(column_names=names, block_size=1 << 24),
                csv.ParseOptions(delimiter=mark, quote_char='"' if separator in ",;|" else False),
                csv.ConvertOptions(column_types={name: pa.string() for name in as_text}, strings_can_be_null=False))
        first[:] = first or table.column_names
        if table.column_names != first:
            raise DataError(f"{file}: its columns are {table.column_names}, those of the files before {first}")
        return table

    return _of_files(path, read)


def table_of(source: Any, names: Mapping[str, str], place: str, known: Sequence[str] | None = None) -> Table:
    """Columns of an Arrow table, by name with the argument that asks for it. Lists are opened: an entry for each element, with
    the other columns repeated; a field of structures in a list is "events.item"."""
    columns: dict[str, Any] = {}
    lengths_of: dict[str, Array] = {}  # of columns of lists: how many elements each row has
    for name, argument in names.items():
        top = top_of(name, source.column_names)
        if top not in source.column_names:
            raise UsageError(unknown_column(name, argument, known or source.column_names, place))
        if source.column_names.count(top) > 1:
            raise DataError(f"{place}: two columns have the name \"{top}\"; rename one")
        columns[name], lengths = _walk(_whole(source.column(top)), name, name[len(top) + 1:].split(".") if name != top else [], place)
        if lengths is not None:
            lengths_of[name] = lengths
    if not lengths_of:
        return Table({name: ArrowColumn(name, array) for name, array in columns.items()}, source.num_rows, place)
    opened, length = next(iter(lengths_of.items()))
    for name, lengths in lengths_of.items():
        wrong = np.flatnonzero(lengths != length)
        if wrong.size:
            row = wrong[0]
            raise DataError(f"{place}: row {row} (from 0) has {length[row]} elements in \"{opened}\" and {lengths[row]} in \"{name}\"; "
                            "lists of one row are as long as each other")
    row_of = np.repeat(np.arange(source.num_rows), length)
    made = {name: ArrowColumn(name, array if name in lengths_of else array.take(row_of)) for name, array in columns.items()}
    table = Table(made, int(row_of.size), place, row_of)
    table.empty_rows = np.flatnonzero(length == 0)
    return table


def _whole(array: Any) -> Any:
    import pyarrow as pa

    chunks = [decoded(chunk) for chunk in array.chunks]
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks) if chunks else pa.array([], array.type)


def _walk(array: Any, name: str, fields: list[str], place: str) -> tuple[Any, Array | None]:
    """Down structures and one list; the elements, and how many each row has."""
    import pyarrow.compute

    pa: Any = pyarrow
    compute: Any = pyarrow.compute
    lengths = None
    while True:
        kind = array.type
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            if lengths is not None:
                raise DataError(f"{place}: column \"{name}\" holds lists of lists; open one level before")
            lengths = compute.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
            array = array.flatten()
        elif pa.types.is_struct(kind):
            known = [kind.field(i).name for i in range(kind.num_fields)]
            if not fields or fields[0] not in known:
                raise UsageError(f"{place}: column \"{name}\" holds structures; name one of their fields: "
                                 + ", ".join(f"{name if not fields else name.rsplit('.', len(fields))[0]}.{field}" for field in known))
            array = compute.struct_field(array, fields.pop(0))
        elif fields:
            raise UsageError(f"{place}: there is no column \"{name}\": nothing lies below {kind} data")
        else:
            return array, lengths
