# SPDX-License-Identifier: Apache-2.0
"""A recommender with the words and methods of the package `implicit`, for its evaluation and for scripts that use it."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _settings
from ._labels import pairs_of
from ._units import units_of
from ._words import count, integer, truth
from .callbacks import Environment, listed, progress
from .data.matrices import matrix_of, sparse_of
from .errors import UsageError
from .recommender import Recommender
from .vectors import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike, NDArray
    from typing_extensions import Self, Unpack

    from ._types import Callbacks, Floats, Ids, Matrices, Matrix, Parameters, Units, Weights

# implicit's settings under our names.
_OURS = {"factors": "hidden", "iterations": "epochs", "num_threads": "threads", "random_state": "seed", "use_gpu": "device",
         "regularization": "lambda_"}


class Autoencoder(Recommender):
    """As implicit's models: `fit(user_items)`, `recommend(userid, user_items[userid])`. What a user has is all that is known
    of them, so there is nothing to recalculate, and user ids only say which rows are meant.

    factors: units of the hidden layer, `hidden`; None: by the data.
    iterations: passes over the data, `epochs`; None: by the recipe. They are more and shorter than iterations of ALS.
    num_threads: of the CPU, `threads`; 0: one a core.
    random_state: an int, `seed`, or what draws one: a RandomState or Generator of NumPy.
    use_gpu: `device` "cuda" or "cpu"; None: "auto".
    regularization: 0 or None: the numbers of ALS mean nothing here; `lambda_` is the decay of weights.
    alpha: None: what missing entries weigh is the recipe's.
    dtype: float32, which all weights are.
    calculate_training_loss: changes nothing: a callback is always told the cost.

    Other keywords are those of Recommender. Without any it is one training, of the recipe "sigmoid".
    """

    _measures = False

    def __init__(self, factors: int | None = None, *, regularization: float | None = None, alpha: float | None = None,
                 dtype: DTypeLike | None = None,
                 use_gpu: bool | None = None, iterations: int | None = None, calculate_training_loss: bool | None = None,
                 num_threads: int | None = None, random_state: int | np.random.RandomState | np.random.Generator | None = None,
                 **settings: Unpack[Parameters]) -> None:
        """Keeps the settings; `fit` uses them. Raises UsageError for those that there are not, and for numbers that mean nothing here."""
        theirs = {"factors": factors, "regularization": regularization, "alpha": alpha, "dtype": dtype, "use_gpu": use_gpu,
                  "iterations": iterations,
                  "calculate_training_loss": calculate_training_loss, "num_threads": num_threads, "random_state": random_state}
        super().__init__(**_in_our_words({**settings, **theirs}))
        self._user_items: Any = None  # of `fit`
        self._user_factors: Any = None  # and the network that they are of

    def set_params(self, **params: Unpack[Parameters]) -> Self:
        """Changes settings, in implicit's words or in those of Recommender; the next `fit` uses them."""
        super().set_params(**_in_our_words(params))
        return self

    def fit(  # type: ignore[override]
            self, user_items: Matrices, show_progress: bool = True, callback: Callable[[int, float, float | None], object] | None = None, *,
            targets: Matrices | None = None, validation: float | tuple[Matrices, Matrices] | Matrix | None = None,
            weights: Weights | None = None,
            callbacks: Callbacks = (), resume: bool = False) -> Self:
        """Trains from the beginning.

        user_items: [users, items], CSR: what each user has. It is kept for `user_factors` and `similar_users`.
        show_progress: how far it is, on stderr.
        callback: is called with (epoch, seconds, cost) after each epoch.

        targets, validation, weights, callbacks, resume: as in Recommender.fit.

        Returns the model.
        """
        called: list[Callable[[Environment], object]] = [*listed(callbacks), *([progress()] if show_progress else [])]
        if callback is not None:
            def tell(env: Environment) -> None:
                if env.kind == "epoch":
                    callback(env.epoch - 1, env.report["seconds"], env.cost)

            called.append(tell)
        super().fit(user_items, targets, validation=validation, weights=weights, callbacks=called, resume=resume)
        self._user_items = user_items
        return self

    @property
    def item_factors(self) -> Floats:
        """[items, factors + 1]: the items of `export_vectors`, with the bias as the last column. `user_factors @ item_factors.T` is in
        the order of the scores."""
        return self.export_vectors().items

    @property
    def user_factors(self) -> Floats:
        """[users, factors + 1] of the users of `fit`, computed when they are asked for; the last column is 1. Raises UsageError for a
        model that was loaded: `export_vectors(user_items).users` has those of any users."""
        if self._user_factors is None or self._user_factors[0] is not self.network_:
            self._user_factors = self.network_, self.export_vectors(self._users_of_fit()).users
        factors: Floats = self._user_factors[1]
        return factors

    def _users_of_fit(self) -> Any:
        self.network_  # or says that there is none
        if self._user_items is None:
            raise UsageError("a model's file has no users: `export_vectors(user_items).users` has their factors, "
                             "`Recommender.similar_users` compares them")
        return self._user_items

    def recommend(self, userid: int | Sequence[int] | NDArray[np.integer], user_items: Matrix | None, N: int = 10,  # type: ignore[override]
                  filter_already_liked_items: bool = True, filter_items: Units | None = None, recalculate_user: bool = False,
                  items: Units | None = None) -> tuple[Ids, Floats]:
        """The N best items for each user.

        userid: a number, or several; they say which rows are meant.
        user_items: the rows of these users, CSR; or those of all users of `fit`, of which the rows are taken; None: what `fit` was given.
        N: how many.
        filter_already_liked_items: leaves out what the user has.
        filter_items, items: items that are left out, and that alone are recommended.
        recalculate_user: changes nothing: what a user has is all that is known of them.

        Returns (ids, scores), int32 and float32, [N] of one user and [users, N] of several. Raises UsageError where
        `user_items` has not a row for each user.
        """
        rows = self._rows(userid, user_items)
        ids, scores = super().recommend(rows, N, filter_already_liked_items=filter_already_liked_items, filter_items=filter_items,
                                        items=items)
        return (ids[0], scores[0]) if np.isscalar(userid) else (ids, scores)

    def _rows(self, userid: Any, user_items: Any) -> Any:
        """What these users have."""
        users, all_users = np.size(userid), None if self._user_items is None else getattr(matrix_of(self._user_items), "shape", (0,))[0]
        if user_items is not None:
            rows = getattr(matrix_of(user_items), "shape", (0,))[0]
            if rows == users:
                return user_items
            if rows != all_users:
                raise UsageError(f"`user_items`: has {rows} rows for {users} users; give user_items[userid]")
        given = sparse_of(self._users_of_fit() if user_items is None else user_items, "user_items")
        return given.tocsr()[units_of(userid, "userid", given.shape[0], None)]

    def explain(self, userid: int, user_items: Matrix | None, itemid: int, user_weights: object = None,  # type: ignore[override]
                N: int = 10) -> tuple[float, list[tuple[int, float]], object]:
        """Why an item has its score for a user: the effects of leaving out each item that the user has (`Recommender.explain`).

        userid: a number; it says which row is meant.
        user_items: the row of this user, CSR; or those of all users of `fit`; None: what `fit` was given.
        itemid: a number.
        user_weights: changes nothing, and is returned.
        N: how many.

        Returns (total_score, top_contributions, user_weights): the score, and (itemid, effect) of the N items with the largest effects.
        Effects do not add up to the score, as the contributions of ALS do.
        """
        found = super().explain(self._rows(userid, user_items), integer("itemid", itemid), N)
        pairs: list[Any] = pairs_of(None, found.ids[0], found.effects[0])
        return float(found.scores[0]), pairs, user_weights

    def similar_users(self, userid: int | Sequence[int] | NDArray[np.integer], N: int = 10, filter_users: Units | None = None,  # type: ignore[override]
                      users: Units | None = None) -> tuple[Ids, Floats]:
        """The N users of `fit` whose activations of the hidden layer have the largest cosine with a user's, themselves among them.

        userid: a number, or several.
        N: how many.
        filter_users, users: users that are left out, and that alone are looked at.

        Returns (ids, scores), int32 and float32, [N] of one user and [users, N] of several, fewer where there are fewer.
        """
        factors = self.user_factors[:, :-1]
        kept = np.full(len(factors), users is None)
        if users is not None:
            kept[units_of(users, "users", len(factors), None)] = True
        if filter_users is not None:
            kept[units_of(filter_users, "filter_users", len(factors), None)] = False
        numbers = np.flatnonzero(kept).astype(np.int32)
        ids, scores = nearest(factors[units_of(userid, "userid", len(factors), None)], [factors[numbers]], count("N", N))
        ids = numbers[ids]
        return (ids[0], scores[0]) if np.isscalar(userid) else (ids, scores)

    def similar_items(self, itemid: int | Sequence[int] | NDArray[np.integer], N: int = 10,  # type: ignore[override]
                      recalculate_item: bool = False, item_users: object = None, filter_items: Units | None = None,
                      items: Units | None = None) -> tuple[Ids, Floats]:
        """The N items whose output weights have the largest cosine with those of an item, itself among them.

        itemid: a number, or several.
        N: how many.
        recalculate_item, item_users: change nothing.
        filter_items, items: items that are left out, and that alone are looked at.

        Returns (ids, scores), int32 and float32, [N] of one item and [items, N] of several.
        """
        ids, scores = super().similar_items(np.atleast_1d(itemid), N, filter_items=filter_items, items=items)
        return (ids[0], scores[0]) if np.isscalar(itemid) else (ids, scores)


def _in_our_words(given: Mapping[str, Any]) -> Any:
    """Settings under the names of Recommender; what is None of implicit's is not given."""
    ours: dict[str, Any] = {}
    for name, value in sorted(given.items(), key=lambda one: one[0] in _OURS):
        if name not in (*_OURS, "alpha", "dtype", "calculate_training_loss"):
            ours[name] = value
        elif value is not None:
            ours |= _in_our_word(name, value, ours)
    return ours


def _in_our_word(name: str, value: Any, beside: Mapping[str, Any]) -> dict[str, Any]:
    if name == "calculate_training_loss":
        truth(name, value)
        return {}
    if name == "dtype":
        if value not in (np.float32, "float32", np.dtype(np.float32)):
            raise UsageError(f"`dtype` {value!r}: weights are float32; leave it out, or see `precision` for products on a GPU")
        return {}
    if name == "alpha" or name == "regularization" and value not in (0, 0.0):
        raise UsageError(f"`{name}` {value!r}: {_settings.OTHERWISE[name]}")
    if beside.get(_OURS[name]) is not None:
        raise UsageError(f"`{name}` and `{_OURS[name]}` are one setting; give one of the two")
    if name == "use_gpu":
        if not isinstance(value, (bool, np.bool_)):
            raise UsageError(f"`use_gpu` {value!r}: expected True or False; `device` takes words")
        value = "cuda" if value else "cpu"
    elif isinstance(value, np.random.RandomState):
        value = int(value.randint(2**31 - 1))
    elif isinstance(value, np.random.Generator):
        value = int(value.integers(2**31 - 1))
    return {_OURS[name]: value}
