# SPDX-License-Identifier: Apache-2.0
"""What each search of a day may spend. The hours are divided once a day, when the first search asks: by the sizes of the texts, and by
what the regions' last searches promise."""
from .._files import read_json, write_json
from ..errors import Error
from ..tune import outlook
from .days import Lock, checksum
from .plan import Plan
from .step import Work, earlier_study, is_due


def hours_of(work: Work, plan: Plan) -> float | None:
    """Planned ones of the region's search; None: as many as its trials take."""
    in_all, own = work.regions.tune["GpuHoursInAll"], work.day.day.own
    if in_all is None:
        return None
    with Lock(own / "hours.lock", work.programs.stop.check):
        known = read_json(own / "hours.json") if (own / "hours.json").exists() else {"in_all": None}
        if known["in_all"] != in_all:
            known = {"in_all": in_all, "hours": _divided(work, plan, in_all)}
            write_json(own / "hours.json", known)
    # Of a region that came later, as if it had been there
    return round(known["hours"].get(work.region.name, in_all * plan.shares[work.region.name]), 6)


def _divided(work: Work, plan: Plan, in_all: float) -> dict[str, float]:
    """Among the regions that are searched today."""
    weights = {name: share for name, share in plan.shares.items() if is_due(work.regions, work.day.day, name)}
    return outlook.divide(in_all, weights, {name: _outlook(work, name) for name in weights})


def _outlook(work: Work, name: str) -> outlook.Outlook | None:
    """Of the region's last search; None: there is none in this space, or it cannot be read, which is not for other regions to mend."""
    region, found = work.regions.regions[name], earlier_study(work.day.day, name)
    if found is None:
        return None
    try:
        alike = read_json(found[1] / "study.json")["space_digest"] == checksum(region.space)[:16]
        return outlook.outlook_of(found[1], region.trials) if alike else None
    except Error:
        return None
