# SPDX-License-Identifier: Apache-2.0
"""The settings of a run, from the engine's table: their names, types, words and documents."""
from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from . import _core
from ._words import count as count, did_you_mean, integer, word
from .errors import Problem, UsageError

if TYPE_CHECKING:
    from ._types import Facts

F = TypeVar("F", bound=Callable[..., Any])


@functools.cache
def table() -> dict[str, Facts]:
    """By name. Those that name files of data are for the programs: data come as arrays here."""
    return {row["name"]: row for row in _core.settings_table() if row["kind"] != "paths"}


def name_of(keyword: str) -> str:
    """A setting's name of a keyword: `lambda_` is `lambda`, which Python keeps for itself."""
    return keyword.removesuffix("_")


def keyword_of(name: str) -> str:
    """A setting's keyword: `lambda_` of `lambda`."""
    return name + "_" if name == "lambda" else name


def _meant(keyword: str, known: list[str]) -> str:
    """' Did you mean "rate"?', or nothing: by what other libraries call it, or by its letters; what it means elsewhere and not here."""
    if keyword in OTHERWISE:
        return f" {OTHERWISE[keyword]}"
    word = next((name for name in known if keyword.lower() in _ELSEWHERE.get(name, ())), None)
    return f' Did you mean "{word}"?' if word else did_you_mean(keyword, known)


def checked(given: Mapping[str, Any], *, beside: Iterable[str] = (), problems: Iterable[Problem] = ()) -> dict[str, Any]:
    """As the engine takes them; None is as not given. Raises UsageError, all that is wrong at once: also the `problems` that
    were found before. `beside`: names of other arguments, which may have been meant."""
    values, problems, listed = {}, list(problems), False
    for keyword, value in given.items():
        name = name_of(keyword)
        try:
            if name not in table():
                known = [*beside, *map(keyword_of, table())]
                meant = _meant(keyword, known)
                names = "" if meant or listed else " There are: " + ", ".join(known)
                listed = listed or bool(names)
                raise UsageError(f"`{keyword}`: there is no such setting.{meant}{names}")
            if name == "item_features" and not isinstance(value, (str, type(None))):
                raise UsageError(f"`{keyword}`: features are given to `fit`, with the data; here it names a data set of files")
            if value is not None:
                values[name] = _KINDS[table()[name]["kind"]](table()[name], value)
        except UsageError as error:
            problems.append({"key": keyword, "message": str(error)})
    if problems:
        raise UsageError("\n".join(problem["message"] for problem in problems), problems=problems)
    return values


def _number(row: Facts, value: Any) -> float:
    if isinstance(value, (bool, str, bytes)) or not hasattr(value, "__float__"):
        raise UsageError(f"`{row['name']}` {value!r}: expected a number, not {type(value).__name__}")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise UsageError(f"`{row['name']}` {value!r:.60}: expected a number") from None


def _switch(row: Facts, value: Any) -> bool:
    if type(value).__name__ not in ("bool", "bool_"):
        raise UsageError(f"`{row['name']}` {value!r}: expected True or False")
    return bool(value)


def _text(row: Facts, value: Any) -> str:
    """Words of yes and no may be bool, lists of numbers sequences; True is what the name alone stands for."""
    if value is True and row["bare_value"]:
        return row["bare_value"]
    if isinstance(value, bool) and row["words"] == ["yes", "no"]:
        return "yes" if value else "no"
    if row["value"].startswith("K,") and not isinstance(value, str):
        return ",".join(str(integer(row["name"], k)) for k in (value if isinstance(value, Iterable) else [value]))
    return word(row["name"], value)


def _path(row: Facts, value: Any) -> str:
    try:
        return os.fspath(value)
    except TypeError:
        raise UsageError(f"`{row['name']}` {value!r}: expected a path, not {type(value).__name__}") from None


def _integer(row: Facts, value: Any) -> int:
    return integer(row["name"], value)


# What other libraries call settings, where letters do not tell.
_ELSEWHERE = {
    "hidden": ("factors", "n_factors", "no_components", "n_components", "embedding_dim", "embedding_size", "hidden_size", "units", "rank"),
    "epochs": ("iterations", "n_iter", "max_iter", "iters"),
    "rate": ("learning_rate", "lr", "learning_rate_init", "eta"),
    "lambda_": ("reg", "weight_decay", "l2"),
    "seed": ("random_state", "random_seed"),
    "threads": ("num_threads", "n_jobs"),
    "device": ("use_gpu", "gpu"),
}
# What has no setting like it.
OTHERWISE = {
    "alpha": "In implicit it is the confidence in what a user has: `entry_weights` 'linear' with `entry_alpha` here. What missing entries "
             "weigh beside it follows from the recipe (DeltaBoost, a key of `network`). A learning rate is `rate`.",
    "regularization": "The numbers of other models mean nothing here: leave it out, the recipe's denoising does what it is for. `lambda_` "
                      "is the decay of all weights.",
    "sample_weight": "It goes to `fit`: fit(..., weights=), one for each user or for each entry.",
    "verbose": "Give fit(..., callbacks=norn.progress()); what the engine says goes to logging.getLogger(\"norn\").",
}
_KINDS: dict[str, Callable[[Facts, Any], Any]] = {"int": _integer, "float": _number, "bool": _switch, "str": _text, "path": _path}


def annotation_of(row: Facts) -> str:
    """The type of a setting's keyword, as `checked` takes it."""
    kinds = ["str | os.PathLike[str]" if row["kind"] == "path" else str(row["kind"])]
    if row["kind"] == "str" and row["value"].startswith("K,"):
        kinds += ["int", "Sequence[int]"]
    if row["kind"] == "str" and (row["bare_value"] or row["words"] == ["yes", "no"]):
        kinds.append("bool")
    return " | ".join([*kinds, "None"])


def documented(function: F) -> F:
    """Puts the table in place of `**settings` in a function's signature, and under its documentation."""
    signature = inspect.signature(function)
    kept = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    rows = {keyword_of(name): row for name, row in table().items()}
    more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation_of(row))
            for name, row in rows.items()
            if name not in signature.parameters]
    function.__signature__ = signature.replace(parameters=kept + more)  # type: ignore[attr-defined]
    function.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\nSettings:\n\n{settings()}"
    return function


def settings() -> str:
    """The settings of a run as text: a line each with words and default, under their headings. `lambda` is `lambda_`."""
    lines: list[str] = []
    group = None
    for row in table().values():
        if row["group"] != group:
            group = row["group"]
            lines.append(f"\n{group}")
        words = f" ({', '.join(row['words'])})" if row["words"] else ""
        default = f" [{row['default']}]" if row["default"] else ""
        lines.append(f"  {row['name']}: {row['help']}{words}{default}")
    return "\n".join(lines).strip()
