# SPDX-License-Identifier: Apache-2.0
"""A model's labels are a sequence as lists are, and where they are numbers integers stay the numbers of units."""
import collections.abc
import logging
import pickle
import subprocess

import numpy as np
import pytest
import scipy.sparse as sp
from tables import run_importer

import norn

FILMS = ["10", "1", "7", "0", "film"]


@pytest.fixture
def model():
    return norn.Recommender(hidden=4, epochs=1, device="cpu",
                            threads=1).fit(norn.Dataset(sp.csr_matrix(np.tri(5, dtype=np.float32)), feature_labels=FILMS))


def test_of_labels_that_are_a_checksum_alone_their_number_is_shown(programs, tmp_path):
    (tmp_path / "t.csv").write_text("user,item\n" + "".join(f"{user},{item}\n" for user in range(6) for item in FILMS))
    run_importer(programs, tmp_path / "t.csv", tmp_path / "d.nc", "--example-column", "user", "--feature-column", "item",
                 "--feature-labels", "checksum")
    subprocess.run([programs / "trainer", "--recipe", "sigmoid", "-i", tmp_path / "d.nc", "-n", tmp_path / "m.nc", "--epochs", "1",
                    "--device", "cpu", "-q"], check=True, capture_output=True)
    assert repr(norn.Recommender.load(tmp_path / "m.nc").labels) == "<5 labels, of which the checksum alone is kept>"


def test_labels_are_a_sequence_as_a_list_is(model):
    labels = model.labels
    assert isinstance(labels, collections.abc.Sequence) and labels is model.labels
    assert labels == FILMS and FILMS == labels and labels != FILMS[:4] and labels != FILMS[::-1] and not labels == "10"
    assert labels[-1] == "film" and labels[np.int32(2)] == "7" and labels[1:3] == ["1", "7"] and labels[::-2] == FILMS[::-2]
    assert list(labels) == FILMS and list(reversed(labels)) == FILMS[::-1]
    assert labels.index("7") == 2 and labels.count("7") == 1 and labels.count("no") == 0 and "film" in labels and 7 not in labels
    for at in (5, -6):
        with pytest.raises(IndexError, match="there are 5"):
            labels[at]
    for absent in ("no", 7):
        with pytest.raises(ValueError, match="is no label"):
            labels.index(absent)
    with pytest.raises(ValueError, match="is no label"):
        labels.index("7", 3)
    assert repr(labels) == "<5 labels: '10', '1', '7', '0', 'film'>"
    assert pickle.loads(pickle.dumps(labels)) == FILMS
    assert np.array(labels)[[1, 0]].tolist() == ["1", "10"]


def test_labels_make_a_series_and_another_models_labels(model):
    import pandas

    assert pandas.Series(model.labels).tolist() == FILMS and pandas.Index(model.labels).tolist() == FILMS
    assert pandas.DataFrame({"film": model.labels})["film"].tolist() == FILMS
    again = norn.Recommender(hidden=4, epochs=1, device="cpu",
                             threads=1).fit(norn.Dataset(sp.csr_matrix(np.eye(5)), feature_labels=model.labels))
    assert again.labels == model.labels


@pytest.mark.parametrize("ask", [lambda model, unit: model.recommend([unit]), lambda model, unit: model.similar_items(unit),
                                 lambda model, unit: model.recommend(["film"], filter_items=[unit])], ids=["basket", "similar", "filter"])
def test_integers_are_units_and_what_could_be_a_label_is_said(model, ask, caplog):
    caplog.set_level(logging.WARNING, logger="norn")
    for _ in range(2):
        ask(model, 1)  # the unit number 1, which is the label "1", too
        assert not caplog.records
    for _ in range(2):
        ask(model, 0)
    assert [record.getMessage().partition(": ")[2]
            for record in caplog.records] == ['0 is taken as the unit number, the unit "10"; the label is "0", as text']
    with pytest.raises(norn.UsageError, match="unit 10 is out of range, expected 0 to 4; did you mean the label '10'"):
        ask(model, 10)
    with pytest.raises(norn.UsageError, match="unit 11 is out of range, expected 0 to 4$"):
        ask(model, 11)
