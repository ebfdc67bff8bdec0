#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the coordinator of tuner costs: a study on simulated workers (tests/tuner/simulated_study.py), whose trainings take no time here.

  tests/bench/coordinator_bench.py                              1,000 workers, 10,000 trials, settings at random
  tests/bench/coordinator_bench.py --together 1                 each look at the workers finds one that has ended
  tests/bench/coordinator_bench.py --workers 8 --trials 200 --together 1 --noise 0.2
                                                                how much of eight workers' time is used, whose speeds differ by a fifth
  tests/bench/coordinator_bench.py --sampler gp --trials 600 --workers 8

It prints trials per second of the clock and of a core that the tuner takes, without what the simulated workers and their trainer take in
this process (the clock has the disk's time too); the share of the workers' time until the last proposal in which they trained what the
search turned out to need, for the first time: neither what was lost nor what a trial went on before it was halved counts; and how long a
study takes to go on from its journal, which holds half of it and then all of it."""
import argparse
import pathlib
import random
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tuner"))
sys.dont_write_bytecode = True
from simulated_study import Curves, Workers, begin, run  # noqa: E402
from norn.tune.study import default_clock  # noqa: E402


class Clocks:
    """(seconds, seconds of a core) since the beginning, without those in the methods of what is simulated."""

    def __init__(self, *simulated):
        self._apart, self._inside = [0.0, 0.0], False
        for one, names in simulated:
            for name in names:
                setattr(one, name, self._clocked(getattr(one, name)))
        self._begun = self._read()

    @staticmethod
    def _read():
        return time.perf_counter(), time.process_time()

    def _clocked(self, method):
        def called(*arguments):
            if self._inside:
                return method(*arguments)
            self._inside, before = True, self._read()
            try:
                return method(*arguments)
            finally:
                self._apart = [sum_ + now - then for sum_, now, then in zip(self._apart, self._read(), before)]
                self._inside = False
        return called

    def read(self):
        return [now - then - apart for now, then, apart in zip(self._read(), self._begun, self._apart)]


class FirstPart(Exception):
    """So many attempts have begun: the tuner is gone."""


def half(workers, attempts):
    """Ends the tuner when so many have begun."""
    submit = workers.submit

    def submit_or_end(attempt):
        submit(attempt)
        if workers.begun >= attempts:
            workers.submit = submit
            raise FirstPart
    workers.submit = submit_or_end


def go_on(study, args):
    """Seconds of a core until a tuner that goes on has begun its first attempt, or all is over."""
    workers = Workers(Curves(args.seed), args.workers, random.Random(args.seed))
    half(workers, 1)
    begun = Clocks((workers.curves, ["plan"]), (workers, ["submit", "ended"]))
    try:
        found, _ = run(study, workers, args.trials)
    except FirstPart:
        found = None
    return found, begun.read()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=1000, help="[%(default)s]")
    parser.add_argument("--clock", type=int, help="logical slots [as tuner's]")
    parser.add_argument("--noise", type=float, default=0.05, help="by which speeds of workers differ from what is planned [%(default)s]")
    parser.add_argument("--trials", type=int, default=10000, help="[%(default)s]")
    parser.add_argument("--together", type=int, default=10, help="ends that a look at the workers finds, at most [%(default)s]")
    parser.add_argument("--sampler", default="random", help="[%(default)s]")
    parser.add_argument("--seed", type=int, default=1, help="[%(default)s]")
    parser.add_argument("--folder", help="on the disk to be measured [a temporary one]")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        study = begin(pathlib.Path(folder) / "study", sampler=args.sampler, clock=args.clock or default_clock(args.workers), seed=args.seed)
        workers = Workers(Curves(args.seed), args.workers, random.Random(args.seed), together=args.together, noise=args.noise)
        clocks = Clocks((workers.curves, ["plan"]), (workers, ["submit", "stop", "ended"]))
        decided, facts = run(study, workers, args.trials)
        seconds, computed = clocks.read()
        print(f"{args.trials} trials on {args.workers} workers: {args.trials / seconds:.1f} trials/s, {1e3 * computed / args.trials:.2f} "
              f"ms of a core each ({computed / seconds:.0%} of the time; at 50 trials/s {50 * computed / args.trials:.0%} of a core), "
              f"{len(facts.journal.events)} events, {workers.begun} attempts")
        print(f"workers trained what was needed in {workers.useful(decided):.1%} of their time, until the last proposal at "
              f"{workers.last_proposal / workers.now:.0%} of it; {sum(event['epochs'] for event in decided['tell'])} epochs")
        again, (seconds, computed) = go_on(study, args)
        print(f"going on from the whole journal: {seconds:.2f} s, {computed:.2f} of them computed; the same decisions: {again == decided}")
        journal = study.folder / "journal.jsonl"
        lines = journal.read_bytes().splitlines(keepends=True)
        journal.write_bytes(b"".join(lines[:len(lines) // 2]))
        _, (seconds, computed) = go_on(study, args)
        print(f"from its first half, to the first attempt: {seconds:.2f} s, {computed:.2f} of them computed")


if __name__ == "__main__":
    main()
