# SPDX-License-Identifier: Apache-2.0
"""What is asked of Spark's data frames before any work begins."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._words import did_you_mean
from ..errors import UsageError


def require_frame(df: Any) -> None:
    """Raises UsageError for what is no data frame of Spark."""
    try:
        import pyspark.sql  # noqa: F401
    except ImportError:
        raise UsageError("pyspark is needed for norn.spark; install it: pip install pyspark") from None
    if not (hasattr(df, "mapInArrow") and hasattr(df, "schema")):
        raise UsageError(f"`df`: expected a DataFrame of Spark, not {type(df).__name__}")


def column_of(name: str) -> Any:
    """The column of that name, whatever letters are in it."""
    from pyspark.sql import functions

    return functions.col("`" + name.replace("`", "``") + "`")


def column_type(df: Any, name: Any, argument: str) -> Any:
    """The type of a column. Raises UsageError where there is none of that name, or two."""
    if not isinstance(name, str):
        raise UsageError(f"`{argument}` {name!r}: expected the name of a column, a str, not {type(name).__name__}")
    found = [field for field in df.schema.fields if field.name == name]
    if not found:
        raise UsageError(f"`{argument}`: there is no column \"{name}\".{did_you_mean(name, df.columns)} There are: {', '.join(df.columns)}")
    if len(found) > 1:
        raise UsageError(f"`{argument}`: {len(found)} columns are named \"{name}\"; rename one")
    return found[0].dataType


def require_type(name: str, argument: str, kind: Any, known: Sequence[type], expected: str) -> None:
    """Raises UsageError for a column of another type."""
    if not isinstance(kind, tuple(known)):
        raise UsageError(f"`{argument}`: column \"{name}\" holds {kind.simpleString()}, expected {expected}")


def of_lists(df: Any, name: Any, argument: str, known: Sequence[type], expected: str) -> None:
    """Raises UsageError for a column that holds no lists of such elements."""
    from pyspark.sql.types import ArrayType

    kind = column_type(df, name, argument)
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, tuple(known)):
        raise UsageError(f"`{argument}`: column \"{name}\" holds {kind.simpleString()}, expected {expected}")
