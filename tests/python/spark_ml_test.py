# SPDX-License-Identifier: Apache-2.0
"""NornRecommender, NornModel and RankingEvaluator among pyspark.ml's stages."""
import gc
import inspect
import pathlib

import numpy as np
import pytest
import scipy.sparse as sp

from spark_session import entries_of, long, spark  # noqa: F401

import norn
from conftest import Baskets, run
from norn.spark import NornModel, NornRecommender, RankingEvaluator
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.tuning import CrossValidator, CrossValidatorModel, ParamGridBuilder, TrainValidationSplit
from pyspark.sql import functions, types


WHO, FILM = "who is`it.", "film.id"  # names of columns may have any letters


def bits(scores):
    return np.asarray(scores, np.float32).view(np.uint32).tolist()


def in_order(rows, rating):
    return sorted(rows, key=lambda row: (row[0].encode(), row[1], *([row[2]] if rating else [])))


@pytest.mark.parametrize("wish", [
    pytest.param({}, id="items"), pytest.param({"ratingCol": "stars", "duplicates": "sum", "numWorkers": 2}, id="values on two ranks",
                                               marks=long),
    pytest.param({"localMode": False, "minFeatures": 3, "duplicates": "first"}, id="a task", marks=long)])
def test_any_partitions_fit_the_bytes_of_recommender(draw, spark, tmp_path, wish):  # noqa: F811
    rows = entries_of(Baskets(draw, values=True), draw)
    rating = wish.get("ratingCol")
    wish = {"duplicates": "first"} | wish
    settings = {"epochs": int(draw.integers(1, 4)), "batch": int(draw.integers(5, 40)), "seed": int(draw.integers(1, 1000)),
                "lambda_": float(draw.random() / 100)}
    names = [WHO, FILM] + ["stars"] * (rating is not None)
    columns = {name: list(values) for name, values in zip(names, zip(*in_order(rows, rating)))}
    data = norn.Dataset.from_table(columns, WHO, FILM, rating, duplicates=wish["duplicates"], min_features=wish.get("minFeatures", 1))
    expected = norn.Recommender(device="cpu", **settings).fit(data)
    expected.save(tmp_path / "expected.nc")
    estimator = NornRecommender(userCol=WHO, itemCol=FILM, staging=tmp_path, device="cpu", **wish, **settings)
    frame = spark.createDataFrame([row[:3] for row in rows], "who string, film int, stars double").toDF(WHO, FILM, "stars")
    lists = frame.groupBy("`who is``it.`").agg(functions.collect_list(f"`{FILM}`").alias(FILM),
                                               functions.collect_list("stars").alias("stars"))
    for given in (frame.orderBy(functions.rand()).repartition(int(draw.choice([1, 7]))), frame.repartition(3), lists):
        model = estimator.fit(given)
        assert pathlib.Path(model.file).read_bytes() == (tmp_path / "expected.nc").read_bytes()
    assert [left.name for left in tmp_path.iterdir()] == ["expected.nc"]
    assert [epoch["cost"] for epoch in model.history] == [epoch["cost"] for epoch in expected.history]
    best = model.recommendForAllUsers(5)
    assert best.schema.simpleString() == f"struct<{WHO}:string,recommendations:array<struct<{FILM}:int,rating:float>>>"
    got = {row[WHO]: ([one[FILM] for one in row["recommendations"]], bits([one["rating"] for one in row["recommendations"]]))
           for row in best.collect()}
    ids, scores = expected.recommend(data.matrix, 5)
    for number, who in enumerate(data.example_labels):
        there = ids[number] >= 0
        assert got[who] == ([int(data.feature_labels[i]) for i in ids[number][there]], bits(scores[number][there]))
    assert set(got) == {row[0] for row in rows}  # also those with fewer than minFeatures items
    asked = spark.createDataFrame([(who,) for who in data.example_labels[:3] * 2 + ["nobody"]], "who string").toDF(WHO)
    some = {row[WHO]: [one[FILM] for one in row["recommendations"]] for row in model.recommendForUserSubset(asked, 2).collect()}
    assert some == {who: got[who][0][:2] for who in data.example_labels[:3]}


@pytest.fixture(scope="module")
def fitted(spark):  # noqa: F811
    """Lists of what users have, an estimator, and the model that it made of them."""
    rows = [(f"u{n}", [f"i{k}" for k in range(12) if (n * 7 + k * k) % 5 < 2], [f"i{n % 12}"]) for n in range(60)]
    frame = spark.createDataFrame(rows, "who string, item array<string>, label array<string>").cache()
    estimator = NornRecommender(userCol="who", epochs=2, batch=16, device="cpu", hidden=6, numItems=4, unknown="ignore")
    return frame, estimator, estimator.fit(frame)


def recommended(model, frame):
    return {row["who"]: (row["recommendations"], bits(row["scores"])) for row in model.transform(frame).collect()}


def test_transform_keeps_rows_and_makes_users_of_entries(spark, fitted, tmp_path):  # noqa: F811
    frame, _, model = fitted
    made = model.transform(frame)
    assert made.schema.simpleString() == (
        "struct<who:string,item:array<string>,label:array<string>,recommendations:array<string>,scores:array<float>>")
    of_lists = recommended(model, frame)
    reference = norn.load(model.file, device="cpu")
    row = frame.first()
    assert of_lists[row["who"]][0] == [label for label, _ in reference.recommend(row["item"], 4)]
    entries = frame.select("who", functions.explode("item").alias("item"))
    assert recommended(model, entries) == {row["who"]: of_lists[row["who"]] for row in frame.collect() if row["item"]}
    other = model.copy({model.numItems: 2, model.outputCol: "best"})
    assert {len(row["best"]) for row in other.transform(frame).collect()} == {2} and model.getNumItems() == 4
    model.recommender.save(tmp_path / "again.nc")
    assert (tmp_path / "again.nc").read_bytes() == pathlib.Path(model.file).read_bytes()


def test_what_is_saved_is_loaded_also_within_pipelines(spark, fitted, tmp_path):  # noqa: F811
    frame, estimator, _ = fitted
    expected = recommended(estimator.fit(frame), frame)
    estimator.save(str(tmp_path / "estimator"))
    again = NornRecommender.load(str(tmp_path / "estimator"))
    params, before = ({p.name: v for p, v in one.extractParamMap().items()} for one in (again, estimator))
    assert params == before and again.uid == estimator.uid
    model = again.fit(frame)
    file = model.file
    model.save((tmp_path / "model").as_uri())
    history, users = model.history, model.recommendForAllUsers(3)
    with pytest.raises(Exception, match="exists"):
        model.save((tmp_path / "model").as_uri())
    model.write().overwrite().save((tmp_path / "model").as_uri())
    kept = users.collect()
    pipeline = Pipeline(stages=[again]).fit(frame)
    pipeline.save(str(tmp_path / "pipeline"))
    Pipeline(stages=[again]).save(str(tmp_path / "to fit"))
    del model, users, pipeline
    gc.collect()
    assert not pathlib.Path(file).exists()  # it went with the model
    loaded = NornModel.load(str(tmp_path / "model"))
    assert recommended(loaded, frame) == expected and loaded.history == history and loaded.uid == estimator.uid
    assert sorted(loaded.recommendForAllUsers(3).collect()) == sorted(kept)
    assert recommended(PipelineModel.load(str(tmp_path / "pipeline")), frame) == expected
    assert recommended(Pipeline.load(str(tmp_path / "to fit")).fit(frame), frame) == expected
    with pytest.raises(norn.DataError, match="holds a norn.spark.NornRecommender, expected a NornModel"):
        NornModel.load(str(tmp_path / "estimator"))
    other = norn.load(tmp_path / "model" / "model.nc", device="cpu")
    other.network_.save(tmp_path / "other.nc")
    (tmp_path / "model" / ".model.nc.crc").unlink(missing_ok=True)
    (tmp_path / "model" / "model.nc").unlink()
    with pytest.raises(norn.DataError, match="model.nc: no such file; the folder of the model is not whole"):
        NornModel.load(str(tmp_path / "model"))
    norn.Recommender(epochs=1, device="cpu").fit(sp.csr_matrix(np.eye(3, dtype=np.float32))).save(tmp_path / "model" / "model.nc")
    with pytest.raises(norn.DataError, match="is not the file that was saved"):
        NornModel.load(str(tmp_path / "model"))


@long
def test_searches_find_the_best_of_a_grid(spark, fitted, tmp_path):  # noqa: F811
    frame, estimator, _ = fitted
    grid = ParamGridBuilder().addGrid(estimator.epochs, [0, 25]).addGrid(estimator.rate, [0.01]).build()
    evaluator = RankingEvaluator(labelCol="item", k=3)  # what users have themselves: a model that learned is better by far
    plain = estimator.copy({estimator.filterAlreadyLikedItems: False})
    search = TrainValidationSplit(estimator=plain, estimatorParamMaps=grid, evaluator=evaluator, seed=3, parallelism=2)
    found = search.fit(frame)
    assert found.validationMetrics[1] > found.validationMetrics[0] and len(found.bestModel.history) == 25
    folds = CrossValidator(estimator=plain, estimatorParamMaps=grid, evaluator=evaluator, numFolds=2, seed=3).fit(frame)
    assert folds.avgMetrics[1] > folds.avgMetrics[0]
    folds.save(str(tmp_path / "folds"))
    again = CrossValidatorModel.load(str(tmp_path / "folds"))
    assert recommended(again.bestModel, frame) == recommended(folds.bestModel, frame) and again.getEvaluator().getK() == 3


def test_the_evaluator_has_the_metrics_of_the_engine(draw, spark, fitted):  # noqa: F811
    frame, _, model = fitted
    k = int(draw.integers(1, 5))
    rows = [(row["who"], row["item"][:-1], row["item"][-1:] if draw.random() < 0.8 else [])
            for row in frame.collect() if len(row["item"]) > 1]
    held = spark.createDataFrame(rows, "who string, item array<string>, label array<string>")
    reference = norn.load(model.file, device="cpu")
    units = {label: unit for unit, label in enumerate(reference.labels)}

    def matrix(column):
        lists = [sorted(units[item] for item in row[column]) for row in rows]
        begin = np.cumsum([0] + [len(one) for one in lists])
        return sp.csr_matrix((np.ones(begin[-1], np.float32), np.array(sum(lists, []), np.int32), begin), shape=(len(rows), len(units)))

    expected = reference.evaluate(matrix(1), matrix(2), k=[k])
    made = model.copy({model.numItems: max(k, 4)}).transform(held)
    for metric, name in [("ndcgAtK", "ndcg"), ("recallAtK", "recall"), ("precisionAtK", "precision"), ("meanAveragePrecisionAtK", "map")]:
        assert RankingEvaluator(metricName=metric, k=k).evaluate(made) == pytest.approx(expected[f"{name}@{k}"], abs=1e-6), metric
    with pytest.raises(norn.DataError, match='column "label" has nothing that was held out'):
        RankingEvaluator().evaluate(made.where(functions.size("label") == 0))
    with pytest.raises(norn.UsageError, match='`labelCol`: column "who" holds string, expected lists'):
        RankingEvaluator(labelCol="who").evaluate(made)


def test_params_are_those_of_the_engines_table():
    estimator = NornRecommender(epochs=3, lambda_=0.5)
    explained = estimator.explainParams()
    for name in [*(name + "_" if name == "lambda" else name for name in norn._settings.table()), *norn.Recommender().get_params()]:
        assert f"{name}: " in explained and name in inspect.signature(NornRecommender).parameters
    assert "current: 3" in estimator.explainParam("epochs") and estimator.getOrDefault("lambda_") == 0.5
    assert estimator.setUserCol("who").getUserCol() == "who" and estimator.setParams(epochs=None).isSet("epochs") is False
    more = estimator.copy({estimator.epochs: 9})
    assert more.getOrDefault("epochs") == 9 and not estimator.isSet("epochs")
    assert NornModel().getNumItems() == 10 and not NornModel().hasParam("epochs")
    for wish, message in [({"epoch": 3}, '`epoch`: NornRecommender has no such Param. Did you mean "epochs"?'),
                          ({"epochs": 0.5}, "`epochs` 0.5: expected an integer"),
                          ({"hidden": "x"}, "`hidden` 'x': expected an integer"), ({"network": {"Layerz": 3}}, 'unknown key "Layerz"')]:
        with pytest.raises(norn.UsageError) as caught:
            NornRecommender(**wish)
        assert message in str(caught.value)
    with pytest.raises(TypeError, match="numItems"):
        NornRecommender(numItems="many")


def test_wrong_columns_and_settings_are_told_before_the_job(spark, fitted, tmp_path):  # noqa: F811
    lists, _, model = fitted
    fails = functions.udf(lambda value: 1 / 0, types.StringType())
    schema = "user string, item string, stars double, list array<string>, many array<double>"
    frame = spark.createDataFrame([("a", "x", 1.0, ["x"], [1.0])], schema).withColumn("item", fails("item"))
    for wish, message in [
        ({"userCol": "usr"}, '`userCol`: there is no column "usr". Did you mean "user"?'),
        ({"itemCol": "stars"}, 'holds double, expected text or whole numbers'),
        ({"itemCol": "many"}, '`itemCol`: column "many" holds array<double>'),
        ({"ratingCol": "rating"}, '`ratingCol`: there is no column "rating"'),
        ({"itemCol": "list", "ratingCol": "stars"}, '`ratingCol`: column "stars" holds double, expected lists of numbers'),
        ({"userCol": "item"}, "each has a column of its own"),
        ({"optimizer": "Adan"}, "`optimizer` Adan: there is no such choice"),
        ({"hidden": 3, "network": {"Recipe": "sigmoid"}}, "give one of the two"),
        ({"staging": tmp_path / "none"}, "`staging`: there is no folder"),
        ({"duplicates": "last"}, "`duplicates` 'last'"),
        ({"minFeatures": 0}, "`min_features` 0 is out of range"),
    ]:
        with pytest.raises(norn.UsageError) as caught:
            NornRecommender(device="cpu", **wish).fit(frame)
        assert message in str(caught.value), wish
    with pytest.raises(norn.UsageError, match="expected a DataFrame of Spark, not list"):
        NornRecommender().fit([("a", "x")])
    with pytest.raises(norn.UsageError, match='`itemCol`: there is no column "item"'):
        model.transform(lists.select("who"))
    with pytest.raises(norn.UsageError, match='`userCol`: there is no column "who"'):
        model.recommendForUserSubset(frame, 3)
    without = model.copy()
    without.userItems = None
    with pytest.raises(norn.UsageError, match="the model keeps no users: fit with keepUsers=True"):
        without.recommendForAllUsers(3)


@long
def test_wrong_rows_are_told_by_fit(spark):  # noqa: F811
    plain = NornRecommender(device="cpu", epochs=1)
    frame = spark.createDataFrame([("a", "x"), ("a", "y"), ("b", "x")], "user string, item string")
    for given, wish, message in [
        (frame.where("user > 'c'"), {}, "has no rows"),
        (frame.union(frame), {}, "occurs twice"),
        (frame.union(spark.createDataFrame([("c", None)], frame.schema)), {}, "null"),
        (spark.createDataFrame([("a", ["x", "y"], [1.0])], "user string, item array<string>, stars array<double>"), {"ratingCol": "stars"},
         "null"),
        (frame, {"minFeatures": 3}, "no entry is left"),
        (frame, {"rate": 1e30, "lambda_": 1e30}, "lower the learning rate"),
    ]:
        with pytest.raises(norn.Error) as caught:
            plain.copy().setParams(**wish).fit(given)
        assert message in str(caught.value)
    assert plain.copy().setParams(keepUsers=False).fit(frame).userItems is None


def test_a_model_of_another_program_is_a_stage(spark, programs, tmp_path, draw):  # noqa: F811
    baskets = Baskets(draw)
    run(programs / "trainer", "-i", baskets.write(programs, tmp_path), "-n", tmp_path / "model.nc", "--recipe", "sigmoid", "--epochs", 1,
        "--device", "cpu", "-q")
    stage = NornModel(tmp_path / "model.nc", itemCol="has", numItems=3, device="cpu")
    pipeline = PipelineModel(stages=[stage])
    pipeline.save(str(tmp_path / "saved"))
    frame = spark.createDataFrame([(0, ["unit1", "unit2"])], "who long, has array<string>")
    expected = [label for label, _ in norn.load(tmp_path / "model.nc", device="cpu").recommend(["unit1", "unit2"], 3)]
    (tmp_path / "model.nc").unlink()
    (row,) = PipelineModel.load(str(tmp_path / "saved")).transform(frame).collect()
    assert row["recommendations"] == expected
    with pytest.raises(norn.DataError, match="no such file"):
        NornModel(tmp_path / "model.nc")
