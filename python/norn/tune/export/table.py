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


def records(study: Study, facts: Facts) -> list[dict[str, Any]]:
    """A dictionary for each trial, with its settings by their paths; what is not known is None, and settings that are not there are left
    out."""
    told = {event["trial"]: event for event in facts.decided["tell"]}
    found = []
    for event in facts.decided["propose"]:
        end, training = told.get(event["trial"]), Training(event["trial"])
        origin = facts.origin(training, end["epochs"]) if end else None
        found.append({"trial": event["trial"], "state": end["state"] if end else "running", "epochs": end and end["epochs"],
                      study.objective: study.shown(end["value"]) if end else None, "seconds": round(facts.seconds.get(training, 0.0), 3),
                      "taken_from": origin_text(origin) if origin else None, **event["settings"]})
    return found


def rows(study: Study, facts: Facts) -> list[list[Any]]:
    """The first is the head; settings that are no numbers or texts stand as JSON."""
    facts_of = ["trial", "state", "epochs", study.objective, "seconds", "taken_from"]
    paths = [one.path for one in study.space.dimensions]
    return [[*facts_of, *paths], *([*(record[name] for name in facts_of), *(plain(record.get(path, "")) for path in paths)]
                                   for record in records(study, facts))]


def plain(value: Any) -> Any:
    """As a table or another program takes it: a number, a truth value or a text."""
    return value if isinstance(value, (int, float, str)) else json.dumps(value, ensure_ascii=False)
