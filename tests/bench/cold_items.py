#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How well items are recommended that nobody has yet, by their features: Debian packages, whose features are what the package index
says of them. Of each seed a tenth of the items is held back; ranked are these alone, for users who have one of them.
LightFM's setting (components, rate, whether known items have a feature of their own; epochs) is searched for on the first seed.

  tests/bench/cold_items.py ../shared/data/debian_packages                      with `apt-cache dumpavail`
  tests/bench/cold_items.py FOLDER --index FILE --seeds 1,2,3 --out table.md

FOLDER has train.txt and test.txt, which are taken together. Needs norn, and for its row LightFM (pip install lightfm)."""
import argparse
import ast
import itertools
import pathlib
import re
import statistics
import subprocess
import sys
import time

import numpy as np
import scipy.sparse as sp

import norn

K = 20
LIGHTFM = tuple(itertools.product((64, 128), (0.05, 0.1), (True, False)))  # components, rate, known items have a feature of their own
LIGHTFM_EPOCHS = (10, 20, 40, 80, 160)


def packages(index):
    """Package -> features, of an index in the form of Debian's."""
    features = {}
    for block in index.split("\n\n"):
        field = dict(re.findall(r"^([A-Za-z-]+): ?(.*(?:\n .*)*)", block, re.M))
        name = field.get("Package")
        if name is None or name in features:
            continue
        words = re.findall(r"[a-z][a-z0-9+]+", f"{name} {field.get('Description', '').partition(chr(10))[0]}".lower())
        tags = [tag.strip() for tag in field.get("Tag", "").replace("\n", "").split(",") if tag.strip()]
        features[name] = sorted({f"section {field.get('Section', '')}", f"source {field.get('Source', name).split()[0]}",
                                 f"maintainer {field.get('Maintainer', '')}", *(f"word {word}" for word in words),
                                 *(f"tag {tag}" for tag in tags)})
    return features


def read_users(folder):
    rows = {}
    for part in ("train", "test"):
        path = folder / f"{part}.txt"
        if not path.exists():
            sys.exit(f"cold_items: there is no {path}; give the folder of debian_packages")
        for line in path.read_text(encoding="utf-8").splitlines():
            user, _, items = line.partition("\t")
            rows.setdefault(user, []).extend(items.split(":"))
    return rows


def data_of(rows, features):
    """A Dataset of users, and CSR [items, features] of features that two items share at least."""
    items = sorted({item for row in rows.values() for item in row})
    number = {item: at for at, item in enumerate(items)}
    columns = [sorted({number[item] for item in row}) for row in rows.values()]
    begin = np.cumsum([0] + [len(row) for row in columns])
    matrix = sp.csr_matrix((np.ones(begin[-1], np.float32), np.concatenate(columns).astype(np.int32), begin), shape=(len(rows), len(items)))
    of_items = [features.get(item, []) for item in items]
    counts = {}
    for row in of_items:
        for feature in row:
            counts[feature] = counts.get(feature, 0) + 1
    words = {feature: at for at, feature in enumerate(sorted(f for f, count in counts.items() if count > 1))}
    entries = [(at, words[feature]) for at, row in enumerate(of_items) for feature in row if feature in words]
    rows_of, columns_of = np.array(entries).T
    table = sp.csr_matrix((np.ones(len(entries), np.float32), (rows_of, columns_of)), shape=(len(items), len(words)))
    return norn.Dataset(matrix, feature_labels=items, example_labels=list(rows)), table, number


def metrics(ranked, wanted):
    """Recall and NDCG of lists [users, K] of columns of `wanted`."""
    gain = 1.0 / np.log2(np.arange(2, K + 2))
    recall, ndcg = [], []
    for row, ids in enumerate(ranked):
        there = wanted.indices[wanted.indptr[row]:wanted.indptr[row + 1]]
        hits = np.isin(ids[ids >= 0], there)
        recall.append(hits.sum() / len(there))
        ndcg.append((gain[:len(hits)] * hits).sum() / gain[:min(K, len(there))].sum())
    return float(np.mean(recall)), float(np.mean(ndcg))


class Split:
    def __init__(self, data, table, number, seed):
        parts = data.split("new-items:0.1", seed=seed)
        self.train, self.test, labels = parts.train, parts.test, parts.feature_labels
        self.known, self.new = labels[:self.train.shape[1]], labels[self.train.shape[1]:]
        order = [number[label] for label in labels]
        self.features = table[order]
        self.of_known, self.of_new = self.features[:len(self.known)], self.features[len(self.known):]
        self.wanted = self.test.targets[:, len(self.known):].tocsr()


def by_norn(split, seed, recipe, trained, args):
    model = norn.Recommender(recipe=recipe, seed=seed, **({"epochs": args.epochs} if args.epochs else {}))
    model.fit(split.train, item_features=split.of_known if trained else None)
    began = time.perf_counter()
    model.add_items(split.of_new, split.new, known_features=None if trained else split.of_known)
    seconds = time.perf_counter() - began
    found = model.evaluate(split.test, k=K, items=split.new)
    return (found[f"recall@{K}"], found[f"ndcg@{K}"]), seconds


def by_likeness(split):
    """The mean cosine of an item's features with those of what a user has."""
    lengths = np.sqrt(np.asarray(split.features.multiply(split.features).sum(axis=1)).ravel())
    unit = sp.diags(1.0 / np.maximum(lengths, 1e-9)) @ split.features
    scores = (split.test.matrix[:, :len(split.known)] @ unit[:len(split.known)] @ unit[len(split.known):].T).toarray()
    return metrics(np.argsort(-scores, axis=1, kind="stable")[:, :K], split.wanted)


def fit_lightfm(split, seed, setting, epochs, args):
    """Metrics at each of `epochs`. Items held back are unknown to the training: neither its samples of what nobody has, nor a feature
    of their own."""
    from lightfm import LightFM
    components, rate, own = setting
    known = len(split.known)
    own_features = sp.eye(len(split.known) + len(split.new), known if own else 0, dtype=np.float32)
    features = sp.hstack([split.features, own_features]).tocsr()
    lengths = np.maximum(np.asarray(features.sum(axis=1)).ravel(), 1e-9)
    features = (sp.diags(1.0 / lengths) @ features).tocsr().astype(np.float32)
    model = LightFM(no_components=components, loss="warp", learning_rate=rate, random_state=seed)
    row = {label: at for at, label in enumerate(split.train.example_labels)}
    asked = [row[label] for label in split.test.example_labels]
    found, done = {}, 0
    for until in epochs:
        model.fit_partial(split.train.matrix.tocoo(), item_features=features[:known], epochs=until - done, num_threads=args.threads)
        done = until
        bias, items = model.get_item_representations(features[known:])
        scores = model.get_user_representations()[1][asked] @ items.T + bias
        found[until] = metrics(np.argsort(-scores, axis=1, kind="stable")[:, :K], split.wanted)
    return found


def search_lightfm(split, seed, args):
    """(setting, epochs) of the best NDCG on items held back of those that are known, and says what each had."""
    inner = Split(split.train, split.of_known, {label: at for at, label in enumerate(split.known)}, seed)
    best = None
    for setting in LIGHTFM:
        for epochs, value in fit_lightfm(inner, seed, setting, LIGHTFM_EPOCHS, args).items():
            print(f"LightFM {setting}, {epochs} epochs, held back of the known: {value[0]:.4f} / {value[1]:.4f}", flush=True)
            if best is None or value[1] > best[0]:
                best = value[1], setting, epochs
    return best[1:]


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--index", type=pathlib.Path, help="of packages; without it `apt-cache dumpavail` is asked")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--recipes", default="sigmoid,softmax")
    parser.add_argument("--epochs", type=int, default=0, help="of Norn's recipes, in place of their own")
    parser.add_argument("--lightfm", help="its setting, as ((64, 0.05, True), 40); without it the first seed's search says it")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=pathlib.Path, help="a file for the table, too")
    return parser.parse_args()


def main():
    args = options()
    index = args.index.read_text(encoding="utf-8") if args.index else subprocess.run(
        ["apt-cache", "dumpavail"], check=True, capture_output=True, text=True).stdout
    data, table, number = data_of(read_users(args.folder), packages(index))
    print(f"{data!r}\n{table.shape[1]} features, {table.nnz / table.shape[0]:.1f} an item", flush=True)
    found = {}
    lightfm = tuple(ast.literal_eval(args.lightfm)) if args.lightfm else None

    def add(name, value):
        found.setdefault(name, []).append(value)
        print(f"{name}: {value[0]:.4f} / {value[1]:.4f}", flush=True)
    for seed in map(int, args.seeds.split(",")):
        split = Split(data, table, number, seed)
        add("likeness of features", by_likeness(split))
        for recipe in args.recipes.split(","):
            add(f"{recipe}, features given to `add_items`", by_norn(split, seed, recipe, False, args)[0])
            add(f"{recipe}, trained with features", by_norn(split, seed, recipe, True, args)[0])
        try:
            if lightfm is None:
                lightfm = search_lightfm(split, seed, args)
            setting, epochs = lightfm
            add(f"LightFM, {setting}, {epochs} epochs", fit_lightfm(split, seed, setting, (epochs,), args)[epochs])
        except ImportError:
            print("LightFM: left out, it is not installed", flush=True)
    lines = ["| | Recall@20 | NDCG@20 |", "|---|---|---|"]
    for name, values in found.items():
        cells = [f"{statistics.mean(column):.4f} ({statistics.stdev(column) if len(column) > 1 else 0:.4f})" for column in zip(*values)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    print("\n".join(lines))
    if args.out:
        args.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
