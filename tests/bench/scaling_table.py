#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the table of docs/user/parallel.md: steps that `trainer --plan` predicts for the networks of docs/user/performance.md.
usage: scaling_table.py [--bin build/cpu/bin] [--machine FILE] [--precision bf16] [--optimizer Adam] [--batch 1024]"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration"))
from norn_files import write_datasets  # noqa: E402

RANKS = (1, 2, 4, 8, 16, 64)
SHAPES = {  # name: items, hidden layers, dropout, entries a row
    "ml20m": (27_278, [1536] * 3, 0.37, 144),
    "shop500k": (500_000, [1024], 0.0, 100),
    "shop10m": (10_000_000, [256], 0.0, 100),
}


def descriptor(hidden, dropout, options):
    layers = [{"Name": "Input", "Kind": "Input", "N": "auto", "DataSet": "data", "Sparse": True}]
    layers += [{"Name": f"Hidden{i + 1}", "Kind": "Hidden", "N": units, "Activation": "Relu", "pDropout": dropout}
               for i, units in enumerate(hidden)]
    layers.append({"Name": "Output", "Kind": "Output", "N": "auto", "DataSet": "data", "Activation": "Sigmoid"})
    return {"ErrorFunction": "ScaledMarginalCrossEntropy", "Layers": layers,
            "Training": {"Optimizer": options.optimizer, "Batch": options.batch, "Lambda": 0, "Lambda1": 0}}


def plan(name, folder, options):
    items, hidden, dropout, entries = SHAPES[name]
    generator = np.random.default_rng(1)
    rows = [np.unique(generator.integers(0, items, entries)).tolist() for _ in range(options.batch)]
    write_datasets(folder / "data.nc", [("data", items, rows, None)])
    (folder / "net.json").write_text(json.dumps(descriptor(hidden, dropout, options)))
    command = [pathlib.Path(options.bin).resolve() / "trainer", "-c", "net.json", "-i", "data.nc", "-n", "none.nc", "--plan",
               "--ranks", str(RANKS[-1]), "--precision", options.precision, "--plan-format", "json"]
    if options.machine:
        command += ["--machine", pathlib.Path(options.machine).resolve()]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=False)  # 4: does not fit
    return json.loads(done.stdout)


def row(name, folder, options):
    predicted = plan(name, folder, options)
    by_ranks = {entry["ranks"]: entry for entry in predicted["scaling"]}
    cells = []
    for ranks in RANKS:
        entry = by_ranks[ranks]
        share = 100 * entry["communication_seconds"] / entry["step_seconds"]
        text = f"{1e3 * entry['step_seconds']:.2f}"
        cells.append(text if ranks == 1 else f"{text}, {share:.0f} %, {entry['speedup']:.1f}")
    memory = f"{by_ranks[1]['memory_bytes'] / 2**30:.1f}, {by_ranks[RANKS[-1]]['memory_bytes'] / 2**30:.1f}"
    return [name, *cells, str(predicted["ranks_that_pay"]), memory]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default=ROOT / "build/cpu/bin")
    parser.add_argument("--machine", default="")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--optimizer", default="Adam")
    parser.add_argument("--batch", type=int, default=1024)
    options = parser.parse_args()
    head = ["", *(f"{ranks} rank{'s' if ranks > 1 else ''}" for ranks in RANKS), "pays up to", "GiB on 1, on 64"]
    print("| " + " | ".join(head) + " |")
    print("|---" * len(head) + "|")
    for name in SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            print("| " + " | ".join(row(name, pathlib.Path(folder), options)) + " |")


if __name__ == "__main__":
    main()
