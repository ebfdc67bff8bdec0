# SPDX-License-Identifier: Apache-2.0
"""Data sets of other tables than the model's: their columns are units by label, and they travel between processes."""
import pickle

import numpy as np
import pytest

import norn

FILMS = [f"film {number}" for number in range(12)]


@pytest.fixture(scope="module")
def films():
    matrix = np.random.default_rng(7).random((40, len(FILMS))) < 0.3
    matrix[:, 0] = True
    import scipy.sparse as sp

    return norn.Dataset(sp.csr_matrix(matrix.astype(np.float32)), feature_labels=FILMS, name="films")


@pytest.fixture(scope="module")
def model(films):
    return norn.Recommender(hidden=4, epochs=1, device="cpu", threads=1).fit(films)


def in_another_order(films):
    return norn.Dataset(films.matrix[:, ::-1].copy(), feature_labels=FILMS[::-1], name="films")


@pytest.mark.parametrize("ask", [
    lambda model, data: model.recommend(data, N=2),
    lambda model, data: model.transform(data),
    lambda model, data: model.evaluate(data, data, keep_seen=True),
    lambda model, data: model.partial_fit(data),
], ids=["recommend", "transform", "evaluate", "partial_fit"])
def test_columns_that_are_other_units_than_the_models_are_refused(films, model, ask):
    with pytest.raises(norn.UsageError, match="column 0 is 'film 11', but this unit of the model is 'film 0'.*features=model.labels"):
        ask(model, in_another_order(films))
    with pytest.raises(norn.UsageError, match="column 1 is 'film 5'"):  # fewer columns were taken for the first units
        ask(model, norn.Dataset(films.matrix[:, [0, 5]], feature_labels=["film 0", "film 5"]))


def test_another_table_read_with_the_models_units_is_the_same_users(films, model):
    rows, columns = films.matrix[:, ::-1].nonzero()
    order = np.lexsort((-columns, rows))
    table = {"user": [str(row) for row in rows[order]], "film": [FILMS[::-1][column] for column in columns[order]]}
    data = norn.Dataset.from_table(table, "user", "film", features=model.labels)
    ids, scores = model.recommend(data, N=3)
    expected = model.recommend(films, N=3)
    assert np.array_equal(ids, expected[0]) and np.array_equal(scores, expected[1], equal_nan=True)


def test_a_data_set_that_was_trained_on_can_be_pickled(films, model):
    assert model is not None  # the labels have been handed to the engine
    copy = pickle.loads(pickle.dumps(films))
    assert (copy.matrix != films.matrix).nnz == 0 and copy.feature_labels == FILMS
    assert np.array_equal(model.recommend(copy, N=3)[0], model.recommend(films, N=3)[0])


def test_labels_are_compared_as_lists_of_them_are(draw):
    count = int(draw.integers(1, 300))
    words, numbers = [f"unit {unit}" for unit in range(count)], [str(unit) for unit in range(count)]
    other = list(words)
    other[int(draw.integers(count))] = "another"
    lists = [words, list(words), other, numbers, words[1:], words[::-1]]
    of = [norn.Dataset(np.ones((1, len(one)), np.float32), feature_labels=one).feature_labels for one in lists]
    trained = [norn.Recommender(epochs=1, hidden=1, device="cpu", threads=1).fit(norn.Dataset(np.ones((1, len(one)), np.float32),
                                                                                              feature_labels=one)).labels
               for one in lists if one]
    for one, a in zip([*lists, *filter(None, lists)], [*of, *trained]):
        for two, b in zip([*lists, *filter(None, lists)], [*of, *trained]):
            assert (a == b) == (one == two) and (a == list(two)) == (one == two)
