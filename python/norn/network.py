# SPDX-License-Identifier: Apache-2.0
"""Networks: descriptors, and trained ones with their parameters."""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import tempfile
from collections.abc import Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _core, _display
from ._arrays import float_arrays, memory_set, named
from ._labels import Labels, native_labels
from ._settings import checked
from ._words import path_of
from .errors import DataError, UsageError
from .history import History

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from typing_extensions import Unpack

    from ._setting_types import Settings
    from ._types import Chosen, Descriptor, Device, Facts, Floats, Matrix, Path, Plan


_LONGEST_PATH = 4096
_WRITTEN_BY = {".pkl": "pickle.dump(model, file)", ".pickle": "pickle.dump(model, file)", ".joblib": "joblib.dump(model, path)",
               ".onnx": "norn.export_onnx", ".safetensors": "norn.export_safetensors", ".pt": "torch.save of norn.interchange.state_dict",
               ".pth": "torch.save of norn.interchange.state_dict"}


def _is_file(name: str) -> bool:
    try:
        return os.path.exists(name)
    except ValueError:  # with a character that no path has
        return False


class Network:
    """A descriptor, or a trained network. `from_json` and `load` make one, `norn.train` trains it."""

    history: History  # a dictionary for each epoch of the run that trained it
    device: Device  # what a trained one is on
    source: dict[str, str]  # of one that is not trained: where its descriptor comes from, as a setting of a run

    def __init__(self, model: _core.Model | None = None, *, source: dict[str, str] | None = None, history: History | None = None,
                 device: Device | None = None):
        self._model = model
        self._text = "" if source is None else _core.read_network(**source)  # the descriptor, where there is no model
        self._layers: list[Facts] = []
        self._labels: dict[str, Labels | None] = {}
        self.source = source or {}
        self.device = device or {"device": "auto", "threads": 0, "precision": "tf32"}
        self.history = History() if history is None else history

    @classmethod
    def from_json(cls, source: Path | Mapping[str, object]) -> Network:
        """A network that is not trained yet.

        source: a descriptor (docs/user/descriptor.md): a path, JSON text or a dictionary.

        Raises UsageError whose `problems` say line, column and key of all that is wrong.
        """
        if isinstance(source, Mapping):
            try:
                source = json.dumps(source)
            except (TypeError, ValueError, RecursionError) as error:
                raise UsageError(f"`network`: {error}: expected what JSON can hold") from None
        if isinstance(source, str) and source.lstrip().startswith("{"):
            return cls(source={"network": source})
        if isinstance(source, str) and (source.lstrip().startswith("[") or "\0" in source
                                        or len(source) > _LONGEST_PATH) and not _is_file(source):
            raise UsageError(f"`network`: {source[:40]!r}, {len(source)} characters, is neither a path nor a descriptor, which is an "
                             f"object of JSON, {{...}}")
        if not isinstance(source, (str, os.PathLike)):
            raise UsageError(f"`network`: expected a dictionary, JSON text or a path, not {type(source).__name__}")
        return cls(source={"config": os.fspath(source)})

    @classmethod
    def load(cls, file: Path, *, device: str = "auto", threads: int = 0, precision: str = "tf32", batch: int = 1024) -> Network:
        """The trained network of a model's file.

        file: its path.
        device, threads, precision, batch: as in `norn.load`.

        Raises DataError when it is missing, damaged or no model.
        """
        try:
            model = _core.Model.load(path_of("file", file), device, threads, precision, batch)
        except DataError:
            from .info import require_model

            require_model(os.fspath(file))
            raise
        return cls(model, device={"device": device, "threads": threads, "precision": precision})

    @classmethod
    def from_parameters(cls, descriptor: Mapping[str, object] | str, parameters: Mapping[str, ArrayLike],
                        labels: Mapping[str, Iterable[str] | _core.Labels] | None = None, *,
                        device: str = "auto", threads: int = 0, precision: str = "tf32", batch: int = 1024) -> Network:
        """A trained network of weights from elsewhere.

        descriptor: a dictionary or JSON, in which every N is a number.
        parameters: arrays of float32 under the names and of the extents that `parameters` of such a network has, in any order
            and with any strides.
        labels: by Input or Output layer its units' labels, where they are known.
        device, threads, precision, batch: as in `norn.load`.

        Raises UsageError whose `problems` say all that is missing, too much, of another extent or dtype, or not finite.
        """
        text = descriptor if isinstance(descriptor, str) else json.dumps(descriptor)
        tables = {layer: native_labels(words) for layer, words in named({} if labels is None else labels, "labels").items()}
        model = _core.from_parameters(text, float_arrays(named(parameters, "parameters")), tables, device, threads, precision, batch)
        return cls(model, device={"device": device, "threads": threads, "precision": precision})

    @property
    def trained(self) -> bool:
        """Whether there are weights, and not a descriptor alone."""
        return self._model is not None

    @property
    def model(self) -> _core.Model:
        """The native model. Raises UsageError where there is a descriptor alone."""
        if self._model is None:
            raise UsageError("the network is not trained: `norn.train` does that")
        return self._model

    @property
    def chosen(self) -> Chosen | None:
        """How recipe="auto" chose the settings: `candidates`, each with its `cost` and its `value` of the `metric` on what was held back;
        `chosen`, the place in them of that which was trained on everything, and `best`, of the largest value; `difference_low` and
        `difference_high` of the best and the plain recipe, `spent` of the `budget`. Where nothing was searched for it has `not_searched`,
        which says why, and no `chosen`. None where something else made it."""
        record = self.model.chosen()
        chosen: Chosen | None = json.loads(record) if record else None
        return chosen

    @property
    def descriptor(self) -> dict[str, Any]:
        """As its JSON reads."""
        return json.loads(self._model.network() if self._model is not None else self._text)

    @property
    def parameters(self) -> dict[str, Floats]:
        """By name, weights [source units, units] and vectors [units] as read-only arrays of float32: "Input -> Hidden",
        "Hidden bias". They are views where the engine has them whole in main memory."""
        return self.model.parameters()

    def labels(self, layer: str) -> Labels | None:
        """The labels of a layer's units, a sequence of str that nothing copies; None where they are not known. `list(labels)` makes
        a list.

        layer: the name of an Input or Output layer.
        """
        if layer not in self._labels:
            native: Any = self.model.labels(layer)
            self._labels[layer] = None if native is None else Labels(native)
        return self._labels[layer]

    def layers(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Those of the descriptor, as its JSON reads.

        kind: "Input", "Hidden" or "Output" alone.
        """
        if not self._layers:
            self._layers = self.descriptor["Layers"]
        return [layer for layer in self._layers if kind in (None, layer["Kind"])]

    def layer(self, name: str = "", kind: str = "Output") -> dict[str, Any]:
        """One of the descriptor's layers, as its JSON reads; without a name the only one of its kind, or that which is called so.

        name: of the layer.
        kind: "Input", "Hidden" or "Output".

        Raises UsageError where it is not there, or there are several.
        """
        layers = self.layers(kind)
        for layer in layers:
            if layer["Name"] == (name or kind):
                return layer
        if name or len(layers) != 1:
            raise UsageError(f"`layer` {name!r}: choose of: {', '.join(layer['Name'] for layer in layers)}")
        return layers[0]

    def save(self, path: Path) -> None:
        """Writes a file that every program reads; it is complete or absent. Of a descriptor alone its JSON.

        path: of the file. Raises DataError where it cannot be written, UsageError for the ending of another format.
        """
        if self._model is None:
            pathlib.Path(path).write_text(self._text, encoding="utf-8")
        else:
            ending = pathlib.PurePath(path_of("path", path)).suffix.lower()
            if ending in _WRITTEN_BY:
                raise UsageError(f"`path` {os.fsdecode(path)}: a model's file is NetCDF, NAME.nc; {_WRITTEN_BY[ending]} writes {ending}")
            self._model.save(path_of("path", path))

    def plan(self, data: Mapping[str, Matrix], *, device: str = "auto", threads: int = 0, **settings: Unpack[Settings]) -> Plan:
        """What training would take; nothing is trained.

        data: as in `norn.train`.
        device: "auto", "cpu", "cuda", "cuda:1".
        threads: of the CPU; 0: one a core.

        Other keywords are settings, as in `norn.train`. Returns a dictionary: weights, memory_bytes, available_bytes, fits.
        """
        with run_settings(self) as source:
            native = checked(settings) | source | {"device": device, "threads": threads}
            native["sets"] = [memory_set(name, one, f"data[{name!r}]") for name, one in named(data, "data").items()]
            plan: Any = _core.plan(native)
            return plan

    def close(self) -> None:
        """Gives the memory back. What is asked of the network later raises UsageError."""
        self.model.close()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_model": None if self._model is None else self._model.bytes(), "_labels": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        if state["_model"] is not None:
            self._model = _core.Model.from_bytes(state["_model"], **self.device)

    def __repr__(self) -> str:
        return _display.network_text("Network", self.layers(), self.model.epochs() if self.trained else None, self.history)

    def _repr_html_(self) -> str:
        return _display.network_html("Network", self.layers(), self.trained, self.history)


def as_network(given: Descriptor) -> Network:
    """The network itself, or that of a descriptor."""
    return given if isinstance(given, Network) else Network.from_json(given)


@contextlib.contextmanager
def model_file(model: _core.Model) -> Generator[str, None, None]:
    """A file of the model that stands meanwhile."""
    with tempfile.TemporaryDirectory(prefix="norn") as folder:
        file = os.path.join(folder, "model.nc")
        model.save(file)
        yield file


@contextlib.contextmanager
def run_settings(network: Network) -> Generator[dict[str, str], None, None]:
    """What a run takes a network from: where its descriptor is, or a file of its weights."""
    if not network.trained:
        yield network.source
        return
    with model_file(network.model) as file:
        yield {"config": file}


def width_of(layer: Mapping[str, Any]) -> int:
    """The units of a layer as the descriptor's JSON reads."""
    return int(np.prod(layer["N"]))


def unit_vectors(network: Network, layer: str, of: str) -> Floats:
    """[dimensions, units], of length 1: the weights of a layer's units, from or to all layers beside it."""
    from .folding import folded

    parts = []
    for name, matrix in folded(network)[1].items():
        source, arrow, target = name.partition(" -> ")
        if arrow and (source if of == "input" else target) == layer:
            parts.append(matrix.T if of == "input" else matrix)
    if not parts:
        raise UsageError(f"layer {layer!r} has no weights of its own")
    vectors = np.concatenate(parts)
    return vectors / np.maximum(np.linalg.norm(vectors, axis=0), 1e-30)
