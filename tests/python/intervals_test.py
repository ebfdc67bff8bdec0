# SPDX-License-Identifier: Apache-2.0
"""Metrics of single users, and what a bootstrap over them says, against NumPy."""
import csv
import subprocess

import numpy as np
import pytest
import scipy.sparse as sp

import norn
from conftest import Baskets


@pytest.fixture
def parts(draw):
    """(known, held out), some users with nothing held out, of an odd number of users."""
    matrix = Baskets(draw, users=2 * int(draw.integers(80, 170)) + 1).matrix.tocoo()
    held = draw.random(matrix.nnz) < 0.3
    held[np.isin(matrix.row, draw.choice(matrix.shape[0], 9, replace=False))] = False
    held[matrix.row == 0] = True  # and one of whom nothing else is known
    return [sp.csr_matrix((matrix.data[kept], (matrix.row[kept], matrix.col[kept])), shape=matrix.shape) for kept in (~held, held)]


def models(known, count=2):
    return [norn.Recommender(hidden=4, epochs=3 * number + 1, batch=16, device="cpu", threads=2).fit(known) for number in range(count)]


def test_means_of_users_are_the_metrics(parts, draw):
    known, held = parts
    model, k = models(known, 1)[0], sorted({int(one) for one in draw.integers(1, 30, 3)})
    plain, whole = model.evaluate(known, held, k=k), model.evaluate(known, held, k=k, per_example=True)
    assert plain.per_example is None and dict(plain) == dict(whole)
    assert {name.partition("@")[0] for name in whole} - {name.partition("@")[0] for name in whole.per_example} == {"coverage"}
    empty = np.diff(held.indptr) == 0
    assert empty.any() and whole.examples == (~empty).sum()
    for name, values in whole.per_example.items():
        assert values.dtype == np.float64 and (np.isnan(values) == empty).all()
        assert abs(values[~empty].mean() - whole[name]) < 1e-12
    ids, _ = model.recommend(known, N=k[0])
    hits = np.array([np.isin(ids[user], held[user].indices).sum() for user in range(held.shape[0])])
    with np.errstate(invalid="ignore"):
        assert np.allclose(whole.per_example[f"recall@{k[0]}"], hits / np.diff(held.indptr), atol=1e-12, equal_nan=True)


def test_they_are_those_of_evaluator(parts, programs, tmp_path):
    known, held = parts
    model = models(known, 1)[0]
    model.save(tmp_path / "m.nc")
    norn.Dataset(known, targets=held).to_netcdf(tmp_path / "d.nc")
    subprocess.run([programs / "evaluator", "-n", tmp_path / "m.nc", "-i", tmp_path / "d.nc", "-k", "7", "--per-example",
                    tmp_path / "t.tsv", "-q"],
                   check=True, capture_output=True)
    ours = model.evaluate(known, held, k=7, per_example=True).per_example
    rows = list(csv.DictReader((tmp_path / "t.tsv").open(), delimiter="\t"))
    assert len(rows) == (~np.isnan(ours["ndcg@7"])).sum() and set(rows[0]) == {"ranking", "example", "K", *(name[:-2] for name in ours)}
    for row in rows:
        assert all(abs(float(row[name[:-2]]) - values[int(row["example"])]) < 1e-6 for name, values in ours.items())


def resampled(values, draw, rounds=6000):
    return np.array([values[draw.integers(0, len(values), len(values))].mean() for _ in range(rounds)])


def test_intervals_are_those_of_a_bootstrap(parts, draw):
    known, held = parts
    one, other = [model.evaluate(known, held, k=[5, 20], per_example=True) for model in models(known)]
    level = float(draw.choice([0.8, 0.9, 0.95]))
    for name in ("ndcg@20", "recall@5", "hit_rate@5"):
        ours, theirs = (report.per_example[name][~np.isnan(report.per_example[name])] for report in (one, other))
        for found, values in ((one.interval(name, level), ours), (other.difference(one, name, level), theirs - ours)):
            spread = values.std() / np.sqrt(len(values))
            expected = np.quantile(resampled(values, draw), [(1 - level) / 2, (1 + level) / 2])
            assert np.allclose(found, expected, atol=0.25 * spread + 1e-12), (name, found, expected)
            assert found[0] <= values.mean() <= found[1]
        low, high = one.difference(other, name, level)
        assert np.allclose(other.difference(one, name, level), (-high, -low)) and one.interval(name, level) == one.interval(name, level)
        assert one.difference(one, name) == (0, 0)
        wide, narrow = one.interval(name, 0.99), one.interval(name, 0.5)
        assert wide[0] <= narrow[0] <= narrow[1] <= wide[1]


def test_intervals_hold_as_often_as_they_say(draw):
    """The mean of what is drawn, of more than there are groups, too."""
    from norn import _bootstrap

    for count, groups, times in ((60, 4096, 300), (700, 128, 300)):
        inside = 0
        for _ in range(times):
            low, high = _bootstrap.interval(draw.random(count) ** 2, 0.9, groups)
            inside += low <= 1 / 3 <= high
        assert 0.81 < inside / times < 0.97, (count, inside / times)


def test_what_there_is_no_interval_of(parts, trained):
    known, held = parts
    one, other = models(known)
    plain, whole = one.evaluate(known, held, k=5), one.evaluate(known, held, k=5, per_example=True)
    for call in (lambda: plain.interval("ndcg@5"), lambda: whole.difference(plain, "ndcg@5")):
        with pytest.raises(norn.UsageError, match=r"call evaluate\(..., per_example=True\)"):
            call()
    with pytest.raises(norn.UsageError, match='`metric` \'ndgc@5\': there is no such choice; Did you mean "ndcg@5"'):
        whole.interval("ndgc@5")
    with pytest.raises(norn.UsageError, match="`metric` 'coverage@5'"):
        whole.interval("coverage@5")
    for users in (known.shape[0] - 1, known.shape[0]):
        fewer = other.evaluate(known[:users], sp.csr_matrix(np.eye(known.shape[1], dtype=np.float32)[np.zeros(users, int)]), k=5,
                               per_example=True, keep_seen=True)
        with pytest.raises(norn.UsageError, match="`other`: is of other users"):
            whole.difference(fewer, "ndcg@5")
    for level in (0, 1, -1, 95, True, "0.9"):
        with pytest.raises(norn.UsageError, match="`level`"):
            whole.interval("ndcg@5", level)
    with pytest.raises(norn.UsageError, match="`per_example`"):
        one.evaluate(known, held, per_example=np.ones(3))
