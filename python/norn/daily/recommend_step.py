# SPDX-License-Identifier: Apache-2.0
"""Recommends with the model in service, in parts: each is there whole or not, and one that is there is not made again."""
import gzip
import itertools
import pathlib
from typing import Iterator

from .._files import write_whole
from ..errors import RegionError
from .days import checksum, digest_of
from .serving import LISTS, LISTS_PREFIX, Service
from .step import Work, day_pattern

# A line of these is an example; in tables an example may have several.
_TABLES = (".csv", ".tsv")


def _requests(work: Work) -> pathlib.Path:
    path = day_pattern(work.region.requests, work.day.day.day)
    if not path.is_file():
        raise RegionError(f"{path}: there are no requests of region \"{work.region.name}\"; put the file there, then run the same command "
                          "again")
    return path


def inputs(work: Work) -> dict:
    current = Service(work.regions.serving, work.region.name).current()
    if current is None:
        raise RegionError(f"{work.region.name}: nothing is in service that could recommend")
    return {"model": current["model"], "id": current["id"], "requests": checksum(_requests(work)), "rules": work.regions.recommend,
            "predictor": work.build("predictor")}


def make(work: Work, folder: pathlib.Path) -> tuple[list[str], dict]:
    asked = inputs(work)
    service, rules = Service(work.regions.serving, work.region.name), work.regions.recommend
    parts, lines = [], 0
    for part, count in _shards(_requests(work), folder, rules["PartLines"]):
        name = f"part-{len(parts):05d}.txt"
        if not (folder / name).exists():
            work.run("predictor", ["--model", service.folder / asked["id"] / "model.nc", "--requests", part, "--output", name, "--top",
                                   rules["Top"],
                                   "--exclude-seen", "--threads", work.threads, "--quiet", *rules["Options"]], folder)
        parts.append(name)
        lines += count
    sums = {name: checksum(folder / name) for name in parts}
    name = f"{LISTS_PREFIX}{work.day.day.day}-{digest_of(sums)[:8]}"
    with service.lock(work.programs.stop.check):
        service.put(name, {part: folder / part for part in parts}, {"id": name, "model": asked["id"], "day": work.day.day.day})
        listed = service.target(LISTS)
        if listed is None or listed.removeprefix(LISTS_PREFIX)[:10] <= work.day.day.day:
            service.point(LISTS, name)
    return parts, {"id": name, "model": asked["id"], "requests": lines}


def _shards(requests: pathlib.Path, folder: pathlib.Path, most: int) -> Iterator[tuple[pathlib.Path, int]]:
    """(a file with a part of the requests, its lines)."""
    packed = requests.suffix == ".gz"
    if requests.with_suffix("").suffix in _TABLES or requests.suffix in _TABLES:
        yield requests, 0
        return
    part = folder / "requests.txt"
    try:
        with (gzip.open if packed else open)(requests, "rb") as stream:
            while lines := list(itertools.islice(stream, most)):
                write_whole(part, lambda file, text=lines: file.writelines(text))
                yield part, len(lines)
    except (OSError, EOFError) as error:
        raise RegionError(f"{requests}: cannot be read: {error}") from error
    part.unlink(missing_ok=True)
