#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the trainer's recipes reach on data sets that they have not been told of, and peers beside them: each is trained on the whole
training part with several seeds and measured on the test part. Prints means over seeds, the standard deviation in brackets, seconds, what
`auto` chose, and a peer's settings.

  tests/bench/quality_table.py ../data/debtags ../data/yelp2018             every recipe, three seeds
  tests/bench/quality_table.py ../data/* --recipes auto --budget 10 --device cuda
  tests/bench/quality_table.py ../data/movielens --least 0,4                u1.base, u1.test and so on are sets of their own
  tests/bench/quality_table.py ../data/* --peers popularity,ease,sansa,als,lightfm --python ../venv/bin/python --published

A data set is a folder of train.txt and test.txt, or of u1.base and u1.test and so on (user, item and rating, with tabs between; the
ratings from --least on are ones), each also as .gz or .xz. Recall and NDCG are of the first 20, MAP of the first 10. Of folds the table
has the mean over folds, and the standard deviation over seeds of that. What each run chose stays in --out as NAME.RECIPE.SEED.json; runs
that are there are not made again. What does not depend on the seed is made once. Needs importer, trainer and evaluator.

Peers (peers/quality_peers.py) run by --python, which has NumPy, SciPy, and those of the packages implicit, sansa and lightfm that are
asked for. They rank the same items of the same users: `--peers ease` and the recipe `ease` differ by lambda alone. Their settings are
those of peers/recommender_settings.json, or by --search SECONDS the best by NDCG@20 on a fifth of every training line (of the first
fold), which stay in --out as NAME.PEER.settings.json."""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

import recipe_runs

METRICS = (("Recall", 20), ("NDCG", 20), ("MAP", 10))
PEERS = pathlib.Path(__file__).resolve().parent / "peers"
ONCE = ("ease", "popularity", "sansa")  # do not depend on the seed
SHOWN = {"popularity": "popularity", "ease": "EASE", "sansa": "SANSA", "als": "ALS (implicit)", "lightfm": "LightFM"}
MOST_SAID = 3  # different choices that a row tells


class Folds(recipe_runs.Data):
    """One of the folds of MovieLens as lines of an example each."""

    def __init__(self, row, folder, fold, least):
        super().__init__(f"{row}.{fold}", "ratings", folder)
        self.fold, self.least = fold, least

    def lines(self, part):
        ending = {"train": "base", "test": "test"}[part]
        opened = recipe_runs.opened(self.folder / f"{self.fold}.{ending}")
        if opened is None:
            sys.exit(f"quality_table: there is no {self.folder / self.fold}.{ending}")
        items = {}
        with opened as text:
            for line in text:
                user, item, rating = line.split("\t")[:3]
                if float(rating) >= self.least:
                    items.setdefault(user, []).append(item)
        return [f"{user}\t{':'.join(known)}" for user, known in items.items()]


def data_sets(args):
    """[(name of the row, [data])]."""
    rows = []
    for folder in args.folders:
        folds = sorted({path.name.split(".")[0] for path in folder.glob("*.base*")})
        if folds:
            for least in args.least:
                row = f"{folder.name}_from_{least:g}" if least else folder.name
                rows.append((row, [Folds(row, folder, fold, least) for fold in folds]))
        else:
            rows.append((folder.name, [recipe_runs.Data(folder.name, folder.name, folder)]))
    return rows


def measured(programs, model, data):
    values = {}
    for top in sorted({top for _, top in METRICS}):
        report = json.loads(programs.run("evaluator", "--model", model, "--data", data, "--top", top, "--format", "json"))
        values |= {f"{name}@{top}": report["model"][0][name] for name, of in METRICS if of == top}
    return values


def kept_run(path):
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def keep(path, run):
    path.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    return run


def one_run(programs, args, name, files, recipe, seed):
    """What is kept of a run: its metrics, seconds, the device and what the recipe chose."""
    kept = args.out / f"{name}.{recipe}.{seed}.json"
    if known := kept_run(kept):
        return known
    folder = args.out / f"{name}.{recipe}.{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model, record = folder / "model.nc", folder / "run"
    options = ["--budget", args.budget] if recipe == "auto" else []
    started = time.monotonic()
    programs.run("trainer", "--recipe", recipe, "-i", files[0], "-n", model, "--seed", seed, "--run-dir", record, *options)
    run = {"seconds": time.monotonic() - started} | measured(programs, model, files[1])
    said = json.loads((record / "run.json").read_text(encoding="utf-8"))
    shutil.rmtree(folder)
    return keep(kept, run | {"device": said["device"], "chosen": said.get("chosen")})


def ask_peer(args, folder, peer, *options):
    """What peers/quality_peers.py says of the folder of an import."""
    threads = ["--threads", args.threads] if args.threads else []
    done = subprocess.run([args.python, "-B", PEERS / "quality_peers.py", folder, peer, *map(str, [*options, *threads])],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise recipe_runs.ProgramFailed(f"{peer} failed:\n{done.stderr[-2000:]}")
    said = json.loads(done.stdout.splitlines()[-1])
    if "missing" in said:
        raise recipe_runs.ProgramFailed(f"left out: {said['missing']}")
    return said


def peer_settings(args, row, parts, peer):
    """Those that were searched, or those of peers/recommender_settings.json; None where it has none."""
    kept = args.out / f"{row}.{peer}.settings.json"
    if args.search is not None and peer != "popularity" and not kept.exists():
        folder = args.out / f"{row}.search"
        folder.mkdir(parents=True, exist_ok=True)
        recipe_runs.write_parts(folder, *recipe_runs.hold_out(parts[0].lines("train"), 0.2, 1))
        keep(kept, ask_peer(args, folder, peer, "--search", args.search))
    if known := kept_run(kept):
        return known
    settings = kept_run(PEERS / "recommender_settings.json").get(row, {})
    on_gpu = settings.get("gpu", {}) if args.device == "cuda" and peer == "als" else {}
    return (settings.get("cpu", {}) | on_gpu).get(peer)


def peer_run(args, name, peer, seed, settings):
    kept = args.out / f"{name}.peer_{peer}.{seed}.json"
    if known := kept_run(kept):
        return known
    device = "gpu" if args.device == "cuda" and peer == "als" else "cpu"
    options = ["--settings", json.dumps(settings)] if settings else []
    run = ask_peer(args, args.out / name, peer, "--seed", seed, "--device", device, *options)
    return keep(kept, run | {"device": "cuda" if device == "gpu" else "cpu", "chosen": None})


def chosen_by(run):
    """A peer's settings, or those that the recipe chose for itself, in words; None of a recipe that chooses nothing."""
    if settings := run.get("settings"):
        return ", ".join(f"{name} {value}" for name, value in settings.items())
    chosen = run["chosen"]
    if not chosen or not chosen["candidates"]:
        return chosen and chosen["not_searched"]
    candidate = chosen["candidates"][chosen["chosen"]]
    if not chosen["chosen_with_ease"]:
        return candidate["settings"]
    beside = candidate["with_ease"]
    return f"{candidate['settings']}, and {beside['weight']:g} times ease, lambda {beside['lambda']:g}"


def seconds_of(runs):
    """The median on each device, in words."""
    devices = sorted({run["device"] for run in runs})
    return ", ".join(f"{statistics.median(run['seconds'] for run in runs if run['device'] == device):.1f} {device}" for device in devices)


def row_of(name, model, seeds, beside):
    """(NDCG, row); seeds: the runs of each seed, one a fold; beside: runs whose seconds count alone."""
    def values(metric):
        return [statistics.mean(run[metric] for run in runs) for runs in seeds]

    def cell(metric):
        spread = f" ({statistics.stdev(values(metric)):.4f})" if len(seeds) > 1 else ""
        return f"{statistics.mean(values(metric)):.4f}{spread}"

    runs = [run for of_seed in seeds for run in of_seed]
    said = sorted({chosen_by(run) for run in runs} - {None})
    cells = [name, model, *(cell(f"{metric}@{top}") for metric, top in METRICS),
             seconds_of(runs + beside), "; ".join(said) if len(said) <= MOST_SAID else f"{len(said)} different ones, see --out"]
    return statistics.mean(values("NDCG@20")), f"| {' | '.join(cells)} |"


def published_rows(name):
    """Of what others have published of the set, with the source."""
    for one in kept_run(PEERS / "published_quality.json").get(name, []):
        cells = [f"{one[f'{metric}@{top}']:.4f}" if f"{metric}@{top}" in one else "" for metric, top in METRICS]
        yield one["NDCG@20"], f"| {name} | {one['model']}, published | {' | '.join(cells)} | | {one['source']} |"


def rows_of_set(programs, args, name, parts):
    """Yields (NDCG, row) of the set; what could not be made has none, -1."""
    files = {data.name: programs.import_parts(data.datasets, args.out / data.name, data.lines("train"), data.lines("test"))
             for data in parts}

    def by_recipe(recipe):
        return lambda data, seed: one_run(programs, args, data.name, files[data.name], recipe, seed)

    def by_peer(peer):
        settings = peer_settings(args, name, parts, peer)
        return lambda data, seed: peer_run(args, data.name, peer, seed, settings)

    models = [(by_recipe, recipe, f"`--recipe {recipe}`") for recipe in args.recipes]
    models += [(by_peer, peer, SHOWN.get(peer, peer)) for peer in args.peers]
    for runner, model, shown in models:
        try:
            run = runner(model)
            seeds = [[run(data, seed) for data in parts] for seed in args.seeds[:1 if model in ONCE else None]]
        except recipe_runs.ProgramFailed as failed:
            yield -1, f"| {name} | {shown} | {' | ' * len(METRICS)}| {str(failed).strip().splitlines()[-1]} |"
        else:
            found = [args.beside.glob(f"{data.name}.{model}.*.json") for data in parts] if args.beside else []
            yield row_of(name, shown, seeds, [kept_run(path) for paths in found for path in paths])
    if args.published:
        yield from published_rows(name)


def arguments():
    def words(text):
        return [word for word in text.split(",") if word]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=pathlib.Path, help="of data sets")
    parser.add_argument("--recipes", type=words, default=["sigmoid", "softmax", "ease", "auto"],
                        help="of the trainer [sigmoid,softmax,ease,auto]")
    parser.add_argument("--peers", type=words, default=[], help="of popularity,ease,sansa,als,lightfm [none]")
    parser.add_argument("--python", default=sys.executable, help="that the peers run by [this one]")
    parser.add_argument("--search", type=float, metavar="SECONDS", help="for the settings of each peer, at most")
    parser.add_argument("--published", action="store_true", help="also rows of peers/published_quality.json, for folders of the same names")
    parser.add_argument("--beside", type=pathlib.Path, metavar="OUT", help="of another machine: tell the seconds of its runs, too")
    parser.add_argument("--best-first", action="store_true", help="order the rows of a set by NDCG")
    parser.add_argument("--seeds", type=words, default=["1", "2", "3"], help="[1,2,3]")
    parser.add_argument("--budget", type=float, default=6, help="of auto [%(default)s]")
    parser.add_argument("--least", type=lambda text: [float(word) for word in words(text)], default=[0.0],
                        help="ratings from this one on are ones; several are sets of their own [0: all]")
    parser.add_argument("--out", type=pathlib.Path, default=recipe_runs.ROOT / "build/quality", help="[%(default)s]")
    recipe_runs.add_program_options(parser)
    return parser.parse_args()


def main():
    args = arguments()
    programs = recipe_runs.Programs(args.bin, args.device, args.threads, args.precision)
    titles = " | ".join(f"{metric}@{top}" for metric, top in METRICS)
    print(f"| data | model | {titles} | seconds | chosen |\n|---|---|{'---|' * len(METRICS)}---|---|", flush=True)
    for name, parts in data_sets(args):
        rows = rows_of_set(programs, args, name, parts)
        for _, row in sorted(rows, key=lambda one: -one[0]) if args.best_first else rows:
            print(row, flush=True)


if __name__ == "__main__":
    main()
