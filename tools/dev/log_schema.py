#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints configs/schema/log.schema.json with the metrics of python/norn/report/metrics.json and the precisions of the trainer's option;
the rest of it is written by hand."""
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]


def of_metric(metric):
    limit = {} if metric["most"] is None else {"maximum": metric["most"]}
    return {"type": "number", "minimum": 0, **limit, "description": metric["help"]}


def main():
    schema = json.loads((ROOT / "configs/schema/log.schema.json").read_text(encoding="utf-8"))
    metrics = json.loads((ROOT / "python/norn/report/metrics.json").read_text(encoding="utf-8"))
    validation = next(event for event in schema["oneOf"] if event["properties"]["event"]["const"] == "eval")
    items = validation["properties"]["metrics"]["items"]
    items["required"] = ["k", *(metric["name"] for metric in metrics)]
    items["properties"] = {"k": items["properties"]["k"], **{metric["name"]: of_metric(metric) for metric in metrics}}
    options = json.loads((ROOT / "python/norn/tune/trial_options.json").read_text(encoding="utf-8"))
    for event in schema["oneOf"]:
        if "precision" in event["properties"]:
            event["properties"]["precision"]["enum"] = options["--precision"].split("|")
    print(json.dumps(schema, indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
