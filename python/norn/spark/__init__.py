# SPDX-License-Identifier: Apache-2.0
"""Norn within Spark: docs/user/spark.md. PySpark is imported when a function is called."""
from __future__ import annotations

from .._lazy import lazy

_HOMES = {"transforming": ("transform",), "writing": ("write_dataset",)}
__all__, __getattr__, __dir__ = lazy(globals(), _HOMES)
