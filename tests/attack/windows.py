# SPDX-License-Identifier: Apache-2.0
"""Convolution and pooling in NumPy, from docs/user/numerics.md: units of an example stand x fastest, the channel slowest. What is handed
back beside a delta is a magnitude of its terms."""
import math

import numpy as np

WINDOWED = ("Max", "Average")


def listed(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


def extents_of(layers):
    """{layer: [x, y .., channels]} of a network's layers, sources first."""
    found = {}
    for layer in layers:
        kind, sources = layer.get("Type", "FullyConnected"), [found[name] for name in layer.get("Source", [])]
        if kind == "Convolutional" and layer["Kind"] != "Input":
            found[layer["Name"]] = [*Window(layer, sources[0]).out, listed(layer["N"])[-1]]
        elif kind == "Pooling" and layer["Function"] in WINDOWED:
            window = Window(layer, sources[0])
            found[layer["Name"]] = [*window.out, *sources[0][len(window.out):]]
        elif kind == "Pooling":
            found[layer["Name"]] = [len(sources) - 1] if layer["Function"] in ("DotProduct", "Cosine") else sources[0]
        else:
            found[layer["Name"]] = listed(layer["N"])
    return found


class Window:
    """What the windows of a layer read of a source: `index` [windows, taps] of the places of a channel, `places` where there is none."""

    def __init__(self, layer, extent):
        kernel = listed(layer.get("Kernel", [1]))
        stride = listed(layer.get("KernelStride", 1)) + [1] * len(kernel)
        self.channels, self.places = math.prod(extent[len(kernel):]), math.prod(extent[:len(kernel)])
        self.out, index = [], np.zeros((1, 1), dtype=int)
        step = 1
        for width, taps, by in zip(extent, kernel, stride):
            padding = 0
            if width <= taps:
                count, padding = 1, (taps - width + 1) // 2
            elif by == 1:
                count, padding = width, taps // 2
            else:
                count = (width - taps) // by + 1
            at = by * np.arange(count)[:, None] + np.arange(taps) - padding
            along = np.where((at >= 0) & (at < width), step * at, self.places * step * width * 4)  # far beyond all places
            index = (along[:, None, :, None] + index[None, :, None, :]).reshape(count * len(index), -1)
            self.out.append(count)
            step *= width
        self.index = np.minimum(index, self.places)
        self.inside = self.index < self.places

    def columns(self, x, outside=0):
        """[B, channels, windows, taps]"""
        x = np.pad(x.reshape(len(x), self.channels, self.places), ((0, 0), (0, 0), (0, 1)), constant_values=outside)
        return x[:, :, self.index]

    def back(self, d):
        """[B x units of the source]: the sums of what windows have of each unit."""
        x = np.zeros((len(d), self.channels, self.places + 1), dtype=d.dtype)
        np.add.at(x, (slice(None), slice(None), self.index), d)
        return x[:, :, :-1].reshape(len(d), -1)


class Filters(Window):
    """A convolution's products with one source; weights [channels * taps, filters]."""

    def forward(self, x, w):
        y = np.einsum("bcpt,ctk->bkp", self.columns(x), w.reshape(self.channels, -1, w.shape[1]), optimize=True)
        return y.reshape(len(x), -1)

    def gradient(self, x, delta):
        """The sum over examples and places."""
        delta = delta.reshape(len(x), -1, len(self.index))
        g = np.einsum("bcpt,bkp->ctk", self.columns(x), delta, optimize=True)
        return g.reshape(-1, delta.shape[1])

    def input_delta(self, delta, w):
        delta = delta.reshape(len(delta), -1, len(self.index))
        return self.back(np.einsum("bkp,ctk->bcpt", delta, w.reshape(self.channels, -1, w.shape[1]), optimize=True))


class Pooling:
    """A layer over sources of these extents. `lrn`: k, n, alpha, beta."""

    def __init__(self, layer, extents, lrn):
        self.function, self.lrn = layer["Function"], lrn
        self.windows = [Window(layer, extent) for extent in extents] if self.function in WINDOWED else []
        self.channels = extents[0][-1]

    def forward(self, xs):
        if self.function == "Maxout":
            return np.maximum.reduce(xs)
        if self.function == "Max":
            return sum(window.columns(x, -np.inf).max(axis=3).reshape(len(x), -1) for window, x in zip(self.windows, xs))
        if self.function == "Average":
            return sum((window.columns(x).sum(axis=3) / self.shares(window, x)).reshape(len(x), -1) for window, x in zip(self.windows, xs))
        if self.function == "LRN":
            return sum(self.normalised(x) for x in xs)
        first = xs[0]
        dots = [(first * other).sum(axis=1) for other in xs[1:]]
        if self.function == "Cosine":
            dots = [dot / (norm(first) * norm(other)) for dot, other in zip(dots, xs[1:])]
        return np.stack(dots, axis=1)

    def backward(self, xs, d, size):
        """[(delta, magnitude)] of each source."""
        if self.function == "Maxout":
            winner = np.argmax(np.stack(xs), axis=0)
            return [(np.where(winner == i, d, 0), np.where(winner == i, size, 0)) for i in range(len(xs))]
        if self.function in WINDOWED:
            return [tuple(window.back(self.share(window, x, part)) for part in (d, size)) for window, x in zip(self.windows, xs)]
        if self.function == "LRN":
            return [self.through_norm(x, d, size) for x in xs]
        return self.compared(xs, d, size)

    def share(self, window, x, d):
        d = d.reshape(len(d), window.channels, -1, 1)
        if self.function == "Average":
            return d / self.shares(window, x)[..., None] * window.inside
        winner = window.columns(x, -np.inf).argmax(axis=3)[..., None]  # the first in (z, y, x)
        return np.where(np.arange(window.index.shape[1]) == winner, d, 0)

    @staticmethod
    def shares(window, x):
        return window.inside.sum(axis=1).astype(x.dtype)

    def neighbours(self, x):
        """The sum over the channels that count for each."""
        n = self.lrn["n"]
        x = x.reshape(len(x), self.channels, -1)
        behind = (n - 1) // 2
        padded = np.pad(x, ((0, 0), (behind, n - 1 - behind), (0, 0)))
        return sum(padded[:, i:i + self.channels] for i in range(n)).reshape(len(x), -1)

    def readers(self, x):
        """The sum over the channels for which each counts."""
        n = self.lrn["n"]
        x = x.reshape(len(x), self.channels, -1)
        behind = (n - 1) // 2
        padded = np.pad(x, ((0, 0), (n - 1 - behind, behind), (0, 0)))
        return sum(padded[:, i:i + self.channels] for i in range(n)).reshape(len(x), -1)

    def response(self, x):
        return x.dtype.type(self.lrn["k"]) + x.dtype.type(self.lrn["alpha"] / self.lrn["n"]) * self.neighbours(x * x)

    def normalised(self, x):
        return x * self.response(x) ** x.dtype.type(-self.lrn["beta"])

    def through_norm(self, x, d, size):
        s, beta = self.response(x), self.lrn["beta"]
        factor = x.dtype.type(2 * self.lrn["alpha"] / self.lrn["n"] * beta)
        own, other = s ** x.dtype.type(-beta), s ** x.dtype.type(-beta - 1)
        delta = d * own - factor * x * self.readers(d * x * other)
        return delta, size * own + factor * np.abs(x) * self.readers(size * np.abs(x) * other)

    def compared(self, xs, d, size):
        first, other_deltas = xs[0], []
        delta, magnitude = np.zeros_like(first), np.zeros_like(first)
        for i, other in enumerate(xs[1:]):
            di, si = d[:, i:i + 1], size[:, i:i + 1]
            for_first, for_other, terms_first, terms_other = other, first, np.abs(other), np.abs(first)
            if self.function == "Cosine":
                a, b = norm(first)[:, None], norm(other)[:, None]
                dot = (first * other).sum(axis=1)[:, None] / (a * b)
                pull = lambda x, length: x / (np.maximum(length - x.dtype.type(1e-8), 1e-30) * length)
                for_first, for_other = other / (a * b) - dot * pull(first, a), first / (a * b) - dot * pull(other, b)
                terms_first = np.abs(other) / (a * b) + np.abs(dot * pull(first, a))
                terms_other = np.abs(first) / (a * b) + np.abs(dot * pull(other, b))
            delta, magnitude = delta + di * for_first, magnitude + si * terms_first
            other_deltas.append((di * for_other, si * terms_other))
        return [(delta, magnitude), *other_deltas]


def norm(x):
    return np.sqrt((x * x).sum(axis=1)) + x.dtype.type(1e-8)
