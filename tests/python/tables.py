# SPDX-License-Identifier: Apache-2.0
"""Random tables with the labels that people have, what the importer makes of them, and damaged files."""
import csv
import hashlib
import pathlib
import subprocess

import numpy as np

ODD = ["Zoë", "señor x", "a,b", 'say "x"', "x:y", "007", "1e3", "-", "NA", "null", "nan", "日本", " leading", "trailing ", "'", "\\", "#1",
       "true", "2026-01-02",
       "1.0", "::", ";", "|"]


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


def mutated(draw, content, letters=b"\0\x7f\x80\xff"):
    """Bytes with one to four changes: others, turned bits, pieces taken out, put in twice or made of one of the letters, an end."""
    data = bytearray(content)
    for _ in range(int(draw.integers(1, 5))):
        at, length, what = int(draw.integers(len(data) + 1)), int(draw.integers(1, 33)), int(draw.integers(7))
        if what == 0:
            data[at:at + 1] = draw.bytes(1)
        elif what == 1 and len(data) > at:
            data[at] ^= 1 << int(draw.integers(8))
        elif what == 2:
            del data[at:at + length]
        elif what == 3:
            data[at:at] = data[at:at + length]
        elif what == 4:
            data[at:at + length] = bytes([draw.choice(list(letters))]) * len(data[at:at + length])
        elif what == 5:
            data[at:at] = bytes([draw.choice(list(letters))])
        elif draw.random() < 0.3:
            del data[at:]
        if not data:
            break
    return bytes(data)
