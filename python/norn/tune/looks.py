# SPDX-License-Identifier: Apache-2.0
"""What is said and written of a study that is there, and may be running: its state, its best, its page, exports."""
from __future__ import annotations

import argparse
import os
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .._files import write_json
from ..errors import DataError, Error, UsageError
from ..report.runs import names_of
from .export import export
from .facts import Facts
from .journal import read_events
from .outlook import outlook
from .study import Study
from .study_page.found import Found
from .study_page.page import PAGE, write_page
from .voice import best_settings, status

if TYPE_CHECKING:
    from .._types import Path


def wanted(wish: argparse.Namespace) -> bool:
    return bool(wish.status or wish.best or wish.export or wish.report is not None)


def look(wish: argparse.Namespace) -> int:
    if wish.page and wish.report is None:
        raise UsageError("--page: says where --report writes to; give that too")
    if wish.report is not None:
        names = [*([wish.study] if wish.study else []), *wish.report]
        if not names:
            raise UsageError("--report: of which study? give --study FOLDER, or folders behind --report")
        print(report(names, wish.page))
    if wish.status or wish.best or wish.export:
        if not wish.study:
            raise UsageError("--study is missing; give the folder of a study")
        _look_at(_folder(wish.study), wish)
    return 0


def _folder(name: Path) -> pathlib.Path:
    folder = pathlib.Path(os.path.abspath(name))
    if not (folder / "study.json").exists():
        raise UsageError(f"{folder}: holds no study; check the path")
    return folder


def _look_at(folder: pathlib.Path, wish: argparse.Namespace) -> None:
    study, facts = read(folder)
    if wish.status:
        print(status(study, facts))
        promised = outlook(study, facts, 1)
        if promised is not None:
            print(f"a further trial is expected to raise the best by {promised.gains[0]:.2%}, in {promised.hours:.3g} planned hours")
    if wish.best:
        settings = best_settings(facts)
        if settings is None:
            raise DataError(f"{folder}: no trial has come to its end yet; --status says how far they are")
        write_json(wish.best, study.network_of(settings))
    if wish.export:
        print(export(wish.export, study, facts))


def read(folder: pathlib.Path) -> tuple[Study, Facts]:
    """Also while it runs, and of an older version."""
    study = Study.open(_folder(folder), any_algorithm=True)
    return study, Facts.read_only(folder / "journal.jsonl", read_events(folder / "journal.jsonl")[0])


def report(names: Sequence[Path], page: Path | None) -> pathlib.Path:
    """One page of one study or several; its path."""
    folders = [_folder(name) for name in names]
    if len(set(folders)) < len(folders):
        raise UsageError(f"--report: {next(f for f in folders if folders.count(f) > 1)} is given twice; leave one out")
    path = pathlib.Path(page) if page else folders[0] / PAGE
    write_page([Found(folder, name) for folder, name in zip(folders, names_of(folders))], path)
    return path


def page_at_the_end(folder: pathlib.Path, voice) -> None:
    """What the page cannot show must not take away what was found."""
    try:
        write_page([Found(folder)], folder / PAGE)
        voice.say(f"page {folder / PAGE}")
    except Error as error:
        voice.warn(f"warning: no page: {error}")
