# SPDX-License-Identifier: Apache-2.0
"""regions.json: which regions there are, and what is done for each. configs/schema/regions.schema.json says the same to editors."""
import os
import pathlib
import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from .._files import JsonText
from .._words import did_you_mean
from ..errors import UsageError
from ..tune import descriptor
from .serving import Service

NEWEST = "newest"
POPULARITY = "popularity"
FROM = ("yesterday", "regions")
_METRIC = re.compile(r"[a-z_]+@[1-9][0-9]*")
_RATIO = re.compile(r"ratio:[0-9.]+/[0-9.]+")
_DAYS = re.compile(r"days:([1-9][0-9]{0,3})")


class Key(NamedTuple):
    """What a key may hold: a test, what is expected in words, and the value without it."""

    fits: Callable[[Any], bool]
    expected: str
    default: Any = None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _text(default: str | None = None) -> Key:
    return Key(lambda v: isinstance(v, str) and v != "", "a text that is not empty", default)


def _whole(least: int, default: int | None) -> Key:
    return Key(lambda v: _is_whole(v) and v >= least, f"a whole number of at least {least}", default)


def _words() -> Key:
    return Key(lambda v: isinstance(v, list) and all(isinstance(word, str) and word for word in v), "a list of texts, a word each", [])


def _block() -> Key:
    return Key(lambda v: isinstance(v, dict), "an object")


_OBJECTIVE = Key(lambda v: isinstance(v, str) and _METRIC.fullmatch(v) is not None, "a metric with its K, such as \"ndcg@20\"")
PLACES = {"Model": _text(), "Space": _text(), "Text": _text(), "Requests": _text(), "Import": _words()}
REGION = {**PLACES, "Trials": _whole(0, None)}
ALL = {
    "$schema": _text(), **PLACES, "Name": _text(), "Objective": _OBJECTIVE._replace(default="ndcg@20"), "Days": _text("days"),
    "Serving": _text("serving"), "Keep": _whole(2, 7), "History": _whole(1, 30),
    "HeldOut": Key(lambda v: v == NEWEST or (isinstance(v, str) and any(rule.fullmatch(v) for rule in (_RATIO, _DAYS))),
                   "\"newest\", days of the text such as \"days:1\", or a ratio for training and test such as \"ratio:0.9/0.1\"",
                   "ratio:0.9/0.1"),
    "Tune": _block(), "Train": _block(), "Gate": _block(), "Recommend": _block(), "Regions": _block()}
TUNE = {
    "Trials": _whole(1, 20), "Every": _whole(1, 1), "Waves": _whole(1, 3),
    "From": Key(lambda v: isinstance(v, list) and all(one in FROM for one in v), "a list of \"yesterday\" and \"regions\"", list(FROM)),
    "GpuHoursInAll": Key(lambda v: _is_number(v) and v > 0, "a number above 0"),
    "Validation": Key(_words().fits, _words().expected, ["--validation-split", "0.1"]), "Options": _words()}
TRAIN = {"Options": _words(), "Launch": _words()}
GATE = {
    "Metric": _OBJECTIVE, "MinRatio": Key(lambda v: _is_number(v) and 0 < v <= 2, "a number above 0 and up to 2", 0.98),
    "MinExamples": _whole(1, 1000),
    "Floor": Key(lambda v: v is None or v == POPULARITY or (_is_number(v) and 0 <= v < 1), "\"popularity\", a number from 0 to 1, or null",
                 POPULARITY)}
RECOMMEND = {"Top": _whole(1, 20), "PartLines": _whole(1, 1_000_000), "Options": _words()}
BLOCKS = {"Tune": TUNE, "Train": TRAIN, "Gate": GATE, "Recommend": RECOMMEND}


class Region(NamedTuple):
    """Files are patterns that may hold {day}."""

    name: str
    text: str
    model: pathlib.Path
    space: pathlib.Path | None
    requests: str | None
    import_words: list[str]
    data_set: str
    trials: int  # 0: it is not tuned


class Regions:
    """A regions.json that was read and is right as far as one can know without the programs.

    path: of the file.

    Raises UsageError for what is wrong in it, with its line."""

    def __init__(self, path: str | os.PathLike[str]):
        self.document = JsonText(path)
        self.path = pathlib.Path(os.path.abspath(path))
        value = self.document.value
        if not isinstance(value, dict):
            raise UsageError(f"{path}: is no object; docs/user/daily.md shows one")
        every = self._block(value, ALL, "")
        for key, keys in BLOCKS.items():
            every[key] = None if every[key] is None and key in ("Tune", "Recommend") else self._block(every[key] or {}, keys, key)
        self.tune, self.train, self.gate, self.recommend = (every[key] for key in BLOCKS)
        self.objective: str = every["Objective"]
        self.gate["Metric"] = self.gate["Metric"] or self.objective
        self.held_out: str = every["HeldOut"]
        days = _DAYS.fullmatch(self.held_out)
        self.held_out_days = int(days.group(1)) if days else None  # by the times in the text
        self.keep, self.history = every["Keep"], every["History"]
        self.days, self.serving = self._file(every["Days"]), self._file(every["Serving"])
        if self.days == self.serving:
            raise self._wrong("Serving", "is the same folder as Days; give another one")
        self.regions = {name: self._region(name, own, every) for name, own in self._named(every["Regions"]).items()}

    @property
    def names(self) -> list[str]:
        """Of all regions, in the order of the file."""
        return list(self.regions)

    def roll_back(self, name: str, check: Callable[[], None] | None = None) -> tuple[str, str]:
        """The model before it is in service again; what was taken back is not published again.

        name: of the region.
        check: is called while another one is at work there; what it raises ends the wait.

        Returns what was taken back, and what is in service. Raises UsageError where there is no model before it."""
        [name] = self.named([name])
        service = Service(self.serving, name)
        with service.lock(check or (lambda: None)):
            return service.roll_back()

    def named(self, names: Iterable[str]) -> list[str]:
        """Names of regions, each once. Raises UsageError for one that there is not.

        names: which."""
        for name in names:
            if name not in self.regions:
                raise UsageError(f"{self.document.path}: has no region \"{name}\".{did_you_mean(name, self.regions)} It has: "
                                 f"{', '.join(self.regions)}")
        return list(dict.fromkeys(names))

    def _wrong(self, key: str, what: str) -> UsageError:
        return UsageError(f"{self.document.path}:{self.document.line(key)}: {key} {what}")

    def _block(self, found: dict, keys: dict[str, Key], where: str) -> dict[str, Any]:
        for key, value in found.items():
            if key not in keys:
                raise self._wrong(key,
                                  f"is no key{f' of {where}' if where else ''}.{did_you_mean(key, keys)} Expected one of {', '.join(keys)}")
            if not keys[key].fits(value):
                raise self._wrong(key, f"holds {_shown(value)}; expected {keys[key].expected}")
        return {key: found.get(key, one.default) for key, one in keys.items()}

    def _named(self, regions: dict | None) -> dict[str, dict]:
        if not regions:
            raise self._wrong("Regions", "names no region; write for example \"Regions\": { \"north\": {} }")
        seen: dict[str, str] = {}
        for name in regions:
            if not _is_folder_name(name):
                raise self._wrong(name,
                                  "is no name of a region: it becomes the name of a folder, so it has no slash, no control characters, no "
                                        "dot, blank or brace at an end, and at most 200 bytes")
            same = seen.setdefault(unicodedata.normalize("NFC", name).casefold(), name)
            if same != name:
                raise self._wrong(name, f"and \"{same}\" are one name on some file systems; choose another")
            if not isinstance(regions[name], dict):
                raise self._wrong(name, f"holds {_shown(regions[name])}; expected an object, {{}} where nothing differs")
        return regions

    def _file(self, text: str) -> pathlib.Path:
        return pathlib.Path(os.path.abspath(self.path.parent / text))

    def _region(self, name: str, own: dict, every: dict) -> Region:
        mine = {**{key: every[key] for key in PLACES},
                **{k: v for k, v in self._block(own, REGION, f"region \"{name}\"").items() if k in own}}
        for key in ("Text", "Model"):
            if not mine[key]:
                raise self._wrong(name, f"has no {key}; give it there, or for all regions at the top")
        if self.held_out == NEWEST and "{day}" not in mine["Text"]:
            raise self._wrong("Text", f"of region \"{name}\" has no {{day}}, which HeldOut \"newest\" needs to know the days apart")
        if self.recommend is not None and not mine["Requests"]:
            raise self._wrong("Recommend", f"needs Requests for region \"{name}\": text of who is recommended to")
        model = self._file(mine["Model"])
        tuned = self.tune is not None and mine["Space"] is not None
        place = {key: mine[key] and str(self._file(mine[key])).replace("{region}", name) for key in ("Text", "Requests")}
        trials = mine.get("Trials")
        return Region(name, place["Text"], model, self._file(mine["Space"]) if mine["Space"] else None, place["Requests"], mine["Import"],
                      every["Name"] or data_set_of(model), 0 if not tuned else self.tune["Trials"] if trials is None else trials)


def _is_folder_name(name: str) -> bool:
    control = any(unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in name)
    edges = name[:1] in (".", " ", "{", "") or name[-1:] in (".", " ", "}")
    return not control and not edges and "/" not in name and "\\" not in name and len(name.encode(errors="replace")) <= 200


def _shown(value: Any) -> str:
    text = f"\"{value}\"" if isinstance(value, str) else "null" if value is None else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def data_set_of(model: pathlib.Path) -> str:
    """NAME of the first data set NAME_input that a descriptor reads; "data" where it names none, as recipes do."""
    network = JsonText(model).value
    for layer in descriptor.layers_of(network if isinstance(network, dict) else {}):
        name = str(descriptor.get(layer, "DataSet", ""))
        if name.endswith("_input"):
            return name.removesuffix("_input")
    return "data"
