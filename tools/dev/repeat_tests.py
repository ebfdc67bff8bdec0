#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tests that draw random numbers many times, each time with another NORN_TEST_SEED, and tells which seeds failed.

  tools/dev/repeat_tests.py --times 200 --jobs 2 --build build/cpu --keep failures tests/tuner/journal_test.py tests/python/labels_test.py
  ...

Tests of tests/python run under pytest of build/venv, the others by themselves. Without names: every Python test that reads NORN_TEST_SEED,
by itself or through its fixture or base class. A failed run's output is kept in the folder --keep, under the test's name and its seed.
The first seed is drawn and printed; --first-seed repeats a campaign. Ends with 1 when a run failed."""
import argparse
import concurrent.futures
import os
import pathlib
import random
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MARKS = ("NORN_TEST_SEED", "DailyTest", "SeededTest", "ProgramTest", "self.random", "(draw", ", draw")
LONG = ("tests/attack", "tests/bench", "tests/cuda", "executors_", "soak_test", "spark_", "program_queues_test", "movielens_test")


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", metavar="TEST",
                        help="files; without any, all that draw, but for those that take minutes or servers")
    parser.add_argument("--times", type=int, default=200, help="runs of each test [200]")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at the same time [cores]")
    parser.add_argument("--build", default="build/cpu", help="folder with bin and python [build/cpu]")
    parser.add_argument("--python", default=str(ROOT / "build/venv/bin/python"), help="interpreter with pytest [build/venv/bin/python]")
    parser.add_argument("--first-seed", type=int, default=random.SystemRandom().randrange(2**30))
    parser.add_argument("--keep", default="build/failures", help="folder of failed runs' outputs [build/failures]")
    parser.add_argument("--timeout", type=float, default=600, metavar="SECONDS", help="of one run [600]")
    return parser.parse_args()


def tests_that_draw():
    found = [path.relative_to(ROOT) for path in sorted(ROOT.glob("tests/**/*_test.py"))]
    return [str(path) for path in found if not any(part in str(path) for part in LONG)
            and any(mark in (ROOT / path).read_text() for mark in MARKS)]


def run(test, seed, chosen, environment):
    """(seconds, failed)"""
    begin = time.monotonic()
    under_pytest = test.startswith("tests/python/")
    command = [chosen.python, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", test] if under_pytest else ["/usr/bin/python3", "-B",
                                                                                                                test]
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment | {"NORN_TEST_SEED": str(seed)}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=chosen.timeout)
        code, said = done.returncode, done.stdout
    except subprocess.TimeoutExpired as expired:
        code, said = "no end", expired.stdout or b""
    failed = code not in (0, 5, 77)  # 5: pytest collected nothing; 77: a test skips itself
    if failed:
        folder = pathlib.Path(chosen.keep)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{test.replace('/', '_')}.{seed}").write_bytes(b"exit code %r\n" % code + said)
    return time.monotonic() - begin, failed


def main():
    chosen = options()
    build = pathlib.Path(chosen.build).resolve()
    environment = os.environ | {"NORN_BIN": str(build / "bin"), "NORN_SOURCE": str(ROOT), "PYTHONPATH": str(build / "python")}
    for name, value in {"NORN_MPI": "ON", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                        "OMPI_MCA_rmaps_base_oversubscribe": "1", "OPENBLAS_NUM_THREADS": "1"}.items():
        environment.setdefault(name, value)
    tests = chosen.tests or tests_that_draw()
    print(f"{len(tests)} tests, {chosen.times} runs each, first seed {chosen.first_seed}", flush=True)
    anything = False
    with concurrent.futures.ThreadPoolExecutor(chosen.jobs) as pool:
        for test in tests:
            seeds = range(chosen.first_seed, chosen.first_seed + chosen.times)
            results = dict(zip(seeds, pool.map(lambda seed, test=test: run(test, seed, chosen, environment), seeds)))
            failed = [seed for seed, (_, wrong) in results.items() if wrong]
            mean = sum(seconds for seconds, _ in results.values()) / len(results)
            print(f"{test}: {len(results)} runs of {mean:.1f} s, {len(failed)} failed {failed or ''}", flush=True)
            anything = anything or bool(failed)
    return 1 if anything else 0


if __name__ == "__main__":
    sys.exit(main())
