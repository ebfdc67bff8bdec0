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
    ({"recipe": "softmax"}, "`recipe` is softmax, the checkpoint has sigmoid"),
    ({"rate": 0.5}, "`rate` is 0.5, the checkpoint has "),
    ({"lambda_": 0.25}, "`lambda_` is 0.25, the checkpoint has 0"),
    ({"seed": 99}, "`seed` is 99, the checkpoint has 12134"),
    ({"batch": 30}, "`batch` is 30, the checkpoint has 20"),
], ids=lambda value: "-".join(value) if isinstance(value, dict) else "")
def test_other_settings_than_the_checkpoints_are_refused(baskets, half, changed, words):
    before = {path: path.read_bytes() for path in half.parent.iterdir()}
    with pytest.raises(norn.UsageError) as raised:
        again(half, baskets.matrix, **changed)
    assert words in str(raised.value)
    assert ("; give those that it had, or another `model`, or start anew with `force`, which replaces the model and its checkpoints"
            in str(raised.value))
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
    layers = [{"Name": "Input", "Kind": "Input", "DataSet": "known", "N": "auto"},
              {"Name": "Hidden", "Kind": "Hidden", "N": 4, "Activation": "Tanh"},
              {"Name": "Output", "Kind": "Output", "DataSet": "known", "N": "auto", "Activation": "Sigmoid"}]
    file = norn.checkpoints(tmp_path / "model.nc", epochs=1)
    for units in (4, 4, 6):
        layers[1]["N"] = units
        if units == 6:
            with pytest.raises(norn.UsageError, match="`network` Layers.Hidden.N is 6, the checkpoint has 4"):
                norn.train({"Layers": layers}, {"known": baskets.matrix}, epochs=1, batch=16, device="cpu", threads=1, callbacks=file)
        else:
            norn.train({"Layers": layers}, {"known": baskets.matrix}, epochs=1, batch=16, device="cpu", threads=1, callbacks=file)


def test_a_run_that_was_made_longer_may_be_made_longer_again(baskets, half):
    """The warm-up that a recipe makes of the epochs is that of the first ones."""
    for epochs in (5, 5, 7, 7):
        again(half, baskets.matrix, epochs=epochs)


def test_a_batch_that_the_data_have_lowered_is_no_other(draw, baskets, tmp_path):
    network = {"Layers": [{"N": "auto", "DataSet": "auto", "Sparse": True}, {"N": 4}, {"N": "auto", "DataSet": "auto"}]}
    split = float(draw.choice([0.0, 0.2]))
    for epochs in (1, 2, 2):
        model = norn.Recommender(network=network, epochs=epochs, device="cpu", threads=1, validation_split=split)
        model.fit(baskets.matrix, callbacks=norn.checkpoints(tmp_path / "model.nc"))
    assert norn.load(tmp_path / "model.nc").network_.descriptor["Training"]["Batch"] < 1024


def test_more_epochs_of_other_data_with_checkpoints_are_what_partial_fit_is_for(baskets, half):
    model = again(half, baskets.matrix)
    model.partial_fit(baskets.matrix[::-1], callbacks=norn.checkpoints(half.parent / "more.nc"))
    assert model.network_.model.epochs() == 5


def test_the_network_of_a_model_is_compared_without_its_file(baskets, half, tmp_path):
    first = again(half, baskets.matrix)
    sets = {name: baskets.matrix for name in ("data_input", "data_output")}
    for rate in (None, None, 0.5):
        run = {"epochs": 6, "rate": rate, "device": "cpu", "threads": 1, "callbacks": norn.checkpoints(tmp_path / "next.nc")}
        if rate is None:
            norn.train(first.network_, sets, **run)
        else:
            with pytest.raises(norn.UsageError, match="other settings: `rate` is 0.5, the checkpoint has [0-9.e-]+; give those"):
                norn.train(first.network_, sets, **run)


def test_what_a_descriptor_says_without_effect_is_warned_of(baskets, tmp_path, caplog):
    network = {"Recipe": "sigmoid", "Training": {"Epochs": 2, "Batch": 20}, "Layers": [{"Name": "Hidden", "N": 4}]}
    for epochs, said in ((2, False), (2, False), (3, True)):
        network["Training"]["Epochs"] = epochs
        caplog.clear()
        norn.Recommender(network=network, device="cpu", threads=1).fit(baskets.matrix, callbacks=norn.checkpoints(tmp_path / "model.nc"))
        assert ("Training.Epochs is 3, the checkpoint has 2; `epochs` changes it" in caplog.text) == said
