# SPDX-License-Identifier: Apache-2.0
"""Networks of images on several GPUs of a machine by PyTorch's DistributedDataParallel, as a user who wants speed would train them.

  train_bench --shape vgg16 --batch 256 --write-network vgg16.json
  python pytorch_images_ddp.py vgg16.json --shape vgg16 --gpus 2

Network, data and precisions are those of pytorch_images_gpu.py; a batch is that of all GPUs together. Eager steps choose among buckets
of 25 and 100 MB and gradients that are float32 (autocast), float32 sent in bfloat16, or bfloat16 as the weights are; then the fastest
is compiled. With static_graph and gradient_as_bucket_view. Prints one JSON line a configuration: the first GPU's time, for which
all meet."""
import argparse
import itertools
import json
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

import gpu_common
import pytorch_images_gpu

GRADIENTS = {"float32": "bf16", "sent in bfloat16": "bf16", "bfloat16": "bf16_weights"}  # and the precision of their network
BUCKETS_MB = (25, 100)
WARMUP = 6  # the first steps put gradients into buckets


class Training(pytorch_images_gpu.Training):
    def __init__(self, network, gradients, bucket, variant, device):
        super().__init__(network, GRADIENTS[gradients], variant, device)
        self.trained = DistributedDataParallel(self.model, bucket_cap_mb=bucket, gradient_as_bucket_view=True, static_graph=True)
        if gradients == "sent in bfloat16":
            self.trained.register_comm_hook(None, default_hooks.bf16_compress_hook)

    def autocast(self):
        return torch.autocast("cuda", torch.bfloat16, enabled=self.precision == "bf16")


def agreed(count):
    """What the first process says."""
    said = torch.tensor([count], device="cuda")
    dist.broadcast(said, 0)
    return int(said)


def measure(args, network, gradients, bucket, variant):
    device = torch.device("cuda", torch.cuda.current_device())
    images, labels = pytorch_images_gpu.make_data(network, args.batch // args.gpus, pytorch_images_gpu.BATCHES, device)
    training = Training(network, gradients, bucket, variant, device)
    training.check(images[0][:pytorch_images_gpu.CHECKED])
    torch.backends.cudnn.benchmark = True
    result = gpu_common.timed(lambda i: training(images[i % len(images)], labels[i % len(images)]), args.batch, args, WARMUP, agreed)
    first, last = float(training.losses[0]), float(training.losses[-1])
    if not last < first:
        raise RuntimeError(f"the loss does not fall: {first} to {last}")
    return result | {"batches": len(images), "first_loss": first, "last_loss": last}


def train(rank, args, network):
    """What each GPU's process does."""
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{args.port}", rank=rank, world_size=args.gpus)
    gpu_common.set_precision("fp32")
    fine, rates = True, {}

    def run(configuration, variant):
        gradients, bucket = configuration
        torch._dynamo.reset()
        result = {"peer": gpu_common.peer_name(), "program": "pytorch_images_ddp", "shape": args.shape, "variant": variant,
                  "precision": "bf16", "gradients": gradients, "bucket_mb": bucket, "gpus": args.gpus,
                  "optimizer": network["Training"].get("Optimizer", "SGD"), "batch": args.batch}
        went_well = gpu_common.run(args, result, lambda: measure(args, network, gradients, bucket, variant))
        rates[configuration] = result.get("samples_per_second", 0.0)
        return went_well

    if rank > 0:
        gpu_common.report = lambda *_: None
    configurations = list(itertools.product(GRADIENTS, BUCKETS_MB))
    for configuration in configurations:
        fine &= run(configuration, "eager")
    best = agreed(max(range(len(configurations)), key=lambda i: rates[configurations[i]]))
    fine &= run(configurations[best], "compile")
    dist.destroy_process_group()
    if not fine:
        sys.exit(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", help="a descriptor with all sizes")
    parser.add_argument("--shape", default="", help="what to call it")
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--port", type=int, default=29500, help="where the processes meet")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long to time a configuration")
    parser.add_argument("--json", help="append the lines to this file too")
    args = parser.parse_args()
    gpu_common.need_gpu()
    if torch.cuda.device_count() < args.gpus:
        sys.exit(f"pytorch_images_ddp: {args.gpus} GPUs are wanted, and {torch.cuda.device_count()} are here")
    with open(args.network, encoding="utf-8") as file:
        network = json.load(file)
    args.batch = network["Training"].get("Batch", 1024)
    if args.batch % args.gpus:
        sys.exit(f"pytorch_images_ddp: {args.gpus} GPUs cannot have equal parts of a batch of {args.batch}")
    os.environ["NCCL_NVLS_ENABLE"] = "0"
    torch.multiprocessing.spawn(train, (args, network), nprocs=args.gpus)


if __name__ == "__main__":
    main()
