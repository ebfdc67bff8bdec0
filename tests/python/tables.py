# SPDX-License-Identifier: Apache-2.0
"""Random tables with the labels that people have, and what the importer makes of them."""
import csv
import hashlib
import os
import pathlib
import random
import subprocess

import numpy as np

ODD = ["Zoë", "señor x", "a,b", 'say "x"', "x:y", "007", "1e3", "-", "NA", "null", "nan", "日本", " leading", "trailing ", "'", "\\", "#1", "true", "2026-01-02",
       "1.0", "::", ";", "|"]


def drawn_seed():
    """From NORN_SEED, or drawn; printed, so that a failure can be seen again."""
    seed = int(os.environ.get("NORN_SEED", random.SystemRandom().randrange(10**6)))
    print(f"NORN_SEED={seed}")
    return seed


def random_table(rng, examples=40, features=30, entries=200, odd=True):
    """A dictionary of columns: user, item (text), rating (float64), when (int seconds), no pair twice, in any order."""
    users = [f"u{n}" if n % 3 else str(n * 11) for n in range(examples)]
    items = [f"i {n}" if n % 4 else str(n) for n in range(features)]
    if odd:
        for names in (users, items):
            for place, label in zip(rng.choice(len(names), min(len(ODD), len(names)), replace=False), ODD):
                names[place] = label
    pairs = rng.choice(examples * features, min(entries, examples * features), replace=False)
    if rng.random() < 0.3:
        pairs.sort()
    return {
        "user": [users[pair // features] for pair in pairs],
        "item": [items[pair % features] for pair in pairs],
        "rating": [round(float(x), 3) for x in rng.uniform(-5, 5, pairs.size)],
        "when": [int(x) for x in rng.integers(1_600_000_000, 1_700_000_000, pairs.size)],
    }


def write_csv(path, table, separator=",", header=True, opener=open):
    with opener(path, "wt", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=separator, lineterminator="\n")
        if header:
            writer.writerow(table)
        writer.writerows(zip(*table.values()))
    return path


def chosen(table, mask):
    return {name: [value for value, kept in zip(column, mask) if kept] for name, column in table.items()}


def checksum(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def run_importer(programs, source, output, *words):
    subprocess.run([programs / "importer", "--input", source, "--output", output, "--name", "shop", "-q", *words], check=True)
    return output


def as_columns(table):
    return {name: np.asarray(column) for name, column in table.items()}
