# SPDX-License-Identifier: Apache-2.0
"""Images moved and mirrored as docs/user/numerics.md says, with its random numbers."""
import math

import numpy as np

from windows import listed

SEED = 12134  # the trainer's, unless it is given
PURPOSE = 7
WORD, LONG = (1 << 32) - 1, (1 << 64) - 1


def mix(z):
    """SplitMix64's finaliser."""
    z = (z + 0x9E3779B97F4A7C15) & LONG
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & LONG
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & LONG
    return z ^ z >> 31


def philox(seed, purpose, member, a, b):
    """Four words of Philox 4x32-10 at the counter (a, b)."""
    mixed = mix(seed ^ mix(purpose << 32 | member))
    key = [mixed & WORD, mixed >> 32]
    c = [a & WORD, a >> 32, b & WORD, b >> 32]
    for _ in range(10):
        high, low = zip(*(divmod(m * x, 1 << 32) for m, x in ((0xD2511F53, c[0]), (0xCD9E8D57, c[2]))), strict=True)
        c = [high[1] ^ c[1] ^ key[0], low[1], high[0] ^ c[3] ^ key[1], low[0]]
        key = [(k + step) & WORD for k, step in zip(key, (0x9E3779B9, 0xBB67AE85), strict=True)]
    return c


def augmented(layer, number, axes, values, border, epoch=0):
    """The rows of an Input layer, the network's number `number`, whose images stand along so many axes."""
    extent = listed(layer["N"])
    width, height = extent[0], extent[1] if axes > 1 else 1
    images = values.reshape(len(values), -1, height, width)
    assert images[0].size == math.prod(extent)
    crop = layer["Augment"].get("Crop", 0)
    borders = (crop if height > 1 else 0, crop)
    room = np.pad(images, ((0, 0), (0, 0), *((size, size) for size in borders)), constant_values=border)
    result = np.empty_like(images)
    for e in range(len(values)):
        words = philox(SEED, PURPOSE, number, 0, e ^ epoch << 40)
        top, left = (word * (2 * size + 1) >> 32 for word, size in zip((words[1], words[0]), borders, strict=True))
        image = room[e, :, top:top + height, left:left + width]
        result[e] = image[..., ::-1] if layer["Augment"].get("Flip") and words[2] >> 31 else image
    return result.reshape(values.shape)
