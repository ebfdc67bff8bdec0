# SPDX-License-Identifier: Apache-2.0
"""The recommender: an autoencoder of what users have, by a recipe that fits any data, or by a descriptor."""
from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from . import _core, _display, _entry_weights, _fitting, _settings
from ._arrays import factors_of, set_of_each_user
from ._evaluation import Evaluation, Resampling, asked_metrics, lengths_of
from ._labels import Labels, pairs_of
from ._units import allowed_of, basket_of, is_basket, units_of
from ._words import choice, count, integer, one_of, positive, renamed, truth, word
from .callbacks import Environment, listed
from .data.matrices import matrix_of
from .errors import UsageError
from .explaining import Explanation, asked_units, explained
from .growing import with_items, with_items_of
from .history import History
from .network import Network, run_settings, unit_vectors, width_of
from .tables import TableStream, UserRows, in_parts, recommended
from .training import Run, begun, resumed, run
from .vectors import Vectors, nearest, nearest_units, vectors_of

if TYPE_CHECKING:
    from collections.abc import Sequence, Set
    from typing import SupportsIndex

    from numpy.typing import NDArray
    from typing_extensions import Self, Unpack

    from ._setting_types import Settings
    from ._types import (Basket, Callbacks, Chosen, Column, Descriptor, Facts, Floats, Ids, ItemFeatures, Labelled, Matrices, Matrix,
                         Parameters, Path, Units, Weights)


class Recommender:
    """Learns what units go together, and recommends.

    Recommender() takes no argument: it measures what suits the data, within `budget`, six trainings. Settings are keywords, those of
    the trainer, which `norn.settings()` lists: Recommender(epochs=20, seed=1) is one training, of the recipe "sigmoid".

    recipe: "sigmoid", "softmax", "ease", or "auto", which measures some of them and trains the best; None: that of the network, else
        "auto", or "sigmoid" where other settings than `seed` and `budget`, or `fit(validation=)`, say what a training is to be.
    hidden: units of the recipe's hidden layer; None: by the data.
    network: a descriptor in place of a recipe: a Network, a dictionary, JSON text or a path.
    device: "auto", "cpu", "cuda", "cuda:1".
    threads: of the CPU; 0: one a core.
    precision: of products on a GPU: "fp32", "tf32", "bf16".
    """

    _measures = True  # where nothing says what a training is to be
    @_settings.documented
    def __init__(self, *, recipe: str | None = None, hidden: int | None = None, network: Descriptor | None = None,
                 device: str = "auto", threads: int = 0, precision: str = "tf32", **settings: Unpack[Settings]) -> None:
        """Keeps the settings; `fit` uses them. Raises UsageError for those that there are not."""
        _settings.checked(settings, beside=_DEFAULTS, problems=_fitting.recipe_problems(recipe, hidden))
        self._params: dict[str, Any] = {
            "recipe": recipe, "hidden": hidden, "network": network, "device": device, "threads": threads, "precision": precision,
        }
        self._params |= {_settings.name_of(name): value for name, value in settings.items()}
        self._network: Network | None = None
        self._fitted_on: Any = None  # a weak reference
        self._unfinished: Any = None  # the folder of a run that was stopped and keeps its best model

    # Settings, as scikit-learn asks for them.

    def get_params(self, deep: bool = True) -> Parameters:
        """The settings: those that have been given, and those of the device and the network.

        deep: changes nothing; scikit-learn says it.
        """
        params: Any = {_settings.keyword_of(name): value for name, value in self._params.items()}
        return params

    def set_params(self, **params: Unpack[Parameters]) -> Self:
        """Changes settings, those of the constructor; the next `fit` uses them. Raises UsageError for those that there are not."""
        type(self)(**(self.get_params() | params))
        self._params |= {_settings.name_of(name): value for name, value in params.items()}
        return self

    # Training.

    @renamed(interactions="user_items")
    def fit(self, user_items: Matrices, targets: Matrices | None = None, *,
            validation: float | tuple[Matrices, Matrices] | Matrix | None = None, weights: Weights | None = None,
            sample_weight: Weights | None = None, item_features: ItemFeatures | None = None, callbacks: Callbacks = (),
            resume: bool = False) -> Self:
        """Trains from the beginning.

        user_items: [users, units], a CSR matrix of SciPy or a Dataset: what each user has. int32 indices and float32
            values are read where they stand, and must not be changed meanwhile; where all values are 1 there are none.
            Entries of the same user and unit are added up. Of an array of NumPy what is not zero.
        targets: what is to be predicted from it; None: the Dataset's targets, or the same units. Values count for `entry_weights` alone.
        validation: the share of users to validate with, such as 0.1, or a pair (user_items, held_out), or a Dataset with targets.
        weights, sample_weight: one of the two: [users], what each counts, or CSR, what each target does; at least 0, not all 0.
        item_features: [units, features], CSR or a Dataset, or a dictionary from labels of units to features, by which they score, too.
        callbacks: one or a list of them: `norn.early_stopping(...)` and its like, and functions, which are called with an
            Environment after each epoch and validation.
        resume: goes on with a run that Ctrl-C or a callback stopped, to the bits that it would have had, with its data and settings.

        Returns the recommender. On Ctrl-C KeyboardInterrupt is raised after the step, and the model is as far as it has come.
        Raises UsageError for arguments, DataError for what stands in the data, DeviceError where memory does not suffice,
        DivergenceError where weights are no longer finite, and what a callback raises.
        """
        called, network = listed(callbacks), _fitting.network_of(self._params)
        self._fitted_on = _fitting.reference(user_items) if _fitting.wanted_of(user_items, targets) is user_items else None
        given = one_of("weights", weights, "sample_weight", sample_weight)
        with _entry_weights.called("sample_weight" if weights is None else "weights"):
            native = _fitting.run_of(self._params, called, network, (user_items, targets, validation, given, item_features), self._measures)
        if resume:
            return self._resume(native, called)
        self._unfinished, folder = None, _fitting.folder_for(native)
        native |= _fitting.model_in(folder)
        with run_settings(network) if network else contextlib.nullcontext({}) as source, _fitting.search_told(self._params, native):
            return self._finish(run(native | source, called, beside=_fitting.made_by(self._params, native)), folder)

    def _resume(self, native: dict[str, Any], called: list[Callable[[Environment], Any]]) -> Self:
        if self._unfinished is None:
            return self._finish(resumed(self.network_, native, called))
        return self._finish(run(native | _fitting.model_in(self._unfinished) | {"resume": "auto"}, called, self.history), self._unfinished)

    @renamed(interactions="user_items")
    def partial_fit(self, user_items: Matrices, targets: Matrices | None = None, *, epochs: int = 1, grow: bool = False,
                    weights: Weights | None = None, callbacks: Callbacks = ()) -> Self:
        """Goes on for so many epochs with the optimizer's state, on these or other data of the same units, all of which are
        trained on. Without a model it is a `fit` of so many epochs.

        user_items, targets, weights, callbacks: as in `fit`; users are any number, of which fewer than the batch are one batch.
        epochs: passes over these data, with the rates that the schedule has for so many more.
        grow: the model gets the units that it has not, each first with the mean weights of those that users have beside it.

        Returns the recommender. Raises UsageError where columns are other units than those of the model, or EASE is beside its network.
        """
        epochs, called = integer("epochs", epochs), listed(callbacks)
        if self._network is None:
            first = type(self)(**(self.get_params() | {"epochs": epochs})).fit(user_items, targets, weights=weights, callbacks=called)
            self._network = first._network
            return self
        network = self.network_
        if truth("grow", grow):
            network, user_items = with_items_of(network, user_items)
        native = _fitting.more_of(self._params, called, network, (user_items, targets, weights), epochs)
        return self._finish((resumed if network.model.has_state() else begun)(network, native, called))

    def add_items(self, item_features: ItemFeatures, labels: Iterable[str] | None = None, *,
                  known_features: ItemFeatures | None = None, regularization: float = 3.0, layer: str = "") -> Self:
        """Items that the model has not seen, behind those that it has, without training: their weights are what ridge regression says of
        their features, by those of known items. They are recommended like all others, and known of users where those have them.

        item_features: [new items, features], CSR or a Dataset, or a dictionary from labels of new items to features.
        labels: of the new items, where the model's have labels, and `item_features` has none.
        known_features: features of the items of the model, as `fit` takes them; None: those that it was trained with.
        regularization: of the regression, above 0.
        layer: of networks with several output layers.

        Returns the recommender. `partial_fit` goes on from these weights, with an optimizer that begins anew. Raises UsageError for what
        does not go together, naming it.
        """
        output = self.network_.layer(word("layer", layer))["Name"]
        self._network = with_items(self.network_, output, item_features, labels, known_features,
                                   positive("regularization", regularization))
        return self

    def _finish(self, done: Run, folder: Any = None) -> Self:
        if done.model is not None:
            on: Any = {name: self._params[name] for name in ("device", "threads", "precision")}
            self._network = Network(done.model, history=done.history, device=on)
        self._unfinished = folder if done.facts["end"] == "stopped" else None
        if done.raised is not None:
            raise done.raised
        return self

    # What there is of a model.

    @property
    def network_(self) -> Network:
        """The trained network. Raises UsageError before `fit`."""
        if self._network is None:
            given = self._params["network"]
            instead = "; `fit` begins with the weights of the `network` that was given, with which `Recommender.of(network)` recommends" \
                if isinstance(given, Network) and given.trained else ""
            raise UsageError(f"the recommender is not trained: call fit, or norn.load{instead}")
        return self._network

    @property
    def chosen_(self) -> Chosen | None:
        """As of `Network.chosen`. Raises UsageError before `fit`."""
        return self.network_.chosen

    @property
    def history(self) -> History:
        """A dictionary for each epoch; `to_pandas()` makes a table of it."""
        return self._network.history if self._network is not None else History()

    @property
    def labels(self) -> Labels | None:
        """The labels of the units that are recommended, a sequence of str that nothing copies; None where they are not known. As of a
        list -1 is the last one: leave out ids of -1, `[labels[i] for i in ids[0] if i >= 0]`."""
        return self.network_.labels(self.network_.layer()["Name"])

    def _units(self, layer: Facts) -> tuple[int, Labels | None]:
        """How many a layer has, and what they are called."""
        return width_of(layer), self.network_.labels(layer["Name"])

    def _inputs(self, user_items: Any) -> list[Any]:
        """The data sets of examples to predict for; none where there are no examples."""
        if getattr(matrix_of(user_items), "shape", ())[:1] == (0,):
            return []
        _fitting.require_labels(self.network_, user_items, "Input", "user_items")
        _fitting.require_widths(self.network_, user_items, "user_items")
        return _fitting.sets_of(self.network_, "data", user_items, None, ("user_items", ""))

    @overload
    def recommend(self, user_items: Matrices, N: int = ..., *, filter_already_liked_items: bool = ..., filter_items: Units | None = ...,
                  items: Units | None = ..., filter_pairs: Matrix | None = ..., score_factors: Matrix | None = ..., layer: str = ...
                  ) -> tuple[Ids, Floats]: ...
    @overload
    def recommend(self, user_items: Sequence[str] | Set[str], N: int = ..., *, filter_already_liked_items: bool = ...,
                  filter_items: Units | None = ..., items: Units | None = ..., filter_pairs: Matrix | None = ...,
                  score_factors: Matrix | None = ..., layer: str = ...) -> list[tuple[str, float]]: ...
    @overload
    def recommend(self, user_items: Sequence[SupportsIndex] | Set[SupportsIndex] | Column, N: int = ..., *,
                  filter_already_liked_items: bool = ..., filter_items: Units | None = ..., items: Units | None = ...,
                  filter_pairs: Matrix | None = ..., score_factors: Matrix | None = ...,
                  layer: str = ...) -> list[tuple[str | int, float]]: ...
    def recommend(self, user_items: Matrices | Units, N: int = 10, *, filter_already_liked_items: bool = True,
                  filter_items: Units | None = None, items: Units | None = None, filter_pairs: Matrix | None = None,
                  score_factors: Matrix | None = None, layer: str = ""
                  ) -> tuple[Ids, Floats] | list[tuple[str, float]] | list[tuple[str | int, float]]:
        """The N best units for each user, exact, ties by the lowest unit.

        user_items: [users, units], CSR or a Dataset: what each has; they need not be those of `fit`. Or one basket, a list
            or Series of labels, which are text, or numbers of units; what is there twice counts once.
        N: how many.
        filter_already_liked_items: leaves out what the user has.
        filter_items, items: units, by label, number or a mask of bools, that are left out, and that alone are recommended.
        filter_pairs: [users, units], CSR: what is left out for each user.
        score_factors: [users, units], CSR: scores are multiplied by its values where it has any. Or an array of NumPy, also
            of one factor for each unit.
        layer: of networks with several output layers.

        Returns (ids, scores), int32 and float32 [users, N], or [users, units] where the model has fewer, best first, -1 and
        nan where a user has fewer that may be recommended. Of one basket a list of (label, score), numbers where the model has no labels.
        Raises UsageError naming the first label or number that is no unit of the model, and before `fit`.
        """
        output = self.network_.layer(word("layer", layer))
        longest = min(count("N", N), width_of(output))
        basket = is_basket(user_items)
        sets = self._inputs(basket_of(user_items, "user_items", *self._units(self.network_.layers("Input")[0])) if basket else user_items)
        if not sets:
            return np.empty((0, longest), np.int32), np.empty((0, longest), np.float32)
        users = 1 if basket else _fitting.examples_of(self.network_, user_items, "user_items")
        pairs = set_of_each_user(filter_pairs, "filter_pairs", users, width_of(output))
        factors = set_of_each_user(factors_of(score_factors, users), "score_factors", users, width_of(output))
        ids, scores = _core.recommend(self.network_.model, sets, longest, layer,
                                      truth("filter_already_liked_items", filter_already_liked_items), pairs, factors,
                                      allowed_of(items, filter_items, *self._units(output)))
        if not basket:
            return ids, scores
        return pairs_of(self.labels, ids[0], scores[0])

    @overload
    def explain(self, user_items: Basket, item: str | SupportsIndex, N: int = ..., *, layer: str = ...  # type: ignore[overload-overlap]
                ) -> list[tuple[str | int, float]]: ...
    @overload
    def explain(self, user_items: Basket, item: Units, N: int = ..., *, layer: str = ...) -> list[list[tuple[str | int, float]]]: ...
    @overload
    def explain(self, user_items: Matrices, item: Units | Sequence[Sequence[int]], N: int = ..., *, layer: str = ...) -> Explanation: ...
    def explain(self, user_items: Matrices | Units, item: Units | Sequence[Sequence[int]], N: int = 5, *, layer: str = ""
                ) -> Explanation | list[tuple[str | int, float]] | list[list[tuple[str | int, float]]]:
        """Why this item: the N entries of what a user has that its score depends on most. The effect of an entry is the score that
        `recommend` gives, less the score without this entry: the network is run on both, so it is exact.

        user_items: as for `recommend`.
        item: a unit, by label or number, that is asked about for each user. Of several users also one for each, [users], or
            [users, items], such as the ids that `recommend` returns, whose -1 are passed over. Of one basket also several.
        N: how many, or as many as the inputs have units.
        layer: of networks with several output layers.

        Returns an Explanation. Of one basket a list of (label, effect), the largest sizes first, numbers where the model has no labels;
        of several items a list of such lists. An entry that is the item itself is one like others. Raises UsageError naming the
        first label or number that is no unit of the model, and where all inputs are dense.
        """
        output, inputs = self.network_.layer(word("layer", layer)), self.network_.layers("Input")
        most = min(count("N", N), sum(map(width_of, inputs)))
        basket = is_basket(user_items)
        sets = self._inputs(basket_of(user_items, "user_items", *self._units(inputs[0])) if basket else user_items)
        asked = asked_units(item, None if basket else _fitting.examples_of(self.network_, user_items, "user_items"), *self._units(output))
        return explained(self.network_, sets, asked, most, layer)

    @overload
    def similar_items(self, itemid: str, N: int = ..., *, of: str = ..., filter_items: Units | None = ...,  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]
                      items: Units | None = ...) -> list[tuple[str, float]]: ...
    @overload
    def similar_items(self, itemid: SupportsIndex | Sequence[str] | Sequence[SupportsIndex] | Column | NDArray[np.generic], N: int = ..., *,
                      of: str = ..., filter_items: Units | None = ..., items: Units | None = ...) -> tuple[Ids, Floats]: ...
    def similar_items(self, itemid: Units, N: int = 10, *, of: str = "output", filter_items: Units | None = None,
                      items: Units | None = None) -> tuple[Ids, Floats] | list[tuple[str, float]] | list[tuple[str | int, float]]:
        """The N units whose weights have the largest cosine with those of a unit, itself among them, exact.

        itemid: a unit, by number or label, which is text, or several.
        N: how many.
        of: which weights: "output" or "input".
        filter_items, items: units, by label, number or a mask of bools, that are left out, and that alone are looked at.

        Returns (ids, scores), int32 and float32, [N], of several [units, N]; of a label a list of (label, score). Raises
        UsageError for what is no unit of the model.
        """
        count("N", N)
        layer = self.network_.layer() if choice("of", of, ("output", "input")) == "output" else self.network_.layers("Input")[0]
        width, labels = self._units(layer)
        asked = units_of(itemid, "itemid", width, labels)
        ids, best = nearest_units(unit_vectors(self.network_, layer["Name"], of), asked, allowed_of(items, filter_items, width, labels), N)
        if isinstance(itemid, str):
            return pairs_of(labels, ids[0], best[0])
        return (ids, best) if isinstance(itemid, Iterable) else (ids[0], best[0])

    def transform(self, user_items: Matrices, layer: str = "Hidden") -> Floats:
        """Embeddings: the activations of a hidden layer.

        user_items: [users, units], CSR or a Dataset: what each has.
        layer: of which layer.

        Returns float32 [users, units of the layer]. Raises UsageError where there is no such layer.
        """
        sets, layer = self._inputs(user_items), word("layer", layer)
        if not sets:
            return np.empty((0, width_of(self.network_.layer(layer, "Hidden"))), np.float32)
        values: Any = _core.embed(self.network_.model, sets, layer)
        return values

    def export_vectors(self, user_items: Matrices | None = None, *, layer: str = "") -> Vectors:
        """Vectors for programs that search by inner products, such as faiss: `users @ items.T` is in the order of the scores.

        user_items: [users, units], CSR or a Dataset: what each has; None: vectors of items alone.
        layer: of networks with several output layers.

        Returns Vectors (items, users): float32 [units, dimensions], the weights from the last hidden layers and the bias, and
        [users, dimensions], what `transform` gives and 1. Raises UsageError where the scores are in another order, as with GELU, and for
        outputs that more than hidden layers feed.
        """
        return vectors_of(self.network_, self.network_.layer(word("layer", layer))["Name"],
                          None if user_items is None else lambda hidden: self.transform(user_items, hidden))

    @overload
    def similar_users(self, user_items: Matrices, others: Matrices, N: int = ..., *, layer: str = ...) -> tuple[Ids, Floats]: ...
    @overload
    def similar_users(self, user_items: Basket, others: Matrices, N: int = ..., *, layer: str = ...) -> list[tuple[str | int, float]]: ...
    def similar_users(self, user_items: Matrices | Units, others: Matrices, N: int = 10, *, layer: str = "Hidden"
                      ) -> tuple[Ids, Floats] | list[tuple[str | int, float]]:
        """The N users of others whose activations of a hidden layer have the largest cosine with those of a user, exact, of equal
        ones the first. A user who is among the others is most like themselves.

        user_items, N: as for `recommend`.
        others: [others, units], among whom.
        layer: which hidden layer.

        Returns (ids, scores), rows of `others`, int32 and float32 [users, N], or [users, others] where there are fewer, best first. Of
        one basket a list of (label, score), numbers where `others` have no labels of examples.
        """
        basket = is_basket(user_items)
        known: Any = basket_of(user_items, "user_items", *self._units(self.network_.layers("Input")[0])) if basket else user_items
        parts = in_parts(_fitting.rows_read(self.network_, others, "others"), "others")
        ids, scores = nearest(self.transform(known, layer), (self.transform(part, layer) for part in parts), count("N", N))
        return pairs_of(getattr(others, "example_labels", None), ids[0], scores[0]) if basket else (ids, scores)

    def recommend_table(self, user_items: Matrices, N: int = 10, *, users: Labelled | None = None, batch: int = 1 << 14,
                        filter_already_liked_items: bool = True, filter_items: Units | None = None, items: Units | None = None,
                        filter_pairs: Matrix | None = None, score_factors: Matrix | None = None, layer: str = "") -> TableStream:
        """What `recommend` says, as a table of Arrow with the columns user, rank (from 1), item and score, that is made a batch of users at
        a time: for Parquet, pandas, polars, DuckDB. It needs pyarrow.

        user_items, N, filter_already_liked_items, filter_items, items, filter_pairs, score_factors, layer: as for `recommend`.
        users: [users], what each is called, text or whole numbers; None: the labels of the data's examples, or else the numbers of rows.
        batch: users at a time.

        Returns a TableStream. Items are labels, numbers where the model has none. Raises UsageError as `recommend` does.
        """
        width, labels = self._units(self.network_.layer(word("layer", layer)))
        count("N", N)
        _fitting.require_labels(self.network_, user_items, "Input", "user_items")
        _fitting.require_widths(self.network_, user_items, "user_items")
        allowed = allowed_of(items, filter_items, width, labels)
        recommend = functools.partial(Recommender.recommend, self, N=N, filter_already_liked_items=filter_already_liked_items, layer=layer,
                                      items=None if allowed is None else allowed.astype(bool))
        called = getattr(user_items, "example_labels", None) if users is None else users
        read = UserRows(_fitting.rows_read(self.network_, user_items, "user_items"), "user_items", width, filter_pairs, score_factors)
        return recommended(recommend, read, called, labels, count("batch", batch))

    @renamed(known="user_items")
    def evaluate(self, user_items: Matrices | tuple[Matrices, Matrices], held_out: Matrices | None = None, *,
                 k: int | Iterable[int] = (10, 20, 100), keep_seen: bool = False, per_example: bool = False, confusion: bool = False,
                 layer: str = "", interval: float | None = None, resamples: int = 2000, seed: int = 1, also: str | Iterable[str] = (),
                 trained_on: Matrix | None = None, propensity: tuple[float, float] | None = None, items: Units | None = None
                 ) -> Evaluation:
        """How well held-out units are ranked, in the evaluator's numbers.

        user_items, held_out: [users, units], what is known of users and what is to be found; one pair of them; a Dataset with targets.
        k: lengths of the lists.
        keep_seen: known units may be recommended, too.
        per_example: the metrics of each user, too, for `interval` and `difference` of what is returned.
        confusion: how often each class was taken for which, too, where `held_out` has one for each.
        layer: of networks with several output layers.
        interval, resamples, seed: such as 0.95: `per_example`, and `intervals` of the means, as `Evaluation.interval` has them.
        also: "auc", and with `trained_on` "novelty" and "diversity": these metrics, too, one or several.
        trained_on: [users, units], what the model has learned, for metrics that count in it who has a unit.
        propensity: two numbers, such as (0.55, 1.5): "psp", too, with `trained_on`.
        items: units, as for `recommend`, that alone are ranked; of what is held out only these count, and users without are skipped.

        Returns an Evaluation: docs/user/metrics.md has the formulas. Raises UsageError for what does not go together, or is no unit.
        """
        name, more = word("layer", layer), asked_metrics(also, trained_on, propensity)
        sets, learned = _fitting.evaluated_sets(self.network_, user_items, held_out, trained_on)
        drawn = None if interval is None else Resampling.of(interval, resamples, seed, "interval")
        ranked = None if items is None else allowed_of(items, None, *self._units(self.network_.layer(name)))
        return Evaluation(_core.evaluate(self.network_.model, sets, lengths_of(k), name, truth("keep_seen", keep_seen),
                                         truth("per_example", drawn or per_example), truth("confusion", confusion), (more, propensity),
                                         learned, ranked), drawn)

    def score(self, user_items: Matrices, held_out: Matrices | None = None) -> float:
        """ndcg@20 of `evaluate`, higher is better: what scikit-learn's searches compare by.

        user_items, held_out: [users, units], what is known of users and what is to be found. Without held_out it is a
            Dataset's targets, or a fifth of the entries, drawn with the same seed every time, of users with others beside.
            They should be users whom `fit` has not seen: of those that it was given a warning says that it knows what is
            looked for, also where it held a part of them back to validate with, whose metrics stand in `history`.

        Raises UsageError for a Dataset that is split: its parts say what was held out.
        """
        if held_out is None and getattr(user_items, "targets", None) is None:
            if _fitting.tell_of_known(self._fitted_on, user_items):
                self._fitted_on = None
            user_items = _fitting.held_out_part(user_items)
        return self.evaluate(user_items, held_out, k=[20])["ndcg@20"]

    @property
    def n_features_in_(self) -> int:
        """Units of what users have, by which scikit-learn knows what `fit` was given. Raises AttributeError before `fit`."""
        if self._network is None:
            raise AttributeError("n_features_in_: the recommender is not trained")
        return width_of(self._network.layers("Input")[0])

    def __sklearn_is_fitted__(self) -> bool:
        return self._network is not None

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of an estimator: sparse matrices, and targets that need not be."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False, multi_output=True), input_tags=InputTags(sparse=True))

    def save(self, path: Path) -> None:
        """Writes the model's file, which all programs of Norn read; it is complete or absent.

        path: of the file, NAME.nc. Raises DataError where it cannot be written, UsageError for the ending of another format.
        """
        self.network_.save(path)

    @classmethod
    def load(cls, path: Path, *, device: str = "auto", threads: int = 0, precision: str = "tf32", batch: int = 1024) -> Self:
        """The recommender of a model's file.

        path, device, threads, precision, batch: as in `norn.load`.
        """
        return cls.of(Network.load(path, device=device, threads=threads, precision=precision, batch=batch))

    @classmethod
    def of(cls, network: Network) -> Self:
        """What recommends, embeds and evaluates with a trained network, as it is, on the device that it is on.

        network: of `norn.train`, say. Raises UsageError where it is a descriptor alone.
        """
        network.model  # or says that there is none
        made = cls(recipe=None, network=network.descriptor, **network.device)
        made._network = network
        return made

    def close(self) -> None:
        """Gives the model's memory back. What is asked of it later raises UsageError."""
        self.network_.close()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_unfinished": None, "_fitted_on": None}

    def __repr__(self) -> str:
        shown = {name: value for name, value in self.get_params().items() if name != "network" and value != _DEFAULTS.get(name)}
        called = None if self._params["network"] is None else _fitting.name_of(self._params["network"])
        return _display.recommender_text(type(self).__name__, called, shown, self._network)

    def _repr_html_(self) -> str:
        shown, name = self._network, type(self).__name__
        return f"<code>{self!r}</code>" if shown is None else _display.network_html(name, shown.layers(), True, shown.history)


_DEFAULTS = {"recipe": None, "hidden": None, "network": None, "device": "auto", "threads": 0, "precision": "tf32"}
