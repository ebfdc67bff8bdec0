#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Norn beside the package implicit: Recall and NDCG of held-out items, users a second of recommending to all of them,
and seconds of training, as a table in Markdown.

  tests/bench/compare_recommenders.py gowalla --search             chooses the peers' settings on a fifth of every training line
  tests/bench/compare_recommenders.py gowalla --device gpu         the table, with the settings that were chosen
  tests/bench/compare_recommenders.py debian_packages --seeds 1,2,3 --turns 7

Runs with build/venv/bin/python, which has implicit, and the package of build/cuda or build/cpu. Every model is trained on
the whole training part with each seed; those of the first seed then recommend in turn, so that what else the machine does
falls on all alike. Beside seconds stand those of the processor, of all its cores together. All lists are measured by the
same lines; for 1,000 users they are compared with what implicit's ranking_metrics_at_k and Norn's evaluate say. Settings
come from --search (build/recommenders) or from peers/recommender_settings.json; Norn's are those that its recipes make of
the data."""
import argparse
import json
import os
import pathlib
import platform
import statistics
import sys
import tempfile
import time

os.environ.pop("OPENBLAS_CORETYPE", None)
import recipe_runs  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
for _build in ("cuda", "cpu"):
    if (recipe_runs.ROOT / "build" / _build / "python/norn/__init__.py").exists() and not os.environ.get("PYTHONPATH"):
        sys.path.insert(0, str(recipe_runs.ROOT / "build" / _build / "python"))
        break
try:
    import numpy as np
    import scipy.sparse as sp

    import norn
    import norn.implicit
    from held_out_items import Parts, metrics_of
    from implicit.evaluation import ranking_metrics_at_k
    from peers import implicit_models, settings_search
except ImportError as error:
    sys.exit(f"compare_recommenders: {error}; run it with build/venv/bin/python, after the preset is built")

TOP = 20
SAMPLE = 1000  # users whose lists are measured by others, too


class Own:
    """Norn's recommender by a recipe; where it is not to be trained, after one step."""

    def __init__(self, recipe, device, seed, untrained):
        self.device = "cuda" if device == "gpu" else "cpu"
        self.model = norn.Recommender(recipe=recipe, seed=seed, device=self.device)
        self.untrained = untrained

    def fit(self, matrix):
        if self.untrained:
            network = self._network_for(matrix)
            few = matrix[: network["Training"]["Batch"]]
            self.model = norn.Recommender(network=network, epochs=1, device=self.device).fit(few)
        else:
            self.model.fit(matrix)
        return self

    def _network_for(self, matrix):
        """The descriptor that the recipe makes of all data."""
        with tempfile.TemporaryDirectory() as folder:
            data = pathlib.Path(folder, "data.nc")
            norn.Dataset(matrix, name="data").to_netcdf(data)
            there = os.environ.get("NORN_BIN")
            programs = recipe_runs.Programs(pathlib.Path(there) if there else None)
            return recipe_runs.network_of(programs, self.model.get_params()["recipe"], data)

    def recommend(self, users, rows, count):
        return self.model.recommend(rows, count)[0]

    def as_implicit(self):
        """The same model behind implicit's methods."""
        folder = tempfile.TemporaryDirectory()
        self.model.save(pathlib.Path(folder.name, "model.nc"))
        return AsImplicit(norn.implicit.Autoencoder.load(pathlib.Path(folder.name, "model.nc"), device=self.device), folder)


class Popularity:
    """The items that most users have."""

    def fit(self, matrix):
        self.model = norn.most_popular(matrix)
        return self

    def recommend(self, users, rows, count):
        return self.model.recommend(rows, count)[0]


class AsImplicit:
    def __init__(self, model, folder):
        self.model, self.folder = model, folder  # the file must stand as long as the model

    def recommend(self, users, rows, count):
        return self.model.recommend(users, rows, N=count)[0]


def make(name, args, seed, settings):
    if name in settings:
        return implicit_models.Peer(name, settings[name], args.device, seed)
    if name == "popularity":
        return Popularity()
    return Own(name, args.device, seed, args.untrained)


def require_agreement(args, name, model, parts, lists):
    """Lists of the asked users; those of some are measured by implicit and by Norn, too. Exits where they say something else."""
    users = parts.some(SAMPLE)
    rows = parts.known[users]
    recall, ndcg, _ = metrics_of(lists[np.searchsorted(parts.asked, users)], parts.wanted[users])
    if isinstance(model, (Own, Popularity)):
        said = model.model.evaluate(rows, parts.wanted[users], k=[TOP])
        pairs = [(recall, said[f"recall@{TOP}"], 1e-6), (ndcg, said[f"ndcg@{TOP}"], 1e-6)]
        model = model.as_implicit() if isinstance(model, Own) else model
    else:
        pairs = []
    if isinstance(model, (AsImplicit, implicit_models.Peer)):
        mask = np.zeros(parts.wanted.shape[0], np.float32)
        mask[users] = 1
        wanted = sp.csr_matrix(sp.diags(mask) @ parts.wanted)
        wanted.eliminate_zeros()
        said = ranking_metrics_at_k(model.model, parts.known, wanted, K=TOP, show_progress=False)
        # A GPU's products have other bits in another batch, and lists another order where scores are as good as equal.
        pairs.append((ndcg, said["ndcg"], 1e-9 if args.device == "cpu" else 1e-3))
    for ours, theirs, tolerance in pairs:
        if abs(ours - theirs) > tolerance:
            sys.exit(f"compare_recommenders: {name}: {ours} here and {theirs} there of the same lists")


def lists_of(model, parts, users):
    return model.recommend(users, parts.known[users], TOP)


def search(args, data, out):
    """The peers' settings that are best on a part of the training part."""
    parts = Parts(*recipe_runs.hold_out(data.lines("train"), 0.2, 1))
    users = parts.some(args.search_users)
    journal = out / f"search.{data.name}.json"
    found = json.loads(journal.read_text(encoding="utf-8")) if journal.exists() else {}
    for kind in (name for name in args.models if name in settings_search.SPACES):
        def value_of(settings, kind=kind):
            model = implicit_models.Peer(kind, settings, args.device, 1).fit(parts.known)
            return sum(metrics_of(lists_of(model, parts, users), parts.wanted[users])[:2])

        def keep(tried, kind=kind):
            settings, value = tried[-1]
            best = max(tried, key=lambda one: one[1])[0]
            found[kind] = {"best": best, "tried": tried}
            journal.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            print(f"{kind} {settings}: {value:.4f}", file=sys.stderr, flush=True)

        tried = [tuple(one) for one in found.get(kind, {}).get("tried", [])]
        settings_search.search(kind, value_of, args.search_minutes * 60, tried, keep)
    print(json.dumps({kind: one["best"] for kind, one in found.items()}, indent=1))


def settings_of(data, device, out):
    """By kind of peer: those that were searched here, or those of the table in docs/user/performance.md."""
    journal = out / f"search.{data.name}.json"
    if journal.exists():
        return {kind: one["best"] for kind, one in json.loads(journal.read_text(encoding="utf-8")).items()}
    return json.loads((HERE / "peers/recommender_settings.json").read_text(encoding="utf-8"))[data.name][device]


def timed(work):
    """(seconds, the processor's seconds) of it."""
    started = time.monotonic(), time.process_time()
    work()
    return time.monotonic() - started[0], time.process_time() - started[1]


def train_all(args, parts, settings):
    """By name {"model": of the first seed, "seconds": [...], "metrics": [(recall, ndcg), ...]}."""
    results = {}
    for seed in args.seeds:
        for name in args.models:
            if name == "popularity" and name in results:
                continue
            model = make(name, args, seed, settings)
            seconds = timed(lambda model=model: model.fit(parts.known))
            one = results.setdefault(name, {"model": model, "seconds": [], "metrics": [], "users_per_second": []})
            if args.untrained and isinstance(model, Own):
                continue
            lists = lists_of(model, parts, parts.asked)
            require_agreement(args, name, model, parts, lists)
            one["seconds"].append(seconds)
            one["metrics"].append(metrics_of(lists, parts.wanted[parts.asked]))
            print(f"{name}, seed {seed}: {one['metrics'][-1]}, {seconds[0]:.1f} s", file=sys.stderr, flush=True)
    return results


def recommend_in_turn(args, parts, results):
    """Users a second of each model, all users (or --users of them) with one call, one model after the other."""
    models = {name: one["model"] for name, one in results.items() if name != "popularity"}
    if "sigmoid" in models:
        models["norn.implicit"] = models["sigmoid"].as_implicit()
        results["norn.implicit"] = results["sigmoid"] | {"users_per_second": []}
    everybody = np.arange(parts.known.shape[0])
    everybody = everybody[:: max(1, len(everybody) // (args.users or len(everybody)))]
    rows = parts.known[everybody]
    for turn in range(args.turns + 1):
        for name, model in models.items():
            seconds = timed(lambda model=model: model.recommend(everybody, rows, TOP))
            if turn > 0:  # the first one warms up
                results[name]["users_per_second"].append([len(everybody) / one for one in seconds])


SHOWN = {"popularity": "popularity", "als": "implicit, ALS", "bpr": "implicit, BPR", "sigmoid": "Norn, recipe sigmoid",
         "softmax": "Norn, recipe softmax", "norn.implicit": "Norn, sigmoid, by norn.implicit"}


def row_of(name, one, settings):
    quality = " / ".join(f"{statistics.mean(pair[at] for pair in one['metrics']):.4f}"
                         for at in (0, 1)) if one["metrics"] else "not trained"
    speeds = []
    for at in (0, 1):
        of_turns = [turn[at] for turn in one["users_per_second"]]
        speeds.append(f"{statistics.median(of_turns):,.0f} ({min(of_turns):,.0f}-{max(of_turns):,.0f})" if of_turns else "")
    about = ", ".join(f"{key} {value}" for key, value in settings.get(name, {}).items())
    is_trained = name not in ("popularity", "norn.implicit") and one["seconds"]
    seconds = [f"{statistics.median(pair[at] for pair in one['seconds']):.1f}" if is_trained else "" for at in (0, 1)]
    return f"| {SHOWN[name]} | {quality} | {' | '.join(speeds)} | {' | '.join(seconds)} | {about} |"


def write_table(args, data, parts, results, settings, out):
    users, items = parts.known.shape
    print(f"{data.name}: {users:,} users, {items:,} items, {parts.known.nnz:,} entries; {args.device}, {len(args.seeds)} seeds, "
          f"{args.turns} turns; {platform.processor() or platform.machine()}, {os.cpu_count()} cores\n")
    print(f"| | Recall@{TOP} / NDCG@{TOP} | users/s | a CPU second | training s | CPU s | settings |\n|---|---|---|---|---|---|---|")
    for name in SHOWN:
        if name in results:
            print(row_of(name, results[name], settings), flush=True)
    told = {name: {key: value for key, value in one.items() if key != "model"} for name, one in results.items()}
    (out / f"results.{data.name}.{args.device}.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def arguments():
    known = [name for name in SHOWN if name != "norn.implicit"]

    def names(text):
        if unknown := [name for name in text.split(",") if name not in known]:
            raise argparse.ArgumentTypeError(f"there is no model {unknown[0]}; known: {','.join(known)}")
        return text.split(",")

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="debian_packages, gowalla, or a set that recipe_sets.py made")
    recipe_runs.add_folder_option(parser)
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu", help="of all models [%(default)s]")
    parser.add_argument("--models", type=names, default=known, help=f"[{','.join(known)}]")
    parser.add_argument("--seeds", type=lambda text: [int(word) for word in text.split(",")], default=[1], help="[1]")
    parser.add_argument("--turns", type=int, default=5, help="of recommending, after one that warms up [%(default)s]")
    parser.add_argument("--users", type=int, help="so many in a turn, evenly spread [all]")
    parser.add_argument("--untrained", action="store_true",
                        help="Norn's models take one step: their speed alone, where training takes too long")
    parser.add_argument("--search", action="store_true", help="choose the peers' settings, and end")
    parser.add_argument("--search-minutes", type=float, default=60, help="for each peer, at most [%(default)s]")
    parser.add_argument("--search-users", type=int, default=10000, help="of whom lists are compared in a search [%(default)s]")
    parser.add_argument("--out", type=pathlib.Path, default=recipe_runs.ROOT / "build/recommenders", help="[%(default)s]")
    return parser.parse_args()


def main():
    args = arguments()
    known = recipe_runs.data_from(args)
    if args.data not in known:
        sys.exit(f"compare_recommenders: there are no data {args.data}; known: {', '.join(known)}")
    data = known[args.data]
    args.out.mkdir(parents=True, exist_ok=True)
    if args.search:
        search(args, data, args.out)
        return
    parts = Parts(data.lines("train"), data.lines("test"))
    settings = settings_of(data, args.device, args.out)
    results = train_all(args, parts, settings)
    recommend_in_turn(args, parts, results)
    write_table(args, data, parts, results, settings, args.out)


if __name__ == "__main__":
    main()
