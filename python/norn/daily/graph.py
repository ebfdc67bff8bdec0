# SPDX-License-Identifier: Apache-2.0
"""What comes after what on a day: the runner and every exporter go by this."""
from typing import NamedTuple

from .days import STEPS
from .plan import Plan
from .regions import Regions
from .status import steps_of


class Node(NamedTuple):
    """A step of a region."""

    region: str
    step: str


def graph_of(regions: Regions, plan: Plan, names: list[str], until: str = STEPS[-1]) -> dict[Node, list[Node]]:
    """{step: what must have ended before}, without steps that come after `until`. A region is tuned after those of earlier waves, whose
    studies it may know."""
    wanted = STEPS[:STEPS.index(until) + 1]
    graph: dict[Node, list[Node]] = {}
    for name in names:
        steps = [step for step in steps_of(regions, regions.regions[name]) if step in wanted]
        for before, step in zip([None, *steps], steps):
            graph[Node(name, step)] = [Node(name, before)] if before else []
    if regions.tune is not None and "regions" in regions.tune["From"]:
        for node, before in graph.items():
            if node.step == "tune":
                before += [Node(other, "tune") for other in plan.before(node.region) if Node(other, "tune") in graph]
    return graph
