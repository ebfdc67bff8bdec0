# SPDX-License-Identifier: Apache-2.0
"""Reads what trainer --run-dir records, and checks it against its schemas by Debian's jsonschema."""
import json
import pathlib

import jsonschema

SCHEMAS = pathlib.Path(__file__).resolve().parents[2] / "configs/schema"


def validator(name):
    """For the schema of that name in configs/schema."""
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


def read_log(path):
    """The events of a log; each line must stand the schema, and the last one must be whole."""
    text = pathlib.Path(path).read_text(encoding="ascii")
    assert text == "" or text.endswith("\n"), f"{path} ends within a line: {text[-80:]!r}"
    log = validator("log")
    events = [json.loads(line) for line in text.splitlines()]
    for number, event in enumerate(events, 1):
        problems = [error.message for error in log.iter_errors(event)]
        assert not problems, f"{path}:{number}: {event}: {explain(log, event)}"
    return events


def explain(log, event):
    """What the schema of that event's kind finds wrong: oneOf says only that none fits."""
    for kind in log.schema["oneOf"]:
        if kind["properties"]["event"]["const"] == event.get("event"):
            whole = {"definitions": log.schema["definitions"], **kind}
            return [error.message for error in jsonschema.Draft7Validator(whole).iter_errors(event)]
    return f"no event is called {event.get('event')!r}"


def kinds(events):
    return [event["event"] for event in events]
