# SPDX-License-Identifier: Apache-2.0
"""A run that is started again goes on from its checkpoints, and never gives the network of another one."""
import pytest

import norn

SAME = {"epochs": 4, "batch": 20, "device": "cpu", "threads": 1, "hidden": 8}


def stop(env):
    if env.kind == "epoch" and env.epoch == 2:
        raise norn.StopTraining


@pytest.fixture
def half(baskets, tmp_path):
    """A run that stopped after two of four epochs."""
    norn.Recommender(**SAME).fit(baskets.matrix, callbacks=[stop, norn.checkpoints(tmp_path / "model.nc", epochs=1)])
    return tmp_path / "model.nc"


def again(file, data, **changed):
    return norn.Recommender(**SAME | changed).fit(data, callbacks=norn.checkpoints(file, epochs=1))


@pytest.mark.parametrize("changed, words", [
    ({"hidden": 16}, "`hidden` is 16, the checkpoint has 8"),
    ({"recipe": "softmax"}, "`recipe` is 'softmax recipe', the checkpoint has 'sigmoid recipe'"),
    ({"rate": 0.5}, "`rate` is 0.5, the checkpoint has "),
    ({"lambda_": 0.25}, "`lambda` is 0.25, the checkpoint has 0"),
    ({"seed": 99}, "`seed` cannot change"),
    ({"batch": 30}, "`batch` is 30, the checkpoint has 20"),
], ids=lambda value: "-".join(value) if isinstance(value, dict) else "")
def test_other_settings_than_the_checkpoints_are_refused(baskets, half, changed, words):
    before = {path: path.read_bytes() for path in half.parent.iterdir()}
    with pytest.raises(norn.UsageError) as raised:
        again(half, baskets.matrix, **changed)
    assert words in str(raised.value)
    assert "cannot change" in words or ("another file" in str(raised.value) and "force=True" in str(raised.value))
    assert before == {path: path.read_bytes() for path in half.parent.iterdir()}


def test_other_data_are_refused_whether_the_run_is_done_or_not(baskets, half):
    for _ in range(2):
        with pytest.raises(norn.UsageError, match="is not the one that .* was trained on: it has .*; give the data that it was trained on, "
                           "or start anew with `force`, which replaces the model and its checkpoints"):
            again(half, baskets.matrix[::-1])
        again(half, baskets.matrix)


def test_force_starts_anew(baskets, half):
    made = again(half, baskets.matrix, force=True, hidden=16)
    assert made.transform(baskets.matrix).shape[1] == 16 and [row["epoch"] for row in made.history] == [1, 2, 3, 4]
    assert norn.load(half).transform(baskets.matrix).shape[1] == 16


def test_the_same_run_goes_on_and_may_become_longer(baskets, half, tmp_path):
    again(half, baskets.matrix)
    norn.Recommender(**SAME).fit(baskets.matrix).save(tmp_path / "whole.nc")
    assert half.read_bytes() == (tmp_path / "whole.nc").read_bytes()
    assert [row["epoch"] for row in again(half, baskets.matrix, epochs=5).history] == [5]


def test_norn_train_refuses_another_network(baskets, tmp_path):
    layers = [{"Name": "Input", "Kind": "Input", "DataSet": "known", "N": "auto"}, {"Name": "Hidden", "Kind": "Hidden", "N": 4, "Activation": "Tanh"},
              {"Name": "Output", "Kind": "Output", "DataSet": "known", "N": "auto", "Activation": "Sigmoid"}]
    file = norn.checkpoints(tmp_path / "model.nc", epochs=1)
    for units in (4, 4, 6):
        layers[1]["N"] = units
        if units == 6:
            with pytest.raises(norn.UsageError, match="`network` Layers.Hidden.N is 6, the checkpoint has 4"):
                norn.train({"Layers": layers}, {"known": baskets.matrix}, epochs=1, batch=16, device="cpu", threads=1, callbacks=file)
        else:
            norn.train({"Layers": layers}, {"known": baskets.matrix}, epochs=1, batch=16, device="cpu", threads=1, callbacks=file)
