# SPDX-License-Identifier: Apache-2.0
"""Exact squared error over all outputs at the cost of the stored targets, in PyTorch: the update of Vincent, de Brebisson and Bouthillier
(NIPS 2015) for batches, by gradient descent, behind an EmbeddingBag. Beside train_bench --factored, whose step also has Newton's
preconditioner and bits that do not depend on ranks.

W = V U. A step changes U, its inverse (by Newton and Schulz), G = W' W, and the rows of V that targets name; every FOLD steps U goes
into V. What the formulas make of W is compared with the dense step in float64 before anything is timed. Prints one JSON line."""
import sys

import torch
import torch.nn.functional as F

import gpu_common

RATE, FOLD = 1e-3, 32
ONE, ZERO = 1.0, 1.0  # what stored targets and all others weigh


class FactoredOutput:
    """Outputs W h of squared error; h [B x d], items [B x k], whose targets are 1."""

    def __init__(self, weight):
        self.v = weight
        one = torch.eye(weight.shape[1], device=weight.device, dtype=weight.dtype)
        self.u, self.inverse, self.one = one.clone(), one.clone(), one
        self.gram = self.v.t() @ self.v
        self.steps = 0

    def step(self, h, items, rate):
        """(loss, d loss / d h) of the sum over units and the mean over the batch; then the update."""
        scale = rate / len(h)
        projected = h @ self.u.t()
        rows = F.embedding(items, self.v)  # [B x k x d]
        z = torch.einsum("bkd,bd->bk", rows, projected)
        r = (ONE - ZERO) * z - ONE
        rv = torch.einsum("bk,bkd->bd", r, rows)
        hg, rw = h @ self.gram, rv @ self.u
        loss = (0.5 * ((h * hg).sum() + (1.0 - 2.0 * z).sum())) / len(h)
        delta = (ZERO * hg + rw) / len(h)
        e = scale * ZERO * (h.t() @ h)
        keeps = self.one - e
        self.u -= self.u @ e
        x = (self.one + e + e @ e) @ self.inverse
        for _ in range(2):
            x = x @ (2.0 * self.one - self.u @ x)
        self.inverse = x
        moved = h @ self.inverse
        # Of a unit that several examples name the terms are added up: S S' of the changes, by example.
        terms = (-scale * r).unsqueeze(2) * moved.unsqueeze(1)
        self.v.index_add_(0, items.flatten(), terms.flatten(0, 1))
        after = torch.einsum("bk,bkd->bd", r, F.embedding(items, self.v)) @ self.u  # R' W of the new W
        before = rw @ keeps  # and of the one that targets had not changed
        change = h.t() @ (before + after)
        self.gram = keeps @ self.gram @ keeps - 0.5 * scale * (change + change.t())
        self.steps += 1
        if self.steps % FOLD == 0:
            self.fold()
        return loss, delta

    def fold(self, rows=1 << 18):
        for first in range(0, len(self.v), rows):
            self.v[first : first + rows] = self.v[first : first + rows] @ self.u
        self.u, self.inverse = self.one.clone(), self.one.clone()


def check(device):
    """The largest relative error of W after some steps, against the dense step in float64."""
    generator = torch.Generator(device=device).manual_seed(3)
    draw = lambda *size: torch.randn(*size, generator=generator, device=device, dtype=torch.float64)
    dense = 0.1 * draw(300, 20)
    layer = FactoredOutput(dense.clone())
    for _ in range(2 * FOLD + 5):
        h = draw(16, 20)
        items = torch.stack([torch.randperm(300, generator=generator, device=device)[:7] for _ in range(16)])
        target = torch.zeros(16, 300, device=device, dtype=torch.float64).scatter_(1, items, 1.0)
        loss, delta = layer.step(h, items, 0.01)
        error = h @ dense.t() - target
        if abs(float(loss) - float((error * error).sum() / 32)) > 1e-9 * float(loss) or \
                float((delta - error @ dense / 16).abs().max()) > 1e-9:
            return float("inf")
        dense -= 0.01 / 16 * error.t() @ h
    return float((layer.v @ layer.u - dense).norm() / dense.norm())


def measure(args, shape, precision):
    device = torch.device("cuda")
    if len(shape.hidden) != 1:
        raise gpu_common.Unsupported("a network with one hidden layer")
    error = check(device)
    if not error < 1e-8:
        raise RuntimeError(f"the formulas are wrong by {error}")
    gpu_common.set_precision(precision)
    batches = gpu_common.make_batches(shape, args.batch, device)
    generator = torch.Generator(device=device).manual_seed(1)
    scale = (6.0 / (shape.width + shape.hidden[0])) ** 0.5
    table, weight = (torch.empty(shape.width, shape.hidden[0], device=device).uniform_(-scale, scale, generator=generator)
                     for _ in range(2))
    layer = FactoredOutput(weight)

    def step(i):
        items = batches[i % len(batches)]
        z = F.embedding_bag(items, table, mode="sum")
        _, delta = layer.step(F.relu(z), items, RATE)
        delta = (-RATE * delta * (z > 0)).unsqueeze(1).expand(-1, items.shape[1], -1)
        table.index_add_(0, items.flatten(), delta.flatten(0, 1))

    with torch.no_grad():
        return {"fold": FOLD, "checked": error, **gpu_common.timed(step, args.batch, args, warmup=8)}


def main():
    parser, choices = gpu_common.argument_parser(__doc__, ["eager"], ["fp32", "tf32"])
    args = parser.parse_args()
    gpu_common.need_gpu()
    shape = gpu_common.shape_of(args)
    fine = True
    for precision in args.precision:
        result = {"peer": gpu_common.peer_name(), "program": "pytorch_factored", "shape": args.shape, "batch": args.batch,
                  "precision": precision}
        fine = gpu_common.run(args, result, lambda: measure(args, shape, precision)) and fine
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
