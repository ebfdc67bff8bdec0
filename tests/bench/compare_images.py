#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Norn beside PyTorch on the same cores, on networks of images: the same descriptor, data, initial distributions and optimizer.

  tests/bench/compare_images.py accuracy --data ../shared/data --torch VENV/bin/python     Precision@1 of strawman and mnist
  tests/bench/compare_images.py speed --data ../shared/data --torch VENV/bin/python        images a second, in turn
  ... --networks mnist --seeds 1 --epochs 1 --rounds 1                                     less of it

--data: a folder with mnist (idx files, xz) and cifar100_subset (pack_images.py and what it packed). --torch: a Python that has torch;
peers/pytorch_images.py makes its network from the descriptor that Norn's model holds, sizes and all. PyTorch is timed in both orders of
memory, and the faster one counts. Runs with /usr/bin/python3, needs NumPy, netCDF4 and the preset cpu. A quiet machine gives better
figures."""
import argparse
import json
import lzma
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import typing

import netCDF4
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration"))
from norn_files import write_datasets  # noqa: E402

PEER = ROOT / "tests/bench/peers/pytorch_images.py"
ADAM = ["--optimizer", "Adam", "--lambda", "0.0001"]
RATE = "0.0003"  # of Adam; with 0.001 the units of strawman die in the first steps of some seeds, Norn's and PyTorch's


class Case(typing.NamedTuple):
    network: str
    options: list       # for the settings that it does not have
    data: str
    names: tuple        # of the data sets
    epochs: int         # to learn
    learnt: list        # options to learn with
    images: int | None  # to be timed with; None: all
    timed: list         # options to be timed with


NETWORKS = {
    "strawman": Case("configs/dsstne/strawman.json", ADAM, "cifar100_subset", ("input", "output"), 10, ["--batch", "128"], 1280,
                     ["--batch", "256"]),
    "mnist": Case("configs/recipes/mnist.json", [], "mnist", ("digits_input", "digits_output"), 10, [], None, []),
}
TIMED_EPOCHS = 3  # of a run; the first does not count


def read_idx(path):
    content = lzma.decompress(path.read_bytes())
    axes = content[3]
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(np.frombuffer(content, ">u4", axes, 4))


def read_mnist(folder):
    for part in ("train", "t10k"):
        images = read_idx(folder / f"{part}-images-idx3-ubyte.xz")
        yield images[:, None], read_idx(folder / f"{part}-labels-idx1-ubyte.xz")


def read_cifar100(folder):
    for part in ("train", "test"):
        with tempfile.TemporaryDirectory() as there:
            unpacked = pathlib.Path(there, "records.bin")
            subprocess.run([sys.executable, folder / "pack_images.py", "unpack", folder / f"subset_{part}.medz", unpacked], check=True)
            records = np.fromfile(unpacked, np.uint8).reshape(-1, 2 + 3 * 32 * 32)
        yield records[:, 2:].reshape(-1, 3, 32, 32), records[:, 1]


class Data:
    """Images [N, channels, y, x] and classes, in files of both sides."""

    def __init__(self, name, names, folder, out):
        self.names = names
        read = {"mnist": read_mnist, "cifar100_subset": read_cifar100}[name]
        (self.images, self.classes), self.test = read(folder / name)
        self.folder = out / name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.count = int(self.classes.max()) + 1

    def write(self, limit):
        """The first `limit` images (None: all) to train on: (train.nc, test.nc, peer.npz)."""
        train, test, peer = (self.folder / f"{limit or 'all'}.{end}" for end in ("train.nc", "test.nc", "npz"))
        images, classes = self.images[:limit], self.classes[:limit]
        np.savez(peer, images=images, classes=classes, test_images=self.test[0], test_classes=self.test[1])
        for path, pixels, labels in ((train, images, classes), (test, *self.test)):
            extent = list(pixels.shape[:0:-1])  # x, y, channels; x fastest
            write_datasets(path, [(self.names[0], extent, pixels.reshape(len(pixels), -1), None),
                                  (self.names[1], self.count, [[int(label)] for label in labels], None)])
        return train, test, peer


def run_program(command, environment=None):
    """What it says on stdout."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout


class Norn:
    def __init__(self, network, options, folder):
        self.network, self.options, self.folder = network, options, folder
        self.programs = pathlib.Path(os.environ.get("NORN_BIN", ROOT / "build/cpu/bin"))

    def train(self, train, epochs, seed):
        """Seconds of each epoch; the model is self.model."""
        self.model = self.folder / "model.nc"
        run = self.folder / f"run.{seed}"
        subprocess.run(["rm", "-rf", run], check=True)
        command = [self.programs / "trainer", "-c", ROOT / self.network, "-i", train, "-n", self.model, "--force", "--epochs", epochs,
                   "--seed", seed, "--run-dir", run, *self.options]
        run_program(command)
        events = map(json.loads, (run / "log.jsonl").read_text().splitlines())
        return [event["seconds"] for event in events if event["event"] == "epoch"]

    def precision(self, test):
        said = run_program([self.programs / "evaluator", "--model", self.model, "--data", test, "--top", "1", "--format", "json"])
        return json.loads(said)["model"][0]["Precision"]

    def descriptor(self):
        """With all sizes and settings, as a peer needs them."""
        with netCDF4.Dataset(self.model) as file:
            return json.loads(file.getncattr("norn_descriptor"))


def torch_run(args, descriptor, peer, epochs, seed, *more):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(descriptor, file)
        file.flush()
        command = [args.torch, PEER, file.name, peer, "--epochs", epochs, "--seed", seed, *more]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        return json.loads(run_program(command, environment).splitlines()[-1])


def measure_accuracy(args, name, norn, data, descriptor_of):
    """Precision@1 of both, seed by seed."""
    epochs = args.epochs or NETWORKS[name].epochs
    train, test, peer = data.write(None)
    found = {"Norn": [], "PyTorch": []}
    for seed in args.seeds:
        norn.train(train, epochs, seed)
        found["Norn"].append(norn.precision(test))
        found["PyTorch"].append(torch_run(args, descriptor_of(), peer, epochs, seed, "--channels-last", "--device",
                                          args.torch_device)["precision"])
        last = ", ".join(f"{side} {values[-1]:.4f}" for side, values in found.items())
        print(f"{name}, seed {seed}, {epochs} epochs: Precision@1 {last}", flush=True)
    means = {side: statistics.mean(values) for side, values in found.items()}
    print(f"{name}: mean of {len(args.seeds)}: Norn {means['Norn']:.4f}, PyTorch {means['PyTorch']:.4f}, "
          f"{100 * (means['Norn'] - means['PyTorch']):+.2f} points", flush=True)


def measure_speed(args, name, norn, data, descriptor_of):
    """Images a second of both in turn, and seconds of an epoch: medians over the rounds of the last epochs of each run."""
    images = NETWORKS[name].images
    epochs = args.epochs or TIMED_EPOCHS
    train, _, peer = data.write(images)
    count = images or len(data.images)
    seconds = {"Norn": [], "PyTorch": [], "PyTorch, channels last": []}
    for number in range(args.rounds):
        seconds["Norn"].append(statistics.median(norn.train(train, epochs, 1)[1:]))
        for side, more in (("PyTorch", []), ("PyTorch, channels last", ["--channels-last"])):
            run = torch_run(args, descriptor_of(), peer, epochs, 1, "--no-test", *more)
            seconds[side].append(statistics.median(run["seconds"][1:]))
        print(f"{name}, round {number + 1}: " + ", ".join(f"{side} {values[-1]:.2f} s" for side, values in seconds.items()), flush=True)
    rates = {side: [count / one for one in values] for side, values in seconds.items()}
    for side, values in rates.items():
        print(f"{name}: {side}: {statistics.median(values):.1f} images/s ({min(values):.1f}-{max(values):.1f}), an epoch of {count} in "
              f"{statistics.median(seconds[side]):.2f} s")
    best = max(statistics.median(values) for side, values in rates.items() if side != "Norn")
    print(f"{name}: Norn / PyTorch {statistics.median(rates['Norn']) / best:.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("accuracy", "speed"))
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--torch", required=True)
    parser.add_argument("--torch-device", default="cpu", help="where PyTorch learns, for accuracy [cpu]")
    parser.add_argument("--networks", type=lambda text: text.split(","), default=list(NETWORKS))
    parser.add_argument("--seeds", type=lambda text: [int(word) for word in text.split(",")], default=[1, 2, 3])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=0)
    parser.add_argument("--rate", default=RATE, help=f"of networks without settings [{RATE}]")
    args = parser.parse_args()
    if args.what == "speed":
        os.environ.pop("OPENBLAS_CORETYPE", None)  # both find out the processor
    for name in args.networks:
        case = NETWORKS[name]
        settings = [*case.options, "--rate", args.rate] if case.options else []
        with tempfile.TemporaryDirectory() as folder:
            data = Data(case.data, case.names, args.data, pathlib.Path(folder))
            norn = Norn(case.network, settings + (case.timed if args.what == "speed" else case.learnt), pathlib.Path(folder))
            (measure_accuracy if args.what == "accuracy" else measure_speed)(args, name, norn, data, norn.descriptor)


if __name__ == "__main__":
    main()
