# SPDX-License-Identifier: Apache-2.0
"""A forked child reads and writes files after its parent has."""
import multiprocessing

import numpy as np
import scipy.sparse as sp

import norn


def in_child(file, copy, queue):
    model = norn.load(file, device="cpu", threads=1)
    model.save(copy)
    queue.put(model.recommend([1], N=3))


def test_a_forked_child_loads_and_saves_what_its_parent_wrote(tmp_path):
    model = norn.Recommender(hidden=4, epochs=1, device="cpu", threads=1).fit(sp.csr_matrix(np.tri(12, dtype=np.float32)))
    model.save(tmp_path / "model.nc")
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=in_child, args=(tmp_path / "model.nc", tmp_path / "copy.nc", queue), daemon=True)
    child.start()
    try:
        assert queue.get(timeout=30) == model.recommend([1], N=3)
        child.join(30)
        assert child.exitcode == 0
    finally:
        child.kill()
    assert (tmp_path / "copy.nc").read_bytes() == (tmp_path / "model.nc").read_bytes()
