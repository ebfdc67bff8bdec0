# SPDX-License-Identifier: Apache-2.0
"""Convolutional and Pooling layers from the operations of other formats, where these place their windows as Norn does."""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from norn.interchange.builder import Builder, Joined, Output, Signal, Sum
from norn.interchange.problems import Unsupported
from norn.interchange.windows import axis, listed

if TYPE_CHECKING:
    from norn._types import Array

AXES = "xyz"
COUNTS_PADDING = "its mean counts padding, which Norn's does not"


@dataclass(frozen=True)
class Sliding:
    """A window as other formats say it, along x, y, z: padding in front and behind."""

    kernel: Sequence[int]
    stride: Sequence[int]
    front: Sequence[int]
    behind: Sequence[int]
    rounds_up: bool = False  # the number of windows

    def check(self, places: Sequence[int]) -> None:
        """Raises Unsupported where Norn's window of this kernel and stride stands elsewhere."""
        for name, width, kernel, stride, front, behind in zip(AXES, places, self.kernel, self.stride, self.front, self.behind):
            if min(kernel, stride, front + 1, behind + 1) < 1:
                raise Unsupported("its window is none")
            count, padding = axis(width, kernel, stride)
            room = width + front + behind - kernel
            windows = (-(-room // stride) if self.rounds_up else room // stride) + 1
            if (windows, front) == (count, padding) and not (width > kernel and stride == 1 and kernel % 2 == 0):
                continue
            where = f"along {name} it has {windows} windows, the first {front} in front of its {width} units"
            raise Unsupported(f"{where}; of kernel {kernel} and stride {stride} Norn's layers have {count}, the first {padding} in front "
                              "(they pad only where the stride is 1, by half of an odd kernel)")

    def reads_padding(self, places: Sequence[int]) -> bool:
        """Of windows that check() has passed."""
        return any(front > 0 or (axis(width, kernel, stride)[0] - 1) * stride + kernel > width for width, kernel, stride, front
                   in zip(places, self.kernel, self.stride, self.front))

    def keys(self, places: Sequence[int], channels: int) -> dict[str, Any]:
        """Of the layer: N is [x, y .., channels]."""
        out = [axis(*one)[0] for one in zip(places, self.kernel, self.stride)]
        return {"N": [*out, channels], "Kernel": [int(one) for one in self.kernel], "KernelStride": [int(one) for one in self.stride]}


def unscaled(builder: Builder, x: Signal) -> Output:
    output = builder.output_of(x)
    if output.scale is not None or output.shift is not None:
        raise Unsupported("it reads a layer that is scaled behind its activation")
    return output


def image(builder: Builder, x: Signal, extent: Sequence[int] | None) -> tuple[Output, list[int]]:
    """What a window reads, and its [x, y .., channels]; of an input, which begins without one, `extent`."""
    output = unscaled(builder, x)
    layer = builder.layers[output.layer]
    if layer["Kind"] == "Input" and extent and math.prod(extent) == output.units:
        layer.update(N=[int(units) for units in extent], Type="Convolutional")
    found = builder.extent_of(output)
    if found is None:
        raise Unsupported(f"it reads \"{output.layer}\", which has units, not places and channels")
    return output, found


def convolve(builder: Builder, x: Signal, filters: Array, window: Sliding, name: str, extent: Sequence[int] | None = None,
             groups: int = 1) -> Sum:
    """The cross-correlation with filters [channels, channels of x / groups, .., y, x]; of layers side by side with each one's."""
    read = [image(builder, part, extent) for part in (x.parts if isinstance(x, Joined) else (x,))]
    places, channels = read[0][1][:-1], [one[-1] for _, one in read]
    if any(one[:-1] != places for _, one in read):
        raise Unsupported("it reads layers side by side that have other places")
    if len({output.layer for output, _ in read}) < len(read):
        raise Unsupported("it reads the same layer twice")
    kernel = tuple(window.kernel)[::-1]
    if groups < 1 or filters.shape[1:] != (sum(channels) // groups, *kernel) or filters.shape[0] % groups or sum(channels) % groups:
        raise Unsupported(f"its weights are {list(filters.shape)} for {sum(channels)} channels, windows of {list(kernel)} and {groups} "
                          "groups")
    if len(kernel) != len(places):
        raise Unsupported(f"its windows have {len(kernel)} axes, what it reads {len(places)}")
    window.check(places)
    parts = np.split(_whole(builder, filters, groups), np.cumsum(channels)[:-1], axis=1)
    keys = window.keys(places, filters.shape[0])
    return Sum(math.prod(keys["N"]), tuple((output.layer, part) for (output, _), part in zip(read, parts)), name=name, keys=keys)


def pool(builder: Builder, xs: Sequence[Signal], function: str, name: str, window: Sliding | None = None,
         extent: Sequence[int] | None = None) -> Output:
    """A Pooling layer."""
    outputs = [image(builder, x, extent) if window or function == "LRN" else (unscaled(builder, x), []) for x in xs]
    keys: dict[str, Any] = {"N": builder.layers[outputs[0][0].layer]["N"]}
    if window is not None:
        places = outputs[0][1]
        if len(window.kernel) != len(places) - 1:
            raise Unsupported(f"its windows have {len(window.kernel)} axes, what it reads {len(places) - 1}")
        window.check(places[:-1])
        keys = window.keys(places[:-1], places[-1])
    sources = [output.layer for output, _ in outputs]
    if len(set(sources)) < len(sources):
        raise Unsupported("it reads the same layer twice")
    chosen = builder.unique(name, f"Layer{len(builder.layers)}")
    builder.layers[chosen] = {"Name": chosen, "Kind": "Hidden", "Type": "Pooling", "Function": function, **keys, "Source": sources,
                              "Activation": "Linear"}
    return Output(math.prod(listed(keys["N"])), chosen)


def _whole(builder: Builder, filters: Array, groups: int) -> Array:
    """Filters over all channels: those outside of a filter's group have weights of 0."""
    if groups == 1:
        return filters
    builder.make_room(groups * filters.size * 4)
    whole = np.zeros((filters.shape[0], groups * filters.shape[1], *filters.shape[2:]), np.float32)
    for rows, columns in zip(np.split(np.arange(whole.shape[0]), groups), np.split(np.arange(whole.shape[1]), groups)):
        whole[np.ix_(rows, columns)] = filters[rows]
    return whole
