# SPDX-License-Identifier: Apache-2.0
"""What a study says: on stderr while it runs, a line a trial beside how far it is, and its state as text."""
from typing import Any

from .borders import at_the_end
from .facts import PLAIN, Facts, Training, origin_text
from .plain import PLAIN_RECIPE, text_of
from .progress import Line, progress
from .search import DONE
from .study import Study


def settings_text(settings: dict[str, Any]) -> str:
    """Shortened paths: "Alpha 0.002, Hidden.N 512"."""
    short = {path: path.removeprefix("Training.").removeprefix("Layers.") for path in settings}
    return ", ".join(f"{short[path]} {value_text(value)}" for path, value in settings.items())


def value_text(value: Any) -> str:
    if isinstance(value, dict):
        return "/".join(str(value_text(one)) for one in value.values())
    return f"{value:g}" if isinstance(value, float) else "none" if value is None else str(value)


class Voice:
    """`quiet`: warnings and errors only."""

    def __init__(self, study: Study, quiet: bool):
        self.study, self.quiet = study, quiet
        self._line = Line()
        self._best: tuple[float, int] | None = None
        self._told = self._taken = 0

    def say(self, text: str) -> None:
        if not self.quiet:
            self.warn(text)

    def warn(self, text: str) -> None:
        self._line.say(text)

    def at_work(self, coordinator) -> None:
        """To be called often."""
        if not self.quiet and self._line.due():
            self._line.show(progress(coordinator, self._best[0] if self._best else None, self._taken))

    def end(self) -> None:
        """Nothing more changes in place."""
        self._line.end()

    def known(self, facts: Facts) -> None:
        """Of the trials that were told before."""
        for event in facts.decided["tell"]:
            self._count(event, facts)

    def _count(self, event: dict, facts: Facts) -> None:
        self._told += 1
        self._taken += facts.origin(Training(event["trial"]), event["epochs"]) is not None
        if event["state"] == DONE and (self._best is None or event["value"] > self._best[0]):
            self._best = event["value"], event["trial"]

    def told(self, coordinator, event: dict) -> None:
        self._count(event, coordinator.facts)
        settings = coordinator.facts.decided["propose"][event["trial"]]["settings"]
        value = "" if event["value"] is None else f" {self.study.objective} {self.study.shown(event['value']):.6g}"
        best = f"; best {self.study.shown(self._best[0]):.6g} of trial {self._best[1]}" if self._best else ""
        limit = coordinator.search.limit
        of = f"{self._told} of {limit:.0f}" if limit < float("inf") else f"{self._told}"
        self.say(f"trial {event['trial']} {event['state']} after {event['epochs']} epochs:{value} "
                 f"({settings_text(settings)}){taken_text(coordinator.facts, event)}{best} [{of}]")

    def took(self, training: Training, origin: dict[str, Any]) -> None:
        """Of a training with another seed, of whose end nothing else is said."""
        self.say(f"trial {training.trial} with seed {training.seed} taken from {origin_text(origin)}")

    def lost(self, training: Training, why: str, again: bool) -> None:
        what = "the plain recipe" if training == PLAIN else f"trial {training.folder}"
        self.warn(f"warning: {what} was lost ({why}); " + ("it begins again where its checkpoint stands" if again
                  else "it was lost too often and counts as failed"))


def status(study: Study, facts: Facts) -> str:
    """A table of the trials, and the best one."""
    lines = [f"study {study.folder}: {study.objective}, {len(facts.decided['propose'])} trials, seed {study.identity['seed']}"]
    told = {event["trial"]: event for event in facts.decided["tell"]}
    lines.append(f"{'trial':>5}  {'state':<10} {'epochs':>6}  {'value':>12}  settings")
    for event in facts.decided["propose"]:
        training = Training(event["trial"])
        end = told.get(event["trial"])
        state = end["state"] if end else "running" if training in facts.open else "waiting"
        epochs = end["epochs"] if end else max(facts.values.get(training, {0: 0.0}), default=0)
        value = end["value"] if end else facts.best_value(training, epochs)
        shown = "" if value is None else f"{study.shown(value):.6g}"
        taken = taken_text(facts, end) if end else ""
        lines.append(f"{event['trial']:>5}  {state:<10} {epochs:>6}  {shown:>12}  {settings_text(event['settings'])}{taken}")
    lines += _plain_line(study, facts)
    best = best_of(facts)
    if best is not None:
        lines.append(f"best so far: trial {best['trial']}, {study.objective} {study.shown(best['value']):.6g}")
    counts = {state: sum(event["state"] == state for event in told.values()) for state in sorted({e["state"] for e in told.values()})}
    lines.append(", ".join(f"{count} {state}" for state, count in counts.items()) or "nothing has ended yet")
    lines.append(f"{sum(facts.seconds.values()) / 3600.0:.3g} hours of training, {sum(e['epochs'] for e in told.values())} epochs")
    if facts.ended:
        lines.append(f"ended: the best is trial {facts.ended['best']}")
        lines += _compared(study, facts.ended)
        lines += [_confirmed(row) for row in facts.ended["confirmed"] if row["mean"] is not None]
    return "\n".join(lines)


def _plain_line(study: Study, facts: Facts) -> list[str]:
    """Of the plain recipe in the table of the trials, where it is trained."""
    if PLAIN not in facts.attempts:
        return []
    value = facts.best_value(PLAIN, study.epochs)
    state = facts.broken.get(PLAIN) or ("running" if PLAIN in facts.open else DONE if value is not None else "waiting")
    shown = "" if value is None else f"{study.shown(value):.6g}"
    return [f"{'plain':>5}  {state:<10} {max(facts.values.get(PLAIN, {}), default=0):>6}  {shown:>12}  the descriptor as it is"]


def _compared(study: Study, result: dict[str, Any]) -> list[str]:
    one = result.get("comparison")
    return [text_of(study.objective, result["best"], one)] if one else []


def result_text(study: Study, facts: Facts, result: dict[str, Any]) -> str:
    """What came of a study that has ended."""
    lines = [f"best: trial {result['best']}, {study.objective} {result['value']:.6g}", *_compared(study, result)]
    lines += [_confirmed(row) for row in result["confirmed"] if row["mean"] is not None]
    edges = {border.path: border for border in at_the_end(study, facts, result["best"])}
    lines += [f"  {path}: {value_text(value)}" + (f"   (the end of its range; wider: {edges[path].wider})" if path in edges else "")
              for path, value in facts.decided["propose"][result["best"]]["settings"].items()]
    if edges:
        lines.append(f"beyond the end of a range may be better ones: widen it in a space of its own, and --from {study.folder} lets that "
                     "study know this one")
    of = " of the plain recipe" if result.get("kept") == PLAIN_RECIPE else ""
    lines.append(f"descriptor {study.folder}/best.json, model {study.folder}/best.nc{of}")
    return "\n".join(lines)


def _confirmed(row: dict[str, Any]) -> str:
    spread = f" (spread {row['spread']:.2g})" if row["spread"] else ""
    return f"  trial {row['trial']}: {row['value']:.6g} in the search, {row['mean']:.6g} with other seeds{spread}"


def taken_text(facts: Facts, event: dict) -> str:
    """Behind a trial's end, where it was not trained for it."""
    origin = facts.origin(Training(event["trial"]), event["epochs"])
    return "" if origin is None else f", taken from {origin_text(origin)}"


def best_settings(facts: Facts) -> dict[str, Any] | None:
    """Of what is kept, or of the best so far; None before a trial has come to its end."""
    if facts.ended and facts.ended.get("kept") == PLAIN_RECIPE:
        return {}
    best = {"trial": facts.ended["best"]} if facts.ended else best_of(facts)
    return None if best is None else facts.decided["propose"][best["trial"]]["settings"]


def best_of(facts: Facts) -> dict | None:
    """The end of the best trial that came to its last epoch."""
    done = [event for event in facts.decided["tell"] if event["state"] == DONE]
    return max(done, key=lambda event: (event["value"], -event["trial"]), default=None)

