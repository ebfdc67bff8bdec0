#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the trainer's recipes reach on data sets that they have not been told of: each is trained on the whole training part with several
seeds and measured on the test part. Prints means over seeds, the standard deviation in brackets, seconds, and what `auto` chose.

  tests/bench/quality_table.py ../data/debtags ../data/yelp2018             every recipe, three seeds
  tests/bench/quality_table.py ../data/* --recipes auto --budget 10 --device cuda
  tests/bench/quality_table.py ../data/movielens                            u1.base, u1.test and so on are sets of their own

A data set is a folder of train.txt and test.txt, or of u1.base and u1.test and so on (user, item and rating, with tabs between; the
ratings from --least on are ones), each also as .gz or .xz. Recall and NDCG are of the first 20, MAP of the first 10. Of folds the table
has the mean over folds and seeds. What each run chose, and its journal (the trainer's record), stay in --out as NAME.RECIPE.SEED.json;
runs that are there are not made again. EASE is made once, as it does not depend on the seed. Needs importer, trainer and evaluator."""
import argparse
import json
import pathlib
import shutil
import statistics
import sys
import time

import recipe_runs

METRICS = (("Recall", 20), ("NDCG", 20), ("MAP", 10))


class Folds(recipe_runs.Data):
    """One of the folds of MovieLens as lines of an example each."""

    def __init__(self, folder, fold, least):
        super().__init__(f"{folder.name}.{fold}", "ratings", folder)
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
            rows.append((folder.name, [Folds(folder, fold, args.least) for fold in folds]))
        else:
            rows.append((folder.name, [recipe_runs.Data(folder.name, folder.name, folder)]))
    return rows


def measured(programs, model, data):
    values = {}
    for top in sorted({top for _, top in METRICS}):
        report = json.loads(programs.run("evaluator", "--model", model, "--data", data, "--top", top, "--format", "json"))
        values |= {f"{name}@{top}": report["model"][0][name] for name, of in METRICS if of == top}
    return values


def one_run(programs, args, name, files, recipe, seed):
    """What is kept of a run: its metrics, seconds and the trainer's record."""
    kept = args.out / f"{name}.{recipe}.{seed}.json"
    if kept.exists():
        return json.loads(kept.read_text(encoding="utf-8"))
    folder = args.out / f"{name}.{recipe}.{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model, record = folder / "model.nc", folder / "run"
    options = ["--budget", args.budget] if recipe == "auto" else []
    started = time.monotonic()
    programs.run("trainer", "--recipe", recipe, "-i", files[0], "-n", model, "--seed", seed, "--run-dir", record, *options)
    run = {"seconds": time.monotonic() - started} | measured(programs, model, files[1])
    run["chosen"] = json.loads((record / "run.json").read_text(encoding="utf-8")).get("chosen")
    kept.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    shutil.rmtree(folder)
    return run


def chosen_by(run):
    """The settings that the recipe chose for itself, in words; None of a recipe that chooses nothing."""
    chosen = run["chosen"]
    if not chosen or not chosen["candidates"]:
        return chosen and chosen["not_searched"]
    candidate = chosen["candidates"][chosen["chosen"]]
    if not chosen["chosen_with_ease"]:
        return candidate["settings"]
    beside = candidate["with_ease"]
    return f"{candidate['settings']}, and {beside['weight']:g} times ease, lambda {beside['lambda']:g}"


def row(name, recipe, runs):
    def cell(metric):
        values = [run[metric] for run in runs]
        spread = f" ({statistics.stdev(values):.4f})" if len(values) > 1 else ""
        return f"{statistics.mean(values):.4f}{spread}"

    said = sorted({chosen_by(run) for run in runs} - {None})
    cells = [name, recipe, *(cell(f"{metric}@{top}") for metric, top in METRICS),
             f"{statistics.median(run['seconds'] for run in runs):.1f}", "; ".join(said)]
    return f"| {' | '.join(cells)} |"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=pathlib.Path, help="of data sets")
    parser.add_argument("--recipes", default="sigmoid,softmax,ease,auto", help="of the trainer [%(default)s]")
    parser.add_argument("--seeds", default="1,2,3", help="[%(default)s]")
    parser.add_argument("--budget", type=float, default=6, help="of auto [%(default)s]")
    parser.add_argument("--least", type=float, default=0, help="ratings from this one on are ones [%(default)s: all]")
    parser.add_argument("--out", type=pathlib.Path, default=recipe_runs.ROOT / "build/quality", help="[%(default)s]")
    recipe_runs.add_program_options(parser)
    return parser.parse_args()


def main():
    args = arguments()
    programs = recipe_runs.Programs(args.bin, args.device, args.threads, args.precision)
    titles = " | ".join(f"{metric}@{top}" for metric, top in METRICS)
    print(f"| data | recipe | {titles} | seconds | chosen |\n|---|---|{'---|' * len(METRICS)}---|---|", flush=True)
    for name, parts in data_sets(args):
        files = {data.name: programs.import_parts(data.datasets, args.out / data.name, data.lines("train"), data.lines("test"))
                 for data in parts}
        for recipe in args.recipes.split(","):
            seeds = args.seeds.split(",")[:1 if recipe == "ease" else None]
            try:
                runs = [one_run(programs, args, data.name, files[data.name], recipe, seed) for data in parts for seed in seeds]
            except recipe_runs.ProgramFailed as failed:
                print(f"| {name} | {recipe} | " + " | " * len(METRICS) + f"| {str(failed).strip().splitlines()[-1]} |", flush=True)
            else:
                print(row(name, recipe, runs), flush=True)


if __name__ == "__main__":
    main()
