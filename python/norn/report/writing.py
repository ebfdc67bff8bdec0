# SPDX-License-Identifier: Apache-2.0
"""Writes the page of runs."""
from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .._files import write_whole
from .._words import count
from ..errors import UsageError
from .examples import Shown, Wish, shown_of
from .page import make_page
from .runs import Run, names_of

if TYPE_CHECKING:
    from .._types import Path


def write(folders: Path | Sequence[Path], path: Path | None = None, *, title: str | None = None, examples: int = 0,
          features: Path | None = None,
          input_features: Path | None = None, requests: Path | None = None, data: Path | None = None, model: Path | None = None,
          top: int = 8, predictor: Path | None = None) -> pathlib.Path:
    """Makes a page of what trainings recorded (`run_folder`, `trainer --run-dir`): curves, network, where a step's time goes, settings. One
    file that needs neither a network nor a server. Its path is returned.

    folders: of one run, or of several that are compared.
    path: where the page goes; by default report.html in the first folder.
    title: of the page; by default the folder's name.
    examples: so many examples of the run's data get recommendations by name, from the program predictor. Of images it is so many that
        the model takes for another class: of those held out by data of their own, else of those trained on.
    features, input_features: indexes, label<TAB>number, of the output and the input, for models without labels.
    requests: a text, example<TAB>feature:feature:..., to take the examples from.
    data: data sets (NetCDF) to take the examples from.
    model: another than the run's.
    top: how many units each example gets.
    predictor: the program.

    Raises DataError for a folder without a run, and for a page that cannot be written."""
    given = [pathlib.Path(one) for one in ([folders] if isinstance(folders, (str, os.PathLike)) else folders)]
    wish = Wish(count("examples", examples, 0), features, input_features, requests, data, model, count("top", top), predictor)
    if not given:
        raise UsageError("`folders`: none is given; give the folder of a run")
    if examples and len(given) > 1:
        raise UsageError("`examples` are for the report of one run")
    runs = [Run(folder, name) for folder, name in zip(given, names_of(given))]
    made = shown_of(runs[0], wish) if len(runs) == 1 else Shown()
    shown = title or (runs[0].name if len(runs) == 1 else f"{len(runs)} runs compared")
    page = pathlib.Path(path or given[0] / "report.html")
    write_whole(page, lambda file: file.write(make_page(runs, shown, made).encode("utf-8", errors="replace")))
    return page
