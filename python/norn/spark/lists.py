# SPDX-License-Identifier: Apache-2.0
"""What users have: a row for each entry, or a row with lists for each user."""
from __future__ import annotations

from typing import Any

from ..errors import UsageError
from .frames import column_of, column_type, of_lists


def has_lists(df: Any, item: str, argument: str = "itemCol") -> bool:
    """Whether the column of items holds lists."""
    from pyspark.sql.types import ArrayType

    return isinstance(column_type(df, item, argument), ArrayType)


def require_lists(df: Any, item: str, rating: str | None) -> None:
    """Raises UsageError for columns that hold no lists of items and their values."""
    from pyspark.sql import types

    whole = (types.StringType, types.ByteType, types.ShortType, types.IntegerType, types.LongType)
    of_lists(df, item, "itemCol", whole, "text or whole numbers, or lists of them")
    if rating is not None:
        of_lists(df, rating, "ratingCol", (types.FloatType, types.DoubleType, types.IntegerType, types.LongType),
                 "lists of numbers, as the column of items does")


def entries_of(df: Any, user: str, item: str, rating: str | None) -> Any:
    """A row for each entry."""
    from pyspark.sql import functions

    column_type(df, user, "userCol")
    names = [user, item, *([rating] if rating is not None else [])]
    if len(set(names)) < len(names):
        raise UsageError(f"`userCol`, `itemCol` and `ratingCol` are {', '.join(names)}; each has a column of its own")
    if not has_lists(df, item):
        if rating is not None:
            column_type(df, rating, "ratingCol")
        return df.select(*map(column_of, names))
    require_lists(df, item, rating)
    if rating is None:
        return df.select(column_of(user), functions.explode(column_of(item)).alias(item))
    pairs = functions.explode(functions.arrays_zip(column_of(item).alias("item"), column_of(rating).alias("rating")))
    return df.select(column_of(user), pairs.alias("pair")).select(
        column_of(user), functions.col("pair.item").alias(item), functions.col("pair.rating").alias(rating))


def lists_of(entries: Any, user: str, item: str, rating: str | None, duplicates: str = "first") -> Any:
    """A row for each user, with lists in order. Of an item that is there twice the sum of its values, or the least."""
    from pyspark.sql import functions

    if rating is None:
        return entries.groupBy(column_of(user)).agg(functions.sort_array(functions.collect_set(column_of(item))).alias(item))
    value = (functions.sum if duplicates == "sum" else functions.min)(column_of(rating).cast("double"))
    once = entries.groupBy(column_of(user), column_of(item)).agg(value.alias("value"))
    pairs = functions.sort_array(functions.collect_list(functions.struct(column_of(item).alias("item"), functions.col("value"))))
    lists = once.groupBy(column_of(user)).agg(pairs.alias("pairs"))
    return lists.select(column_of(user), functions.col("pairs.item").alias(item), functions.col("pairs.value").alias(rating))
