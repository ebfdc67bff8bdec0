# SPDX-License-Identifier: Apache-2.0
"""Callbacks that tell trackers of experiments of a run: MLflow, and Weights & Biases."""
from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from .callbacks import Callback, Environment
from .errors import UsageError


class _Tracker(Callback):
    """Settings at the beginning, figures after every epoch and validation, and how it ended."""

    def __call__(self, env: Environment) -> None:
        if env.kind == "begin":
            self.begin({**env.settings, "epochs": env.epochs, "examples": env.report["examples"]})
        elif env.kind == "epoch":
            self.log({name: env.report[name] for name in ("cost", "regularization", "rate", "seconds")}, env.epoch)
        elif env.kind == "validation":
            self.log({"validation_cost": env.report["cost"], **env.metrics}, env.epoch)
        elif env.kind == "end":
            self.end(env.report["end"], env.report.get("raised"))

    def begin(self, settings: Mapping[str, object]) -> None:
        raise NotImplementedError

    def log(self, figures: Mapping[str, float], epoch: int) -> None:
        raise NotImplementedError

    def end(self, how: str, raised: BaseException | None) -> None:
        raise NotImplementedError


def _required(package: str, callback: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise UsageError(f"{package} is needed for norn.{callback}; install it: pip install {package}") from None


def _plain(figures: Mapping[str, float]) -> dict[str, float]:
    """Under names that trackers take: ndcg_at_20."""
    return {name.replace("@", "_at_"): value for name, value in figures.items()}


class mlflow_run(_Tracker):
    """Tells MLflow of the run: settings become parameters, cost and what is validated metrics by epoch, "ndcg@20" as ndcg_at_20. A run of
    MLflow that is active is gone on with, and stays active: parameters that it has already stay as they are. Else one is
    begun, which ends with the training: FINISHED, KILLED by Ctrl-C, FAILED by an error. Needs mlflow or mlflow-skinny.

    experiment: its name; None: MLflow's own.
    name: of the run; below an active one it is a run of its own, nested.
    tracking_uri: where MLflow keeps runs; None: as MLflow is set.
    """

    def __init__(self, experiment: str | None = None, *, name: str | None = None, tracking_uri: str | None = None):
        self._mlflow = _required("mlflow", "mlflow_run")
        self._experiment, self._name, self._uri = experiment, name, tracking_uri
        self._run: Any = None
        self._own = False

    def begin(self, settings: Mapping[str, object]) -> None:
        if self._uri is not None:
            self._mlflow.set_tracking_uri(self._uri)
        run, within = self._mlflow.active_run(), bool(self._mlflow.active_run())
        self._own = not within or self._name is not None
        if self._own:
            found = self._mlflow.set_experiment(self._experiment).experiment_id if self._experiment is not None and not within else None
            run = self._mlflow.start_run(experiment_id=found, run_name=self._name, nested=within)
        self._run = run.info.run_id
        there = self._mlflow.MlflowClient().get_run(self._run).data.params
        self._mlflow.log_params({name: value for name, value in settings.items() if name not in there})

    def log(self, figures: Mapping[str, float], epoch: int) -> None:
        self._mlflow.log_metrics(_plain(figures), step=epoch, run_id=self._run)

    def end(self, how: str, raised: BaseException | None) -> None:
        run, self._run = self._run, None
        if run is None:
            return
        self._mlflow.MlflowClient().set_tag(run, "norn.end", how)
        if self._own:
            killed = isinstance(raised, KeyboardInterrupt)
            self._mlflow.end_run("KILLED" if killed else "FAILED" if raised is not None or how == "failed" else "FINISHED")


class wandb_run(_Tracker):
    """Tells Weights & Biases of the run: settings become the config, cost and what is validated is logged by "epoch", "ndcg@20" as
    ndcg_at_20. A run of W&B that is active is gone on with, and stays active; else one is begun, which finishes with the
    training. Needs wandb, whose WANDB_MODE=offline keeps everything on this machine.

    project: its name; None: as W&B is set.
    name: of the run.
    tags: of the run.
    """

    def __init__(self, project: str | None = None, *, name: str | None = None, tags: Sequence[str] = ()):
        self._wandb = _required("wandb", "wandb_run")
        self._project, self._name, self._tags = project, name, list(tags)
        self._run: Any = None
        self._own = False
        self._known: set[str] = set()

    def begin(self, settings: Mapping[str, object]) -> None:
        self._own = self._wandb.run is None
        self._run = self._wandb.init(project=self._project, name=self._name, tags=self._tags) if self._own else self._wandb.run
        self._run.config.update(dict(settings), allow_val_change=True)

    def log(self, figures: Mapping[str, float], epoch: int) -> None:
        plain = _plain(figures)
        for name in plain.keys() - self._known:
            self._run.define_metric(name, step_metric="epoch")
        self._known |= plain.keys()
        self._run.log({"epoch": epoch, **plain})

    def end(self, how: str, raised: BaseException | None) -> None:
        run, self._run = self._run, None
        if run is None:
            return
        run.summary["end"] = how
        self._known.clear()
        if self._own:
            run.finish(exit_code=int(raised is not None or how == "failed"))
