# SPDX-License-Identifier: Apache-2.0
"""What operators of ONNX over images are in layers of Norn's: HANDLERS. An image is [batch, channels, .., y, x]."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from norn.interchange import images, onnx_nodes
from norn.interchange.builder import MOST_UNITS, Signal
from norn.interchange.onnx_values import Dense, Lazy, Node, floats
from norn.interchange.problems import Unsupported


def source(node: Node) -> tuple[Signal, list[int] | None]:
    """What a window reads; of an input of the graph its extent, x, y .., channels."""
    if not isinstance(node.x, Dense):
        return node.signal(), None
    extent = [units for units in reversed(node.x.extent) if units]
    if len(extent) != len(node.x.extent) or len(extent) < 2 or math.prod(extent) > MOST_UNITS:
        raise Unsupported(f"input \"{node.x.name}\" does not say its extents: [batch, channels, .., y, x]")
    dense = node.graph.dense
    if node.x.name not in dense:
        dense[node.x.name] = node.graph.builder.input(node.x.name, math.prod(extent))
    return dense[node.x.name], extent


def window(node: Node, kernel: Sequence[int]) -> images.Sliding:
    """Of a node's attributes, which go from the last axis to x."""
    axes = len(kernel)

    def along(key: str) -> list[int]:
        return [int(one) for one in node.attributes.get(key, [1] * axes)][::-1]
    if set(along("dilations")) != {1}:
        raise Unsupported("its window has gaps")
    pads = [int(one) for one in node.attributes.get("pads", [0] * 2 * axes)]
    front, behind = pads[:axes][::-1], pads[axes:][::-1]
    strides = along("strides")
    if not len(strides) == len(front) == len(behind) == axes:
        raise Unsupported(f"its strides and pads are not those of {axes} axes")
    way = node.attributes.get("auto_pad", b"NOTSET")
    if way in (b"SAME_UPPER", b"SAME_LOWER"):
        if set(strides) != {1} or any(one % 2 == 0 for one in kernel):
            raise Unsupported("its padding follows from its width, and is not the same on both sides")
        front = behind = [one // 2 for one in kernel]
    elif way not in (b"NOTSET", b"VALID"):
        raise Unsupported("its padding is not known here")
    return images.Sliding(kernel, strides, front, behind, bool(node.attributes.get("ceil_mode", 0)))


def convolution(node: Node) -> Any:
    filters = floats(node.get(1), "its weights")
    if filters.ndim < 3:
        raise Unsupported(f"its weights have {filters.ndim} dimensions")
    x, extent = source(node)
    result: Signal = images.convolve(node.graph.builder, x, filters, window(node, filters.shape[:1:-1]), node.stem(), extent,
                                     int(node.attributes.get("group", 1)))
    return result if node.get(2) is None else node.graph.builder.affine(result, shift=floats(node.get(2), "its bias"))


def pooling(node: Node) -> Any:
    x, extent = source(node)
    builder = node.graph.builder
    output, found = images.image(builder, x, extent)
    axes = len(found) - 1
    function = "Average" if "Average" in node.operator else "Max"
    sliding = images.Sliding(found[:-1], [1] * axes, [0] * axes, [0] * axes)
    if not node.operator.startswith("Global"):
        sliding = window(node, [int(one) for one in node.attributes.get("kernel_shape", [])][::-1])
    result = images.pool(builder, [output], function, node.stem(), sliding)
    if function == "Average" and node.attributes.get("count_include_pad", 0) and sliding.reads_padding(found[:-1]):
        raise Unsupported(images.COUNTS_PADDING)
    return result


def response(node: Node) -> Any:
    x, extent = source(node)
    given = {"bias": 1.0, "alpha": 1e-4, "beta": 0.75, **node.attributes}
    node.graph.builder.set_response({"k": float(given["bias"]), "n": int(given["size"]), "alpha": float(given["alpha"]),
                                     "beta": float(given["beta"])})
    return images.pool(node.graph.builder, [x], "LRN", node.stem(), extent=extent)


def largest(node: Node) -> Any:
    """Of layers, unit by unit; else what is part of a formula."""
    if len(node.inputs) < 2 or not all(isinstance(value, (Signal, Lazy)) for value in node.inputs):
        return onnx_nodes.least(node)
    return images.pool(node.graph.builder, [node.graph.signal(value) for value in node.inputs], "Maxout", node.stem())


HANDLERS: dict[str, Callable[[Node], Any]] = {
    "Conv": convolution, "LRN": response, "Max": largest,
    **dict.fromkeys(("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"), pooling)}
