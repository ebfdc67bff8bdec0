# SPDX-License-Identifier: Apache-2.0
"""Trains on the driver's machine, or within a task of Spark."""
from __future__ import annotations

import dataclasses
import json
import logging
import os
import pathlib
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core, _fitting, _settings, _words, errors
from ..errors import DataError, UsageError
from ..history import History
from .running import Job, history_of, options_of, train
from .sending import context_of

if TYPE_CHECKING:
    from pyspark.resource import ResourceProfile
    from pyspark.sql import SparkSession
    from typing_extensions import Unpack

    from .._setting_types import Settings
    from .._types import Descriptor, Path

_PIECE = 1 << 24  # bytes of a file in a row
_ROWS = "kind string, name string, part binary"
_ANY_NETWORK = json.dumps({"Layers": [{"Name": name, "Kind": name, "DataSet": "nothing", "N": 1} for name in ("Input", "Output")]})
_AGAIN_IN_VAIN = (errors.UsageError, errors.DataError, errors.DeviceError, errors.DivergenceError)


@dataclasses.dataclass(frozen=True)
class Training:
    """What `launch` came to: the path of the model, the history with a dictionary for each epoch, the lines that trainer said,
    and the run's folder, where one was asked for."""

    model: str
    history: History
    lines: list[str]
    run_dir: str | None


@_settings.documented
def launch(data: Path | Sequence[Path], model: Path, *, ranks: int = 1, local_mode: bool = True, spark: SparkSession | None = None,
           validation: Path | Sequence[Path] = (), recipe: str = "sigmoid",
           hidden: int | None = None, network: Descriptor | None = None, device: str = "auto", threads: int = 0, precision: str = "tf32",
           run_dir: Path | None = None,
           resume: bool = False, shared: bool = False, profile: ResourceProfile | None = None, **settings: Unpack[Settings]) -> Training:
    """Trains by the program trainer, with the bits of any other way, and writes the model's file.

    data: the path of a NetCDF file, or several: what write_dataset, norn.Dataset or importer wrote.
    model: the path of the file to write; it must not be there, but for force=True and `resume`.
    ranks: processes of one machine, started by mpirun. They share its cores, or take a GPU each.
    local_mode: True: on the driver's machine, as one would by hand. False: within one task of Spark, with its GPUs
        (spark.task.resource.gpu.amount, at least `ranks`) and its cores (spark.task.cpus). All ranks of a training are in one task.
    spark: the session; None: the one that there is.
    validation: files of data sets to validate with, named as those of `data`.
    recipe, hidden, network, device, threads, precision: as in norn.Recommender; a network is a descriptor. threads: of each rank.
    run_dir: a folder for the record of the run, as docs/user/run_folder.md describes.
    resume: goes on from the newest checkpoint beside `model`, where there is one.
    shared: the task reads and writes the paths as they stand, which all machines see. Otherwise Spark sends it the data, and
        brings model and record back through the driver's memory, at most spark.driver.maxResultSize.
    profile: a ResourceProfile for the task, which may ask for more GPUs than the session's tasks have.

    Returns a Training. What the trainer says is logged by logging.getLogger("norn"), of a task when it is over. A task whose executor is
    lost is begun again by Spark, with `shared` and `resume` where the last checkpoint was.

    Raises UsageError for wrong arguments and settings before anything begins; and the trainer's errors, with its messages.
    """
    for name, value in (("local_mode", local_mode), ("resume", resume), ("shared", shared)):
        if not isinstance(value, bool):
            raise UsageError(f"`{name}` {value!r}: expected True or False")
    own = {"recipe": recipe, "hidden": hidden, "network": network, "device": device, "threads": threads, "precision": precision}
    checked = require_settings(own, settings)
    force = checked.pop("force", False)
    job = Job(inputs=_files(data, "data"), validation=_files(validation, "validation") if validation else (), model=_path("model", model),
              run_dir="" if run_dir is None else _path("run_dir", run_dir), options=options_of(checked),
              recipe=_fitting.recipe_of(own), network=descriptor_of(own), ranks=_words.count("ranks", ranks), device=device,
              threads=threads, precision=precision,
              force=force, resume=resume)
    if not os.path.isdir(os.path.dirname(job.model)):
        raise UsageError(f"`model`: there is no folder {os.path.dirname(job.model)}; make it")
    if os.path.exists(job.model) and not (force or resume):
        raise UsageError(f"`model`: {job.model} exists; name another file, or give `force`=True or `resume`=True")
    if local_mode:
        return _beside(job)
    if resume and not shared:
        raise UsageError("`resume`: a task finds checkpoints only where it sees the model's path; give `shared`=True, too")
    return _within(_session(spark), job, shared, profile)


def require_settings(own: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """The settings as the engine takes them. Raises UsageError for all that can be wrong with them and with `own`, what
    norn.Recommender takes beside."""
    from .._arrays import memory_set
    from ..recommender import Recommender

    Recommender(**own, **settings)
    checked = _settings.checked(settings)
    _fitting.network_of(own)
    sets = [memory_set("nothing", np.zeros((2, 1), np.float32), "data")]
    device = {name: own[name] for name in ("device", "threads", "precision")}
    _core.effective_descriptor(checked | device | {"network": _ANY_NETWORK, "sets": sets})
    return checked


def descriptor_of(own: dict[str, Any]) -> str | None:
    """The text of the descriptor that is asked for; None: a recipe makes it."""
    network = _fitting.network_of(own)
    if network is None:
        return None
    if network.trained:
        raise UsageError("`network`: a launched training begins with a descriptor, not with a trained network; norn.train goes on with one")
    source = network.source
    return source["network"] if "network" in source else pathlib.Path(source["config"]).read_text(encoding="utf-8")


def _path(argument: str, path: Any) -> str:
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        raise UsageError(f"`{argument}` {path!r}: expected a path, not {type(path).__name__}")
    return os.path.abspath(path)


def _files(given: Any, argument: str) -> tuple[str, ...]:
    """Paths of files that are there."""
    several = given if isinstance(given, (list, tuple)) else [given]
    files = tuple(_path(argument, file) for file in several)
    if not files:
        raise UsageError(f"`{argument}` is empty; name the NetCDF files of the data")
    for file in files:
        if not os.path.isfile(file):
            raise DataError(f"{file}: no such file; check the path")
    return files


def _session(spark: Any) -> Any:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise UsageError("pyspark is needed for `local_mode`=False; install it: pip install pyspark") from None
    if spark is None:
        try:
            spark = SparkSession.active()
        except Exception as error:  # of pyspark, and none that it names
            raise UsageError("`spark`: there is no session; give one, as SparkSession.builder.getOrCreate() makes it") from error
    if not hasattr(spark, "range"):
        raise UsageError(f"`spark` {spark!r}: expected a SparkSession, not {type(spark).__name__}")
    return spark


def _log(line: str) -> None:
    log = logging.getLogger("norn")
    text = line.removeprefix("trainer: ")
    if text.startswith("warning: "):
        log.warning("%s", text.removeprefix("warning: "))
    else:
        log.info("%s", text)


def _beside(job: Job) -> Training:
    with tempfile.TemporaryDirectory(prefix="norn-run-") as scratch:
        recorded = dataclasses.replace(job, run_dir=job.run_dir or os.path.join(scratch, "run"))
        lines = train(recorded, _log)
        return Training(job.model, history_of(recorded.run_dir), lines, job.run_dir or None)


# Within a task.


def _within(spark: Any, job: Job, shared: bool, profile: Any) -> Training:
    if job.run_dir and os.path.exists(os.path.join(job.run_dir, "log.jsonl")) and not (job.force or job.resume):
        raise UsageError(f"`run_dir`: {job.run_dir} holds an earlier run; name another folder, or give `force`=True")
    sent = None if shared else _sent(spark, job)
    try:
        frame = spark.range(0, 1, 1, 1)
        # A task, not a barrier stage: there is nobody to wait for, and Spark begins the last stage of a job with barriers only once.
        task = _Task(job, sent)
        rows = frame.mapInArrow(task, _ROWS) if profile is None else frame.mapInArrow(task, _ROWS, profile=profile)
        with tempfile.TemporaryDirectory(prefix="norn-run-") as scratch:
            received = pathlib.Path(scratch)
            lines = _received(rows.toLocalIterator(), received)
            if not shared:
                _put(received / "model.nc", job.model)
            record = job.run_dir if shared and job.run_dir else str(received / "run")
            history = history_of(record)
            if job.run_dir and record != job.run_dir:
                shutil.copytree(record, job.run_dir, dirs_exist_ok=True)
    finally:
        if sent is not None:
            sent.destroy()
    return Training(job.model, history, lines, job.run_dir or None)


def _sent(spark: Any, job: Job) -> Any:
    """The contents of the data's files by name, for executors. Files that Spark is told to add every later executor would fetch, too."""
    context = context_of(spark, "the data")
    return context.broadcast({file: pathlib.Path(file).read_bytes() for file in (*job.inputs, *job.validation)})


def _received(rows: Iterable[Any], folder: pathlib.Path) -> list[str]:
    """Writes what came as files, and returns what the trainer said."""
    lines: list[str] = []
    for row in rows:
        if row["kind"] == "line":
            lines.append(row["name"])
            _log(row["name"])
        elif row["kind"] == "error":
            told = json.loads(row["name"])
            raise errors.error_of(told["message"], told["exit_code"], told["problems"])
        else:
            path = folder / row["name"]
            path.parent.mkdir(exist_ok=True)
            with open(path, "ab") as file:
                file.write(row["part"])
    return lines


def _put(file: pathlib.Path, path: str) -> None:
    """There, complete or absent."""
    partial = f"{path}.{uuid.uuid4().hex}.part"
    try:
        shutil.copyfile(file, partial)
        os.replace(partial, path)
    except OSError as error:
        pathlib.Path(partial).unlink(missing_ok=True)
        raise DataError(f"{path}: {error.strerror}; the model could not be written") from None


@dataclasses.dataclass(frozen=True)
class _Task:
    """The function that Spark runs: rows of lines, of pieces of files, or an error."""

    job: Job
    sent: Any  # None: the paths are those of this machine, too

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        for _ in batches:
            pass
        context = TaskContext.get()
        assert context is not None
        resource = context.resources().get("gpu")
        lines: list[str] = []
        with tempfile.TemporaryDirectory(prefix="norn-task-") as folder:
            job = self._here(folder, again=context.attemptNumber() > 0)
            try:
                if resource is not None and job.device != "cpu" and job.ranks > len(resource.addresses):
                    raise UsageError(f"`ranks` {job.ranks}: the task has {len(resource.addresses)} of the GPUs; ask for a GPU for each "
                                     "rank by spark.task.resource.gpu.amount, or by a ResourceProfile in `profile`")
                train(job, lines.append, context.cpus(), () if resource is None else resource.addresses)
            except _AGAIN_IN_VAIN as error:
                yield _rows("line", lines)
                yield _rows("error", [json.dumps({"message": str(error), "exit_code": error.exit_code, "problems": error.problems})])
                return
            yield _rows("line", lines)
            yield from self._files(job)

    def _here(self, folder: str, again: bool) -> Job:
        """With the paths of this machine. What an attempt left that was lost is replaced."""
        job = dataclasses.replace(self.job, force=self.job.force or (again and not self.job.resume))
        if self.sent is None:
            return dataclasses.replace(job, run_dir=job.run_dir or os.path.join(folder, "run"))
        places = {}
        for number, (file, contents) in enumerate(self.sent.value.items()):
            places[file] = os.path.join(folder, f"data{number}.nc")
            pathlib.Path(places[file]).write_bytes(contents)
        return dataclasses.replace(job, model=os.path.join(folder, "model.nc"), run_dir=os.path.join(folder, "run"),
                                   inputs=tuple(places[file] for file in job.inputs),
                                   validation=tuple(places[file] for file in job.validation))

    def _files(self, job: Job) -> Iterator[Any]:
        files = [("model.nc", job.model)] if self.sent is not None else []
        if job.run_dir != self.job.run_dir:
            files += [(f"run/{name}", os.path.join(job.run_dir, name)) for name in sorted(os.listdir(job.run_dir))]
        for name, path in files:
            with open(path, "rb") as file:
                piece = file.read(_PIECE)
                while True:
                    yield _rows("file", [name], piece)
                    if not (piece := file.read(_PIECE)):
                        break


def _rows(kind: str, names: Sequence[str], part: bytes = b"") -> Any:
    import pyarrow as pa

    columns = [pa.array([kind] * len(names), pa.string()), pa.array(names, pa.string()), pa.array([part] * len(names), pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=["kind", "name", "part"])
