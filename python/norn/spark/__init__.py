# SPDX-License-Identifier: Apache-2.0
"""Norn within Spark: docs/user/spark.md. PySpark is imported when a function is called."""
from __future__ import annotations

import importlib
from typing import Any

_HOMES = {"transforming": ("transform",), "writing": ("write_dataset",)}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = list(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'norn.spark' has no attribute '{name}'")
    value = getattr(importlib.import_module(f"norn.spark.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value
