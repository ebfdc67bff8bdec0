# SPDX-License-Identifier: Apache-2.0
"""How far a day is, from what stands in its folders alone."""
from typing import NamedTuple

from .._files import read_json
from .days import FAILED, HELD_BACK, MADE, Day
from .regions import Region, Regions
from .serving import CURRENT, Service

PUBLISHED, OPEN = "published", "open"  # states of a region, beside the outcomes of its steps


def steps_of(regions: Regions, region: Region) -> list[str]:
    """In their order."""
    return ["import", *(["tune"] if region.trials else []), "train", "gate", "publish",
            *(["recommend"] if regions.recommend is not None else [])]


class State(NamedTuple):
    """Of a region on a day. `made`: steps that are done; `where`: the step that has failed or is next."""

    state: str
    made: list[str]
    where: str
    why: str


def state_of(regions: Regions, day: Day, name: str) -> State:
    region, mine = regions.regions[name], day.region(name)
    steps = steps_of(regions, region)
    made = [step for step in steps if mine.stamp(step) is not None]
    for step in steps:
        outcome = read_json(mine.outcome(step)) if mine.outcome(step).exists() else {"state": MADE}
        if outcome["state"] != MADE and (step != "recommend" or "publish" in made):
            return State(outcome["state"], made, step, outcome["message"])
    missing = [step for step in steps if step not in made]
    if missing:
        return State(OPEN, made, missing[0], "")
    published = mine.stamp("publish")["result"]["id"]
    service = Service(regions.serving, name)
    if service.target(CURRENT) != published and service.is_withdrawn(published):
        return State(HELD_BACK, made, "publish", f"{published} was taken back by --rollback")
    return State(PUBLISHED, made, "", published)


def table(regions: Regions, day: Day, names: list[str]) -> str:
    """A line a region: what is done, and what is in service."""
    width = max(len("region"), *map(len, names))
    lines = [f"{day.day}", f"{'region':<{width}}  {'state':<9}  {'in service':<19}  "]
    for name in names:
        state = state_of(regions, day, name)
        rest = state.why if state.state in (HELD_BACK, FAILED) else ""
        rest = f"{state.where}: {rest}" if rest else f"next: {state.where}" if state.state == OPEN else ""
        lines.append(f"{name:<{width}}  {state.state:<9}  {Service(regions.serving, name).target(CURRENT) or '-':<19}  {rest}".rstrip())
    states = [state_of(regions, day, name).state for name in names]
    lines[1] = lines[1].rstrip()
    lines.append(", ".join(f"{states.count(kind)} {kind}" for kind in (PUBLISHED, HELD_BACK, FAILED, OPEN) if kind in states))
    return "\n".join(lines)
