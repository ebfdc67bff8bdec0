# SPDX-License-Identifier: Apache-2.0
"""Norn within Spark: docs/user/spark.md. PySpark is imported when a name is used."""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .estimating import NornModel as NornModel, NornRecommender as NornRecommender
    from .evaluating import RankingEvaluator as RankingEvaluator
    from .launching import Training as Training, launch as launch
    from .transforming import transform as transform
    from .writing import write_dataset as write_dataset
else:
    from .._lazy import lazy

    _HOMES = {"transforming": ("transform",), "writing": ("write_dataset",), "launching": ("launch", "Training")}
    # Of pyspark.ml, whose classes they extend
    _STAGES = {"estimating": ("NornRecommender", "NornModel"), "evaluating": ("RankingEvaluator",)}
    __getattr__, __dir__ = lazy(globals(), _HOMES | _STAGES)[1:]
    __all__ = [name for names in _HOMES.values() for name in names]  # what is there without PySpark, too
