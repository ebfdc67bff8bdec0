# SPDX-License-Identifier: Apache-2.0
"""The charts of a study's page, as data for its script."""
from typing import Any

from ...report.runs import rounded
from ..dimensions import Listed
from ..search import DONE, HALVED
from ..voice import value_text
from .found import ON_THE_WAY, Found, Shown

UNITS = ((3600.0, 7200.0, "hours"), (60.0, 120.0, "minutes"), (0.0, 0.0, "seconds"))
LETTERS = 44  # of a chart's title


def short_name(path: str) -> str:
    return path if len(path) <= LETTERS else path[:LETTERS - 1] + "…"


def kind_of(one: Shown) -> str:
    """What curves and points go together."""
    return one.state if one.state in (DONE, HALVED) else "on the way" if one.state in ON_THE_WAY else "failed"


LOOKS = {HALVED: {"gray": True, "faint": True}, "failed": {"color": 7, "faint": True}, "on the way": {"color": 2}, DONE: {"color": 0}}


def best_charts(founds: list[Found], prefix: str) -> list[dict]:
    """The best value by trials, by epochs and by planned seconds."""
    longest = max(sum(one.planned for one in found.ended) for found in founds)
    size, unit = next((size or 1.0, name) for size, least, name in UNITS if longest >= least)
    axes = (("trials", "by trial", "trial", lambda one: 1, {"whole": True}),
            ("epochs", "by epochs", "epochs of all trials", lambda one: one.epochs, {}),
            ("planned", "by planned time", f"planned {unit} of all trials", lambda one: one.planned / size, {}))
    charts = []
    for key, title, x, weigh, more in axes:
        series: list[dict] = []
        for n, found in enumerate(founds):
            points = rounded(found.best_so_far(weigh))
            band = found.random_band(weigh) if len(founds) == 1 else []
            name = found.name if len(founds) > 1 else "this search" if band else ""
            if points and band:
                series.append({"name": "at random", "color": 6, "points": [], "band": [[_six(value) for value in row] for row in band]})
            if points:
                series.append({"name": name, "color": n, "points": points, "step": True})
        if any(one["points"] for one in series):
            charts.append({"id": f"{prefix}best-{key}", "title": title, "x": x, "y": founds[0].objective, "series": series, "small": True,
                           **more})
    return charts


def _six(value: float) -> float:
    return float(f"{value:.6g}")


def curve_charts(found: Found, prefix: str) -> list[dict]:
    """Values by epoch, each trial to where it came; rungs upright."""
    curves, series = found.curves(), []
    best = found.best.number if found.best else -1
    order = sorted((one for one in found.shown() if curves[one.number]),
                   key=lambda one: (one.number == best, one.state == DONE, one.number))
    for one in order:
        kind = kind_of(one)
        look = ({"color": 1, "name": f"the best, trial {best}"} if one.number == best
                else {"name": kind, "group": kind, **LOOKS[kind], "faint": True})
        points = [[*point, f"trial {one.number}, {one.state}"] for point in rounded(curves[one.number])]
        series.append({"points": points, **look})
    if not series:
        return []
    rungs = [{"x": rung, "text": "rung"} for rung in found.study.identity["rungs"]]
    return [{"id": f"{prefix}curves", "title": found.objective, "x": "epoch", "y": found.objective, "series": series, "wide": True,
             "one": True,
             "marks": rungs}]


def slice_charts(found: Found, prefix: str, order: list[int]) -> list[dict]:
    """The value of each trial by each parameter, the most important first."""
    charts: list[dict] = []
    for n in order:
        one = found.study.space.dimensions[n]
        there = [trial for trial in found.shown() if trial.whole is not None and one.path in trial.settings]
        chart: dict[str, Any] = {"id": f"{prefix}slice-{n}", "title": short_name(one.path), "x": "", "y": found.objective, "small": True,
                                 "one": True}
        if isinstance(one, Listed):
            chart["names"] = [value_text(value) for value in one.values]
            chart["xrange"] = [-0.5, one.size - 0.5]
        else:
            chart["xlog"], chart["xrange"] = one.scale.log, [one.low, one.high]
        series = []
        for kind, look in LOOKS.items():
            points = [_point(found, one, n, trial) for trial in there if kind_of(trial) == kind]
            if points:
                series.append({"name": kind, "points": points, "dots": True, **look})
        if found.best in there:
            series.append({"name": "the best", "color": 1, "points": [_point(found, one, n, found.best)], "dots": True,
                           "best": [_point(found, one, n, found.best)[0]]})
        if series:
            charts.append({**chart, "series": series})
    return charts


def _point(found: Found, one, n: int, trial: Shown) -> list:
    if isinstance(one, Listed):
        x = trial.row[n] if one.category else round(trial.row[n] * (one.size - 1))
    else:
        x = trial.settings[one.path]
    return [x, _six(trial.whole), f"trial {trial.number}, {trial.state}, {value_text(trial.settings[one.path])}"]
