# SPDX-License-Identifier: Apache-2.0
"""Files by their endings: what reads and what writes each."""
from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from norn.errors import UsageError

if TYPE_CHECKING:
    from norn._types import Model

FORMATS = {".onnx": "onnx", ".safetensors": "safetensors"}  # those that are written
READ_ALONE = (".keras", ".caffemodel")


def export(model: Model, format: str, path: str | os.PathLike[str], **options: object) -> None:
    """Writes a model in a format of others.

    model: a Network, a Recommender, or the name of a model file.
    format: "onnx" or "safetensors".
    path: of the file.

    Other keywords are those of export_onnx() and export_safetensors(). Raises UsageError and DataError."""
    from norn import interchange
    if format not in FORMATS.values():
        raise UsageError(f"`format` \"{format}\" is not written; there are: {', '.join(FORMATS.values())}")
    getattr(interchange, f"export_{format}")(model, path, **options)


def convert(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Reads a model of one format and writes it as another; the endings of the names say which.

    source: .nc (Norn's), .onnx, .safetensors, .keras, or .caffemodel with a .prototxt of that name beside it.
    target: .nc, .onnx or .safetensors.

    Raises UsageError for other endings, DataError for a file that cannot be read or written."""
    end = pathlib.Path(target).suffix
    if end != ".nc" and end not in FORMATS:
        raise UsageError(f"{os.fspath(target)}: files that end in \"{end}\" are not written; there are: .nc, {', '.join(FORMATS)}")
    network = _reader(source)(os.fspath(source))
    if end == ".nc":
        network.save(target)
    else:
        export(network, FORMATS[end], target)


def _caffe(file: str) -> Any:
    from norn import interchange

    return interchange.import_caffe(pathlib.Path(file).with_suffix(".prototxt"), file)


def _reader(source: str | os.PathLike[str]) -> Callable[[str], Any]:
    from norn import interchange
    from norn.network import Network
    others = {end: getattr(interchange, f"import_{name}") for end, name in FORMATS.items()}
    readers: dict[str, Callable[[str], Any]] = {
        ".nc": Network.load, **others, **dict(zip(READ_ALONE, (interchange.import_keras, _caffe)))}
    end = pathlib.Path(source).suffix
    if end in (".pt", ".pth"):
        raise UsageError(f"{os.fspath(source)}: a state_dict does not say of which network it is; norn.import_torch(file, like=descriptor) "
                         "in Python takes both")
    if end not in readers:
        raise UsageError(f"{os.fspath(source)}: files that end in \"{end}\" are not read; there are: {', '.join(readers)}")
    return readers[end]
