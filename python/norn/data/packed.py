# SPDX-License-Identifier: Apache-2.0
"""Files as bytes: plain or compressed, told by how they begin."""
from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import pathlib
import shutil
import tempfile
import zlib
from collections.abc import Callable, Generator
from typing import IO, Any

from ..errors import DataError, Error, UsageError

ENDINGS = (".gz", ".bz2", ".xz", ".zst")


def require_pyarrow(what: str) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise UsageError(f"pyarrow is needed {what}; install it: pip install pyarrow") from None
    return pyarrow


def _zstd(file: IO[bytes]) -> Any:
    return require_pyarrow("to read .zst").CompressedInputStream(file, "zstd")


_PACKED: tuple[tuple[bytes, Callable[[IO[bytes]], Any]], ...] = (
    (b"\x1f\x8b", lambda file: gzip.GzipFile(fileobj=file)),
    (b"BZh", bz2.BZ2File),
    (b"\xfd7zXZ\x00", lzma.LZMAFile),
    (b"\x28\xb5\x2f\xfd", _zstd),
)


def plain_name(path: pathlib.Path) -> str:
    """The file's name in small letters, without the ending of what packed it."""
    name = path.name.lower()
    ending = next((one for one in ENDINGS if name.endswith(one)), "")
    return name[: len(name) - len(ending)]


@contextlib.contextmanager
def _opened(path: pathlib.Path) -> Generator[Any, None, None]:
    """The file as a stream that unpacks it. DataError for one that is missing, cut off or damaged."""
    require_there(path)
    try:
        with open(path, "rb") as file:
            begin = file.read(8)
            file.seek(0)
            unpack = next((unpack for magic, unpack in _PACKED if begin.startswith(magic)), None)
            yield file if unpack is None else unpack(file)
    except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        raise DataError(f"{path}: cannot be read: {error}; is it cut off or damaged?") from None


def read_bytes(path: pathlib.Path, limit: int = -1) -> bytes:
    """What the file holds, unpacked, or its first bytes."""
    with _opened(path) as source:
        return bytes(source.read() if limit < 0 else source.read(limit))


def is_packed(path: pathlib.Path) -> bool:
    """Whether a file, or one of a folder, is packed by another program than gzip, which alone the engine unpacks."""
    return any(file.name.lower().endswith(ENDINGS[1:]) for file in files_of(path))


@contextlib.contextmanager
def unpacked(path: pathlib.Path) -> Generator[pathlib.Path, None, None]:
    """A file or folder that the engine can read: itself, or while this lasts an unpacked copy. Errors name what was packed."""
    if not is_packed(path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="norn-") as folder:
        names: dict[str, str] = {}
        for number, file in enumerate(files_of(path)):
            ahead = f"{number:06}-" if path.is_dir() else ""  # in the order of the packed ones' names
            made = pathlib.Path(folder, ahead + file.name[: len(plain_name(file))])
            names[str(made)] = str(file)
            with _opened(file) as source, open(made, "wb") as copy:
                shutil.copyfileobj(source, copy)
        names[folder] = str(path)
        try:
            yield pathlib.Path(folder) if path.is_dir() else pathlib.Path(next(iter(names)))
        except Error as error:
            raise _of_places(error, names) from None


def _of_places(error: Error, names: dict[str, str]) -> Error:
    """The same error, which speaks of other files."""
    def renamed(text: Any) -> Any:
        for made, name in names.items():
            text = text.replace(made, name) if isinstance(text, str) else text
        return text

    return type(error)(renamed(str(error)), problems=[{key: renamed(value) for key, value in problem.items()}
                                                      for problem in error.problems])


def require_there(path: pathlib.Path) -> None:
    if not path.exists():
        raise DataError(f"{path}: no such file or folder; check the path")


def files_of(path: pathlib.Path) -> list[pathlib.Path]:
    """The file, or those of a folder by name. DataError where there is none."""
    require_there(path)
    if not path.is_dir():
        return [path]
    found = sorted(entry for entry in path.iterdir() if entry.is_file() and not entry.name.startswith((".", "_")))
    if not found:
        raise DataError(f"{path}: the folder has no files; name one with data")
    return found


def require_utf8(data: bytes, path: pathlib.Path) -> None:
    """DataError names the line of what is not."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}:{line}: the byte 0x{data[error.start]:02x} is no UTF-8; convert the text first, "
                        "for example with iconv -f latin1 -t utf-8") from None
