# SPDX-License-Identifier: Apache-2.0
"""norn.Dataset of SciPy's matrices: nothing is copied that need not be, and what is wrong is named."""
import numpy as np
import pytest
import scipy.sparse as sp
from tables import checksum

import norn


def random_csr(draw, rows=40, width=60, entries=300, values=True):
    cells = np.sort(draw.choice(rows * width, entries, replace=False))
    data = draw.normal(size=entries).astype(np.float32) if values else np.ones(entries, dtype=np.float32)
    begin = np.searchsorted(cells, np.arange(rows + 1) * width).astype(np.int32)
    return sp.csr_matrix((data, (cells % width).astype(np.int32), begin), shape=(rows, width))


def address(array):
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array])
def test_a_matrix_of_the_right_types_is_shared(draw, kind):
    matrix = kind(random_csr(draw))
    data = norn.Dataset(matrix)
    for name in ("data", "indices", "indptr"):
        assert address(getattr(data.matrix, name)) == address(getattr(matrix, name)), name
    assert data.matrix.data.dtype == np.float32 and data.matrix.indices.dtype == np.int32
    assert data.shape == matrix.shape and len(data) == 40 and data.entries == 300 and not data.indicator


@pytest.mark.parametrize("change", [
    lambda m: m.astype(np.float64), lambda m: sp.csr_matrix((m.data, m.indices.astype(np.int64), m.indptr.astype(np.int64)), shape=m.shape),
    lambda m: m.tocsc(), lambda m: m.tocoo(), lambda m: m.tolil(), lambda m: m.toarray(), lambda m: m[::-1][::-1],
])
def test_other_matrices_become_the_same(draw, change):
    matrix = random_csr(draw)
    made = norn.Dataset(change(matrix)).matrix
    assert (made != matrix).nnz == 0 and made.data.dtype == np.float32 and made.indices.dtype == np.int32 and made.has_sorted_indices


def test_columns_in_any_order_are_put_in_order_in_a_copy(draw):
    matrix = random_csr(draw)
    mixed = matrix.copy()
    for row in range(matrix.shape[0]):
        inside = slice(*matrix.indptr[row:row + 2])
        order = draw.permutation(inside.stop - inside.start)
        mixed.indices[inside], mixed.data[inside] = matrix.indices[inside][order], matrix.data[inside][order]
    mixed.has_sorted_indices = True  # a claim that is not checked by SciPy
    before = mixed.indices.copy()
    made = norn.Dataset(mixed).matrix
    assert np.array_equal(made.indices, matrix.indices) and np.array_equal(made.data, matrix.data)
    assert np.array_equal(mixed.indices, before)


def broken(change):
    matrix = sp.csr_matrix((np.array([1, 2, 3], np.float32), np.array([0, 2, 1], np.int32), np.array([0, 2, 3], np.int32)), shape=(2, 4))
    change(matrix)
    return matrix


def put(name, place, value):
    return lambda matrix: getattr(matrix, name).__setitem__(place, value)


@pytest.mark.parametrize("change, message", [
    (put("data", 1, np.nan), r"`matrix`: row 0 \(from 0\): the value of column 2 is nan, expected a finite 32-bit number"),
    (put("data", 2, -np.inf), r"row 1 \(from 0\): the value of column 1 is -inf"),
    (lambda m: setattr(m, "data", np.array([1e300, 1, 1])),
     r"row 0 \(from 0\): the value of column 0 is 1e\+300, which does not fit float32"),
])
def test_what_is_wrong_with_a_matrix_is_named(change, message):
    with pytest.raises(norn.DataError, match=message):
        norn.Dataset(broken(change))


@pytest.mark.parametrize("given, message", [
    ([[1, 2]], "`matrix` is of type list, expected a scipy.sparse matrix"), (np.ones(3), "NumPy array of two dimensions"),
    (None, "of type NoneType"),
])
def test_what_is_no_matrix_is_refused(given, message):
    with pytest.raises(norn.UsageError, match=message):
        norn.Dataset(given)


@pytest.mark.parametrize("arguments, message", [
    (dict(feature_labels=["a"]), "`feature_labels`: 1 labels for 4 columns"),
    (dict(example_labels=["a", "b", "c"]), "`example_labels`: 3 labels for 2 rows"),
    (dict(feature_labels=["a", "b", "a", "c"]), "`feature_labels`: 'a' is there twice"),
    (dict(feature_labels=["a", "b", None, "c"]), "label 2 is None, of type NoneType"),
    (dict(feature_labels=["a", "", "c", "d"]), "the label of feature 1 is empty"),
    (dict(example_labels=["a\tb", "c"]), "has a tab in it"),
    (dict(example_labels=["a\nb", "c"]), "has a line feed in it"),
    (dict(example_labels=["a", "\ud800"]), "the label of example 1 is no Unicode text"),
    (dict(example_labels=["a", "x" * 70_000]), "has more than 65535 bytes"),
    (dict(targets=np.ones((3, 4), np.float32)), "`targets` has 3 rows, `matrix` has 2"),
    (dict(target_labels=["a"]), "`target_labels` are for `targets`"),
    (dict(name=""), "`name` '': expected a text"),
])
def test_wrong_labels_are_named(arguments, message):
    with pytest.raises((norn.DataError, norn.UsageError), match=message):
        norn.Dataset(broken(lambda m: None), **arguments)


def test_files_come_back_as_they_were(draw, tmp_path):
    for values in (False, True):
        matrix = random_csr(draw, values=values)
        data = norn.Dataset(matrix, feature_labels=[f"f {i}é" for i in range(60)], example_labels=[f"e{i}" for i in range(40)],
                            name="shop")
        assert data.to_netcdf(tmp_path / "a.nc", target_values=True) == [str(tmp_path / "a.nc")]
        back = norn.Dataset.from_netcdf(tmp_path / "a.nc")
        assert np.array_equal(back.matrix.data, matrix.data) and np.array_equal(back.matrix.indices, matrix.indices)
        assert back.indicator is not values and back.targets is None and back.name == "shop"
        assert back.feature_labels == data.feature_labels and back.example_labels == data.example_labels
        back.to_netcdf(tmp_path / "b.nc", target_values=True)
        assert checksum(tmp_path / "a.nc") == checksum(tmp_path / "b.nc")


def test_a_matrix_without_labels_and_with_empty_rows_and_columns(tmp_path):
    matrix = sp.csr_matrix(([1.0, 1.0], ([1, 3], [0, 5])), shape=(6, 9), dtype=np.float32)
    norn.Dataset(matrix).to_netcdf(tmp_path / "a.nc")
    back = norn.Dataset.from_netcdf(tmp_path / "a.nc")
    assert back.shape == (6, 9) and (back.matrix != matrix).nnz == 0 and back.feature_labels is None and back.example_labels is None


def test_targets_of_their_own(tmp_path, draw):
    inputs, targets = random_csr(draw), random_csr(draw, width=5, entries=60, values=False)
    for labels in (None, list("abcde")):
        data = norn.Dataset(inputs, targets=targets, target_labels=labels)
        data.to_netcdf(tmp_path / "a.nc")
        back = norn.Dataset.from_netcdf(tmp_path / "a.nc")
        assert (back.matrix != inputs).nnz == 0 and (back.targets != targets).nnz == 0
        assert back.target_labels == (labels or list("01234"))
    parts = data.split("ratio:0.5/0.5", by="example")
    assert len(parts.train) + len(parts.test) == 40 and parts.test.targets.shape[1] == 5
    with pytest.raises(norn.UsageError, match="a split by entry needs data that are their own targets"):
        data.split("ratio:0.5/0.5")


def test_files_that_are_none_of_ours_are_named(tmp_path):
    (tmp_path / "a.nc").write_text("no NetCDF")
    with pytest.raises(norn.DataError, match="a.nc"):
        norn.Dataset.from_netcdf(tmp_path / "a.nc")
    with pytest.raises(norn.DataError, match="no such file"):
        norn.Dataset.from_netcdf(tmp_path / "b.nc")
    data = norn.Dataset(broken(lambda m: None))
    data.to_netcdf(tmp_path / "a.nc")
    whole = (tmp_path / "a.nc").read_bytes()
    (tmp_path / "a.nc").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(norn.DataError, match="a.nc"):
        norn.Dataset.from_netcdf(tmp_path / "a.nc")
    with pytest.raises(norn.DataError, match="nowhere"):
        data.to_netcdf(tmp_path / "nowhere" / "a.nc")
    with pytest.raises(norn.DataError, match="has 2 examples and 0 entries"):
        norn.Dataset(sp.csr_matrix((2, 3), dtype=np.float32)).to_netcdf(tmp_path / "c.nc")


def test_a_model_is_fitted_and_evaluated_on_parts_with_their_labels(draw):
    data = norn.Dataset(random_csr(draw, values=False), feature_labels=[f"f{i}" for i in range(60)], name="shop").split("ratio:0.7/0.3",
                                                                                                                        seed=2)
    model = norn.Recommender(epochs=2, device="cpu", seed=3).fit(data.train, validation=data.test)
    assert dict(model.evaluate(data.test, k=[5])) == dict(model.evaluate(data.test.matrix, data.test.targets, k=[5]))
    assert model.recommend(["f1", "f2"], N=2)[0][0].startswith("f")


def test_a_fit_on_a_data_set_is_the_trainers_on_its_file(programs, draw, tmp_path):
    """What goes into the engine is what stands in the file."""
    import subprocess

    data = norn.Dataset(random_csr(draw), feature_labels=[f"f{i}" for i in range(60)], name="shop")
    data.to_netcdf(tmp_path / "d.nc")
    subprocess.run([programs / "trainer", "--recipe", "sigmoid", "-i", tmp_path / "d.nc", "-n", tmp_path / "a.nc", "--epochs", "2",
                    "--seed", "5", "--device",
                    "cpu", "-q"], check=True, capture_output=True)
    norn.Recommender(recipe="sigmoid", epochs=2, seed=5, device="cpu").fit(data).save(tmp_path / "b.nc")
    a, b = norn.load(tmp_path / "a.nc"), norn.load(tmp_path / "b.nc")
    for name, values in a.network_.parameters.items():
        assert np.array_equal(values, b.network_.parameters[name]), name


def test_parts_are_asked_for_by_name():
    data = norn.Dataset(sp.csr_matrix(np.ones((4, 6), np.float32)))
    with pytest.raises(norn.UsageError, match="the data are not split"):
        data.train
    split = data.split("ratio:0.5/0.5", seed=3)
    assert list(split.parts) == ["train", "test"]
    assert (split.train.matrix + split.test.targets != data.matrix).nnz == 0
    assert (split.test.matrix != split.train.matrix).nnz == 0  # what is known of the examples
    with pytest.raises(norn.UsageError, match="the data have no part 'validation'; they have: train, test"):
        split.validation
    for rule, message in (("ratio:0.5", "expected two shares"), ("ration:1/1", 'Did you mean "ratio:"'),
                          ("time:2026-01-01", "name it with `time`"),
                          (0.8, "expected a rule"), ("ratio:1000000/1", "are left for the")):
        with pytest.raises((norn.UsageError, norn.DataError), match=message):
            data.split(rule)
    with pytest.raises(norn.UsageError, match="`split_by` 'examples'.*Did you mean \"example\""):
        data.split("ratio:1/1", by="examples")


def test_zeros_that_are_stored_are_counted_and_written_but_not_trained_on(tmp_path):
    matrix = sp.csr_matrix(np.array([[1, 2, 0], [0, 3, 1]], np.float32))
    matrix.data[1] = 0
    data = norn.Dataset(matrix)
    data.to_netcdf(tmp_path / "a.nc")
    assert data.entries == norn.Dataset.from_netcdf(tmp_path / "a.nc").entries == 4
    models = [norn.Recommender(hidden=2, epochs=1, device="cpu", threads=1).fit(one) for one in (data, sp.csr_matrix(matrix.toarray()))]
    assert (models[0].transform(matrix) == models[1].transform(matrix)).all()
