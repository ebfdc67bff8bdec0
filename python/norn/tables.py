# SPDX-License-Identifier: Apache-2.0
"""Tables of Arrow that are made a batch of rows at a time: recommendations for many users, and the entries of data sets."""
from __future__ import annotations

import os
import pathlib
import tempfile
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._arrays import is_by_name, require_users
from ._labels import Labels, native_labels, words_of
from ._words import path_of
from .data.arrow import require_pyarrow
from .data.matrices import csr_of, dense_of, matrix_of
from .errors import DataError, UsageError

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from ._types import Array, Floats, Ids, Matrices

ENTRIES = 1 << 20  # of a data set, at a time
ROWS = 1 << 14     # of a matrix


class TableStream:
    """A table that is made a batch of rows at a time, whenever it is read, so that it may be larger than memory. What takes streams of
    Arrow reads it as it is: `polars.DataFrame(stream)`, DuckDB, `pyarrow.table(stream)`. `Recommender.recommend_table` and
    `Dataset.to_table` make it; it needs pyarrow.
    """

    # pyarrow has no types of its own, so these are unknown to checkers where its stubs are not installed.

    def __init__(self, schema: pyarrow.Schema, batches: Callable[[], Iterator[pyarrow.RecordBatch]]):  # pyright: ignore[reportUnknownParameterType]
        self._schema = schema
        self._batches = batches

    @property
    def schema(self) -> pyarrow.Schema:  # pyright: ignore[reportUnknownParameterType]
        """Names and types of the columns."""
        return self._schema

    def __iter__(self) -> Iterator[pyarrow.RecordBatch]:  # pyright: ignore[reportUnknownParameterType]
        return self._batches()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        import pyarrow

        return pyarrow.RecordBatchReader.from_batches(self._schema, self._batches()).__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pyarrow.Table:  # pyright: ignore[reportUnknownParameterType]
        """The whole table in memory, of pyarrow."""
        import pyarrow

        return pyarrow.Table.from_batches(self._batches(), self._schema)

    def to_pandas(self) -> pandas.DataFrame:
        """The whole table in memory, of pandas."""
        return self.to_arrow().to_pandas()

    def to_parquet(self, path: str | os.PathLike[str]) -> int:
        """Writes it, a batch of rows at a time; the file is complete or absent.

        path: of the file, NAME.parquet.

        Returns the number of rows. Raises DataError where it cannot be written.
        """
        from pyarrow import parquet

        target, rows = pathlib.Path(path_of("path", path)), 0
        try:
            with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as scratch:
                made = os.path.join(scratch, "table")
                with parquet.ParquetWriter(made, self._schema) as writer:
                    for batch in self._batches():
                        writer.write_batch(batch)
                        rows += batch.num_rows
                os.replace(made, target)
        except OSError as error:
            raise DataError(f"{target}: cannot be written: {error.strerror or error}") from None
        return rows

    def __repr__(self) -> str:
        return f"<norn.TableStream: {', '.join(f'{field.name}: {field.type}' for field in self._schema)}>"


class UserRows:
    """Matrices with a row for each user, of which some are taken at a time."""

    def __init__(self, user_items: Matrices, argument: str, width: int, filter_pairs: object, score_factors: object):
        self._known = _sliceable(user_items, argument)
        self.users = _rows_in_each(self._known if is_by_name(self._known) else {"": self._known}, argument)
        self._more = {"filter_pairs": filter_pairs, "score_factors": score_factors}
        for name, given in self._more.items():
            if given is None:
                continue
            if name == "score_factors" and isinstance(given, np.ndarray) and given.ndim == 1:  # one for each unit, of all users
                require_users(np.broadcast_to(given, (self.users, len(given))), name, self.users, width)
                continue
            self._more[name] = _rows_of(matrix_of(given), name)
            require_users(self._more[name], name, self.users, width)

    def between(self, first: int, last: int) -> tuple[Any, dict[str, Any]]:
        """What users from `first` to before `last` have, and what else is said of each."""
        return _taken(self._known, first, last), {name: _taken(given, first, last) for name, given in self._more.items()}


def in_parts(data: Matrices, argument: str) -> Iterator[Any]:
    """Some rows after the other."""
    rows = UserRows(data, argument, 0, None, None)
    for first in range(0, rows.users, ROWS):
        yield rows.between(first, first + ROWS)[0]


def _sliceable(data: Any, argument: str) -> Any:
    if is_by_name(data):
        return {name: _rows_of(one, f"{argument}[{name!r}]") for name, one in data.items()}
    return _rows_of(data, argument)


def _rows_in_each(known: Mapping[str, Any], argument: str) -> int:
    rows = {name: getattr(one, "matrix", one).shape[0] for name, one in known.items()}
    first = next(iter(rows))
    for name, found in rows.items():
        if found != rows[first]:
            raise DataError(f"`{argument}[{name!r}]`: has {found} rows, `{argument}[{first!r}]` has {rows[first]}: each has a row for "
                            "each user")
    return int(rows[first])


def _rows_of(data: Any, argument: str) -> Any:
    if isinstance(data, np.ndarray):
        return dense_of(data, argument)
    labels = getattr(data, "feature_labels", None)
    matrix = csr_of(data, argument)
    return matrix if labels is None else types.SimpleNamespace(matrix=matrix, feature_labels=Labels(native_labels(labels)))  # made once


def _taken(data: Any, first: int, last: int) -> Any:
    if data is None or isinstance(data, np.ndarray) and data.ndim == 1:
        return data
    if isinstance(data, Mapping):
        return {name: _taken(one, first, last) for name, one in data.items()}
    if isinstance(data, types.SimpleNamespace):
        return types.SimpleNamespace(matrix=data.matrix[first:last], feature_labels=data.feature_labels)
    return data[first:last]


def recommended(recommend: Callable[..., tuple[Ids, Floats]], rows: UserRows, user_labels: Any, item_labels: Sequence[str] | None,
                batch: int) -> TableStream:
    """Of what gives (ids, scores) of some users' rows."""
    pa: Any = require_pyarrow("for tables")
    who = _labels(user_labels, "users", rows.users)
    words = words_of(item_labels)
    what = None if words is None else _labels(words, "labels")
    schema = pa.schema([("user", pa.int64() if who is None else who.type), ("rank", pa.int32()),
                        ("item", pa.int32() if what is None else what.type), ("score", pa.float32())])

    def batches() -> Iterator[Any]:
        for first in range(0, rows.users, batch):
            known, of_each = rows.between(first, first + batch)
            ids, scores = recommend(known, **of_each)
            row, place = np.nonzero(ids >= 0)
            items, numbers = pa.array(ids[row, place]), pa.array(row + first)
            yield pa.record_batch([numbers if who is None else who.take(numbers), pa.array((place + 1).astype(np.int32)),
                                   items if what is None else what.take(items), pa.array(scores[row, place])], schema=schema)

    return TableStream(schema, batches)


def entries_table(rows: Any, labels: tuple[Any, Any], names: tuple[str, str, str]) -> TableStream:
    """Of a data set's rows; `labels` and `names` of examples and features, the third name of values, which not all have."""
    pa: Any = require_pyarrow("for tables")
    who, what = (None if given is None else _labels(given, name) for given, name in zip(labels, ("example_labels", "feature_labels")))
    fields = [(names[0], pa.int64() if who is None else who.type), (names[1], pa.int32() if what is None else what.type)]
    schema = pa.schema(fields if rows.values is None else [*fields, (names[2], pa.float32())])
    begin: Array = rows.begin

    def batches() -> Iterator[Any]:
        for first in range(0, int(begin[-1]), ENTRIES):
            last = min(first + ENTRIES, int(begin[-1]))
            row = pa.array(np.searchsorted(begin, np.arange(first, last), side="right") - 1)
            column = pa.array(rows.columns[first:last])
            made = [row if who is None else who.take(row), column if what is None else what.take(column)]
            yield pa.record_batch(made if rows.values is None else [*made, pa.array(rows.values[first:last])], schema=schema)

    return TableStream(schema, batches)


def _labels(given: Any, argument: str, wanted: int | None = None) -> Any:
    """As an array of Arrow, of text or whole numbers; None stays None."""
    import pyarrow

    pa: Any = pyarrow
    if given is None:
        return None
    try:
        if isinstance(given, (pa.Array, pa.ChunkedArray)):
            given = given.to_pylist()
        listed = given.to_numpy() if hasattr(given, "to_numpy") else given if isinstance(given, np.ndarray) else list(given)
        if wanted is not None and len(listed) != wanted:
            raise UsageError(f"`{argument}`: has {len(listed)} labels for {wanted} rows")
        made = pa.array(listed, pa.string()) if len(listed) == 0 else pa.array(listed)
    except UsageError:
        raise
    except UnicodeEncodeError as error:
        raise DataError(f"`{argument}`: {error.object!r:.60} is no UTF-8, which Arrow's text is") from None
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"`{argument}`: expected labels, all of text or all whole numbers: {error}") from None
    if made.null_count or not (pa.types.is_string(made.type) or pa.types.is_large_string(made.type) or pa.types.is_integer(made.type)):
        raise UsageError(f"`{argument}`: expected labels, all of text or all whole numbers, not {made.type}"
                         + (" with nulls" if made.null_count else ""))
    return made
