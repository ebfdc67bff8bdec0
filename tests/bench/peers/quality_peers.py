#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A peer of quality_table.py: fits it to FOLDER/kept.txt, ranks all items but those that a user has there, and says on stdout, as JSON,
what it finds of FOLDER/held_out.txt and the seconds of fitting. Where the peer's package is missing it says which.

  tests/bench/peers/quality_peers.py FOLDER ease --settings '{"regularization": 100}'
  tests/bench/peers/quality_peers.py FOLDER als --search 300      says the settings that are best by NDCG@20, after so many seconds at most

popularity: items by how many users have them. ease: Steck, "Embarrassingly Shallow Autoencoders for Sparse Data", WWW 2019, in float64.
sansa: Spisak et al., "Scalable Approximate NonSymmetric Autoencoder for Collaborative Filtering", RecSys 2023 (the package sansa).
als: the package implicit. lightfm: WARP without features (the package lightfm)."""
import argparse
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
try:
    import numpy as np
    from held_out_items import Parts, metrics_of
    from peers import settings_search
except ImportError as error:
    print(json.dumps({"missing": str(error)}))
    sys.exit(0)

METRICS = (("Recall", 20), ("NDCG", 20), ("MAP", 10))
BATCH = 1024  # users whose scores of all items are held at a time


def best_of(scores, rows, count):
    """[users, count]: the columns of the largest scores [users, items], those of `rows` left out, the largest first."""
    count = min(count, scores.shape[1])
    scores[rows.nonzero()] = -np.inf
    some = np.argpartition(-scores, count - 1, axis=1)[:, :count]
    order = np.lexsort((some, -np.take_along_axis(scores, some, axis=1)))
    return np.take_along_axis(some, order, axis=1)


class Scorer:
    """A model of scores(users, rows) -> [users, items]."""

    def recommend(self, users, rows, count):
        """[users, count]: the best items, those of `rows` left out."""
        lists = [best_of(np.array(self.scores(users[at:at + BATCH], rows[at:at + BATCH])), rows[at:at + BATCH], count)
                 for at in range(0, len(users), BATCH)]
        return np.concatenate(lists)


class Popularity(Scorer):
    def __init__(self, settings, args):
        pass

    def fit(self, matrix):
        counts = np.bincount(matrix.indices, minlength=matrix.shape[1])
        self.places = -np.argsort(np.argsort(-counts, kind="stable")).astype(np.float32)  # of equal ones the first is before
        return self

    def scores(self, users, rows):
        return np.tile(self.places, (len(users), 1))


class Ease(Scorer):
    def __init__(self, settings, args):
        from peers import ease_numpy
        self.weights_of, self.settings = ease_numpy.weights_of, settings

    def fit(self, matrix):
        self.weights = self.weights_of(matrix.astype(np.float64), self.settings["regularization"])
        return self

    def scores(self, users, rows):
        return rows @ self.weights


class Sansa(Scorer):
    def __init__(self, settings, args):
        import sansa
        self.model = sansa.SANSA(sansa.SANSAConfig(
            settings["regularization"], settings["density"], sansa.CHOLMODGramianFactorizerConfig(),
            sansa.UMRUnitLowerTriangleInverterConfig(scans=1, finetune_steps=5)))

    def fit(self, matrix):
        self.model.fit(matrix)
        return self

    def scores(self, users, rows):
        return self.model.forward(rows).toarray()


class LightFm(Scorer):
    def __init__(self, settings, args):
        import lightfm
        self.epochs, self.threads = settings["epochs"], args.threads
        self.model = lightfm.LightFM(no_components=settings["factors"], loss="warp", learning_rate=settings["learning_rate"],
                                     item_alpha=settings["regularization"], user_alpha=settings["regularization"], random_state=args.seed)

    def fit(self, matrix):
        self.model.fit(matrix.tocoo(), epochs=self.epochs, num_threads=self.threads)
        return self

    def scores(self, users, rows):
        return self.model.user_embeddings[users] @ self.model.item_embeddings.T + self.model.item_biases


def als(settings, args):
    from peers import implicit_models
    return implicit_models.Peer("als", settings, args.device, args.seed, args.threads)


PEERS = {"popularity": Popularity, "ease": Ease, "sansa": Sansa, "als": als, "lightfm": LightFm}


def measured(settings, args, parts):
    """The metrics by name, and seconds."""
    model = PEERS[args.peer](settings, args)
    started = time.monotonic()
    model.fit(parts.known)
    run = {"seconds": time.monotonic() - started, "settings": settings}
    lists = model.recommend(parts.asked, parts.known[parts.asked], max(top for _, top in METRICS))
    for at, (name, top) in enumerate(METRICS):
        run[f"{name}@{top}"] = metrics_of(lists[:, :top], parts.wanted[parts.asked])[at]
    return run


def searched(args, parts):
    def value_of(settings):
        run = measured(settings, args, parts)
        print(f"{args.peer} {settings}: {run['Recall@20']:.4f} / {run['NDCG@20']:.4f}, {run['seconds']:.1f} s", file=sys.stderr, flush=True)
        return run["NDCG@20"]
    return settings_search.search(args.peer, value_of, args.search, [], lambda tried: None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--settings", type=json.loads, help="as JSON [those with which a search begins]")
    parser.add_argument("--search", type=float, metavar="SECONDS", help="say the best settings, and end")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu", help="of als; the others compute on the CPU")
    parser.add_argument("--threads", type=int, default=1, help="[%(default)s]")
    args = parser.parse_args()
    parts = Parts(*((args.folder / name).read_text(encoding="utf-8").splitlines() for name in ("kept.txt", "held_out.txt")))
    parts.known.data[:] = 1  # also of what a row names twice
    settings = args.settings or settings_search.STARTS.get(args.peer, {})
    try:
        said = searched(args, parts) if args.search is not None else measured(settings, args, parts)
    except ImportError as error:
        said = {"missing": str(error)}
    print(json.dumps(said))


if __name__ == "__main__":
    main()
