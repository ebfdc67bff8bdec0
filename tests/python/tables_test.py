# SPDX-License-Identifier: Apache-2.0
"""Tables of recommendations and of data sets."""
import tracemalloc

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest
import scipy.sparse as sp
from pyarrow import parquet

import norn
from conftest import Baskets
from random_networks import RandomNetwork


@pytest.fixture
def data(draw):
    baskets = Baskets(draw)
    labels = [f"user{u}" for u in range(baskets.matrix.shape[0])]
    return norn.Dataset(baskets.matrix, feature_labels=baskets.dataset.feature_labels, example_labels=labels, name="films")


@pytest.fixture
def model(data):
    return norn.Recommender(epochs=2, batch=20, hidden=5, device="cpu", threads=1).fit(data)


def expected(ids, scores, users, labels):
    return [(users[row], place + 1, labels[ids[row, place]], scores[row, place])
            for row in range(len(ids)) for place in range(ids.shape[1]) if ids[row, place] >= 0]


def rows_of(table):
    return list(zip(*(table.column(name).to_pylist() for name in ("user", "rank", "item", "score"))))


def test_a_table_has_what_recommend_says(draw, data, model, tmp_path):
    N, batch = int(draw.integers(1, 12)), int(draw.integers(1, len(data) + 10))
    wanted = expected(*model.recommend(data, N), data.example_labels, data.feature_labels)
    stream = model.recommend_table(data, N, batch=batch)
    assert [(field.name, str(field.type)) for field in stream.schema] == [("user", "string"), ("rank", "int32"), ("item", "string"),
                                                                          ("score", "float")]
    table = stream.to_arrow()
    assert rows_of(table) == wanted
    assert rows_of(pa.table(stream)) == wanted, "it is made anew whenever it is read"
    assert polars.DataFrame(stream).rows() == wanted
    assert [tuple(row) for row in stream.to_pandas().itertuples(index=False)] == wanted
    assert stream.to_parquet(tmp_path / "best.parquet") == len(wanted)
    assert rows_of(parquet.read_table(tmp_path / "best.parquet")) == wanted and [f.name for f in tmp_path.iterdir()] == ["best.parquet"]
    assert len(list(stream)) == -(-len(data) // batch)
    assert repr(stream) == "<norn.TableStream: user: string, rank: int32, item: string, score: float>"


def test_users_and_items_without_labels_are_numbers(draw):
    baskets = Baskets(draw)
    model = norn.Recommender(epochs=1, batch=20, hidden=5, device="cpu", threads=1).fit(baskets.matrix)
    ids, scores = model.recommend(baskets.matrix, 3)
    stream = model.recommend_table(baskets.matrix, 3, batch=7)
    table = stream.to_arrow()
    assert [str(kind) for kind in table.schema.types] == ["int64", "int32", "int32", "float"]
    assert rows_of(table) == expected(ids, scores, range(len(ids)), range(baskets.units))
    numbers = draw.permutation(10**6)[:len(ids)]
    assert rows_of(model.recommend_table(baskets.matrix, 3, users=numbers, batch=7).to_arrow()) == expected(ids, scores, numbers.tolist(),
                                                                                                            range(baskets.units))
    words = [f"u{n}" for n in numbers]
    for users in (words, np.array(words), pandas.Series(words), pandas.Categorical(words), polars.Series(words), pa.array(words),
                  pa.chunked_array([words])):
        table = model.recommend_table(baskets.matrix.toarray(), 3, users=users).to_arrow()
        assert table.column("user").to_pylist()[:4] == [words[0]] * 3 + [words[1]]
    empty = model.recommend_table(baskets.matrix[:0], 3).to_arrow()
    assert empty.num_rows == 0 and empty.schema == stream.schema


def test_what_filters_and_weighs_goes_with_its_users(draw, data, model):
    users, units = data.shape
    pairs = sp.random(users, units, density=0.2, format="csr", dtype=np.float32, random_state=int(draw.integers(2**31)))
    pairs.data[:] = 1
    factors = draw.random((users, units)).astype(np.float32)
    some = [f"unit{u}" for u in draw.choice(units, units - 3, replace=False)]
    for more in ({"filter_pairs": pairs}, {"score_factors": factors}, {"score_factors": factors[0]},
                 {"score_factors": sp.coo_matrix(factors)},
                 {"filter_pairs": norn.Dataset(pairs, feature_labels=data.feature_labels)}, {"items": some, "filter_items": some[:2]},
                 {"filter_already_liked_items": False, "filter_pairs": pairs.tocsc()}):
        ids, scores = model.recommend(data, 5, **more)
        table = model.recommend_table(data, 5, batch=int(draw.integers(1, users)), **more).to_arrow()
        assert rows_of(table) == expected(ids, scores, data.example_labels, data.feature_labels), more.keys()


def test_several_inputs_go_by_their_names(draw):
    net = RandomNetwork(draw, inputs=2, plain=True)
    model = norn.Recommender.of(norn.Network.from_parameters(net.descriptor, net.parameters, device="cpu", threads=1))
    known = {one["DataSet"]: draw.random((12, one["N"])).astype(np.float32) for one in net.inputs()}
    known["set_0"] = norn.Dataset(known["set_0"])
    ids, scores = model.recommend(known, 4, filter_already_liked_items=False)
    spared = {"of another network": known["set_1"][:int(draw.integers(1, 5))], **known}
    for given in (known, spared):
        table = model.recommend_table(given, 4, batch=5, filter_already_liked_items=False).to_arrow()
        assert rows_of(table) == expected(ids, scores, range(12), range(net.layers[-1]["N"]))
    shorter = known | {"set_1": known["set_1"][:7]}
    told = r"^`user_items\['set_1'\]`: has 7 rows, `user_items\['set_0'\]` has 12: each has a row for each user$"
    with pytest.raises(norn.DataError, match=told):
        model.recommend_table(shorter)
    with pytest.raises(norn.UsageError, match="^`user_items`: a dictionary goes from the names of data sets, here set_0, set_1, to"):
        model.recommend_table({})
    with pytest.raises(norn.UsageError, match=r"^`user_items\['set_0'\]` is of type dict"):
        model.recommend_table(known | {"set_0": {}})


def test_wrong_arguments_are_refused_before_anything_is_computed(data, model):
    for message, more in (("has 2 labels for", {"users": ["a", "b"]}), ("`batch` 0", {"batch": 0}), ("`N` 0", {"N": 0}),
                          ("all of text or all whole numbers", {"users": [1, "b"] * len(data)}), ("`layer` 'x'", {"layer": "x"}),
                          ("all of text", {"users": [0.5] * len(data)}), ("all of text", {"users": [2**70] * len(data)}),
                          ("all of text", {"users": 3}), ("`filter_pairs`: has the shape", {"filter_pairs": data.matrix[:3]}),
                          ("`score_factors`: has the shape", {"score_factors": np.ones(data.shape[1] + 1)}),
                          ("`score_factors` is of type dict", {"score_factors": {}}),
                          ("`filter_pairs` is of type dict", {"filter_pairs": {"items": data.matrix}}),
                          ("no unit 'x'", {"items": ["x"]})):
        if isinstance(more.get("users"), list) and len(more["users"]) != 2:
            more = {"users": more["users"][:len(data)]}
        with pytest.raises(norn.UsageError, match=message):
            model.recommend_table(data, **more)
    other = norn.Dataset(data.matrix, feature_labels=[f"other{u}" for u in range(data.shape[1])])
    with pytest.raises(norn.UsageError, match="this unit of the model is"):
        model.recommend_table(other)


def test_a_file_is_complete_or_absent(data, model, tmp_path, monkeypatch):
    with pytest.raises(norn.DataError, match="cannot be written"):
        model.recommend_table(data, 3, batch=10).to_parquet(tmp_path / "none" / "best.parquet")
    (tmp_path / "best.parquet").write_text("before")
    calls = []

    def fails(*given, **more):
        calls.append(1)
        if len(calls) > 2:
            raise RuntimeError("gone")
        return recommend(*given, **more)

    recommend = norn.Recommender.recommend
    monkeypatch.setattr(norn.Recommender, "recommend", fails)
    with pytest.raises(RuntimeError, match="gone"):
        model.recommend_table(data, 3, batch=10).to_parquet(tmp_path / "best.parquet")
    assert (tmp_path / "best.parquet").read_text() == "before" and [f.name for f in tmp_path.iterdir()] == ["best.parquet"]


def test_memory_does_not_grow_with_the_users(draw, tmp_path):
    baskets = Baskets(draw, users=300, units=50)
    model = norn.Recommender(epochs=1, batch=20, hidden=5, device="cpu", threads=1).fit(baskets.matrix)
    peaks = []
    for times in (20, 100):
        many = sp.vstack([baskets.matrix] * times, format="csr")
        stream = model.recommend_table(many, 10, batch=1000)
        pool = pa.default_memory_pool()
        tracemalloc.start()
        most = 0
        for batch in stream:
            most = max(most, pool.bytes_allocated())
        peaks.append(tracemalloc.get_traced_memory()[1] + most)
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0], "of Python, NumPy and Arrow, for five times as many users"


@pytest.mark.parametrize("values", (False, True))
def test_a_data_set_goes_to_a_table_and_back(draw, values, tmp_path, monkeypatch):
    baskets = Baskets(draw, values=values)
    monkeypatch.setattr("norn.tables.ENTRIES", int(draw.integers(1, 200)))
    users = [f"user {u}" for u in range(baskets.matrix.shape[0])]
    data = norn.Dataset(baskets.matrix, feature_labels=baskets.dataset.feature_labels, example_labels=users, name="films")
    stream = data.to_table("user", "film", "rating")
    assert [field.name for field in stream.schema] == ["user", "film"] + ["rating"] * values
    stream.to_parquet(tmp_path / "films.parquet")
    for source in (stream, stream.to_arrow(), tmp_path / "films.parquet", stream.to_pandas()):
        again = norn.Dataset.from_table(source, "user", "film", "rating" if values else None, features=data)
        assert again.example_labels == users and (again.matrix != data.matrix).nnz == 0
    assert sum(batch.num_rows for batch in stream) == data.entries == stream.to_arrow().num_rows


def test_parts_and_targets_have_tables_of_their_own(draw):
    baskets = Baskets(draw)
    data = norn.Dataset(baskets.matrix, name="films").split("ratio:0.7/0.3", seed=int(draw.integers(1000)))
    table = data.test.to_table().to_arrow()
    assert table.schema.names == ["example", "feature"] and str(table.schema.types) == "[DataType(int64), DataType(int32)]"
    matrix = sp.csr_matrix((np.ones(len(table)), (table.column(0).to_numpy(), table.column(1).to_numpy())), shape=data.test.shape)
    assert (matrix != data.test.matrix).nnz == 0
    held_out = data.test.to_table(targets=True).to_arrow()
    assert held_out.num_rows == data.test.targets.nnz
    with pytest.raises(norn.UsageError, match="other names for other columns"):
        data.to_table("user", "user")
    with pytest.raises(norn.UsageError, match="no targets"):
        data.train.to_table(targets=True)


def test_labels_that_are_no_utf8_are_told(model, data):
    odd = norn.Dataset(data.matrix, feature_labels=data.feature_labels, example_labels=["\udcff", *data.example_labels[1:]])
    with pytest.raises(norn.DataError, match="is no UTF-8"):
        model.recommend_table(odd)
