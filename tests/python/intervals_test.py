# SPDX-License-Identifier: Apache-2.0
"""Metrics of single users, what a bootstrap over them says, and comparisons of models, against NumPy."""
import csv
import json
import subprocess

import numpy as np
import pytest
import scipy.sparse as sp

import norn
from norn import _core
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
            step = 1 / len(values)  # means of hit_rate are multiples of it, of which quantiles are one or the next
            assert np.allclose(found, expected, atol=0.25 * spread + step + 1e-12), (name, found, expected)
            assert found[0] <= values.mean() <= found[1]
        low, high = one.difference(other, name, level)
        assert np.allclose(other.difference(one, name, level), (-high, -low)) and one.interval(name, level) == one.interval(name, level)
        assert one.difference(one, name) == (0, 0)
        wide, narrow = one.interval(name, 0.99), one.interval(name, 0.5)
        assert wide[0] <= narrow[0] <= narrow[1] <= wide[1]


def words_of(seed, member, rounds, count):
    """[rounds, count] words of the engine's Philox 4x32-10 (Salmon et al., SC 2011), written down once more."""
    def mix(z):
        z = (z + 0x9E3779B97F4A7C15) % 2**64
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)

    mixed = mix(seed ^ mix(8 << 32 | member))
    k0, k1, low = np.uint64(mixed % 2**32), np.uint64(mixed >> 32), np.uint64(2**32 - 1)
    blocks, half = -(-count // 4), np.uint64(32)
    c0, c2 = (grid.astype(np.uint64) for grid in np.meshgrid(np.arange(blocks), np.arange(rounds)))
    c1 = c3 = np.zeros_like(c0)
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (p1 >> half) ^ c1 ^ k0, p1 & low, (p0 >> half) ^ c3 ^ k1, p0 & low
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & low, (k1 + np.uint64(0xBB67AE85)) & low
    return np.stack([c0, c1, c2, c3], axis=-1).reshape(rounds, -1)[:, :count]


def test_numbers_are_those_of_numpy_with_the_same_draws(draw):
    count, rounds, seed, level = int(draw.integers(2, 200)), int(draw.integers(1, 300)), int(draw.integers(2**63)), 0.9
    a, b = (np.round(draw.random(count), 1) * (draw.random(count) < 0.5) for _ in range(2))
    drawn = (words_of(seed, 0, rounds, count) * np.uint64(count) >> np.uint64(32)).astype(int)
    for (low, high), values in zip(_core.mean_intervals([a, b], level, rounds, seed), (a, b)):
        assert np.allclose((low, high), np.quantile(values[drawn].mean(axis=1), [0.05, 0.95]), atol=1e-12)
    words = words_of(seed, 1, rounds, 4 * -(-count // 128))
    bits = (words[:, :, None] >> np.arange(32, dtype=np.uint64) & np.uint64(1)).reshape(rounds, -1)[:, :count]
    turned = np.abs(((1 - 2.0 * bits) * (b - a)).sum(axis=1))
    p = (1 + (turned >= abs((b - a).sum()) - 1e-9).sum()) / (rounds + 1)
    found, = _core.paired_differences([a], [b], level, rounds, seed)
    assert np.allclose(found[:2], (a.mean(), b.mean()), atol=1e-12) and abs(found[4] - p) < 1e-12
    assert np.allclose(found[2:4], np.quantile((b - a)[drawn].mean(axis=1), [0.05, 0.95]), atol=1e-12)


def test_evaluate_has_the_intervals_of_all_metrics(parts, draw):
    known, held = parts
    model, level, resamples, seed = models(known, 1)[0], 0.8, int(draw.integers(50, 400)), int(draw.integers(2**40))
    whole = model.evaluate(known, held, k=[3, 9], interval=level, resamples=resamples, seed=seed)
    assert model.evaluate(known, held, k=3).intervals is None and set(whole.intervals) == set(whole.per_example)
    for name, (low, high) in whole.intervals.items():
        assert low <= high and whole.interval(name, level, resamples=resamples, seed=seed) == (low, high)
    again = model.evaluate(known, held, k=[3, 9], interval=level, resamples=resamples, seed=seed)
    assert again.intervals == whole.intervals and dict(again) == dict(whole)
    assert model.evaluate(known, held, k=[3, 9], interval=level, resamples=resamples, seed=seed + 1).intervals != whole.intervals
    lines = repr(whole).splitlines()
    assert lines[-1] == f"from, to: 80 % intervals, {resamples:,} resamples of the examples, seed {seed}"
    at = next(i for i, line in enumerate(lines) if line.startswith("ndcg"))
    low, high = whole.intervals["ndcg@9"]
    assert [lines[at + i].split()[0] for i in (1, 2)] == ["from", "to"] and lines[at + 1].endswith(f"{low:10.4f}")
    assert not next(line for line in lines[lines.index(next(x for x in lines if x.startswith("coverage"))) + 1:]).startswith("  from")
    assert f"<td>{high:.4f}</td>" in whole._repr_html_()


def test_compare(parts, draw):
    known, held = parts
    one, other = models(known)
    k, seed = [4, 11], int(draw.integers(2**40))
    found = norn.compare(one, other, known, held, k=k, resamples=500, seed=seed)
    a, b = (model.evaluate(known, held, k=k, per_example=True) for model in (one, other))
    assert list(found) == list(a.per_example) and dict(found.a) == dict(a) and dict(found.b) == dict(b)
    for name, of in found.items():
        assert (of.a, of.b, of.difference) == (a[name], b[name], b[name] - a[name])
        assert (of.low, of.high) == b.difference(a, name, resamples=500, seed=seed) and 1 / 501 <= of.p <= 1
        assert of.better == found.better(name) == ("no difference" if of.p > 1 - 0.95 else "b" if of.b > of.a else "a")
    turned = norn.compare(other, one, (known, held), k=iter(k), resamples=500, seed=seed)
    swapped = {"a": "b", "b": "a", "no difference": "no difference"}
    for name, of in turned.items():
        assert of.p == found[name].p and of.better == swapped[found.better(name)]
        assert np.allclose((of.low, of.high), (-found[name].high, -found[name].low), atol=1e-12)
    lines = repr(found).splitlines()
    assert len(lines) == len(found) + 2 and lines[-1].endswith(f"500 resamples, seed {seed}")
    assert lines[1].split()[0] == "recall@4" and lines[1].endswith(found.better("recall@4"))
    assert found.to_pandas().loc["ndcg@4", "p"] == found["ndcg@4"].p


def test_a_model_is_no_better_than_itself(parts):
    known, held = parts
    model = models(known, 1)[0]
    found = norn.compare(model, model, known, held, k=5, resamples=100)
    assert {(of.difference, of.low, of.high, of.p, of.better) for of in found.values()} == {(0, 0, 0, 1, "no difference")}


def test_a_planted_difference_is_found(draw):
    """Users of a unit each, which one model ranks first and the other one last."""
    users, units = int(draw.integers(40, 90)), 7
    held = sp.csr_matrix((np.ones(users, np.float32), (np.arange(users), np.zeros(users, int))), shape=(users, units))
    known = sp.csr_matrix((users, units), dtype=np.float32)
    popular = np.zeros((9, units), np.float32)
    popular[:, 0] = popular[0, :] = 1
    rare = np.ones((9, units), np.float32)
    rare[1:, 0] = 0
    found = norn.compare(*(norn.most_popular(sp.csr_matrix(counts)) for counts in (rare, popular)), known, held, k=1, keep_seen=True)
    assert found.better("recall@1") == "b" and found["recall@1"].p < 0.001 and found["recall@1"].low == 1


def test_one_user_says_nothing(trained, baskets):
    user = baskets.matrix[:1]
    whole = trained.evaluate(user, user, k=5, keep_seen=True, interval=0.9)
    assert all(np.isnan(ends).all() for ends in whole.intervals.values())
    found = norn.compare(trained, trained, user, user, k=5, keep_seen=True)
    assert {of.p for of in found.values()} == {1} and "-  " in repr(found)


def test_evaluator_prints_the_same(parts, programs, tmp_path, draw):
    known, held = parts
    pair, seed = models(known), int(draw.integers(2**40))
    norn.Dataset(known, targets=held).to_netcdf(tmp_path / "d.nc")
    for name, model in zip("ab", pair):
        model.save(tmp_path / f"{name}.nc")
    done = subprocess.run([programs / "evaluator", "-n", tmp_path / "a.nc", "-i", tmp_path / "d.nc", "-k", "4,9", "--compare",
                           tmp_path / "b.nc", "--interval", "0.9", "--resamples", "300", "--seed", str(seed), "--format", "json", "-q",
                           "--threads", "2", "--device", "cpu"], check=True, capture_output=True, text=True)
    told = json.loads(done.stdout)
    found = norn.compare(*(norn.load(tmp_path / f"{name}.nc", device="cpu", threads=2) for name in "ab"), known, held, k=[4, 9], level=0.9,
                         resamples=300, seed=seed)
    whole = norn.load(tmp_path / "a.nc", device="cpu").evaluate(known, held, k=[4, 9], interval=0.9, resamples=300, seed=seed)
    titles = {"hit_rate": "HitRate", "capped_recall": "CappedRecall", "ndcg": "NDCG", "map": "MAP", "mrr": "MRR"}
    assert told["resampling"] == {"level": 0.9, "resamples": 300, "seed": seed}
    for name, of in found.items():
        metric, k = name.split("@")
        title = titles.get(metric, metric.capitalize())
        at = [4, 9].index(int(k))
        one = told["differences"][at][title]
        assert one == {"model": of.a, "other": of.b, "difference": of.difference, "low": of.low, "high": of.high, "p": of.p,
                       "better": {"a": "model", "b": "other"}.get(of.better, of.better)}
        assert told["model"][at]["intervals"][title] == list(whole.intervals[name]) and told["other"][at][title] == of.b


def test_compare_refuses(parts, trained):
    known, held = parts
    model = models(known, 1)[0]
    for name, given in (("a", (None, model)), ("b", (model, "b.nc"))):
        with pytest.raises(norn.UsageError, match=f"`{name}`: expected a Recommender, not "):
            norn.compare(*given, known, held)
    for given, message in (({"level": 1}, "`level` 1: expected a number between 0 and 1"), ({"resamples": 0}, "`resamples` 0 is out of"),
                           ({"resamples": 10**6}, "`resamples` 1000000 is out of range"), ({"seed": -1}, "`seed` -1 is out of range")):
        with pytest.raises(norn.UsageError, match=message):
            norn.compare(model, model, known, held, k=5, **given)
    with pytest.raises(norn.UsageError, match="`interval` 95: expected a number between 0 and 1"):
        model.evaluate(known, held, interval=95)
    with pytest.raises(norn.UsageError, match="`metric` 'coverage@5': there is no such choice"):
        norn.compare(model, model, known, held, k=5).better("coverage@5")
    whole = [model.evaluate(known, held, k=k, per_example=True) for k in (5, 6)]
    with pytest.raises(norn.UsageError, match="`b`: has other metrics than `a`; evaluate both with the same `k`"):
        norn.Comparison(*whole)
    with pytest.raises(norn.UsageError, match=r"call evaluate\(..., per_example=True\)"):
        norn.Comparison(whole[0], model.evaluate(known, held, k=5))
    fewer = model.evaluate(known[:9], held[:9], k=5, per_example=True)
    with pytest.raises(norn.UsageError, match="the two are of other examples; evaluate both on the same ones"):
        norn.Comparison(whole[0], fewer)
    with pytest.raises(norn.UsageError, match="the metrics are of other examples; evaluate all on the same ones"):
        _core.mean_intervals([np.ones(3), np.ones(2)], 0.9, 10, 1)


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


def test_models_of_other_units_are_not_compared(draw):
    one, other = int(draw.integers(5, 9)), int(draw.integers(9, 15))
    def model(units):
        return norn.Recommender(epochs=1, hidden=2, seed=1).fit(np.tri(20, units, dtype=np.float32))
    with pytest.raises(norn.UsageError, match=f"`b`: ranks {other} units, and `a` {one}; compare models of the same units, as both "
                                              "have after `add_items` of the same items"):
        norn.compare(model(one), model(other), np.tri(20, one, dtype=np.float32), np.tri(20, one, dtype=np.float32))
