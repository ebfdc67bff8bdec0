#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains recipes on the whole of their training part with several seeds, measures them on the test part, and prints the
table of docs/user/recipes.md: means, the spread in brackets (largest minus smallest), and seconds of a training.

  tests/bench/recipes_table.py                                       every recipe whose data are there
  tests/bench/recipes_table.py debian_packages_softmax --seeds 1,2   one of them, two seeds
  tests/bench/recipes_table.py --jobs 3 --device cuda                three trainings at a time

Needs the programs importer, trainer and evaluator. The recipes' settings are chosen by recipe_search.py, which does not
look at the test part."""
import argparse
import concurrent.futures
import json
import pathlib
import shutil
import statistics
import sys
import threading

import recipe_runs


def one_run(programs, out, recipe, seed, files):
    """(recall, ndcg, seconds); the model is removed."""
    folder = out / f"{recipe.stem}.seed{seed}"
    model, seconds = programs.train(folder, recipe_runs.read_network(recipe), files[0], "--seed", seed,
                                    "--checkpoint-epochs", 0)
    recall, ndcg = programs.metrics(model, files[1])
    shutil.rmtree(folder)
    return recall, ndcg, seconds


def row(name, runs):
    cells = []
    for column in (0, 1):
        values = [run[column] for run in runs]
        cells.append(f"{statistics.mean(values):.4f} ({max(values) - min(values):.4f})")
    return f"| {name} | {cells[0]} | {cells[1]} | {statistics.median(run[2] for run in runs):.0f} |"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", help="names of files in configs/recipes [all whose data are there]")
    recipe_runs.add_common_options(parser)
    parser.add_argument("--seeds", default="1,2,3,4,5", help="[%(default)s]")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time [%(default)s]")
    parser.add_argument("--out", type=pathlib.Path, default=recipe_runs.ROOT / "build/recipes", help="[%(default)s]")
    return parser.parse_args()


def main():
    args = arguments()
    programs, known = recipe_runs.from_options(args)
    recipes = sorted(recipe_runs.RECIPES.glob("*.json"))
    if args.recipes:
        recipes = [recipe_runs.RECIPES / f"{pathlib.Path(name).stem}.json" for name in args.recipes]
    recipes = [recipe for recipe in recipes if (data := recipe_runs.data_of(recipe, known)) and
               (args.recipes or list(data.folder.glob("train.txt*")))]
    if not recipes:
        sys.exit("recipes_table: none of these recipes has data here")
    files = {}
    for recipe in recipes:
        data = recipe_runs.data_of(recipe, known)
        if data.name not in files:
            files[data.name] = programs.import_parts(data.datasets, args.out / data.name, data.lines("train"),
                                                     data.lines("test"))
    seeds, runs, lock = args.seeds.split(","), {}, threading.Lock()
    print(f"| recipe | Recall@{recipe_runs.TOP} | NDCG@{recipe_runs.TOP} | seconds |\n|---|---|---|---|", flush=True)

    def work(recipe, seed):
        run = one_run(programs, args.out, recipe, seed, files[recipe_runs.data_of(recipe, known).name])
        with lock:
            of_recipe = runs.setdefault(recipe.stem, {})
            of_recipe[seed] = run
            if len(of_recipe) == len(seeds):
                print(row(recipe.stem, list(of_recipe.values())), flush=True)
            (args.out / "runs.json").write_text(json.dumps(runs, indent=1, sort_keys=True) + "\n", encoding="utf-8")

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for done in [pool.submit(work, recipe, seed) for recipe in recipes for seed in seeds]:
            done.result()


if __name__ == "__main__":
    main()
