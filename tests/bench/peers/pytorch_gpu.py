# SPDX-License-Identifier: Apache-2.0
"""The autoencoders of Norn's GPU benchmarks in PyTorch, as a user of it would write them.

EmbeddingBag on the items, Linear layers, binary cross entropy against a dense 0/1 target, autograd, a stock
optimizer. bf16 is autocast; bf16_weights holds the weights themselves in bf16. Prints one JSON line a configuration."""
import sys

import torch
import torch.nn.functional as F

import gpu_common


class Autoencoder(torch.nn.Module):
    """Item lists [batch, nonzeros] to logits [batch, width]."""

    def __init__(self, shape, dropout, device):
        super().__init__()
        weights, biases = gpu_common.make_weights(shape, device)
        self.dropout = dropout
        self.first = torch.nn.EmbeddingBag(*weights[0].shape, mode="sum", _weight=weights[0])
        self.first_bias = torch.nn.Parameter(biases[0])
        self.rest = torch.nn.ModuleList()
        for weight, bias in zip(weights[1:], biases[1:]):
            layer = torch.nn.Linear(weight.shape[1], weight.shape[0], device="meta")
            layer.weight, layer.bias = torch.nn.Parameter(weight), torch.nn.Parameter(bias)
            self.rest.append(layer)

    def forward(self, items):
        h = self.first(items) + self.first_bias
        for layer in self.rest:
            h = layer(F.dropout(F.relu(h), self.dropout, self.training))
        return h


def loss_of(model, items, width):
    """Summed over units, mean over the batch."""
    target = torch.zeros(items.shape[0], width, device=items.device, dtype=model.first.weight.dtype)
    target.scatter_(1, items, 1.0)
    return F.binary_cross_entropy_with_logits(model(items), target, reduction="sum") / items.shape[0]


def make_optimizer(name, model):
    if name == "SGD":
        return torch.optim.SGD(model.parameters(), lr=gpu_common.SGD_RATE, fused=True)
    return torch.optim.Adam(model.parameters(), lr=gpu_common.ADAM_RATE, betas=gpu_common.BETAS,
                            eps=gpu_common.EPSILON, fused=True)


def measure(args, shape, variant, precision, optimizer_name):
    gpu_common.set_precision(precision)
    batches = gpu_common.make_batches(shape, args.batch, "cuda")
    model = Autoencoder(shape, shape.dropout if args.dropout else 0.0, "cuda")
    if precision == "bf16_weights":
        model = model.bfloat16()
    optimizer = make_optimizer(optimizer_name, model)
    function = torch.compile(loss_of) if variant == "compile" else loss_of
    losses = []

    def step(i):
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
            loss = function(model, batches[i % len(batches)], shape.width)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())

    median, fastest, slowest = gpu_common.milliseconds(step, args.steps, args.warmup)
    first, last = float(losses[0]), float(losses[-1])
    return {"samples_per_s": round(args.batch / median * 1e3, 1), "ms": round(median, 3),
            "ms_min": round(fastest, 3), "ms_max": round(slowest, 3), "first_loss": first, "last_loss": last}


def main():
    parser, choices = gpu_common.argument_parser(
        __doc__, ["eager", "compile"], ["fp32", "bf16_weights", "bf16", "tf32"])
    parser.add_argument("--optimizer", type=choices(["SGD", "Adam"]), default=["SGD"], help="SGD, Adam")
    parser.add_argument("--dropout", action="store_true", help="with the shape's dropout of hidden units (ml20m: 0.37)")
    args = parser.parse_args()
    gpu_common.need_gpu()
    shape = gpu_common.SHAPES[args.shape]
    fine = True
    for precision in args.precision:
        for optimizer in args.optimizer:
            for variant in args.variant:
                torch._dynamo.reset()
                result = {"peer": gpu_common.peer_name(), "program": "pytorch_gpu", "shape": args.shape,
                          "variant": variant, "precision": precision, "optimizer": optimizer, "batch": args.batch,
                          "dropout": bool(args.dropout)}
                fine &= gpu_common.run(
                    args, result, lambda: measure(args, shape, variant, precision, optimizer))
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
