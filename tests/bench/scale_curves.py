#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast networks of very many outputs learn: Recall@100 by seconds of training, on a catalogue of any size whose truth is planted
(planted_catalogue.py), so that the best ranking that there can be stands beside the curves.

  tests/bench/scale_curves.py --items 2000 --users 4000 --entries 30 --hidden 64 --batch 256 --seconds 30 --torch python3
  tests/bench/scale_curves.py --items 10000000 --users 2000000 --device cuda --precision bf16 --seconds 120 --methods factored,softmax

  factored   Norn: squared error over all outputs, exact, at the cost of the stored targets ("Factored")
  sigmoid    Norn: a sigmoid and a cross entropy for each output
  softmax    PyTorch: the same autoencoder with a sampled SoftMax (peers/sampled_softmax.py), run by the Python of --torch
  als        the package implicit; left out where that is not installed

All learn from the same users' items and are asked about the same other users: of each some items are known, and the best 100 of all
others are compared with those that were held out. Norn's trainer does so in its validations, whose metrics stand in its log; lists
of peers are judged by planted_catalogue.recall_of. Seconds are those of training steps alone: of Norn what the log's epochs took, of peers
the clock, which stands still from the end of a step to the end of its evaluation. Reading data, copying them to a device and making weights
take no time here, warming up a peer neither. Rates fall along a cosine that ends with --seconds, but for ALS. Norn is first
run for some seconds to find how many epochs these are, so its curve may end a little before or after. A network whose epoch is longer
than --seconds makes one.

Data are made once and kept in --out; results.json there keeps the curves of earlier calls with the same data, and curves.svg
draws all of them. Oracle: items by their true probabilities for the user, whose taste it knows. Truth of items: it knows items, and
infers the user's taste from the known ones, as methods must; the best that can be hoped of these, but for an approximation.

Needs NumPy, and for Norn the programs; with Norn's Python package and SciPy data are written faster."""
import argparse
import dataclasses
import json
import os
import pathlib
import platform
import subprocess
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of the generator, which has threads of its own, and of implicit
import numpy as np  # noqa: E402

import curve_drawing  # noqa: E402
import planted_catalogue  # noqa: E402
import recipe_runs  # noqa: E402
import scale_norn  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
# Settings of each method, chosen on small catalogues (docs/developer/lab/scale.md); --set METHOD.NAME=VALUE changes one.
METHODS = {
    "factored": {"rate": 0.002, "rate_of_outputs": 0.02, "damping": 0.3, "boost": 30.0, "denoising": 0.5, "dropout": 0.0},
    "sigmoid": {"rate": 0.01, "boost": 1.0, "denoising": 0.5, "dropout": 0.0},
    "softmax": {"rate": 0.1, "denoising": 0.5, "dropout": 0.0, "popular": 512, "uniform": 512, "rule": "adagrad", "start": 0.0},
    "als": {"alpha": 20.0, "regularization": 1.0, "weighting": "none"},
}
SHOWN_BOUNDS = {"oracle": "oracle", "inferred": "truth of items", "popularity": "popularity"}
SHOWN = {"factored": "Norn, factored", "sigmoid": "Norn, sigmoid", "softmax": "PyTorch, sampled", "als": "implicit, ALS"}


def data_settings(args):
    names = [field.name for field in dataclasses.fields(planted_catalogue.Settings)]
    return planted_catalogue.Settings(**{name: getattr(args, name) for name in names if name != "seed"}, seed=args.data_seed)


def prepare(args):
    """(folder of the data, what is known of them): made where they are not there yet."""
    settings = data_settings(args)
    folder, about = args.out / "data", args.out / "data/about.json"
    described = dataclasses.asdict(settings) | {"top": args.top}
    if about.exists():
        known = json.loads(about.read_text(encoding="utf-8"))
        if known["settings"] == described:
            return folder, known
        sys.exit(f"scale_curves: {folder} holds data of other settings: {known['settings']}; choose another --out")
    folder.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    bounds = planted_catalogue.make(settings, folder, args.top, args.threads)
    known = {"settings": described, "bounds": bounds, "seconds": round(time.monotonic() - started, 1)}
    about.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    return folder, known


def run_norn(method, settings, args, folder):
    programs = recipe_runs.Programs(args.bin, args.device, args.threads, args.precision)
    if not (folder / "held_out.nc").exists():
        scale_norn.write_data(folder, args.items, programs)
    return scale_norn.measure(method, settings, args, programs, args.out, folder, (args.items, args.entries))


def run_softmax(settings, args, folder):
    out = args.out / "softmax.json"
    out.unlink(missing_ok=True)
    command = [args.torch, "-B", HERE / "peers/sampled_softmax.py", "--data", folder, "--out", out, "--device", args.device,
               "--precision", "fp32" if args.precision == "fp32" else "tf32", "--threads", args.threads or 0]
    for name in ("items", "hidden", "batch", "top", "points", "seed", "seconds", "schedule"):
        command += [f"--{name}", getattr(args, name)]
    for name, value in settings.items():
        command += [f"--{name}", value]
    # PyTorch has its own number of threads.
    environment = {key: value for key, value in os.environ.items() if key != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise scale_norn.Failed(f"{args.torch} ended with {done.returncode}: {done.stderr.strip()[-1500:]}")
    found = json.loads(out.read_text(encoding="utf-8"))
    return found["curve"], found["facts"]


def run_als(settings, args, folder):
    try:
        from peers import implicit_curves
    except ImportError as error:
        raise scale_norn.Failed(f"left out: {error}") from error
    return implicit_curves.measure(settings, args, folder, args.items)


def run(method, args, folder):
    """(curve, facts) of a method by its settings."""
    settings = args.settings[method]
    if method == "softmax":
        return run_softmax(settings, args, folder)
    return run_als(settings, args, folder) if method == "als" else run_norn(method, settings, args, folder)


def write_results(args, known, runs):
    results = {"data": known, "runs": runs, "machine": f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"}
    (args.out / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    curves = {}
    for one in runs:
        if one["curve"]:
            name = SHOWN[one["method"]]
            curves[name if name not in curves else f"{name}, seed {one['seed']}"] = [(p["seconds"], p["recall"]) for p in one["curve"]]
    if curves:
        settings, bounds = known["settings"], known["bounds"]
        title = f"{settings['items']:,} items, {settings['users']:,} users, {settings['entries']} items each"
        svg = curve_drawing.curves_svg(title, curves, {SHOWN_BOUNDS[name]: bounds[name] for name in SHOWN_BOUNDS},
                                       f"Recall@{settings['top']}")
        (args.out / "curves.svg").write_text(svg, encoding="utf-8")


def earlier_runs(args):
    path = args.out / "results.json"
    return json.loads(path.read_text(encoding="utf-8"))["runs"] if path.exists() else []


def measure_all(args):
    """Runs the methods and writes results after each; returns whether any of them has a curve."""
    folder, known = prepare(args)
    bounds = known["bounds"]
    print(f"{args.items:,} items, {args.users:,} users: Recall@{args.top} of the oracle {bounds['oracle']:.4f}, of the truth of "
          f"items {bounds['inferred']:.4f}, of popularity {bounds['popularity']:.4f}", flush=True)
    runs, fine = earlier_runs(args), False
    for method in args.methods:
        try:
            curve, facts = run(method, args, folder)
        except (scale_norn.Failed, recipe_runs.ProgramFailed) as failure:
            print(f"{method:10} {failure}", flush=True)
            continue
        settings = args.settings[method] | {name: getattr(args, name) for name in ("hidden", "batch", "schedule", "seconds", "device")}
        if method in scale_norn.OUTPUTS:
            settings["optimizer"] = args.optimizer
        runs = [one for one in runs if (one["method"], one["seed"]) != (method, args.seed)]
        runs.append({"method": method, "seed": args.seed, "curve": curve, "settings": settings, "facts": facts})
        write_results(args, known, runs)
        best = max(curve, key=lambda point: point["recall"], default=None)
        if best:
            fine = True
            print(f"{method:10} {len(curve)} points; the last {curve[-1]['recall']:.4f} after {curve[-1]['seconds']:.1f} s and "
                  f"{curve[-1]['epochs']:g} epochs, the best {best['recall']:.4f} after {best['seconds']:.1f} s", flush=True)
    return fine


def changed_settings(changes):
    settings = {method: dict(own) for method, own in METHODS.items()}
    for change in changes:
        path, equals, value = change.partition("=")
        method, _, name = path.partition(".")
        if not equals or name not in settings.get(method, {}):
            raise ValueError(f"--set {change}: METHOD.NAME=VALUE is expected, with a name of METHODS, such as factored.rate=0.001")
        before = settings[method][name]
        settings[method][name] = type(before)(value)
    return settings


def arguments(words=None):
    def names(text):
        if unknown := [name for name in text.split(",") if name not in METHODS]:
            raise argparse.ArgumentTypeError(f"there is no method {unknown[0]}; known: {','.join(METHODS)}")
        return text.split(",")

    usual = {field.name: field.default for field in dataclasses.fields(planted_catalogue.Settings)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, kind, default, text in (
            ("items", int, 100000, "of the catalogue: inputs and outputs"), ("users", int, 200000, "to train on"),
            ("entries", int, usual["entries"], "items of each user"), ("held-out-users", int, usual["held_out_users"], "not trained on"),
            ("held-out-entries", int, usual["held_out_entries"], "of each of them, to be found"),
            ("clusters", int, usual["clusters"], "of items with one latent vector, at most"), ("rank", int, usual["rank"], "of the truth"),
            ("beta", float, usual["beta"], "how much taste counts"), ("exponent", float, usual["exponent"], "of popularity"),
            ("data-seed", int, usual["seed"], "of the data"), ("hidden", int, 256, "units; factors of ALS"),
            ("batch", int, 1024, "users of a step"), ("seconds", float, 60.0, "of training, for each method"),
            ("seed", int, 1, "of training"), ("points", int, 25, "of a curve, about"), ("top", int, 100, "length of lists")):
        parser.add_argument(f"--{name}", type=kind, default=default, help=f"{text} [%(default)s]")
    parser.add_argument("--methods", type=names, default=list(METHODS), help=f"with commas between [{','.join(METHODS)}]")
    parser.add_argument("--set", action="append", default=[], metavar="METHOD.NAME=VALUE", help="another setting of a method")
    parser.add_argument("--optimizer", default="Adam", help="of Norn's layers without a rule of their own [%(default)s]")
    parser.add_argument("--schedule", default="Cosine", choices=("Constant", "Cosine"), help="of rates [%(default)s]")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="of all methods [%(default)s]")
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16"), help="Norn's; the peer has fp32 with fp32, else tf32")
    parser.add_argument("--threads", type=int, help="of the CPU [all]")
    parser.add_argument("--bin", type=pathlib.Path, help="folder of the programs [build/cuda/bin or build/cpu/bin]")
    parser.add_argument("--torch", default=sys.executable, metavar="PYTHON", help="a Python with PyTorch [this one]")
    parser.add_argument("--out", type=pathlib.Path, default=recipe_runs.ROOT / "build/scale", help="[%(default)s]")
    args = parser.parse_args(words)
    try:
        args.settings = changed_settings(args.set)
    except ValueError as problem:
        parser.error(str(problem))
    args.out.mkdir(parents=True, exist_ok=True)
    return args


if __name__ == "__main__":
    sys.exit(0 if measure_all(arguments()) else 1)
