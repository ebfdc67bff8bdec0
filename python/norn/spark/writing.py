# SPDX-License-Identifier: Apache-2.0
"""A data frame of entries as Norn's data sets."""
from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import _words
from ..errors import DataError, UsageError
from .frames import column_of, column_type, require_frame, require_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from .._types import Path
    from ..dataset import Dataset


def write_dataset(df: DataFrame, user: str, item: str, path: Path, *, value: str | None = None, time: str | None = None,
                  min_features: int = 1, min_examples: int = 1, duplicates: str = "error", features: Dataset | Sequence[str] | None = None,
                  split: str | None = None, split_by: str = "entry", seed: int = 1, name: str = "data",
                  staging: Path | None = None) -> list[str]:
    """Writes the NetCDF files that norn.Dataset and importer write of the same entries in order: by user, item, time and value,
    text by its bytes in UTF-8, numbers by size. The bytes are the same for any partitions and any order of rows.

    df: a row for each entry.
    user, item: columns of text or whole numbers.
    value: a column of numbers; None: entries are present or absent.
    time: a column of dates, times or numbers.
    path: a file that the driver writes; of data that are split PATH.train.nc, PATH.test.nc and so on.
    min_features, min_examples, duplicates, features, split, split_by, seed, name: as in norn.Dataset.from_table. Of entries that
        an example names twice "first" is the first in that order.
    staging: a folder that driver and executors share, where the sorted rows lie meanwhile as Parquet; None: the folder of `path`.

    Spark sorts the rows, and the driver holds those of all in memory, 8 to 12 bytes an entry beside the labels. Returns the
    files. Raises UsageError for wrong arguments and columns, DataError for what no entry can be.
    """
    from ..dataset import Dataset

    require_frame(df)
    _words.choice("duplicates", duplicates, ("error", "sum", "first"))
    for argument, least in (("min_features", min_features), ("min_examples", min_examples)):
        _words.count(argument, least)
    columns = _columns(df, {"user": user, "item": item, "value": value, "time": time})
    path = pathlib.Path(path)
    folder = path.parent if staging is None else pathlib.Path(staging)
    if not folder.is_dir():
        raise UsageError(f"`{'path' if staging is None else 'staging'}`: there is no folder {folder}; make it")
    with tempfile.TemporaryDirectory(prefix=".norn-", dir=folder) as scratch:
        os.chmod(scratch, 0o777)  # executors may be other users
        table = _sorted_rows(df, columns, pathlib.Path(scratch).resolve())
    data = Dataset.from_table(table, user, item, value, time=time, min_features=min_features, min_examples=min_examples,
                              duplicates=duplicates,
                              features=features, split=split, split_by=split_by, seed=seed, name=name)
    return data.to_netcdf(path)


def _columns(df: Any, named: dict[str, str | None]) -> list[str]:
    """Those that are needed, in the order in which rows are sorted by them."""
    from pyspark.sql import types

    labels = (types.StringType, types.ByteType, types.ShortType, types.IntegerType, types.LongType)
    numbers = (types.FloatType, types.DoubleType, types.DecimalType, *labels[1:])
    times = (types.DateType, types.TimestampType, types.TimestampNTZType, *labels, *numbers)
    wanted = {"user": (labels, "text or whole numbers"), "item": (labels, "text or whole numbers"),
              "time": (times, "dates, times, numbers or text"), "value": (numbers, "numbers")}
    for argument, (known, expected) in wanted.items():
        if named[argument] is not None or argument in ("user", "item"):
            require_type(str(named[argument]), argument, column_type(df, named[argument], argument), known, expected)
    found = [column for argument in wanted if (column := named[argument]) is not None]
    twice = next((column for column in found if found.count(column) > 1), None)
    if twice is not None:
        raise UsageError(f"column \"{twice}\" is named for {' and '.join(f'`{a}`' for a in named if named[a] == twice)}; each has its own")
    return found


def _sorted_rows(df: Any, columns: Sequence[str], folder: pathlib.Path) -> Any:
    """The rows as a table of Arrow, by way of Parquet: what Spark sends to the driver otherwise is limited."""
    import pyarrow as pa
    import pyarrow.parquet as parquet
    from pyspark.sql import Observation, functions, types

    def key_of(name: str) -> Any:  # text by its bytes, whatever its collation
        column = column_of(name)
        return column.cast("binary") if isinstance(column_type(df, name, ""), types.StringType) else column

    counted = Observation()
    rows = df.select(*map(column_of, columns)).orderBy(*map(key_of, columns)).observe(counted,
                                                                                      functions.count(functions.lit(1)).alias("rows"))
    parts = folder / "rows"
    rows.write.option("compression", "zstd").parquet(parts.as_uri())
    # By the number of the part, in which the order goes on, and of its file, where Spark cuts parts into several.
    files = sorted(parts.glob("part-*.parquet"), key=lambda file: (int(file.name.split("-")[1]), len(file.name), file.name))
    table = pa.concat_tables([parquet.read_table(file) for file in files]) if files else None
    written = counted.get["rows"]
    if (0 if table is None else table.num_rows) != written:
        raise DataError(f"{parts}: holds {0 if table is None else table.num_rows} of {written} rows: do driver and executors share this "
                        "folder? Name one with `staging`")
    if table is None or not written:
        raise DataError("`df` has no rows")
    return table
