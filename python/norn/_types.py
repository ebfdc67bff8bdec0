# SPDX-License-Identifier: Apache-2.0
"""Names of types that many modules use, and signatures show. Nothing is imported here at run time."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence, Set
    from typing import Protocol, SupportsIndex, TypeAlias, TypedDict

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from ._setting_types import Settings
    from .callbacks import Environment
    from .dataset import Dataset
    from .interchange.parts import Parts
    from .network import Network
    from .recommender import Recommender

    # Within the package.
    Array: TypeAlias = NDArray[Any]
    Facts: TypeAlias = dict[str, Any]  # as JSON, or the engine, gives it

    # In signatures that users see.
    Floats: TypeAlias = NDArray[np.float32]
    Ids: TypeAlias = NDArray[np.int32]
    Path: TypeAlias = str | os.PathLike[str]

    class SparseMatrix(Protocol):
        """A matrix of scipy.sparse, of any format."""

        def tocsr(self) -> object: ...

    class Column(Protocol):
        """A Series of pandas or polars."""

        @property
        def name(self) -> object: ...
        def to_numpy(self) -> object: ...
        def __len__(self) -> int: ...

    class Frame(Protocol):
        """A table of pandas, polars, DuckDB or pyarrow."""

        @property
        def columns(self) -> object: ...

    class ArrowStream(Protocol):
        """What gives batches of Arrow."""

        def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

    Matrix: TypeAlias = SparseMatrix | NDArray[np.generic] | Dataset
    Matrices: TypeAlias = Matrix | Mapping[str, Matrix]  # of networks with several data sets, by their names
    FeaturesOfOne: TypeAlias = Iterable[str] | Mapping[str, float]
    FeaturesByItem: TypeAlias = Mapping[str, FeaturesOfOne] | Mapping[int, FeaturesOfOne]
    ItemFeatures: TypeAlias = Matrix | FeaturesByItem  # a row a unit, or by labels
    Weights: TypeAlias = ArrayLike | SparseMatrix  # one an example, or one an entry
    Table: TypeAlias = Path | Frame | ArrowStream | Mapping[str, ArrayLike] | SparseMatrix
    Units: TypeAlias = (str | SupportsIndex | Sequence[str] | Sequence[SupportsIndex] | Set[str] | Set[SupportsIndex] | Column
                        | NDArray[np.generic])
    Basket: TypeAlias = Sequence[str] | Set[str] | Sequence[SupportsIndex] | Set[SupportsIndex] | Column  # what one user has
    Labelled: TypeAlias = Sequence[str] | Sequence[int] | Column | NDArray[np.generic]  # what rows are called
    Descriptor: TypeAlias = Network | Mapping[str, object] | Path
    Model: TypeAlias = Network | Recommender | Parts | Path
    Callbacks: TypeAlias = Callable[[Environment], object] | Iterable[Callable[[Environment], object]]

    class Parameters(Settings, total=False):
        """What a Recommender is made of."""

        recipe: str | None
        hidden: int | None
        network: Descriptor | None
        device: str
        threads: int
        precision: str

    class Device(TypedDict):
        """What a network is on."""

        device: str
        threads: int
        precision: str

    #: A network with EASE's scores, `weight` times, beside its own; `lambda` is that EASE's.
    WithEase = TypedDict("WithEase", {"weight": float, "lambda": float, "value": float})

    class Candidate(TypedDict, total=False):
        """A training of the recipe "auto": factors of what its recipe says, and what it came to. Of EASE `lambda` stands for three of
        them; of one that diverged `failed` says why in place of the value."""

        recipe: str
        rate: float
        length: float
        width: float
        settings: str
        cost: float
        value: float
        failed: str
        with_ease: WithEase

    class Chosen(TypedDict, total=False):
        """How the recipe "auto" chose."""

        metric: str
        held_back: str
        budget: float
        spent: float
        candidates: list[Candidate]
        chosen: int
        best: int
        chosen_with_ease: bool
        best_with_ease: bool
        plain_value: float
        best_value: float
        difference_low: float
        difference_high: float
        p: float
        still_rises: bool
        left_out: Candidate
        budget_for_it: float
        not_searched: str

    class Plan(TypedDict):
        """What training would take."""

        weights: int
        memory_bytes: int
        available_bytes: int
        fits: bool
