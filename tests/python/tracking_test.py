# SPDX-License-Identifier: Apache-2.0
"""Runs as MLflow and Weights & Biases have them: MLflow with a store of files, W&B without a network, where it is installed, and as
calls that a module in its place records."""
import sys
import types

import mlflow
import numpy as np
import pytest

import norn
from conftest import Baskets


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    before = mlflow.get_tracking_uri()
    yield f"file:{tmp_path}/runs"
    while mlflow.active_run():
        mlflow.end_run()
    mlflow.set_tracking_uri(before)


def recommender(**more):
    return norn.Recommender(**{"epochs": 3, "batch": 20, "hidden": 5, "device": "cpu", "threads": 1, "metrics_at": [5], "seed": 7} | more)


def runs_of(store, experiment):
    client = mlflow.MlflowClient(store)
    found = client.search_runs([client.get_experiment_by_name(experiment).experiment_id])
    return client, sorted(found, key=lambda run: run.info.start_time)


def test_mlflow_has_settings_figures_and_the_end(baskets, store):
    model = recommender().fit(baskets.matrix, validation=0.2, callbacks=norn.mlflow_run("films", name="first", tracking_uri=store))
    client, (run,) = runs_of(store, "films")
    assert (run.info.status, run.info.run_name, run.data.tags["norn.end"]) == ("FINISHED", "first",
                                                                               "completed") and mlflow.active_run() is None
    params = run.data.params
    assert (params["epochs"], params["seed"], params["batch"], params["examples"]) == ("3", "7", "20", str(int(params["examples"])))
    assert 0 < int(params["examples"]) < baskets.matrix.shape[0] and params["validation_split"] == "0.2"
    assert "network" not in params and params["recipe"] == "sigmoid"
    for name in ("cost", "ndcg@5", "validation_cost", "rate"):
        kept = [(one.step, one.value) for one in client.get_metric_history(run.info.run_id, name.replace("@", "_at_"))]
        assert kept == [(epoch["epoch"], pytest.approx(epoch[name])) for epoch in model.history], name


def test_mlflow_goes_on_with_an_active_run(baskets, store):
    mlflow.set_tracking_uri(store)
    mlflow.set_experiment("films")
    with mlflow.start_run() as active:
        model = recommender().fit(baskets.matrix, callbacks=norn.mlflow_run())
        assert mlflow.active_run().info.run_id == active.info.run_id
        model.partial_fit(baskets.matrix, epochs=2, callbacks=norn.mlflow_run())
        recommender(epochs=1).fit(baskets.matrix, callbacks=norn.mlflow_run(name="below"))
    client, (first, below) = runs_of(store, "films")
    assert [one.step for one in client.get_metric_history(first.info.run_id, "cost")] == [1, 2, 3, 4, 5]
    assert first.data.params["epochs"] == "3" and below.data.params["epochs"] == "1"
    assert below.data.tags["mlflow.parentRunId"] == first.info.run_id and below.info.status == "FINISHED"


@pytest.mark.parametrize("raised, status", ((KeyboardInterrupt, "KILLED"), (RuntimeError, "FAILED"), (norn.StopTraining, "FINISHED")))
def test_mlflow_knows_how_a_run_ended(baskets, store, raised, status):
    def stop(env):
        if env.epoch == 2:
            raise raised("enough")

    try:
        recommender().fit(baskets.matrix, callbacks=[norn.mlflow_run("films", tracking_uri=store), stop])
    except (KeyboardInterrupt, RuntimeError):
        pass
    client, (run,) = runs_of(store, "films")
    assert run.info.status == status and run.data.tags["norn.end"] == "stopped" and mlflow.active_run() is None


def test_a_run_that_diverges_has_failed(baskets, store):
    with pytest.raises(norn.DivergenceError):
        recommender(rate=1e30, optimizer="SGD").fit(baskets.matrix, callbacks=norn.mlflow_run("films", tracking_uri=store))
    client, (run,) = runs_of(store, "films")
    assert run.info.status == "FAILED"


def test_what_mlflow_raises_ends_the_run(baskets, tmp_path, store):
    (tmp_path / "runs").write_text("a file is where its folder should be")
    with pytest.raises(Exception) as found:
        recommender().fit(baskets.matrix, callbacks=norn.mlflow_run("films", tracking_uri=store))
    assert not isinstance(found.value, (AttributeError, KeyError, TypeError)) and mlflow.active_run() is None


def test_any_network_is_told_of(baskets, store):
    network = {"Layers": [{"Name": "Input", "Kind": "Input", "DataSet": "x", "N": "auto"}, {"Name": "Hidden", "Kind": "Hidden", "N": 4},
                          {"Name": "Output", "Kind": "Output", "DataSet": "y", "N": "auto"}]}
    norn.train(network, {"x": baskets.matrix, "y": baskets.matrix}, epochs=2, batch=16,
               callbacks=norn.mlflow_run("any", tracking_uri=store))
    client, (run,) = runs_of(store, "any")
    assert run.data.params["batch"] == "16" and len(client.get_metric_history(run.info.run_id, "cost")) == 2


class Recorded(types.ModuleType):
    """What is called of W&B."""

    def __init__(self):
        super().__init__("wandb")
        self.run, self.calls, self.summary = None, [], {}
        self.config = types.SimpleNamespace(update=lambda given, allow_val_change: self.calls.append(("config", given)))

    def init(self, **given):
        self.calls.append(("init", given))
        self.run = self
        return self

    def define_metric(self, name, step_metric):
        self.calls.append(("define", name, step_metric))

    def log(self, given):
        self.calls.append(("log", given))

    def finish(self, exit_code):
        self.calls.append(("finish", exit_code))
        self.run = None


def test_wandb_is_told_the_same(baskets, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", recorded := Recorded())
    model = recommender().fit(baskets.matrix, validation=0.2, callbacks=norn.wandb_run("films", name="first", tags=["a"]))
    assert recorded.calls[0] == ("init", {"project": "films", "name": "first", "tags": ["a"]}) and recorded.calls[-1] == ("finish", 0)
    config = dict(next(one[1] for one in recorded.calls if one[0] == "config"))
    assert config["epochs"] == 3 and config["seed"] == 7
    logged = [one[1] for one in recorded.calls if one[0] == "log"]
    assert [one["cost"] for one in logged if "cost" in one] == [epoch["cost"] for epoch in model.history]
    assert [(one["epoch"], one["ndcg_at_5"]) for one in logged if "ndcg_at_5" in one] == [(epoch["epoch"], epoch["ndcg@5"])
                                                                                          for epoch in model.history]
    defined = [one[1:] for one in recorded.calls if one[0] == "define"]
    assert len(defined) == len(set(defined)) and ("ndcg_at_5", "epoch") in defined and recorded.summary["end"] == "completed"
    recorded.calls.clear()
    recorded.run = recorded  # somebody else's
    recommender().fit(baskets.matrix, callbacks=norn.wandb_run())
    assert {one[0] for one in recorded.calls} == {"config", "define", "log"}


def test_wandb_itself_takes_it(baskets, monkeypatch, tmp_path):
    wandb = pytest.importorskip("wandb", reason="wandb is large, and CI has a recorded module: build/venv/bin/pip install wandb")
    for name, value in (("WANDB_MODE", "offline"), ("WANDB_DIR", str(tmp_path)), ("WANDB_SILENT", "true")):
        monkeypatch.setenv(name, value)
    recommender().fit(baskets.matrix, validation=0.2, callbacks=norn.wandb_run("films", name="first"))
    assert wandb.run is None and len(list(tmp_path.glob("wandb/offline-run-*/*.wandb"))) == 1
    with wandb.init(project="films") as active:
        model = recommender().fit(baskets.matrix, validation=0.2, callbacks=norn.wandb_run())
        assert wandb.run is active and active.config["seed"] == 7
        assert active.summary["ndcg_at_5"] == model.history[-1]["ndcg@5"] and active.summary["end"] == "completed"


def test_a_package_that_is_missing_is_named(monkeypatch):
    for package in ("mlflow", "wandb"):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(norn.UsageError, match=f"{package} is needed.*pip install {package}"):
            getattr(norn, f"{package}_run")()


def test_a_callback_sees_the_settings(draw):
    baskets, seen = Baskets(draw), []

    class Watch(norn.Callback):
        def __call__(self, env):
            seen.append((env.kind, dict(env.settings), env.report))

    recommender(rate=0.01).fit(baskets.matrix, callbacks=Watch())
    assert seen[0][0] == "begin" and {kind for kind, _, _ in seen} == {"begin", "epoch", "end"}
    assert all(settings["rate"] == 0.01 and settings["seed"] == 7 and settings["hidden"] == 5 for _, settings, _ in seen)
    assert not any(isinstance(value, (list, np.ndarray)) for _, settings, _ in seen for value in settings.values())
    assert seen[-1][2]["end"] == "completed" and seen[-1][2]["raised"] is None
    seen.clear()
    network = {"Name": "mine", "Recipe": "softmax", "Layers": [{"Name": "Hidden", "N": 6}]}
    norn.Recommender(network=network, epochs=1, batch=20, device="cpu").fit(baskets.matrix, callbacks=Watch())
    assert seen[0][1]["network"] == "mine" and "hidden" not in seen[0][1]


def test_what_fails_at_the_end_does_not_lose_the_model(draw, caplog):
    """Of a tracker that is gone, say; the others are told all the same."""
    baskets, told = Baskets(draw), []

    class Fails(norn.Callback):
        def __init__(self, message="gone"):
            self.message = message

        def __call__(self, env):
            if env.kind == "end":
                told.append(env.report["end"])
                raise OSError(self.message)

    model = recommender()
    with pytest.raises(OSError, match="gone"):
        model.fit(baskets.matrix, callbacks=[Fails(), Fails("full")])
    assert told == ["completed"] * 2 and model.recommend(baskets.matrix, 3)[0].shape == (baskets.matrix.shape[0],
                                                                                         3) and len(model.history) == 3
    assert len([one for one in caplog.records if "raised at the end of the run: OSError: full" in one.message]) == 1, "the other is raised"

    def stop(env):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        recommender().fit(baskets.matrix, callbacks=[Fails(), stop])
    with pytest.raises(norn.DivergenceError):
        recommender(rate=1e30, optimizer="SGD").fit(baskets.matrix, callbacks=[Fails()])
    assert told[2:] == ["stopped", "failed"]


def test_the_bar_shows_the_examples_that_are_done(baskets, monkeypatch):
    """And each is shown once, in whatever steps."""
    made = []

    class Bar:
        def __init__(self, total, initial, **_):
            self.total, self.n, self.seen, self.words, self.closed = total, initial, [initial], [], False
            made.append(self)

        def update(self, more):
            self.n += more
            self.seen.append(self.n)

        def set_description(self, text, refresh):
            self.words.append(text)

        def set_postfix_str(self, text, refresh):
            self.words.append(text)

        def close(self):
            self.closed = True

    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", types.SimpleNamespace(tqdm=Bar))
    progress = norn.progress()
    progress.step_seconds = 0.0
    recommender().fit(baskets.matrix, callbacks=progress)
    (bar,) = made
    examples = baskets.matrix.shape[0]
    assert bar.total == 3 * examples and bar.seen == sorted(bar.seen) and bar.seen[0] == 0 and bar.n == bar.total and bar.closed
    steps = -(-examples // 20)
    assert set(bar.seen) <= {min(epoch * examples + 20 * step, (epoch + 1) * examples) for epoch in range(3) for step in range(steps + 1)}
    assert "epoch 3 of 3" in bar.words and any(text.startswith("cost ") for text in bar.words)
