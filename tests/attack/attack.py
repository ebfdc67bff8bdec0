#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Attacks the programs: draws cases of each kind from a seed, runs them under limits, and keeps what should not have happened.

  attack.py [--minutes N | --cases N] [--seed S] [--kind K]... [--case N] [--jobs J] [--keep FOLDER]

A case is made by its kind, the seed and its number alone, so that one is repeated by --kind, --seed and --case. NORN_BIN is
the folder of the programs; NORN_SANITIZE says that they were built with sanitizers."""
import argparse
import collections
import importlib
import multiprocessing
import os
import pathlib
import random
import shutil
import sys
import tempfile
import time
import traceback

from cases import SANITIZED, STRACE, Case, Finding
import material

KINDS = ("mutants", "calls", "options", "descriptors", "networks", "one_step", "hdf5_structure", "images")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, help="how long, all kinds together")
    parser.add_argument("--cases", type=int, default=10, help="of each kind, unless --minutes is given")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    parser.add_argument("--kind", action="append", choices=KINDS, help="only this one; may be repeated")
    parser.add_argument("--case", type=int, help="only the case of this number, and keep its folder")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path, default=pathlib.Path("build/attack"), help="folder for what is found")
    return parser.parse_args()


def one_case(kind, seed, number, base, folder, keep_always):
    """The case, and its finding or None."""
    case = Case(folder, kind, seed, number)
    finding = None
    try:
        importlib.import_module(kind).attack(case, base)
    except Finding as found:
        finding = str(found)
    except Exception:  # a fault of the attack itself, or a file so odd that the check could not be made
        finding = "the attack failed: " + traceback.format_exc()
    if finding:
        case.path("finding.txt").write_text("\n".join([*case.said, finding]), errors="replace")
        finding = "\n".join([*case.said, finding])
    if finding is None and not keep_always:
        shutil.rmtree(case.folder)
    return case, finding


def attack(options, job, scratch, base, results):
    """Every kind in turn, from its case `job` on in steps of the number of jobs, until the time is up."""
    kinds = options.kind or KINDS
    end = time.monotonic() + 60 * (options.minutes or 0)
    number = options.case if options.case is not None else job
    while options.case is None or number == options.case:
        if not options.minutes and options.case is None and number >= options.cases:
            break
        for kind in kinds:
            if options.minutes and time.monotonic() > end:
                return
            folder = scratch / f"{kind}-{options.seed}-{number}"
            case, finding = one_case(kind, options.seed, number, base, folder, options.case is not None)
            kept = None
            if finding or options.case is not None:
                kept = options.keep / folder.name
                shutil.rmtree(kept, ignore_errors=True)
                shutil.move(str(folder), str(kept))
            results.put((kind, number, (case.programs, case.undecided, case.traced, case.peak), finding, kept))
        number += options.jobs


def tell(options, results, processes):
    """Counts what comes until all processes have ended; the findings."""
    cases, programs, unclear, traced, found = (collections.Counter() for _ in range(5))
    peaks = collections.defaultdict(int)
    while any(process.is_alive() for process in processes) or not results.empty():
        try:
            kind, number, (ran, undecided, watched, peak), finding, kept = results.get(timeout=0.5)
        except Exception:  # nothing for half a second
            continue
        cases[kind] += 1
        programs[kind] += ran
        unclear[kind] += undecided
        traced[kind] += watched
        peaks[kind] = max(peaks[kind], peak)
        if finding:
            found[kind] += 1
            print(f"FOUND by {kind}, case {number}; its folder: {kept}\n{finding}\n"
                  f"again: tools/dev/attack.sh {'--sanitized ' * SANITIZED}--seed {options.seed} --kind {kind} --case {number}\n",
                  flush=True)
    for kind in options.kind or KINDS:
        print(f"{kind:12} {cases[kind]:7} cases {programs[kind]:7} runs of programs {found[kind]:4} findings" +
              f" {unclear[kind]:4} undecided" * (unclear[kind] > 0) + f" {traced[kind]:7} watched by strace" * (traced[kind] > 0) +
              f" {peaks[kind] >> 20:5} MiB at most" * (peaks[kind] > 0))
    return sum(found.values())


def main():
    options = parse()
    options.keep = options.keep.resolve()
    options.keep.mkdir(parents=True, exist_ok=True)
    print(f"seed {options.seed}", flush=True)
    if STRACE is None:
        print("strace is not installed: nobody watches what is opened", flush=True)
    with tempfile.TemporaryDirectory(prefix="norn-attack-") as scratch:
        scratch = pathlib.Path(scratch)
        base = material.make(scratch / "material", options.seed)
        results = multiprocessing.Queue()
        processes = [multiprocessing.Process(target=attack, args=(options, job, scratch, base, results))
                     for job in range(1 if options.case is not None else options.jobs)]
        for process in processes:
            process.start()
        found = tell(options, results, processes)
        failed = any(process.exitcode for process in processes)
    if failed:
        print("an attacker ended early; see above")
    print("nothing found" if not found and not failed else f"{found} findings, seed {options.seed}, in {options.keep}")
    sys.exit(1 if found or failed else 0)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    main()
