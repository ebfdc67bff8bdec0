# SPDX-License-Identifier: Apache-2.0
"""Holds the new model against the one in service and against popularity, on what was held out of the day. It says whether the model may
be published; publishing asks it."""
import csv
import os
import pathlib
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np  # noqa: E402

from .. import _bootstrap as bootstrap  # noqa: E402
from .._files import write_json  # noqa: E402
from ..errors import RegionError  # noqa: E402
from .regions import POPULARITY  # noqa: E402
from .serving import Service  # noqa: E402
from .step import Work  # noqa: E402


def _against(work: Work, model: str) -> dict | None:
    """The record of the model to beat: of the one in service; where that is today's new one itself, of the one that it was held against."""
    service = Service(work.regions.serving, work.region.name)
    current = service.current()
    if current is not None and current["model"] == model and current["day"] == work.day.day.day:
        earlier = current["against"]
        return service.record(earlier) if earlier and (service.folder / earlier).exists() else None
    return current


def inputs(work: Work) -> dict:
    data, model = work.day.outputs("import"), work.day.outputs("train")["model.nc"]
    against = _against(work, model)
    return {"data": {name: data[name] for name in ("train.nc", "test.nc")}, "model": model, "against": against and against["id"],
            "rules": work.regions.gate, "evaluator": work.build("evaluator")}


def make(work: Work, folder: pathlib.Path) -> tuple[list[str], dict]:
    rules, data = work.regions.gate, work.day.made("import")
    name, k = rules["Metric"].split("@")
    against = _against(work, work.day.outputs("train")["model.nc"])

    def evaluate(model: pathlib.Path, table: str, more: list) -> dict[str, dict[int, float]]:
        work.run("evaluator", ["--model", model, "--data", data / "test.nc", "--top", k, "--per-example", table, "--threads", work.threads,
                               "--quiet",
                               *more], folder)
        return _read(folder / table, name)

    new = evaluate(work.day.made("train") / "model.nc", "new.tsv", ["--popularity", data / "train.nc"])
    old = {}
    if against is not None:
        old = evaluate(Service(work.regions.serving, work.region.name).folder / against["id"] / "model.nc", "serving.tsv", [])["model"]
    verdict = {**judge(rules, new["model"], new["popularity"], old if against is not None else None), "against": against and against["id"]}
    write_json(folder / "gate.json", verdict)
    return ["gate.json"], verdict


def _read(table: pathlib.Path, metric: str) -> dict[str, dict[int, float]]:
    """{ranking: {example: value}}"""
    found: dict[str, dict[int, float]] = {"model": {}, "popularity": {}}
    with open(table, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            if metric not in row:
                raise RegionError(f"Gate: {metric} is no mean over examples; take one of {', '.join(list(row)[3:])}")
            found[row["ranking"]][int(row["example"])] = float(row[metric])
    return found


def _paired(ours: dict[int, float], theirs: dict[int, float]) -> tuple[Any, Any]:
    """Values of the same examples. Of one that a model knows nothing to be found of it finds nothing: features come with the days."""
    every = sorted({*ours, *theirs})
    return np.array([ours.get(e, 0.0) for e in every]), np.array([theirs.get(e, 0.0) for e in every])


def _compare(ours: dict[int, float], theirs: dict[int, float]) -> dict[str, float]:
    new, old = _paired(ours, theirs)
    return {"mean": round(float(old.mean()), 9), "ratio": _number(bootstrap.ratio(new, old)),
            "bound": _number(bootstrap.lower_bound(new, old))}


def _number(value: float) -> float:
    """As JSON has it; a model that finds something where the other finds nothing is no more than 10^9 times as good."""
    return round(min(value, 1e9), 9)


def judge(rules: dict, new: dict[int, float], popularity: dict[int, float], old: dict[int, float] | None) -> dict[str, Any]:
    """What gate.json holds: `passed`, and in `why` all that speaks against it."""
    mean, why = float(np.mean(list(new.values()))), []
    found: dict[str, Any] = {"metric": rules["Metric"], "examples": len(new), "mean": round(mean, 9)}
    if len(new) < rules["MinExamples"]:
        why.append(f"{len(new)} examples have something held out, and MinExamples is {rules['MinExamples']}")
    found["popularity"] = _compare(new, popularity)
    if rules["Floor"] == POPULARITY and found["popularity"]["bound"] < 1.0:
        why.append(f"it is not surely better than popularity: {mean:.4f} to {found['popularity']['mean']:.4f}, the ratio may be "
                   f"{found['popularity']['bound']:.4f}")
    elif rules["Floor"] not in (None, POPULARITY) and mean < rules["Floor"]:
        why.append(f"{rules['Metric']} {mean:.4f} is below the Floor of {rules['Floor']}")
    if old is not None:
        found["serving"] = _compare(new, old)
        if found["serving"]["bound"] < rules["MinRatio"]:
            why.append(f"it may be worse than the model in service: {mean:.4f} to {found['serving']['mean']:.4f}, the ratio may be "
                       f"{found['serving']['bound']:.4f}, and MinRatio is {rules['MinRatio']}")
    return {"passed": not why, "why": why, **found}
