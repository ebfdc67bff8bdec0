# SPDX-License-Identifier: Apache-2.0
"""Pictures of a run on images: filters of its first convolutions, and held-out images that its model takes for another class. They
are read with netCDF4, and shown as PNG within the page."""
from __future__ import annotations

import base64
import math
import struct
import zlib
from typing import TYPE_CHECKING, NamedTuple

from ..errors import DataError
from .labels import labels_of

if TYPE_CHECKING:
    from .._types import Array
MOST_FILTERS = 256


class Filters(NamedTuple):
    """Of the edge from an input to a layer."""

    layer: str
    source: str
    shown: list[str]  # addresses of pictures


class Wrong(NamedTuple):
    """An image that is taken for another class."""

    name: str
    shown: str
    classes: list[str]  # its own
    best: list[tuple[str, float]]


def address_of(pixels: Array) -> str:
    """`pixels`: bytes [height x width] of grey, or [height x width x 3] of colour."""
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", width, height, 8, 0 if pixels.ndim == 2 else 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(data).decode()


def picture_of(units: Array, extent: list[int]) -> Array:
    """Of numbers in the order of files, x first and channels last, bytes as address_of() takes them: bytes as they are, others from the
    lowest to the highest. Channels that are neither one nor three stand beside each other."""
    import numpy as np

    width, height, channels = (*extent, 1, 1)[:3]
    planes = np.asarray(units).reshape(channels, height, width)
    if planes.dtype != np.uint8:
        low, high = float(planes.min()), float(planes.max())
        planes = np.rint((planes - low) * (255 / (high - low) if high > low else 0)).astype(np.uint8)
    if channels == 3:
        return np.ascontiguousarray(planes.transpose(1, 2, 0))
    return np.ascontiguousarray(planes.transpose(1, 0, 2).reshape(height, channels * width))


def filters_of(run, model) -> list[Filters]:
    """Those of convolutions that read an input of one channel or three. Grey is a weight of 0, the brightest and the darkest have the
    largest of their filter."""
    import netCDF4
    import numpy as np

    layers = {layer["Name"]: layer for layer in run.record.get("network", {}).get("Layers", [])}
    found: list[Filters] = []
    with netCDF4.Dataset(model) as file:
        numbers = {getattr(file, f"layer{i}_name"): i for i in range(int(file.layers))}
        for edge in range(int(file.weights)):
            source, name = getattr(file, f"weight{edge}_inputLayer"), getattr(file, f"weight{edge}_outputLayer")
            layer = layers.get(name, {})
            if layer.get("Type") != "Convolutional" or layers.get(source, {}).get("Kind") != "Input" \
                    or f"weight{edge}_weights" not in file.variables:
                continue
            x, y, z = (int(getattr(file, f"layer{numbers[name]}_kernel{axis}")) for axis in "XYZ")
            count = int(getattr(file, f"layer{numbers[name]}_N" + "xyzw"[int(getattr(file, f"layer{numbers[name]}_kernelDimensions"))]))
            weights = np.asarray(file[f"weight{edge}_weights"][:]).reshape(count, -1, z * y, x)
            if weights.shape[1] not in (1, 3):
                continue
            most = np.abs(weights).max(axis=(1, 2, 3), keepdims=True)
            planes = np.rint(127.5 + 127.5 * weights / np.where(most > 0, most, 1)).astype(np.uint8)
            shown = [address_of(picture_of(one, [x, z * y, one.shape[0]])) for one in planes[:MOST_FILTERS]]
            found.append(Filters(name, source, shown))
    return found


class ImageSets:
    """The images and classes that a run reads, in one file."""

    def __init__(self, run, file, path):
        self.file, self.path = file, path
        numbers = {file.getncattr(f"name{n}"): n for n in range(int(file.datasets))}
        read = {layer["Kind"]: numbers[layer["DataSet"]] for layer in reversed(run.record["network"]["Layers"])
                if layer.get("DataSet") in numbers}
        self.input, self.output = read.get("Input"), read.get("Output")

    def extent(self) -> list[int]:
        dimensions = int(getattr(self.file, f"dimensions{self.input}", 1))
        return [int(getattr(self.file, f"{axis}{self.input}")) for axis in ("width", "height", "length")[:dimensions]]

    def has_images(self) -> bool:
        return self.input is not None and f"data{self.input}" in self.file.variables and len(self.extent()) > 1

    def row_of(self, n: int, example: int) -> int:
        return int(self.file[f"index{n}"][example]) if f"index{n}" in self.file.variables else example

    def image(self, example: int) -> Array:
        units, row = math.prod(self.extent()), self.row_of(self.input, example)
        return self.file[f"data{self.input}"][row * units:(row + 1) * units].data

    def classes(self) -> list[list[str]]:
        """The names of each example's."""
        if self.output is None:
            raise DataError(f"`examples`: {self.path} has no classes of its images; give data with both as `data`")
        n, file = self.output, self.file
        if f"featureLabels{int(getattr(file, f'featureLabelsOf{n}', n))}" in file.variables:
            names = labels_of(file, n)
        else:
            names = {unit: str(unit) for unit in range(int(getattr(file, f"width{n}")))}
        if f"sparseStart{n}" in file.variables:
            units = file[f"sparseIndex{n}"][:].tolist()
            rows = [[names[u] for u in units[begin:end]]
                    for begin, end in zip(file[f"sparseStart{n}"][:].tolist(), file[f"sparseEnd{n}"][:].tolist())]
        else:
            rows = [[names[u]] for u in file[f"data{n}"][:].tolist()]
        return [rows[row] for row in file[f"index{n}"][:].tolist()] if f"index{n}" in file.variables else rows


class Mistakes(NamedTuple):
    """Images that are taken for another class, the surest first; how many there are, of how many."""

    shown: list[Wrong]
    count: int
    examples: int


def mistakes_of(sets: ImageSets, best: list[tuple[str, list[tuple[str, float]]]], wanted: int) -> Mistakes:
    """`best`: for each example its name and what the model finds best."""
    classes = sets.classes()
    known = {name for row in classes for name in row}
    if not any(found[0][0] in known for _, found in best if found):
        raise DataError(f"`examples`: the model names other classes than {sets.path}; give the data that it was trained for as `data`")
    wrong = [(example, name, found) for example, (name, found) in enumerate(best) if found and found[0][0] not in classes[example]]
    wrong.sort(key=lambda one: -one[2][0][1])
    shown = [Wrong(name, address_of(picture_of(sets.image(example), sets.extent())), classes[example], found)
             for example, name, found in wrong[:wanted]]
    return Mistakes(shown, len(wrong), len(best))
