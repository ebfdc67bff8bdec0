# SPDX-License-Identifier: Apache-2.0
"""Searches from Python with the real trainer: the bytes of those that the program makes. tests/tuner/study_test.py kills and stops many
with quick ones."""
import json
import os
import signal
import subprocess
import sys
import time

import norn
import numpy as np
import pytest
import scipy.sparse as sp

SPACE = {"Training.Alpha": {"Range": [1e-3, 3e-2], "Scale": "log"}, "Layers.Hidden.N": {"Whole": [4, 12]},
         "Denoising.p": {"Range": [0.0, 0.7]}}
PROGRAM = """
import json, sys, time
import norn
given = json.loads(sys.argv[1])
study = norn.tune.Study(given["folder"], given["network"], given["space"], given["data"], validation=0.2, **given["settings"])
for last in [False] * 600 + [True]:
    try:
        study.run()
        break
    except norn.CommunicationError:  # the tuner of a process that was killed is about to end
        if last:
            raise
        time.sleep(0.1)
"""


@pytest.fixture(scope="module")
def search(tmp_path_factory, source):
    """Settings of a search, its data, and what the program makes of both."""
    folder = tmp_path_factory.mktemp("search")
    data = norn.Dataset.from_table(source / "tests/data/debian_packages/train.txt.gz", name="packages", min_features=5, min_examples=200)
    [file] = data.to_netcdf(folder / "packages.nc")
    settings = {"epochs": 4, "trials": 8, "start": 4, "rungs": [1], "clock": 4, "seed": 3, "confirm": 2, "seeds": 1, "known": [],
                "threads": 1}
    network = {"Recipe": "sigmoid", "Layers": [{"Name": "Hidden", "N": 8}], "Training": {"Seed": 5, "Batch": 64, "Alpha": 1e-4}}
    (folder / "net.json").write_text(json.dumps(network))
    (folder / "space.json").write_text(json.dumps({"Parameters": SPACE}))
    words = [word for name, value in settings.items()
             for word in (f"--{name}", "none" if value == [] else ",".join(map(str, value)) if name == "rungs" else str(value))]
    files = ["--study", folder / "program", "-c", folder / "net.json", "--space", folder / "space.json", "-i", file]
    subprocess.run([sys.executable, "-B", "-m", "norn", "tune", *files, *words, "--workers", "2", "--quiet", "--", "--validation-split",
                    "0.2"],
                   check=True, capture_output=True)
    return folder, data, network, settings, (folder / "program/best.nc").read_bytes()


def test_a_search_of_arrays_is_that_of_the_program(search, capfd, tmp_path):
    folder, data, _, settings, expected = search
    study = norn.tune.Study(tmp_path / "study", norn.Recommender(hidden=8, seed=5, batch=64, rate=1e-4), SPACE, data, validation=0.2,
                            workers=2, **settings)
    best = study.run()
    assert (tmp_path / "study/best.nc").read_bytes() == expected
    assert capfd.readouterr() == ("", "")
    assert [set(row) >= {"trial", "state", "epochs", "ndcg@20", "Training.Alpha"} for row in study.trials] == [True] * 8
    assert best.settings == {path: row[path] for row in study.trials if row["trial"] == best.trial for path in SPACE}
    assert best.descriptor["Training"]["Alpha"] == best.settings["Training.Alpha"] and len(best.confirmed) == 2
    one = best.comparison
    assert (best.kept, one["verdict"], one["trials"] <= 8, one["low"] > 0.0) == ("trial", "trial", True, True)
    # The plain rate is too small.
    plain = norn.load(tmp_path / "study/trials/plain/model.nc").network_.descriptor["Training"]
    assert "Alpha" not in plain or plain["Alpha"] != best.settings["Training.Alpha"]
    model = study.best_model()
    ids, scores = model.recommend(data.matrix[:3], 5)
    assert ids.shape == scores.shape == (3, 5)
    # The same data may be given again
    again = norn.tune.Study(tmp_path / "study", norn.Recommender(hidden=8, seed=5, batch=64, rate=1e-4), SPACE, data)
    assert again.run() == best
    with pytest.raises(norn.UsageError, match="`data`: is not what the study"):
        norn.tune.Study(tmp_path / "study", data=norn.Dataset(data.matrix[:-1], feature_labels=data.feature_labels, name="packages")).run()


def test_killed_and_gone_on_with_it_has_the_same_bytes(search, draw, tmp_path):
    folder, _, network, settings, expected = search
    given = {"folder": str(tmp_path / "study"), "network": network, "space": SPACE, "data": str(folder / "packages.nc"),
             "settings": settings | {"workers": 2}}
    journal, kills = tmp_path / "study/journal.jsonl", 0
    while True:
        with subprocess.Popen([sys.executable, "-B", "-c", PROGRAM, json.dumps(given)], stderr=subprocess.PIPE, text=True) as process:
            events = draw.integers(3, 25)
            while kills < 2 and process.poll() is None and (journal.read_bytes().count(b"\n") if journal.exists()
                                                            else 0) < events * (kills + 1):
                time.sleep(0.01)
            if kills < 2 and process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
            wrong = process.communicate()[1]
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, wrong
        kills += 1
    assert kills and (tmp_path / "study/best.nc").read_bytes() == expected


def test_values_weigh_entries_where_the_network_says_so(search, draw, tmp_path):
    counts = search[1].matrix[:300].copy()
    counts.data = draw.integers(1, 9, counts.nnz).astype("f4")
    settings = {"epochs": 2, "trials": 2, "start": 2, "halving": 0, "confirm": 1, "seeds": 1, "known": [], "threads": 1}
    study = norn.tune.Study(tmp_path / "study", norn.Recommender(hidden=8, seed=5, batch=64, entry_weights="linear", entry_alpha=2),
                            {"Training.Alpha": SPACE["Training.Alpha"]}, norn.Dataset(counts), validation=0.2, workers=1, **settings)
    study.run()
    found = study.best_model().network_
    assert found.descriptor["Layers"][-1]["EntryWeights"] == {"Scheme": "Linear", "Alpha": 2}
    given = norn.Dataset.from_netcdf(tmp_path / "study/given-data.nc")
    assert ((given.targets if given.targets is not None else given.matrix) != counts).nnz == 0


def test_what_is_given_in_memory_must_be_whole(search, tmp_path):
    _, data, network, _, _ = search
    with pytest.raises(norn.UsageError, match="`data`: the data are in parts"):
        split = norn.Dataset.from_table({"user": [str(n // 3) for n in range(60)], "item": [str(n % 7) for n in range(60)]}, "user", "item",
                                        split="ratio:0.8/0.2")
        norn.tune.Study(tmp_path / "study", network, SPACE, split, validation=0.2).run()
    with pytest.raises(norn.UsageError, match="`keep`: is no setting of a network"):
        norn.tune.Study(tmp_path / "study", norn.Recommender(keep=2), SPACE, data)
    with pytest.raises(norn.UsageError, match="give the network itself"):
        norn.tune.Study(tmp_path / "study", norn.Recommender(recipe=None, network=network), SPACE, data)
    with pytest.raises(norn.DataError, match="finite"):
        norn.tune.Study(tmp_path / "study", network, SPACE, sp.csr_matrix([[float("nan")]]), validation=0.2).run()
    assert not list(tmp_path.glob("study/*.nc"))


def test_features_of_items_come_from_files(draw, tmp_path):
    """As docs/user/item_features.md says."""
    items = [f"film {item}" for item in range(8)]
    films = norn.Dataset(np.tri(60, 8, dtype=np.float32), feature_labels=items, name="films")
    of_items = draw.random((8, 3)) < 0.7
    of_items[0] = True
    kinds = norn.Dataset(of_items.astype(np.float32), example_labels=items, feature_labels=["a", "b", "c"], name="kinds")
    with pytest.raises(norn.UsageError, match="`item_features`: a study takes features of items from files: give `data` as the paths of "
                                              "both, and a descriptor as `network` whose Output layer names them"):
        norn.tune.Study(tmp_path / "study", norn.Recommender(), SPACE, films, item_features=kinds)
    network = {"Recipe": "softmax", "Layers": [{"Name": "Output", "Features": "kinds_input"}]}
    if draw.integers(2):  # all by name
        network["Layers"] = [{"Name": "Input", "DataSet": "films_input"}, {"DataSet": "films_output", **network["Layers"][0]}]
    for given in (network, json.dumps(network)):
        with pytest.raises(norn.UsageError) as raised:
            norn.tune.Study(tmp_path / "study", given, SPACE, films, validation=0.1).run()
        assert str(raised.value) == ('`data`: the network takes features of items from the data set "kinds_input", which stands in a file: '
                                     "give `data` as the paths of both (docs/user/item_features.md)")
    with pytest.raises(norn.UsageError) as raised:
        norn.tune.Study(tmp_path / "study", network, SPACE, [films, kinds], validation=0.1).run()
    assert str(raised.value) == ("`data`: a list is of paths of files, such as those that Dataset.to_netcdf returns, and has a Dataset")
    files = [file for one in (films, kinds) for file in one.to_netcdf(tmp_path / f"{one.name}.nc")]
    study = norn.tune.Study(tmp_path / "study", network, {"Training.Alpha": SPACE["Training.Alpha"]}, files, validation=0.1, epochs=1,
                            trials=2, start=2, halving=0, confirm=1, seeds=1, known=[], workers=1, threads=1)
    study.run()
    model = study.best_model()
    assert model.network_.descriptor["Layers"][2]["Features"] == "kinds_input"
    model.add_items({"film 8": ["a"]})
    assert model.labels[-1] == "film 8"
