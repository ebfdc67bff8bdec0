# SPDX-License-Identifier: Apache-2.0
"""What a user writes, for types_test.py: type checkers find an error in each line that ends in `# error`, and in no other."""
from __future__ import annotations

import pathlib

import norn
import numpy as np
from norn import interchange
from norn.errors import DataError
from numpy.typing import NDArray

dense: NDArray[np.float32] = np.eye(30, dtype=np.float32)
data = norn.Dataset(dense, feature_labels=[str(unit) for unit in range(30)])
table = norn.Dataset.from_table({"user": [1, 2], "item": ["a", "b"]}, "user", "item", split="ratio:0.8/0.2")
table.trian  # error
norn.Dataset("ratings.csv")  # error


def watch(env: norn.Environment) -> None:
    cost: float | None = env.cost
    best: bool = env.best
    epochs: str = env.epochs  # error
    print(cost, best, epochs, env.metrics["ndcg@10"] + 1)


model = norn.Recommender(epochs=3, lambda_=0.01, metrics_at=[5, 10], keep_best=True, seed=1)
norn.Recommender(epoch=3)  # error
norn.Recommender(epochs="three")  # error
norn.Nonsense  # error
model.fit(data, validation=0.1, callbacks=[norn.early_stopping("ndcg@20"), watch])
model.fit(data, validation=(dense, dense), weights=[1.0] * 30, callbacks=norn.progress())
model.fit(12)  # error
model.fit(data, callbacks=3)  # error
model.recomend(3)  # error
model.set_params(rate=0.1).partial_fit(data, epochs=2)
model.set_params(learning_rate=0.1)  # error
same = norn.Recommender(**model.get_params())
linear: norn.Ease = norn.Ease(regularization=100.0).fit(data)
linear = norn.Recommender().fit(data)  # error

ids, scores = same.recommend(data, 5, filter_items=["1"], items=np.arange(5))
first: np.int32 = ids[0, 0]
ids.wrong  # error
word: str = model.recommend(["1", "2"])[0][0]
number: int = model.recommend(["1", "2"])[0][0]  # error
pairs: list[tuple[str | int, float]] = model.recommend([1, 2])
why: list[tuple[str | int, float]] = model.explain(["1", "2"], "3", N=2)
each: list[list[tuple[str | int, float]]] = model.explain(["1", "2"], ["3", "4"])
effect: np.float32 = model.explain(data, ids).effects[0, 0, 0]
model.explain(data, 3).nothing  # error
near: list[tuple[str, float]] = model.similar_items("1")
units, cosines = model.similar_items([1, 2], of="input")
model.similar_items("1").shape  # error
found: float = model.evaluate(data, dense, k=20)["ndcg@20"]
text: str = model.evaluate(data, dense)["ndcg@20"]  # error
ends: tuple[float, float] = model.evaluate(data, dense, k=20, interval=0.9).interval("ndcg@20")
model.evaluate(data, dense, interval="0.9")  # error
novel: float = model.evaluate(data, dense, also=["auc", "novelty"], trained_on=dense, propensity=(0.55, 1.5))["novelty@20"]
model.evaluate(data, dense, also=3)  # error
among: float = model.evaluate(data, dense, items=["1", "2"])["ndcg@20"]
model.evaluate(data, dense, items=object())  # error
compared: norn.Comparison = norn.compare(model, same, data, dense, k=[5], resamples=100)
chance: float = compared["ndcg@5"].p
verdict: int = compared.better("ndcg@5")  # error
norn.compare(model, "other.nc", data)  # error
vectors: NDArray[np.float32] = model.transform(dense)
items: NDArray[np.float32] = model.export_vectors(dense).items
model.export_vectors(3)  # error
alike: list[tuple[str | int, float]] = model.similar_users(["1", "2"], data, N=3)
rows, cosines = model.similar_users(dense[:2], data)
model.similar_users(dense)  # error
lists: int = model.recommend_table(data, 5, users=[1, 2]).to_parquet("lists.parquet")
data.to_table("user", "film").to_csv("films.csv")  # error
model.fit(data, sample_weight=[1.0] * 30, callbacks=[norn.mlflow_run("films"), norn.wandb_run("films", tags=["a"])])
model.fit(data, sample_weight=data.matrix)
norn.mlflow_run(run_name="x")  # error

network = norn.Network.from_json({"Recipe": "sigmoid", "Layers": [{"Name": "Hidden", "N": 8}]})
plan = network.plan({"data_input": dense}, epochs=3)
fits: bool = plan["fits"]
plan["fit"]  # error
trained = norn.train(network, {"data_input": dense, "data_output": dense}, optimizer="Adam", threads=2)
norn.train(network, {"data_input": dense}, optimiser="Adam")  # error
weights: NDArray[np.float32] = trained.parameters["Input -> Hidden"]
cost: float = model.history[0]["cost"]
labels: list[str] = list(model.labels or ())
version: int = norn.__version__  # error
trained.save(pathlib.Path("model.nc"))
again: norn.Recommender = norn.load("model.nc")
again.network.save("other.nc")  # error
interchange.export_onnx(again, "model.onnx", top_k=True)
interchange.export_onx(again, "model.onnx")  # error
imported: norn.Network = norn.import_onnx("model.onnx")
norn.import_onnx(3)  # error
baseline = norn.implicit.Autoencoder(16, iterations=2, random_state=np.random.default_rng(1)).fit(dense, show_progress=False)
norn.implicit.Autoencoder(iteration=2)  # error
one, two = baseline.recommend(0, dense[:1])
factors: NDArray[np.float32] = baseline.user_factors
near_ids, near_scores = baseline.similar_users([1, 2], users=[3, 4])
try:
    norn.most_popular(data).evaluate((data, data))
except DataError as error:
    print(error.problems, error.exit_code + 1, isinstance(error, norn.Error))

study = norn.tune.Study("study", norn.Recommender(hidden=8), {"Training.Alpha": {"Range": [0.1, 0.2]}}, data, trials=8, metrics_at=[5])
norn.tune.Study("study", trails=8)  # error
value: float = study.run(trials=9).value
so_far: float = study.best.value  # error
trials: list[dict[str, object]] = study.trials
recommended = study.best_model().recommend(data)
outcomes: dict[str, norn.daily.Outcome] = norn.daily.Day("regions.json", "2026-11-22").run(slots=2)
norn.daily.Day(3)  # error
page: pathlib.Path = norn.report.write("runs/first", "page.html", title="first")
norn.report.wriet("runs/first")  # error
