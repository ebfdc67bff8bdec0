# SPDX-License-Identifier: Apache-2.0
"""Trials as a table: CSV."""
import csv
import io
import json
import pathlib
from typing import Any

from ..._files import write_whole
from ..facts import Facts, Training, origin_text
from ..study import Study


def write(study: Study, facts: Facts, folder: pathlib.Path) -> str:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows(study, facts))
    path = folder / "trials.csv"
    write_whole(path, lambda file: file.write(text.getvalue().encode()))
    return str(path)


def rows(study: Study, facts: Facts) -> list[list[Any]]:
    """The first is the head; settings that are no numbers or texts stand as JSON."""
    paths = [one.path for one in study.space.dimensions]
    told = {event["trial"]: event for event in facts.decided["tell"]}
    found: list[list[Any]] = [["trial", "state", "epochs", study.objective, "seconds", "taken_from", *paths]]
    for event in facts.decided["propose"]:
        end = told.get(event["trial"], {"state": "running", "epochs": "", "value": None})
        training = Training(event["trial"])
        origin = facts.origin(training, end["epochs"]) if end["epochs"] != "" else None
        found.append([event["trial"], end["state"], end["epochs"], study.shown(end["value"]), round(facts.seconds.get(training, 0.0), 3),
                      origin_text(origin) if origin else "",
                      *(plain(event["settings"].get(path, "")) for path in paths)])
    return found


def plain(value: Any) -> Any:
    """As a table or another program takes it: a number, a truth value or a text."""
    return value if isinstance(value, (int, float, str)) else json.dumps(value, ensure_ascii=False)
