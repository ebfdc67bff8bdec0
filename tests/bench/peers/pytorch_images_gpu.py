# SPDX-License-Identifier: Apache-2.0
"""Networks of images in PyTorch on a GPU, from Norn's descriptor (pytorch_images.py), as a user who wants speed would train them.

  train_bench --shape vgg16 --write-network vgg16.json
  python pytorch_images_gpu.py vgg16.json --shape vgg16 --precision bf16_weights,bf16 --variant eager,compile,deterministic

Channels last, cudnn.benchmark, a fused optimizer, images of random bytes that stand on the GPU. bf16 is autocast; bf16_weights holds
the weights themselves in bf16. Of several precisions the one that is fastest in eager is used for the other variants. deterministic:
compiled, with torch.use_deterministic_algorithms and without cudnn.benchmark; operations that have no deterministic form are listed.
Outputs are compared with float64 before anything is timed. Prints one JSON line a configuration."""
import copy
import json
import math
import os
import re
import sys
import warnings

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch  # noqa: E402: cuBLAS reads the setting when it starts
import torch.nn.functional as F  # noqa: E402

import gpu_common  # noqa: E402
import pytorch_images  # noqa: E402

VARIANTS = ["eager", "compile", "deterministic"]
TOLERANCE = {"tf32": 0.02, "bf16": 0.1, "bf16_weights": 0.1}  # of logits, relative to their size
BATCHES = 4  # that a run rotates
CHECKED = 4  # images


def make_data(network, batch, batches, device):
    """Images of random bytes, channels last, and classes; class i is drawn about as often as 1 / (i + 10)."""
    generator = torch.Generator(device=device).manual_seed(7)
    x, y, channels = network["Layers"][0]["N"]
    classes = network["Layers"][-1]["N"]
    count = batch * batches
    images = torch.randint(0, 256, (count, channels, y, x), generator=generator, device=device, dtype=torch.uint8)
    u = torch.rand(count, generator=generator, device=device, dtype=torch.float64)
    labels = (10.0 * torch.exp(u * math.log((classes + 10.0) / 10.0)) - 10.0).long().clamp_(0, classes - 1)
    return images.contiguous(memory_format=torch.channels_last).split(batch), labels.split(batch)


def logits_of(model, images):
    kind = next(model.parameters()).dtype
    return model(images.to(kind) / 256 - 0.5)


def loss_of(model, images, labels):
    return F.cross_entropy(logits_of(model, images).float(), labels)


class Training:
    """step(images, labels) trains on a batch; the losses so far are in .losses."""

    def __init__(self, network, precision, variant, device="cuda"):
        self.precision, self.device, self.losses = precision, device, []
        torch.manual_seed(1)
        self.model = pytorch_images.modules_of(network).to(device).to(memory_format=torch.channels_last)
        if precision == "bf16_weights":
            self.model = self.model.bfloat16()
        self.trained = self.model  # as it is called in a step
        training = {"Lambda": 1e-4, "Optimizer": "SGD"} | network["Training"]
        self.optimizer = pytorch_images.optimizer_of(self.model, training, fused=True)
        self.function = loss_of if variant == "eager" else torch.compile(loss_of)

    def autocast(self):
        return torch.autocast(self.device, torch.bfloat16, enabled=self.precision == "bf16")

    def __call__(self, images, labels):
        with self.autocast():
            loss = self.function(self.trained, images, labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.detach())

    def check(self, images):
        """Logits without dropout against those in float64, each less what an image's logits have in common."""
        self.model.eval()
        with torch.no_grad():
            exact = logits_of(copy.deepcopy(self.model).double(), images)
            with self.autocast():
                own = logits_of(self.model, images).double()
        self.model.train()
        own, exact = (z - z.mean(1, keepdim=True) for z in (own, exact))
        apart = float((own - exact).square().mean().sqrt() / exact.square().mean().sqrt())
        if not apart <= TOLERANCE[self.precision]:
            raise RuntimeError(f"logits are {apart:.2g} of their size off float64's")


def first_step(training, images, labels):
    """What a step does that has no deterministic form."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        training(images, labels)
        torch.cuda.synchronize()
    named = (re.match(r"(\S+) does not have a deterministic implementation", str(w.message)) for w in caught)
    return sorted({name.group(1) for name in named if name})


def measure(args, network, precision, variant):
    gpu_common.set_precision("tf32" if precision == "tf32" else "fp32")
    torch.backends.cudnn.benchmark = False
    images, labels = make_data(network, args.batch, BATCHES, "cuda")
    training = Training(network, precision, variant)
    training.check(images[0][:CHECKED])
    torch.backends.cudnn.benchmark = variant != "deterministic"
    torch.use_deterministic_algorithms(variant == "deterministic", warn_only=True)
    try:
        others = first_step(training, images[0], labels[0])
        result = gpu_common.timed(lambda i: training(images[i % BATCHES], labels[i % BATCHES]), args.batch, args, warmup=4)
    finally:
        torch.use_deterministic_algorithms(False)
    first, last = float(training.losses[0]), float(training.losses[-1])
    if not last < first:
        raise RuntimeError(f"the loss does not fall: {first} to {last}")
    result |= {"batches": BATCHES, "first_loss": first, "last_loss": last}
    return result | ({"not_deterministic": others} if others else {})


def main():
    parser, _ = gpu_common.argument_parser(__doc__, VARIANTS, list(TOLERANCE), shapes=None)
    parser.add_argument("network", help="a descriptor with all sizes")
    parser.add_argument("--shape", default="", help="what to call it")
    args = parser.parse_args()
    gpu_common.need_gpu()
    with open(args.network, encoding="utf-8") as file:
        network = json.load(file)
    args.batch = args.batch or network["Training"].get("Batch", 1024)
    fine, rates = True, {}

    def run(precision, variant):
        torch._dynamo.reset()
        result = {"peer": gpu_common.peer_name(), "program": "pytorch_images_gpu", "shape": args.shape, "variant": variant,
                  "precision": precision, "optimizer": network["Training"].get("Optimizer", "SGD"), "batch": args.batch}
        went_well = gpu_common.run(args, result, lambda: measure(args, network, precision, variant))
        rates.setdefault(precision, result.get("samples_per_second", 0.0))
        return went_well

    precisions, variants = args.precision, args.variant
    if "eager" in variants or len(precisions) > 1:
        for precision in precisions:
            fine &= run(precision, "eager")
        precisions = [max(precisions, key=rates.get)]
    for variant in variants:
        if variant != "eager":
            fine &= run(precisions[0], variant)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
