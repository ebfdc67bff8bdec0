# SPDX-License-Identifier: Apache-2.0
"""What goes on beside training: callables that are given an Environment.

A function is called after every epoch (`env.kind == "epoch"`) and after every validation ("validation"). Whatever it
raises stops the run and is raised by `fit`, but StopTraining, which ends the run there. A Callback is told of more, and
may bring settings of the engine with it.
"""
from __future__ import annotations

import abc
import dataclasses
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .errors import UsageError

if TYPE_CHECKING:
    from .history import History


class StopTraining(Exception):
    """Raised in a callback: the run ends here, without an error, with the model as it stands."""


@dataclasses.dataclass
class Environment:
    """Where a run stands, or stood, when a callback is called: every call has its own. The history alone is the run's and goes on.

    kind: "begin", "step", "epoch", "validation", "checkpoint" or "end".
    report: all that the engine says of it. At the end also what was "raised", and "end": "completed", "early_stopped", "stopped" or
        "failed".
    settings: of the run, as they were given, by name.
    history: a dictionary for each epoch so far.
    epoch: counted from 1.
    epochs: how many are wanted.
    step: updates of the weights so far.
    cost: of training, of the epoch so far.
    rate: the learning rate.
    metrics: of the last validation, by names such as "ndcg@10".
    best: whether that was the best.
    """

    kind: str
    report: Mapping[str, Any]
    history: History
    settings: Mapping[str, object] = dataclasses.field(default_factory=dict[str, object])
    epoch: int = 0
    epochs: int = 0
    step: int = 0
    cost: float | None = None
    rate: float | None = None
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict[str, float])
    best: bool = False


def listed(callbacks: object) -> list[Callable[[Environment], object]]:
    """Of one callback or several. Raises UsageError for what cannot be called."""
    if callbacks is None:
        return []
    if not callable(callbacks) and not isinstance(callbacks, Iterable):
        raise UsageError(f"`callbacks` {callbacks!r}: expected a function, or a list of functions and callbacks of norn")
    found: list[Any] = [callbacks] if callable(callbacks) else list(callbacks)
    for one in found:
        if not callable(one):
            raise UsageError(f"`callbacks`: {one!r} cannot be called")
        if isinstance(one, type) and issubclass(one, Callback):
            raise UsageError(f"`callbacks`: {one.__name__} is a class; call it, as in norn.{one.__name__}(...)")
    return found


class Callback:
    """What callbacks of more than a function derive from: `__call__(env)` is called with an Environment of every kind."""

    step_seconds: float | None = None  # between reports of steps; None: it wants none

    def settings(self) -> Mapping[str, object]:
        """Settings of the run that it stands for, by name."""
        return {}

    def rate(self, epoch: int, rate: float) -> float:
        """The learning rate of an epoch in place of the schedule's.

        epoch: counted from 1.
        rate: that of the schedule, or of the callback before.
        """
        return rate

    def __call__(self, env: Environment) -> None:
        pass


class early_stopping(Callback):
    """Ends the run when a metric has not become better, and keeps the best model. It needs a validation:
    `fit(..., validation=0.1)`. It does not end the run before a share of its epochs, the setting `early_stop_from`: 0.25, and 0.75
    with the rate schedule Cosine, which is the recipes'; the best model is kept of all epochs.

    metric: "ndcg@20", "recall@10" and so on, or "loss", of which less is better.
    patience: validations without a better value.
    min_delta: a better value is better by more than this.
    """

    def __init__(self, metric: str, patience: int = 5, min_delta: float | None = None):
        self._settings = {"early_stop": metric, "patience": patience, "min_delta": min_delta}

    def settings(self) -> Mapping[str, object]:
        return self._settings


class run_folder(Callback):
    """Records the run in a folder, as `trainer --run-dir` does: log, curves, what it takes to make it again.

    folder: which; it is made. docs/user/run_folder.md says what stands in it.
    """

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = os.fspath(folder)

    def settings(self) -> Mapping[str, object]:
        return {"run_dir": self.folder}


class checkpoints(Callback):
    """Writes the model to a file, and checkpoints beside it, from which a run that was killed goes on when it is started
    again. It goes on with the same data and settings alone, and for more `epochs`; others are refused. `force=True` beside it
    starts anew and replaces the model and its checkpoints.

    model: the file, NAME.nc.
    epochs, minutes: how many between checkpoints; 0: none. Without both a twentieth of the time goes to them at most: one is
        written when 20 times as long has passed as the last one took, and ten seconds.
    keep: checkpoints that stay, the newest; 0: all; None: 3.
    """

    def __init__(self, model: str | os.PathLike[str], epochs: int | None = None, minutes: float | None = None, keep: int | None = None):
        self._settings = {"model": os.fspath(model), "resume": "auto", "same_run": True,
                          "checkpoint_epochs": epochs, "checkpoint_minutes": minutes, "keep": keep}

    def settings(self) -> Mapping[str, object]:
        return self._settings


class reset_rate(Callback):
    """Sets the learning rate of every epoch.

    rates: a sequence with one for each, the last of which stays, or a function of the epoch, counted from 1, and the
        schedule's rate. Raises UsageError for a sequence that is empty.
    """

    def __init__(self, rates: Sequence[float] | Callable[[int, float], float]):
        if not callable(rates) and len(rates) == 0:
            raise UsageError("`rates`: is empty, expected a rate for each epoch")
        self.rates = rates

    def rate(self, epoch: int, rate: float) -> float:
        if callable(self.rates):
            return self.rates(epoch, rate)
        return self.rates[min(epoch, len(self.rates)) - 1]


class progress(Callback):
    """Shows how far the run is on stderr: with tqdm where it is installed, else a line an epoch."""

    step_seconds = 0.2

    def __init__(self) -> None:
        self._bar: Any = None

    def __call__(self, env: Environment) -> None:
        if env.kind == "begin":
            self._begin(env)
        elif self._bar is not None:
            self._show(env)
        elif env.kind in ("epoch", "validation"):
            print(f"epoch {env.epoch} of {env.epochs}: {_words(env)}", file=sys.stderr)

    def _begin(self, env: Environment) -> None:
        self._examples = env.report["examples"]
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return
        self._bar = tqdm(total=env.epochs * self._examples, initial=env.report["first_examples"], unit=" examples", unit_scale=True)

    def _show(self, env: Environment) -> None:
        if env.kind == "end":
            self._bar.close()
            self._bar = None
            return
        done = env.epoch * self._examples
        if env.kind == "step":
            done += env.report["examples"] - self._examples
        self._bar.set_description(f"epoch {env.epoch} of {env.epochs}", refresh=False)
        self._bar.set_postfix_str(_words(env), refresh=False)
        self._bar.update(done - self._bar.n)


def _words(env: Environment) -> str:
    words = [] if env.cost is None else [f"cost {env.cost:.5g}"]
    return ", ".join(words + [f"{name} {value:.4f}" for name, value in list(env.metrics.items())[:3]])


class _Tracker(Callback, abc.ABC):
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

    @abc.abstractmethod
    def begin(self, settings: Mapping[str, object]) -> None:
        """The run begins."""

    @abc.abstractmethod
    def log(self, figures: Mapping[str, float], epoch: int) -> None:
        """What an epoch or a validation came to."""

    @abc.abstractmethod
    def end(self, how: str, raised: BaseException | None) -> None:
        """The run has ended."""


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
