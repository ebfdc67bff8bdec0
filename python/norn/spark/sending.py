# SPDX-License-Identifier: Apache-2.0
"""Files on their way to executors."""
from __future__ import annotations

import os
import shutil
from typing import Any

from ..errors import UsageError


def context_of(spark: Any, what: str) -> Any:
    """What sends files. Raises UsageError for Spark Connect, which cannot."""
    try:
        return spark.sparkContext
    except Exception as error:  # what it raises depends on the version
        raise UsageError(f"Spark Connect cannot send {what} to executors; put it where all of them see it, and say "
                         "`shared`=True") from error


def link(path: os.PathLike | str, copy: os.PathLike | str) -> None:
    """The file under another name."""
    try:
        os.link(path, copy)
    except OSError:  # another file system
        shutil.copyfile(path, copy)
