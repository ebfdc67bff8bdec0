# SPDX-License-Identifier: Apache-2.0
"""Whether a run goes on from the checkpoints of the same run: other settings would silently have no effect."""
from __future__ import annotations

import glob
import json
import os
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from . import _core, _settings
from .errors import DataError, UsageError

if TYPE_CHECKING:
    from ._types import Facts

_FILES = ("model", "resume", "same_data", "run_dir", "checkpoint_epochs", "checkpoint_minutes", "checkpoint_name", "keep")
_MAY_CHANGE = ("epochs", "last_epoch", "seed")  # more epochs are how a run is made longer; of another seed the engine speaks
_OTHERWISE = "give `checkpoints` another file, or start anew with `force=True`, which replaces the model and its checkpoints"


def require_same_run(native: Mapping[str, Any]) -> None:
    """Raises UsageError where there are checkpoints of another network or other training. Of other data the engine speaks.

    native: settings as the engine takes them; those without checkpoints to go on from are not looked at.
    """
    if native.get("resume") != "auto":
        return
    file, facts = next(_checkpoints(native), ("", {}))
    if not file:
        return
    own = {name: value for name, value in native.items() if name not in _FILES}
    then = facts["network"]
    now = json.loads(_core.effective_descriptor(own | {"epochs": then["Training"]["Epochs"]}))
    is_recipe = now.get("Name", "").endswith(" recipe")
    found = [text for place, one, other in _differences(now, then) if (text := _said(place, one, other, is_recipe))]
    if found:
        raise UsageError(f"{file} is of a run with other settings: {'; '.join(found)}; {_OTHERWISE}")


def _checkpoints(native: Mapping[str, Any]) -> Iterator[tuple[str, Facts]]:
    """Files that the run could go on from, each with what it is; the newest first."""
    files: list[str] = []
    for base in filter(None, (native["model"], native.get("checkpoint_name"))):
        path = pathlib.Path(base)
        files += [str(path), *glob.glob(os.path.join(glob.escape(str(path.parent)), glob.escape(path.stem) + ".epoch*.nc"))]
    for file in sorted(filter(os.path.exists, files), key=os.path.getmtime, reverse=True):
        try:
            facts = json.loads(_core.describe_file(file))
        except DataError:  # the engine goes on from one before it
            continue
        if facts.get("training"):
            yield file, facts


def _differences(now: Any, then: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """(place, value now, value then) of descriptors; layers go by their names."""
    if isinstance(now, dict) and isinstance(then, dict):
        for key in {**now, **then}:
            yield from _differences(now.get(key), then.get(key), (*place, key))
    elif place == ("Layers",):
        yield from _differences({layer["Name"]: layer for layer in now}, {layer["Name"]: layer for layer in then}, place)
    elif now != then and now != "auto":
        yield place, now, then


def _said(place: tuple[str, ...], now: Any, then: Any, is_recipe: bool) -> str:
    """A difference in the names of settings; nothing of what may change."""
    name = {"Alpha": "rate"}.get(place[-1]) or re.sub(r"(?<!^)(?=[A-Z])", "_", place[-1]).lower()
    if place[0] == "Training":
        row = _settings.table().get(name)
        if name in _MAY_CHANGE or (row and row["group"] == _settings.table()["early_stop"]["group"]):
            return ""
        what = f"`{name}`" if row else f"`network` {'.'.join(place)}"
    elif is_recipe and place == ("Layers", "Hidden", "N"):
        what = "`hidden`"
    else:
        what = "`recipe`" if is_recipe and place == ("Name",) else f"`network` {'.'.join(place)}"
    shown = ["the default" if value is None else json.dumps(value) if isinstance(value, (dict, list)) else repr(value) for value in (now, then)]
    return f"{what} is {shown[0]}, the checkpoint has {shown[1]}"
