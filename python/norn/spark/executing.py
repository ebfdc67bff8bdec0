# SPDX-License-Identifier: Apache-2.0
"""What runs in Spark's Python workers: a model each, and batches of Arrow through it.

Workers are reused and forked from a daemon, so that nothing is loaded before a worker's first batch, and a GPU is an argument:
CUDA_VISIBLE_DEVICES would be that of the task before.
"""
from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ..errors import DataError, UsageError

_held: dict[tuple, "_Held"] = {}  # the worker's model, by file, checksum and device


@dataclasses.dataclass
class _Held:
    recommender: Any
    input_labels: Any  # of the engine; None where they are not known
    width: int
    output_labels: Any  # Arrow's array; None: units are numbers


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The function that Spark hands the batches of a partition to."""

    file: str
    shared: bool
    sha256: str
    device: str
    threads: int
    precision: str
    batch: int
    N: int
    input: str
    values: str | None
    output: str
    scores: str
    unknown: str
    seen: bool
    filter_items: Any
    items: Any
    layer: str
    has_labels: bool
    named: bool  # units of the input have labels that are not their numbers
    wide: bool

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            if batch.num_rows:
                yield self._predicted(batch)

    def _predicted(self, batch: Any) -> Any:
        import pyarrow as pa

        held = self._model()
        lists = batch.column(self.input)
        ids, scores = held.recommender.recommend(
            self._matrix(batch, held), self.N, filter_already_liked_items=self.seen, filter_items=self.filter_items, items=self.items,
            layer=self.layer)
        there = ids >= 0
        begin = np.concatenate(([0], np.cumsum(there.sum(axis=1)))).astype(np.int32)
        missing = lists.is_null() if lists.null_count else None
        units = pa.array(ids[there])
        if held.output_labels is not None:
            units = held.output_labels.take(units)
        columns = [pa.ListArray.from_arrays(pa.array(begin), of, mask=missing)
                   for of in (units.cast(pa.int64()) if self.wide and not self.has_labels else units, pa.array(scores[there]))]
        return pa.RecordBatch.from_arrays([*batch.columns, *columns], names=[*batch.schema.names, self.output, self.scores])

    def _matrix(self, batch: Any, held: _Held) -> Any:
        """[rows, units] CSR of the lists; those that are null have nothing."""
        import scipy.sparse as sp

        lengths, flat = _opened(batch.column(self.input), self.input)
        row_of = np.repeat(np.arange(lengths.size), lengths)
        units = self._units(flat, row_of, held)
        values = None if self.values is None else self._numbers(batch, lengths)
        known = units >= 0
        if not known.all():
            row_of, units, values = row_of[known], units[known], None if values is None else values[known]
        key, first = np.unique(row_of * held.width + units, return_index=True)
        if values is not None and key.size < units.size:
            again = np.setdiff1d(np.arange(units.size), first)[0]
            raise DataError(f"column \"{self.input}\": a list names unit {units[again]} twice, with values; name it once")
        begin = np.concatenate(([0], np.cumsum(np.bincount(key // held.width, minlength=lengths.size))))
        data = np.ones(key.size, np.float32) if values is None else values[first]
        return sp.csr_matrix((data, (key % held.width).astype(np.int32 if held.width < 2**31 else np.int64), begin),
                             shape=(lengths.size, held.width))

    def _units(self, flat: Any, row_of: np.ndarray, held: _Held) -> np.ndarray:
        """[entries] int64, -1 for what is to be left out."""
        import pyarrow as pa

        if pa.types.is_integer(flat.type):
            if self.named and held.input_labels[0].isdecimal():
                raise UsageError(f"column \"{self.input}\" holds numbers, and the model's labels are numbers too, such as "
                                 f"{held.input_labels[0]!r}: cast the column to array<string>, and they are taken for labels")
            numbers = flat.to_numpy(zero_copy_only=False).astype(np.int64)
            units = np.where((numbers >= 0) & (numbers < held.width), numbers, -1)
        else:
            if held.input_labels is None:
                raise UsageError(f"column \"{self.input}\" holds labels, and the model has none; give its units' numbers, array<int>")
            coded = flat.dictionary_encode()
            found = np.asarray(held.input_labels.find(coded.dictionary.to_pylist()), np.int64)
            units = found[coded.indices.to_numpy(zero_copy_only=False)]
        wrong = np.flatnonzero(units < 0)
        if wrong.size and self.unknown == "error":
            name = flat[int(wrong[0])].as_py()
            raise DataError(f"column \"{self.input}\", row {row_of[wrong[0]]} of a batch: the model has no unit {name!r}"
                            f"{f', expected 0 to {held.width - 1}' if isinstance(name, int) else ''}; leave such out with "
                            "`unknown`=\"ignore\"")
        return units

    def _numbers(self, batch: Any, lengths: np.ndarray) -> np.ndarray:
        of_values, flat = _opened(batch.column(self.values), self.values)
        wrong = np.flatnonzero(of_values != lengths)
        if wrong.size:
            raise DataError(f"column \"{self.values}\", row {wrong[0]} of a batch: has {of_values[wrong[0]]} values for "
                            f"{lengths[wrong[0]]} elements of \"{self.input}\"")
        numbers = flat.to_numpy(zero_copy_only=False).astype(np.float32)
        if not np.isfinite(numbers).all():
            raise DataError(f"column \"{self.values}\": a value is {numbers[~np.isfinite(numbers)][0]}, expected finite 32-bit numbers")
        return numbers

    def _model(self) -> _Held:
        path = self.file
        if not self.shared:
            from pyspark import SparkFiles

            path = SparkFiles.get(self.file)
        device, threads = device_of_task(self.device), self.threads or cores_of_task()
        key = (path, self.sha256, device, threads, self.precision, self.batch)
        if key not in _held:
            while _held:  # one at a time: they are large
                _held.popitem()[1].recommender.close()
            _held[key] = self._loaded(path, device, threads)
        held = _held[key]
        return held

    def _loaded(self, path: str, device: str, threads: int) -> _Held:
        import pyarrow as pa

        from ..loading import load

        _verify(path, self.sha256)
        recommender = load(path, device=device, threads=threads, precision=self.precision, batch=self.batch)
        layer = recommender.network_.layers("Input")[0]
        labels = recommender.network_.labels(layer["Name"])
        output = recommender.network_.labels(recommender.network_.layer(self.layer)["Name"]) if self.has_labels else None
        names = None if output is None else pa.array([output[unit] for unit in range(len(output))], pa.string())
        return _Held(recommender, labels if labels is not None and labels.has_words() else None, int(np.prod(layer["N"])), names)


def _opened(lists: Any, name: str) -> tuple[np.ndarray, Any]:
    """How many elements each row has, and all of them."""
    import pyarrow.compute as pc

    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    flat = lists.flatten()
    if flat.null_count:
        at = int(np.flatnonzero(flat.is_null().to_numpy(zero_copy_only=False))[0])
        row = int(np.searchsorted(np.cumsum(lengths), at, side="right"))
        raise DataError(f"column \"{name}\", row {row} of a batch: an element of the list is null; leave it out, with array_compact for "
                        "example")
    return lengths, flat


def _verify(path: str, sha256: str) -> None:
    summed = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while piece := file.read(1 << 26):
                summed.update(piece)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}; with `shared`=True every executor reads the model there") from None
    if summed.hexdigest() != sha256:
        raise DataError(f"{path}: is another file than the driver saw (SHA-256 {summed.hexdigest()[:8]}, expected {sha256[:8]}); "
                        "call norn.spark.transform again once the model is written")


def device_of_task(device: str) -> str:
    """The device of the task that runs here: for "auto" and "cuda" the GPU that Spark gave it."""
    from pyspark import TaskContext

    task = TaskContext.get()
    gpu = None if task is None else task.resources().get("gpu")
    if device in ("auto", "cuda") and gpu is not None and gpu.addresses:
        return f"cuda:{gpu.addresses[0]}"
    return "cpu" if device == "auto" else device


def cores_of_task() -> int:
    """As many as Spark gave it."""
    from pyspark import TaskContext

    task = TaskContext.get()
    return 0 if task is None else task.cpus()
