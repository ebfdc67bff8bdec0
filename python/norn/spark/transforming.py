# SPDX-License-Identifier: Apache-2.0
"""Recommendations for the rows of a data frame."""
from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import tempfile
from typing import TYPE_CHECKING, Any

from .. import _settings
from ..errors import DataError, UsageError
from .executing import Prediction
from .frames import of_lists, require_frame
from .sending import context_of, link

if TYPE_CHECKING:
    from pyspark.resource import ResourceProfile
    from pyspark.sql import DataFrame

    from .._types import Model, Units

_shipped: dict[tuple[str, str], tempfile.TemporaryDirectory] = {}  # by application and checksum; Spark fetches from there


def transform(df: DataFrame, model: Model, N: int = 10, *, input: str = "items", values: str | None = None, output: str = "recommendations",
              scores: str = "scores", unknown: str = "error", filter_already_liked_items: bool = True, filter_items: Units | None = None,
              items: Units | None = None, layer: str = "", device: str = "auto", threads: int = 0, precision: str = "tf32",
              batch: int = 1024,
              shared: bool = False, profile: ResourceProfile | None = None) -> DataFrame:
    """The data frame with two more columns: for each row the N best units, and their scores, best first. They are those of
    Recommender.recommend and predictor, to the bit, whatever the partitions.

    df: a data frame of Spark, an example a row.
    model: the path of a model's file, a Recommender or a trained Network.
    input: a column of lists: labels of what each has, or its units' numbers (int, bigint). What a list names twice counts
        once. A null gives null.
    N: how many.
    values: a column of lists of numbers, as long as those of `input`, for a model that was trained with values.
    output, scores: names of the new columns: array<string> where the model has labels, else array<int> (of more than 2^31
        units array<bigint>), and array<float>. They are shorter than N where there are fewer units.
    unknown: what the model has no unit for: "error" or "ignore".
    filter_already_liked_items, filter_items, items, layer: as in Recommender.recommend.
    device: "auto": the task's GPU where Spark gives it one (spark.task.resource.gpu.amount), else the CPU; "cuda", "cpu",
        "cuda:1".
    threads: of the CPU; 0: those of the task (spark.task.cpus).
    precision, batch: as in norn.load.
    shared: every executor reads the model where `model` says; otherwise Spark sends it to them.
    profile: a ResourceProfile for the stage.

    Raises UsageError for wrong arguments and columns, DataError for a model that is missing or damaged, at once. What is wrong
    in a row ends the job with Spark's PythonException, which has Norn's message.
    """
    require_frame(df)
    N = _settings.count("N", N)
    if unknown not in ("error", "ignore"):
        raise UsageError(f"`unknown` {unknown!r}: choose of: error, ignore")
    _check_columns(df, input, values, output, scores)
    file, facts = _model_file(df, model, shared)
    chosen, has_labels, named = _layers(facts, _settings.word("layer", layer))
    task = Prediction(
        file=file, shared=shared, sha256=facts["sha256"], device=_settings.word("device", device),
        threads=_settings.integer("threads", threads),
        precision=_settings.word("precision", precision), batch=_settings.count("batch", batch), N=N, input=input, values=values,
        output=output,
        scores=scores, unknown=unknown, seen=bool(filter_already_liked_items), filter_items=_listed(filter_items), items=_listed(items),
        layer=layer,
        has_labels=has_labels, named=named, wide=chosen["units"] >= 2**31)
    names = [*df.columns, output, scores]
    task, given = _with_plain_names(df, task)
    made = given.mapInArrow(task, _schema(given, task), **({} if profile is None else {"profile": profile}))
    return made if given is df else made.toDF(*names)


def _with_plain_names(df: Any, task: Prediction) -> tuple[Prediction, Any]:
    """Without points and backticks in names, which mapInArrow takes for paths within structures."""
    if not any(letter in name for name in df.columns for letter in ".`"):
        return task, df
    plain: list[str] = []
    for name in df.columns:
        made = re.sub(r"[.`]", "_", name)
        while made != name and (made in plain or made in df.columns or made in (task.output, task.scores)):
            made += "_"
        plain.append(made)
    values = None if task.values is None else plain[df.columns.index(task.values)]
    return dataclasses.replace(task, input=plain[df.columns.index(task.input)], values=values), df.toDF(*plain)


def _listed(units: Any) -> Any:
    """What executors can be sent: not a one-time iterator."""
    return units if isinstance(units, str) or not hasattr(units, "__iter__") else list(units)


def _check_columns(df: Any, input: Any, values: Any, output: Any, scores: Any) -> None:
    from pyspark.sql import types

    of_lists(df, input, "input", (types.StringType, types.IntegerType, types.LongType), "array<string>, array<int> or array<bigint>")
    if values is not None:
        of_lists(df, values, "values", (types.FloatType, types.DoubleType, types.IntegerType, types.LongType), "an array of numbers")
    for argument, name in (("output", output), ("scores", scores)):
        if not _settings.word(argument, name):
            raise UsageError(f"`{argument}` is empty; name the new column")
        if name in df.columns:
            raise UsageError(f"`{argument}`: there is a column \"{name}\" already; choose another name")
    if output == scores:
        raise UsageError(f"`scores`: \"{scores}\" is the name of `output`, too; choose another")


def _schema(df: Any, task: Prediction) -> Any:
    from pyspark.sql import types

    unit = types.StringType() if task.has_labels else types.LongType() if task.wide else types.IntegerType()
    more = [types.StructField(task.output, types.ArrayType(unit)), types.StructField(task.scores, types.ArrayType(types.FloatType()))]
    return types.StructType([*df.schema.fields, *more])


def _layers(facts: dict[str, Any], layer: str) -> tuple[dict[str, Any], bool, bool]:
    """The output layer, whether its units have labels, and whether those of the input have some that are not their numbers."""
    kinds = {one["Name"]: one["Kind"] for one in facts["network"]["Layers"]}
    inputs = [name for name, kind in kinds.items() if kind == "Input"]
    if len(inputs) != 1:
        raise UsageError(f"`model`: it has {len(inputs)} input layers ({', '.join(inputs)}); norn.spark takes models of one")
    outputs = [name for name, kind in kinds.items() if kind == "Output"]
    name = layer or ("Output" if "Output" in outputs else outputs[0] if len(outputs) == 1 else "")
    if name not in outputs:
        raise UsageError(f"`layer` {layer!r}: choose of: {', '.join(outputs)}")
    layers = {one["name"]: one for one in facts["layers"]}
    labels, of_input = layers[name]["labels"], layers[inputs[0]]["labels"]
    has_labels = labels is not None and bool(labels["numbers"] or labels["kept"])
    return layers[name], has_labels, of_input is not None and bool(of_input["kept"]) and not of_input["numbers"]


def _model_file(df: Any, model: Any, shared: bool) -> tuple[str, dict[str, Any]]:
    """The file as executors name it, and what it says of itself."""
    from ..info import describe

    if isinstance(model, (str, os.PathLike)):
        facts = describe(model)
        if facts["kind"] != "model":
            raise DataError(f"{os.fspath(model)}: holds data sets, expected a model")
        path = os.path.abspath(model)
        return (path if shared else _ship(df, lambda copy: link(path, copy), facts)), facts
    save = getattr(model, "save", None)
    if save is None or shared:
        raise UsageError(f"`model`: expected the path of a model's file{'' if shared else ', a Recommender or a trained Network'}, "
                         f"not {type(model).__name__}")
    getattr(model, "network_", model).model  # UsageError where nothing is trained
    with tempfile.TemporaryDirectory(prefix="norn") as folder:
        path = os.path.join(folder, "model.nc")
        save(path)
        facts = describe(path)
        return _ship(df, lambda copy: link(path, copy), facts), facts


def _ship(df: Any, place: Any, facts: dict[str, Any]) -> str:
    """Has Spark send the file, under a name of its contents: there may be others. Returns the name."""
    context = context_of(df.sparkSession, "the model")
    application = context.applicationId
    name = f"norn-{facts['sha256']}.nc"
    if (application, name) not in _shipped:
        folder = tempfile.TemporaryDirectory(prefix="norn-spark-")
        copy = pathlib.Path(folder.name, name)
        place(copy)
        context.addFile(str(copy))
        _shipped[application, name] = folder
    return name
