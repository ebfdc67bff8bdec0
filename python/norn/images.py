# SPDX-License-Identifier: Apache-2.0
"""Images and their classes as arrays, read as the program importer reads them."""
from __future__ import annotations

import json
import logging
import os
import tempfile
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp

from . import _core
from ._words import count, path_of, word
from .data.labels import from_text
from .dataset import Dataset
from .errors import UsageError

if TYPE_CHECKING:
    from ._types import Floats, Path

_log = logging.getLogger("norn")


class Images(NamedTuple):
    """Of each image a row of pixels and a class."""

    pixels: Floats  # [images, units]: bytes / 256 - 0.5, as layers get them of files; rows from the top, one channel after the other
    extent: list[int]  # width, height, and 3 in colour: "N" of the layer that reads them
    classes: Dataset  # [images, classes], with the names of both


def read_images(input: Path, target: Path | None = None, *, size: str | None = None, skip_malformed: int = 0) -> Images:
    """Reads images of one size with their classes.

    Args:
        input: a folder with a folder of PNG or JPEG files for each class, a CSV or TSV of paths and labels, a file of idx images (MNIST),
            or a file or folder of CIFAR's binary records.
        target: of idx images, the file of their labels; by default the one that is called as theirs.
        size: what each is made, "32x32", or "32x32x3" in colour, "32x32x1" in grey; without it all have one size.
        skip_malformed: so many files that cannot be decoded are passed over, with a warning.

    Returns Images: `norn.train(network, {"pictures": images.pixels, "classes": images.classes})`, where the input layer has
    `"N": images.extent`. Raises DataError naming the file that is missing, damaged or of another size, UsageError for arguments.
    """
    settings = {"format": "images", "input": path_of("input", input), "skip_malformed": count("skip_malformed", skip_malformed, 0)}
    if target is not None:
        settings["target"] = path_of("target", target)
    if size is not None:
        settings["size"] = word("size", size)
    with tempfile.TemporaryDirectory(prefix="norn-") as folder:
        made = os.path.join(folder, "images.nc")
        left_out = _core.import_files(settings | {"output": made})
        if not os.path.exists(made):
            raise UsageError(f"`input` {settings['input']}: holds images to train on and others to test on; name one of its files")
        pictures, outputs = _core.read_sets(made)
        extent = json.loads(_core.describe_file(made))["sets"][0]["extent"]
    if left_out:
        _log.warning("%d of the images in %s could not be decoded and were passed over", left_out, settings["input"])
    columns = outputs["columns"].view(np.int32)
    matrix = sp.csr_matrix((np.ones(len(columns), np.float32), columns, outputs["row_begin"]), (len(columns), outputs["width"]))
    classes = Dataset(matrix, feature_labels=from_text(outputs["feature_labels"]), example_labels=from_text(pictures["example_labels"]),
                      name="classes")
    return Images(pictures["dense"].reshape(-1, pictures["width"]), extent, classes)
