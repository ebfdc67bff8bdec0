# SPDX-License-Identifier: Apache-2.0
"""Writes files of images from their specifications, independently of libpng and libjpeg."""
import struct
import zlib

import numpy as np

PNG_BEGIN = b"\x89PNG\r\n\x1a\n"


def png_chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_header(width, height, bits=8, kind=2, interlaced=0):
    return PNG_BEGIN + png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, interlaced))


def png(pixels, between=b""):
    """pixels: bytes, [height x width] of grey or [height x width x 3] of colour. `between`: chunks before those of the image."""
    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    return (png_header(width, height, kind=0 if pixels.ndim == 2 else 2) + between + png_chunk(b"IDAT", zlib.compress(rows)) +
            png_chunk(b"IEND", b""))


def jpeg(tiles):
    """A grey JPEG of tiles of 8 x 8 equal pixels each; tiles: their bytes, [rows x columns]."""
    def segment(mark, data):
        return bytes((0xFF, mark)) + struct.pack(">H", len(data) + 2) + data

    rows, columns = tiles.shape
    # A tile's mean is all that is kept of it, as 4 bits of length and the difference to the tile before; "0" ends it.
    bits, before = "", 0
    for value in tiles.ravel().astype(int) - 128:
        difference, before = int(value - before), int(value)
        length = abs(difference).bit_length()
        shown = difference if difference > 0 else difference + (1 << length) - 1
        bits += f"{length:04b}" + (f"{shown:0{length}b}" if length else "") + "0"
    bits += "1" * (-len(bits) % 8)
    packed = bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8)).replace(b"\xff", b"\xff\x00")
    lengths = bytes((0, 0, 0, 12, *[0] * 12))  # twelve codes of 4 bits
    return (b"\xff\xd8" + segment(0xDB, b"\0" + bytes((8, *[1] * 63))) +
            segment(0xC0, struct.pack(">BHHB", 8, 8 * rows, 8 * columns, 1) + b"\x01\x11\x00") +
            segment(0xC4, b"\x00" + lengths + bytes(range(12))) + segment(0xC4, b"\x10" + bytes((1, *[0] * 15)) + b"\0") +
            segment(0xDA, b"\x01\x01\x00\x00\x3f\x00") + packed + b"\xff\xd9")


def idx(values):
    """Bytes in any number of dimensions."""
    return struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape) + values.astype(np.uint8).tobytes()
