# SPDX-License-Identifier: Apache-2.0
"""SoftMax's likelihood by packages that fuse the output layer with its cross entropy, for pytorch_gpu.py.

cce: cut-cross-entropy (Apple's sample licence). liger, liger_scaled: liger-kernel (BSD-2-Clause). liger is its fused linear
cross entropy, in CuTe DSL for Hopper where that can be had (why_not_hopper, HOPPER_TILE), else in chunks of rows; liger_scaled
its fused scaled cross entropy, in CuTe DSL too, which writes no logits forward. All know one target a row. With n items an
example costs n lse - sum of z_k = n (lse - z_1) + sum of (z_1 - z_k): the package gives the first term, a gather the second.
Only Liger in chunks has an output bias; elsewhere none is trained. cce's gradients are exact (no filter), because with so many
outputs nearly all of them are below the filter's threshold."""
import importlib.util

import torch
import torch.nn.functional as F

import gpu_common

# Wider than what Liger's first kernel of a cross entropy takes, so that the one is checked that wide layers get.
SMALL = gpu_common.Shape(131328, (128,), 20, 0.0, softmax=True)
ROWS_OF_LIGER = 128  # of a chunk, whose logits are in memory at a time; by itself it takes one here
HOPPER_TILE = (128, 256)  # rows and outputs that CuTe DSL's fused linear cross entropy takes at a time, all of them whole
# Largest relative difference of a gradient from that of autograd in float64.
TOLERANCE = {"fp32": 1e-4, "tf32": 2e-2, "bf16": 5e-2, "bf16_weights": 5e-2}


def rest_of_items(h, layer, items, bias):
    """Sum over rows of sum over items of z_1 - z_k."""
    z = torch.bmm(F.embedding(items, layer.weight).to(h.dtype), h.unsqueeze(2)).squeeze(2).float()
    if bias is not None:
        z = z + bias[items]
    return (z[:, :1] - z).sum()


def likelihood(model, items, with_bias, first_of):
    """The loss; first_of(h, weight, bias, first items), all in one format, is the sum over rows of lse - z_1."""
    h, layer = model.hidden(items), model.rest[-1]
    kind = torch.bfloat16 if torch.is_autocast_enabled() else h.dtype
    h = h.to(kind)
    bias = layer.bias if with_bias else None
    first = first_of(h, layer.weight.to(kind), None if bias is None else bias.to(kind), items[:, 0].contiguous())
    return (first.float() * items.shape[1] + rest_of_items(h, layer, items, bias)) / len(items)


def cce(model, items, shape):
    from cut_cross_entropy import linear_cross_entropy

    return likelihood(model, items, False, lambda h, weight, bias, first: linear_cross_entropy(
        h, weight, first, reduction="sum", filter_eps=None))


def liger_chunks(model, items, shape):
    from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction

    def first_of(h, weight, bias, first):
        budget = max(1, shape.width * ROWS_OF_LIGER // (len(items) * h.shape[1]))
        return LigerFusedLinearCrossEntropyFunction.apply(
            h, weight, first, bias, None, -100, 0.0, 0.0, "sum", None, False, None, False, False, False, None, None, budget)[0]

    return likelihood(model, items, True, first_of)


def liger_hopper(model, items, shape):
    from liger_kernel.ops.cutedsl.ops.fused_linear_cross_entropy_sm90 import LigerFusedLinearCrossEntropySM90Function

    return likelihood(model, items, False, lambda h, weight, bias, first: LigerFusedLinearCrossEntropySM90Function.apply(
        h, weight, first, -100, "sum"))


def liger_scaled(model, items, shape):
    from liger_kernel.ops.cutedsl.ops.fused_scaled_cross_entropy_sm90 import LigerFusedScaledCrossEntropySM90Function

    return likelihood(model, items, False, lambda h, weight, bias, first: LigerFusedScaledCrossEntropySM90Function.apply(
        h, weight, first).sum())


LOSSES = {"cce": "cut_cross_entropy", "liger": "liger_kernel", "liger_scaled": "liger_kernel"}  # and the package of each


def why_not_hopper(precision):
    """Why Liger's CuTe DSL kernels cannot be had, or "" where they can."""
    if not precision.startswith("bf16"):
        return "bf16 only"
    if importlib.util.find_spec("cutlass") is None:
        return "nvidia-cutlass-dsl is not installed"
    return "" if torch.cuda.get_device_capability() == (9, 0) else "Hopper only"


def function(variant, precision, shape, batch):
    """The loss, and which of its kernels it is where there are several; throws Unsupported where it cannot be had."""
    if importlib.util.find_spec(LOSSES[variant]) is None:
        raise gpu_common.Unsupported("not installed")
    if variant == "cce" and not precision.startswith("bf16"):
        raise gpu_common.Unsupported("bf16 only")
    if variant == "cce":
        return cce, ""
    reason = why_not_hopper(precision)
    if variant == "liger_scaled" and reason:
        raise gpu_common.Unsupported(reason)
    if variant == "liger_scaled":
        return liger_scaled, "CuTe DSL, scaled"
    whole = batch % HOPPER_TILE[0] == 0 and shape.width % HOPPER_TILE[1] == 0
    return (liger_hopper, "CuTe DSL") if whole and not reason else (liger_chunks, "chunks of rows")


def verify(loss_of, precision, device="cuda", batch=128):
    """Loss and gradients of a small network against autograd in float64."""
    import pytorch_gpu

    items = gpu_common.make_batches(SMALL, batch, device, count=1)[0]
    models = [pytorch_gpu.Autoencoder(SMALL, 0.0, device) for _ in range(2)]
    models[1].double()
    if precision == "bf16_weights":
        models[0].bfloat16()
    with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
        loss = loss_of(models[0], items, SMALL)
    exact = pytorch_gpu.loss_of(models[1], items, SMALL)
    loss.backward()
    exact.backward()
    name_of_loss = loss_of.__name__
    if not abs(loss.item() / exact.item() - 1.0) < pytorch_gpu.TOLERANCE[precision]:
        raise RuntimeError(f"{name_of_loss}: the loss is {loss.item()}, float64 says {exact.item()}")
    worst = 0.0
    for (name, mine), theirs in zip(models[0].named_parameters(), models[1].parameters()):
        if mine.grad is None and name == "rest.0.bias":
            continue
        difference = float((mine.grad - theirs.grad).norm() / theirs.grad.norm())
        if not difference < TOLERANCE[precision]:
            raise RuntimeError(f"{name_of_loss}: the gradient of {name} differs from float64's by {difference:.2e}")
        worst = max(worst, difference)
    return worst
