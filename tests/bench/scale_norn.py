# SPDX-License-Identifier: Apache-2.0
"""Norn's side of scale_curves.py: data sets of the planted catalogue, descriptors, and trainings whose log gives the curve."""
import json
import math
import shutil
import statistics
import subprocess
import time

import numpy as np

OUTPUTS = {
    "factored": {"Activation": "Linear", "Factored": {"Rule": "Newton"}, "WeightInit": {"Scheme": "Xavier", "Bias": 0}},
    "sigmoid": {"Activation": "Sigmoid"},
}


class Failed(Exception):
    """A training that did not come to its end, and what it said."""


def descriptor(method, settings, args, entries, items):
    """The network of a method as a dict; `settings` are those of METHODS in scale_curves.py."""
    output = json.loads(json.dumps(OUTPUTS[method]))
    if method == "factored":
        output["Factored"] |= {key.capitalize(): settings[key] for key in ("rate_of_outputs", "damping") if key in settings}
        output["Factored"]["Rate"] = output["Factored"].pop("Rate_of_outputs", 0.02)
    else:
        share = settings["boost"] * entries / items  # outputs begin at about what the loss makes of the share of ones
        output["WeightInit"] = {"Scheme": "Xavier", "Bias": round(math.log(share / (1 - min(share, 0.5))), 3)}
    return {
        "Name": f"scale_{method}", "Kind": "AutoEncoder", "ErrorFunction": "L2" if method == "factored" else "CrossEntropy",
        "DeltaBoost": {"one": settings["boost"]}, "ShuffleIndices": True, "Denoising": {"p": settings["denoising"]},
        "Training": {"Optimizer": args.optimizer, "Alpha": settings["rate"], "RateSchedule": args.schedule, "Batch": args.batch,
                     "Lambda": 0},
        "Layers": [
            {"Name": "Input", "Kind": "Input", "N": "auto", "DataSet": "scale_input", "Sparse": True,
             "InputWeighting": {"Scheme": "InverseDocumentFrequency"}, "Normalize": "L2"},
            {"Name": "Hidden", "Kind": "Hidden", "N": args.hidden, "Activation": "Tanh", "pDropout": settings["dropout"],
             "WeightInit": {"Scheme": "Xavier", "Bias": 0}},
            {"Name": "Output", "Kind": "Output", "N": "auto", "DataSet": "scale_output", **output}]}


def write_data(folder, items, programs):
    """train.nc and held_out.nc of train.npy, known.npy and wanted.npy: by the Python package where it is there, else by importer."""
    train, known, wanted = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("train", "known", "wanted"))
    try:
        from norn import Dataset
        import scipy.sparse
    except ImportError:
        for name, inputs, targets in (("train", train, train), ("held_out", known, wanted)):
            texts = [folder / f"{name}.known.txt", folder / f"{name}.{'known' if inputs is targets else 'wanted'}.txt"]
            for text, rows in dict(zip(texts, (inputs, targets))).items():
                write_text(text, items, rows)
            # A text of targets of its own: labels of LibSVM lines would be other things than the units of the input.
            programs.run("importer", "--input", texts[0], "--target", texts[1], "--format", "libsvm", "--type", "indicator", "--name",
                         "scale", "--output", folder / f"{name}.nc")
            for leftover in (*texts, folder / f"{name}.features", folder / f"{name}.examples"):
                leftover.unlink(missing_ok=True)
        return

    def matrix(rows):
        columns = np.sort(rows, axis=1).astype(np.int32, copy=False).ravel()
        starts = np.arange(len(rows) + 1) * rows.shape[1]
        return scipy.sparse.csr_matrix((np.ones(len(columns), np.float32), columns, starts), shape=(len(rows), items))

    Dataset(matrix(train), name="scale").to_netcdf(folder / "train.nc")
    Dataset(matrix(known), targets=matrix(wanted), name="scale").to_netcdf(folder / "held_out.nc")


def write_text(path, items, rows):
    """LibSVM text, an example a line: `unit:1 unit:1`; its first line says how many units there are."""
    with open(path, "w", encoding="ascii") as text:
        text.write(f"{len(rows)} {items} 0\n")
        for row in rows:
            text.write("".join(f" {unit}:1" for unit in sorted(row.tolist())) + "\n")


def read_log(path):
    """Whole lines of log.jsonl as events, [] where there is none yet."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [json.loads(line) for line in lines]


def curve_of(events, top):
    """[{seconds, recall, epochs}]: a validation stands at the seconds of the epochs before it; validations take none."""
    seconds, curve = 0.0, []
    for event in events:
        if event["event"] == "epoch":
            seconds += event["seconds"]
        elif event["event"] == "eval":
            metrics = next(one for one in event["metrics"] if one["k"] == top)
            curve.append({"seconds": round(seconds, 4), "recall": metrics["recall"], "epochs": event["epoch"]})
    return curve


class Training:
    """A trainer that writes a log, until that says enough. The model is not written: at 100 million items it is 100 GB."""

    def __init__(self, programs, folder, network, data, top, options):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "network.json").write_text(json.dumps(network, indent=1) + "\n", encoding="utf-8")
        self.log, self.said = folder / "run/log.jsonl", folder / "said.txt"
        command = [programs.folder / "trainer", "-c", folder / "network.json", "-i", data / "train.nc", "-n", folder / "model.nc",
                   "--force", "--checkpoint-epochs", 0, "--run-dir", folder / "run", "--validation-input", data / "held_out.nc",
                   "--metrics-at", top, "--data-memory", "64G", *programs.options, *options]
        self.command = [str(word) for word in command]

    def until(self, enough):
        """The events when enough(events) is true, or of the whole run where it never is."""
        with open(self.said, "wb") as said, subprocess.Popen(self.command, stdout=said, stderr=said) as process:
            try:
                while process.poll() is None:
                    if enough(read_log(self.log)):
                        return read_log(self.log)
                    time.sleep(0.2)
            finally:
                process.kill()
        events = read_log(self.log)
        if process.returncode != 0:
            raise Failed(f"trainer ended with {process.returncode}: {self.said.read_text(errors='replace')[-1500:]}")
        return events


def epoch_seconds(programs, folder, network, data, top):
    """Seconds of an epoch, by the first few seconds of one, or by the second of two where these are over before."""
    def enough(events):
        return sum(event["event"] == "step" for event in events) >= 6 or sum(event["event"] == "epoch" for event in events) >= 2

    events = Training(programs, folder, network, data, top, ["--epochs", 2, "--validate-every", 2]).until(enough)
    epochs = [event["seconds"] for event in events if event["event"] == "epoch"]
    if len(epochs) >= 2:
        return epochs[-1]
    rates = [event["examples_per_second"] for event in events if event["event"] == "step"][2:]
    return next(event["examples"] for event in events if event["event"] == "start") / statistics.median(rates)


def measure(method, settings, args, programs, folder, data, shape):
    """(curve, facts) of about args.seconds of training; shape: (items, entries of a user)."""
    network = descriptor(method, settings, args, shape[1], shape[0])
    network["Training"]["Seed"] = args.seed
    one = epoch_seconds(programs, folder / f"{method}_probe", network, data, args.top)
    epochs = max(1, round(args.seconds / one))
    every = max(1, epochs // args.points)
    events = Training(programs, folder / method, network, data, args.top,
                      ["--epochs", epochs, "--validate-every", every]).until(
        lambda events: any(event["event"] == "eval" and event["epoch"] == epochs for event in events))
    curve = curve_of(events, args.top)
    start = next(event for event in events if event["event"] == "start")
    facts = {key: start[key] for key in ("version", "device", "device_name", "precision", "threads", "weights")}
    return curve, facts | {"epochs": epochs, "network": network}
