# SPDX-License-Identifier: Apache-2.0
"""Whole files of every kind, made once by the programs themselves, for the attacks to spoil."""
import gzip
import json
import shutil

import netCDF4
import numpy as np

from cases import BIN, SOURCE, Case
from datasets import write_sets
from norn_files import write_datasets, write_index

EXAMPLES, WIDTH = 130, 41
NETWORK = {
    "Name": "attacked", "ErrorFunction": "CrossEntropy", "ShuffleIndices": True, "Denoising": {"p": 0.25},
    "Training": {"Optimizer": "Adam", "Alpha": 0.01, "Batch": 32, "Epochs": 2, "Lambda": 0.0001},
    "Layers": [
        {"Name": "Input", "Kind": "Input", "N": "auto", "DataSet": "s_input", "Sparse": True},
        {"Name": "Hidden", "Kind": "Hidden", "N": 7, "Activation": "Tanh", "pDropout": 0.1},
        {"Name": "Output", "Kind": "Output", "N": "auto", "DataSet": "s_output", "Activation": "Sigmoid"}]}
TRAIN = ("trainer", "-c", "net.json", "-i", "train.nc", "-n", "out.nc", "-e", "2", "--threads", "1")


def write_texts(case, rows):
    labels = [f"unit{u}" for u in range(WIDTH)]

    def lines(values=False):
        for e, row in enumerate(rows):
            yield f"ex{e}\t" + ":".join(labels[u] + (f",{u / 7 + 0.5:.3f}" if values else "") for u in row) + "\n"
    case.path("train.txt").write_text("".join(lines()))
    case.path("values.txt").write_text("".join(lines(True)))
    case.path("allow.txt").write_text("".join(f"{label}\n" for label in labels[::2]))
    case.path("train.libsvm").write_text("".join(f"{e % 5} " + " ".join(f"{u}:{u / 3 + 1:.4g}" for u in row) + "\n"
                                                 for e, row in enumerate(rows)))
    case.path("train.csv").write_text("user,item,value\n" + "".join(f'"u{e}",{labels[u]},{u + 0.5}\n'
                                                                    for e, row in enumerate(rows) for u in row))
    with gzip.GzipFile(case.path("train.txt.gz"), "wb", mtime=0) as file:
        file.write("".join(lines()).encode())


def strip_seal(path):
    """Makes a model one that another program wrote: no checksums, and of DSSTNE's layout when `norn_format` goes, too."""
    with netCDF4.Dataset(path, "a") as file:
        if "norn_sealed" in file.ncattrs():
            file.delncattr("norn_sealed")
        for variable in file.variables.values():
            if "crc32" in variable.ncattrs():
                variable.delncattr("crc32")


def write_other_sets(case, random):
    """Dense, indexed, weighted and valued sets, and class labels, in one file, and a network that reads them all."""
    draw = np.random.default_rng(random.randrange(2**32))
    write_sets(case.path("mixed.nc"), [
        {"name": "dense", "width": 9, "dense": draw.normal(size=(EXAMPLES, 9)).astype(np.float32)},
        {"name": "bytes", "width": 6, "dense": draw.integers(0, 256, (17, 6)).astype(np.uint8),
         "index": draw.integers(0, 17, EXAMPLES)},
        {"name": "valued", "width": 23, "rows": [sorted(random.sample(range(23), 3)) for _ in range(EXAMPLES)],
         "values": draw.normal(size=(EXAMPLES, 3)), "weights": draw.uniform(0.5, 2, EXAMPLES)},
        {"name": "classes", "width": 5, "classes": draw.integers(0, 5, EXAMPLES)}])
    inputs = [{"Name": name, "Kind": "Input", "DataSet": name, "N": "auto"} for name in ("dense", "bytes", "valued")]
    network = {**NETWORK, "Layers": [*inputs, {"Name": "H", "N": 5, "Activation": "Tanh", "Source": [i["Name"] for i in inputs]},
                                     {"Name": "Out", "Kind": "Output", "DataSet": "classes", "N": "auto", "Activation": "SoftMax"}]}
    case.path("mixed.json").write_text(json.dumps(network))


def make(folder, seed):
    """The folder of whole files; the same seed gives the same ones."""
    case = Case(folder, "material", seed, 0)
    rows = [sorted(case.random.sample(range(WIDTH), case.random.randint(1, 7))) for _ in range(EXAMPLES)]
    rows[0] = list(range(WIDTH))  # every unit has a name
    write_texts(case, rows)
    write_datasets(case.path("plain.nc"), [("s_input", WIDTH, rows, None), ("s_output", WIDTH, rows, None)])
    write_other_sets(case, case.random)
    write_index(case.path("labels"), [f"unit{u}" for u in range(WIDTH)])
    case.path("net.json").write_text(json.dumps(NETWORK))
    case.succeed("importer", "--input", "train.txt", "--name", "s", "--output", "train.nc", "--features", "features")
    case.succeed("trainer", "-c", "net.json", "-i", "train.nc", "-n", "model.nc", "-e", "2", "--checkpoint-epochs", "1", "--run-dir",
                 "run", "--threads", "1")
    case.succeed("trainer", "-c", "net.json", "-i", "train.nc", "-n", "part.nc", "-e", "1", "--checkpoint-minutes", "1e-9",
                 "--checkpoint-epochs", "0", "--keep", "0", "--threads", "1")
    case.succeed("trainer", "-c", "mixed.json", "-i", "mixed.nc", "-n", "mixed_model.nc", "-e", "1", "--threads", "1")
    case.path("model.epoch1.nc").rename(case.path("checkpoint.nc"))
    case.path("part.epoch0.batch2.nc").rename(case.path("within.nc"))
    for name, source in (("bare.nc", "model.nc"), ("bare_checkpoint.nc", "checkpoint.nc"), ("dsstne.nc", "model.nc")):
        shutil.copyfile(case.path(source), case.path(name))
        strip_seal(case.path(name))
    with netCDF4.Dataset(case.path("dsstne.nc"), "a") as file:
        for name in [name for name in file.ncattrs() if name.startswith("norn_")]:
            file.delncattr(name)
    case.path("train.cdl").write_text(json.dumps({
        "Version": 0.8, "Command": "train", "RandomSeed": 12, "Network": "net.json", "Data": "train.nc", "TrainingParameters": {
            "Epochs": 1, "MiniBatch": 32, "Alpha": 0.02, "Lambda": 0.0001, "mu": 0.5, "CheckpointName": "check",
            "CheckpointInterval": 2, "ShuffleIndices": False, "Results": "out.nc", "Optimizer": "Nesterov"}}))
    case.path("predict.cdl").write_text(json.dumps({
        "Version": 0.8, "Command": "Predict", "Network": "model.nc", "Data": "train.nc",
        "PredictionParameters": {"Results": "out.txt"}}))
    machine = (SOURCE / "configs/machines/h200.json").read_text()
    case.path("machine.json").write_text("".join(line for line in machine.splitlines(True) if not line.strip().startswith("//")))
    assert (BIN / "failing_calls.so").exists(), "build the target failing_calls"
    return case.folder
