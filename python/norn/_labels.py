# SPDX-License-Identifier: Apache-2.0
"""The labels of a model's units, which stay where the engine has them."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

from . import _core

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Labels(Sequence[str]):
    """Labels in the order of their units' numbers, as a list has them; none is made before it is asked for."""

    def __init__(self, native: _core.Labels):
        self.native = native
        self.warned = False  # that integers are numbers of units, where labels are numbers too
        self._compared: tuple[Sequence[str], int | None] | None = None  # the last with which, and what came of it

    def __len__(self) -> int:
        return len(self.native)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        """As of a list: also from the end, -1 the last."""
        numbers = range(len(self.native))
        if isinstance(at, slice):
            return [self.native[number] for number in numbers[at]]
        try:
            return self.native[numbers[at]]
        except IndexError:
            raise IndexError(f"label {at} is out of range, there are {len(numbers)}") from None

    def __iter__(self) -> Iterator[str]:
        return (self.native[number] for number in range(len(self.native)))

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self.find([word])[0] >= 0

    def index(self, value: object, start: int = 0, stop: int | None = None) -> int:
        """The number of a unit by its label. Raises ValueError where it has none of these numbers."""
        number = self.find([value])[0] if isinstance(value, str) else -1
        if number not in range(len(self))[start:stop]:
            raise ValueError(f"{value!r} is no label")
        return number

    def count(self, value: object) -> int:
        """1 where it is a label, 0 where it is none."""
        return int(value in self)

    def find(self, words: Iterable[str]) -> list[int]:
        """Their numbers; -1 for those that are no labels."""
        return self.native.find(list(words))

    def has_words(self) -> bool:
        """Whether the labels are there; of some models a checksum of them is all."""
        return self.native.has_words()

    def first_other(self, words: Sequence[str]) -> int | None:
        """The first number that has another label there; None where none has, or only a checksum of the labels is kept."""
        if not self.has_words():
            return None
        if self._compared is None or self._compared[0] is not words:
            self._compared = words, next((number for number, unit in enumerate(self.find(words)) if number != unit), None)
        return self._compared[1]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Labels, list, tuple)):
            return NotImplemented
        if isinstance(other, Labels) and self.native.are_numbers() == other.native.are_numbers():
            return self.native.same_as(other.native)
        return len(self) == len(other) and all(one == two for one, two in zip(self, other))

    __hash__ = None  # type: ignore[assignment]  # as of a list

    def __reduce__(self) -> tuple[Any, ...]:
        return _labels, (list(self),)

    def __repr__(self) -> str:
        if not self.has_words():
            return f"<{len(self)} labels, of which the checksum alone is kept>"
        shown = [repr(word) for word in self[:5]] + (["..."] if len(self) > 5 else [])
        return f"<{len(self)} labels: {', '.join(shown)}>"


def words_of(labels: Sequence[str] | None) -> Sequence[str] | None:
    """The labels, where they are there."""
    return None if isinstance(labels, Labels) and not labels.has_words() else labels


def pairs_of(labels: Sequence[str] | None, ids: NDArray[np.int32], scores: NDArray[np.float32]) -> list[tuple[str | int, float]]:
    """(label, score) of one list, or numbers where there are no labels; -1 ends it."""
    words = words_of(labels)
    numbers: list[int] = ids.tolist()
    values: list[float] = scores.tolist()
    return [(number if words is None else words[number], score) for number, score in zip(numbers, values) if number >= 0]


def _labels(words: list[str]) -> Labels:
    return Labels(_core.Labels(words))


def native_labels(words: Iterable[str] | _core.Labels) -> _core.Labels:
    """As the engine takes them."""
    return words if isinstance(words, _core.Labels) else words.native if isinstance(words, Labels) else _core.Labels(words)
