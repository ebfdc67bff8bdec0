# SPDX-License-Identifier: Apache-2.0
"""Arguments of forms that are rare, or of none that is meant: used as what they are, or refused by name."""
import numpy as np
import pytest
import scipy.sparse as sp

import norn
from norn import _core

MATRIX = sp.csr_matrix(np.tri(12, dtype=np.float32))
DESCRIPTOR = {"Layers": [{"Name": "I", "Kind": "Input", "N": 4, "DataSet": "x"}, {"Name": "O", "Kind": "Output", "N": 3, "DataSet": "y"}]}


@pytest.fixture(scope="module")
def model():
    return norn.Recommender(hidden=4, epochs=1, device="cpu", threads=1).fit(MATRIX)


def test_a_dok_matrix_is_a_matrix_though_it_is_a_dictionary(model):
    dok = MATRIX.todok()
    again = norn.Recommender(hidden=4, epochs=1, device="cpu", threads=1).fit(dok, dok)
    for one in (lambda m: again.recommend(m, N=3), lambda m: again.transform(m)):
        for a, b in zip(one(dok), one(MATRIX)):
            np.testing.assert_array_equal(a, b)
    assert again.evaluate(dok, dok) == again.evaluate(MATRIX, MATRIX)
    again.partial_fit(dok)
    with pytest.raises(norn.UsageError, match="`data`: expected a dictionary"):
        norn.train(DESCRIPTOR, dok)


@pytest.mark.parametrize("name", ("data", "indices", "indptr"))
def test_arrays_of_two_dimensions(model, name):
    m = MATRIX.copy()
    setattr(m, name, getattr(m, name)[None])
    for call in (lambda: model.recommend(m), lambda: norn.Recommender(device="cpu").fit(m), lambda: norn.Dataset(m)):
        with pytest.raises(norn.Error, match="2 dimensions, expected one"):
            call()


def forms():
    """The same matrix, of types that SciPy itself computes nothing with."""
    random = np.random.default_rng()
    for swapped in ("data", "indices", "indptr", "all", "half"):
        for zeros in (False, True):
            m = MATRIX.copy()
            for row in range(12):
                order = slice(m.indptr[row], m.indptr[row + 1])
                m.indices[order] = random.permutation(m.indices[order])  # to be sorted, which is SciPy's affair
            expected = MATRIX
            if zeros:
                m.data[m.indices == 3] = 0
                expected = sp.csr_matrix(np.where(np.arange(12) == 3, 0, MATRIX.toarray()))
            for name in ("data", "indices", "indptr"):
                array = getattr(m, name)
                if swapped in (name, "all"):
                    setattr(m, name, array.astype(array.dtype.newbyteorder(">")))
            m.data = m.data.astype(np.float16) if swapped == "half" else m.data
            m.has_sorted_indices = False
            yield m, expected


def test_other_orders_of_bytes_and_short_floats_are_the_same_numbers(model):
    for m, expected in forms():
        for one, other in zip(model.recommend(m, N=4), model.recommend(expected, N=4)):
            np.testing.assert_array_equal(one, other)
        norn.Recommender(hidden=3, epochs=1, device="cpu", threads=1).fit(m)
    swapped = sp.csc_matrix(MATRIX)
    swapped.data = swapped.data.astype(">f4")
    try:
        model.recommend(swapped)
    except norn.Error as error:  # what SciPy can convert is its affair
        assert "SciPy cannot make a CSR matrix of it" in str(error)


@pytest.mark.parametrize("wrong", (-1, 12, 2**30))
def test_a_csc_matrix_whose_rows_are_out_of_range(model, wrong):
    m = MATRIX.tocsc()
    m.indices[5] = wrong
    with pytest.raises(norn.Error, match=f"column 0.*: row {wrong} is out of range, expected 0 to 11"):
        model.recommend(m)


def test_a_data_set_of_more_columns_than_values():
    m = MATRIX.copy()
    m.data = m.data[:-1]
    with pytest.raises(norn.DataError, match="`matrix`: .*77 values"):
        norn.Dataset(m)


@pytest.mark.parametrize("wrong", (None, 3, "x", [1], np.ones(2), {3: 4}))
def test_dictionaries_that_are_none(wrong):
    for name, call in (("data", lambda: norn.train(DESCRIPTOR, wrong)), ("data", lambda: norn.Network.from_json(DESCRIPTOR).plan(wrong)),
                       ("parameters", lambda: norn.Network.from_parameters(DESCRIPTOR, wrong)),
                       ("labels", lambda: norn.Network.from_parameters(DESCRIPTOR, {}, {3: ["a"]} if wrong is None else wrong))):
        with pytest.raises(norn.UsageError, match=f"`{name}`: expected a dictionary from names"):
            call()


@pytest.mark.parametrize("wrong", (np.array([1, 2]), np.zeros(0), [1], {}))
def test_words_that_are_arrays(model, wrong, tmp_path):
    data = norn.Dataset(MATRIX)
    table = {"u": [1, 2], "i": ["a", "b"]}
    (tmp_path / "t.csv").write_text("u,i\n1,a\n")
    for name, call in (("of", lambda: model.similar_items(1, of=wrong)), ("split_by", lambda: data.split("ratio:0.8/0.2", by=wrong)),
                       ("name", lambda: data.to_netcdf(tmp_path / "x.nc", name=wrong)),
                       ("duplicates", lambda: norn.Dataset.from_table(table, duplicates=wrong)),
                       ("empty_rows", lambda: norn.Dataset.from_table(table, empty_rows=wrong)),
                       ("header", lambda: norn.Dataset.from_table(tmp_path / "t.csv", "u", "i", header=wrong))):
        with pytest.raises(norn.UsageError, match=f"`{name}`"):
            call()


def test_switches_that_are_arrays(model):
    for name, call in (("filter_already_liked_items", lambda wrong: model.recommend(MATRIX, filter_already_liked_items=wrong)),
                       ("keep_seen", lambda wrong: model.evaluate(MATRIX, MATRIX, keep_seen=wrong))):
        with pytest.raises(norn.UsageError, match=f"`{name}`: expected True or False, not ndarray"):
            call(np.array([True, False]))
        call(np.bool_(True))


def test_paths_with_a_zero_byte(model):
    for call in (norn.load, model.save, norn.Dataset.from_netcdf, norn.Dataset(MATRIX).to_netcdf):
        with pytest.raises(norn.UsageError, match="no path has a zero byte"):
            call("a\0.nc")


@pytest.mark.parametrize("name", (np.empty((0, 3)), 3, ["x"], ""))
def test_names_of_data_sets_that_are_none(tmp_path, name):
    norn.Dataset(MATRIX, name="x").to_netcdf(tmp_path / "x.nc")
    with pytest.raises(norn.UsageError, match="`name`"):
        norn.Dataset.from_netcdf(tmp_path / "x.nc", name=name)


def test_lists_that_no_memory_can_hold(model):
    import duckdb  # noqa: F401  a module of nanobind, too, whose errors are not ours
    users = _core.MemorySet.sparse("data_input", 12, np.zeros(300_001, np.int64), np.empty(0, np.int32))
    with pytest.raises(norn.DeviceError, match="there is not enough memory; ask for less at a time"):
        _core.recommend(model.network_.model, [users], 2**31 - 1, "", True, None, None, None)
    model.recommend(MATRIX)


def test_a_gpu_whose_number_is_too_large():
    with pytest.raises(norn.UsageError, match="`device` cuda:4294967296: after cuda: comes the number of a GPU"):
        norn.Recommender(device="cuda:4294967296").fit(MATRIX)


def test_held_out_data_that_are_empty(model):
    with pytest.raises(norn.DataError, match='^data set "data_output" holds nothing to be found'):
        model.evaluate(MATRIX, sp.csr_matrix(MATRIX.shape, dtype=np.float32))


def test_numbers_beyond_a_float():
    with pytest.raises(norn.UsageError, match="`rate` 1000.*: expected a number"):
        norn.Recommender(rate=10**400)
