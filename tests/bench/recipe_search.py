#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds the settings of a recipe without looking at the test part: trains on a part of every example's features and
measures on the rest.

  tests/bench/recipe_search.py configs/recipes/gowalla_softmax.json              the recipe and its neighbours
  tests/bench/recipe_search.py RECIPE --change 'wide:{"Layers":{"Hidden":{"N":2048}}}' --only wide

A change is what differs from the recipe: keys of the network, and of layers by their names; null removes a key.
Neighbours are made by a larger and a smaller rate, batch, share of denoising, number of hidden units and exponent of
InputWeighting. Needs the
programs importer, trainer and evaluator; tests/bench/recipes_table.py measures recipes on the test part."""
import argparse
import json
import pathlib
import re
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


def neighbours(network):
    """Candidates by name."""
    training, found = network["Training"], {"recipe": {}}
    for factor in (0.5, 2):
        found[f"rate x {factor:g}"] = {"Training": {"Alpha": training["Alpha"] * factor}}
        found[f"batch x {factor:g}"] = {"Training": {"Batch": int(training["Batch"] * factor)}}
        for layer in network["Layers"]:
            if layer["Kind"] == "Hidden":
                found[f"{layer['Name']} x {factor:g}"] = {"Layers": {layer["Name"]: {"N": int(layer["N"] * factor)}}}
            weighting = layer.get("InputWeighting")
            if weighting:
                usual = 0.5 if weighting["Scheme"] == "InversePopularity" else 1
                exponent = {"Exponent": round(weighting.get("Exponent", usual) * factor, 4)}
                found[f"{layer['Name']} exponent x {factor:g}"] = {"Layers": {layer["Name"]: {"InputWeighting": exponent}}}
    p = network.get("Denoising", {}).get("p")
    for value in (p - 0.1, p + 0.1) if p else ():
        if 0 < value < 1:
            found[f"denoising {value:.2g}"] = {"Denoising": {"p": round(value, 4)}}
    return found


def measure(programs, out, name, network, train_file, eval_file, every):
    """Prints and returns (name, epoch, recall, ndcg, seconds) of the epochs that were measured."""
    folder = out / "networks" / re.sub(r"\W+", "_", name)
    model, seconds = programs.train(folder, network, train_file, "--checkpoint-epochs", every, "--keep", 0)
    epochs = network["Training"]["Epochs"]
    points = [(int(match.group(1)), path) for path in folder.glob("model.epoch*.nc")
              if (match := re.search(r"\.epoch(\d+)\.nc$", path.name)) and int(match.group(1)) < epochs]
    results = []
    for epoch, path in sorted(points) + [(epochs, model)]:
        recall, ndcg = programs.metrics(path, eval_file)
        print(f"{name:<24}{epoch:>7}{recall:>11.4f}{ndcg:>9.4f}{seconds * epoch / epochs:>10.0f}", flush=True)
        results.append({"name": name, "epoch": epoch, "recall": recall, "ndcg": ndcg, "seconds": seconds * epoch / epochs})
        path.unlink()
    return results


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=pathlib.Path)
    recipe_runs.add_common_options(parser)
    parser.add_argument("--change", action="append", default=[], metavar="NAME:JSON", help="one more candidate")
    parser.add_argument("--only", help="these candidates, with commas between [all]")
    parser.add_argument("--epochs", type=int, help="of every candidate [the recipe's]")
    parser.add_argument("--every", type=int, default=20, help="epochs between measurements [%(default)s]")
    parser.add_argument("--held-out", type=float, default=0.2, help="share of each example's line [%(default)s]")
    parser.add_argument("--examples", type=int, default=0, help="the first ones only, for a quick look [all]")
    parser.add_argument("--seed", type=int, default=1, help="of the split [%(default)s]")
    parser.add_argument("--out", type=pathlib.Path, default=recipe_runs.ROOT / "build/recipes", help="[%(default)s]")
    return parser.parse_args()


def main():
    args = arguments()
    programs, known = recipe_runs.from_options(args)
    network = recipe_runs.read_network(args.recipe)
    data = recipe_runs.data_of(args.recipe, known)
    if not data:
        sys.exit(f"recipe_search: {args.recipe.name} begins with no name of data; known: {', '.join(known)}")
    candidates = neighbours(network)
    for text in args.change:
        name, _, changes = text.partition(":")
        candidates[name] = json.loads(changes)
    for name in args.only.split(",") if args.only else ():
        if name not in candidates:
            sys.exit(f"recipe_search: no candidate '{name}'; there are: {', '.join(candidates)}")
    parts = recipe_runs.hold_out(data.lines("train")[: args.examples or None], args.held_out, args.seed)
    out = args.out / f"{args.recipe.stem}.search"
    train_file, eval_file = programs.import_parts(data.datasets, out, *parts)
    print(f"{args.recipe.stem}, {len(parts[0])} examples; measured on the held-out part of train")
    print(f"{'network':<24}{'epoch':>7}{f'Recall@{recipe_runs.TOP}':>11}{f'NDCG@{recipe_runs.TOP}':>9}{'seconds':>10}", flush=True)
    results = []
    for name, changes in candidates.items():
        if args.only and name not in args.only.split(","):
            continue
        candidate = changed(network, changes)
        if args.epochs:
            candidate["Training"]["Epochs"] = args.epochs
        results += measure(programs, out, name, candidate, train_file, eval_file, args.every)
    best = max(results, key=lambda result: result["recall"] + result["ndcg"])
    print(f"best: {best['name']} after {best['epoch']} epochs, {best['recall']:.4f} / {best['ndcg']:.4f}; its network is in "
          f"{out / 'networks'}")
    (out / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
