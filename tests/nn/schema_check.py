#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks a JSON schema against networks or machines: each is valid, and a copy with one member made wrong is
not. Prints what is wrong; exit code 77 when python3-jsonschema is missing.
usage: schema_check.py SCHEMA CONFIG..."""
import copy
import json
import re
import sys

try:
    import jsonschema
except ImportError:
    print("python3-jsonschema is not installed")
    sys.exit(77)


MOST_LAYERS = 12  # networks of more are only validated: their copies would take long and show no more


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.loads(re.sub(r"//[^\n]*", "", file.read()))


def members(value, path=()):
    """Paths of all members of all objects."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        if isinstance(value, dict):
            yield path + (key,)
        yield from members(inner, path + (key,))


def parent(value, path):
    for key in path[:-1]:
        value = value[key]
    return value


def mutated(config):
    """(what was done, the copy)."""
    for path in members(config):
        wrong = copy.deepcopy(config)
        holder = parent(wrong, path)
        holder[path[-1] + "zz"] = holder.pop(path[-1])
        yield f"misspelt {path}", wrong
        for value in (None, {"x": 1}):
            wrong = copy.deepcopy(config)
            parent(wrong, path)[path[-1]] = value
            yield f"{value} at {path}", wrong
    for index, layer in enumerate(config.get("Layers", ())):
        for key, value in (("N", 0), ("N", "wide"), ("pDropout", 1), ("Kind", "Hiden"), ("Sparse", 2)):
            wrong = copy.deepcopy(config)
            wrong["Layers"][index][key] = value
            yield f"{key} {value} in layer {index}", wrong
        if layer["Kind"] == "Input":
            wrong = copy.deepcopy(config)
            wrong["Layers"][index]["activation"] = "Relu"
            yield "Activation of an Input layer", wrong


with open(sys.argv[1], encoding="utf-8") as schema_file:
    schema = json.load(schema_file)
jsonschema.Draft7Validator.check_schema(schema)
validator = jsonschema.Draft7Validator(schema)
problems = []
rejected = 0
for name in sys.argv[2:]:
    config = load(name)
    problems += [f"{name}: {error.message}" for error in validator.iter_errors(config)]
    other_case = json.loads(json.dumps(config).replace('"Kind"', '"kIND"').replace('"Relu"', '"RELU"'))
    problems += [f"{name} in other case: {error.message}" for error in validator.iter_errors(other_case)]
    if len(config.get("Layers", ())) > MOST_LAYERS:
        continue
    for what, wrong in mutated(config):
        if validator.is_valid(wrong):
            problems.append(f"{name}: accepted: {what}")
        rejected += 1
print("\n".join(problems) or f"{len(sys.argv) - 2} files valid, {rejected} wrong copies rejected")
sys.exit(bool(problems))
