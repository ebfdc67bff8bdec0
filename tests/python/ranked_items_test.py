# SPDX-License-Identifier: Apache-2.0
"""`evaluate(items=...)`: metrics among some items, against tests/golden/reference_metrics.py, and what is refused."""
import numpy as np
import pytest

import norn
from conftest import DEVICE, Baskets, held_out_parts

SETTINGS = {"epochs": 2, "batch": 20, "device": DEVICE, "threads": 1}


def forms(draw, chosen, units):
    """The same items in one of the forms that an argument may have."""
    mask = np.zeros(units, bool)
    mask[chosen] = True
    shuffled = draw.permutation(chosen)
    return [mask, shuffled, shuffled.tolist(), set(chosen.tolist()), [f"unit{unit}" for unit in shuffled]][int(draw.integers(5))]


def test_metrics_are_those_of_the_items_alone(draw, reference):
    baskets = Baskets(draw)
    known, held_out = held_out_parts(draw, baskets.matrix)
    labelled = baskets.dataset
    labelled.matrix = known
    model = norn.Recommender(**SETTINGS).fit(labelled)
    most = held_out.indices[int(draw.integers(held_out.nnz))]
    chosen = np.union1d(draw.choice(baskets.units, int(draw.integers(1, baskets.units)), replace=False), [most])
    k, keep_seen = [int(draw.integers(1, 20)), baskets.units], bool(draw.integers(2))
    found = model.evaluate(known, held_out, k=k, keep_seen=keep_seen, items=forms(draw, chosen, baskets.units), also="auc",
                           per_example=True)
    sought = [np.intersect1d(row.indices, chosen) for row in held_out]
    asked = [user for user, row in enumerate(sought) if len(row)]
    assert (found.examples, found.skipped, found.units) == (len(asked), known.shape[0] - len(asked), len(chosen))
    # What each user is recommended of the items is ranked among them, so the reference sees columns of these alone.
    ids, scores = model.recommend(known, N=baskets.units, filter_already_liked_items=False)
    all_scores = np.zeros(known.shape, np.float32)
    np.put_along_axis(all_scores, ids.astype(np.int64), scores, axis=1)
    at = {unit: column for column, unit in enumerate(chosen)}
    seen = [[] if keep_seen else [at[unit] for unit in row.indices if unit in at] for row in known]
    wanted = [[at[unit] for unit in row] for row in sought]
    for length in k:
        expected = reference.evaluate(all_scores[:, chosen], seen, wanted, length)
        titles = {"recall": "Recall", "precision": "Precision", "ndcg": "NDCG", "map": "MAP", "mrr": "MRR", "hit_rate": "HitRate",
                  "coverage": "Coverage", "capped_recall": "CappedRecall"}
        for name, title in titles.items():
            assert found[f"{name}@{length}"] == pytest.approx(expected[title], abs=1e-12), name
        areas = [reference.area_of_user(reference.ranking(all_scores[user, chosen], seen[user], length), wanted[user],
                                        set(range(len(chosen))) - set(seen[user])) for user in asked]
        np.testing.assert_allclose(found.per_example[f"auc@{length}"][asked], areas, atol=1e-12)


def test_all_items_are_as_none_named(draw, trained, baskets):
    known, held_out = held_out_parts(draw, baskets.matrix)
    every = trained.evaluate(known, held_out, items=np.arange(baskets.units), also=["auc", "diversity"], trained_on=known, per_example=True)
    plain = trained.evaluate(known, held_out, also=["auc", "diversity"], trained_on=known, per_example=True)
    assert dict(every) == dict(plain) and every.units == plain.units
    assert all(np.array_equal(every.per_example[name], plain.per_example[name], equal_nan=True) for name in plain.per_example)


def test_items_that_no_column_stands_for_are_ranked_among_them(draw):
    """Data without labels may end before the model does; items behind them are ranked where they are named."""
    baskets = Baskets(draw, units=40)
    features = {item: [f"kind {item % 3}"] for item in range(40)}
    model = norn.Recommender(**SETTINGS).fit(baskets.matrix, item_features=features)
    model.add_items(np.asarray(draw.random((3, 3)) < 0.7, np.float32) + np.eye(3, dtype=np.float32))
    items = [int(baskets.matrix.indices[0]), 40, 42]
    found = model.evaluate(baskets.matrix, baskets.matrix, k=3, keep_seen=True, items=items)
    assert found.units == 3 and found["recall@3"] == 1.0
    first = [ids[0] == items[0] for ids in model.recommend(baskets.matrix, N=1, items=items, filter_already_liked_items=False)[0]]
    asked = baskets.matrix[:, items[0]].toarray().ravel() > 0
    assert found.examples == asked.sum() and model.evaluate(baskets.matrix, baskets.matrix, k=1, keep_seen=True,
                                                            items=items)["recall@1"] == pytest.approx(np.mean(np.array(first)[asked]))


def test_the_baseline_and_comparisons_take_them(draw, trained, baskets):
    known, held_out = held_out_parts(draw, baskets.matrix)
    items = np.union1d(held_out.indices[:1], draw.choice(baskets.units, 8, replace=False))
    baseline = norn.most_popular(known)
    found = norn.compare(baseline, trained, known, held_out, k=5, items=items.tolist(), resamples=50)
    for ours, model in ((found["ndcg@5"].a, baseline), (found["ndcg@5"].b, trained)):
        assert ours == pytest.approx(model.evaluate(known, held_out, k=5, items=items)["ndcg@5"])
    assert found.a.units == found.b.units == len(items)


@pytest.mark.parametrize("items, message", [
    (["unit1", "unit 1"], "`items`: the model has no unit 'unit 1'"),
    ([3, 400], "`items`: unit 400 is out of range, expected 0 to 39"),
    (np.ones(5, bool), "`items`: a mask of the shape (5,), expected one bool for each of 40 units"),
    ([], "`items`: names no unit, so nothing is ranked; name some, or leave it out"),
    (np.zeros(40, bool), "`items`: names no unit, so nothing is ranked; name some, or leave it out"),
])
def test_what_names_no_items_is_refused(draw, items, message):
    model = norn.Recommender(**SETTINGS).fit(Baskets(draw, units=40).dataset)
    with pytest.raises(norn.UsageError) as raised:
        model.evaluate(np.eye(40, dtype=np.float32), np.eye(40, dtype=np.float32), keep_seen=True, items=items)
    assert str(raised.value) == message


def test_held_out_data_without_any_of_the_items_are_refused(draw, trained, baskets):
    known, held_out = held_out_parts(draw, baskets.matrix)
    sought = held_out.tocsc()[:, 2:].tocsr()
    sought.resize(*held_out.shape)
    absent = np.setdiff1d(np.arange(baskets.units), sought.indices)[:2]
    with pytest.raises(norn.DataError) as raised:
        trained.evaluate(known, sought, items=absent)
    assert str(raised.value) == (f'data set "data_output" holds nothing to be found: no example of it has any of the {len(absent)} units '
                                 "that are ranked; name others, or rank all")
