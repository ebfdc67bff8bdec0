# SPDX-License-Identifier: Apache-2.0
"""The Params of NornRecommender and NornModel: columns as pyspark.ml names them, and settings from the engine's table."""
from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from .. import _settings, _words
from ..errors import UsageError
from ..recommender import _DEFAULTS, Recommender

try:
    from pyspark.ml.param import Param, Params, TypeConverters
except ImportError:
    raise UsageError("pyspark is needed for norn.spark; install it: pip install pyspark") from None

_WORD, _COUNT, _SWITCH = TypeConverters.toString, TypeConverters.toInt, TypeConverters.toBoolean

# Name: default, converter and document. They are those of the model, too.
_OF_BOTH: dict[str, tuple[Any, Callable, str]] = {
    "userCol": ("user", _WORD, "column of users: text or whole numbers"),
    "itemCol": ("item", _WORD, "column of items, text or whole numbers: of one in each row, or of a list of what the row's user has"),
    "ratingCol": (None, _WORD, "column of values, one for each item; without it items are had or not"),
    "outputCol": ("recommendations", _WORD, "new column: the best items, best first"),
    "scoresCol": ("scores", _WORD, "new column: their scores"),
    "numItems": (10, _COUNT, "how many items are recommended"),
    "unknown": ("error", _WORD, "items that the model does not know: error, ignore"),
    "filterAlreadyLikedItems": (True, _SWITCH, "whether items that the user has are left out"),
}
_OF_FIT: dict[str, tuple[Any, Callable, str]] = {
    "duplicates": ("error", _WORD, "an item that a user has twice: error, sum, first"),
    "minFeatures": (1, _COUNT, "users with fewer items are not trained on"),
    "minExamples": (1, _COUNT, "items of fewer users are left out of the model"),
    "keepUsers": (True, _SWITCH, "whether the model keeps what users have, for recommendForAllUsers"),
    "staging": (None, os.fspath,
                "a folder that driver and executors share, where sorted rows lie meanwhile; of one machine its folder of temporary files"),
    "numWorkers": (1, _COUNT, "ranks that train together on one machine, with a GPU each"),
    "localMode": (True, _SWITCH, "whether they train on the driver's machine; otherwise within one task of Spark, with its GPUs"),
}
_DEVICE = ("device", "threads", "precision")


def _described(name: str) -> str:
    """What Recommender says of an argument of its own."""
    found = re.search(rf"^ *{name}: (.+?)(?=^ *\w+: |\Z)", inspect.cleandoc(Recommender.__doc__ or "") + "\n", re.M | re.S)
    return " ".join(found[1].split()).rstrip(".") if found else name


def _descriptor(value: Any) -> str:
    """The text of a descriptor, which is kept in place of a path or a dictionary."""
    from .launching import descriptor_of

    return descriptor_of({"network": value, "hidden": None}) or ""


def _of_recommender(name: str) -> Callable[[Any], Any]:
    if name == "network":
        return _descriptor
    return (lambda value: _words.integer(name, value)) if name in ("hidden", "threads") else (lambda value: _words.word(name, value))


def _of_setting(name: str, row: Mapping[str, Any]) -> Callable[[Any], Any]:
    return lambda value: _settings.checked({name: value})[row["name"]]


def setting_names() -> list[str]:
    """The engine's settings as Params: `lambda` is `lambda_`."""
    return [name + "_" if name == "lambda" else name for name in _settings.table()]


def _param(name: str, doc: str, converter: Callable) -> Any:
    return Param(Params._dummy(), name, doc, typeConverter=converter)


def _set_and_get(kind: type, name: str) -> None:
    title = name[0].upper() + name[1:]
    setattr(kind, f"set{title}", lambda self, value: self._set(**{name: value}))
    setattr(kind, f"get{title}", lambda self: self.getOrDefault(name))


def with_accessors(*names: str) -> Callable[[type], type]:
    """Gives a class setUserCol and getUserCol for each, as pyspark.ml has them."""
    def decorate(kind: type) -> type:
        for name in names:
            _set_and_get(kind, name)
        return kind

    return decorate


def with_params(of_fit: bool) -> Callable[[type], type]:
    """Gives a class its Params, their setters and getters, and the signature of its constructor."""
    def decorate(kind: type) -> type:
        own = _OF_BOTH | (_OF_FIT if of_fit else {})
        for name, (_, converter, doc) in own.items():
            setattr(kind, name, _param(name, doc, converter))
            _set_and_get(kind, name)
        for name in _DEFAULTS if of_fit else _DEVICE:
            setattr(kind, name, _param(name, _described(name), _of_recommender(name)))
        for keyword, row in zip(setting_names(), _settings.table().values()) if of_fit else ():
            words = f" ({', '.join(row['words'])})" if row["words"] else ""
            setattr(kind, keyword, _param(keyword, row["help"] + words + (f" [{row['default']}]" if row["default"] else ""),
                                          _of_setting(keyword, row)))
        names = [*own, *(_DEFAULTS if of_fit else _DEVICE), *(setting_names() if of_fit else ())]
        given = [one for one in inspect.signature(kind.__init__).parameters.values() if one.kind is not one.VAR_KEYWORD]
        default = {name: value for name, (value, _, _) in own.items()} | _DEFAULTS
        given += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default.get(name)) for name in names]
        kind.__init__.__signature__ = inspect.Signature(given)  # type: ignore[attr-defined]
        return kind

    return decorate


class NornParams(Params):
    """What estimator and model share."""

    def __init__(self) -> None:
        super().__init__()
        known = _OF_BOTH | _OF_FIT
        defaults = {name: default for name, (default, _, _) in known.items()} | _DEFAULTS
        self._setDefault(**{name: value for name, value in defaults.items() if value is not None and self.hasParam(name)})

    def setParams(self, **params: Any) -> Any:
        """Sets Params by keyword; None takes one back. Raises UsageError for those that there are not, and wrong values."""
        names = [param.name for param in self.params]
        for name in params:
            if name not in names:
                raise UsageError(f"`{name}`: {type(self).__name__} has no such Param.{_words.did_you_mean(name, names)} explainParams() "
                                 "lists them")
        for name, value in params.items():
            if value is None:
                self.clear(self.getParam(name))
            else:
                self._set(**{name: value})
        return self

    def _get(self, name: str) -> Any:
        """None where it is neither set nor has a default."""
        param = self.getParam(name)
        return self.getOrDefault(param) if self.isDefined(param) else None

    def _given(self, names: Any) -> dict[str, Any]:
        return {name: self._get(name) for name in names if self._get(name) is not None}
