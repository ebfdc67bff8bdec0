# SPDX-License-Identifier: Apache-2.0
"""Settings by path in a descriptor: "Training.Alpha", "Layers.Hidden.N". Keys are found whatever their capitals, as the
trainer finds them; layers by their names."""
import copy
from typing import Any

from .._words import did_you_mean

COUNT = "Count"  # of Layers.NAME.Count: so many layers alike, one after the other


class PathError(Exception):
    """A path that leads nowhere; the message has no file."""


def key_in(where: dict, key: str) -> str:
    """The key as it is written there, or as it is asked for where there is none."""
    return next((found for found in where if found.casefold() == key.casefold()), key)


def get(where: dict, key: str, default: Any = None) -> Any:
    return where.get(key_in(where, key), default)


def layers_of(network: dict) -> list[dict]:
    found = get(network, "Layers", [])
    return [layer for layer in found if isinstance(layer, dict)] if isinstance(found, list) else []


def name_of(layer: dict) -> str:
    return str(get(layer, "Name", ""))


def copy_name(name: str, number: int) -> str:
    """Of the copies of layer "Hidden": Hidden, Hidden2, Hidden3."""
    return name if number == 1 else f"{name}{number}"


def split(path: str, names: list[str]) -> tuple[str | None, list[str]]:
    """(layer or None, keys). `names` are layers' names, which may hold dots: the longest that fits is meant."""
    parts = path.split(".")
    if any(not part for part in parts):
        raise PathError("has an empty part; write keys with a dot between, such as Training.Alpha")
    if parts[0].casefold() != "layers":
        return None, parts
    rest = path.partition(".")[2]
    fitting = [name for name in names if name and rest.casefold().startswith(name.casefold() + ".")]
    if not fitting:
        asked = parts[1] if len(parts) > 1 else ""
        raise PathError(f"the descriptor has no layer \"{asked}\".{did_you_mean(asked, names)} It has: {', '.join(names)}"
                        if asked and len(parts) > 2
                        else "names no key of a layer; write Layers.NAME.KEY")
    name = max(fitting, key=len)
    keys = rest[len(name) + 1:].split(".")
    if any(not part for part in keys):
        raise PathError("has an empty part; write keys with a dot between, such as Layers.Hidden.N")
    return name, keys


def _put(where: dict, keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        key = key_in(where, key)
        if not isinstance(where.get(key), dict):
            where[key] = {}
        where = where[key]
    key = key_in(where, keys[-1])
    if value is None:
        where.pop(key, None)
    else:
        where[key] = copy.deepcopy(value)


def _repeat(network: dict, name: str, count: int) -> None:
    """`count` layers like that one, each reading the one before; who read it reads the last."""
    layers = network[key_in(network, "Layers")]
    at = next(i for i, layer in enumerate(layers) if name_of(layer).casefold() == name.casefold())
    written, last = name_of(layers[at]), copy_name(name_of(layers[at]), count)
    for layer in layers:
        key = key_in(layer, "Source")
        source = layer.get(key)
        if isinstance(source, str) and source.casefold() == name.casefold():
            layer[key] = last
        elif isinstance(source, list):
            layer[key] = [last if isinstance(s, str) and s.casefold() == name.casefold() else s for s in source]
    for number in range(2, count + 1):
        layer = copy.deepcopy(layers[at])
        layer[key_in(layer, "Name")] = copy_name(written, number)
        if key_in(layer, "Source") in layer:
            layer[key_in(layer, "Source")] = copy_name(written, number - 1)
        layers.insert(at + number - 1, layer)


def apply(network: dict, settings: dict[str, Any]) -> dict:
    """A copy of the descriptor with those settings; None removes a key. Layers are repeated after their own settings are in, so
    that copies have them too; settings of a copy (Layers.Hidden2.N) come last."""
    made = copy.deepcopy(network)
    own = [name_of(layer) for layer in layers_of(made)]
    later, counts = [], []
    for path, value in settings.items():
        try:
            name, keys = split(path, own)
        except PathError:
            later.append((path, value))
            continue
        if name is not None and len(keys) == 1 and keys[0].casefold() == COUNT.casefold():
            counts.append((name, value))
        else:
            _put_at(made, name, keys, value)
    for name, value in counts:
        _repeat(made, name, int(value))
    every = [name_of(layer) for layer in layers_of(made)]
    for path, value in later:
        _put_at(made, *split(path, every), value)
    return made


def _put_at(network: dict, name: str | None, keys: list[str], value: Any) -> None:
    where = network if name is None else next(l for l in layers_of(network) if name_of(l).casefold() == name.casefold())
    _put(where, keys, value)


def key_of(network: dict, path: str) -> str:
    """A path as the trainer's errors name it: Layers[1].Activation."""
    names = [name_of(layer) for layer in layers_of(network)]
    try:
        name, keys = split(path, names)
    except PathError:
        return path
    if name is None:
        return ".".join(keys)
    at = next(i for i, found in enumerate(names) if found.casefold() == name.casefold())
    return ".".join([f"Layers[{at}]", *keys])
