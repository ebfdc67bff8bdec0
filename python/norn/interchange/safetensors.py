# SPDX-License-Identifier: Apache-2.0
"""Weights as safetensors, under the names and in the layout of PyTorch's modules, with the descriptor beside them."""
from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from norn.errors import DataError
from norn.interchange.named_arrays import arrays_of, parts_from
from norn.interchange.onnx_writer import metadata_of
from norn.interchange.parts import Parts, canonical, descriptor_of, parts_of
from norn.interchange.problems import fail, imports, need

if TYPE_CHECKING:
    from norn._types import Descriptor, Model


def export_safetensors(model: Model, path: str | os.PathLike[str]) -> None:
    """Writes a model's weights; the file appears complete or not at all.

    Arrays are float32: "Hidden.weight" [units, source units] as nn.Linear has it ("Hidden.Source.weight" of a layer with several
    sources), "Hidden.bias", "Hidden.norm.weight", "Hidden.norm.running_mean" and so on as nn.BatchNorm1d, "Input.feature_weights".
    The metadata hold `norn_descriptor` and `norn_labels_sha256`, both JSON.

    model: a Network, a Recommender, or the name of a model file.
    path: of the file.

    Raises DataError where the file cannot be written."""
    numpy_files = need("safetensors.numpy", "safetensors", "writing safetensors")
    parts = parts_of(model)
    where = os.fspath(path)
    folder, base = os.path.split(os.path.abspath(where))
    try:
        with tempfile.TemporaryDirectory(prefix=f".{base}-", dir=folder) as scratch:
            file = os.path.join(scratch, "file")
            numpy_files.save_file(arrays_of(parts), file, metadata={"format": "pt", **metadata_of(parts)})
            os.replace(file, where)
    except OSError as error:
        raise DataError(f"{where}: cannot be written: {error.strerror or error}") from error


@imports("a file of safetensors")
def import_safetensors(path: str | os.PathLike[str], *, like: Descriptor | None = None, names: Mapping[str, str] | None = None,
                       embeddings: Sequence[str] | None = None) -> Parts:
    """The Network whose weights a file of safetensors has: one that export_safetensors() wrote, or any other program.

    path: of the file.
    like: a descriptor (a dictionary, JSON, the name of a file) or a Network; N may be "auto". None: that which
        export_safetensors() wrote into the file.
    names, embeddings: as of import_torch(), but that a file has no order of its own: without its name a module is what its
        extents say.

    Raises DataError for a damaged file and with all arrays that do not fit."""
    safetensors = need("safetensors", "safetensors", "reading safetensors")
    where = os.fspath(path)
    if not os.path.exists(where):
        raise FileNotFoundError(where)
    with safetensors.safe_open(where, framework="numpy") as file:
        metadata = file.metadata() or {}
        if like is None and "norn_descriptor" not in metadata:
            raise fail(where, "does not say of which network its weights are; give a descriptor with `like`")
        arrays = {name: file.get_tensor(name) for name in file.keys()}
    descriptor = descriptor_of(metadata, where) if like is None else canonical(like)
    return parts_from(arrays, descriptor, where, names, embeddings, ordered=False)
