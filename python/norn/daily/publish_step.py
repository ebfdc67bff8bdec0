# SPDX-License-Identifier: Apache-2.0
"""Puts a model that has passed the gate into service, and removes what is too old."""
import os
import pathlib
import shutil

from .._files import read_json, write_json
from .days import digest_of
from .serving import CURRENT, Service
from .step import HeldBack, Work


def inputs(work: Work) -> dict:
    return {"model": work.day.outputs("train")["model.nc"], "features": work.day.outputs("import")["features.txt"],
            "gate": work.day.outputs("gate")["gate.json"]}


def make(work: Work, folder: pathlib.Path) -> tuple[list[str], dict]:
    day, made = work.day.day.day, inputs(work)
    verdict = read_json(work.day.made("gate") / "gate.json")
    if not verdict["passed"]:
        raise HeldBack(f"held back: {'; '.join(verdict['why'])}")
    service = Service(work.regions.serving, work.region.name)
    with service.lock(work.programs.stop.check):
        name = f"{day}-{digest_of([made['model'], made['features']])[:8]}"
        if service.is_withdrawn(name):
            raise HeldBack(f"{name} was taken back by --rollback, and is not published again")
        current = service.current()
        if current is not None and current["day"] > day:
            raise HeldBack(f"the model of a later day is in service: {current['id']}")
        # A gate that was held against another model than the one in service says nothing.
        if current is not None and current["id"] not in (name, verdict["against"]):
            raise HeldBack(f"{current['id']} came into service after the gate was held against {verdict['against']}; run the same command "
                           "again")
        previous = current["previous"] if current is not None and current["id"] == name else (current or {}).get("id")
        record = {"id": name, "region": work.region.name, "day": day, "model": made["model"], "against": verdict["against"],
                  "previous": previous}
        service.put(name, {"model.nc": work.day.made("train") / "model.nc", "net.json": work.day.made("train") / "net.json",
                           "run.json": work.day.made("train") / "run/run.json", "features.txt": work.day.made("import") / "features.txt",
                           "gate.json": work.day.made("gate") / "gate.json"}, record)
        service.point(CURRENT, name)
        service.prune(work.regions.keep)
    write_json(folder / "published.json", {"id": name})
    _prune_days(work)
    return ["published.json"], {"id": name}


def _prune_days(work: Work) -> None:
    """Of the region's days the newest stay; a day of which nothing is left goes."""
    kept = [work.day.day, *(day for day in work.day.day.earlier() if (day.folder / work.region.name).exists())]
    for day in kept[work.regions.keep:]:
        shutil.rmtree(day.folder / work.region.name, ignore_errors=True)
        if all(path == day.own for path in day.folder.iterdir()):
            gone = day.folder.with_name(f".{day.day}.gone")
            try:
                os.replace(day.folder, gone)
            except OSError:
                continue  # another region's step has just done it
            shutil.rmtree(gone, ignore_errors=True)
