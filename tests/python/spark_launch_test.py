# SPDX-License-Identifier: Apache-2.0
"""norn.spark.launch on this machine and within a task."""
import dataclasses
import itertools
import json
import logging
import os
import pathlib

import pytest

from spark_session import spark  # noqa: F401

import norn
import norn.spark
from conftest import Baskets, run


@pytest.fixture
def data(draw, programs, tmp_path):
    """The files of importer: what to train on, and what to validate with."""
    baskets = Baskets(draw, values=draw.random() < 0.5)
    (tmp_path / "held").mkdir()
    held = Baskets(draw, users=40, units=baskets.units, values=baskets.values).write(programs, tmp_path / "held")
    return baskets.write(programs, tmp_path), held


def trainers(programs, files, out, **settings):
    """The model's bytes that trainer writes."""
    words = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
    run(programs / "trainer", "-i", files[0], "-n", out, "--device", "cpu", "-q", "--force", "--recipe", "sigmoid", *words)
    return out.read_bytes()


def settings_drawn(draw):
    return {"epochs": int(draw.integers(2, 5)), "batch": int(draw.integers(5, 40)), "seed": int(draw.integers(1, 1000)),
            "optimizer": str(draw.choice(["SGD", "Adam"]))}


@pytest.mark.parametrize("where", [{"ranks": 1}, {"ranks": 2, "threads": 1}, {"local_mode": False}, {"local_mode": False, "ranks": 2},
                                   {"local_mode": False, "shared": True}],
                                   ids=["here", "two ranks", "a task", "two in a task", "a shared folder"])
def test_a_launched_training_has_the_bytes_of_trainer(draw, spark, programs, data, tmp_path, caplog, where):  # noqa: F811
    settings = settings_drawn(draw)
    expected = trainers(programs, data, tmp_path / "expected.nc", validation_input=data[1], keep_best="ndcg@5", **settings)
    caplog.set_level(logging.INFO, logger="norn")
    made = norn.spark.launch(data[0], tmp_path / "model.nc", device="cpu", validation=data[1], keep_best="ndcg@5", run_dir=tmp_path / "run",
                             **where, **settings)
    assert pathlib.Path(made.model).read_bytes() == expected
    assert (made.model, made.run_dir) == (str(tmp_path / "model.nc"), str(tmp_path / "run"))
    events = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert events[0]["ranks"] == where.get("ranks", 1) and events[-1]["event"] == "end" and (tmp_path / "run" / "run.json").exists()
    assert [epoch["epoch"] for epoch in made.history] == list(range(1, settings["epochs"] + 1))
    assert made.history.best["ndcg@5"] == max(epoch["ndcg@5"] for epoch in made.history)
    said = [record.getMessage() for record in caplog.records]
    assert any("validation after epoch 2" in line for line in said) and any("validation after epoch 2" in line for line in made.lines)
    assert not [left for left in tmp_path.iterdir() if left.suffix == ".part"]


def test_a_descriptor_is_launched_as_recommender_takes_it(draw, data, tmp_path):
    settings = settings_drawn(draw)
    (tmp_path / "net.json").write_text(json.dumps({"Recipe": "softmax", "Layers": [{"Name": "Hidden", "N": 9}]}))
    read = norn.Dataset.from_netcdf(data[0])
    for number, own in enumerate([{"hidden": 11}, {"network": tmp_path / "net.json"}, {"network": {"Recipe": "softmax"}},
                                  {"recipe": "softmax"}]):
        made = norn.spark.launch([data[0]], tmp_path / f"{number}.nc", device="cpu", **own, **settings)
        fitted = norn.Recommender(device="cpu", **own, **settings).fit(read)
        fitted.save(tmp_path / "expected.nc")
        assert pathlib.Path(made.model).read_bytes() == (tmp_path / "expected.nc").read_bytes(), own
        assert [(epoch["epoch"], epoch["cost"], epoch["examples"]) for epoch in made.history] == [(e["epoch"], e["cost"], e["examples"])
                                                                                                  for e in fitted.history]


def test_what_is_wrong_is_told_before_anything_begins(spark, data, tmp_path, monkeypatch):  # noqa: F811
    there = tmp_path / "there.nc"
    there.write_text("a model")
    for wish, kind, message in [
        ({"epoch": 3}, norn.UsageError, '`epoch`: there is no such setting. Did you mean "epochs"?'),
        ({"optimizer": "Adan"}, norn.UsageError, "`optimizer` Adan: there is no such choice"),
        ({"rate": "fast"}, norn.UsageError, "`rate` 'fast': expected a number"),
        ({"rate": -1.0}, norn.UsageError, "`rate` -1 is out of range"),
        ({"keep_best": "fun@3"}, norn.UsageError, '`keep_best`: "fun@3" is no metric'),
        ({"device": "tpu"}, norn.UsageError, "`device` tpu: there is no such device"),
        ({"ranks": 0}, norn.UsageError, "`ranks` 0 is out of range"),
        ({"local_mode": False, "spark": 3}, norn.UsageError, "`spark` 3: expected a SparkSession, not int"),
        ({"local_mode": "no"}, norn.UsageError, "`local_mode` 'no': expected True or False"),
        ({"network": {"Layerz": []}}, norn.UsageError, 'unknown key "Layerz"; did you mean "Layers"?'),
        ({"hidden": 3, "network": {}}, norn.UsageError, "give one of the two"),
        ({"data": tmp_path / "none.nc"}, norn.DataError, "none.nc: no such file"),
        ({"data": []}, norn.UsageError, "`data` is empty"),
        ({"data": 3}, norn.UsageError, "`data` 3: expected a path, not int"),
        ({"model": there}, norn.UsageError, "there.nc exists; name another file"),
        ({"model": tmp_path / "no" / "m.nc"}, norn.UsageError, "`model`: there is no folder"),
        ({"local_mode": False, "resume": True}, norn.UsageError, "`resume`: a task finds checkpoints only where it sees the model's path"),
    ]:
        for local_mode in (True, False):
            with pytest.raises(kind) as caught:
                norn.spark.launch(**({"data": data[0], "model": tmp_path / "m.nc", "device": "cpu", "local_mode": local_mode} | wish))
            assert message in str(caught.value), wish
    assert there.read_text() == "a model"
    trained = norn.Recommender(epochs=1, device="cpu").fit(norn.Dataset.from_netcdf(data[0])).network_
    with pytest.raises(norn.UsageError, match="begins with a descriptor, not with a trained network"):
        norn.spark.launch(data[0], tmp_path / "m.nc", network=trained)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(norn.UsageError, match="`ranks` 2: there is no mpirun in PATH"):
        norn.spark.launch(data[0], tmp_path / "m.nc", device="cpu", ranks=2)


@pytest.mark.parametrize("where", [{}, {"ranks": 2}, {"local_mode": False}], ids=["here", "two ranks", "a task"])
def test_the_trainers_errors_come_as_theirs(spark, data, tmp_path, caplog, where):  # noqa: F811
    (tmp_path / "text.nc").write_text("no data")
    caplog.set_level(logging.INFO, logger="norn")
    with pytest.raises(norn.DataError) as caught:
        norn.spark.launch(tmp_path / "text.nc", tmp_path / "m.nc", device="cpu", **where)
    assert caught.value.problems[0]["file"].endswith(".nc") and "NetCDF" in str(caught.value)
    with pytest.raises(norn.DivergenceError, match="lower the learning rate"):
        norn.spark.launch(data[0], tmp_path / "m.nc", device="cpu", rate=1e30, lambda_=1e30, network={"Recipe": "sigmoid"}, epochs=3,
                          **where)
    assert not (tmp_path / "m.nc").exists()
    assert not any("MPI_ABORT" in record.getMessage() for record in caplog.records)


def test_a_trainer_that_dies_without_a_word_is_an_error(data, tmp_path, monkeypatch):
    stand_in = tmp_path / "bin" / "trainer"
    stand_in.parent.mkdir()
    monkeypatch.setenv("NORN_BIN", str(stand_in.parent))
    for ending, message in [("exit 3", "exit code 3, without a word"), ("kill -9 $$", "signal 9, without a word"),
                            ('echo "{"; exit 1', "exit code 1")]:
        stand_in.write_text(f"#!/bin/sh\necho last words\n{ending}\n")
        stand_in.chmod(0o755)
        with pytest.raises(norn.Error, match=message) as caught:
            norn.spark.launch(data[0], tmp_path / "m.nc", device="cpu")
        assert "last words" in str(caught.value)


def test_an_interrupted_training_goes_on_to_the_same_bytes(draw, programs, data, tmp_path):
    settings = settings_drawn(draw) | {"epochs": 60, "rate_schedule": "constant"}
    expected = trainers(programs, data, tmp_path / "expected.nc", **settings)

    lines = itertools.count(1)
    last = int(draw.integers(2, 50))

    def interrupt(record):
        if next(lines) == last:
            raise KeyboardInterrupt
        return True

    log = logging.getLogger("norn")
    level = log.level
    log.setLevel(logging.INFO)
    log.addFilter(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            norn.spark.launch(data[0], tmp_path / "m.nc", device="cpu", **settings)
    finally:
        log.removeFilter(interrupt)
        log.setLevel(level)
    children = pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    assert not [child for child in children if "trainer" in pathlib.Path(f"/proc/{child}/cmdline").read_text()]
    made = norn.spark.launch(data[0], tmp_path / "m.nc", device="cpu", resume=True, **settings)
    assert pathlib.Path(made.model).read_bytes() == expected


def test_a_task_gives_its_gpus_to_the_ranks(data, tmp_path, monkeypatch):
    """What a task runs, run here, with a trainer that says what it was given."""
    from norn.spark import running

    stand_in = tmp_path / "bin" / "trainer"
    stand_in.parent.mkdir()
    stand_in.write_text('#!/bin/sh\necho "given [$CUDA_VISIBLE_DEVICES] $*"\n')
    stand_in.chmod(0o755)
    monkeypatch.setenv("NORN_BIN", str(stand_in.parent))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    job = running.Job(inputs=("in.nc",), validation=(), model="m.nc", run_dir="run", options=(), recipe="sigmoid", network=None, ranks=1,
                      device="auto",
                      threads=0, precision="tf32", force=False, resume=False)
    for device, gpus, cores, expected in [("auto", ["3", "1"], 6, "given [3,1] .*--device cuda --threads 6"),
                                          ("cuda", ["5"], 1, "given [5] .*--device cuda "),
                                          ("cpu", ["5"], 2, "given [] .*--device cpu --threads 2"),
                                          ("cuda:2", ["5"], 1, "given [] .*--device cuda .*--gpu 2"),
                                          ("auto", [], 0, "given [] .*--device auto --threads 0")]:
        (line,) = running.train(dataclasses.replace(job, device=device), lambda line: None, cores, gpus)
        first, _, rest = expected.partition(".*")
        assert line.startswith(first) and all(part in line for part in rest.split(".*")), line
        assert "--gpu" not in line or ":" in device
