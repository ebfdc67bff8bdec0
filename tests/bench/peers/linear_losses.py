# SPDX-License-Identifier: Apache-2.0
"""SoftMax's likelihood by packages that fuse the output layer with its cross entropy, for pytorch_gpu.py.

cce: cut-cross-entropy (Apple's sample licence), liger: liger-kernel (BSD-2-Clause). Both know one target a row. With n
items an example costs n lse - sum of z_k = n (lse - z_1) + sum of (z_1 - z_k): the package gives the first term, a
gather the second. cce has no output bias, so none is trained there; its gradients are exact (no filter), because with so
many outputs nearly all of them are below the filter's threshold."""
import importlib.util

import torch
import torch.nn.functional as F

import gpu_common

SMALL = gpu_common.Shape(3000, (128,), 20, 0.0, softmax=True)
ROWS_OF_LIGER = 128  # whose logits are in memory at a time; by itself it takes one here
# Largest relative difference of a gradient from that of autograd in float64.
TOLERANCE = {"fp32": 1e-4, "tf32": 2e-2, "bf16": 5e-2, "bf16_weights": 5e-2}


def rest_of_items(h, layer, items, bias):
    """Sum over rows of sum over items of z_1 - z_k."""
    z = torch.bmm(F.embedding(items, layer.weight).to(h.dtype), h.unsqueeze(2)).squeeze(2).float()
    if bias is not None:
        z = z + bias[items]
    return (z[:, :1] - z).sum()


def cce(model, items, shape):
    from cut_cross_entropy import linear_cross_entropy

    h, layer = model.hidden(items), model.rest[-1]
    kind = torch.bfloat16 if torch.is_autocast_enabled() else h.dtype
    if kind == torch.float32:
        raise gpu_common.Unsupported("bf16 only")
    h = h.to(kind)
    first = linear_cross_entropy(h, layer.weight.to(kind), items[:, 0].contiguous(), reduction="sum", filter_eps=None)
    return (first.float() * items.shape[1] + rest_of_items(h, layer, items, None)) / len(items)


def liger(model, items, shape):
    from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction

    h, layer = model.hidden(items), model.rest[-1]
    kind = torch.bfloat16 if torch.is_autocast_enabled() else h.dtype
    h = h.to(kind)
    budget = max(1, shape.width * ROWS_OF_LIGER // (len(items) * h.shape[1]))
    first = LigerFusedLinearCrossEntropyFunction.apply(
        h, layer.weight.to(kind), items[:, 0].contiguous(), layer.bias.to(kind), None, -100, 0.0, 0.0, "sum", None, False,
        None, False, False, False, None, None, budget)[0]
    return (first.float() * items.shape[1] + rest_of_items(h, layer, items, layer.bias)) / len(items)


LOSSES = {"cce": cce, "liger": liger}
MODULES = {"cce": "cut_cross_entropy", "liger": "liger_kernel"}


def function(variant):
    """The loss; throws Unsupported where its package is not there."""
    if importlib.util.find_spec(MODULES[variant]) is None:
        raise gpu_common.Unsupported("not installed")
    return LOSSES[variant]


def verify(variant, precision, device="cuda", batch=128):
    """Loss and gradients of a small network against autograd in float64."""
    import pytorch_gpu

    loss_of = function(variant)
    items = gpu_common.make_batches(SMALL, batch, device, count=1)[0]
    models = [pytorch_gpu.Autoencoder(SMALL, 0.0, device) for _ in range(2)]
    models[1].double()
    with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
        loss = loss_of(models[0], items, SMALL)
    exact = pytorch_gpu.loss_of(models[1], items, SMALL)
    loss.backward()
    exact.backward()
    if not abs(loss.item() / exact.item() - 1.0) < pytorch_gpu.TOLERANCE[precision]:
        raise RuntimeError(f"{variant}: the loss is {loss.item()}, float64 says {exact.item()}")
    for (name, mine), theirs in zip(models[0].named_parameters(), models[1].parameters()):
        if variant == "cce" and name == "rest.0.bias":
            continue
        worst = float((mine.grad - theirs.grad).norm() / theirs.grad.norm())
        if not worst < TOLERANCE[precision]:
            raise RuntimeError(f"{variant}: the gradient of {name} differs from float64's by {worst:.2e}")
