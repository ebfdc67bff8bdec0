# SPDX-License-Identifier: Apache-2.0
"""The curve of alternating least squares of the package implicit for scale_curves.py: a point after each iteration."""
import time

import implicit
import implicit.gpu
import numpy as np
import planted_catalogue
import scipy.sparse as sp
from peers import implicit_models


class Enough(Exception):
    """The seconds are over."""


def matrix(rows, items):
    """Users' items [users x entries of each] as a CSR matrix of ones."""
    columns = np.sort(rows, axis=1).ravel()
    starts = np.arange(len(rows) + 1) * rows.shape[1]
    return sp.csr_matrix((np.ones(len(columns), np.float32), columns, starts), shape=(len(rows), items))


def measure(settings, args, folder, items):
    """(curve, facts); users that were not trained on get their vectors from what they have, by the same least squares."""
    train, known, wanted = (np.load(folder / f"{name}.npy") for name in ("train", "known", "wanted"))
    device = "gpu" if args.device == "cuda" and implicit.gpu.HAS_CUDA else "cpu"
    peer = implicit_models.Peer("als", settings | {"factors": args.hidden, "iterations": 10000}, device, args.seed)
    confidences, seen = matrix(train, items) * np.float32(peer.alpha), matrix(known, items)
    curve, state = [], {"seconds": 0.0}

    def judge(iteration, *_):
        peer.wait()
        state["seconds"] += time.perf_counter() - state["started"]
        # What implicit keeps of other iterations.
        peer.model._YtY = peer.model._XtX = peer.model._item_norms = peer.model._user_norms = None
        with_alpha = seen * np.float32(peer.alpha)
        lists = np.concatenate([peer.model.recommend(part, with_alpha[part], N=args.top, recalculate_user=True)[0]
                                for part in np.array_split(np.arange(len(wanted)), max(1, len(wanted) // 500))])
        curve.append({"seconds": round(state["seconds"], 4), "recall": planted_catalogue.recall_of(lists, wanted),
                      "epochs": iteration + 1})
        if state["seconds"] >= args.seconds:
            raise Enough
        state["started"] = time.perf_counter()

    state["started"] = time.perf_counter()
    try:
        with implicit_models.own_threads():
            peer.model.fit(confidences, show_progress=False, callback=judge)
    except Enough:
        pass
    return curve, {"version": f"implicit {implicit.__version__}", "device": device}
