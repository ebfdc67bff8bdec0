# SPDX-License-Identifier: Apache-2.0
"""Text becomes data sets: train.nc, and test.nc with what is held out for the gate. The index of features grows from day to day, so that
numbers of features stay."""
import os
import pathlib
import re
import shutil

from ..errors import RegionError
from .days import BEGUN, checksum, day_before, is_day
from .regions import NEWEST
from .step import Work, day_pattern, follow

FEATURES = "features.txt"
# Of days that are put together; words of the region's own Import win.
_TOGETHER = {"--repeated-examples": "merge", "--duplicates": "first", "--missing-examples": "drop"}


def text_of(work: Work) -> pathlib.Path:
    text = day_pattern(work.region.text, work.day.day.day)
    if not text.exists():
        raise RegionError(f"{text}: there is no text of region \"{work.region.name}\"; put it there, then run the same command again")
    return text


def days_before(pattern: str, day: str, most: int) -> list[pathlib.Path]:
    """Texts of the days before, the newest `most` of them, the oldest first. {day} may stand in the name of a folder, and twice."""
    parts = pathlib.Path(pattern).parts
    at = next(number for number, part in enumerate(parts) if "{day}" in part)
    folder, marked = pathlib.Path(*parts[:at]), parts[at].split("{day}")
    matcher = re.compile(re.escape(marked[0]) + r"(\d{4}-\d{2}-\d{2})" + r"\1".join(map(re.escape, marked[1:])))
    try:
        names = [match.group(1) for entry in folder.iterdir() if (match := matcher.fullmatch(entry.name))]
    except FileNotFoundError:
        names = []
    found = sorted({name for name in names if is_day(name) and name < day and day_pattern(pattern, name).exists()})
    return [day_pattern(pattern, name) for name in found[-most:]]


def texts_of(work: Work) -> list[pathlib.Path]:
    """The day's text, last; where it holds the newest entries alone those of the days before stand before it."""
    newest = text_of(work)
    if work.regions.held_out != NEWEST:
        return [newest]
    earlier = days_before(work.region.text, work.day.day.day, work.regions.history)
    if not earlier:
        raise RegionError(f"{newest}: is the first day of region \"{work.region.name}\"; with HeldOut \"newest\" there is something to "
                          f"train on from the second day on")
    return [*earlier, newest]


def inputs(work: Work) -> dict:
    features = work.day.earlier(f"import/{FEATURES}")
    more = {} if work.regions.held_out_days is None else {"day": work.day.day.day, "tuned": work.region.trials > 0}
    return {**more, "texts": [[path.name, checksum(path)] for path in texts_of(work)], "features": checksum(features) if features else None,
            "held_out": work.regions.held_out, "name": work.region.data_set, "words": work.region.import_words,
            "importer": work.build("importer")}


def _importer(work: Work, folder: pathlib.Path, words: list, together: bool = False) -> None:
    own = work.region.import_words
    given = {word.partition("=")[0] for word in own}
    more = [word for option, value in _TOGETHER.items() if together and option not in given for word in (option, value)]
    work.run("importer", ["--name", work.region.data_set, "--features", FEATURES, *words, *more, *own, "--quiet"], folder)


def make(work: Work, folder: pathlib.Path) -> tuple[list[str], dict]:
    for entry in folder.iterdir():  # of an import that was killed
        if entry.name != BEGUN:
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    features = work.day.earlier(f"import/{FEATURES}")
    merge = []
    if features is not None:
        shutil.copyfile(features, folder / FEATURES)
        merge = ["--merge-features"]
    texts = texts_of(work)
    outputs = ["train.nc", "test.nc", FEATURES]
    if work.regions.held_out_days is not None:
        _import_by_time(work, folder, texts[0], merge)
        outputs += ["fit.nc", "validation.nc"] if work.region.trials else []
    elif work.regions.held_out != NEWEST:
        # By pair: what is held out today was held out of the model in service, too.
        _importer(work, folder, ["--input", texts[0], "--output", "data.nc", "--split", work.regions.held_out, "--split-by", "pair",
                                 *merge])
        _take(folder, train="train.nc", test="test.nc")
    else:
        _import_days(work, folder, texts, merge)
        if len(texts) > 2:
            outputs += ["fit.nc", "validation.nc"]
    return outputs, {"texts": len(texts)}


def _take(folder: pathlib.Path, **names: str) -> None:
    """Parts of a split under names of their own."""
    for part, name in names.items():
        os.replace(folder / f"data.{part}.nc", folder / name)


def _import_by_time(work: Work, folder: pathlib.Path, text: pathlib.Path, merge: list[str]) -> None:
    """The newest days for the gate, and for the tuning as many before them."""
    count = work.regions.held_out_days
    test, validation = (day_before(work.day.day.day, back * count - 1) for back in (1, 2))
    _importer(work, folder, ["--input", text, "--output", "data.nc", "--split", f"time:{test}", *merge], together=True)
    _take(folder, train="train.nc", test="test.nc")
    if work.region.trials:
        _importer(work, folder, ["--input", text, "--output", "data.nc", "--split", f"time:{validation}/{test}"], together=True)
        _take(folder, train="fit.nc", validation="validation.nc")
        (folder / "data.test.nc").unlink()


def _import_days(work: Work, folder: pathlib.Path, texts: list[pathlib.Path], merge: list[str]) -> None:
    """Of the day itself for the gate, and for the tuning the same one day earlier: three parts by time, none of which knows a later one."""
    def history(name: str, parts: list[pathlib.Path]) -> str:
        (folder / name).mkdir()
        for number, part in enumerate(parts):
            follow(part, folder / name / f"{number:04d}-{part.name}")
        return name

    before = history("before", texts[:-1])
    _importer(work, folder, ["--input", before, "--target", texts[-1], "--output", "test.nc", *merge], together=True)
    _importer(work, folder, ["--input", before, "--output", "train.nc"], together=True)
    if len(texts) > 2:
        earlier = history("earlier", texts[:-2])
        _importer(work, folder, ["--input", earlier, "--output", "fit.nc"], together=True)
        _importer(work, folder, ["--input", earlier, "--target", texts[-2], "--output", "validation.nc"], together=True)
