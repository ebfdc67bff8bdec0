# SPDX-License-Identifier: Apache-2.0
"""Models that another version of Norn wrote, whole and sealed, are told as that."""
import shutil
import struct
import zlib

import h5py
import numpy as np
import pytest

import norn

MARK = b"NornSeal"


def elements_of(file):
    """[(offset, bytes)] of runs of elements, as the seal at the file's end has them, and where the seal begins."""
    data = file.read_bytes()
    assert data.endswith(MARK)
    count, = struct.unpack_from("<Q", data, len(data) - len(MARK) - 12)
    begin = len(data) - len(MARK) - 12 - 16 * count
    return [struct.unpack_from("<QQ", data, begin + 16 * run) for run in range(count)], begin


def sealed_again(file, elements, size):
    """The file with a seal for what it holds by now (src/data/file_seal.h says what that is)."""
    data = file.read_bytes()[:size]
    table = b"".join(struct.pack("<QQ", *run) for run in elements) + struct.pack("<Q", len(elements))
    at, checksum = 0, 0
    for offset, length in [*elements, (size, 0)]:
        checksum = zlib.crc32(data[at:offset], checksum)
        at = offset + length
    file.write_bytes(data + table + struct.pack("<I", zlib.crc32(table, checksum)) + MARK)


def written_by_another_version(model, file, **attributes):
    """The model's file as a program writes it whose attributes have other values."""
    model.save(file)
    elements, size = elements_of(file)
    with h5py.File(file, "r+") as opened:
        for name, value in attributes.items():
            opened.attrs.modify(name, np.array([value], opened.attrs[name].dtype))
    data = file.read_bytes()
    assert len(data) >= size
    sealed_again(file, elements, size)


def test_what_is_sealed_again_without_a_change_is_read(trained, tmp_path):
    written_by_another_version(trained, tmp_path / "m.nc", norn_format=1)
    trained.save(tmp_path / "same.nc")
    assert (tmp_path / "m.nc").read_bytes() == (tmp_path / "same.nc").read_bytes()


@pytest.mark.parametrize("attributes, message", [
    ({"norn_format": 2}, "m.nc: model format 2 is newer than this program, which reads up to 1; use a newer Norn"),
    ({"norn_sealed": 2}, None),
])
def test_a_newer_format_is_told_as_such(trained, tmp_path, attributes, message):
    written_by_another_version(trained, tmp_path / "m.nc", **attributes)
    for call in (lambda: norn.load(tmp_path / "m.nc"), lambda: norn.Network.load(tmp_path / "m.nc")):
        if message is None:  # with our seal the number says nothing
            assert call() is not None
            continue
        with pytest.raises(norn.DataError, match=message):
            call()


def test_a_newer_seal_is_told_as_such(trained, tmp_path):
    written_by_another_version(trained, tmp_path / "m.nc", norn_sealed=2)
    file = tmp_path / "m.nc"
    file.write_bytes(file.read_bytes()[:-len(MARK)] + b"NornSea2")  # however it ends: not as ours do
    with pytest.raises(norn.DataError, match="m.nc: its seal is of a newer Norn than this one; use that to read it"):
        norn.load(file)
    trained.save(tmp_path / "cut.nc")
    shutil.copy(tmp_path / "cut.nc", tmp_path / "whole.nc")
    (tmp_path / "cut.nc").write_bytes((tmp_path / "whole.nc").read_bytes()[:-3])
    with pytest.raises(norn.DataError, match="cut.nc: the end of the file is missing: it was cut off"):
        norn.load(tmp_path / "cut.nc")
