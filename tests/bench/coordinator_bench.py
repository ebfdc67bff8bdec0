#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the coordinator of tuner costs: a study on simulated workers (tests/tuner/simulated_study.py), whose trainings take no time here.

  tests/bench/coordinator_bench.py                              1,000 workers, 10,000 trials, settings at random
  tests/bench/coordinator_bench.py --workers 8 --trials 200     and how much of eight workers' time is used
  tests/bench/coordinator_bench.py --sampler gp --trials 600 --workers 8

It prints trials per second and the share of them that this process computed (the rest waits for the disk), the share of the workers' time in
which they trained, and how long a study takes to go on from its journal."""
import argparse
import pathlib
import random
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tuner"))
sys.dont_write_bytecode = True
from simulated_study import Curves, Workers, begin, run  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=1000, help="and logical slots [%(default)s]")
    parser.add_argument("--trials", type=int, default=10000, help="[%(default)s]")
    parser.add_argument("--sampler", default="random", help="[%(default)s]")
    parser.add_argument("--seed", type=int, default=1, help="[%(default)s]")
    parser.add_argument("--folder", help="on the disk to be measured [a temporary one]")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        study = begin(pathlib.Path(folder) / "study", sampler=args.sampler, clock=args.workers, seed=args.seed)
        workers = Workers(Curves(args.seed), args.workers, random.Random(args.seed))
        begun, computed = time.perf_counter(), time.process_time()
        decided, facts = run(study, workers, args.trials)
        seconds, computed = time.perf_counter() - begun, time.process_time() - computed
        print(f"{args.trials} trials on {args.workers} workers: {args.trials / seconds:.1f} trials/s, {1e3 * computed / args.trials:.2f} ms of a core each "
              f"({computed / seconds:.0%} of the time), {len(facts.journal.events)} events, {workers.begun} attempts")
        print(f"workers trained {workers.busy / (args.workers * workers.now):.1%} of their time, "
              f"{sum(event['epochs'] for event in decided['tell'])} epochs that the search used")
        begun, computed = time.perf_counter(), time.process_time()
        again, _ = run(study, workers, args.trials)
        print(f"going on from the journal: {time.perf_counter() - begun:.2f} s, {time.process_time() - computed:.2f} of them computed; the same decisions: {again == decided}")


if __name__ == "__main__":
    main()
