# SPDX-License-Identifier: Apache-2.0
"""NornModel as a folder, on any file system that Spark knows: metadata, model.nc, and users as Parquet."""
from __future__ import annotations

import os
import tempfile
from typing import Any

from ..errors import DataError
from ..info import describe

from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter, MLReader, MLWriter

_FILE, _USERS = "model.nc", "users"


def _paths(spark: Any, path: str, local: str) -> tuple[Any, Any, Any]:
    """Hadoop's file system, its path, and a local one."""
    hadoop = spark._jvm.org.apache.hadoop.fs
    there = hadoop.Path(path)
    return there.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()), there, hadoop.Path("file://" + os.path.abspath(local))


class ModelWriter(MLWriter):
    def __init__(self, instance: Any):
        super().__init__()
        self.instance = instance

    def saveImpl(self, path: str) -> None:
        model, spark = self.instance, self.sparkSession
        facts = {"itemType": model._item_type, "sha256": describe(model.file)["sha256"], "history": list(model.history),
                 "users": model.userItems is not None}
        DefaultParamsWriter.saveMetadata(model, path, spark, extraMetadata={"norn": facts})
        files, there, here = _paths(spark, os.path.join(path, _FILE), model.file)
        files.copyFromLocalFile(False, True, here, there)
        if model.userItems is not None:
            model.userItems.write.parquet(os.path.join(path, _USERS))


class ModelReader(MLReader):
    def __init__(self, kind: Any):
        super().__init__()
        self.kind = kind

    def load(self, path: str) -> Any:
        spark = self.sparkSession
        metadata = DefaultParamsReader.loadMetadata(path, spark)
        facts = metadata.get("norn")
        if facts is None:
            raise DataError(f"{path}: holds a {metadata['class']}, expected a NornModel")
        folder = tempfile.TemporaryDirectory(prefix="norn-model-")
        files, there, here = _paths(spark, os.path.join(path, _FILE), os.path.join(folder.name, _FILE))
        if not files.exists(there):
            raise DataError(f"{path}/{_FILE}: no such file; the folder of the model is not whole")
        files.copyToLocalFile(False, there, here, True)
        if describe(os.path.join(folder.name, _FILE))["sha256"] != facts["sha256"]:
            raise DataError(f"{path}/{_FILE}: is not the file that was saved (its SHA-256 differs); save the model again")
        users = spark.read.parquet(os.path.join(path, _USERS)) if facts["users"] else None
        made = self.kind._of_folder(folder, facts["itemType"], facts["history"], users)
        made._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(made, metadata)
        return made
