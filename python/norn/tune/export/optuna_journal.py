# SPDX-License-Identifier: Apache-2.0
"""A journal file of Optuna (its JournalStorage), for optuna-dashboard and Optuna's own analyses."""
import logging
import os
import pathlib
import warnings
from typing import Any

from ..dimensions import Dimension, Listed, Real
from ..facts import Facts, Training
from ..study import Study
from .table import plain

STATES = {"done": "COMPLETE", "halved": "PRUNED"}


def write(study: Study, facts: Facts, folder: pathlib.Path) -> str:
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend
    path = folder / "optuna.journal"
    beside = folder / f".optuna.journal.{os.getpid()}"
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(logging.ERROR)
    try:
        made = optuna.create_study(storage=JournalStorage(JournalFileBackend(str(beside))), study_name=study.folder.name,
                                   direction="minimize" if study.sign < 0 else "maximize")
        with warnings.catch_warnings():  # names of metrics are said to be an experiment
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            made.set_metric_names([study.objective])
        told = {event["trial"]: event for event in facts.decided["tell"]}
        made.add_trials([_trial(optuna, study, facts, event, told.get(event["trial"])) for event in facts.decided["propose"]])
        os.replace(beside, path)
    finally:
        optuna.logging.set_verbosity(level)
        for piece in folder.glob(f"{beside.name}*"):
            piece.unlink(missing_ok=True)
    return str(path)


def _trial(optuna, study: Study, facts: Facts, event: dict, end: dict | None) -> Any:
    number, training = event["trial"], Training(event["trial"])
    distributions = {one.path: _distribution(optuna, one) for one in study.space.dimensions if one.path in event["settings"]}
    state = getattr(optuna.trial.TrialState, STATES.get(end["state"], "FAIL") if end else "RUNNING")
    value = study.shown(end["value"]) if end and end["state"] == "done" else None
    steps = {epoch: study.shown(known) for epoch, known in sorted(facts.values.get(training, {}).items())}
    return optuna.trial.create_trial(
        state=state, value=value, params={path: _param(distributions[path], value) for path, value in event["settings"].items()},
        distributions=distributions, intermediate_values=steps,
        user_attrs={"trial": number, "folder": str(study.trial_folder(training.folder)), "state": end["state"] if end else "running",
                    "epochs": end["epochs"] if end else max(steps, default=0), "seconds": facts.seconds.get(training, 0.0)})


def _param(distribution: Any, value: Any) -> Any:
    return plain(value) if hasattr(distribution, "choices") else value


def _distribution(optuna, one: Dimension) -> Any:
    made = optuna.distributions
    if isinstance(one, Listed):
        return made.CategoricalDistribution([plain(value) for value in one.values])
    if isinstance(one, Real):
        return made.FloatDistribution(one.low, one.high, log=one.scale.log)
    # Optuna has no logarithmic steps.
    return made.IntDistribution(one.low, one.high, log=one.scale.log, step=1 if one.scale.log else one.multiple)
