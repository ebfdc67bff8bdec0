# SPDX-License-Identifier: Apache-2.0
"""Trains the region's network on all but what is held out for the gate."""
import pathlib

from .._files import JsonText, read_json, write_json
from ..errors import RegionError
from ..tune import descriptor
from .days import checksum
from .step import Work


def _tuned(work: Work) -> dict[str, str] | None:
    return work.day.outputs("tune") if work.region.trials else None


def inputs(work: Work) -> dict:
    if not work.region.trials and not work.region.model.is_file():
        raise RegionError(f"{work.region.model}: is not there; the file of --regions names it")
    return {"data": work.day.outputs("import")["train.nc"], "tuned": _tuned(work) or checksum(work.region.model),
            "options": work.regions.train["Options"], "trainer": work.build("trainer")}


def make(work: Work, folder: pathlib.Path) -> tuple[list[str], dict]:
    epochs = []
    if work.region.trials:
        made = work.day.made("tune")
        network = read_json(made / "best.json")
        # Everything is trained on, to the epoch that was the best in the search.
        training = network[descriptor.key_in(network, "Training")]
        training.pop(descriptor.key_in(training, "ValidationSplit"), None)
        epochs = ["--last-epoch", read_json(made / "tuned.json")["epochs"]]
    else:
        network = JsonText(work.region.model).value
    write_json(folder / "net.json", network)
    rules = work.regions.train
    work.run("trainer", ["-c", "net.json", "-i", work.day.made("import") / "train.nc", "-n", "model.nc", "--run-dir", "run", "--resume",
                         "--keep", 1,
                         "--threads", work.threads, *epochs, *rules["Options"]], folder, rules["Launch"])
    result = read_json(folder / "run/run.json")["result"]
    return ["model.nc", "run/run.json"], {"epochs": result["epochs"], "checksum": result["checksum"]}
