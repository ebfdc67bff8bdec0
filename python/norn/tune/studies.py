# SPDX-License-Identifier: Apache-2.0
"""Searches from Python."""
from __future__ import annotations

import dataclasses
import filecmp
import json
import os
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from .. import _words
from .._child import run_program
from .._files import write_json
from ..errors import DataError, UsageError
from . import looks
from .export import export
from .export.table import records
from .facts import Facts
from .voice import best_of, best_settings, status

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._setting_types import TrialSettings
    from .._types import Descriptor, Matrix, Path
    from ..network import Network
    from ..recommender import Recommender
    from .study import Study as Stored

# Arguments, by the options of the program that are called otherwise.
_NAMES = {"study": "folder", "config": "network", "input": "data", "from": "sources", "executor-file": "executor_settings",
          "validation-split": "validation", "validation-input": "validation"}


@dataclasses.dataclass(frozen=True)
class Best:
    """What a study has come to: its best trial or, where that is no better than chance would have it, the plain recipe. Of one that has not
    ended the best so far.

    trial: the number of the best trial.
    value: of the objective, in the search.
    settings: of what is kept: what the space was searched for, by path; of the plain recipe none.
    descriptor: the whole network's that is kept.
    confirmed: of the best trials `trial`, `value`, and `mean`, `spread` and `values` with other seeds; empty before the study has ended.
    kept: "trial" or "plain".
    comparison: of the best trial with the plain recipe `verdict` ("trial", "plain" or "no difference": what is better), `value` and
        `plain` (means over the held-out `examples`), `difference`, `low` and `high`, between which it is, each as sure as `level` says
        for the best of so many `trials`, and `p`, how often chance alone brings as much; None where nothing was compared.
    """

    trial: int
    value: float
    settings: dict[str, object]
    descriptor: dict[str, object]
    confirmed: list[dict[str, object]]
    kept: str = "trial"
    comparison: dict[str, object] | None = None


class Study:
    """A search of a network's settings (docs/user/tuner.md). It stands in its folder, which the program tuner takes, too: what was begun
    here goes on there.

    `run` makes it, goes on with it after Ctrl-C or a kill, and makes more of it. The same settings make the same trials and the same best
    model, by any number of workers, from here or by the program.

    folder: where everything stands. Of one that holds a study nothing else need be given.
    network: what the space changes: a Recommender with its settings, a Network, a descriptor as a dictionary, JSON text or a path.
    space: what is searched, and within what: a dictionary {path: what it may be} such as {"Training.Alpha": {"Range": [1e-4, 1e-2],
        "Scale": "log"}}, or the path of a file.
    data: what is trained on: a Dataset, a sparse matrix, or paths of files that importer or `Dataset.to_netcdf` wrote.
    validation: the share of the data to compare trials by, such as 0.1, or data of their own.
    trials, epoch_budget, gpu_hours, hours: how far it goes: proposals (50, where nothing else is said), epochs or planned hours of all
        trials together, hours of this call after which nothing more is proposed.
    workers, gpus, threads: trials at a time, or the GPUs that have one each ([0, 1], "0*5"), and the threads of each.
    executor, executor_settings: what trials run on: "local", "slurm" and so on (docs/user/clusters.md), with its settings as a dictionary
        or a path.
    epochs, objective: of a whole trial, and what is compared: "ndcg@20", "loss".
    sampler, seed, start, halving, rungs, clock, ranks: of the search, as the program has them. halving=0: every trial is trained to its
        end.
    confirm, seeds: in the end so many of the best are trained with so many other seeds.
    plain: the network is trained as it is, too, and the best trial kept only where it is better than that by more than chance (True, where
        examples have a value of the objective).
    sources: folders of studies that it may know.
    known: folders of studies whose trainings are taken where they are the same, or () for none; None: the folder that `folder` stands in.
    machine: the description of the machine that is planned for.
    device, precision: of each trial.

    Other keywords say how trials are validated: validate_every, metrics_at and so on, as in `norn.settings()`.
    """

    def __init__(self, folder: Path, network: Descriptor | Recommender | None = None, space: Mapping[str, object] | Path | None = None,
                 data: Matrix | Path | Sequence[Path] | None = None, *, validation: float | Matrix | Path | Sequence[Path] | None = None,
                 trials: int | None = None, epoch_budget: int | None = None, gpu_hours: float | None = None, hours: float | None = None,
                 workers: int | None = None, gpus: str | Sequence[int | str] | None = None, threads: int | None = None,
                 executor: str | None = None, executor_settings: Mapping[str, object] | Path | None = None, epochs: int | None = None,
                 objective: str | None = None, sampler: str | None = None, seed: int | None = None, start: int | None = None,
                 halving: int | None = None, rungs: Sequence[int] | None = None, clock: int | None = None, ranks: int | None = None,
                 confirm: int | None = None, seeds: int | None = None, plain: bool | None = None, sources: Sequence[Path] = (),
                 known: Sequence[Path] | None = None,
                 machine: Path | None = None, device: str | None = None, precision: str | None = None,
                 **settings: Unpack[TrialSettings]) -> None:
        if "item_features" in settings:
            raise UsageError("`item_features`: a study takes features of items from files: give `data` as the paths of both, and a "
                             "descriptor as `network` whose Output layer names them in \"Features\" (docs/user/item_features.md)")
        self.folder = pathlib.Path(os.path.abspath(_words.path_of("folder", folder)))
        self._parts = {"network": network, "space": space, "data": data, "validation": validation, "executor_settings": executor_settings}
        own = {"device": device, "precision": precision, **settings}
        if network is not None and hasattr(network, "get_params"):
            self._parts["network"], of_trials = _split(cast("Recommender", network))
            own = of_trials | {name: value for name, value in own.items() if value is not None}
        elif network is not None and not isinstance(network, (str, os.PathLike, Mapping)):
            self._parts["network"] = cast("Network", network).descriptor
        self._own = _options({name: value for name, value in own.items() if value is not None})
        self._budget: dict[str, object] = {"trials": trials, "epoch-budget": epoch_budget, "gpu-hours": gpu_hours, "hours": hours}
        self._words: dict[str, object] = {
            "workers": workers, "threads": threads, "executor": executor, "epochs": epochs, "objective": objective, "sampler": sampler,
            "seed": seed,
            "start": start, "halving": "none" if halving == 0 else halving, "clock": clock, "ranks": ranks, "confirm": confirm,
            "seeds": seeds, "plain": None if plain is None else "yes" if plain else "no",
            "machine": machine, "gpus": gpus if gpus is None or isinstance(gpus, str) else ",".join(map(str, gpus)),
            "rungs": None if rungs is None else ",".join(map(str, rungs)) or "none"}
        self._repeated = [("from", one) for one in sources] + [("known", one) for one in (known or (["none"] if known is not None else []))]

    def __repr__(self) -> str:
        return f"<norn.tune.Study {os.fspath(self.folder)!r}>"

    def run(self, *, trials: int | None = None, epoch_budget: int | None = None, gpu_hours: float | None = None,
            hours: float | None = None) -> Best:
        """Makes the search to its end, from where it stands.

        trials, epoch_budget, gpu_hours, hours: more than what the study has had, where it has ended.

        Returns the best trial. What happens is told to the log "norn". Raises UsageError and DataError for what is wrong with settings and
        data, CommunicationError where another one is at work on the study or the executor is out of reach, Stopped where somebody stopped
        it by a signal. On Ctrl-C trials write checkpoints, KeyboardInterrupt is raised, and run() goes on later."""
        budget = {name: given if given is not None else self._budget[name] for name, given in (
            ("trials", trials), ("epoch-budget", epoch_budget), ("gpu-hours", gpu_hours), ("hours", hours))}
        words = ["--study", os.fspath(self.folder)]
        words += [word for name, value in (self._words | budget).items() if value is not None for word in (f"--{name}", _text(value))]
        words += [word for name, value in self._repeated for word in (f"--{name}", _text(value))]
        files, own = self._files()
        run_program("tuner", [*words, *files, *(["--", *own, *self._own] if own or self._own else [])], _NAMES)
        best = self.best
        assert best is not None
        return best

    # What it has found.

    @property
    def best(self) -> Best | None:
        """What has been found, of a study that runs or was stopped so far; None before a trial has come to its end."""
        study, facts = self._look()
        found = facts.ended or best_of(facts)
        if found is None:
            return None
        trial = found["best"] if facts.ended else found["trial"]
        settings = best_settings(facts)
        assert settings is not None
        value = found["value"] if facts.ended else study.sign * found["value"]
        ended = facts.ended or {}
        return Best(trial, value, settings, study.network_of(settings), ended.get("confirmed", []), ended.get("kept", "trial"),
                    ended.get("comparison"))

    @property
    def trials(self) -> list[dict[str, object]]:
        """A dictionary for each trial, of which pandas.DataFrame makes a table: trial, state, epochs, the objective by its name, seconds,
        taken_from, and by their paths the settings that it has; None for what is not known."""
        return records(*self._look())

    def best_model(self) -> Recommender:
        """The model that is kept: of the best trial, or of the plain recipe. Raises DataError where the study has not ended."""
        from ..loading import load

        path = self.folder / "best.nc"
        if not path.exists():
            raise DataError(f"{path}: is not there; the model of the best is written when the study has ended: run() goes on")
        return load(path)

    def status(self) -> str:
        """All trials, and the best, as text."""
        return status(*self._look())

    def report(self, path: Path | None = None) -> pathlib.Path:
        """Writes the page of the study, and returns its path.

        path: where it goes; by default report.html in its folder.
        """
        return looks.report([self.folder], path)

    def export(self, kind: str = "csv") -> pathlib.Path:
        """Writes the trials for other programs, and returns where.

        kind: "csv", "optuna" for optuna-dashboard, "hparams" for TensorBoard."""
        return pathlib.Path(export(kind, *self._look()))

    def _look(self) -> tuple[Stored, Facts]:
        return looks.read(self.folder)

    # What is given as files.

    def _files(self) -> tuple[list[str], list[str]]:
        """Words for the tuner, and for the trainer. What was given in memory becomes files of the study's folder."""
        given, words, own = self._parts, list[str](), list[str]()
        for name, option in (("network", "--config"), ("space", "--space"), ("executor_settings", "--executor-file")):
            value = given[name]
            if isinstance(value, str) and value.lstrip().startswith("{"):
                value = json.loads(value)
            if isinstance(value, Mapping):
                if name == "space" and "Parameters" not in value:
                    value = {"Parameters": value}
                words += [option, self._file(name, ".json", lambda path, value=value: write_json(path, value))]  # type: ignore[misc]
            elif value is not None:
                words += [option, _words.path_of(name, cast("Path", value))]
        words += [word for file in self._data_files("data") for word in ("--input", file)]
        if isinstance(given["validation"], (int, float)):
            return words, ["--validation-split", repr(given["validation"])]
        return words, own + [word for file in self._data_files("validation") for word in ("--validation-input", file)]

    def _data_files(self, name: str) -> list[str]:
        value: Any = self._parts[name]
        if value is None:
            return []
        if isinstance(value, (str, os.PathLike)):
            return [os.path.abspath(_words.path_of(name, cast("Path", value)))]
        if isinstance(value, (list, tuple)):
            for one in value:
                if not isinstance(one, (str, os.PathLike)):
                    raise UsageError(f"`{name}`: a list is of paths of files, such as those that Dataset.to_netcdf returns, and has a "
                                     f"{type(one).__name__}")
            return [os.path.abspath(_words.path_of(name, one)) for one in value]
        if name == "data" and (features := re.search(r'"Features"\s*:\s*"([^"]*)"', " ".join(self._texts()), re.IGNORECASE)):
            raise UsageError(f"`data`: the network takes features of items from the data set \"{features[1]}\", which stands in a file: "
                             "give `data` as the paths of both (docs/user/item_features.md)")
        from ..dataset import Dataset

        data = value if isinstance(value, Dataset) else Dataset(value)

        def write(path: pathlib.Path) -> None:
            files = data.to_netcdf(path, target_values=self._weighs_entries())
            if files != [os.fspath(path)]:
                for file in files:
                    os.unlink(file)
                raise UsageError(f"`{name}`: the data are in parts; give one of them, such as data.train")
        return [self._file(name, ".nc", write)]

    def _weighs_entries(self) -> bool:
        """Whether trials may read values of targets, as weights of entries: the network or the space says so."""
        return any("EntryWeights" in text for text in self._texts())

    def _texts(self) -> Iterator[str]:
        """What the network and the space say, where it is there to be read."""
        for part in (self._parts["network"], self._parts["space"]):
            text = json.dumps(part) if isinstance(part, Mapping) else str(part or "")
            if part is not None and not text.lstrip().startswith("{"):
                text = pathlib.Path(text).read_text(encoding="utf-8", errors="replace") if os.path.isfile(text) else ""
            yield text

    def _file(self, name: str, ending: str, write: Callable[[pathlib.Path], object]) -> str:
        """A file of the study's folder; one of a study that has begun stays, and must have the same contents."""
        path = self.folder / f"given-{name}{ending}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"{self.folder}: cannot be made: {error.strerror}; give another `folder`") from error
        new = self.folder / f"new-{os.getpid()}-{name}{ending}"
        try:
            write(new)
            has_begun = (self.folder / "study.json").exists() and name != "executor_settings"
            if has_begun and not (path.exists() and filecmp.cmp(path, new, shallow=False)):
                raise UsageError(f"`{name}`: is not what the study {self.folder} was begun with; leave it out, or begin another study, "
                                 f"which `sources` lets know what this one has found")
            os.replace(new, path)
        finally:
            new.unlink(missing_ok=True)
        return os.fspath(path)


def _text(value: object) -> str:
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _options(settings: Mapping[str, object]) -> list[str]:
    """For the trainer's command line."""
    words = []
    for name, value in settings.items():
        if isinstance(value, (list, tuple)):
            value = ",".join(map(str, value))
        words.append(f"--{name.replace('_', '-')}={_text(value)}")
    return words


def _split(recommender: Recommender) -> tuple[dict[str, object], dict[str, object]]:
    """The descriptor of a recommender's settings, and what is each trial's beside it."""
    from .. import _settings

    params: dict[str, Any] = {_settings.name_of(name): value for name, value in recommender.get_params().items() if value is not None}
    if "network" in params:
        raise UsageError("`network`: a Recommender of a network: give the network itself")
    made: dict[str, Any] = {"Recipe": params.pop("recipe", "sigmoid")}
    if "hidden" in params:
        made["Layers"] = [{"Name": "Hidden", "N": params.pop("hidden")}]
    params.pop("threads", None)
    weights = {key: params.pop(name) for name, key in (("entry_weights", "Scheme"), ("entry_alpha", "Alpha"), ("entry_epsilon", "Epsilon"))
               if name in params}
    if weights.get("Scheme", "none") != "none":
        made.setdefault("Layers", []).append({"Name": "Output", "EntryWeights": weights})
    table = _settings.table()
    of_trials = {name: params.pop(name) for name, default in (("device", "auto"), ("precision", "tf32")) if params.get(name) != default}
    params = {name: value for name, value in params.items() if name not in ("device", "precision")}
    for name, value in _settings.checked(params).items():
        block, _, key = table[name]["key"].rpartition(".")
        if table[name]["for_trials"]:
            of_trials[name] = value
        elif not key:
            raise UsageError(f"`{name}`: is no setting of a network, and each trial has its own; leave it out")
        else:
            (made.setdefault(block, {}) if block else made)[key] = value
    return made, of_trials
