#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds a network for the gowalla check-ins without looking at their test part, then measures it there, once.

  tests/bench/gowalla_search.py [--device cuda]      trains every candidate on a part of train.txt.xz and measures it on
                                                     the rest of each user's line; prints a table
  tests/bench/gowalla_search.py --final FILE.json    trains on the whole of train.txt.xz, measures on test.txt.xz

The data are not in the repository: --data, or NORN_GOWALLA, names the folder of train.txt.xz and test.txt.xz (the split
of NGCF and LightGCN, as `user<TAB>item:item:...`). Needs the programs importer, trainer and evaluator."""
import argparse
import json
import lzma
import os
import pathlib
import random
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECIPE = ROOT / "configs/recipes/gowalla.json"
TOP = 20

# What differs from the recipe. Keys: hidden, activation, output (softmax or sigmoid), rate, batch, denoising, dropout
# (of hidden units), decay (L2 regularisation), epochs.
CANDIDATES = {
    "recipe": {},
    "denoise0.8": {"denoising": 0.8},
    "denoise0.6": {"denoising": 0.6},
    "denoise0.5": {"denoising": 0.5},
    "rate3e-4": {"rate": 3e-4},
    "rate3e-4-denoise0.8": {"rate": 3e-4, "denoising": 0.8},
    "rate3e-4-denoise0.5": {"rate": 3e-4, "denoising": 0.5},
    "rate1e-4": {"rate": 1e-4, "epochs": 160},
    "rate1e-4-decay1e-6": {"rate": 1e-4, "epochs": 160, "denoising": 0.6, "decay": 1e-6},
    "narrow512": {"hidden": [512]},
    "wide2048": {"hidden": [2048], "rate": 3e-4},
    "batch256": {"batch": 256},
    "batch1024": {"batch": 1024, "rate": 4e-4},
    "relu": {"activation": "Relu"},
    "two-layers": {"hidden": [1024, 512]},
    "hidden-dropout": {"dropout": 0.5, "denoising": 0.5},
    "decay1e-6": {"decay": 1e-6},
    "sigmoid": {"output": "sigmoid", "rate": 1e-3},
}


def descriptor(changes, base):
    """The base network with a candidate's changes."""
    network = json.loads(json.dumps(base))
    training = network["Training"]
    for key, name in [("rate", "Alpha"), ("batch", "Batch"), ("epochs", "Epochs"), ("decay", "Lambda")]:
        training[name] = changes.get(key, training[name])
    network["Denoising"] = {"p": changes.get("denoising", network["Denoising"]["p"])}
    layers = network["Layers"]
    pattern = layers[1]
    hidden = []
    for number, units in enumerate(changes.get("hidden", [layer["N"] for layer in layers[1:-1]])):
        hidden.append({**pattern, "Name": f"Hidden{number + 1}", "N": units,
                       "Activation": changes.get("activation", pattern["Activation"])})
        if "dropout" in changes:
            hidden[-1]["pDropout"] = changes["dropout"]
    network["Layers"] = [layers[0], *hidden, layers[-1]]
    if changes.get("output") == "sigmoid":
        layers[-1]["Activation"] = "Sigmoid"
        layers[-1]["WeightInit"] = {**layers[-1].get("WeightInit", {}), "Bias": -7}
    return network


def read_network(path):
    """A descriptor, which may have // comments after its values."""
    network = json.loads(re.sub(r"(?m)(^|[\s,])//.*$", r"\1", path.read_text(encoding="utf-8")))
    network.pop("$schema", None)  # a path from the original's folder
    return network


class Programs:
    def __init__(self, args):
        self.folder, self.device, self.threads = args.bin, args.device, args.threads
        for name in ("importer", "trainer", "evaluator"):
            if not (self.folder / name).exists():
                sys.exit(f"gowalla_search: there is no {self.folder / name}; build it, or say --bin FOLDER")

    def run(self, name, *options):
        """Its stdout; what it says on stderr is shown when it fails."""
        extra = ["--device", self.device] if self.device and name != "importer" else []
        extra += ["--threads", str(self.threads)] if self.threads and name != "importer" else []
        done = subprocess.run([str(self.folder / name), *map(str, options), *extra, "--quiet"], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"gowalla_search: {name} failed:\n{done.stderr[-2000:]}")
        return done.stdout


def read_lines(path):
    if not path.exists():
        sys.exit(f"gowalla_search: there is no {path}.\nThe gowalla data are not part of the repository; name their folder "
                 "with --data FOLDER or NORN_GOWALLA=FOLDER (train.txt.xz and test.txt.xz).")
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        return [line.rstrip("\n") for line in lines if line.strip()]


def hold_out(lines, share, seed):
    """Every user's line in two: about `share` of the items, at least one, are held out, at least one is kept."""
    chooser = random.Random(seed)
    kept, held_out = [], []
    for line in lines:
        user, _, words = line.partition("\t")
        items = words.split(":")
        chooser.shuffle(items)
        count = min(len(items) - 1, max(1, int(len(items) * share + chooser.random())))
        if count > 0:
            kept.append(f"{user}\t{':'.join(items[count:])}")
            held_out.append(f"{user}\t{':'.join(items[:count])}")
    return kept, held_out


def import_parts(programs, out, kept, held_out):
    """(training file, evaluation file); the index of features knows both parts."""
    for name, lines in (("kept.txt", kept), ("held_out.txt", held_out)):
        (out / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    features = ["--features", out / "features.txt", "--name", "gowalla"]
    (out / "features.txt").unlink(missing_ok=True)
    programs.run("importer", "--input", out / "kept.txt", "--target", out / "held_out.txt", "--output", out / "eval.nc",
                 *features)
    programs.run("importer", "--input", out / "kept.txt", "--output", out / "train.nc", *features)
    return out / "train.nc", out / "eval.nc"


def metrics(programs, model, data):
    """Recall and NDCG of the first TOP."""
    report = programs.run("evaluator", "--model", model, "--data", data, "--top", TOP, "--format", "json")
    found = {}

    def collect(value):
        if isinstance(value, dict):
            for key, inner in value.items():
                name = key.lower().split("@")[0]
                if name in ("recall", "ndcg") and not isinstance(inner, (dict, list)):
                    found.setdefault(name, float(inner))
                collect(inner)
        elif isinstance(value, list):
            for inner in value:
                collect(inner)

    collect(json.loads(report))
    return found["recall"], found["ndcg"]


def train(programs, out, name, network, train_file, eval_file, every):
    """Prints and returns (name, epoch, recall, ndcg, seconds) for the epochs that were measured."""
    folder = out / "networks" / name
    folder.mkdir(parents=True, exist_ok=True)
    config, model = folder / "network.json", folder / "model.nc"
    config.write_text(json.dumps(network, indent=2) + "\n", encoding="utf-8")
    for old in folder.glob("*.nc"):
        old.unlink()
    started = time.monotonic()
    programs.run("trainer", "-c", config, "-i", train_file, "-o", train_file, "-n", model, "--force",
                 "--checkpoint-epochs", every, "--keep", 0)
    seconds = time.monotonic() - started
    epochs = network["Training"]["Epochs"]
    points = [(int(match.group(1)), path) for path in folder.glob("model.epoch*.nc")
              if (match := re.search(r"\.epoch(\d+)\.nc$", path.name)) and int(match.group(1)) < epochs]
    results = []
    for epoch, path in sorted(points) + [(epochs, model)]:
        recall, ndcg = metrics(programs, path, eval_file)
        print(f"{name:<24}{epoch:>7}{recall:>11.4f}{ndcg:>9.4f}{seconds * epoch / epochs:>10.0f}", flush=True)
        results.append({"name": name, "epoch": epoch, "recall": recall, "ndcg": ndcg, "seconds": seconds * epoch / epochs})
        if path != model:
            path.unlink()
    return results


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = os.environ.get("NORN_GOWALLA", ROOT.parent / "shared/data/gowalla")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path(data), help="[NORN_GOWALLA, else %(default)s]")
    parser.add_argument("--bin", type=pathlib.Path, help="folder of the programs [build/cuda/bin or build/cpu/bin]")
    parser.add_argument("--device", help="passed to trainer and evaluator")
    parser.add_argument("--threads", type=int, help="passed to trainer and evaluator")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/gowalla", help="[%(default)s]")
    parser.add_argument("--candidates", help="some of them, with commas between [all]; --list names them")
    parser.add_argument("--change", action="append", default=[], metavar="NAME:JSON",
                        help="one more candidate, e.g. wide:{\"hidden\":[2048]}")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--epochs", type=int, help="of every candidate [the recipe's]")
    parser.add_argument("--every", type=int, default=20, help="epochs between measurements [%(default)s]")
    parser.add_argument("--held-out", type=float, default=0.2, help="share of each user's line [%(default)s]")
    parser.add_argument("--users", type=int, default=0, help="the first ones only, for a quick look [all]")
    parser.add_argument("--seed", type=int, default=1, help="of the split [%(default)s]")
    parser.add_argument("--final", type=pathlib.Path, nargs="?", const=RECIPE, metavar="FILE.json",
                        help="train this network on the whole of train, measure on test [configs/recipes/gowalla.json]")
    args = parser.parse_args()
    if args.bin is None:
        args.bin = next((p for p in (ROOT / "build/cuda/bin", ROOT / "build/cpu/bin") if p.exists()), ROOT / "build/cpu/bin")
    return args


def main():
    args = arguments()
    candidates = dict(CANDIDATES)
    for change in args.change:
        name, _, text = change.partition(":")
        candidates[name] = json.loads(text)
    if args.list:
        print("\n".join(f"{name:<24}{changes}" for name, changes in candidates.items()))
        return
    wanted = args.candidates.split(",") if args.candidates else list(candidates)
    unknown = [name for name in wanted if name not in candidates or "/" in name]
    if unknown:
        sys.exit(f"gowalla_search: no candidate '{unknown[0]}'; see --list")
    lines = read_lines(args.data / "train.txt.xz")
    programs = Programs(args)
    args.out.mkdir(parents=True, exist_ok=True)
    if args.final:
        networks = {"final": read_network(args.final)}
        parts = lines, read_lines(args.data / "test.txt.xz")
    else:
        base = read_network(RECIPE)
        networks = {name: descriptor(candidates[name], base) for name in wanted}
        parts = hold_out(lines[: args.users or None], args.held_out, args.seed)
    train_file, eval_file = import_parts(programs, args.out, *parts)
    print(f"{len(parts[0])} users, {args.bin}; measured on {'test' if args.final else 'the held-out part of train'}")
    print(f"{'network':<24}{'epoch':>7}{f'Recall@{TOP}':>11}{f'NDCG@{TOP}':>9}{'seconds':>10}", flush=True)
    results = []
    for name, network in networks.items():
        if args.epochs:
            network["Training"]["Epochs"] = args.epochs
        results += train(programs, args.out, name, network, train_file, eval_file, 0 if args.final else args.every)
    if args.final:
        return
    best = max(results, key=lambda result: result["recall"] + result["ndcg"])
    print(f"best: {best['name']} after {best['epoch']} epochs, {best['recall']:.4f} / {best['ndcg']:.4f}; "
          f"its network is {args.out / 'networks' / best['name'] / 'network.json'}")
    (args.out / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
