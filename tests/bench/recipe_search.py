#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks whether better settings than a recipe's are to be found, without looking at the test part: trains on a part of every
example's features and measures on the rest.

  tests/bench/recipe_search.py sigmoid                               what trainer --recipe makes, on every set that is there
  tests/bench/recipe_search.py sigmoid --sets gowalla_dense --candidates 60 --jobs 4
  tests/bench/recipe_search.py configs/recipes/gowalla_softmax.json --sets gowalla
  tests/bench/recipe_search.py softmax --grid rate=1,2,4 --grid epochs=1,2,4     every product of factors instead
  tests/bench/recipe_search.py sigmoid --sets gowalla --only wide --change 'wide:{"Layers":{"Hidden":{"N":4096}}}'

A change is what differs from the recipe: keys of the network, and of layers by their names; null removes a key. Candidates
are the recipe, its neighbours (one setting larger or smaller) and networks with several settings drawn at random around it.
A training that fails is told and left out. For each set the last line says how far the recipe stays behind the best candidate,
and how high a cost rose above a lower one before it, after the first 5 % of the steps. The best of many by one seed owes a part of
that to the seed: --again 3 trains both with three other seeds and says that figure too. Sets are debian_packages, gowalla and those that
tests/bench/recipe_sets.py made. Needs the programs importer and trainer; tests/bench/recipes_table.py measures recipes on the test part."""
import argparse
import concurrent.futures
import itertools
import json
import math
import pathlib
import random
import re
import shutil
import statistics
import sys

import recipe_runs


def change(network, changes):
    """Puts changes into a descriptor, in place."""
    for key, value in changes.items():
        if value is None:
            network.pop(key, None)
        elif key == "Layers":
            for name, of_layer in value.items():
                change(next(layer for layer in network["Layers"] if layer["Name"] == name), of_layer)
        elif isinstance(value, dict) and isinstance(network.get(key), dict):
            change(network[key], value)
        else:
            network[key] = value


def changed(network, changes):
    copy = json.loads(json.dumps(network))
    change(copy, changes)
    return copy


class Settings:
    """What a search changes in a network: a name, the value, and how to say another one."""

    def __init__(self, network):
        hidden = [layer for layer in network["Layers"] if layer["Kind"] == "Hidden"]
        inputs = [layer for layer in network["Layers"] if layer.get("InputWeighting")]
        training, self.factors, self.shares = network["Training"], [], []
        whole = lambda x: max(1, round(x))
        self.factors.append(("rate", training["Alpha"], lambda x: {"Training": {"Alpha": x}}))
        self.factors.append(("epochs", training["Epochs"], lambda x: {"Training": {"Epochs": whole(x)}}))
        # As many steps of another batch.
        self.factors.append(("batch", training["Batch"], lambda x: {"Training": {
            "Batch": whole(x), "Epochs": whole(training["Epochs"] * x / training["Batch"])}}))
        if "DeltaBoost" in network:
            self.factors.append(("boost", network["DeltaBoost"]["one"], lambda x: {"DeltaBoost": {"one": x}}))
        for layer in hidden:
            self.factors.append((layer["Name"], layer["N"], lambda x, name=layer["Name"]: {"Layers": {name: {"N": whole(x)}}}))
            if "pDropout" in layer:
                self.shares.append(("dropout", layer["pDropout"],
                                    lambda x, name=layer["Name"]: {"Layers": {name: {"pDropout": x}}}))
        for layer in inputs:
            weighting = layer["InputWeighting"]
            usual = 0.5 if weighting["Scheme"] == "InversePopularity" else 1
            self.factors.append(("exponent", weighting.get("Exponent", usual), lambda x, name=layer["Name"]: {
                "Layers": {name: {"InputWeighting": {"Exponent": x}}}}))
        if "Denoising" in network:
            self.shares.append(("denoising", network["Denoising"]["p"], lambda x: {"Denoising": {"p": x}}))

    def neighbours(self):
        found = {"recipe": {}}
        for factor in (0.5, 2):
            for name, value, said in self.factors:
                found[f"{name} x {factor:g}"] = said(round(value * factor, 7))
        for more in (-0.15, 0.15):
            for name, value, said in self.shares:
                found[f"{name} {more:+g}"] = said(round(min(0.9, max(0.05, value + more)), 4))
        return found

    def products(self, network, grid):
        """A candidate for every choice of one factor for each setting of the grid, {name: [factor]}; a share is multiplied, too."""
        known = {name: (value, said) for name, value, said in self.factors + self.shares}
        for name in grid:
            if name not in known:
                sys.exit(f"recipe_search: --grid knows {', '.join(known)}, not {name}")
        found = {}
        for chosen in itertools.product(*grid.values()):
            copy = json.loads(json.dumps(network))
            for name, factor in zip(grid, chosen):
                value, said = known[name]
                change(copy, said(float(f"{value * factor:.4g}")))
            found[" ".join(f"{name} x {factor:g}" for name, factor in zip(grid, chosen))] = copy
        return found

    def drawn(self, network, count, seed):
        """Three settings at random, each by up to a factor of three or a difference of 0.25."""
        chooser, found = random.Random(seed), {}
        for number in range(count):
            copy = json.loads(json.dumps(network))
            for name, value, said in chooser.sample(self.factors + self.shares, 3):
                is_share = any(name == share for share, _, _ in self.shares)
                other = (min(0.85, max(0.0, value + chooser.uniform(-0.25, 0.25))) if is_share
                         else value * math.exp(chooser.uniform(-1, 1) * math.log(3)))
                change(copy, said(float(f"{other:.4g}")))
            found[f"drawn {number + 1}"] = copy
        return found


def rise(costs):
    """How often the largest cost after the first 5 % of the epochs is that of a smaller one before it."""
    lowest, worst = math.inf, 1.0
    for cost in costs[max(1, math.ceil(len(costs) * 0.05)) - 1:]:
        cost = math.inf if cost is None else cost
        lowest = min(lowest, cost)
        worst = max(worst, cost / lowest)
    return worst


def measure(programs, folder, network, files):
    """{recall, ndcg, rise, seconds} of a training; its folder is removed."""
    epochs = network["Training"]["Epochs"]
    shutil.rmtree(folder, ignore_errors=True)
    _, seconds = programs.train(folder, network, files[0], "--checkpoint-epochs", 0, "--run-dir", folder / "run",
                                "--validation-input", files[1], "--validate-every", epochs, "--metrics-at", recipe_runs.TOP)
    events = [json.loads(line) for line in (folder / "run/log.jsonl").read_text(encoding="utf-8").splitlines()]
    metrics = next((event["metrics"][0] for event in events if event["event"] == "eval"), None)
    if metrics is None:
        raise recipe_runs.ProgramFailed(f"{folder}/run/log.jsonl has no validation, of a training of {epochs} epochs")
    shutil.rmtree(folder)
    return {"recall": metrics["recall"], "ndcg": metrics["ndcg"], "seconds": seconds,
            "rise": rise([event["cost"] for event in events if event["event"] == "epoch"])}


def candidates_of(network, args):
    settings = Settings(network)
    if args.grid:
        return {"recipe": network, **settings.products(network, dict(args.grid))}
    candidates = {name: changed(network, changes) for name, changes in settings.neighbours().items()}
    candidates.update(settings.drawn(network, max(0, args.candidates - len(candidates)), args.seed))
    for text in args.change:
        name, _, changes = text.partition(":")
        candidates[name] = changed(network, json.loads(changes))
    names = args.only.split(",") if args.only else list(candidates)[:max(args.candidates, 1)] + [
        text.partition(":")[0] for text in args.change]
    for name in names:
        if name not in candidates:
            sys.exit(f"recipe_search: no candidate '{name}'; there are: {', '.join(candidates)}")
    return {name: candidates[name] for name in dict.fromkeys(["recipe", *names])}


def score(result):
    return result["recall"] + result["ndcg"]


def best_of(results):
    return max(results, key=lambda key: score(results[key]))


def again(name, best, results):
    """What `results`, [{candidate: result}] of other seeds each, say of the recipe and the best."""
    results = [result for result in results if {"recipe", best} <= set(result)]
    if not results:
        return f"{name:<20} with other seeds: none came to its end"
    means = {candidate: {metric: statistics.fmean(result[candidate][metric] for result in results) for metric in ("recall", "ndcg")}
             for candidate in ("recipe", best)}
    scores = [score(result["recipe"]) for result in results]
    spread = (max(scores) - min(scores)) / score(means["recipe"])
    return (f"{name:<20} with {len(results)} other seeds: recipe {means['recipe']['recall']:.4f} / {means['recipe']['ndcg']:.4f}, {best} "
            f"{means[best]['recall']:.4f} / {means[best]['ndcg']:.4f}: {100 * (1 - score(means['recipe']) / score(means[best])):.1f} % "
            f"behind; the recipe's spread is {100 * spread:.1f} %")


def summary(name, results):
    if "recipe" not in results:
        return f"{name:<20} the recipe itself failed"
    best = best_of(results)
    behind = 1 - score(results["recipe"]) / score(results[best])
    return (f"{name:<20} recipe {results['recipe']['recall']:.4f} / {results['recipe']['ndcg']:.4f}, best of {len(results)} "
            f"{results[best]['recall']:.4f} / {results[best]['ndcg']:.4f} ({best}): {100 * behind:.1f} % behind; "
            f"the recipe's cost rose to {results['recipe']['rise']:.2f}")


def factors(text):
    """("rate", [1, 2]) of rate=1,2."""
    name, _, numbers = text.partition("=")
    return name, [float(number) for number in numbers.split(",")]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", help="sigmoid, softmax, or a file of a network")
    recipe_runs.add_common_options(parser)
    parser.add_argument("--sets", help="with commas between [all that are there]")
    parser.add_argument("--candidates", type=int, default=20, help="trainings of each set [%(default)s]")
    parser.add_argument("--change", action="append", default=[], metavar="NAME:JSON", help="one more candidate")
    parser.add_argument("--grid", action="append", default=[], type=factors, metavar="NAME=F,F,...",
                        help="a setting (rate, epochs, batch, boost, Hidden, dropout, denoising) and its factors")
    parser.add_argument("--only", help="these candidates beside the recipe, with commas between [all]")
    parser.add_argument("--held-out", type=float, default=0.2, help="share of each example's line [%(default)s]")
    parser.add_argument("--seed", type=int, default=1, help="of the split and the candidates [%(default)s]")
    parser.add_argument("--again", type=int, default=0, metavar="N", help="train the recipe and the best with N other seeds [0]")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time [%(default)s]")
    parser.add_argument("--out", type=pathlib.Path, default=recipe_runs.ROOT / "build/recipe_search", help="[%(default)s]")
    return parser.parse_args()


def search(programs, args, data):
    """Submits the trainings of all sets; prints each when it is done, and a line a set in the end."""
    work = []
    for name, one in data.items():
        parts = recipe_runs.hold_out(one.lines("train"), args.held_out, args.seed)
        files = programs.import_parts(one.datasets, args.out / name, *parts)
        network = recipe_runs.network_of(programs, args.recipe, files[0])
        # By number: "dropout -0.15" and "dropout +0.15" are one word to a file system.
        work += [(name, candidate, found, files, args.out / name / f"{number}_{re.sub(r'[^0-9A-Za-z]+', '_', candidate)}")
                 for number, (candidate, found) in enumerate(candidates_of(network, args).items())]
    results = {name: {} for name in data}
    others = {name: [{} for _ in range(args.again)] for name in data}

    def one_training(item, seed=0):
        name, candidate, network, files, folder = item
        if seed:
            network = changed(network, {"Training": {"Seed": seed}})
            folder = folder.with_name(f"{folder.name}_seed{seed}")
        try:
            result = measure(programs, folder, network, files)
        except recipe_runs.ProgramFailed as failure:
            print(f"{name:<20}{candidate:<18} FAILED, left out: {str(failure).strip().splitlines()[-1]}", flush=True)
            return
        (others[name][seed - 1] if seed else results[name])[candidate] = result
        print(f"{name:<20}{candidate:<18}{result['recall']:>8.4f}{result['ndcg']:>8.4f}{result['rise']:>7.2f}"
              f"{result['seconds']:>7.1f} s", flush=True)

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(one_training, work))
        compared = [item for item in work if results[item[0]] and item[1] in ("recipe", best_of(results[item[0]]))]
        list(pool.map(lambda turn: one_training(*turn), [(item, seed + 1) for item in compared for seed in range(args.again)]))
    for name in data:
        print(summary(name, results[name]))
        if args.again and results[name]:
            print(again(name, best_of(results[name]), others[name]))
    all_results = {"searched": results, "again": others}
    (args.out / "results.json").write_text(json.dumps(all_results, indent=1) + "\n", encoding="utf-8")


def main():
    args = arguments()
    programs, known = recipe_runs.from_options(args)
    chosen = args.sets.split(",") if args.sets else [name for name, data in known.items() if data.is_there()]
    for name in chosen:
        if name not in known:
            sys.exit(f"recipe_search: there are no data '{name}'; known: {', '.join(known)}")
    search(programs, args, {name: known[name] for name in chosen})


if __name__ == "__main__":
    main()
