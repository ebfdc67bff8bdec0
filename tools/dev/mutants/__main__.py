# SPDX-License-Identifier: Apache-2.0
"""How many of a random sample of small errors the tests find (mutation score): see tools/dev/mutants.sh."""
import argparse
import collections
import concurrent.futures
import dataclasses
import json
import multiprocessing
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time

import cpp_mutants
import python_mutants
from tests import LAYERS, Tests, by_mutant

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCRIPTS = "tests/integration/*_test.py,tests/tuner/*_test.py,tests/daily/*_test.py"
LEFT_OUT = ("executors_", "slurm", "two_hosts", "kills", "soak", "queues", "spark", "metaflow", "installed_test", "oldest", "report_test",
            "thousand_steps")


def options():
    parser = argparse.ArgumentParser(prog="tools/dev/mutants.sh", description=__doc__)
    parser.add_argument("--cpp", type=int, default=300, metavar="N", help="mutants of src and kernels/cpu [300]")
    parser.add_argument("--python", type=int, default=200, metavar="N", help="mutants of python/norn [200]")
    parser.add_argument("--seed", type=int, help="of the sample; without it one is drawn and printed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="builds, and tests at the same time [cores]")
    parser.add_argument("--files", default="*", metavar="GLOB",
                        help="of the sources that are mutated, from the root, such as 'src/nn/*' [*]")
    parser.add_argument("--layers", default=",".join(LAYERS), metavar="NAMES", help="whose test programs are run [all]")
    parser.add_argument("--minutes", type=float, default=1e9, help="after which no further test of a mutant begins; a later call goes on")
    parser.add_argument("--longest", type=float, default=300, metavar="SECONDS", help="a test process that takes longer is left out [300]")
    parser.add_argument("--scripts", default=SCRIPTS, metavar="GLOBS",
                        help=f"Python files that are tests, beside those of the layers [{SCRIPTS}]")
    parser.add_argument("--pytest", default="tests/python/*_test.py", metavar="GLOB",
                        help="files for pytest [tests/python/*_test.py]; '' for none")
    parser.add_argument("--budget", type=float, default=120, metavar="SECONDS",
                        help="of tests for one mutant, until it counts as not found [120]")
    parser.add_argument("--only", choices=("sample", "build", "record", "run", "table"), help="stop after this stage")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/mutants",
                        help="where all of it is, to go on from [build/mutants]")
    return parser.parse_args()


def copy_tree(tree):
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, listed):
        source, target = ROOT / name, tree / name
        if source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    (tree / "build").mkdir(exist_ok=True)
    (tree / "build/venv").symlink_to(ROOT / "build/venv")


def configure(tree):
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache", "-DCMAKE_C_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    subprocess.run(["cmake", "--preset", "cpu", "-DNORN_BENCHMARKS=OFF", *launcher], cwd=tree, check=True, stdout=subprocess.DEVNULL)


def draw(chosen):
    """The sample, in a copy of the tree; that of an earlier call if there is one."""
    path, tree = chosen.folder / "mutants.json", chosen.folder / "tree"
    if path.exists():
        kept = json.loads(path.read_text())
        if chosen.seed not in (None, kept["seed"]):
            sys.exit(f"mutants: {chosen.folder} has the sample of seed {kept['seed']}; remove it for another one")
        return kept
    shutil.rmtree(chosen.folder, ignore_errors=True)
    copy_tree(tree)
    configure(tree)
    seed = chosen.seed if chosen.seed is not None else random.SystemRandom().randrange(2**30)
    print(f"mutants: seed {seed}", flush=True)
    with multiprocessing.Pool(chosen.jobs) as pool:
        of_cpp, all_cpp = cpp_mutants.sample(tree, tree / "build/cpu", chosen.cpp, seed, pool, chosen.files)
    first = 1 + max((one.number for one in of_cpp), default=0)
    of_python, all_python = python_mutants.sample(tree, chosen.python, seed, first, chosen.files)
    files = cpp_mutants.write(tree, tree, of_cpp)
    python_mutants.write(tree, tree, of_python)
    with open(tree / "CMakeLists.txt", "a", encoding="utf-8") as file:  # what a mutant leaves unused is no error
        print(f"set_property(SOURCE {' '.join(files)} APPEND PROPERTY COMPILE_OPTIONS -w)", file=file)
    kept = {"seed": seed, "places": {"C++": all_cpp, "Python": all_python}, "commit": subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip(),
        "mutants": [dataclasses.asdict(one) for one in of_cpp + of_python]}
    path.write_text(json.dumps(kept, indent=1))
    return kept


def build(chosen):
    tree = chosen.folder / "tree"
    configure(tree)
    environment = os.environ | {"CCACHE_BASEDIR": str(tree), "CCACHE_NOHASHDIR": "true"}
    targets = [f"{layer}_test" for layer in chosen.layers] + (["norn_python", "failing_calls"] if chosen.scripts or chosen.pytest else [])
    subprocess.run(["cmake", "--build", "--preset", "cpu", "-j", str(chosen.jobs), "--target", *targets], cwd=tree, env=environment,
                   check=True)


def try_all(chosen, kept, tests, reaching):
    path = chosen.folder / "results.jsonl"
    done = {json.loads(line)["number"] for line in path.read_text().splitlines()} if path.exists() else set()
    until = time.monotonic() + 60 * chosen.minutes
    left = [one for one in kept["mutants"] if one["number"] not in done]
    random.Random(kept["seed"]).shuffle(left)  # what is tried when the time is over is a sample, too

    def tried(one):
        found = tests.is_killed(one["number"], reaching.get(one["number"], []), chosen.budget, until)
        if not found:
            return None
        killer, cut, seconds = found
        return {"number": one["number"], "killer": killer, "cut": cut, "tests": len(reaching.get(one["number"], [])),
                "seconds": round(seconds, 1)}

    with open(path, "a", encoding="utf-8") as out, concurrent.futures.ThreadPoolExecutor(chosen.jobs) as pool:
        running = [pool.submit(tried, one) for one in left]
        for number, result in enumerate(concurrent.futures.as_completed(running)):
            if result.result():
                print(json.dumps(result.result()), file=out, flush=True)
            if number % 20 == 19:
                print(f"mutants: {number + 1} of {len(left)} tried", flush=True)


def folder_of(file):
    parts = pathlib.PurePath(file).parts
    return "/".join(parts[:2]) if parts[0] != "python" or len(parts) < 4 else "/".join(parts[:3])


def table(chosen, kept):
    path = chosen.folder / "results.jsonl"
    results = {line["number"]: line for line in map(json.loads, path.read_text().splitlines())}
    rows = collections.defaultdict(lambda: [0, 0, 0])
    survivors = []
    for one in kept["mutants"]:
        result = results.get(one["number"])
        if not result:
            continue
        groups = [folder_of(one["file"]), "all Python" if one["file"].startswith("python") else "all C++"]
        for row in (rows[group] for group in groups):
            row[0] += 1
            row[1] += result["tests"] > 0
            row[2] += result["killer"] is not None
        if result["killer"] is None:
            survivors.append((one, result))
    lines = [f"seed {kept['seed']}, commit {kept['commit']}; tried {len(results)} of {len(kept['mutants'])} mutants of {kept['places']} "
             "that there are",
             f"{'folder':28} {'mutants':>8} {'reached':>8} {'killed':>8} {'score':>7}"]
    for group in sorted(rows, key=lambda group: (group.startswith("all"), group)):
        made, reached, killed = rows[group]
        lines.append(f"{group:28} {made:8} {reached:8} {killed:8} {100 * killed / made:5.1f} %")
    lines.append(f"{len(survivors)} survivors: {chosen.folder / 'survivors.txt'}")
    print("\n".join(lines))
    (chosen.folder / "table.txt").write_text("\n".join(lines) + "\n")
    with open(chosen.folder / "survivors.txt", "w", encoding="utf-8") as file:
        for one, result in survivors:
            reach = "not reached" if not result["tests"] else f"{result['tests']} tests" + (", not all tried" if result["cut"] else "")
            print(f"{one['file']}:{one['line']}: mutant {one['number']}, {one['kind']}, {reach}\n- {one['was']}\n+ {one['becomes']}\n",
                  file=file)


def files_of(patterns):
    """Test files, without those that need servers or minutes."""
    found = sorted(str(path.relative_to(ROOT)) for pattern in filter(None, patterns.split(",")) for path in ROOT.glob(pattern))
    return [file for file in found if not any(part in file for part in LEFT_OUT)]


def main():
    chosen = options()
    chosen.layers = [layer for layer in chosen.layers.split(",") if layer]
    kept = draw(chosen)
    if chosen.only == "sample":
        return
    if chosen.only != "table":
        build(chosen)
        if chosen.only == "build":
            return
        tests = Tests(chosen.folder)
        reached = tests.record(chosen.layers, files_of(chosen.scripts), files_of(chosen.pytest), chosen.jobs, chosen.longest)
        if chosen.only == "record":
            return
        try_all(chosen, kept, tests, by_mutant(reached))
    table(chosen, kept)


if __name__ == "__main__":
    main()
