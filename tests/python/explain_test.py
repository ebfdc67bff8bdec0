# SPDX-License-Identifier: Apache-2.0
"""explain() against leaving entries out by hand: recommend() of the same matrix without an entry."""
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import norn
from conftest import DEVICE, Baskets, run

SETTINGS = {"epochs": 2, "batch": 20, "device": DEVICE, "threads": 1}


def scores_of(model, users):
    """float32 [users, units] of everything."""
    matrix = next(iter(users.values())) if isinstance(users, dict) else users
    units = model.network_.layer()["N"]
    ids, scores = model.recommend(users, N=units, filter_already_liked_items=False)
    found = np.empty((matrix.shape[0], units), np.float32)
    np.put_along_axis(found, ids.astype(np.int64), scores, 1)
    return found


def without(row, at):
    """A row of CSR without one of its entries."""
    return sp.csr_matrix((np.delete(row.data, at), np.delete(row.indices, at), [0, row.nnz - 1]), shape=row.shape)


def by_hand(model, inputs, user, item):
    """(input, unit, effect) of each entry of one user, the largest first. inputs: matrices by name."""
    rows = {name: matrix[[user]] for name, matrix in inputs.items()}
    score = scores_of(model, rows)[0, item]
    found = []
    for number, (name, row) in enumerate(rows.items()):
        for at, unit in enumerate(row.indices):
            found.append((number, int(unit), score - scores_of(model, {**rows, name: without(row, at)})[0, item]))
    return score, sorted(found, key=lambda one: (-abs(one[2]), one[0], one[1]))


def drawn_model(draw, baskets):
    if draw.random() < 0.3:
        return norn.Ease(device=DEVICE, threads=1).fit(baskets.matrix)
    if draw.random() < 0.5:
        return norn.Recommender(recipe=str(draw.choice(["sigmoid", "softmax"])), **SETTINGS).fit(baskets.matrix)
    network = {"ErrorFunction": "CrossEntropy", "Layers": [
        {"Name": "In", "Kind": "Input", "DataSet": "data_input", "N": "auto", "Normalize": str(draw.choice(["L2", "None"])),
         "InputWeighting": {"Scheme": "InverseDocumentFrequency"}},
        {"Name": "Mid", "Kind": "Hidden", "N": 12, "Activation": "Tanh"},
        {"Name": "Out", "Kind": "Output", "DataSet": "data_output", "N": "auto",
         "Activation": str(draw.choice(["Sigmoid", "SoftMax", "Linear"]))}]}
    if network["Layers"][2]["Activation"] == "Linear":
        network["ErrorFunction"] = "L2"
    return norn.Recommender.of(norn.train(network, {"data_input": baskets.matrix, "data_output": baskets.matrix}, **SETTINGS))


def test_effects_are_those_of_leaving_out_by_hand(draw):
    for _ in range(3):
        baskets = Baskets(draw, values=draw.random() < 0.5)
        model = drawn_model(draw, baskets)
        users = int(draw.integers(1, 8))
        items = draw.integers(0, baskets.units, (users, int(draw.integers(1, 4))))
        items[draw.random(items.shape) < 0.1] = -1
        n = int(draw.integers(1, 10))
        found = model.explain(baskets.matrix[:users], items, N=n)
        assert found.ids.shape == found.effects.shape == found.inputs.shape == (*items.shape, min(n, baskets.units))
        for (user, at), item in np.ndenumerate(items):
            if item < 0:
                assert np.isnan(found.scores[user, at]) and (found.ids[user, at] == -1).all()
                continue
            score, wanted = by_hand(model, {"data_input": baskets.matrix}, user, item)
            wanted = wanted[:n]
            assert found.scores[user, at] == score
            assert found.ids[user, at, :len(wanted)].tolist() == [unit for _, unit, _ in wanted]
            assert found.effects[user, at, :len(wanted)].tolist() == [effect for _, _, effect in wanted]
            assert (found.inputs[user, at, :len(wanted)] == 0).all()
            assert (found.ids[user, at, len(wanted):] == -1).all() and np.isnan(found.effects[user, at, len(wanted):]).all()


def test_several_inputs_one_of_them_dense(draw):
    baskets, about = Baskets(draw, users=80), Baskets(draw, users=80, values=True)
    ages = draw.random((80, 3)).astype(np.float32)
    network = {"ErrorFunction": "CrossEntropy", "Layers": [
        {"Name": "Had", "Kind": "Input", "DataSet": "had", "N": "auto", "Normalize": "L2"},
        {"Name": "Ages", "Kind": "Input", "DataSet": "ages", "N": "auto"},
        {"Name": "About", "Kind": "Input", "DataSet": "about", "N": "auto"},
        {"Name": "Mid", "Kind": "Hidden", "N": 9, "Activation": "Tanh", "Source": ["Had", "Ages", "About"]},
        {"Name": "Out", "Kind": "Output", "DataSet": "wanted", "N": "auto", "Activation": "Sigmoid"}]}
    data = {"had": baskets.matrix, "ages": ages, "about": about.matrix, "wanted": baskets.matrix}
    model = norn.Recommender.of(norn.train(network, data, **SETTINGS))
    known = {name: data[name] for name in ("had", "ages", "about")}
    item, user = int(draw.integers(baskets.units)), int(draw.integers(80))
    found = model.explain(known, item, N=1000)
    assert found.ids.shape == (80, baskets.units + 3 + about.units)
    rows = {name: matrix[[user]] for name, matrix in known.items()}
    score = scores_of(model, rows)[0, item]
    entries = int((found.ids[user] >= 0).sum())
    assert entries == rows["had"].nnz + rows["about"].nnz and set(found.inputs[user, :entries]) <= {0, 2}
    for unit, effect, number in zip(found.ids[user, :entries], found.effects[user, :entries], found.inputs[user, :entries]):
        name = ("had", "ages", "about")[number]
        row = rows[name]
        assert effect == score - scores_of(model, {**rows, name: without(row, int(np.flatnonzero(row.indices == unit)[0]))})[0, item]


def test_one_basket_goes_by_labels(draw):
    baskets = Baskets(draw)
    model = norn.Recommender(**SETTINGS).fit(baskets.dataset)
    row = baskets.matrix[int(draw.integers(baskets.matrix.shape[0]))]
    names = [f"unit{u}" for u in row.indices]
    item, other = (f"unit{u}" for u in draw.integers(0, baskets.units, 2))
    found = model.explain(row, item, N=100)
    listed = model.explain(names, item, N=100)
    assert [name for name, _ in listed] == [f"unit{u}" for u in found.ids[0] if u >= 0]
    assert [effect for _, effect in listed] == found.effects[0, :len(names)].tolist()
    assert model.explain(names, [item, other], N=2) == [model.explain(names, one, N=2) for one in (item, other)]
    assert model.explain(row.indices, int(item[4:]), N=100) == listed
    assert model.explain([], item) == [] and model.explain(names, []) == []
    assert {name for name, _ in model.explain(names, names[0], N=100)} == set(names)  # an item that is in the basket


def test_an_entry_of_its_own_brings_nothing_to_an_item_of_ease(baskets, draw):
    model = norn.Ease(device="cpu").fit(baskets.matrix)
    user = int(draw.integers(baskets.matrix.shape[0]))
    own = int(draw.choice(baskets.matrix[user].indices))
    effects = dict(zip(*(array[0].tolist() for array in model.explain(baskets.matrix[user], own, N=100)[:2])))
    assert effects[own] == 0


def test_lists_of_recommend_are_explained_in_their_shape(trained, baskets):
    users = baskets.matrix[:5]
    ids, scores = trained.recommend(users, N=baskets.units)
    found = trained.explain(users, ids, N=2)
    assert found.ids.shape == (5, baskets.units, 2)
    assert (np.isnan(found.scores) == (ids < 0)).all() and (found.scores[ids >= 0] == scores[ids >= 0]).all()
    each = trained.explain(users, ids[:, 0], N=2)
    one = trained.explain(users, int(ids[0, 0]), N=2)
    assert (each.ids == found.ids[:, 0]).all() and (one.ids[0] == found.ids[0, 0]).all() and each.scores.shape == one.scores.shape == (5,)
    assert trained.explain(users[:0], ids[0, 0]).ids.shape == (0, 5)
    assert trained.explain(users, np.full((5, 0), -1)).ids.shape == (5, 0, 5)


@pytest.mark.parametrize("arguments, message", [
    ((0, 0), "`N` 0"), ((0, -3), "`N` -3"), (("unit9", 5), "`item`: 'unit9': the model has no labels"),
    ((10**6, 5), "`item`: unit 1000000 is"),
    ((-1, 5), "`item`: unit -1"), (([0, 1], 5), r"`item`: has the shape \(2,\)"), (([[0], [1, 2], [3]], 5), "`item`: expected units"),
    ((np.zeros((4, 2), int), 5), r"`item`: has the shape \(4, 2\)"), ((np.full((3, 2), -2), 5), "`item`: unit -2"),
    ((np.zeros((3, 1)), 5), "`item`: expected units"), ((None, 5), "`item`"), ((np.zeros((3, 2, 2), int), 5), "`item`: has the shape"),
])
def test_what_cannot_be_asked_is_refused_by_name(trained, baskets, arguments, message):
    with pytest.raises(norn.UsageError, match=message):
        trained.explain(baskets.matrix[:3], *arguments)


def test_labels_that_are_not_known_are_refused_by_name(draw):
    baskets = Baskets(draw)
    model = norn.Recommender(**SETTINGS).fit(baskets.dataset)
    for call in (lambda: model.explain(["unit0"], "nothing"), lambda: model.explain(["unit0"], ["unit1", "nothing"]),
                 lambda: model.explain(["nothing"], "unit0"), lambda: model.explain(baskets.matrix[:2], [["unit1"], ["nothing"]])):
        with pytest.raises(norn.UsageError, match="the model has no unit 'nothing'"):
            call()
    with pytest.raises(norn.UsageError, match="is not trained"):
        norn.Recommender().explain([0], 0)
    with pytest.raises(norn.UsageError, match="`layer` 'Hidden'"):
        model.explain(["unit0"], "unit1", layer="Hidden")


def test_dense_inputs_have_no_entries(draw):
    x = draw.random((30, 6)).astype(np.float32)
    network = {"ErrorFunction": "L2", "Layers": [
        {"Name": "In", "Kind": "Input", "DataSet": "x", "N": "auto"},
        {"Name": "Mid", "Kind": "Hidden", "N": 4, "Activation": "Tanh"},
        {"Name": "Out", "Kind": "Output", "DataSet": "y", "N": "auto", "Activation": "Linear"}]}
    model = norn.Recommender.of(norn.train(network, {"x": x, "y": x}, **SETTINGS))
    with pytest.raises(norn.UsageError, match=r'the model\'s inputs are dense \("In"\)'):
        model.explain({"x": x}, 0)


def test_threads_and_batches_give_the_same_bits_as_the_program(draw, programs, tmp_path):
    baskets = Baskets(draw)
    baskets.write(programs, tmp_path)
    norn.Recommender(**SETTINGS).fit(baskets.dataset).save(tmp_path / "model.nc")
    found = []
    for threads, batch in ((1, 1024), (3, int(draw.integers(1, 50)))):
        model = norn.load(tmp_path / "model.nc", device=DEVICE, threads=threads, batch=batch)
        ids, _ = model.recommend(baskets.dataset, N=3)
        found.append(model.explain(baskets.dataset, ids, N=4))
    for one, other in zip(*found):
        np.testing.assert_array_equal(one, other)
    run(programs / "predictor", "-n", tmp_path / "model.nc", "--data", tmp_path / "films.nc", "-s", tmp_path / "recs.tsv",
        "--format", "tsv", "-k", 3, "--explanations", 4, "--exclude-seen", "--device", DEVICE, "-q")
    lines = [line.split("\t") for line in (tmp_path / "recs.tsv").read_text().splitlines()]
    assert len(lines) == int((ids >= 0).sum())
    for line, entries, effects in zip(lines, found[0].ids[ids >= 0], found[0].effects[ids >= 0]):
        assert line[4::2] == [f"unit{u}" for u in entries if u >= 0]
        assert np.array_equal(np.float32(line[5::2]), effects[entries >= 0])


def test_ctrl_c_ends_it(trained, baskets, tmp_path):
    trained.save(tmp_path / "model.nc")
    script = ("import os, signal, threading, numpy as np, norn, scipy.sparse as sp\n"
              f"model = norn.load({str(tmp_path / 'model.nc')!r}, device='cpu', threads=1)\n"
              f"x = sp.csr_matrix(np.ones((20000, {baskets.units}), np.float32))\n"
              "threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
              "try:\n"
              "    while True: model.explain(x, 0)\n"
              "except KeyboardInterrupt:\n"
              "    print('stopped')\n")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240)
    assert done.stdout == "stopped\n", done.stderr
