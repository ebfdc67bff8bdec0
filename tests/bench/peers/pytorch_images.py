# SPDX-License-Identifier: Apache-2.0
"""A network of images in PyTorch, made from Norn's descriptor: Convolutional, Pooling (Max, Average, LRN) and FullyConnected layers in a
chain, with its initial weights, its dropout, its optimizer (docs/user/numerics.md).

  python pytorch_images.py NETWORK.json DATA.npz --epochs 10 --seed 1 [--channels-last] [--device cuda]

NETWORK.json: as a model of Norn's has it, sizes and all. DATA.npz: images [N, channels, y, x] and test_images of bytes, classes and
test_classes. Prints a line of JSON: seconds of each epoch, and the share of the test images whose class comes first. On a GPU it
computes in float32 and copies its data batch by batch: for the share, not the time."""
import argparse
import json
import math
import time

import numpy as np
import torch
import torch.nn.functional as F

EXAMPLES_OF_TEST = 250


def listed(value):
    return value if isinstance(value, list) else [value]


class Windows(torch.nn.Module):
    """What a window's layer reads, with the padding that Norn's windows have."""

    def __init__(self, layer, source, outside=0.0):
        super().__init__()
        self.kernel, self.stride = layer["Kernel"][::-1], (layer.get("KernelStride") or [1] * len(layer["Kernel"]))[::-1]
        self.outside, self.padding = outside, []
        for width, kernel, stride in zip(source[::-1][1:], self.kernel, self.stride):
            total = max(0, kernel - width) if width <= kernel else kernel - 1 if stride == 1 else 0
            self.padding = [(total + 1) // 2, total // 2] + self.padding  # from x on
        if len(set(self.padding)) == 1 and outside == 0.0:
            self.same, self.padding = self.padding[0], [0]
        else:
            self.same = 0

    def read(self, x):
        return F.pad(x, self.padding, value=self.outside) if any(self.padding) else x


class Convolution(Windows):
    def __init__(self, layer, source):
        super().__init__(layer, source)
        kind = (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)[len(self.kernel) - 1]
        self.of = kind(source[-1], layer["N"][-1], self.kernel, self.stride, padding=self.same)
        taps = math.prod(self.kernel)
        start(self.of, layer, source[-1] * taps, layer["N"][-1] * taps)

    def forward(self, x):
        return self.of(self.read(x))


class Pooling(Windows):
    def __init__(self, layer, source):
        super().__init__(layer, source, -math.inf)
        if any(self.padding) and layer["Function"] != "Max":
            raise SystemExit("pytorch_images: an Average over padding is not written here")
        self.function = {"Max": F.max_pool2d, "Average": F.avg_pool2d}[layer["Function"]]

    def forward(self, x):
        return self.function(self.read(x), self.kernel, self.stride)


class Full(torch.nn.Module):
    def __init__(self, layer, source):
        super().__init__()
        inputs = math.prod(source)
        self.of = torch.nn.Linear(inputs, layer["N"])
        start(self.of, layer, inputs, layer["N"])

    def forward(self, x):
        return self.of(x.flatten(1))


def start(module, layer, inputs, outputs):
    """Initial weights and biases, by WeightInit."""
    keys = {"Scheme": "Xavier", "Scale": 1.0, "Bias": 0.0} | layer.get("WeightInit", {})
    if keys["Scheme"] == "Gaussian":
        torch.nn.init.normal_(module.weight, 0.0, keys["Scale"])
    elif keys["Scheme"] == "Xavier":
        bound = keys["Scale"] * math.sqrt(6 / (inputs + outputs))
        torch.nn.init.uniform_(module.weight, -bound, bound)
    else:
        raise SystemExit(f"pytorch_images: the initial weights {keys['Scheme']} are not written here")
    torch.nn.init.constant_(module.bias, keys["Bias"])


def modules_of(network):
    """Up to the logits. Of a chain: each layer reads the one before it."""
    layers, modules = network["Layers"], []
    for before, layer in zip(layers, layers[1:]):
        source = listed(before["N"])
        if listed(layer.get("Source", before["Name"])) != [before["Name"]] or "Skip" in layer:
            raise SystemExit(f"pytorch_images: layer \"{layer['Name']}\" is not behind the one before it alone")
        if layer.get("Function") == "LRN":
            lrn = {"k": 2.0, "n": 5, "alpha": 1e-4, "beta": 0.75} | network.get("LocalResponseNormalization", {})
            modules.append(torch.nn.LocalResponseNorm(int(lrn["n"]), lrn["alpha"], lrn["beta"], lrn["k"]))
            continue
        if layer.get("Type") == "Pooling":
            modules.append(Pooling(layer, source))
            continue
        convolves = layer.get("Type") == "Convolutional"
        modules.append(Convolution(layer, source) if convolves else Full(layer, source))
        if layer.get("BatchNormalization"):
            channels = listed(layer["N"])[-1]
            kind = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d)[max(0, len(layer.get("Kernel", [1])) - 1)]
            modules.append(kind(channels, eps=1e-5, momentum=0.1))
        if layer["Kind"] == "Output":
            break
        modules.append({"Relu": torch.nn.ReLU, "Tanh": torch.nn.Tanh, "Sigmoid": torch.nn.Sigmoid,
                        "Linear": torch.nn.Identity}[layer["Activation"]]())
        if layer.get("pDropout"):
            modules.append(torch.nn.Dropout(layer["pDropout"]))
    return torch.nn.Sequential(*modules)


def optimizer_of(model, training, **more):
    """Biases and batch normalisation are not regularised."""
    weights = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": weights, "weight_decay": training["Lambda"]}, {"params": others, "weight_decay": 0.0}]
    rate, mu = training["Alpha"], training.get("Mu", 0.9)
    word = training["Optimizer"]
    if word in ("Adam", "AdamW"):
        kind = torch.optim.Adam if word == "Adam" else torch.optim.AdamW
        return kind(groups, lr=rate, betas=(mu, training.get("Mu1", 0.999)), eps=1e-8, **more)
    if word in ("SGD", "Momentum", "Nesterov"):
        return torch.optim.SGD(groups, lr=rate, momentum=0.0 if word == "SGD" else mu, nesterov=word == "Nesterov", **more)
    raise SystemExit(f"pytorch_images: the optimizer {word} is not written here")


def rate_of(training, epoch, epochs):
    schedule = training.get("RateSchedule", "Constant")
    if schedule == "Constant":
        return training["Alpha"]
    if schedule == "Cosine":
        return training["Alpha"] * (1 + math.cos(math.pi * epoch / epochs)) / 2
    raise SystemExit(f"pytorch_images: the schedule {schedule} is not written here")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network")
    parser.add_argument("data")
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--no-test", action="store_true", help="measure no precision")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    if args.threads:
        torch.set_num_threads(args.threads)
    with open(args.network, encoding="utf-8") as file:
        network = json.load(file)
    data = np.load(args.data)
    training = {"Lambda": 1e-4, "Batch": 1024, "Alpha": 0.025, "Optimizer": "SGD"} | network["Training"]
    torch.backends.cudnn.allow_tf32 = False
    model = modules_of(network).to(args.device)
    images = torch.from_numpy(data["images"])
    test = torch.from_numpy(data["test_images"])
    if args.channels_last:
        model = model.to(memory_format=torch.channels_last)
        images = images.contiguous(memory_format=torch.channels_last)
    classes = torch.from_numpy(data["classes"].astype(np.int64))
    optimizer = optimizer_of(model, training)
    scaled = lambda x: x.float() / 256 - 0.5
    seconds = []
    for epoch in range(args.epochs):
        for group in optimizer.param_groups:
            group["lr"] = rate_of(training, epoch, args.epochs)
        begin = time.perf_counter()
        model.train()
        for rows in torch.randperm(len(images)).split(training["Batch"]):
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(model(scaled(images[rows].to(args.device))), classes[rows].to(args.device)).backward()
            optimizer.step()
        seconds.append(time.perf_counter() - begin)
    model.eval()
    right, test = 0, test[:0] if args.no_test else test
    with torch.no_grad():
        for first in range(0, len(test), EXAMPLES_OF_TEST):
            found = model(scaled(test[first:first + EXAMPLES_OF_TEST].to(args.device))).argmax(dim=1).cpu().numpy()
            right += int((found == data["test_classes"][first:first + EXAMPLES_OF_TEST]).sum())
    print(json.dumps({"seconds": seconds, "precision": right / max(1, len(test)), "examples": len(images)}))


if __name__ == "__main__":
    main()
