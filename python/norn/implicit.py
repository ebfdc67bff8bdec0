# SPDX-License-Identifier: Apache-2.0
"""A recommender with the methods of the package `implicit`, for its evaluation and for scripts that use it."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from .callbacks import Environment, listed, progress
from .errors import UsageError
from .recommender import Recommender

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from ._types import Callbacks, Floats, Ids, Matrices, Matrix, Units


class Autoencoder(Recommender):
    """As implicit's models: `fit(user_items)`, `recommend(userid, user_items[userid])`. What a user has is all that is known
    of them, so there is nothing to recalculate, and user ids only say which rows are meant."""

    def fit(  # type: ignore[override]
            self, user_items: Matrices, show_progress: bool = True, callback: Callable[[int, float, float | None], object] | None = None, *,
            targets: Matrices | None = None, validation: float | tuple[Matrices, Matrices] | Matrix | None = None, weights: ArrayLike | None = None,
            callbacks: Callbacks = (), resume: bool = False) -> Autoencoder:
        """Trains from the beginning.

        user_items: [users, items], CSR: what each user has.
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
        return self

    def recommend(self, userid: int | Sequence[int] | NDArray[np.integer], user_items: Matrix, N: int = 10,  # type: ignore[override]
                  filter_already_liked_items: bool = True, filter_items: Units | None = None, recalculate_user: bool = False,
                  items: Units | None = None) -> tuple[Ids, Floats]:
        """The N best items for each user.

        userid: a number, or several; they say which rows are meant.
        user_items: the rows of these users, CSR.
        N: how many.
        filter_already_liked_items: leaves out what the user has.
        filter_items, items: items that are left out, and that alone are recommended.
        recalculate_user: changes nothing: what a user has is all that is known of them.

        Returns (ids, scores), int32 and float32, [N] of one user and [users, N] of several. Raises UsageError where
        `user_items` has not a row for each user.
        """
        rows = getattr(user_items, "shape", (0,))[0]
        users = np.size(userid)
        if rows != users:
            raise UsageError(f"`user_items`: has {rows} rows for {users} users; give user_items[userid]")
        ids, scores = super().recommend(user_items, N, filter_already_liked_items=filter_already_liked_items, filter_items=filter_items, items=items)
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
