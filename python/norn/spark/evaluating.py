# SPDX-License-Identifier: Apache-2.0
"""An evaluator of recommendations, for CrossValidator and TrainValidationSplit."""
from __future__ import annotations

from typing import Any

from ..errors import DataError, UsageError
from .frames import column_of, require_frame
from .lists import has_lists
from .params import NornParams, with_accessors

from pyspark.ml.evaluation import Evaluator
from pyspark.ml.evaluation import RankingEvaluator as SparksEvaluator
from pyspark.ml.param.shared import HasLabelCol, HasPredictionCol
from pyspark.ml.util import DefaultParamsReadable, DefaultParamsWritable
from pyspark.sql import functions


@with_accessors("predictionCol", "labelCol", "metricName", "k")
class RankingEvaluator(Evaluator, HasPredictionCol, HasLabelCol, NornParams, DefaultParamsReadable, DefaultParamsWritable):
    """Spark's metrics of ranked lists, for items of any type: pyspark.ml.evaluation.RankingEvaluator takes numbers alone.

    predictionCol: the column that NornModel.transform makes. labelCol: lists of what was held out; rows without any do not
    count. metricName: ndcgAtK, recallAtK, precisionAtK, meanAveragePrecisionAtK, meanAveragePrecision. k: of the first K.
    """

    __module__ = "norn.spark"
    metricName: Any = SparksEvaluator.metricName
    k: Any = SparksEvaluator.k

    def __init__(self, **params: Any):
        """Raises UsageError for Params that there are not."""
        super().__init__()
        self._setDefault(predictionCol="recommendations", labelCol="label", metricName="ndcgAtK", k=10)
        self.setParams(**params)

    def _evaluate(self, dataset: Any) -> float:
        require_frame(dataset)
        names = self._get("predictionCol"), self._get("labelCol")
        for argument, name in zip(("predictionCol", "labelCol"), names):
            if not has_lists(dataset, name, argument):
                raise UsageError(f"`{argument}`: column \"{name}\" holds {dataset.schema[name].dataType.simpleString()}, expected lists of "
                                 "items")
        predicted, wanted = (functions.coalesce(column_of(name).cast("array<string>"), functions.array().cast("array<string>"))
                             for name in names)
        # Items become their places in the prediction, and numbers below 0 where they are not in it: metrics ask for no more.
        place = functions.transform(predicted, lambda item, at: (at + 1).cast("double"))
        found = functions.transform(functions.array_distinct(wanted), lambda item, at: functions.when(
            functions.array_position(predicted, item) > 0,
            functions.array_position(predicted, item).cast("double")).otherwise((-1 - at).cast("double")))
        rows = dataset.select(place.alias("prediction"), found.alias("label")).where(functions.size("label") > 0)
        metric = SparksEvaluator(predictionCol="prediction", labelCol="label", metricName=self._get("metricName"),
                                 k=self._get("k")).evaluate(rows)
        if not metric > 0 and rows.isEmpty():
            raise DataError(f"`labelCol`: column \"{names[1]}\" has nothing that was held out, in any row")
        return metric
