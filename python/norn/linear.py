# SPDX-License-Identifier: Apache-2.0
"""The recommender whose weights have a closed form: EASE."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._words import renamed
from .errors import UsageError
from .network import Network
from .recommender import Recommender

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from ._types import Callbacks, Matrices, Parameters, Weights

_SETTINGS = ("regularization", "device", "threads", "precision")


class Ease(Recommender):
    """EASE, the linear autoencoder of items, computed at once (Steck, "Embarrassingly Shallow Autoencoders for Sparse Data", WWW
    2019): P = (X'X + regularization I)^-1, the weight from item i to item j is -P_ij / P_jj, and scores are X times these weights.

    regularization: above 0; None: it follows from the data (docs/user/recipes.md).
    device: "auto", "cpu", "cuda", "cuda:1"; on a GPU the Gram matrix is inverted there where it takes at most half of its memory.
    threads: of the CPU; 0: one a core.
    precision: of products on a GPU: "fp32", "tf32", "bf16".
    """

    def __init__(self, *, regularization: float | None = None, device: str = "auto", threads: int = 0, precision: str = "tf32") -> None:
        """Keeps the settings; `fit` uses them. Raises UsageError for what is no number above 0."""
        if regularization is not None and (isinstance(regularization, (bool, str)) or not hasattr(regularization, "__float__")
                                           or not 0.0 < float(regularization) < float("inf")):
            raise UsageError(f"`regularization` {regularization!r}: expected a number above 0, or None, by which it follows from the data")
        super().__init__(recipe="ease", device=device, threads=threads, precision=precision, lambda_=regularization)

    def get_params(self, deep: bool = True) -> Parameters:
        """The settings of the constructor.

        deep: changes nothing; scikit-learn says it.
        """
        params: Any = {name: self._params["lambda" if name == "regularization" else name] for name in _SETTINGS}
        return params

    def set_params(self, **params: Unpack[Parameters]) -> Self:
        """Changes settings, those of the constructor; the next `fit` uses them. Raises UsageError for those that there are not."""
        given: dict[str, Any] = dict(params)
        unknown = [name for name in given if name not in _SETTINGS]
        if unknown:
            raise UsageError(f"`{unknown[0]}`: EASE has no such setting. There are: {', '.join(_SETTINGS)}")
        self._params |= type(self)(**{**self.get_params(), **given})._params  # type: ignore[arg-type]
        return self

    @renamed(interactions="user_items")
    def partial_fit(self, user_items: Matrices, targets: Matrices | None = None, *, epochs: int = 1, grow: bool = False,
                    weights: Weights | None = None, callbacks: Callbacks = ()) -> Self:
        """Raises UsageError: the weights follow from all data at once, so that `fit` is given all.

        user_items, targets, epochs, grow, weights, callbacks: as in Recommender.partial_fit.
        """
        raise UsageError("EASE is computed at once, so that there is nothing to go on with; call `fit` with all data")

    @classmethod
    def of(cls, network: Network) -> Self:
        """What recommends and evaluates with a trained network of EASE, as it is, on the device that it is on.

        network: of an Ease, or of a model's file. Raises UsageError where it is another network, or a descriptor alone.
        """
        network.model  # or says that there is none
        training = network.descriptor.get("Training", {})
        if training.get("Method") != "Ease":
            raise UsageError("the network is not EASE; `norn.Recommender.of(network)`, or `norn.load(file)`, takes any")
        made = cls(regularization=training["Lambda"], **network.device)
        made._network = network
        return made
