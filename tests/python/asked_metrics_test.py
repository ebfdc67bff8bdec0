# SPDX-License-Identifier: Apache-2.0
"""AUC, novelty, diversity and PSP from Python, against NumPy in float64."""
import numpy as np
import pytest
import scipy.sparse as sp

import norn
from conftest import DEVICE, Baskets, held_out_parts

SETTINGS = {"epochs": 2, "batch": 20, "device": DEVICE, "threads": 1}


def test_metrics_that_are_asked_for_are_those_of_the_reference(draw, reference):
    baskets = Baskets(draw)
    known, held_out = held_out_parts(draw, baskets.matrix)
    model = norn.Recommender(**SETTINGS).fit(known)
    k, keep_seen = [int(draw.integers(1, baskets.units)), 3 * baskets.units], bool(draw.integers(2))
    a, b = draw.uniform(0.2, 2, 2)
    found = model.evaluate(known, held_out, k=k, keep_seen=keep_seen, also=("auc", "novelty", "diversity"), trained_on=known,
                           propensity=(a, b), per_example=True)
    asked = np.flatnonzero(np.diff(held_out.indptr))
    trained_on = known.toarray().astype(np.float64)
    seen = [[] if keep_seen else known[user].indices for user in asked]
    wanted = [held_out[user].indices for user in asked]
    for length in k:
        ids = model.recommend(known, N=length, filter_already_liked_items=not keep_seen)[0]
        lists = [ids[user][ids[user] >= 0] for user in asked]
        everything = set(range(baskets.units))
        areas = [reference.area_of_user(one, want, everything - set(left_out)) for one, want, left_out in zip(lists, wanted, seen)]
        np.testing.assert_allclose(found.per_example[f"auc@{length}"][asked], areas, atol=1e-12)
        novelties = [reference.novelty_of_user(one, trained_on) for one in lists]
        np.testing.assert_allclose(found.per_example[f"novelty@{length}"][asked], novelties, atol=1e-12)
        diversities = [reference.diversity_of_user(one, trained_on) for one in lists]
        np.testing.assert_allclose(found.per_example[f"diversity@{length}"][asked], diversities, atol=1e-9)
        for name, values in (("auc", areas), ("novelty", novelties), ("diversity", diversities)):
            assert found[f"{name}@{length}"] == pytest.approx(np.mean(values), abs=1e-9)
        assert found[f"psp@{length}"] == pytest.approx(reference.psp(lists, wanted, trained_on, length, a, b), abs=1e-9)
    plain = model.evaluate(known, held_out, k=k, keep_seen=keep_seen)
    assert {name.split("@")[0] for name in set(found) - set(plain)} == {"auc", "novelty", "diversity", "psp"}
    assert all(found[name] == plain[name] for name in plain)


def test_comparisons_have_them(draw, trained, baskets):
    known, held_out = held_out_parts(draw, baskets.matrix)
    baseline = norn.most_popular(known)
    found = norn.compare(baseline, trained, known, held_out, k=5, also=["novelty", "auc"], trained_on=known, resamples=50)
    for name in ("novelty@5", "auc@5"):
        assert found[name].a == pytest.approx(baseline.evaluate(known, held_out, k=5, also=["novelty", "auc"], trained_on=known)[name])
    assert found["novelty@5"].difference >= 0  # nothing says less than what most have


def test_an_area_without_training_data_and_with_intervals(draw, trained, baskets):
    known, held_out = held_out_parts(draw, baskets.matrix)
    found = trained.evaluate(known, held_out, k=10**6, also="auc", interval=0.9)
    low, high = found.intervals["auc@1000000"]
    assert low <= found["auc@1000000"] <= high
    # With all units listed it is the area under the ROC curve of the scores, but for ties.
    ids, scores = trained.recommend(known, N=baskets.units)
    user = int(draw.choice(np.flatnonzero(np.diff(held_out.indptr))))
    score = dict(zip(ids[user][ids[user] >= 0], scores[user]))
    wanted = set(held_out[user].indices)
    pairs = [(score[one], score[other]) for one in wanted for other in set(score) - wanted]
    if pairs and len(set(score.values())) == len(score):
        area = trained.evaluate(known, held_out, k=10**6, also="auc", per_example=True).per_example["auc@1000000"][user]
        assert area == pytest.approx(np.mean([one > other for one, other in pairs]))


@pytest.mark.parametrize("arguments, message", [
    ({"also": "nothing"}, "`also` 'nothing'"), ({"also": ["auc", "novlty"]}, "`also` 'novlty'"),
    ({"also": "novelty"}, "`also`: novelty counts units in the training data: give them with `trained_on`"),
    ({"also": ["auc", "diversity"]}, "`also`: diversity counts"), ({"propensity": (0.55, 1.5)}, "`propensity`: psp counts"),
])
def test_what_cannot_be_computed_is_refused_by_name(trained, baskets, arguments, message):
    with pytest.raises(norn.UsageError, match=message):
        trained.evaluate(baskets.matrix, baskets.matrix, keep_seen=True, **arguments)


@pytest.mark.parametrize("propensity", [(0, 1), (1,), 0.5, ("a", "b"), (float("nan"), 1.0)])
def test_propensities_are_two_numbers(trained, baskets, propensity):
    with pytest.raises(norn.UsageError, match="`propensity` .*: expected two numbers above 0"):
        trained.evaluate(baskets.matrix, baskets.matrix, keep_seen=True, propensity=propensity, trained_on=baskets.matrix)


def test_training_data_are_of_the_models_units(draw):
    baskets = Baskets(draw)
    model = norn.Recommender(**SETTINGS).fit(baskets.dataset)
    wide = sp.csr_matrix(np.ones((4, baskets.units + 1), np.float32))
    for trained_on in (wide, np.ones((3, 2), np.float32), "text"):
        with pytest.raises(norn.Error):
            model.evaluate(baskets.dataset, baskets.dataset, keep_seen=True, also="novelty", trained_on=trained_on)
    with pytest.raises(norn.DataError, match="at least 3 training examples"):
        model.evaluate(baskets.dataset, baskets.dataset, keep_seen=True, propensity=(1, 1), trained_on=baskets.matrix[:2])
