# SPDX-License-Identifier: Apache-2.0
"""The autoencoders of Norn's GPU benchmarks in PyTorch and Triton, as fast as we could make them.

blocks: the output layer in blocks of units that stay in cache, gradients by hand, updates at once, one CUDA graph
a step. overlap: the updates of a block run beside the products of the next. fused: activation and loss in the forward
product's kernel, a Triton one. With Adam, rows of the input weights that a batch does not touch wait until one does
(--rows). Some steps of a small network are compared with autograd before anything is timed. Prints one JSON line a
configuration."""
import itertools
import sys

import torch
import torch.nn.functional as F

import gpu_common
import strong_step

SMALL = {False: gpu_common.Shape(3000, (128, 256, 128), 20, 0.0),
         True: gpu_common.Shape(3000, (128,), 20, 0.0, softmax=True)}
SMALL_BATCH, SMALL_BLOCK, SMALL_STEPS = 16, 1024, 4
LOSS_TOLERANCE = 1e-3
# Largest relative difference of the weights' changes from autograd's in float32, which grows with every layer that the
# gradient has passed. Adam's first steps turn a gradient into about its sign: rounding of those near zero shows in full.
TOLERANCE = {("fp32", "SGD"): 1e-4, ("fp32", "Adam"): 1e-2, ("tf32", "SGD"): 2e-2, ("tf32", "Adam"): 2.5e-1,
             ("bf16", "SGD"): 1e-1, ("bf16", "Adam"): 2.5e-1}


class Plain:
    """The reference: autograd in float32."""

    def __init__(self, shape, optimizer, device):
        self.shape = shape
        weights, biases = gpu_common.make_weights(shape, device)
        self.start = [t.clone() for t in weights + biases]
        self.weights = [w.requires_grad_() for w in weights]
        self.biases = [b.requires_grad_() for b in biases]
        kind = {"SGD": torch.optim.SGD, "Adam": torch.optim.Adam}[optimizer]
        rate = gpu_common.ADAM_RATE if optimizer == "Adam" else gpu_common.SGD_RATE
        self.optimizer = kind(self.weights + self.biases, lr=rate)

    def __call__(self, items):
        h = F.embedding_bag(items, self.weights[0], mode="sum") + self.biases[0]
        for weight, bias in zip(self.weights[1:], self.biases[1:]):
            h = F.linear(F.relu(h), weight, bias)
        loss = gpu_common.loss_of_logits(h, items, self.shape)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())


def verify(variant, precision, optimizer, rows, is_softmax, device="cuda"):
    """The largest relative difference of the weights' changes from the reference's."""
    small = SMALL[is_softmax]
    batches = gpu_common.make_batches(small, SMALL_BATCH, device, count=SMALL_STEPS)
    gpu_common.set_precision("fp32")
    plain = Plain(small, optimizer, device)
    expected = [plain(items) for items in batches]
    gpu_common.set_precision(precision)
    step = strong_step.StrongStep(small, SMALL_BATCH, variant, precision, optimizer, SMALL_BLOCK, 0.0, device, rows)
    worst = 0.0
    for entries, loss in zip(strong_step.Entries.of_batches(batches, small.width), expected):
        step(entries)
        if not abs(float(step.loss) / loss - 1.0) < LOSS_TOLERANCE:
            raise RuntimeError(f"{variant} {precision} {optimizer}: loss {float(step.loss)}, autograd's {loss}")
    step.now += 1
    step.catch_up(torch.arange(small.width, device=device))
    for mine, theirs, start in zip(step.weights + step.biases, plain.weights + plain.biases, plain.start):
        change = theirs.detach() - start
        worst = max(worst, float((mine.value[: len(start)] - theirs.detach()).norm() / change.norm()))
        if mine.copy is not None and not torch.allclose(mine.copy.float(), mine.value, rtol=2.0**-7):
            raise RuntimeError(f"{variant} {precision} {optimizer}: the weights' copy differs from them")
    if not worst < TOLERANCE[precision, optimizer]:
        raise RuntimeError(f"{variant} {precision} {optimizer} differs from autograd by {worst:.2e}")
    return worst


def measure(args, shape, variant, precision, optimizer, rows):
    difference = verify(variant, precision, optimizer, rows, shape.softmax)
    gpu_common.set_precision(precision)
    batches = strong_step.Entries.of_batches(gpu_common.make_batches(shape, args.batch, "cuda"), shape.width)
    step = strong_step.StrongStep(shape, args.batch, variant, precision, optimizer, args.block,
                                  shape.dropout if args.dropout else 0.0, "cuda", rows)
    step(batches[0])
    first = float(step.loss)
    if args.profile:
        profile(step, batches[0])
    run = step if args.no_graph else strong_step.GraphedStep(step, batches[1])
    # Once round first: rows then lag as they do in the middle of an epoch.
    result = gpu_common.timed(lambda i: run(batches[i % len(batches)]), args.batch, args, warmup=len(batches))
    if int(step.now) >= strong_step.LONGEST:
        raise RuntimeError("more steps than corrections are known for: a smaller --seconds")
    return result | {"block": step.block, "first_loss": first, "last_loss": float(step.loss),
                     "difference": float(f"{difference:.2g}")}


def profile(step, entries):
    """The time of every kernel of a step, on stderr."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        step(entries)
        torch.cuda.synchronize()
    rows = [(row.self_device_time_total, row.count, row.key) for row in profiler.key_averages()]
    for time, count, name in sorted(rows, reverse=True)[:16]:
        print(f"{time * 1e-3:9.3f} ms {count:6d}  {name[:90]}", file=sys.stderr)


def main():
    parser, choices = gpu_common.argument_parser(__doc__, strong_step.VARIANTS, ["fp32", "tf32", "bf16"])
    parser.add_argument("--optimizer", type=choices(["SGD", "Adam"]), default=["SGD"], help="SGD, Adam")
    parser.add_argument("--dropout", action="store_true", help="with the shape's dropout of hidden units (ml20m: 0.37)")
    parser.add_argument("--rows", type=choices(strong_step.ROWS), default=strong_step.ROWS[:1],
                        help="of the input weights that Adam updates in a step: lazy (those of the batch), all")
    parser.add_argument("--block", type=int, default=0, help="output units at a time [32768; narrow layers have more]")
    parser.add_argument("--no-graph", action="store_true", help="without a CUDA graph")
    parser.add_argument("--profile", action="store_true", help="print the time of every kernel too")
    parser.add_argument("--verify", action="store_true",
                        help="only compare with autograd; on the CPU with TRITON_INTERPRET=1 set")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if not args.verify:
        gpu_common.need_gpu()
    shape = gpu_common.shape_of(args)
    fine = True
    for precision, optimizer, variant in itertools.product(args.precision, args.optimizer, args.variant):
        if variant == "fused" and precision == "fp32" and device == "cuda":
            continue  # Triton's products of float32 are tf32 there
        for rows in args.rows if optimizer == "Adam" else args.rows[:1]:
            result = {"peer": gpu_common.peer_name(), "program": "pytorch_strong", "shape": args.shape,
                      "variant": variant, "precision": precision, "optimizer": optimizer, "batch": args.batch,
                      "dropout": bool(args.dropout)}
            if optimizer == "Adam":
                result["rows"] = rows
            if args.verify:
                worst = verify(variant, precision, optimizer, rows, shape.softmax, device)
                print(variant, precision, optimizer, rows, f"{worst:.2e}")
                continue
            fine &= gpu_common.run(args, result, lambda: measure(args, shape, variant, precision, optimizer, rows))
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
