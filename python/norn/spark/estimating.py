# SPDX-License-Identifier: Apache-2.0
"""Norn as an estimator of pyspark.ml."""
from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Any

from ..errors import DataError, UsageError
from ..history import History
from . import params as _params  # says what is missing before what follows does
from .frames import column_of, column_type, require_frame
from .launching import launch, require_settings
from .lists import entries_of, has_lists, lists_of, require_lists
from .persisting import ModelReader, ModelWriter
from .transforming import transform
from .writing import write_dataset

from pyspark.ml import Estimator, Model
from pyspark.ml.util import DefaultParamsReadable, DefaultParamsWritable, MLReadable, MLWritable
from pyspark.sql import functions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from .._types import Path
    from ..recommender import Recommender


@_params.with_params(of_fit=True)
class NornRecommender(Estimator, _params.NornParams, DefaultParamsReadable, DefaultParamsWritable):
    """Learns what items go together, from a data frame. Params are keywords: NornRecommender(userCol="user", itemCol="film",
    epochs=20); explainParams() lists them. Names with capitals are Spark's side, the others those of norn.Recommender and of
    the trainer's settings, with their values."""

    __module__ = "norn.spark"  # where saved ones are looked for

    def __init__(self, **params: Any):
        """Raises UsageError for Params that there are not, and for values of another type."""
        super().__init__()
        self.setParams(**params)

    def _fit(self, dataset: Any) -> NornModel:
        """The model: write_dataset, `launch`, and the bytes of norn.Recommender.fit on the same data, whatever the partitions."""
        require_frame(dataset)
        own = {name: self._get(name) for name in _params._DEFAULTS}
        settings = self._given(_params.setting_names())
        require_settings(own, settings)
        user, item, rating = self._get("userCol"), self._get("itemCol"), self._get("ratingCol")
        entries = entries_of(dataset, user, item, rating)
        model = tempfile.TemporaryDirectory(prefix="norn-model-")
        with tempfile.TemporaryDirectory(prefix="norn-fit-", dir=self._staging()) as folder:
            os.chmod(folder, 0o755)  # executors may be other users
            data = write_dataset(entries, user, item, os.path.join(folder, "data.nc"), value=rating, duplicates=self._get("duplicates"),
                                 min_features=self._get("minFeatures"), min_examples=self._get("minExamples"))
            made = launch(data, os.path.join(model.name, "model.nc"), ranks=self._get("numWorkers"), local_mode=self._get("localMode"),
                          spark=dataset.sparkSession, **own, **{"checkpoint_epochs": 0} | settings)
        users = lists_of(entries, user, item, rating, self._get("duplicates")) if self._get("keepUsers") else None
        fitted = NornModel._of_folder(model, entries.schema[item].dataType.simpleString(), made.history, users)
        return self._copyValues(fitted._resetUid(self.uid))

    def _staging(self) -> str | None:
        staging = self._get("staging")
        if staging is not None and not os.path.isdir(staging):
            raise UsageError(f"`staging`: there is no folder {staging}; make it")
        return staging


@_params.with_params(of_fit=False)
class NornModel(Model, _params.NornParams, MLReadable, MLWritable):
    """What NornRecommender.fit returns; or NornModel("model.nc", itemCol="items") of any model's file."""

    __module__ = "norn.spark"

    def __init__(self, file: Path | None = None, **params: Any):
        """file: of a model. Raises UsageError and DataError for what is none."""
        super().__init__()
        self.history = History()  #: a dictionary for each epoch of `fit`
        self.userItems: DataFrame | None = None  #: a data frame, what each user of `fit` has
        self._folder: Any = None  # goes with the last copy of the model
        self._file = "" if file is None else os.path.abspath(file)
        self._item_type = ""  # that of the column that was fitted; "": as the file says
        if file is not None and not os.path.isfile(self._file):
            raise DataError(f"{self._file}: no such file; check the path")
        self.setParams(**params)

    @classmethod
    def _of_folder(cls, folder: Any, item_type: str, history: Any, users: Any) -> NornModel:
        made = cls(os.path.join(folder.name, "model.nc"))
        made._folder, made._item_type, made.history, made.userItems = folder, item_type, History(history), users
        return made

    @property
    def file(self) -> str:
        """The model's file on the driver, which all programs of Norn read. It goes with the model; copy it to keep it."""
        return self._file

    @property
    def recommender(self) -> Recommender:
        """The same model as a norn.Recommender, on the driver: for similar_items, evaluate, save."""
        from ..loading import load

        return load(self._file, **{name: self._get(name) for name in _params._DEVICE})

    def _transform(self, dataset: Any) -> Any:
        """The data frame with the best items for each row and their scores. Of a row for each entry first a row for each user is
        made."""
        require_frame(dataset)
        user, item, rating = self._get("userCol"), self._get("itemCol"), self._get("ratingCol")
        if not has_lists(dataset, item):
            dataset = lists_of(entries_of(dataset, user, item, rating), user, item, rating)
        require_lists(dataset, item, rating)
        output, scores = self._get("outputCol"), self._get("scoresCol")
        given = dataset.withColumn(_AS_LABELS, column_of(item).cast("array<string>")) if self._item_type else dataset
        made = transform(given, self._file, self._get("numItems"), input=_AS_LABELS if self._item_type else item, values=rating,
                         output=output,
                         scores=scores, unknown=self._get("unknown"), filter_already_liked_items=self._get("filterAlreadyLikedItems"),
                         **{name: self._get(name) for name in _params._DEVICE})
        if self._item_type in ("", "string"):
            return made.drop(_AS_LABELS)
        return made.withColumn(output, column_of(output).cast(f"array<{self._item_type}>")).drop(_AS_LABELS)

    def recommendForAllUsers(self, numItems: int) -> DataFrame:
        """For each user of `fit` the best items that they have not: a column of users, and `recommendations`, lists of structures
        of an item and its `rating`, the score. Raises UsageError where the model keeps no users."""
        return self._recommended(self._users(), numItems)

    def recommendForUserSubset(self, dataset: DataFrame, numItems: int) -> DataFrame:
        """The same for the users that a column of the data frame names. Those that `fit` has not seen are left out."""
        require_frame(dataset)
        user = self._get("userCol")
        column_type(dataset, user, "userCol")
        wanted = dataset.select(column_of(user).alias("norn user")).distinct()
        return self._recommended(self._users().join(wanted, column_of(user) == column_of("norn user"), "left_semi"), numItems)

    def _users(self) -> Any:
        if self.userItems is None:
            raise UsageError("the model keeps no users: fit with keepUsers=True, or give transform a data frame of what they have")
        return self.userItems

    def _recommended(self, users: Any, count: int) -> Any:
        item = self._get("itemCol")
        plain = self.copy().setParams(numItems=count, unknown="ignore", outputCol="norn items", scoresCol="norn scores",
                                      filterAlreadyLikedItems=True)
        lists = plain.transform(users)
        pairs = functions.arrays_zip(column_of("norn items").alias(item), column_of("norn scores").alias("rating"))
        return lists.select(column_of(self._get("userCol")), pairs.alias("recommendations"))

    def write(self) -> Any:
        """Writes a folder: Params, the model's file, and users as Parquet."""
        return ModelWriter(self)

    @classmethod
    def read(cls) -> Any:
        return ModelReader(cls)


_AS_LABELS = "norn labels"
