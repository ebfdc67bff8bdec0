# SPDX-License-Identifier: Apache-2.0
"""Models of files."""
from __future__ import annotations

from typing import TYPE_CHECKING

from .recommender import Recommender

if TYPE_CHECKING:
    from ._types import Path


def load(path: Path, *, device: str = "auto", threads: int = 0, precision: str = "tf32", batch: int = 1024) -> Recommender:
    """The recommender of a model's file, also of one that `trainer` or DSSTNE wrote.

    path: of the file.
    device: "auto", "cpu", "cuda", "cuda:1".
    threads: of the CPU; 0: one a core.
    precision: of products on a GPU: "fp32", "tf32", "bf16".
    batch: examples that are predicted at a time; results do not depend on it.

    Raises DataError where the file is missing, damaged or no model.
    """
    return Recommender.load(path, device=device, threads=threads, precision=precision, batch=batch)
