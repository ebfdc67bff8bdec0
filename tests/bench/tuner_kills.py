#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The real tuner on quick trainings (tests/tuner/killed_study.py), of which tuner, trials and trainers are killed with -9 at random: that
each trial is told once, that nothing is decided otherwise than in an undisturbed study, and how soon a tuner that goes on has given a
training to a worker.

  tests/bench/tuner_kills.py                          1,000 trials, 200 kills, 4 workers
  tests/bench/tuner_kills.py --trials 100 --kills 40"""
import argparse
import pathlib
import random
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tuner"))
sys.dont_write_bytecode = True
from killed_study import KilledStudy  # noqa: E402

MORE = 8


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1000, help="[%(default)s]")
    parser.add_argument("--kills", type=int, default=200, help="[%(default)s]")
    parser.add_argument("--workers", type=int, default=4, help="[%(default)s]")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31), help="[drawn]")
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        study = KilledStudy(pathlib.Path(folder), args.workers, random.Random(args.seed))
        study.run(args.trials, args.kills)
        study.check(args.trials)
        print(f"{args.trials} trials told once each, {len(study.events())} events, in {time.monotonic() - begun:.0f} s; killed: "
              + ", ".join(f"{count} x {what}" for what, count in study.struck.items()))
        study.run(args.trials + MORE, 0)  # one more tuner, which finds the whole journal
    seconds = [took for _, took in study.restarts[1:]]
    told, last = study.restarts[-1]
    print(f"{len(seconds)} tuners went on, to their first submission in {sum(seconds) / len(seconds):.2f} s (mean), {max(seconds):.2f} s "
          f"(longest); the last one, with {told} trials in the journal, in {last:.2f} s")


if __name__ == "__main__":
    main()
