# SPDX-License-Identifier: Apache-2.0
"""What is wrong is said with argument and value, and the object is usable afterwards."""
import os

import numpy as np
import pytest
import scipy.sparse as sp

import norn
import norn.info
from norn import _core


def changed(matrix, **parts):
    """The matrix with other arrays, as SciPy itself would not make it."""
    made = matrix.copy()
    for name, array in parts.items():
        setattr(made, name, array)
    return made


def with_value(array, place, value):
    array = array.copy()
    array[place] = value
    return array


def wrong_matrices(m):
    """(what is wrong, matrix, parts of the message)."""
    end = len(m.indices)
    yield "float columns", changed(m, indices=m.indices.astype(np.float32)), ("indices are float32", "int32")
    yield "float offsets", changed(m, indptr=m.indptr.astype(float)), ("indptr are float64",)
    yield "complex values", changed(m, data=m.data.astype(complex)), ("values are complex128",)
    yield "objects", changed(m, data=m.data.astype(object)), ("values are object",)
    yield "nan", changed(m, data=with_value(m.data, 3, np.nan)), ("nan",)
    yield "infinite", changed(m, data=with_value(m.data, end - 1, np.inf)), ("inf",)
    yield "negative column", changed(m, indices=with_value(m.indices, 2, -7)), ("column -7 is out of range",)
    yield "too wide", changed(m, indices=with_value(m.indices, end - 1, m.shape[1])), (f"column {m.shape[1]}", f"0 to {m.shape[1] - 1}")
    yield "short offsets", changed(m, indptr=m.indptr[:-1]), (f"indptr has {len(m.indptr) - 1} offsets",)
    yield "falling offsets", changed(m, indptr=with_value(m.indptr, 1, m.indptr[2] + 1)), ("falls after row 1",)
    yield "offsets from 1", changed(m, indptr=with_value(m.indptr, 0, 1)), ("from 1",)
    yield "too few values", changed(m, data=m.data[:-1]), (f"{end} indices and {end - 1} values",)
    yield "no matrix", [[1, 2], [3]], ("[1, 2]",)
    yield "text", "unit1", ("'unit1'", "no labels")


def messages(matrix, model):
    """What a Dataset, fit and recommend say of a matrix."""
    for argument, call in (("matrix", lambda: norn.Dataset(matrix)),
                           ("fit", lambda: norn.Recommender(epochs=1, device="cpu", threads=1).fit(matrix)),
                           ("user_items", lambda: model.recommend(matrix, N=2))):
        with pytest.raises(norn.Error) as raised:
            call()
        yield argument, raised.value


def test_matrices_that_are_wrong(baskets, trained):
    before = trained.recommend(baskets.matrix, N=3)
    for what, matrix, parts in wrong_matrices(baskets.matrix):
        for argument, error in messages(matrix, trained):
            print(what, "|", error)
            assert isinstance(error, (norn.UsageError, norn.DataError)) and isinstance(error, ValueError), what
            assert error.problems and error.exit_code in (2, 3)
            if argument == "user_items" or not isinstance(matrix, (list, str)):
                assert any(part in str(error) for part in parts), f"{what}: {error}"
    after = trained.recommend(baskets.matrix, N=3)
    assert all((one == other).all() for one, other in zip(before, after))


def test_what_can_be_put_right_is_copied_and_said(baskets, trained, caplog):
    """Other formats, orders and types are taken, and the original stays as it is."""
    caplog.set_level("DEBUG", logger="norn")
    expected = trained.recommend(baskets.matrix, N=3)
    m = baskets.matrix
    backwards = changed(m, indices=np.concatenate([m.indices[a:b][::-1] for a, b in zip(m.indptr, m.indptr[1:])]))
    backwards.has_sorted_indices = False
    free = min(set(range(m.shape[1])) - set(m[0].indices))
    zeros = m + sp.csr_matrix((np.ones(1, np.float32), ([0], [free])), shape=m.shape)
    zeros[0, free] = 0
    variants = {"sort": backwards, "CSR": m.tocsc(),
                "32 bits": changed(m, indices=m.indices.astype(np.int64), indptr=m.indptr.astype(np.int64)),
                "zeros": zeros, "": m.astype(np.float64), "COO": m.tocoo(), " ": sp.csr_array(m), "bool": m.astype(bool)}
    for word, variant in variants.items():
        kept = variant.copy()
        caplog.clear()
        got = trained.recommend(variant, N=3)
        assert all((one == other).all() for one, other in zip(expected, got)), word
        assert word in ("", " ", "COO", "bool") or any(word in record.getMessage() for record in caplog.records), word
        assert (kept != variant).nnz == 0 and (not hasattr(kept, "indices") or (kept.indices == variant.indices).all())


@pytest.mark.parametrize("arguments, parts", [
    ({"N": 0}, ("`N` 0",)), ({"N": 2.5}, ("`N` 2.5", "float")), ({"N": "3"}, ("`N` '3'",)), ({"N": True}, ("`N` True",)),
    ({"filter_items": [1.5]}, ("`filter_items` 1.5",)), ({"filter_items": [-1]}, ("`filter_items`", "-1")),
    ({"items": [10**6]}, ("`items`", "1000000")), ({"items": np.array([0.5])}, ("`items`", "0.5")),
    ({"items": ["unit3"]}, ("`items`", "'unit3'", "no labels")), ({"layer": "Outpt"}, ("`layer`", "Outpt")),
    ({"filter_pairs": np.ones((2, 2))}, ("`filter_pairs`", )),
    ({"filter_pairs": sp.csr_matrix((3, 4), dtype=np.float32)}, ("`filter_pairs`", "(3, 4)", "a row for each user")),
    ({"score_factors": np.ones((3, 4, 5))}, ("`score_factors`", "3 dimensions")),
    ({"score_factors": np.ones(2000)}, ("`score_factors`", "2000")),
    ({"items": np.ones(3, bool)}, ("`items`", "mask", "(3,)")), ({"items": [[1], [2]]}, ("`items`", "[1]")),
])
def test_arguments_of_recommend(baskets, trained, arguments, parts):
    with pytest.raises(norn.UsageError) as raised:
        trained.recommend(baskets.matrix, **{"N": 3, **arguments})
    assert all(part in str(raised.value) for part in parts), raised.value
    trained.recommend(baskets.matrix, N=3)


def test_settings_are_all_said_at_once():
    with pytest.raises(norn.UsageError) as raised:
        norn.Recommender(epoch=3, rate="fast", seed=1.5, shuffle=3, early_stop=True)
    keys = [problem["key"] for problem in raised.value.problems]
    assert keys == ["epoch", "rate", "seed", "shuffle", "early_stop"]
    assert 'Did you mean "epochs"?' in str(raised.value)


def test_what_the_engine_refuses_comes_with_its_problems(baskets):
    with pytest.raises(norn.UsageError) as raised:
        norn.Recommender(epochs=-1, batch=0, early_stop="ndgc@20", seed=2**64 - 1, device="cpu").fit(baskets.matrix)
    assert [problem["key"] for problem in raised.value.problems] == ["batch", "epochs", "early_stop"]
    for settings, part in (*(({name: seed, "validation_split": 0.1}, f"`{name}` {seed} is out of range: it must be from 0 to {2**64 - 1}")
                             for seed in (-1, 2**64, -2**70) for name in ("seed", "validation_seed")), ({"device": "tpu"}, "`device` tpu"),
                             ({"threads": -1}, "`threads` -1"),
                           ({"precision": "fp8"}, "`precision` fp8"), ({"recipe": "sigmod"}, "`recipe` sigmod"),
                           ({"threads": 2**40}, "`threads`"),
                           ({"hidden": 0}, "`hidden`"), ({"batch": 10**6}, "`batch`")):
        with pytest.raises(norn.UsageError) as raised:
            norn.Recommender(**{"device": "cpu", "epochs": 1, **settings}).fit(baskets.matrix)
        assert part in str(raised.value)


def test_a_descriptor_says_line_and_key(tmp_path):
    text = ('{\n "Layers": [\n  {"Name": "In", "Kind": "Input", "N": "auto", "DataSet": "a"},\n'
            '  {"Name": "Out", "Kind": "Output", "Activation": "Tahn"}]}')
    (tmp_path / "net.json").write_text(text)
    for source in (text, tmp_path / "net.json"):
        with pytest.raises(norn.UsageError) as raised:
            norn.Network.from_json(source)
        problem = next(p for p in raised.value.problems if "Tahn" in p["message"])
        assert problem["line"] == 4 and "Activation" in problem["key"] and problem["suggestion"] == "Tanh"


def test_widths_and_labels_that_the_model_has_not(baskets, trained):
    wider = sp.hstack([baskets.matrix, baskets.matrix], format="csr")
    with pytest.raises(norn.DataError, match=f"has {wider.shape[1]} columns, the model has {baskets.units} units"):
        trained.recommend(wider, N=2)
    with pytest.raises(norn.DataError, match=f"{wider.shape[1]} wide"):
        trained.evaluate(baskets.matrix, wider)
    labelled = norn.Recommender(epochs=1, device="cpu", threads=1).fit(baskets.dataset)
    with pytest.raises(norn.UsageError, match="'libc6'"):
        labelled.recommend(["unit1", "libc6"])
    with pytest.raises(norn.UsageError, match="unit -3"):
        labelled.recommend([1, -3])
    assert labelled.recommend(["unit1"], N=1)[0][0].startswith("unit")


def test_rows_without_units(baskets, trained):
    empty = sp.csr_matrix((4, baskets.units), dtype=np.float32)
    ids, scores = trained.recommend(empty, N=2)
    assert (ids >= 0).all() and np.isfinite(scores).all() and (scores == scores[0]).all()
    assert len(trained.recommend([], N=2)) == 2
    nobody = sp.csr_matrix((0, baskets.units), dtype=np.float32)
    ids, scores = trained.recommend(nobody, N=2)
    assert ids.shape == scores.shape == (0, 2) and trained.transform(nobody).shape == (0, 128)
    with pytest.raises(norn.UsageError, match="no rows"):
        norn.Recommender().fit(nobody)


def test_a_model_that_is_not_there(baskets, tmp_path):
    empty = norn.Recommender()
    for call in (lambda: empty.recommend(baskets.matrix), lambda: empty.save(tmp_path / "x.nc"),
                 lambda: empty.fit(baskets.matrix, resume=True)):
        with pytest.raises(norn.UsageError, match="not trained"):
            call()
    model = norn.Recommender(epochs=1, device="cpu", threads=1).fit(baskets.matrix)
    parameters = model.network_.parameters
    model.close()
    for call in (lambda: model.recommend(baskets.matrix), lambda: model.network_.parameters, lambda: repr(model)):
        with pytest.raises(norn.UsageError, match="closed"):
            call()
    assert np.isfinite(parameters["Hidden -> Output"]).all()  # views keep what they view
    model.fit(baskets.matrix).recommend(baskets.matrix)
    with pytest.raises(norn.DataError, match="x.nc"):
        norn.load(tmp_path / "x.nc")
    (tmp_path / "broken.nc").write_bytes(os.urandom(500))
    with pytest.raises(norn.DataError, match="broken.nc"):
        norn.load(tmp_path / "broken.nc")


def test_files_that_are_something_else(baskets, tmp_path):
    norn.Dataset(baskets.matrix).to_netcdf(tmp_path / "data.nc")
    with pytest.raises(norn.DataError, match=r"data.nc: this is a data set, not a model; norn.Dataset.from_netcdf reads it"):
        norn.load(tmp_path / "data.nc")
    (tmp_path / "net.onnx").write_bytes(b"\x08\x07" + os.urandom(200))
    for call in (lambda: norn.load(tmp_path / "net.onnx"), lambda: norn.info.describe(tmp_path / "net.onnx")):
        with pytest.raises(norn.DataError, match=r"norn convert .*net.onnx .*net.nc"):
            call()
    with pytest.raises(norn.DataError, match="no such file|No such file|does not exist"):
        norn.load(tmp_path / "none.onnx")
    for text in ("[" * 100_000, "x" * 100_000, "[]", "a\0b"):
        with pytest.raises(norn.UsageError, match=f"{len(text)} characters") as raised:
            norn.Network.from_json(text)
        assert len(str(raised.value)) + len(str(raised.value.problems)) < 600


def test_a_run_that_diverges(baskets):
    with pytest.raises(norn.DivergenceError) as raised:
        norn.Recommender(epochs=50, rate=1e30, optimizer="SGD", device="cpu", threads=1).fit(baskets.matrix)
    assert isinstance(raised.value, ArithmeticError) and raised.value.exit_code == 6


def test_native_arrays_are_never_converted():
    ones = np.ones(1, np.int32)
    begin = np.array([0, 1], np.int64)
    _core.MemorySet.sparse("x", 3, begin, ones)
    for wrong in (np.ones(1, np.float32), np.ones(1, np.int64), np.ones((1, 1), np.int32), [1]):
        with pytest.raises(TypeError):
            _core.MemorySet.sparse("x", 3, begin, wrong)
        with pytest.raises(TypeError):
            _core.MemorySet.sparse("x", 3, begin, ones,
                                   wrong if not isinstance(wrong, np.ndarray) or wrong.dtype != np.float32 else np.ones(1))


def test_a_matrix_that_another_thread_changes(baskets, trained, monkeypatch):
    """After it was looked at, and before SciPy looks again."""
    from norn.data import matrices
    native = matrices._native

    def spoilt(matrix, argument):
        matrix = native(matrix, argument).copy()
        matrix.indptr[0] = 1
        return matrix
    with monkeypatch.context() as patch, pytest.raises(norn.DataError, match="`user_items` was changed while it was read: .*index pointer"):
        patch.setattr(matrices, "_native", spoilt)
        trained.recommend(baskets.matrix, N=3)
    assert trained.recommend(baskets.matrix, N=3)[0].shape == (baskets.matrix.shape[0], 3)
