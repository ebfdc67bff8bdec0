# SPDX-License-Identifier: Apache-2.0
"""The best items for users out of a large catalogue in PyTorch: shop10m's network, bf16, items seen left out.

topk: scores in blocks of items, each block's best merged into the best so far, as a user would write it. groups: a
Triton kernel keeps only the largest score of every group of items; the best groups hold the best items, whose scores
are computed again. Prints one JSON line a configuration."""
import math
import sys

import torch
import torch.nn.functional as F
import triton

import gpu_common
import triton_kernels as kernels

SMALL = gpu_common.Shape(20000, (256,), 100, 0.0)
GROUP = 64


class Model:
    """Item lists to the activations of the last hidden layer, and the output layer's weights."""

    def __init__(self, shape, device):
        weights, biases = gpu_common.make_weights(shape, device)
        self.weights = []
        while weights:
            self.weights.append(weights.pop(0).to(torch.bfloat16))
        self.biases = [bias.to(torch.bfloat16) for bias in biases]
        # Scores that differ from item to item, as a trained network's do.
        self.biases[-1] += torch.linspace(2.0, -2.0, shape.width, device=device).to(torch.bfloat16)

    def hidden(self, seen):
        h = F.relu(F.embedding_bag(seen, self.weights[0], mode="sum") + self.biases[0])
        for weight, bias in zip(self.weights[1:-1], self.biases[1:-1]):
            h = F.relu(F.linear(h, weight, bias))
        return h


def scores_of_block(model, h, seen, first, last, block, buffer):
    """[users, block] with the seen items at minus infinity; `buffer` has one place more, where other items' go."""
    users = len(seen)
    scores = buffer[:-1].view(users, block)
    if last - first < block:
        scores.fill_(-math.inf)
    torch.addmm(model.biases[-1][first:last], h, model.weights[-1][first:last].t(), out=scores[:, : last - first])
    place = torch.arange(users, device=h.device).unsqueeze(1) * block + (seen - first)
    inside = (seen >= first) & (seen < last)
    buffer.scatter_(0, torch.where(inside, place, users * block).flatten(), -math.inf)
    return scores


def best_by_blocks(model, seen, k, block):
    h, width = model.hidden(seen), model.weights[-1].shape[0]
    buffer = torch.empty(len(seen) * block + 1, dtype=h.dtype, device=h.device)
    best = torch.full((len(seen), k), -math.inf, dtype=h.dtype, device=h.device)
    best_items = torch.zeros(len(seen), k, dtype=torch.int64, device=h.device)
    for first in range(0, width, block):
        scores = scores_of_block(model, h, seen, first, min(width, first + block), block, buffer)
        top, place = torch.topk(scores, k, dim=1)
        best, chosen = torch.topk(torch.cat([best, top], 1), k, dim=1)
        best_items = torch.cat([best_items, place + first], 1).gather(1, chosen)
    return best, best_items


def best_by_groups(model, seen, k, block):
    h, (width, depth) = model.hidden(seen), model.weights[-1].shape
    users, groups = len(seen), math.ceil(width / GROUP)
    weight, bias = model.weights[-1], model.biases[-1]
    largest = torch.empty(users, groups, dtype=h.dtype, device=h.device)
    kernels.group_maxima[(triton.cdiv(users, 128), triton.cdiv(width, 256))](
        h, weight, bias, largest, users, width, groups, depth, GROUP, 128, 256, 64, num_warps=8, num_stages=3)
    # A wanted item's group is behind at most k - 1 groups for the sake of better items, and one for each item seen.
    enough = min(k + seen.shape[1], groups)
    chosen = torch.topk(largest, enough, dim=1, sorted=False).indices
    scores = torch.empty(users, enough, GROUP, device=h.device)
    kernels.group_scores[(users, enough)](h, weight, bias, chosen, scores, width, depth, GROUP)
    items = (chosen.unsqueeze(2) * GROUP + torch.arange(GROUP, device=h.device)).flatten(1)
    # Seen items are looked for in each user's ascending list.
    place = torch.searchsorted(seen, items).clamp_(max=seen.shape[1] - 1)
    scores = scores.flatten(1).masked_fill_(seen.gather(1, place) == items, -math.inf)
    best, place = torch.topk(scores, k, dim=1)
    return best, items.gather(1, place)


METHODS = {"topk": best_by_blocks, "groups": best_by_groups}


def verify(variant, k, device):
    """The scores and items of a small catalogue against all scores at once, in float32."""
    model = Model(SMALL, device)
    seen = gpu_common.make_batches(SMALL, 64, device)[0]
    best, items = METHODS[variant](model, seen, k, 4096)
    scores = F.linear(model.hidden(seen).float(), model.weights[-1].float(), model.biases[-1].float())
    scores.scatter_(1, seen, -math.inf)
    expected = torch.topk(scores, k, dim=1).values
    # Rounding may exchange neighbours in the ranking; their scores lie that close.
    wrong = (scores.gather(1, items) - expected).abs().max()
    if not (wrong < 0.05 and (best.float() - expected).abs().max() < 0.05):
        raise RuntimeError(f"{variant}: scores differ from a full ranking's by {float(wrong):.3f}")
    if any(len(set(row)) < k for row in items.tolist()):
        raise RuntimeError(f"{variant}: an item is there twice")


def measure(args, variant):
    gpu_common.set_precision("fp32")
    verify(variant, args.top, "cuda")
    shape = gpu_common.shape_of(args)
    model = Model(shape, "cuda")
    batches = gpu_common.make_batches(shape, args.batch, "cuda")
    return gpu_common.timed(lambda i: METHODS[variant](model, batches[i % len(batches)], args.top, args.block),
                            args.batch, args, warmup=2)


def main():
    parser, _ = gpu_common.argument_parser(__doc__, list(METHODS), ["bf16"])
    parser.set_defaults(shape="shop10m")
    parser.add_argument("--top", type=int, default=100)
    parser.add_argument("--block", type=int, default=65536, help="items at a time of the variant topk")
    parser.add_argument("--verify", action="store_true", 
                        help="only compare with a full ranking; on the CPU with TRITON_INTERPRET=1 set")
    args = parser.parse_args()
    fine = True
    for variant in args.variant:
        if args.verify:
            verify(variant, args.top, "cuda" if torch.cuda.is_available() else "cpu")
            print(variant, "ok")
            continue
        gpu_common.need_gpu()
        result = {"peer": gpu_common.peer_name(), "program": "pytorch_topk", "shape": args.shape, "variant": variant,
                  "precision": "bf16", "batch": args.batch, "top": args.top, "block": args.block}
        with torch.inference_mode():
            fine &= gpu_common.run(args, result, lambda: measure(args, variant))
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
