# SPDX-License-Identifier: Apache-2.0
"""norn.spark in the sessions of Spark that one machine can have."""
import hashlib
import re

import numpy as np
import pytest

from spark_session import entries_of, long, spark  # noqa: F401  what skips comes first

import norn
import norn.spark
import pyarrow as pa
from conftest import Baskets, run
from pyspark.sql import functions


@pytest.fixture
def learned(draw, programs, tmp_path):
    """Baskets, half of the times with values, and the file of a model that trainer made of them."""
    baskets = Baskets(draw, values=draw.random() < 0.5)
    data = baskets.write(programs, tmp_path)
    run(programs / "trainer", "-i", data, "-n", tmp_path / "model.nc", "--recipe", "sigmoid", "--epochs", 2, "--batch", 16, "--device",
        "cpu", "-q")
    return baskets, tmp_path / "model.nc"


def rows_of(baskets, name=lambda unit: f"unit{unit}"):
    matrix = baskets.matrix
    return [(user, [name(int(u)) for u in matrix[user].indices], matrix[user].data.tolist()) for user in range(matrix.shape[0])]


def bits(scores):
    return np.asarray(scores, np.float32).view(np.uint32).tolist()


def predictors_lists(programs, model, data, N, out):
    run(programs / "predictor", "-n", model, "--data", data, "-k", N, "--exclude-seen", "-s", out, "-p", ".9g", "--device", "cpu")
    found = {}
    for line in out.read_text().splitlines():
        user, pairs = line.split("\t")
        pairs = [pair.rsplit(",", 1) for pair in pairs.split(":")[:-1]]
        found[int(user.removeprefix("user"))] = ([label for label, _ in pairs], bits([score for _, score in pairs]))
    return found


def collected(frame):
    return {row["user"]: (row["recommendations"], bits(row["scores"])) for row in frame.collect()}


@pytest.mark.parametrize("partitions", [1, 3, 7])
def test_transform_is_recommend_and_predictor(draw, spark, programs, learned, tmp_path, partitions):
    baskets, model = learned
    N = int(draw.integers(1, baskets.units + 5))
    expected = predictors_lists(programs, model, tmp_path / "films.nc", N, tmp_path / "out.txt")
    kind = "string" if partitions != 3 else "int"
    rows = rows_of(baskets, *([] if kind == "string" else [int]))
    frame = spark.createDataFrame(rows, f"user long, items array<{kind}>, ratings array<float>").repartition(partitions)
    made = norn.spark.transform(frame, str(model), N, device="cpu", values="ratings" if baskets.values else None,
                                batch=int(draw.integers(1, 60)))
    assert made.schema.simpleString() == frame.schema.simpleString()[:-1] + ",recommendations:array<string>,scores:array<float>>"
    assert made.rdd.getNumPartitions() == partitions
    got = made.collect()
    assert {row["user"]: (row["items"], row["ratings"]) for row in got} == {user: (items, values) for user, items, values in rows}
    assert {row["user"]: (row["recommendations"], bits(row["scores"])) for row in got} == expected
    ids, scores = norn.load(model, device="cpu").recommend(baskets.matrix, N=N)
    assert {u: ([f"unit{i}" for i in ids[u] if i >= 0], bits(scores[u][ids[u] >= 0])) for u in range(len(ids))} == expected


def test_a_model_in_memory_without_labels(spark, trained, baskets):
    frame = spark.createDataFrame(rows_of(baskets, int), "user long, items array<bigint>, ratings array<float>")
    allowed = range(0, baskets.units, 2)
    made = norn.spark.transform(frame, trained, 4, device="cpu", filter_already_liked_items=False, items=allowed, filter_items=[0],
                                output="best", scores="how")
    assert made.schema.simpleString().endswith("best:array<int>,how:array<float>>")
    ids, scores = trained.recommend(baskets.matrix, 4, filter_already_liked_items=False, items=allowed, filter_items=[0])
    for row in made.collect():
        assert (row["best"], bits(row["how"])) == (ids[row["user"]].tolist(), bits(scores[row["user"]]))
    labels = spark.createDataFrame([(0, ["unit1"])], "user long, items array<string>")
    with pytest.raises(Exception, match="holds labels, and the model has none"):
        norn.spark.transform(labels, trained, device="cpu").collect()
    with pytest.raises(norn.UsageError, match="not trained"):
        norn.spark.transform(labels, norn.Recommender())


def test_lists_that_are_null_empty_unknown_or_name_a_unit_twice(spark, learned):
    baskets, model = learned
    rows = [(0, None), (1, []), (2, ["unit3", "unit5", "unit3"]), (3, ["unit3", "nothing", "unit5"]), (4, ["nothing"]),
            (5, ["unit5", "unit3"])]
    frame = spark.createDataFrame(rows, "user long, items array<string>").coalesce(1)
    got = collected(norn.spark.transform(frame.where("user > 0"), model, 3, device="cpu", unknown="ignore"))
    assert got[2] == got[3] == got[5] and got[1] == got[4] != got[2] and len(got[1][0]) == 3
    nothing = norn.spark.transform(frame, model, 3, device="cpu", unknown="ignore").where("user = 0").collect()[0]
    assert nothing["recommendations"] is None and nothing["scores"] is None
    assert got[2][0] == [label for label, _ in norn.load(model, device="cpu").recommend(["unit3", "unit5"], 3)]
    assert norn.spark.transform(frame.where("user > 9"), model, 3, device="cpu").collect() == []
    with pytest.raises(Exception, match=r"DataError.*\"items\", row 3 of a batch: the model has no unit 'nothing'; leave such out"):
        norn.spark.transform(frame, model, device="cpu").collect()


@long
@pytest.mark.parametrize("rows, schema, wish, message", [
    ([(["unit1", None],)], "items array<string>", {}, "row 0 of a batch: an element of the list is null"),
    ([([1],), ([2, -1],)], "items array<int>", {}, "row 1 of a batch: the model has no unit -1, expected 0 to"),
    ([([1], [2.0, 3.0])], "items array<int>, much array<double>", {"values": "much"}, "has 2 values for 1 elements"),
    ([([1], [float("inf")])], "items array<int>, much array<double>", {"values": "much"}, "a value is inf"),
    ([([1, 2, 1], [1.0, 2.0, 3.0])], "items array<int>, much array<double>", {"values": "much"}, "names unit 1 twice"),
    ([([1],)], "items array<int>", {"device": "cuda:77"}, "cuda"),
])
def test_what_is_wrong_in_a_row_is_told_by_the_job(spark, learned, rows, schema, wish, message):
    frame = spark.createDataFrame(rows, schema).coalesce(1)
    with pytest.raises(Exception, match=message):
        norn.spark.transform(frame, learned[1], **({"device": "cpu"} | wish)).collect()


@long
def test_numbers_are_not_taken_for_units_where_labels_are_numbers_too(spark, programs, tmp_path):
    (tmp_path / "films.txt").write_text("a\t30:20\nb\t20:10\nc\t10:30\n")
    run(programs / "importer", "-i", tmp_path / "films.txt", "-d", "films", "-o", tmp_path / "films.nc", "-q")
    run(programs / "trainer", "-i", tmp_path / "films.nc", "-n", tmp_path / "model.nc", "--recipe", "sigmoid", "--epochs", 1, "--device",
        "cpu", "-q")
    frame = spark.createDataFrame([(0, [10])], "user long, items array<int>")
    with pytest.raises(Exception, match="cast the column to array<string>"):
        norn.spark.transform(frame, tmp_path / "model.nc", device="cpu", unknown="ignore").collect()
    texts = frame.withColumn("items", functions.col("items").cast("array<string>"))
    assert set(collected(norn.spark.transform(texts, tmp_path / "model.nc", device="cpu"))[0][0]) == {"20", "30"}


def test_wrong_arguments_are_told_before_the_job(spark, learned, tmp_path):
    model = learned[1]
    frame = spark.createDataFrame([(0, ["unit1"], [0.5], "a")], "user long, items array<string>, much array<double>, word string")
    for wish, kind, message in [
        ({"input": "item"}, norn.UsageError, 'no column "item". Did you mean "items"?'),
        ({"input": "word"}, norn.UsageError, 'column "word" holds string, expected array<string>'),
        ({"input": "much"}, norn.UsageError, 'holds array<double>, expected array<string>'),
        ({"values": "items"}, norn.UsageError, "expected an array of numbers"),
        ({"unknown": "skip"}, norn.UsageError, "`unknown` 'skip': choose of: error, ignore"),
        ({"output": "word"}, norn.UsageError, 'there is a column "word" already'),
        ({"output": "x", "scores": "x"}, norn.UsageError, "is the name of `output`, too"),
        ({"N": 0}, norn.UsageError, "`N` 0 is out of range"),
        ({"layer": "Middle"}, norn.UsageError, "`layer` 'Middle': choose of: Output"),
        ({"model": tmp_path / "none.nc"}, norn.DataError, "no such file"),
        ({"model": tmp_path / "films.nc"}, norn.DataError, "holds data sets, expected a model"),
        ({"model": 3}, norn.UsageError, "`model`: expected the path of a model's file, a Recommender"),
        ({"df": frame.collect()}, norn.UsageError, "`df`: expected a DataFrame of Spark, not list"),
    ]:
        with pytest.raises(kind) as caught:
            norn.spark.transform(**({"df": frame, "model": model} | wish))
        assert message in str(caught.value)


@long
def test_a_shared_model_that_was_replaced_is_refused(spark, learned, tmp_path):
    baskets, model = learned
    frame = spark.createDataFrame(rows_of(baskets), "user long, items array<string>, ratings array<float>")
    made = norn.spark.transform(frame, model, 2, device="cpu", shared=True)
    sent = norn.spark.transform(frame, model, 2, device="cpu")
    expected = collected(made)
    other = norn.load(model, device="cpu")
    other.partial_fit(baskets.dataset)
    other.save(model)
    assert collected(sent) == expected  # what was sent stays as it was
    fresh = norn.spark.transform(frame, model, 2, device="cpu", shared=True)
    other.partial_fit(baskets.dataset)
    other.save(model)
    with pytest.raises(Exception, match="is another file than the driver saw"):
        fresh.collect()


def test_a_worker_loads_a_model_once_and_holds_one(spark, learned, tmp_path, monkeypatch):
    """What Spark would hand to workers, run here."""
    from norn.spark import executing

    baskets, model = learned
    frame = spark.createDataFrame(rows_of(baskets), "user long, items array<string>, ratings array<float>")
    monkeypatch.setattr(type(frame), "mapInArrow", lambda self, function, schema: function)
    batch = pa.RecordBatch.from_pydict({"items": [["unit1"], ["unit2", "unit1"]]}, pa.schema({"items": pa.list_(pa.string())}))
    first = norn.spark.transform(frame, model, 2, device="cpu")
    made = list(first([batch, batch[:0], batch[1:]]))
    assert [one.num_rows for one in made] == [2, 1] and made[0][1:].equals(made[1])
    (held,) = executing._held.values()
    list(norn.spark.transform(frame, model, 3, device="cpu", items=[3, 4])([batch]))
    assert next(iter(executing._held.values())) is held and len(executing._held) == 1
    other = norn.load(model, device="cpu")
    other.partial_fit(baskets.dataset)
    list(norn.spark.transform(frame, other, 2, device="cpu")([batch]))
    (another,) = executing._held.values()
    assert another is not held
    with pytest.raises(norn.UsageError, match="closed"):
        held.recommender.recommend(["unit1"])


@pytest.mark.parametrize("wish", [{"duplicates": "sum", "value": "stars"},
                                  {"duplicates": "first", "time": "at", "split": "leave-last-out", "value": "stars"},
                                  {"duplicates": "first", "min_features": 2, "split": "ratio:0.7/0.3", "split_by": "example", "seed": 5}],
                         ids=["values", "in time", "k-core"])
def test_any_partitions_write_the_bytes_of_importer(draw, spark, programs, tmp_path, wish):
    rows = entries_of(Baskets(draw, values=True), draw)
    frame = spark.createDataFrame(rows, "who string, film int, stars double, at long")
    seen = set()
    for partitions in (1, 3, 7):
        shuffled = frame.orderBy(functions.rand()).repartition(partitions)
        files = norn.spark.write_dataset(shuffled, "who", "film", tmp_path / f"{partitions}.nc", name="films", **wish)
        seen.add(tuple(hashlib.sha256(open(file, "rb").read()).hexdigest() for file in files))
    assert len(seen) == 1
    assert not [left for left in tmp_path.iterdir() if left.name.startswith(".norn-")]
    time, value = "time" in wish, "value" in wish
    in_order = sorted(rows, key=lambda row: (row[0].encode(), row[1], *([row[3]] if time else []), *([row[2]] if value else [])))
    header = "who,film" + ",stars" * value + ",at" * time
    lines = [",".join(map(str, [who, film] + [stars] * value + [at] * time)) for who, film, stars, at in in_order]
    (tmp_path / "rows.csv").write_text("\n".join([header, *lines]) + "\n")
    if "min_features" in wish:  # importer has no k-cores
        norn.Dataset.from_table(tmp_path / "rows.csv", "who", "film", **wish, name="films").to_netcdf(tmp_path / "expected.nc")
    else:
        options = [word for key, word in [("--split", wish.get("split")), ("--time-column", "at" if time else None)] if word
                   for word in (key, word)]
        run(programs / "importer", "-i", tmp_path / "rows.csv", "--example-column", "who", "--feature-column", "film", "--value-column",
            "stars", "-t", "analog",
            "--duplicates", wish["duplicates"], "-d", "films", "-o", tmp_path / "expected.nc", "-q", *options)
    made = sorted(path for path in tmp_path.iterdir() if path.match("expected*.nc"))
    assert {hashlib.sha256(path.read_bytes()).hexdigest()
            for path in made} == set(seen.pop()) and len(made) == (2 if "split" in wish else 1)


def test_wrong_entries_and_columns_are_told(spark, tmp_path):
    frame = spark.createDataFrame([("a", 1, 2.0, [1])], "who string, film int, stars double, list array<int>")
    for arguments, wish, kind, message in [
        (("whom", "film"), {}, norn.UsageError, '`user`: there is no column "whom". Did you mean "who"?'),
        (("who", "stars"), {}, norn.UsageError, '`item`: column "stars" holds double, expected text or whole numbers'),
        (("who", "film"), {"value": "who"}, norn.UsageError, '`value`: column "who" holds string, expected numbers'),
        (("who", "film"), {"time": "list"}, norn.UsageError, '`time`: column "list" holds array<int>'),
        (("who", "who"), {}, norn.UsageError, 'column "who" is named for `user` and `item`'),
        (("who", "film"), {"staging": tmp_path / "none"}, norn.UsageError, "`staging`: there is no folder"),
        ((None, "film"), {}, norn.UsageError, "`user` None: expected the name of a column"),
    ]:
        with pytest.raises(kind) as caught:
            norn.spark.write_dataset(frame, *arguments, tmp_path / "x.nc", **wish)
        assert message in str(caught.value)
    with pytest.raises(norn.DataError, match="has no rows"):
        norn.spark.write_dataset(frame.where("film > 3"), "who", "film", tmp_path / "x.nc")
    with pytest.raises(norn.DataError, match="\"who\", row 0 .from 0.: the example is null"):
        norn.spark.write_dataset(spark.createDataFrame([("a", 1), (None, 2)], "who string, film int"), "who", "film", tmp_path / "x.nc")
    with pytest.raises(norn.DataError, match="occurs twice"):
        norn.spark.write_dataset(frame.union(frame), "who", "film", tmp_path / "x.nc")
    assert list(tmp_path.iterdir()) == []


def test_the_page_runs(spark, source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = norn.Dataset.from_table({"package": ["a", "a", "b", "b"], "library": ["libgtk-3-0", "zlib1g", "libvorbisfile3", "zlib1g"]})
    norn.Recommender(epochs=1, device="cpu").fit(rows).save("packages.nc")
    blocks = re.findall(r"^```python\n(.*?)^```", (source / "docs/user/spark.md").read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) == 5
    names = {"spark": spark}
    exec("\n".join(blocks).replace('"films_model"', repr(str(tmp_path / "films_model"))), names)  # Spark's own folder is that of its start
    assert [row["recommendations"] for row in names["recommended"].collect()] == [["zlib1g"]]
    data = norn.Dataset.from_netcdf("films.nc")
    assert (data.example_labels, data.feature_labels) == (["ann"], ["Alien", "Diva"])
    assert names["again"].recommendForAllUsers(3).count() == 40
    assert len(names["best"].transform(names["held"]).first()["recommendations"]) == 3
    assert (tmp_path / "films_trained.nc").read_bytes() == (tmp_path / "in_a_task.nc").read_bytes()
