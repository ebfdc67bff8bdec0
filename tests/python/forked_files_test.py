# SPDX-License-Identifier: Apache-2.0
"""A forked child reads and writes files after its parent has, and goes on with its parent's models."""
import multiprocessing
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import scipy.sparse as sp

import norn
from conftest import Baskets, same


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


QUIET = """
import os, sys
import numpy as np, scipy.sparse as sp
import norn
m = sp.csr_matrix(np.tri(12, dtype=np.float32))
model = norn.Recommender(hidden=4, epochs=1, device="cpu", threads=2).fit(m)
model.save(sys.argv[1])
lists = norn.load(sys.argv[1], device="cpu").recommend([1], N=3)
child = os.fork()
try:
    assert norn.load(sys.argv[1], device="cpu").recommend([1], N=3) == lists == model.recommend([1], N=3)
    norn.Dataset(m).to_netcdf(sys.argv[1] + ".data.nc")
    assert norn.Dataset.from_netcdf(sys.argv[1] + ".data.nc").entries == m.nnz
    model.save(sys.argv[1] + ".2.nc")
except BaseException as error:
    print(repr(error))
    os._exit(1)
if child == 0:
    sys.exit(0)
os.waitpid(child, 0)
"""


def test_a_child_says_nothing_that_its_parent_does_not(tmp_path):
    done = subprocess.run([sys.executable, "-c", QUIET, tmp_path / "m.nc"], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def in_child_of(call):
    """What call() gives in a forked child."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.write(write, repr(call()).encode())
            code = 0
        except BaseException as error:
            os.write(write, repr(error).encode())
        os._exit(code)
    os.close(write)
    with open(read, encoding="utf-8") as said:
        text = said.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) in (0, 1)
    return text


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_models_go_on_in_children_and_in_theirs(draw, threads, tmp_path):
    baskets = Baskets(draw)
    fitted = norn.Recommender(hidden=8, epochs=2, batch=16, device="cpu", threads=threads).fit(baskets.matrix)
    fitted.save(tmp_path / "m.nc")
    for model in (fitted, norn.load(tmp_path / "m.nc", device="cpu", threads=threads), norn.most_popular(baskets.matrix)):
        expected = repr([model.recommend(baskets.matrix, N=4)[0].tolist(), model.transform(baskets.matrix).sum(),
                         model.evaluate(baskets.matrix, baskets.matrix)["ndcg@20"]])
        call = lambda: [model.recommend(baskets.matrix, N=4)[0].tolist(), model.transform(baskets.matrix).sum(),  # noqa: E731, B023
                        model.evaluate(baskets.matrix, baskets.matrix)["ndcg@20"]]
        assert in_child_of(call) == expected
        assert in_child_of(lambda: in_child_of(call)) == repr(expected)  # noqa: B023
        assert repr(call()) == expected
    unused = norn.load(tmp_path / "m.nc", device="cpu", threads=threads)  # whose weights nobody has asked for
    assert in_child_of(lambda: unused.recommend([0], N=3)) == repr(fitted.recommend([0], N=3))
    assert in_child_of(lambda: (fitted.close(), fitted.partial_fit(baskets.matrix))).startswith("UsageError('the model is closed")
    more = in_child_of(lambda: fitted.partial_fit(baskets.matrix[:3]).recommend([0], N=3))
    assert more == repr(fitted.partial_fit(baskets.matrix[:3]).recommend([0], N=3))
    assert same(fitted.recommend(baskets.matrix, N=2), fitted.recommend(baskets.matrix, N=2))


def lists_of(users):
    return MODEL.recommend(users, N=3)


def test_a_pool_shares_a_model_that_was_made_before():
    global MODEL
    matrix = sp.csr_matrix(np.tri(40, dtype=np.float32))
    MODEL = norn.Recommender(hidden=4, epochs=1, device="cpu", threads=2).fit(matrix)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        parts = pool.map_async(lists_of, [matrix[begin:begin + 7] for begin in range(0, 40, 7)]).get(timeout=60)
    whole = MODEL.recommend(matrix, N=3)
    assert all(same([part[at] for part in parts][i:i + 1], [whole[at][7 * i:7 * i + 7]]) for i in range(6) for at in (0, 1))


def test_a_model_that_another_thread_uses_is_refused_to_the_child(draw):
    width = 3000
    matrix = sp.random(4000, width, 0.01, format="csr", dtype=np.float32, random_state=int(draw.integers(2**31)))
    model = norn.Recommender(hidden=64, epochs=1, device="cpu", threads=2).fit(matrix[:100])
    stop, begun = threading.Event(), threading.Event()

    def use():
        while not stop.is_set():
            begun.set()
            model.recommend(matrix, N=500)

    thread = threading.Thread(target=use)
    thread.start()
    try:
        begun.wait()
        said = [in_child_of(lambda: model.recommend([1], N=2)) for _ in range(20)]
    finally:
        stop.set()
        thread.join()
    lists = repr(model.recommend([1], N=2))
    refused = [one for one in said if one != lists]
    assert all(f"belongs to process {os.getpid()}" in one and "another thread used it" in one for one in refused), refused
    assert refused
