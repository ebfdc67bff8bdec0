# SPDX-License-Identifier: Apache-2.0
"""What each way of calling the program tuner does."""
import argparse
import os
import pathlib
import signal
import sys
import tempfile
from typing import Any

from .._files import write_json
from .._script import run_script
from ..errors import UsageError
from ..programs import path_of
from . import looks, program
from .coordinator import Coordinator
from .corners import check_corners
from .executors.pool import Pool, open_pool
from .facts import STAGE, Facts
from .journal import Journal, last_opening
from .known import Known
from .options import DEFAULT_TRIALS, parser_of
from .plain import has_examples
from .repeat import Differs, begin, original_of
from .sampler import Sampler
from .study import Study, create, draft
from .transfer import prior_of, read_sources
from .voice import Voice, result_text

NOTHING = "none"  # of --known
RUNNING = ("executor", "executor_file", "workers", "gpus")


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1:]


def main(description: str) -> int:
    """The program; its exit code."""
    return run_script("tuner", lambda: _run(description), go_on="the study")


def _run(description: str) -> int:
    own, handed = _split(sys.argv[1:])
    parser = parser_of(description)
    wish = parser.parse_args(own)
    if wish.trainer_options:
        parser.error(f"{wish.trainer_options[0]}: is not understood; options for the trainer stand behind --")
    if not wish.study and not wish.dry_run and not looks.wanted(wish):
        raise UsageError("--study is missing; give the folder of a study, which is made where there is none")
    return _do(wish, handed)


def _do(wish: argparse.Namespace, handed: list[str]) -> int:
    if looks.wanted(wish) or wish.page:
        return looks.look(wish)
    trainer_path = path_of("trainer", wish.trainer, "--trainer")
    handed = program.check_options(handed)
    folder = pathlib.Path(os.path.abspath(wish.study)) if not wish.dry_run else None
    study = _open(folder, wish, handed) if folder and (folder / "study.json").exists() else None
    if folder and not study and wish.repeat:
        study = begin(folder, wish, trainer_path, handed)
    _run_as_before(wish, folder if study else None)
    pool = open_pool(wish, study.identity["ranks"] if study else wish.ranks or 1)
    wish.running = {key: getattr(wish, key) for key in RUNNING}
    wish.workers = len(pool.places)
    if folder is None:
        return _dry_run(wish, trainer_path, handed, pool)
    study = study or _create(folder, wish, trainer_path, handed)
    return _search(study, wish, trainer_path, pool)


def _run_as_before(wish: argparse.Namespace, folder: pathlib.Path | None) -> None:
    """What trials run on where the call does not say it: what they ran on when the study was last at work."""
    before = last_opening(folder / "journal.jsonl").get("running", {}) if folder else {}
    if wish.executor in (None, before.get("executor")):
        if wish.executor_file is None:
            wish.executor_file = before.get("executor_file")
        if wish.workers is None and wish.gpus is None:
            wish.workers, wish.gpus = before.get("workers"), before.get("gpus")
        wish.executor = before.get("executor")
    wish.executor, wish.workers = wish.executor or "local", wish.workers or 1
    wish.executor_file = os.path.abspath(wish.executor_file) if wish.executor_file else None


def _open(folder: pathlib.Path, wish: argparse.Namespace, handed: list[str]) -> Study:
    study = Study.open(folder)
    study.refuse_other(wish)
    if handed and handed != study.identity["options"]:
        raise UsageError(f"-- {' '.join(handed)}: the study {folder} was begun with {' '.join(study.identity['options']) or 'none'}; leave "
                         f"them out, or begin another study")
    if wish.sources:
        raise UsageError(f"--from: the study {folder} has begun, and what it may know is fixed; leave the option out, or begin another "
                         "study")
    return study


def _create(folder: pathlib.Path, wish: argparse.Namespace, trainer_path: pathlib.Path, handed: list[str]) -> Study:
    identity, trainer = draft(wish, trainer_path, handed)
    draft_study = Study(folder, identity)
    Sampler(draft_study.space, identity["sampler"], identity["seed"], identity["start"])
    identity["sources"] = read_sources(wish.sources or [], draft_study)
    check_corners(draft_study, trainer, wish.space)
    return create(folder, identity, trainer)


def _search(study: Study, wish: argparse.Namespace, trainer_path: pathlib.Path, pool: Pool) -> int:
    pool.executor.check()
    beside = _known_folders(study, wish)
    journal, voice = Journal(study.folder), Voice(study, wish.quiet)
    try:
        facts = Facts(journal)
        trainer = study.trainer(trainer_path)
        for warning in study.check_data(trainer):
            voice.warn(f"warning: {warning}")
        voice.known(facts)
        pool.warn = voice.warn
        original = facts.original = original_of(study, wish)
        if original is None:
            _note_budget(wish, facts, pool)
        else:
            original.note_budgets(facts, _about(pool, wish))
        if facts.budget.get("plain") and not facts.decided["propose"] and not has_examples(study.objective):
            voice.say(f"single examples have no value of {study.objective}: the best trial is not compared with the plain recipe")
        one = study.identity
        sampler = Sampler(study.space, one["sampler"], one["seed"], one["start"], prior_of(study))
        coordinator = Coordinator(study, facts, trainer, pool, sampler, wish.hours, pool.threads(wish.threads), voice,
                                  Known(study, beside, voice.warn))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
            signal.signal(number, coordinator.handle)
        try:
            result = coordinator.run()
        except Differs:
            coordinator.give_up()
            raise
        facts.note("end", result)
        looks.page_at_the_end(study.folder, voice)
        voice.end()
        print(result_text(study, facts, result))
        if original is not None:
            print(original.conclude(result, study.folder))
        return 0
    finally:
        pool.executor.close()
        voice.end()
        journal.close()


def _known_folders(study: Study, wish: argparse.Namespace) -> list[pathlib.Path] | None:
    """Where studies stand whose trainings are taken; None: a search that is made again to compare it makes all of them, too."""
    given = wish.known or [str(study.folder.parent)]
    if "repeats" in study.identity or set(given) == {NOTHING}:
        return None
    wrong = next((name for name in given if name == NOTHING or not os.path.isdir(name)), None)
    if wrong is not None:
        raise UsageError(f"--known {wrong}: " + ("says to take nothing; leave out the others, or it" if wrong == NOTHING else
                                                 "is no folder; give one in which studies stand, or none"))
    return [pathlib.Path(os.path.abspath(name)) for name in given]


def _note_budget(wish: argparse.Namespace, facts: Facts, pool: Pool) -> None:
    """What is not given stays as it was. A budget that has been used may be raised, and then counts after the one before."""
    before = facts.budget
    given = {"trials": wish.trials, "epochs": wish.epoch_budget, "seconds": 3600.0 * wish.gpu_hours if wish.gpu_hours else None,
             "confirm": wish.confirm, "seeds": wish.seeds, "plain": None if wish.plain is None else wish.plain == "yes"}
    names = {"trials": "--trials", "epochs": "--epoch-budget", "seconds": "--gpu-hours (in seconds)"}
    for key, name in names.items():
        if given[key] is not None and before.get(key) is not None and given[key] < before[key]:
            raise UsageError(f"{name} {given[key]:g}: the study has {before[key]:g} already; a budget may be raised, not lowered: a study "
                             f"that runs is stopped by control-C, and --best gives what it has found")
    budget = {key: value if value is not None else before.get(key) for key, value in given.items()}
    endless = all(budget[key] is None for key in STAGE) and wish.hours is None
    if endless and not facts.stages:
        budget["trials"] = DEFAULT_TRIALS
    elif endless and not facts.stages[-1].get("cut", False):
        raise UsageError("the study was begun with --hours alone, and they were not over: give --hours or --trials")
    if budget["plain"] is None:
        budget["plain"] = not before  # a study that was begun when there was no comparison has none
    budget.update(confirm=3 if budget["confirm"] is None else budget["confirm"], seeds=budget["seeds"] or 3)
    changed = any(budget[key] != before.get(key) for key in STAGE)
    stage = not facts.stages or changed or (wish.hours is not None and facts.stages[-1].get("cut", False))
    facts.note("open", {"budget": budget, "stage": stage, **_about(pool, wish)})


def _about(pool: Pool, wish: argparse.Namespace) -> dict[str, Any]:
    return {"pid": os.getpid(), "host": os.uname().nodename, "executor": pool.settings.executor, "places": len(pool.places),
            "running": wish.running}


def _dry_run(wish: argparse.Namespace, trainer_path: pathlib.Path, handed: list[str], pool: Pool) -> int:
    there = pool.executor.check()
    identity, trainer = draft(wish, trainer_path, handed)
    with tempfile.TemporaryDirectory(prefix="norn-tuner-") as name:
        folder = pathlib.Path(name)
        study = Study(folder, identity)
        identity["sources"] = read_sources(wish.sources or [], study)
        prices = check_corners(study, trainer, wish.space)
        write_json(folder / "net.json", identity["descriptor"])
        plain = trainer.plan(folder / "net.json") if wish.plain != "no" and has_examples(study.objective) else None
        facts, _ = trainer.probe(folder / "net.json", folder / "probe")
    plans = [program.plan_of(price, study.network_of(study.space.settings(row)), facts["examples"]) for row, price in prices]
    hours = [plan.epoch_seconds * plan.epochs / 3600.0 for plan in plans if plan.fits]
    trials = wish.trials or DEFAULT_TRIALS
    print(f"{len(study.space)} parameters; {facts['examples']} examples; {facts['device_name']}\n"
          f"objective {study.objective}; sampler {identity['sampler']}; " + (f"one of {identity['halving']} goes on after epochs "
          f"{', '.join(map(str, identity['rungs']))}" if identity["rungs"] else "every trial makes all its epochs"))
    print(f"{len(plans)} corners of the space planned: {sum(plan.fits for plan in plans)} fit"
          + (f", a trial takes {min(hours):.3g} to {max(hours):.3g} planned hours" if hours else ""))
    print(f"executor {pool.settings.executor}: {there}")
    if hours:
        print(f"{trials} trials: about {trials * sum(hours) / len(hours):.3g} planned hours"
              + (", a third to a half of that with halving" if identity["rungs"] else ""))
    if plain is not None:
        own = program.plan_of(plain, study.network, facts["examples"])
        print("the plain recipe, which the best is compared with: "
              + (f"{own.epoch_seconds * own.epochs / 3600.0:.3g} planned hours" if own.fits else "does not fit"))
    return 0
