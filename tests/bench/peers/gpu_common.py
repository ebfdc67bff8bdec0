# SPDX-License-Identifier: Apache-2.0
"""What the GPU peers share: the networks, their synthetic data, timing by CUDA events, one JSON line a run."""
import argparse
import dataclasses
import gc
import json
import math
import sys
import traceback

import torch
import torch.nn.functional as F


@dataclasses.dataclass(frozen=True)
class Shape:
    width: int  # items: inputs and outputs
    hidden: tuple
    nonzeros: int  # items of an example
    dropout: float  # of hidden units, when it is asked for
    softmax: bool = False  # outputs share a SoftMax, and every item of an example counts 1; else each has a sigmoid

    @property
    def output_bias(self):
        return 0.0 if self.softmax else -5.0


SHAPES = {
    "ml20m": Shape(27278, (1536, 1536, 1536), 144, 0.37),
    "shop500k": Shape(500000, (1024,), 100, 0.0),
    "shop10m": Shape(10000000, (256,), 100, 0.0),
    "wide500k_softmax": Shape(500000, (128,), 100, 0.0, softmax=True),
    "wide1m_softmax": Shape(999936, (256,), 100, 0.0, softmax=True),
}
BATCHES = 64  # that a run rotates
REPETITIONS = 5  # of which the median counts
SGD_RATE, ADAM_RATE, BETAS, EPSILON = 1e-2, 1e-4, (0.9, 0.999), 1e-8


def shape_of(args):
    """The network that --shape and --hidden ask for."""
    shape = SHAPES[args.shape]
    return dataclasses.replace(shape, hidden=(args.hidden,) * len(shape.hidden)) if args.hidden else shape


def power_law_items(examples, width, nonzeros, generator, device):
    """[examples, nonzeros] distinct items a row, ascending; item i is drawn about as often as 1 / (i + 10)."""
    draws = 3 * nonzeros
    u = torch.rand(examples, draws, generator=generator, device=device, dtype=torch.float64)
    items = (10.0 * torch.exp(u * math.log((width + 10.0) / 10.0)) - 10.0).long().clamp_(0, width - 1)
    # The first `nonzeros` different ones in the order of the draws.
    ordered, place = torch.sort(items, dim=1, stable=True)
    again = torch.zeros_like(ordered)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    order = torch.arange(draws, device=device) + draws * torch.zeros_like(again).scatter_(1, place, again)
    kept = torch.argsort(order, dim=1)[:, :nonzeros]
    if int(order.gather(1, kept).max()) >= draws:
        raise RuntimeError(f"a row has fewer than {nonzeros} different items")
    return items.gather(1, kept).sort(dim=1).values


def make_batches(shape, batch, device, seed=7, count=BATCHES):
    generator = torch.Generator(device=device).manual_seed(seed)
    return [power_law_items(batch, shape.width, shape.nonzeros, generator, device) for _ in range(count)]


def make_weights(shape, device, seed=1):
    """Xavier weights [units, inputs] and biases of all layers; the first layer's lie as [inputs, units]."""
    generator = torch.Generator(device=device).manual_seed(seed)
    sizes = [shape.width, *shape.hidden, shape.width]
    weights, biases = [], []
    for i, (inputs, units) in enumerate(zip(sizes, sizes[1:])):
        rows, columns = (inputs, units) if i == 0 else (units, inputs)
        scale = math.sqrt(6.0 / (inputs + units))
        weights.append(torch.empty(rows, columns, device=device).uniform_(-scale, scale, generator=generator))
        biases.append(torch.full((units,), shape.output_bias if i == len(sizes) - 2 else 0.0, device=device))
    return weights, biases


def set_precision(precision):
    """Whether float32 products may use tf32 is a setting of the process."""
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"


def loss_of_logits(logits, items, shape):
    """Summed over units, mean over the batch; with SoftMax the multinomial likelihood of the items."""
    if shape.softmax:
        total = torch.logsumexp(logits, 1) * items.shape[1] - logits.gather(1, items).sum(1, dtype=torch.float32)
        return total.mean()
    target = torch.zeros_like(logits).scatter_(1, items, 1.0)
    return F.binary_cross_entropy_with_logits(logits, target, reduction="sum") / len(items)


def exact_loss(weights, biases, items, shape, block=65536):
    """loss_of_logits in float64, from weights as make_weights gives them, some output units at a time."""
    h = F.embedding_bag(items, weights[0].detach(), mode="sum").double() + biases[0].double()
    for weight, bias in zip(weights[1:-1], biases[1:-1]):
        h = F.linear(F.relu(h), weight.double(), bias.double())
    h = F.relu(h)
    positive = torch.zeros(len(items), dtype=torch.float64, device=items.device)
    for start in range(0, items.shape[1], 16):
        chosen = items[:, start : start + 16]
        logits = (weights[-1][chosen].double() * h.unsqueeze(1)).sum(2) + biases[-1][chosen].double()
        positive += logits.sum(1)
    parts = []
    for first in range(0, shape.width, block):
        z = F.linear(h, weights[-1][first : first + block].double(), biases[-1][first : first + block].double())
        parts.append(torch.logsumexp(z, 1) if shape.softmax else F.softplus(z).sum(1))
    parts = torch.stack(parts)
    rest = torch.logsumexp(parts, 0) * items.shape[1] if shape.softmax else parts.sum(0)
    return float((rest - positive).mean())


def timed(step, batch, args, warmup, agreed=int):
    """step(i) again and again: samples a second of the median repetition, the slowest and the fastest, by events. agreed(count): how
    many steps a repetition has, the same in all processes of a training."""
    for i in range(warmup):
        step(i)
    torch.cuda.synchronize()

    def milliseconds(first, count):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for i in range(first, first + count):
            step(i)
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / count

    count = agreed(max(4, int(1e3 * args.seconds / REPETITIONS / milliseconds(warmup, 2))))
    times = sorted(milliseconds(warmup + 2 + n * count, count) for n in range(REPETITIONS))
    rate = [round(batch / time * 1e3, 1) for time in times]
    return {"samples_per_second": rate[len(rate) // 2], "slowest": rate[-1], "fastest": rate[0],
            "ms": round(times[len(times) // 2], 4), "batches": BATCHES}


def argument_parser(text, variants, precisions, shapes=tuple(SHAPES)):
    """--variant, --precision and --optimizer take lists: every combination is run. Without shapes the batch is the network's."""
    def choices(allowed):
        def parse(value):
            words = value.split(",")
            wrong = [word for word in words if word not in allowed]
            if wrong:
                raise argparse.ArgumentTypeError(f"'{wrong[0]}' is none of {', '.join(allowed)}")
            return words
        return parse

    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    if shapes:
        parser.add_argument("--shape", choices=sorted(shapes), default="ml20m")
        parser.add_argument("--hidden", type=int, default=0, help="units of its hidden layers, instead of its own")
    parser.add_argument("--variant", type=choices(variants), default=variants[:1], help=", ".join(variants))
    parser.add_argument("--precision", type=choices(precisions), default=precisions[-1:], help=", ".join(precisions))
    parser.add_argument("--batch", type=int, default=1024 if shapes else 0)
    parser.add_argument("--seconds", type=float, default=2.0, help="how long to time a configuration")
    parser.add_argument("--json", help="append the lines to this file too")
    return parser, choices


def report(args, result):
    line = json.dumps(result)
    print(line, flush=True)
    if args.json:
        with open(args.json, "a", encoding="utf-8") as out:
            out.write(line + "\n")


class Unsupported(Exception):
    """What a package cannot do, or that it is not there."""


def run(args, result, measure):
    """Calls measure(), which returns more fields; that it is Unsupported, or runs out of memory, is a result too.
    Returns whether it is fine."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    fine = True
    try:
        result.update(measure())
    except torch.cuda.OutOfMemoryError:
        result["error"] = "out of memory"
    except Unsupported as problem:
        result["error"] = str(problem)
    except Exception as problem:  # noqa: BLE001: the other configurations are still run
        if "out of memory" in str(problem):
            result["error"] = "out of memory"
        else:
            traceback.print_exc()
            result["error"] = f"{type(problem).__name__}: {problem}".split("\n")[0][:200]
            fine = False
    result["peak_memory_GB"] = round(torch.cuda.max_memory_allocated() * 1e-9, 2)
    report(args, result)
    return fine


def need_gpu():
    if not torch.cuda.is_available():
        sys.exit("this peer needs a CUDA GPU and a PyTorch that was built for it")


def peer_name():
    return f"PyTorch {torch.__version__}"
