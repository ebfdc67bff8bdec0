# SPDX-License-Identifier: Apache-2.0
"""What each way of calling the program daily does."""
import argparse
import datetime
import json
import os
import pathlib
import sys

from .._script import called_as, run_script
from ..errors import RegionError, UsageError
from ..programs import find_program
from .days import STEPS, Day, Lock, day_of
from .export import export
from .graph import Node
from .options import parser_of
from .plan import Plan
from .programs import Programs, Stop
from .queued import Queued, pools_of
from .regions import Regions
from .runner import Runner, hold
from .slots import Local, hold_gpu, see_gpu, slots_of
from .status import PUBLISHED, state_of, steps_of, table
from .step import Work, do


LOCAL = "local"


def main(description: str) -> int:
    """The program; its exit code."""
    return run_script("daily", lambda: _do(parser_of(description).parse_args()), go_on="the day")


def _do(wish: argparse.Namespace) -> int:
    regions = Regions(wish.regions)
    day = Day(regions.days, day_of(wish.day or datetime.date.today().isoformat()))
    names = regions.named(wish.only) if wish.only else list(regions.regions)
    if bool(wish.step) != bool(wish.region):
        raise UsageError("--step and --region: one is given without the other; a single step needs both")
    if wish.list:
        print("\n".join(f"{name}\t{' '.join(steps_of(regions, regions.regions[name]))}" for name in names))
        return 0
    if wish.status:
        print(table(regions, day, names))
        return 0 if all(state_of(regions, day, name).state == PUBLISHED for name in names) else RegionError.exit_code
    stop = Stop()
    if wish.rollback:
        print("{}: {} is taken back, {} is in service".format(wish.rollback, *regions.roll_back(wish.rollback, stop.check)))
        return 0
    programs = Programs(wish.bin, stop)
    if wish.step:
        [name] = regions.named([wish.region])
        return _step(wish, regions, day, name, programs)
    plan = Plan(regions, day, Lock(day.own / "plan.lock", stop.check))
    if wish.export and wish.executor != LOCAL:
        raise UsageError(f"--export {wish.export[0]}: and --executor: give one of the two; the engine runs the steps")
    if wish.export:
        kind, folder = wish.export
        print(export(kind, pathlib.Path(os.path.abspath(folder)), regions, day, plan, names, _command(regions, day, programs, wish.threads),
                     bool(wish.gpus)))
        return 0
    return _run(wish, regions, day, plan, names, programs)


def _command(regions: Regions, day: Day, programs: Programs, threads: int | None) -> list[str]:
    """The words that a step of the day is called with."""
    return [*find_program("daily"), "--regions", str(regions.path), "--day", day.day, "--bin", str(programs.folder),
            *(["--threads", str(threads)] if threads else []), "--quiet"]


def _step(wish: argparse.Namespace, regions: Regions, day: Day, name: str, programs: Programs) -> int:
    region = regions.regions[name]
    if wish.step not in steps_of(regions, region):
        raise UsageError(f"--step {wish.step}: region \"{name}\" has no such step; it has: {', '.join(steps_of(regions, region))}")
    work = Work(regions, region, day.region(name), programs, _step_threads(wish), _search_words(wish))
    try:
        if wish.gpus:
            see_gpu(wish.gpus)
        if wish.gpus and wish.step != "tune":  # a search's trials hold it themselves, and may outlive the search
            hold_gpu(wish.gpus, programs)
        stamp = do(wish.step, work)
    except RegionError as error:
        if not wish.go_on:
            raise
        print(f"{called_as('daily')}: {name}: {error}", file=sys.stderr)
        return 0
    if not wish.quiet:
        print(f"{name}: {wish.step}: {json.dumps(stamp['result'], ensure_ascii=False)}")
    return 0


def _step_threads(wish: argparse.Namespace) -> int:
    """0: as many as the executor of a search says for each trial."""
    return wish.threads or (0 if wish.executor != LOCAL else os.cpu_count() or 1)


def _queue_words(wish: argparse.Namespace) -> tuple[str, ...]:
    return ("--executor", wish.executor, *(("--executor-file", os.path.abspath(wish.executor_file)) if wish.executor_file else ()))


def _search_words(wish: argparse.Namespace) -> tuple[str, ...]:
    """That a search is called with: what its trials run on."""
    if wish.executor != LOCAL:
        return (*_queue_words(wish), "--workers", str(wish.slots))
    return ("--gpus", wish.gpus) if wish.gpus else ("--workers", "1")


def _executor(wish: argparse.Namespace, regions: Regions, day: Day, programs: Programs) -> tuple[Local | Queued, int]:
    """What steps run on, and the threads of each; 0: a step takes what it finds."""
    if wish.executor == LOCAL:
        if wish.executor_file:
            raise UsageError("--executor-file: is for another --executor; on this machine --slots, --gpus and --threads say all")
        slots = slots_of(wish.slots, wish.gpus)
        return Local(day.own / "steps.txt", slots), wish.threads or max(1, (os.cpu_count() or 1) // len(slots))
    pools = pools_of(wish)
    there, threads = pools[True].executor.check(), pools[True].threads(wish.threads)
    if not wish.quiet:
        print(f"{called_as('daily')}: executor {wish.executor}: {there}", file=sys.stderr, flush=True)

    def work_of(node: Node) -> Work:
        return Work(regions, regions.regions[node.region], day.region(node.region), programs, threads)
    return Queued(day, pools, wish.slots, [*_queue_words(wish), "--slots", str(wish.slots)], work_of), threads


def _run(wish: argparse.Namespace, regions: Regions, day: Day, plan: Plan, names: list[str], programs: Programs) -> int:
    if wish.slots > 1 and wish.gpus:
        raise UsageError("--slots and --gpus: give one of the two; with --gpus there is a slot for each")
    lock = hold(day, programs.stop)
    executor = None
    try:
        executor, threads = _executor(wish, regions, day, programs)
        if wish.from_step:
            for name in names:
                for step in STEPS[STEPS.index(wish.from_step):]:
                    mine = day.region(name)
                    with mine.lock(step, programs.stop.check):
                        mine.forget(step)
        for name in names:  # what failed before may be mended
            for step in STEPS:
                day.region(name).outcome(step).unlink(missing_ok=True)
        code = Runner(regions, day, plan, names, _command(regions, day, programs, threads), executor, programs.stop, wish.quiet,
                      wish.until).run()
        print(table(regions, day, names))
        return code
    finally:
        if executor is not None:
            executor.close()
        os.close(lock.file)
