# SPDX-License-Identifier: Apache-2.0
"""Searches the settings of a region, from what its own study of an earlier day and today's studies of larger regions know."""
import pathlib
import shutil

from .._files import read_json, write_json
from ..errors import RegionError
from ..tune.facts import PLAIN, Training, training_of
from ..tune.journal import read_events
from ..tune.plain import PLAIN_RECIPE
from ..tune.study import ALGORITHM
from . import plan as planning
from .budget import hours_of
from .days import Lock, checksum
from .step import Work, earlier_study, is_due, study_of

LEAST_RESULTS = 3  # of a study, for --from
CLOCK = 4  # slots of a search in logical time, a part of what it finds: they must not follow from what there is to run it on


def plan_of(work: Work) -> planning.Plan:
    day = work.day.day
    return planning.Plan(work.regions, day, Lock(day.own / "plan.lock", work.programs.stop.check))


def _standing(work: Work) -> tuple[str, pathlib.Path] | None:
    """(day, the earlier study) whose descriptor is good for today, too."""
    day, name = work.day.day, work.region.name
    return None if is_due(work.regions, day, name) else earlier_study(day, name)


def _read(path: pathlib.Path) -> str:
    if not path.is_file():
        raise RegionError(f"{path}: is not there; the file of --regions names it")
    return checksum(path)


def inputs(work: Work) -> dict:
    rules = work.regions.tune
    data = work.day.outputs("import")
    standing = _standing(work)
    if standing is not None:
        return {"study": standing[0], "best": checksum(standing[1] / "best.json")}
    return {"data": {name: data[name] for name in _files(data)}, "model": _read(work.region.model), "space": _read(work.region.space),
            "trials": work.region.trials, "hours": hours_of(work, plan_of(work)),
            "objective": work.regions.objective, "options": rules["Options"], "validation": [] if "fit.nc" in data else rules["Validation"],
            "trainer": work.build("trainer"), "algorithm": ALGORITHM}


def _files(data: dict) -> list[str]:
    return ["fit.nc", "validation.nc"] if "fit.nc" in data else ["train.nc"]


def make(work: Work, folder: pathlib.Path) -> tuple[list[str], dict]:
    standing = _standing(work)
    if standing is not None:
        day, study = standing
        shutil.copyfile(study / "best.json", folder / "best.json")
        earlier = read_json(study.parent / "tuned.json")
        write_json(folder / "tuned.json", {**earlier, "day": day})
    else:
        _search(work, folder)
        write_json(folder / "tuned.json", {**_best_of(folder / "study"), "day": work.day.day.day})
        shutil.copyfile(folder / "study/best.json", folder / "best.json")
    return ["best.json", "tuned.json"], read_json(folder / "tuned.json")


def _search(work: Work, folder: pathlib.Path) -> None:
    rules, data = work.regions.tune, work.day.made("import")
    asked = inputs(work)
    # The gate compares what is made of it with the model that serves.
    words = ["--study", "study", *work.search_words, "--trials", work.region.trials, "--quiet", "--plain", "no"]
    words += ["--threads", work.threads] if work.threads else []
    if asked["hours"]:
        words += ["--gpu-hours", asked["hours"]]
    if not (folder / "study/study.json").exists():
        words += ["--clock", CLOCK, "-c", work.region.model, "--space", work.region.space, "-i", data / _files(asked["data"])[0],
                  "--objective", work.regions.objective]
        words += [word for source in _sources(work) for word in ("--from", source)]
    words += rules["Options"]
    if not (folder / "study/study.json").exists():
        words += ["--", *(["--validation-input", data / "validation.nc"] if "fit.nc" in asked["data"] else rules["Validation"])]
    work.run("tuner", words, folder)


def _sources(work: Work) -> list[pathlib.Path]:
    """Studies of the same space and objective with some results: its own of an earlier day first."""
    found, wanted = [], work.regions.tune["From"]
    earlier = earlier_study(work.day.day, work.region.name)
    if "yesterday" in wanted and earlier is not None:
        found.append(earlier[1])
    if "regions" in wanted:
        found += [study for name in plan_of(work).before(work.region.name) if (study := study_of(work.day.day, name)) is not None]
    return [study for study in found if _is_alike(work, study)]


def _is_alike(work: Work, study: pathlib.Path) -> bool:
    identity = read_json(study / "study.json")
    told = [event for event in read_events(study / "journal.jsonl")[0] if event["event"] == "tell" and event["state"] != "infeasible"]
    return (identity["space_digest"] == checksum(work.region.space)[:16]
            and identity["objective"].casefold() == work.regions.objective.casefold()
            and len(told) >= LEAST_RESULTS and any(event["value"] is not None for event in told))


def _best_of(study: pathlib.Path) -> dict:
    """The trial that won, its value, and after how many epochs what is kept was at its best: the first of equal ones, as the trainer keeps
    it."""
    events = read_events(study / "journal.jsonl")[0]
    end = [event for event in events if event["event"] == "end"][-1]
    kept = PLAIN if end.get("kept") == PLAIN_RECIPE else Training(end["best"])
    values = {int(epoch): value for event in events if event["event"] == "value" and training_of(event) == kept
              for epoch, value in event["values"].items()}
    return {"trial": end["best"], "value": end["value"], "epochs": max(sorted(values), key=values.get)}
