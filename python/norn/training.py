# SPDX-License-Identifier: Apache-2.0
"""Training any network on any data sets, and what training calls meanwhile."""
from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from . import _core, _settings
from ._arrays import is_by_name, memory_set, named, tell_of_parts
from .callbacks import Callback, Environment, StopTraining, listed
from .errors import Error
from .history import History, add_report
from .network import Network, as_network, model_file, run_settings

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._setting_types import Settings
    from ._types import Callbacks, Descriptor, Facts, Matrix


_log = logging.getLogger("norn")


@dataclasses.dataclass
class Run:
    """What a run came to. `raised` stopped it; the model is as it stood then."""

    model: _core.Model | None
    history: History
    facts: Facts
    raised: BaseException | None


class _Told:
    """Hands what the engine reports to callbacks."""

    def __init__(self, callbacks: list[Callable[[Environment], object]], history: History, settings: Facts):
        self.callbacks = callbacks
        self.history = history
        self.reports: list[tuple[str, Any]] = []  # the engine adds to it; Ctrl-C may come anywhere in Python
        self.taken = 0
        self.env = Environment("begin", {}, history, settings)

    def __call__(self, kind: str, report: Any) -> None:
        if kind == "checkpoint":
            report = {"path": report}
        env = self.env
        env.kind, env.report = kind, report
        for name in ("epoch", "epochs", "step", "cost", "rate"):
            if name in report and not (kind == "validation" and name == "cost"):
                setattr(env, name, report[name])
        if kind == "validation":
            env.metrics, env.best = report["metrics"], report["best"]
        self.take_reports()
        for callback in self.callbacks:
            if isinstance(callback, Callback) or kind in ("epoch", "validation"):
                callback(dataclasses.replace(env))

    def take_reports(self) -> None:
        while self.taken < len(self.reports):
            add_report(self.history, *self.reports[self.taken])
            self.taken += 1

    def end(self, report: Facts) -> BaseException | None:
        """Tells callbacks how the run ended, all of them. Returns what the first has raised, so that the model is not lost by it."""
        self.take_reports()
        self.env.kind, self.env.report = "end", report
        raised: list[BaseException] = []
        for callback in self.callbacks:
            try:
                if isinstance(callback, Callback):
                    callback(dataclasses.replace(self.env))
            except BaseException as error:
                raised.append(error)
        for error in raised[report["raised"] is None:]:
            _log.error("a callback raised at the end of the run: %s: %s", type(error).__name__, error)
        return raised[0] if raised else None


def _rate_of(callbacks: list[Callable[[Environment], object]]) -> Callable[[int, float], float] | None:
    resets = [c for c in callbacks if isinstance(c, Callback) and type(c).rate is not Callback.rate]
    if not resets:
        return None

    def rate(epoch: int, value: float) -> float:
        for callback in resets:
            value = callback.rate(epoch + 1, value)
        return value

    return rate


def merged(settings: Mapping[str, Any], callbacks: Iterable[Callable[[Environment], object]]) -> dict[str, Any]:
    """Settings with those of callbacks, as the engine takes them."""
    own = {name: value for name, value in settings.items() if value is not None}
    files: dict[str, Any] = {}
    for callback in callbacks:
        for name, value in (callback.settings() if isinstance(callback, Callback) else {}).items():
            if name in ("model", "resume", "same_run", "run_dir"):
                files[name] = value
            elif value is not None:
                own[name] = value
    checked = _settings.checked(own)
    if checked.get("force"):
        files.pop("resume", None)  # anew: what `checkpoints` would go on from is replaced
    return checked | files


_NOT_TOLD = ("sets", "validation_sets", "network", "config", "resume", "same_run")  # data, networks and files, which are no settings


def run(native: dict[str, Any], callbacks: Iterable[Callable[[Environment], object]] = (), history: History | None = None,
        beside: Mapping[str, object] | None = None) -> Run:
    """Trains with settings as the engine takes them; `beside` is told to callbacks, too."""
    callbacks = list(callbacks)
    history = History() if history is None else history
    seconds = [c.step_seconds for c in callbacks if isinstance(c, Callback) and c.step_seconds is not None]
    settings = {name: value for name, value in native.items() if name not in _NOT_TOLD}
    told = _Told(callbacks, history, {**settings, **(beside or {})})
    try:
        facts, model, raised = _core.train(native, told, told.reports, min(seconds, default=-1.0), _rate_of(callbacks))
    except BaseException as error:
        told.end({"end": "failed", "raised": error})
        raise
    raised = None if isinstance(raised, StopTraining) else raised
    late = told.end({**facts, "raised": raised})
    return Run(model, history, facts, raised or late)


def resumed(network: Network, native: dict[str, Any], callbacks: Iterable[Callable[[Environment], object]]) -> Run:
    """Goes on with a model in memory."""
    with model_file(network.model) as file, _without_name(file):
        return run(native | {"resume": file}, callbacks, network.history)


def begun(network: Network, native: dict[str, Any], callbacks: Iterable[Callable[[Environment], object]]) -> Run:
    """Begins with the weights of a model in memory that has no state of a training."""
    with run_settings(network) as source, _without_name(source["config"]):
        return run({name: value for name, value in native.items() if name not in ("same_run", "other_data")} | source, callbacks,
                   network.history)


@contextlib.contextmanager
def _without_name(file: str) -> Generator[None, None, None]:
    """Messages and errors of the engine say "the model" for a file that the caller knows nothing of."""
    def renamed(record: logging.LogRecord) -> bool:
        if file in (message := record.getMessage()):
            record.msg, record.args = message.replace(file, "the model"), ()
        return True

    log = logging.getLogger("norn")
    log.addFilter(renamed)
    try:
        yield
    except Error as error:
        if file not in str(error):
            raise
        problems = [{key: value.replace(file, "the model") if isinstance(value, str) else value for key, value in one.items()}
                    for one in error.problems]
        raise type(error)(str(error).replace(file, "the model"), problems=problems) from None
    finally:
        log.removeFilter(renamed)


@_settings.documented
def train(
    network: Descriptor,
    data: Mapping[str, Matrix],
    *,
    validation: float | Mapping[str, Matrix] | None = None,
    callbacks: Callbacks = (),
    device: str = "auto",
    threads: int = 0,
    precision: str = "tf32",
    **settings: Unpack[Settings],
) -> Network:
    """Trains any network.

    network: a Network, a descriptor (a dictionary or JSON text), or a path to one; of a trained Network the weights are
        where training begins.
    data: by the names that the network's layers have in "DataSet", sparse matrices of SciPy, Datasets, or arrays of
        NumPy ([examples, units], dense). float32 values and int32 indices are read where they stand.
    validation: the share of the data to validate with, or data of their own by name.
    callbacks: as in Recommender.fit.
    device: "auto", "cpu", "cuda", "cuda:1".
    threads: of the CPU; 0: one a core.
    precision: of products on a GPU: "fp32", "tf32", "bf16".

    Other keywords are settings of the trainer, which `norn.settings()` lists.

    Returns the trained Network, with which `Recommender.of(network)` recommends; its `history` has a dictionary for each epoch. Raises
    UsageError, DataError, DeviceError, DivergenceError, and what a callback raises. On Ctrl-C KeyboardInterrupt, whose `network` attribute
    is what there is.
    """
    if isinstance(validation, (int, float)):
        settings["validation_split"] = validation
    called = listed(callbacks)
    with run_settings(as_network(network)) as source:
        native = merged(settings, called) | source
        native |= {"device": device, "threads": threads, "precision": precision}
        for name, one in named(data, "data").items():
            tell_of_parts(one, f"data[{name!r}]")
        native["sets"] = [memory_set(name, one, f"data[{name!r}]") for name, one in named(data, "data").items()]
        if is_by_name(validation):
            native["validation_sets"] = [memory_set(n, one, f"validation[{n!r}]") for n, one in named(validation, "validation").items()]
        done = run(native, called)
    trained = Network(done.model, history=done.history, device={"device": device, "threads": threads, "precision": precision})
    if done.raised is not None:
        done.raised.network = trained  # type: ignore[attr-defined]
        raise done.raised
    return trained
