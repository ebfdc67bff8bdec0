# SPDX-License-Identifier: Apache-2.0
"""Arrays that somebody writes into while they are read: what is no data any more is refused, and nothing crashes."""
import re
import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp

import norn


def matrix(draw, values=False):
    users, units = int(draw.integers(40, 90)), int(draw.integers(20, 50))
    made = sp.random(users, units, density=0.3, format="csr", random_state=int(draw.integers(2**31)), dtype=np.float32)
    made.sort_indices()
    made.data[:] = 0.5 if values else 1
    return made


def recommender(**more):
    return norn.Recommender(hidden=5, epochs=4, batch=8, device="cpu", **more)


@pytest.mark.parametrize("column", (-1, 2**30, "units", "behind"))
def test_columns_that_a_callback_spoils_are_refused(draw, column):
    m = matrix(draw)

    def spoil(env):
        m.indices[:] = {"units": m.shape[1], "behind": m.indices[::-1]}.get(column, column)
    with pytest.raises(norn.DataError, match=r'data set "data_input": example [0-9]+: column .* changed while they were in use') as raised:
        recommender(threads=int(draw.integers(1, 3))).fit(m, callbacks=spoil)
    print(raised.value)


@pytest.mark.parametrize("dense", (False, True))
def test_values_that_a_callback_spoils_are_refused(draw, dense):
    m = matrix(draw, values=True)
    x = m.toarray()
    network = {"ErrorFunction": "L2", "Layers": [{"Name": "I", "Kind": "Input", "N": "auto", "DataSet": "x"},
                                                 {"Name": "H", "N": 4, "Activation": "Tanh"},
                                                 {"Name": "O", "Kind": "Output", "N": "auto", "DataSet": "y", "Activation": "Linear"}]}

    def spoil(env):
        (x if dense else m.data)[:] = np.nan
    with pytest.raises(norn.DataError, match=r'data set "x": example [0-9]+: .* is nan, expected a finite number; the data were changed'):
        norn.train(network, {"x": x if dense else m, "y": m.copy()}, epochs=4, batch=8, device="cpu", callbacks=spoil)


def test_offsets_are_read_once(draw, tmp_path):
    m = matrix(draw)
    m = sp.csr_matrix((m.data, m.indices.astype(np.int32), m.indptr.astype(np.int32)), shape=m.shape)
    m.indptr = m.indptr.astype(np.int64)  # read in place, which SciPy does not choose for a matrix as small
    assert m.indices.dtype == np.int32
    recommender().fit(m.copy()).save(tmp_path / "as_it_stands.nc")

    def spoil(env):
        m.indptr[:] = 2**62
    recommender().fit(m, callbacks=spoil).save(tmp_path / "spoilt.nc")
    assert (tmp_path / "spoilt.nc").read_bytes() == (tmp_path / "as_it_stands.nc").read_bytes()


@pytest.mark.parametrize("call", ("recommend", "evaluate", "transform", "fit"))
def test_another_thread_writes_meanwhile(draw, call):
    """Both ends are right, and that of the process is none."""
    model = norn.Recommender(hidden=5, epochs=1, device="cpu").fit(matrix(draw, values=False))
    units = model.network_.parameters["Output bias"].size
    whole = sp.random(3000, units, density=0.4, format="csr", random_state=1, dtype=np.float32)
    whole.sort_indices()
    whole.data[:] = 1
    stop = threading.Event()

    def write(m, right):
        while not stop.is_set():
            m.indices[:] = 2**30
            m.indices[:] = right
    calls = {"recommend": lambda m: model.recommend(m, N=3, filter_pairs=m), "evaluate": lambda m: model.evaluate(m, m, k=[3]),
             "transform": model.transform,
             "fit": lambda m: norn.Recommender(hidden=3, epochs=1, device="cpu").fit(m)}
    refused = 0
    for _ in range(5):
        m = whole.copy()
        thread = threading.Thread(target=write, args=(m, m.indices.copy()))
        thread.start()
        time.sleep(float(draw.random()) * 0.002)
        try:
            calls[call](m)
        except norn.Error as error:  # UsageError of what Python sees at first
            refused += 1
            assert re.search("is out of range|occurs twice|stands after", str(error))
        finally:
            stop.set()
            thread.join()
            stop.clear()
    print(f"{refused} of 5 were refused")


def test_after_a_refusal_the_model_is_that_of_before(draw):
    m = matrix(draw)
    model = recommender().fit(m)
    before = model.recommend(m, N=3)
    spoilt = m.copy()

    def spoil(env):
        spoilt.indices[:] = -1
    with pytest.raises(norn.DataError):
        model.fit(spoilt, callbacks=spoil)
    after = model.recommend(m, N=3)
    assert np.array_equal(before[0], after[0]) and np.array_equal(before[1], after[1])
