# SPDX-License-Identifier: Apache-2.0
"""What Python makes has the bits of the programs. NORN_TEST_DEVICE=cuda computes on a GPU."""
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import norn
from conftest import DEVICE, Baskets, run


def trainer(programs, data, model, *arguments):
    run(programs / "trainer", "-i", data, "-n", model, "--device", DEVICE, "-q", *arguments)
    return model.read_bytes()


def drawn_settings(draw, users):
    """A run's settings as keywords and as options."""
    choices = {
        "recipe": str(draw.choice(["sigmoid", "softmax"])),
        "epochs": int(draw.integers(1, 6)),
        "batch": int(draw.integers(1, users + 1)),
        "seed": int(draw.integers(0, 2**64, dtype=np.uint64)),
        "rate": float(np.float32(draw.uniform(1e-4, 1e-2))),
        "rate_schedule": str(draw.choice(["constant", "step", "cosine", "plateau"])),
        "lambda_": float(np.float32(draw.uniform(0, 1e-3))),
        "shuffle": str(draw.choice(["yes", "no"])),
    }
    kept = {"recipe", "epochs"} | {name for name in choices if draw.random() < 0.5}
    keywords = {name: value for name, value in choices.items() if name in kept}
    options = [word for name, value in keywords.items()
               for word in ("--" + name.rstrip("_").replace("_", "-"), repr(value) if isinstance(value, float) else value)]
    return keywords, options


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_fit_is_trainer(draw, programs, tmp_path, threads):
    baskets = Baskets(draw, values=draw.random() < 0.5)
    data = baskets.write(programs, tmp_path)
    keywords, options = drawn_settings(draw, baskets.matrix.shape[0])
    print(keywords)
    expected = trainer(programs, data, tmp_path / "trainer.nc", *options, "--threads", threads)
    norn.Recommender(device=DEVICE, threads=threads, **keywords).fit(baskets.dataset).save(tmp_path / "fit.nc")
    assert (tmp_path / "fit.nc").read_bytes() == expected


def test_a_network_with_validation_is_trainer(draw, programs, tmp_path):
    baskets = Baskets(draw)
    data = baskets.write(programs, tmp_path)
    network = {"Recipe": "softmax", "Layers": [{"Name": "Hidden", "N": 24}]}
    (tmp_path / "net.json").write_text(json.dumps(network))
    expected = trainer(programs, data, tmp_path / "trainer.nc", "-c", tmp_path / "net.json", "--epochs", 30, "--batch", 25,
                       "--validation-split", 0.2, "--early-stop", "ndcg@10", "--patience", 2, "--metrics-at", "5,10")
    keywords = {"epochs": 30, "batch": 25, "metrics_at": [5, 10], "device": DEVICE}
    watch = norn.early_stopping("ndcg@10", patience=2)
    fitted = norn.Recommender(network=network, **keywords).fit(baskets.dataset, validation=0.2, callbacks=[watch])
    fitted.save(tmp_path / "fit.nc")
    assert (tmp_path / "fit.nc").read_bytes() == expected
    best = fitted.history.best
    assert best["ndcg@10"] == max(epoch["ndcg@10"] for epoch in fitted.history)
    same = norn.Recommender(recipe="softmax", hidden=24, **keywords).fit(baskets.dataset, validation=0.2, callbacks=[watch])
    same.save(tmp_path / "same.nc")
    assert (tmp_path / "same.nc").read_bytes() == expected
    sets = {"films_input": baskets.dataset, "films_output": baskets.dataset}
    norn.train(network, sets, validation=0.2, callbacks=[watch], **keywords).save(tmp_path / "train.nc")
    assert (tmp_path / "train.nc").read_bytes() == expected


def test_targets_of_their_own_and_a_descriptor_with_names(draw, programs, tmp_path):
    known, wanted = Baskets(draw, users=90, units=40), Baskets(draw, users=90, units=40)
    wanted.write(programs, tmp_path)
    (tmp_path / "films.txt").rename(tmp_path / "wanted.txt")
    known.write(programs, tmp_path)
    run(programs / "importer", "-i", tmp_path / "films.txt", "--target", tmp_path / "wanted.txt", "-f", tmp_path / "films.features", "-d",
        "films",
        "-o", tmp_path / "both.nc", "-q")
    network = {"ErrorFunction": "CrossEntropy", "Training": {"Epochs": 3, "Batch": 30}, "Layers": [
        {"Name": "In", "Kind": "Input", "DataSet": "films_input", "N": "auto"},
        {"Name": "Mid", "Kind": "Hidden", "N": 12, "Activation": "Tanh"},
        {"Name": "Out", "Kind": "Output", "DataSet": "films_output", "N": "auto", "Activation": "Sigmoid"}]}
    (tmp_path / "net.json").write_text(json.dumps(network))
    expected = trainer(programs, tmp_path / "both.nc", tmp_path / "trainer.nc", "-c", tmp_path / "net.json")
    whole = known.dataset
    whole.name = "others"  # the descriptor's names hold
    model = norn.Recommender(network=tmp_path / "net.json", device=DEVICE).fit(whole, wanted.dataset)
    model.save(tmp_path / "fit.nc")
    assert (tmp_path / "fit.nc").read_bytes() == expected
    whole.targets, whole.target_labels = wanted.matrix, None
    norn.Recommender(network=network, device=DEVICE).fit(whole).save(tmp_path / "dataset.nc")
    assert (tmp_path / "dataset.nc").read_bytes() == expected
    assert model.evaluate(whole) == model.evaluate(known.matrix, wanted.matrix) == model.evaluate((known.matrix, wanted.matrix))
    again = norn.Recommender(network=network, device=DEVICE, metrics_at=5).fit(whole, validation=whole)
    assert again.history[-1]["ndcg@5"] == again.evaluate(whole, k=5)["ndcg@5"]


@pytest.mark.parametrize("keeps_best", [False, True])
def test_a_fit_that_ctrl_c_stopped_goes_on_to_the_same_bytes(draw, programs, tmp_path, keeps_best):
    baskets = Baskets(draw)
    data = baskets.write(programs, tmp_path)
    options = ["--validation-split", 0.1, "--keep-best", "recall@10"] if keeps_best else []
    expected = trainer(programs, data, tmp_path / "trainer.nc", "--recipe", "sigmoid", "--epochs", 60, "--batch", 7, *options)
    model = norn.Recommender(epochs=60, batch=7, device=DEVICE, threads=2, keep_best="recall@10" if keeps_best else None)
    validation = 0.1 if keeps_best else None
    interrupted = int(draw.integers(2, 50))

    timers = []

    def interrupt(env):
        if env.epoch == interrupted and env.kind == "epoch":  # somewhere in the epochs after it, or after the end
            timers.append(threading.Timer(draw.uniform(0, 0.02), os.kill, (os.getpid(), signal.SIGINT)))
            timers[-1].start()

    stops, resume, done = 0, False, False
    while not done:
        try:
            model.fit(baskets.dataset, validation=validation, callbacks=[interrupt], resume=resume)
            done = True
        except KeyboardInterrupt:
            stops, resume = stops + 1, True
        try:
            while timers:
                timers.pop().join()
            time.sleep(0.01)
        except KeyboardInterrupt:
            pass
        ids, _ = model.recommend(baskets.matrix, N=3)  # the model is usable
        assert ids.shape == (baskets.matrix.shape[0], 3)
        interrupted += int(draw.integers(1, 30))
    model.save(tmp_path / "fit.nc")
    assert (tmp_path / "fit.nc").read_bytes() == expected
    assert [epoch["epoch"] for epoch in model.history] == list(range(1, 61))
    print(f"stopped {stops} times")


RANK = """
import sys, numpy as np, scipy.sparse as sp, norn
arrays = np.load(sys.argv[1])
matrix = sp.csr_matrix((arrays["data"], arrays["indices"], arrays["indptr"]), shape=arrays["shape"])
model = norn.Recommender(epochs=3, batch=20, device="cpu", threads=1).fit(matrix)
model.save(sys.argv[2])
ids, _ = model.recommend(matrix, N=3)
np.save(f"{sys.argv[2]}.{norn._core.rank()}.npy", ids)
"""


@pytest.mark.skipif(shutil.which("mpirun") is None or os.environ.get("NORN_MPI") == "OFF", reason="there is no MPI")
def test_ranks_under_mpirun_have_the_bits_of_one(draw, baskets, trained, tmp_path):
    m = baskets.matrix
    np.savez(tmp_path / "data.npz", data=m.data, indices=m.indices, indptr=m.indptr, shape=m.shape)
    trained.save(tmp_path / "one.nc")
    environment = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_mpi_yield_when_idle": "1"}
    ranks = int(draw.integers(2, 4))
    done = subprocess.run(["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks), sys.executable, "-B", "-c", RANK,
                           tmp_path / "data.npz",
                           tmp_path / "many.nc"], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "many.nc").read_bytes() == (tmp_path / "one.nc").read_bytes()
    for rank in range(ranks):
        assert (np.load(tmp_path / f"many.nc.{rank}.npy") == trained.recommend(m, N=3)[0]).all()


def float_bits(scores):
    return np.asarray(scores, np.float32).view(np.uint32)


def test_recommend_is_predictor(draw, programs, tmp_path):
    baskets = Baskets(draw)
    data = baskets.write(programs, tmp_path)
    trainer(programs, data, tmp_path / "model.nc", "--recipe", "sigmoid", "--epochs", 3, "--batch", 16)
    N = int(draw.integers(1, baskets.units + 5))
    seen = bool(draw.integers(0, 2))
    allowed = np.unique(draw.integers(0, baskets.units, baskets.units))
    (tmp_path / "allow.txt").write_text("".join(f"unit{u}\n" for u in allowed))
    run(programs / "predictor", "-n", tmp_path / "model.nc", "--data", data, "-k", N, "-s", tmp_path / "out.txt", "-p", ".9g", "--device",
        DEVICE,
        "--allow", tmp_path / "allow.txt", *(["--exclude-seen"] if seen else []))
    model = norn.load(tmp_path / "model.nc", device=DEVICE, batch=int(draw.integers(1, 100)))
    ids, scores = model.recommend(baskets.matrix, N=N, filter_already_liked_items=seen, items=[f"unit{u}" for u in allowed])
    assert ids.dtype == np.int32 and scores.dtype == np.float32 and ids.shape == scores.shape == (baskets.matrix.shape[0],
                                                                                                  min(N, baskets.units))
    for user, line in enumerate((tmp_path / "out.txt").read_text().splitlines()):
        pairs = [pair.rsplit(",", 1) for pair in line.split("\t")[1].split(":")[:-1]]
        assert [f"unit{u}" for u in ids[user] if u >= 0] == [label for label, _ in pairs]
        assert (ids[user, len(pairs):] == -1).all() and np.isnan(scores[user, len(pairs):]).all()
        assert (float_bits(scores[user, : len(pairs)]) == float_bits([np.float32(score) for _, score in pairs])).all()
    one = int(draw.integers(0, len(ids)))
    basket = model.recommend([f"unit{u}" for u in baskets.matrix[one].indices], N=N, filter_already_liked_items=seen, items=allowed)
    assert [label for label, _ in basket] == [f"unit{u}" for u in ids[one] if u >= 0]
    assert (float_bits([score for _, score in basket]) == float_bits(scores[one, : len(basket)])).all()


def test_transform_is_predictor_of_a_hidden_layer(draw, programs, tmp_path):
    baskets = Baskets(draw)
    data = baskets.write(programs, tmp_path)
    trainer(programs, data, tmp_path / "model.nc", "--recipe", "sigmoid", "--epochs", 1, "--batch", 16)
    run(programs / "predictor", "-n", tmp_path / "model.nc", "--data", data, "-l", "Hidden", "-s", tmp_path / "out.txt", "-p", ".9g",
        "--device", DEVICE)
    values = norn.load(tmp_path / "model.nc", device=DEVICE).transform(baskets.matrix)
    for user, line in enumerate((tmp_path / "out.txt").read_text().splitlines()):
        numbers = [np.float32(number) for number in line.split("\t")[1].split()]
        assert (float_bits(numbers) == float_bits(values[user])).all()


def test_evaluate_is_evaluator(draw, programs, source, tmp_path):
    baskets = Baskets(draw)
    data = baskets.write(programs, tmp_path)
    trainer(programs, data, tmp_path / "model.nc", "--recipe", "sigmoid", "--epochs", 3, "--batch", 16)
    said = run(programs / "evaluator", "--model", tmp_path / "model.nc", "--data", data, "--top", "3,10,500", "--keep-seen", "--format",
               "json",
               "--device", DEVICE).stdout
    model = norn.load(tmp_path / "model.nc", device=DEVICE)
    got = model.evaluate(baskets.matrix, baskets.matrix, k=[3, 10, 500], keep_seen=True)
    titles = {metric["title"]: metric["name"] for metric in json.loads((source / "python/norn/report/metrics.json").read_text())}
    compared = 0
    for at in json.loads(said)["model"]:
        for title, value in at.items():
            if title in titles:
                assert got[f"{titles[title]}@{at['K']}"] == value
                compared += 1
    assert compared == len(got) > 10
    assert "ndcg" in repr(got) and got.table()["ndcg"][10] == got["ndcg@10"]
