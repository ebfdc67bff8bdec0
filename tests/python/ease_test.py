# SPDX-License-Identifier: Apache-2.0
"""norn.Ease and `--recipe ease`: the closed form of EASE, against NumPy in float64."""
import json
import logging
import re
import shutil
import subprocess

import numpy as np
import pytest
import scipy.sparse as sp

import norn
from conftest import run

PACKAGES = "tests/data/debian_packages"


def weights_of(matrix, regularization):
    """The closed form as it is written, [items x items]."""
    x = matrix.toarray().astype(np.float64)
    inverse = np.linalg.inv(x.T @ x + np.float64(np.float32(regularization)) * np.eye(x.shape[1]))
    weights = inverse / -np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    return weights


def drawn(draw, users=None, items=None, valued=None):
    """[users x items] with empty rows and columns, and entries that are there twice, which add up."""
    users, items = users or int(draw.integers(1, 120)), items or int(draw.integers(1, 201))
    count = int(draw.integers(1, 5 * users + 1))
    valued = bool(draw.integers(2)) if valued is None else valued
    values = draw.uniform(0.2, 3.0, count) if valued else np.ones(count)
    columns = np.minimum(items - 1, (items * draw.random(count) ** 2).astype(int))
    return sp.coo_matrix((values.astype(np.float32), (draw.integers(users, size=count), columns)), shape=(users, items)).tocsr()


def fitted(matrix, **settings):
    return norn.Ease(**{"device": "cpu", "threads": 2, **settings}).fit(matrix)


def parameter(model):
    return model.network_.parameters["Input -> Output"]


def test_weights_are_the_closed_form_and_their_diagonal_is_zero(draw):
    for _ in range(4):
        matrix, regularization = drawn(draw), float(np.float32(10 ** draw.uniform(-2, 3)))
        model = fitted(matrix, regularization=regularization)
        weights, wanted = parameter(model), weights_of(matrix, regularization)
        assert not np.diag(weights).any() and not model.network_.parameters["Output bias"].any()
        np.testing.assert_allclose(weights, wanted, rtol=1e-5, atol=1e-6 * max(1.0, np.abs(wanted).max()))


def test_scores_are_the_product(draw):
    matrix = drawn(draw)
    model = fitted(matrix, regularization=5)
    ids, scores = model.recommend(matrix, N=matrix.shape[1], filter_already_liked_items=False)
    wanted = matrix.toarray().astype(np.float64) @ weights_of(matrix, 5)
    np.testing.assert_allclose(scores, np.take_along_axis(wanted, ids, 1), rtol=1e-4, atol=1e-5 * max(1.0, np.abs(wanted).max()))


def test_bits_do_not_depend_on_threads(draw):
    matrix = drawn(draw, users=300, items=int(draw.integers(180, 700)))
    one = parameter(fitted(matrix, regularization=3, threads=1)).tobytes()
    for threads in (2, 7):
        assert parameter(fitted(matrix, regularization=3, threads=threads)).tobytes() == one


def test_it_is_a_model_as_any_other(draw, tmp_path):
    matrix = drawn(draw, items=40)
    labels = [f"item {i}" for i in range(40)]
    model = fitted(norn.Dataset(matrix, feature_labels=labels), regularization=2)
    model.save(tmp_path / "ease.nc")
    for loaded in (norn.load(tmp_path / "ease.nc", device="cpu"), norn.Ease.load(tmp_path / "ease.nc", device="cpu")):
        assert list(loaded.labels) == labels
        for ours, theirs in zip(model.recommend(matrix, N=5), loaded.recommend(matrix, N=5)):
            assert ours.tobytes() == theirs.tobytes()
        assert dict(loaded.evaluate((matrix, matrix), k=5)) == dict(model.evaluate((matrix, matrix), k=5))
    assert norn.Ease.load(tmp_path / "ease.nc", device="cpu").get_params()["regularization"] == 2.0
    assert parameter(norn.Recommender(recipe="ease", lambda_=2, device="cpu").fit(matrix)).tobytes() == parameter(model).tobytes()


def test_without_a_number_it_follows_from_the_data(draw):
    matrix = drawn(draw, valued=False)
    training = fitted(matrix).network_.descriptor["Training"]
    assert training["Method"] == "Ease"
    users, items = matrix.shape
    assert training["Lambda"] == pytest.approx(2.5 * max(0.1, matrix.nnz / (users * items) ** 0.5), rel=0.06)


def test_settings_are_four(draw):
    model = norn.Ease(regularization=3, device="cpu")
    assert model.get_params() == {"regularization": 3, "device": "cpu", "threads": 0, "precision": "tf32"}
    assert model.set_params(regularization=4).get_params()["regularization"] == 4
    matrix = drawn(draw)
    assert parameter(model.fit(matrix)).tobytes() == parameter(fitted(matrix, regularization=4)).tobytes()
    with pytest.raises(norn.UsageError, match="`epochs`: EASE has no such setting. There are: regularization, device, threads, precision"):
        model.set_params(epochs=3)


@pytest.mark.parametrize("wrong", [0, -1.0, float("nan"), float("inf"), "5", True])
def test_a_regularization_that_is_none_is_refused(wrong):
    with pytest.raises(norn.UsageError, match="`regularization` .*: expected a number above 0"):
        norn.Ease(regularization=wrong)


def test_what_is_no_ease_is_refused(draw, tmp_path):
    matrix = drawn(draw, users=30, items=20, valued=False)
    with pytest.raises(norn.UsageError) as told:
        norn.Ease(regularization=1, device="cpu").fit(matrix, matrix[:, :7])
    assert str(told.value) == ("EASE is for outputs that are the inputs, and there are 20 inputs and 7 outputs; give targets of the "
                               "inputs' features, or use `recipe` sigmoid")
    model = norn.Ease(regularization=1, device="cpu")
    turned = sp.vstack([matrix[:-1], sp.csr_matrix((matrix[-1:].toarray() == 0).astype(np.float32))]).tocsr()
    with pytest.raises(norn.DataError) as told:
        model.fit(matrix, turned)
    assert str(told.value) == ('data set "data_output": example 29 is not what the input has, and EASE predicts from an example what the '
                               "same example has; give the inputs as targets, too, or use `recipe` sigmoid")
    with pytest.raises(norn.UsageError) as told:
        model.fit(matrix, weights=np.full(30, 2.0))
    assert str(told.value) == ('data set "data_input": its examples have weights, and EASE counts every example once; leave the '
                               "weights out, or use `recipe` sigmoid")
    with pytest.raises(norn.UsageError, match="`early_stop` does not go with EASE, which has no epochs to choose of; leave it out"):
        norn.Recommender(recipe="ease", early_stop="ndcg@10", device="cpu").fit(matrix, validation=0.2)
    with pytest.raises(norn.UsageError, match="there is nothing to go on with; call `fit` with all data"):
        model.partial_fit(matrix)
    spoilt = matrix.copy()
    spoilt.data[0] = np.nan
    with pytest.raises(norn.DataError):
        model.fit(spoilt)
    with pytest.raises(norn.UsageError, match="`lambda_` 0 is out of range: of EASE it must be above 0"):
        norn.Recommender(recipe="ease", lambda_=0, device="cpu").fit(matrix)
    with pytest.raises(norn.UsageError, match="the network is not EASE"):
        norn.Ease.of(norn.Recommender(hidden=3, epochs=1, device="cpu").fit(matrix).network_)


def refused(command, code=2):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return " ".join(done.stderr.split())


def test_messages_of_the_trainer_say_the_next_step(draw, programs, tmp_path):
    matrix = drawn(draw, users=30, items=20, valued=False)
    norn.Dataset(matrix, name="films").to_netcdf(tmp_path / "films.nc")
    base = (programs / "trainer", "-i", tmp_path / "films.nc", "--device", "cpu")
    ease = (*base, "--recipe", "ease", "-n", tmp_path / "model.nc")
    assert "--lambda 0 is out of range: of EASE it must be above 0; leave it out, and it follows from the data" in refused(
        (*ease, "--lambda", "0"))
    assert "--keep-best does not go with EASE, which has no epochs to choose of; leave it out" in refused(
        (*ease, "--validation-split", "0.2", "--keep-best"))
    assert ("a plan is of steps, and EASE makes none: without it the run says what it takes before it computes anything") in refused(
        (*ease, "--plan"))
    run(*ease)
    model = tmp_path / "model.nc"
    assert (f"{model}: the model is EASE, whose weights are computed at once, so that there is nothing to go on with; compute it for these "
            "data by --recipe ease") in refused((*base, "-c", model, "-n", tmp_path / "more.nc"))


def test_too_many_items_are_refused_with_their_bytes_and_what_fits():
    wide = sp.csr_matrix((np.ones(1, np.float32), ([0], [3_000_000])), shape=(2, 3_000_001))
    with pytest.raises(norn.DeviceError) as told:
        norn.Ease(regularization=1, device="cpu").fit(wide)
    said = re.sub(r"[\d.]+ [KMGTPE]?i?B\b|(?<=in which )[\d,]+", "{}", str(told.value))
    assert said == ("EASE of 3,000,001 items needs {} of memory (Gram matrix in float64 {}, weights {}, entries {}), but {} are available, "
                    "in which {} items fit; leave out items that few examples have, use a larger machine, or `recipe` sigmoid")


def test_an_inverse_that_float64_does_not_have_is_refused(programs, tmp_path):
    """A million in every place: X'X is singular, and a tiny lambda is lost in its digits."""
    norn.Dataset(sp.csr_matrix(np.full((3, 300), 1e6, np.float32)), name="films").to_netcdf(tmp_path / "films.nc")
    said = refused((programs / "trainer", "--recipe", "ease", "--lambda", "1e-30", "-i", tmp_path / "films.nc", "-n", tmp_path / "model.nc",
                    "--device", "cpu"))
    assert ("--lambda 1e-30 is too small for these data: their Gram matrix has no inverse in float64; give a larger one, or leave it out, "
            "and it follows from the data") in said


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun")
def test_several_ranks_have_the_bits_of_one_process(draw, programs, tmp_path):
    norn.Dataset(drawn(draw, valued=False), name="films").to_netcdf(tmp_path / "films.nc")
    command = (programs / "trainer", "--recipe", "ease", "-i", tmp_path / "films.nc", "--device", "cpu", "-n")
    run(*command, tmp_path / "one.nc")
    for ranks in (2, 3):
        run("mpirun", "-n", str(ranks), "--allow-run-as-root", "--oversubscribe", *command, tmp_path / f"{ranks}.nc")
        assert (tmp_path / f"{ranks}.nc").read_bytes() == (tmp_path / "one.nc").read_bytes()


def test_it_is_validated_as_any_other(draw, caplog):
    """On data of their own, and on entries that are held back: these are not learned."""
    matrix, held = (drawn(draw, users=60, items=40, valued=False) for _ in range(2))
    while matrix.nnz < 40 or not (held > matrix).nnz:  # something to hold back, and something to be found
        matrix, held = (drawn(draw, users=60, items=40, valued=False) for _ in range(2))
    model = norn.Ease(regularization=2, device="cpu")
    with caplog.at_level(logging.INFO, "norn"):
        model.fit(matrix, validation=(matrix, held))
    found = model.evaluate((matrix, held), k=20)
    assert f"at 20: recall {found['recall@20']:.4f}" in caplog.text
    whole = parameter(model).tobytes()
    caplog.clear()
    part = norn.Recommender(recipe="ease", lambda_=2, validation_by="entry", validation_split=0.4, device="cpu")
    with caplog.at_level(logging.INFO, "norn"):
        part.fit(matrix)
    assert "held out, " in caplog.text and parameter(part).tobytes() != whole


def test_the_trainer_makes_the_same_bits_and_says_what_it_did(draw, programs, tmp_path):
    matrix = drawn(draw, users=50, items=30, valued=False)
    train, = norn.Dataset(matrix, name="films").to_netcdf(tmp_path / "films.nc"),
    arguments = ("-i", tmp_path / "films.nc", "--device", "cpu", "--lambda", "7")
    said = run(programs / "trainer", "--recipe", "ease", "-n", tmp_path / "model.nc", "--run-dir", tmp_path / "run", "--epochs", "3",
               *arguments)
    assert "recipe ease: lambda 7; --print-recipe shows all of it" in said.stderr
    assert "--epochs has no effect: EASE is computed at once, from the data and --lambda" in said.stderr
    assert parameter(norn.load(tmp_path / "model.nc", device="cpu")).tobytes() == parameter(fitted(matrix, regularization=7)).tobytes()
    record = json.loads((tmp_path / "run/run.json").read_text())
    assert record["network"]["Training"]["Method"] == "Ease" and record["result"]["reason"] == "completed"
    printed = run(programs / "trainer", "--recipe", "ease", "--print-recipe", *arguments).stdout
    (tmp_path / "net.json").write_text(printed)
    run(programs / "trainer", "-c", tmp_path / "net.json", "-n", tmp_path / "again.nc", *arguments[:4])
    assert (tmp_path / "again.nc").read_bytes() == run_without_epochs(programs, tmp_path, arguments)
    repeated = run(programs / "trainer", "--repeat", tmp_path / "run/run.json", "-n", tmp_path / "repeated.nc")
    assert "the model has the same bytes as that of the run that was repeated" in repeated.stderr


def run_without_epochs(programs, folder, arguments):
    run(programs / "trainer", "--recipe", "ease", "-n", folder / "plain.nc", *arguments)
    return (folder / "plain.nc").read_bytes()


def test_figures_of_packages_are_those_that_were_published(programs, source, tmp_path):
    """EASE of NumPy had 0.755 / 0.631 on the test part, with 10."""
    for name, more in (("test", ("--target", source / PACKAGES / "test.txt.gz")), ("train", ())):
        run(programs / "importer", "--input", source / PACKAGES / "train.txt.gz", *more, "--name", "packages", "--output",
            tmp_path / f"{name}.nc", "--features", tmp_path / "features.txt")
    run(programs / "trainer", "--recipe", "ease", "--lambda", "10", "-i", tmp_path / "train.nc", "-n", tmp_path / "model.nc",
        "--device", "cpu")
    said = run(programs / "evaluator", "--model", tmp_path / "model.nc", "--data", tmp_path / "test.nc", "--top", "20", "--format", "json",
               "--device", "cpu").stdout
    found = {name: float(value) for name, value in re.findall(r'"(Recall|NDCG)": ?([\d.]+)', said)}
    assert found["Recall"] == pytest.approx(0.755, abs=0.002) and found["NDCG"] == pytest.approx(0.631, abs=0.002)
