# SPDX-License-Identifier: Apache-2.0
"""Where windows of Convolutional and Pooling layers stand, as the engine places them."""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

WINDOWED = ("Max", "Average")


def listed(value: Any) -> list[int]:
    return [int(one) for one in value] if isinstance(value, (list, tuple)) else [int(value)]


@dataclass(frozen=True)
class Window:
    """A layer's window over a source of `extent` [x, y .., channels], axis by axis."""

    places: tuple[int, ...]   # of the source
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]  # in front
    out: tuple[int, ...]
    channels: int

    @property
    def behind(self) -> tuple[int, ...]:
        """Padding behind the last unit that windows read; it is below 0 where they end before."""
        return tuple((out - 1) * stride + kernel - places - padding for out, stride, kernel, places, padding
                     in zip(self.out, self.stride, self.kernel, self.places, self.padding))


def window_of(keys: dict[str, Any], extent: Sequence[int]) -> Window:
    """Of a layer's keys in a descriptor whose sizes are known."""
    convolution = keys.get("Type") == "Convolutional"
    axes = max(1, min(3, len(extent) - 1)) if convolution else 0
    kernel = listed(keys["Kernel"]) if "Kernel" in keys else [1] * axes
    stride = (listed(keys.get("KernelStride", 1)) + [1] * len(kernel))[:len(kernel)]
    places = [*extent[:len(kernel)], *[1] * (len(kernel) - len(extent))]
    both = [axis(*one) for one in zip(places, kernel, stride)]
    return Window(tuple(places), tuple(kernel), tuple(stride), tuple(padding for _, padding in both), tuple(out for out, _ in both),
                  math.prod(extent[len(kernel):]))


def axis(width: int, kernel: int, stride: int) -> tuple[int, int]:
    """Windows along an axis, and the padding in front of it."""
    if width <= kernel:
        return 1, (kernel - width + 1) // 2
    return (width, kernel // 2) if stride == 1 else ((width - kernel) // stride + 1, 0)


def extent_of(keys: dict[str, Any], sources: Sequence[Sequence[int]]) -> list[int]:
    """[x, y .., channels] of a layer that is not "auto"."""
    kind, function = keys.get("Type", "FullyConnected"), keys.get("Function")
    if keys["Kind"] == "Input" or kind == "FullyConnected":
        return listed(keys.get("N", 1))
    if kind == "Convolutional":
        return [*window_of(keys, sources[0]).out, listed(keys.get("N", 1))[-1]]
    if function in WINDOWED:
        out = window_of(keys, sources[0]).out
        return [*out, *sources[0][len(out):]]
    return [len(sources) - 1] if function in ("DotProduct", "Cosine") else list(sources[0])
