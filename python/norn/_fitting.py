# SPDX-License-Identifier: Apache-2.0
"""How a recommender's settings and data become a run of the engine."""
from __future__ import annotations

import contextlib
import json
import logging
import os
import tempfile
import threading
import types
import weakref
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _core, _entry_weights, _item_features
from ._arrays import held_out_parts, is_by_name, labels_of, memory_set, tell_of_negative, tell_of_parts
from ._words import count, integer, word
from .data.matrices import has_entries, matrix_of, sparse_of
from .dataset import Dataset
from .errors import DataError, Problem, UsageError
from .network import Network, as_network
from .callbacks import Environment
from .training import merged

if TYPE_CHECKING:
    from ._types import Facts

_log = logging.getLogger("norn")


AUTO = "auto"  # the recipe that is chosen by measurements


def network_of(params: Mapping[str, Any]) -> Network | None:
    """The network that is asked for; None: a recipe makes it."""
    if params["network"] is not None:
        if params["hidden"] is not None:
            raise UsageError("`hidden` is a recipe's, and `network` says what its layers are: give one of the two")
        return as_network(params["network"])
    if params["hidden"] is None:
        return None
    return Network.from_json({"Recipe": recipe_of(params), "Layers": [{"Name": "Hidden", "N": integer("hidden", params["hidden"])}]})


def recipe_of(params: Mapping[str, Any]) -> str:
    """That which is asked for, or the first one."""
    return params["recipe"] or "sigmoid"


# What says nothing of how a training is to be: settings beside which measurements choose the recipe where none is named.
_OF_NO_TRAINING = frozenset(("seed", "budget", "device", "threads", "precision", "force", "model", "resume", "same_run", "run_dir",
                             "checkpoint_epochs", "checkpoint_minutes", "checkpoint_name", "keep", "sets", "item_features"))


def recipe_for(params: Mapping[str, Any], native: Mapping[str, Any]) -> str:
    """That which is asked for; where nothing says what a training is to be, the one that measures."""
    measures = params["recipe"] is None and ("budget" in native or set(native) <= _OF_NO_TRAINING)
    return AUTO if measures else recipe_of(params)


class _Aloud(logging.Filter):
    """Tells what a search costs as a warning, and nothing that the log would not have told. Several threads may want it at once."""

    def __init__(self) -> None:
        super().__init__()
        self.lock, self.users, self.shown, self.level = threading.Lock(), 0, 0, 0

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno == logging.INFO and record.getMessage().startswith("recipe auto: "):
            record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
        return record.levelno >= self.shown

    def begin(self) -> None:
        with self.lock:
            self.users += 1
            if self.users == 1:
                self.shown, self.level = _log.getEffectiveLevel(), _log.level
                _log.addFilter(self)
                _log.setLevel(min(self.shown, logging.INFO))

    def end(self) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0:
                _log.setLevel(self.level)
                _log.removeFilter(self)


_aloud = _Aloud()


@contextlib.contextmanager
def search_told(params: Mapping[str, Any], native: Mapping[str, Any]) -> Generator[None, None, None]:
    """Seconds of a search that nobody asked for by name are told as warnings are, before it begins."""
    if params["recipe"] is not None or native.get("recipe") != AUTO or not _log.isEnabledFor(logging.WARNING):
        yield
        return
    _aloud.begin()
    try:
        yield
    finally:
        _aloud.end()


def made_by(params: Mapping[str, Any], native: Mapping[str, Any]) -> dict[str, object]:
    """What the network is, as the settings of a run say it."""
    if params["network"] is not None:
        return {"network": name_of(params["network"])}
    hidden: dict[str, object] = {} if params["hidden"] is None else {"hidden": params["hidden"]}
    return {"recipe": native.get("recipe", recipe_of(params)), **hidden}


def recipe_problems(recipe: Any, hidden: Any) -> list[Problem]:
    """What is wrong with a recipe: its name, in the engine's words, and its hidden units."""
    problems: list[Problem] = []
    if isinstance(recipe, str) and recipe.lower() == AUTO:
        if hidden is not None:
            problems.append({"key": "hidden", "message": "`hidden` does not go with `recipe` auto, which chooses how many there are; "
                             "leave it out, or choose `recipe` sigmoid"})
        return problems
    try:
        _core.read_network(network=json.dumps({"Recipe": "sigmoid" if recipe is None else word("recipe", recipe)}))
    except UsageError as error:
        also = f"; and {AUTO}" if isinstance(recipe, str) else ""
        problems += [problem | {"key": "recipe", "message": f"`recipe` {recipe}: {problem['message']}{also}"} for problem in error.problems]
    try:
        count("hidden", 1 if hidden is None else hidden, 1, 2**32 - 1)
    except UsageError as error:
        problems += error.problems
    return problems


def name_of(network: Any) -> str:
    """What a network is called: a path as it stands, a descriptor by its name."""
    if isinstance(network, (str, os.PathLike)) and not str(network).lstrip().startswith("{"):
        return os.fspath(network)
    try:
        return as_network(network).descriptor.get("Name") or "without a name"
    except UsageError:
        return "not valid"


def settings_of(params: Mapping[str, Any], callbacks: list[Callable[[Environment], Any]], validation: Any = None) -> dict[str, Any]:
    """As the engine takes them, but for network and data."""
    own = {name: value for name, value in params.items() if name not in ("recipe", "hidden", "network", "device", "threads", "precision")}
    if isinstance(validation, (int, float)):
        own["validation_split"] = validation
    return merged(own, callbacks) | {name: params[name] for name in ("device", "threads", "precision")}


def _named_layers(network: Network, kind: str, name: str) -> list[tuple[str, Facts]]:
    """The layers of that kind, each with the data set that it reads."""
    auto = f"{name}_{kind.lower()}"
    return [(auto if layer["DataSet"] == "auto" else layer["DataSet"], layer) for layer in network.layers(kind) if layer.get("DataSet")]


def set_names(network: Network | None, kind: str, name: str) -> list[str]:
    """The data sets that a network's layers of that kind read."""
    return [f"{name}_{kind.lower()}"] if network is None else list(dict.fromkeys(one for one, _ in _named_layers(network, kind, name)))


def sparse_names(network: Network | None, name: str) -> set[str]:
    """Those that are sparse by the descriptor: all of a recipe, and what an autoencoder makes of sparse inputs."""
    if network is None:
        return {f"{name}_input", f"{name}_output"}
    inputs, outputs = _named_layers(network, "Input", name), _named_layers(network, "Output", name)
    all_of = network.descriptor.get("Kind") == "AutoEncoder" and all(layer.get("Sparse") for _, layer in inputs)
    return {one for one, layer in inputs + outputs if all_of or layer.get("Sparse")}


def parts_read(names: Iterable[str], data: Any, argument: str) -> dict[str, Any]:
    """Matrices by the names of data sets: those of a dictionary that are among `names`, or other data as the first. Raises UsageError where
    a dictionary has none of them, or where all else but a dictionary leaves open which is meant."""
    names = list(names)
    if is_by_name(data):
        if not set(data) & set(names):
            raise UsageError(f"`{argument}`: a dictionary goes from the names of data sets, here {', '.join(names)}, to matrices; what one "
                             "user has is a list")
        return {name: matrix for name, matrix in data.items() if name in names}
    if len(names) > 1:
        raise UsageError(f"`{argument}`: the network reads {', '.join(names)}: give a dictionary from these names to matrices")
    return {names[0]: data}


def rows_read(network: Network, data: Any, argument: str) -> Any:
    """What a trained network's inputs read: data as they are, of a dictionary a dictionary."""
    read = parts_read(set_names(network, "Input", "data"), data, argument)
    return read if is_by_name(data) else data


def examples_of(network: Network, data: Any, argument: str) -> int:
    """Rows of what a trained network's inputs read."""
    return matrix_of(next(iter(parts_read(set_names(network, "Input", "data"), data, argument).values()))).shape[0]


def sets_of(network: Network | None, name: str, known: Any, wanted: Any, arguments: tuple[str, str], weights: Any = None,
            indicator: bool | None = True) -> list[Any]:
    """Known units for the inputs, wanted ones for the outputs. Several sets come by their names. `indicator`: of the outputs'
    sets, as memory_set() has it: values that they have are weights of entries."""
    sets: dict[str, Any] = {}
    examples: dict[str, Any] = {}
    for data, kind, argument in ((known, "Input", arguments[0]), (wanted, "Output", arguments[1])):
        if data is None:
            continue
        for one, matrix in parts_read(set_names(network, kind, name), data, argument).items():
            if one not in sets:
                examples[f"`{argument}[{one!r}]`" if is_by_name(data) else f"`{argument}`"] = getattr(matrix, "example_labels", None)
                if isinstance(matrix, np.ndarray) and one in sparse_names(network, name):
                    matrix = sparse_of(matrix, argument)
                sets[one] = memory_set(one, matrix, argument, indicator=indicator if kind == "Output" else None, weights=weights)
                if kind == "Output" and indicator:
                    tell_of_negative(matrix, argument)
    _require_same_examples(examples)
    return list(sets.values())


def _require_paired(known: Any, wanted: Any, weights: Any, argument: str) -> None:
    """Weights that have labels are of the examples and features of what they weigh, in the same order."""
    _require_same_examples({argument: getattr(known, "example_labels", None), "`sample_weight`": getattr(weights, "example_labels", None)})
    _require_same_examples({argument: getattr(wanted, "feature_labels", None), "`sample_weight`": getattr(weights, "feature_labels", None)},
                           "column", "features")


def _require_same_examples(labels: Mapping[str, Any], one_is: str = "row", all_are: str = "examples") -> None:
    """Raises DataError where rows of the one are other examples than those of the other, by the labels of both."""
    given = [(which, words) for which, words in labels.items() if words is not None]
    for which, words in given[1:]:
        first, of_first = given[0]
        if len(words) != len(of_first) or words == of_first:
            continue
        row = next((row for row, (one, other) in enumerate(zip(of_first, words)) if one != other), None)
        if row is not None:
            raise DataError(f"{which}: {one_is} {row} is {words[row]!r}, and that of {first} is {of_first[row]!r}; give the same {all_are} "
                            "in the same order")


def require_labels(network: Network, data: Any, kind: str, argument: str) -> None:
    """Raises UsageError where columns of data with labels are other units than those of the trained network."""
    for layer in network.layers(kind):
        given = data.get(layer.get("DataSet")) if is_by_name(data) else data
        labels, units = getattr(given, "feature_labels", None), network.labels(layer["Name"])
        if labels is None or units is None or len(labels) > len(units):
            continue
        column = units.first_other(labels)
        if column is not None:
            raise UsageError(f"`{argument}`: column {column} is {labels[column]!r}, but this unit of the model is {units[column]!r}; read "
                             "the data with the model's units, Dataset.from_table(..., features=model.labels)")


def require_given(data: Any, argument: str) -> None:
    """Raises UsageError for None."""
    if data is None:
        raise UsageError(f"`{argument}` is None, expected a scipy.sparse matrix, a norn.Dataset or a NumPy array")


def require_widths(network: Network, data: Any, argument: str) -> None:
    """Raises DataError where columns without labels cannot be the units of the trained network's inputs. Sparse data may be narrower,
    where the network has no labels: their last units have no entries."""
    require_given(data, argument)
    sparse = sparse_names(network, "data")
    for layer in network.layers("Input"):
        name = layer.get("DataSet")
        given = data.get(name) if is_by_name(data) else data
        shape = getattr(matrix_of(given), "shape", ())
        if len(shape) != 2 or getattr(given, "feature_labels", None) is not None:
            continue
        units, labels = int(np.prod(layer["N"])), network.labels(layer["Name"])
        fits = shape[1] in (units, units if labels is None else len(labels))
        if fits or (shape[1] < units and labels is None and (name in sparse or not isinstance(given, np.ndarray))):
            continue
        which = f"`{argument}`" + (f"[{name!r}]" if is_by_name(data) else "")
        new = " without those that are new to the model: `partial_fit` with `grow` adds them" if shape[1] > units else ""
        if shape[0] == units:
            hint = f": is it transposed? {shape[0]} rows are as many as the model's units" + (f"; else give data{new}" if new else "")
        else:
            hint = "; give data with a column for each unit" + (f",{new}" if new else "")
        raise DataError(f"{which}: has {shape[1]} columns, the model has {units} units in layer \"{layer['Name']}\"{hint}")


def wanted_of(known: Any, wanted: Any = None) -> Any:
    """What is to be predicted: given, or a Dataset's targets, or what is known itself."""
    targets = getattr(known, "targets", None)
    if wanted is not None or targets is None:
        return known if wanted is None else wanted
    labels = getattr(known, "target_labels", None)
    if labels is None and targets.shape[1] == known.matrix.shape[1]:
        labels = labels_of(known)
    return types.SimpleNamespace(matrix=targets, feature_labels=labels, name=known.name)


def pair_of(given: Any, argument: str) -> tuple[Any, Any]:
    """What is known and what was held out: a pair, or a Dataset with targets."""
    if getattr(given, "targets", None) is not None:
        return given, wanted_of(given)
    if getattr(given, "is_split", False):
        raise UsageError(f"`{argument}`: these data are split, and one part has what was held out: give {held_out_parts(given)}")
    if hasattr(given, "is_split"):
        raise UsageError(f"`{argument}`: expected a pair (user_items, held_out) of matrices, or a Dataset with targets, and this one has "
                         "none; of data that are split by entry the parts .test and .validation have them")
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise UsageError(f"`{argument}`: expected a pair (user_items, held_out) of matrices, or a Dataset with targets, not "
                         f"{type(given).__name__}")
    return given[0], given[1]


def evaluated_sets(network: Network, known: Any, wanted: Any, trained_on: Any) -> tuple[list[Any], Any]:
    """Data sets of what is known and what is to be found, and that of what was learned; None without."""
    if wanted is None:
        known, wanted = pair_of(known, "user_items")
    require_labels(network, known, "Input", "user_items")
    require_widths(network, known, "user_items")
    require_labels(network, wanted, "Output", "held_out")
    sets = sets_of(network, "data", known, wanted, ("user_items", "held_out"))
    if trained_on is None:
        return sets, None
    given = wanted_of(trained_on)
    require_labels(network, given, "Output", "trained_on")
    return sets, memory_set("trained_on", given, "trained_on", indicator=True)


def data_settings(network: Network | None, known: Any, wanted: Any, validation: Any, weights: Any,
                  settings: Mapping[str, Any]) -> dict[str, Any]:
    """The data sets of a run with these settings, and what the settings lack to read them. Weights are one an example, or a matrix of
    them, one an entry of what is wanted."""
    require_given(known, "user_items")
    for one in known.values() if is_by_name(known) else (known,):
        tell_of_parts(one, "user_items")
    name = getattr(known, "name", None) or "data"
    wanted = wanted_of(known, wanted)
    arguments = ("user_items", "user_items" if wanted is known else "targets")
    native: dict[str, Any] = {}
    indicator = None if _entry_weights.read_by(network, settings) else True
    if _entry_weights.are_of_entries(weights):
        _require_paired(wanted if hasattr(wanted, "example_labels") else known, wanted, weights, f"`{arguments[1]}`")
        weighed = _entry_weights.weighed(wanted, weights, arguments[1])
        if set(set_names(network, "Input", name)) & set(set_names(network, "Output", name)):
            raise UsageError("`sample_weight`: the network reads one data set on both sides, whose values are those of the inputs; name "
                             "another one in \"DataSet\" of the Output layer")
        native = {"sets": sets_of(network, name, known, weighed, (arguments[0], "sample_weight"), indicator=False)}
        native |= {"entry_weights": "value"} if indicator else {}
    else:
        native["sets"] = sets_of(network, name, known, wanted, arguments, weights, indicator)
    if not is_by_name(wanted) and not has_entries(matrix_of(wanted)):
        raise DataError(f"`{arguments[1]}`: the matrix has no entries, so that there is nothing to learn")
    if validation is None or isinstance(validation, (int, float)):
        return native
    pair = pair_of(validation, "validation")
    return native | {"validation_sets": sets_of(network, name, *pair, ("validation[0]", "validation[1]"), indicator=indicator)}


def run_of(params: Mapping[str, Any], called: list[Callable[[Environment], Any]], network: Network | None,
           data: tuple[Any, Any, Any, Any, Any], measures: bool = True) -> dict[str, Any]:
    """A run from the beginning. `data`: known, wanted, validation, weights and features of items, as they are given. `measures`: where
    nothing says what a training is to be."""
    known, wanted, validation, weights, item_features = data
    native = settings_of(params, called, validation)
    native |= data_settings(network, known, wanted, validation, weights, native)
    native |= {"recipe": recipe_for(params, native) if measures else recipe_of(params)} if network is None else {}
    return _item_features.settings_with(native, item_features, wanted_of(known, wanted))


def held_out_part(data: Any) -> Dataset:
    """A fifth of the entries held out, with the same seed every time. Raises UsageError for data that are split already."""
    if getattr(data, "is_split", False):
        pair_of(data, "user_items")
    whole = data if isinstance(data, Dataset) else Dataset(sparse_of(data, "user_items"))
    return whole.split("ratio:0.8/0.2").test


@_entry_weights.called("weights")
def more_of(params: Mapping[str, Any], called: list[Callable[[Environment], Any]], network: Network, data: tuple[Any, Any, Any],
            epochs: int) -> dict[str, Any]:
    """Settings to go on with a model for so many epochs. `data`: known, wanted and weights, as they are given, of any users."""
    known, wanted, weights = data
    require_labels(network, known, "Input", "user_items")
    require_widths(network, known, "user_items")
    require_labels(network, wanted_of(known, wanted), "Output", "targets")
    own = {name: value for name, value in params.items() if not name.startswith("validation")}
    native = settings_of(own, called) | {"epochs": network.model.epochs() + epochs, "early_stop": "none", "keep_best": "none",
                                         "same_run": False, "other_data": True}
    return native | data_settings(network, known, wanted, None, weights, {})


def keeps_best(native: Mapping[str, Any]) -> bool:
    """Whether the run needs a place for its best model."""
    return any(native.get(name, "none") not in ("none", "") for name in ("early_stop", "keep_best"))


def folder_for(native: Mapping[str, Any]) -> tempfile.TemporaryDirectory[str] | None:
    """Where a run has what it needs to end, also one that is stopped: its best model, or what a search has found."""
    searches = str(native.get("recipe", "")).lower() == AUTO
    return tempfile.TemporaryDirectory(prefix="norn") if (keeps_best(native) or searches) and "model" not in native else None


def model_in(folder: tempfile.TemporaryDirectory[str] | None) -> dict[str, Any]:
    """The setting of a run whose model stands there; none where there is no folder."""
    return {} if folder is None else {"model": os.path.join(folder.name, "model.nc")}


def reference(given: Any) -> Any:
    """A weak reference to it; None where there can be none."""
    try:
        return weakref.ref(given)
    except TypeError:
        return None


def tell_of_known(fitted_on: Any, user_items: Any) -> bool:
    """Whether these are the data that a model was fitted on, given a reference to those; then a warning says so: what is to be found was
    trained on."""
    if fitted_on is None or fitted_on() is not user_items:
        return False
    _log.warning("`user_items` are the data that the model was fitted on, which knows the fifth that is looked for: other data give a "
                 "lower score; hold users or entries out before `fit`, and give those")
    return True
