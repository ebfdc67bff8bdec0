#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Python costs beside the programs: `fit` against trainer, `recommend` for all users against predictor, and the import.

  build/venv/bin/python tests/bench/python_speed.py                                  debian_packages, on the CPU
  build/venv/bin/python tests/bench/python_speed.py --data gowalla --device cuda --epochs 0
  build/venv/bin/python tests/bench/python_speed.py --require                        ends with 1 where a line does not hold

Processes in turn, A B B A, so that what else the machine does falls on both; of each pair the ratio of wall seconds and of the
processor's, those of Python without its start and imports, which have a line of their own. Both read the same file, train with
the same settings and write a model, whose bytes must be the same; both load it and find the best 20 units of all users,
predictor into a NetCDF file. The lines: fit within 3 %, recommend within 5 %, import below 0.3 s."""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.pop("OPENBLAS_CORETYPE", None)
import recipe_runs  # noqa: E402

FIT = """
data, model, device, threads, epochs = sys.argv[1:]
more = {"epochs": int(epochs)} if int(epochs) else {}
norn.Recommender(seed=1, device=device, threads=int(threads), **more).fit(norn.Dataset.from_netcdf(data)).save(model)
"""
RECOMMEND = """
data, model, device, threads = sys.argv[1:]
ids, scores = norn.load(model, device=device, threads=int(threads)).recommend(norn.Dataset.from_netcdf(data), N=20)
"""
BEGIN = """
import sys, time, numpy, scipy.sparse, norn
from norn import _core, dataset, recommender
wall, processor = time.monotonic(), time.process_time()
"""
END = """
print(time.monotonic() - wall, time.process_time() - processor)
"""
LINES = {"fit": 1.03, "recommend": 1.05}  # at most so many times the program's
IMPORT_SECONDS = 0.3


def measured(words):
    """(wall seconds, processor's seconds) of a process, or those that it prints. Exits where it fails."""
    started = time.monotonic()
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    wall = time.monotonic() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"python_speed: {words[0]} ended with {process.returncode}: {said[-1000:]}")
    own = said.split()
    return (float(own[-2]), float(own[-1])) if words[1] == "-c" and own else (wall, used.ru_utime + used.ru_stime)


def in_turn(ours, theirs, turns, check=lambda: None):
    """Pairs (ours, theirs) of (wall, processor's) seconds; the one that comes first changes."""
    pairs = []
    for turn in range(turns + 1):
        order = (ours, theirs) if turn % 2 else (theirs, ours)
        seconds = {id(words): measured(words) for words in order}
        check()
        if turn > 0:  # the first one warms up
            pairs.append((seconds[id(ours)], seconds[id(theirs)]))
    return pairs


def shown(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def row(name, pairs):
    """Prints medians and ratios; the median ratio, the smaller of wall and processor's time."""
    cells, ratios = [], []
    for at in (0, 1):
        of_pairs = [ours[at] / theirs[at] for ours, theirs in pairs]
        ratios.append(statistics.median(of_pairs))
        cells += [shown([ours[at] for ours, _ in pairs], 2), shown([theirs[at] for _, theirs in pairs], 2), shown(of_pairs, 3)]
    print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    return ratios


def import_seconds(turns):
    """Of `import norn`, what a Python that imports nothing takes left out."""
    pairs = in_turn([sys.executable, "-c", "import norn"], [sys.executable, "-c", "pass"], turns)
    return [ours[0] - theirs[0] for ours, theirs in pairs]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    recipe_runs.add_folder_option(parser)
    parser.add_argument("--data", default="debian_packages", help="[%(default)s]")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="[%(default)s]")
    parser.add_argument("--threads", type=int, default=0, help="[one a core]")
    parser.add_argument("--epochs", type=int, default=10, help="0: the recipe's [%(default)s]")
    parser.add_argument("--turns", type=int, default=7, help="pairs that count, after one that warms up [%(default)s]")
    parser.add_argument("--bin", type=pathlib.Path, help="folder of the programs [build/cuda/bin or build/cpu/bin]")
    parser.add_argument("--require", action="store_true", help="end with 1 where a line does not hold")
    return parser.parse_args()


def compare(args, programs, lines, folder):
    """By line the smaller of both ratios, wall and processor's: other work on the machine makes either larger."""
    path = folder / "kept.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    data, model, again, lists = (folder / name for name in ("train.nc", "model.nc", "again.nc", "lists.nc"))
    programs.run("importer", "--input", path, "--output", data, "--name", "data", "--features", folder / "features.txt")
    where = ["--device", args.device, "--threads", str(args.threads), "--quiet"]
    epochs = ["--epochs", args.epochs] if args.epochs else []

    def same():
        if model.read_bytes() != again.read_bytes():
            sys.exit("python_speed: the models of fit and trainer differ")

    print("| | norn, s | program, s | ratio | norn, CPU s | program, CPU s | ratio |\n|---|---|---|---|---|---|---|")
    of_fit = row("fit", in_turn([sys.executable, "-c", BEGIN + FIT + END, data, again, args.device, args.threads, args.epochs],
                                [programs.folder / "trainer", "--recipe", "sigmoid", "-i", data, "-n", model, "--seed", 1, "--force",
                                 "--checkpoint-epochs", 0, *epochs, *where], args.turns, same))
    of_lists = row("recommend", in_turn([sys.executable, "-c", BEGIN + RECOMMEND + END, data, model, args.device, args.threads],
                                        [programs.folder / "predictor", "-n", model, "--data", data, "--top", 20, "--exclude-seen",
                                         "--format", "netcdf",
                                         "--output", lists, *where], args.turns))
    return {"fit": min(of_fit), "recommend": min(of_lists)}


def main():
    args = arguments()
    known = recipe_runs.data_from(args)
    if args.data not in known:
        sys.exit(f"python_speed: there are no data {args.data}; known: {', '.join(known)}")
    programs = recipe_runs.Programs(args.bin)
    built = programs.folder.resolve().parent / "python"
    if not os.environ.get("PYTHONPATH") and built.is_dir():
        os.environ["PYTHONPATH"] = str(built)
    os.environ.setdefault("NORN_BIN", str(programs.folder.resolve()))
    with tempfile.TemporaryDirectory(prefix="norn") as folder:
        ratios = compare(args, programs, known[args.data].lines("train"), pathlib.Path(folder))
    seconds = import_seconds(max(args.turns, 5))
    print(f"\nimport norn: {shown(seconds, 3)} s")
    broken = [f"{name} takes {ratio:.3f} times the program's time, at most {LINES[name]}"
              for name, ratio in ratios.items() if ratio > LINES[name]]
    if statistics.median(seconds) > IMPORT_SECONDS:
        broken.append(f"the import takes {statistics.median(seconds):.2f} s, at most {IMPORT_SECONDS}")
    for one in broken:
        print(f"does not hold: {one}")
    if args.require and broken:
        sys.exit(1)


if __name__ == "__main__":
    main()
