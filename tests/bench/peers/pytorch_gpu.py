# SPDX-License-Identifier: Apache-2.0
"""The autoencoders of Norn's GPU benchmarks in PyTorch, as a user of it would write them.

EmbeddingBag on the items, Linear layers, binary cross entropy against a dense 0/1 target or SoftMax's likelihood,
autograd, a stock optimizer. bf16 is autocast; bf16_weights holds the weights themselves in bf16. compile and autotune:
torch.compile by default, and with mode max-autotune. cce, liger and liger_scaled (SoftMax only): cross entropies of the
packages cut-cross-entropy and liger-kernel (linear_losses.py). The losses of the first steps are compared with float64
before anything is timed. Prints one JSON line a configuration."""
import sys

import torch
import torch.nn.functional as F

import gpu_common
import linear_losses

VARIANTS = ["eager", "compile", "autotune", *linear_losses.LOSSES]
TOLERANCE = {"fp32": 1e-4, "tf32": 1e-3, "bf16": 1e-2, "bf16_weights": 5e-2}  # of the loss
CHECKED_STEPS = 2


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

    def hidden(self, items):
        """What the last layer sees."""
        h = self.first(items) + self.first_bias
        for layer in self.rest[:-1]:
            h = layer(F.dropout(F.relu(h), self.dropout, self.training))
        return F.dropout(F.relu(h), self.dropout, self.training)

    def parameters_by_layer(self):
        return ([self.first.weight, *(layer.weight for layer in self.rest)],
                [self.first_bias, *(layer.bias for layer in self.rest)])


def loss_of(model, items, shape):
    return gpu_common.loss_of_logits(model.rest[-1](model.hidden(items)), items, shape)


def loss_function(variant, precision, shape, batch):
    """The loss, and what is to be said of it."""
    if variant in linear_losses.LOSSES:
        function, kernels = linear_losses.function(variant, precision, shape, batch)
        return function, {"kernels": kernels, "difference": float(f"{linear_losses.verify(function, precision):.2g}")}
    if variant == "eager":
        return loss_of, {}
    return torch.compile(loss_of, mode="max-autotune-no-cudagraphs" if variant == "autotune" else None), {}


def make_optimizer(name, model, fused=True):
    if name == "SGD":
        return torch.optim.SGD(model.parameters(), lr=gpu_common.SGD_RATE, fused=fused)
    return torch.optim.Adam(model.parameters(), lr=gpu_common.ADAM_RATE, betas=gpu_common.BETAS,
                            eps=gpu_common.EPSILON, fused=fused)


class Training:
    """step(items) trains on a batch; the losses so far are in .losses."""

    def __init__(self, model, function, optimizer, shape, precision, device="cuda"):
        self.model, self.function, self.optimizer, self.shape = model, function, optimizer, shape
        self.precision, self.device, self.losses = precision, device, []

    def __call__(self, items):
        with torch.autocast(self.device, torch.bfloat16, enabled=self.precision == "bf16"):
            loss = self.function(self.model, items, self.shape)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.detach())

    def check(self, batches):
        """The first steps, each one's loss against that of the weights before it in float64."""
        for items in batches[:CHECKED_STEPS]:
            with torch.no_grad():
                exact = gpu_common.exact_loss(*self.model.parameters_by_layer(), items, self.shape)
            self(items)
            if not abs(float(self.losses[-1]) / exact - 1.0) < TOLERANCE[self.precision]:
                raise RuntimeError(f"the loss is {float(self.losses[-1])}, float64 says {exact}")


def measure(args, shape, variant, precision, optimizer_name):
    gpu_common.set_precision(precision)
    batches = gpu_common.make_batches(shape, args.batch, "cuda")
    function, words = loss_function(variant, precision, shape, args.batch)
    model = Autoencoder(shape, shape.dropout if args.dropout else 0.0, "cuda")
    if precision == "bf16_weights":
        model = model.bfloat16()
    training = Training(model, function, make_optimizer(optimizer_name, model), shape, precision)
    if not args.dropout:
        training.check(batches)
    result = gpu_common.timed(lambda i: training(batches[i % len(batches)]), args.batch, args, warmup=4)
    return result | words | {"first_loss": float(training.losses[0]), "last_loss": float(training.losses[-1])}


def main():
    parser, choices = gpu_common.argument_parser(__doc__, VARIANTS, ["fp32", "bf16_weights", "bf16", "tf32"])
    parser.add_argument("--optimizer", type=choices(["SGD", "Adam"]), default=["SGD"], help="SGD, Adam")
    parser.add_argument("--dropout", action="store_true", help="with the shape's dropout of hidden units (ml20m: 0.37)")
    args = parser.parse_args()
    gpu_common.need_gpu()
    shape = gpu_common.shape_of(args)
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
