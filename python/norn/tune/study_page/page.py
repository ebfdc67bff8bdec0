# SPDX-License-Identifier: Apache-2.0
"""The page of one study, or of several: one file with its data, style and script."""
import pathlib
from typing import Any

import numpy as np

from ..._files import write_whole
from ...report.drawing import seconds
from ...report.page import SCRIPTS, STYLES, THEME_BUTTON, escaped, grid, number, tile, whole_page
from ..facts import origin_text
from ..plain import TRIAL, text_of
from ..search import DONE, HALVED
from ..space import Space
from ..voice import value_text
from .charts import best_charts, curve_charts, slice_charts
from .found import Found, Shown

HERE = pathlib.Path(__file__).resolve().parent
PAGE = "report.html"
LISTED = 15  # trials that a table shows before it is opened
LETTERS = 22     # of a name
STATUS_LOOKS = {"ended": "good", "stopped": "bad"}


def write_page(founds: list[Found], path: pathlib.Path) -> None:
    write_whole(path, lambda file: file.write(make_page(founds).encode("utf-8", errors="replace")))


def make_page(founds: list[Found]) -> str:
    several = len(founds) > 1
    title = f"{len(founds)} studies" if several else founds[0].name
    charts = best_charts(founds, "all-") if several else []
    parts = [f'<header><h1>{escaped(title)}</h1>{"" if several else status(founds[0])}{THEME_BUTTON}</header>']
    if several:
        parts += [comparison(founds), part("Best so far", "three", charts)]
    panels = []
    for place, found in enumerate(founds):
        importances = found.importances()
        order = by_importance(found.study.space, importances)
        own = [[] if several else best_charts([found], f"s{place}-"), curve_charts(found, f"s{place}-"),
               slice_charts(found, f"s{place}-", order)]
        charts += [chart for group in own for chart in group]
        panels.append(panel(found, order))
        parts.append(section(found, place, several, own, importances, order))
    parts.append(f'<footer>Norn; made of {escaped(", ".join(str(found.folder) for found in founds))}</footer>')
    return whole_page(title, "".join(parts), {"charts": charts, "panels": panels}, [*STYLES, HERE / "study.css"],
                      [*SCRIPTS, HERE / "study.js"])


def status(found: Found) -> str:
    return f'<span class="status {STATUS_LOOKS.get(found.status, "")}">{found.status}</span>'


def by_importance(space: Space, importances: list[float]) -> list[int]:
    """Numbers of the parameters, the most important first."""
    return sorted(range(len(space)), key=lambda n: -importances[n]) if importances else list(range(len(space)))


def section(found: Found, place: int, several: bool, charts: list[list[dict]], importances: list[float], order: list[int]) -> str:
    best, curves, slices = charts
    body = [tiles(found), verdict(found), warnings(found)]
    if best:
        body.append(part("Best so far", "three", best) + band_note(found))
    body += [f"<h2>Parameters</h2>{parameters(found, importances, order)}", parallel(place, found), part("Slices", "small", slices),
             halved_note(found), part("Trials by epoch", "one", curves), confirm(found), gantt(place, found), failures(found),
             trials(found), made_of(found)]
    text = "".join(body)
    if not several:
        return f'<section class="study" id="study-{place}">{text}</section>'
    head = f'<summary><h2>{escaped(found.name)}</h2>{status(found)}</summary>'
    return f'<details class="study" id="study-{place}"{" open" if place == 0 else ""}>{head}{text}</details>'


def part(title: str, look: str, charts: list[dict]) -> str:
    return f"<h2>{title}</h2>{grid(look, charts)}" if charts else ""


def tiles(found: Found) -> str:
    parts = []
    if found.best:
        parts.append(tile(number(found.best.value, 5), f"{found.objective}, trial {found.best.number}"))
        means = {row["trial"]: row["mean"] for row in found.confirmed()}
        if found.best.number in means:
            parts.append(tile(number(means[found.best.number], 5), "its mean with other seeds"))
    limit = found.facts.budget.get("trials")
    states = ", ".join(f"{count} {state}" for state, count in found.counts().items()) or "none yet"
    parts.append(tile(f"{len(found.ended)} / {limit}" if limit else len(found.ended), f"trials: {states}"))
    parts.append(tile(sum(one.epochs for one in found.ended), "epochs"))
    parts.append(tile(seconds(spent) if (spent := sum(found.facts.seconds.values())) else "0 s", "of training"))
    return f'<div class="tiles">{"".join(parts)}</div>'


def verdict(found: Found) -> str:
    """Of the best trial beside the plain recipe."""
    one = found.facts.ended and found.facts.ended.get("comparison")
    if not one:
        return ""
    text = text_of(found.objective, found.facts.ended["best"], one)
    return (f'<div class="card wide{"" if one["kept"] == TRIAL else " warning"}" id="verdict"><h3>Beside the plain recipe</h3>'
            f"<p>{escaped(text[0].upper() + text[1:])}.</p><p class=\"note\">Over the {one['examples']:,} held-out examples that have "
            "targets, by a bootstrap of pairs.</p></div>")


def warnings(found: Found) -> str:
    rows = "".join(f"<li><b>{escaped(border.path)}</b> {escaped(value_text(border.value))} stands at the "
                   f"{'upper' if border.upper else 'lower'} end; to widen it: <code>{escaped(border.wider)}</code></li>"
                   for border in found.borders)
    if not rows:
        return ""
    return ('<div class="card wide warning"><h3>The best lies on the border of a range: beyond it may be better ones</h3>'
            f"<ul>{rows}</ul><p class=\"note\">Begin a study with the wider space and <code>--from {escaped(found.folder)}</code>: it "
            "knows then what this one has found.</p></div>")


def band_note(found: Found) -> str:
    drawn = sum(one.drawn for one in found.ended)
    return ('<p class="note">Tinted: where the best of a search at random would stand, four times in five, by drawing again from the '
            f'{drawn} '
            "trials that were proposed before results had a say. It ends with as many trials, and is never above the best of "
            "them.</p>") if found.random_band(lambda one: 1) else ""


def halved_note(found: Found) -> str:
    left_out = len(found.trials) - len(found.shown())
    most = f'<p class="note">Of {len(found.trials):,} trials the best {len(found.shown()):,} are drawn.</p>' if left_out else ""
    return most + ('<p class="note">A trial that was halved stands with what the others gained, in the median, from there to their end.</p>'
            if any(one.state == HALVED for one in found.trials) else "")


def comparison(founds: list[Found]) -> str:
    rows = []
    for n, found in enumerate(founds):
        best = f"{number(found.best.value, 5)} (trial {found.best.number})" if found.best else ""
        mean = {row["trial"]: row for row in found.confirmed()}.get(found.best.number if found.best else -1)
        cells = [best, spread_text(mean) if mean else "", f"{len(found.ended):,}", f"{sum(one.epochs for one in found.ended):,}",
                 seconds(sum(found.facts.seconds.values()) or 1e-9) if found.facts.seconds else ""]
        rows.append(f'<tr><td><span class="swatch c{n % 8}"></span><a '
                    f'href="#study-{n}">{escaped(found.name)}</a></td><td>{found.status}</td>'
                    f"<td>{escaped(found.objective)}</td>" + "".join(f'<td class="number">{escaped(cell)}</td>' for cell in cells)
                    + f'<td>{len(found.borders) or ""}</td></tr>')
    heads = "".join(f'<th{" class=number" if 3 <= n <= 7 else ""}>{name}</th>' for n, name in enumerate(
        ("study", "state", "objective", "best", "with other seeds", "trials", "epochs", "training", "at a border")))
    return f'<div class="card wide"><table id="studies"><tr>{heads}</tr>{"".join(rows)}</table></div>{best_settings(founds)}'


def best_settings(founds: list[Found]) -> str:
    """What the best of each study has: where regions agree and where they differ."""
    paths = list(dict.fromkeys(one.path for found in founds for one in found.study.space.dimensions))
    rows = []
    for path in paths:
        values = [value_text(found.best.settings[path]) if found.best and path in found.best.settings else "" for found in founds]
        rows.append(f"<tr><td>{cut(path, 2 * LETTERS)}</td>" + "".join(f'<td class="number">{cut(value)}</td>' for value in values)
                    + "</tr>")
    heads = "".join(f'<th class="number">{cut(found.name)}</th>' for found in founds)
    return f'<h2>Best settings</h2><div class="card wide"><table id="settings"><tr><th></th>{heads}</tr>{"".join(rows)}</table></div>'


def parameters(found: Found, importances: list[float], order: list[int]) -> str:
    """Each with its importance, the best value and its place in the range."""
    borders, rows = {border.path for border in found.borders}, []
    most = max(importances, default=1.0)
    for n in order:
        one = found.study.space.dimensions[n]
        ends = [value_text(one.value(place)) for place in one.ends()]
        share = (f'<td class="share"><div class="bar" style="width:{100 * importances[n] / most:.1f}%"></div></td><td class="number">'
                 f'{100 * importances[n]:.0f} %</td>' if importances else "")
        best, where = "", ""
        if found.best and one.path in found.best.settings:
            best = value_text(found.best.settings[one.path])
            where = f'<div class="range"><i style="left:{100 * found.best.row[n]:.1f}%"></i></div>'
        mark = ' class="differs"' if one.path in borders else ""
        range_cells = (f'<td class="ends" colspan="3">one of {cut(", ".join(ends), 3 * LETTERS)}</td>' if one.category else
                       f'<td class="ends number">{cut(ends[0])}</td><td class="where">{where}</td><td class="ends">{cut(ends[-1])}</td>')
        rows.append(f'<tr{mark}><td>{cut(one.path, 2 * LETTERS)}</td>{share}'
                    f'<td class="number">{cut(best)}</td>{range_cells}</tr>')
    note = ("Importance: the share of a parameter in the inverse length scales of a Gaussian process fitted to all results."
            if importances else "Importances need some more results.")
    return ('<div class="card wide"><table id="parameters"><tr><th>parameter</th>'
            f'{"<th colspan=2>importance</th>" if importances else ""}<th class="number">best</th><th colspan="3">in its '
            f'range</th></tr>{"".join(rows)}</table><p class="note">{note} Tinted: at the border.</p></div>')


def cut(text: str, letters: int = LETTERS) -> str:
    """Long names must not take the room of the rest."""
    return escaped(text) if len(text) <= letters else f'<span title="{escaped(text)}">{escaped(text[:letters - 1])}…</span>'


def level(one, place: float) -> float:
    """From 0 to 1, names in the order of their list."""
    return place / max(1, one.size - 1) if one.category else place


def axis(one) -> list[tuple[float, str]]:
    """[(level, text)] of some values."""
    if one.size is not None and (one.category or one.size <= 6):
        ends = range(one.size) if one.category else [k / max(1, one.size - 1) for k in range(one.size)]
        places = dict.fromkeys(float(one.snap(np.array([float(place)]))[0]) for place in ends)
    else:
        places = dict.fromkeys(float(one.snap(np.array([k / 4]))[0]) for k in range(5))
    return [(level(one, place), brief(one.value(place))) for place in places]


def brief(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else value_text(value)


def panel(found: Found, order: list[int]) -> dict[str, Any]:
    """What the page's script draws itself: parallel coordinates, and who worked when."""
    dimensions = found.study.space.dimensions
    shown = [one for one in found.shown() if one.whole is not None]
    places, bars = found.work()
    return {"objective": found.objective, "larger": found.sign > 0, "best": found.best.number if found.best else -1,
            "axes": [{"name": dimensions[n].path, "ticks": axis(dimensions[n])} for n in order],
            "trials": [parallel_row(found, one, order) for one in shown],
            "places": places, "idle": idle(places, bars),
            "bars": [[places.index(bar["place"]), round(bar["from"], 3), round(bar["to"], 3), bar_text(bar), bar["how"]] for bar in bars]}


def parallel_row(found: Found, one: Shown, order: list[int]) -> dict[str, Any]:
    dimensions = found.study.space.dimensions
    there = [dimensions[n].path in one.settings for n in order]
    return {"n": one.number, "state": one.state, "value": one.whole, "epochs": one.epochs,
            "at": [round(level(dimensions[n], one.row[n]), 4) if is_there else None for n, is_there in zip(order, there)],
            "text": [value_text(one.settings[dimensions[n].path]) if is_there else "" for n, is_there in zip(order, there)]}


def bar_text(bar: dict) -> str:
    seed = f", seed {bar['seed']}" if bar["seed"] is not None else ""
    what = "the plain recipe" if bar["trial"] == "plain" else f"trial {bar['trial']}"
    return f"{what}{seed} to epoch {bar['until']}: {bar['how']}"


def idle(places: list[str], bars: list[dict]) -> list[float]:
    """Of each place the share of the whole time in which it had nothing to do."""
    whole = max((bar["to"] for bar in bars), default=0.0) - min((bar["from"] for bar in bars), default=0.0)
    busy = [sum(bar["to"] - bar["from"] for bar in bars if bar["place"] == place) for place in places]
    return [round(max(0.0, 1.0 - one / whole), 4) if whole > 0 else 0.0 for one in busy]


def parallel(place: int, found: Found) -> str:
    if sum(one.whole is not None for one in found.trials) < 2:
        return ""
    return ('<h2>Trials by their settings</h2><div class="card wide"><div class="chart-head"><h3>Draw along an axis to choose</h3>'
            '<span><span class="note chosen"></span> <button class="clear">clear</button></span></div><div class="scroll parallel" '
            f'id="parallel-{place}"></div>'
            f'<div class="chosen-table"></div></div>')


def gantt(place: int, found: Found) -> str:
    if not any(event["event"] == "submit" for event in found.events):
        return ""
    return (f'<h2>Who worked when</h2><div class="card wide"><div class="plot gantt" id="gantt-{place}"></div>'
            '<p class="note">Time in which no tuner ran is left out. In brackets: the share of the time in which a worker had nothing to '
            'do.</p></div>')


def spread_text(row: dict) -> str:
    return number(row["mean"], 5) + (f" ({row['spread']:.2g})" if row["spread"] is not None else "")


def confirm(found: Found) -> str:
    rows = found.confirmed()
    if not rows:
        return ""
    lines = [f'<tr{" class=differs" if found.best and row["trial"] == found.best.number else ""}><td>{row["trial"]}</td>'
             f'<td class="number">{number(row["value"], 5) if row["value"] is not None else ""}</td><td '
             f'class="number">{spread_text(row)}</td>'
             f'<td>{escaped(", ".join(number(value, 5) for value in row["values"]))}</td></tr>' for row in rows]
    return ('<h2>With other seeds</h2><div class="card wide"><table id="confirmed"><tr><th>trial</th><th class="number">in the search</th>'
            f'<th class="number">mean (spread)</th><th>each</th></tr>{"".join(lines)}</table><p class="note">The best of many by one seed '
            'owes a part '
            "of that to the seed. Spread: the standard deviation of the seeds. Tinted: the winner.</p></div>")


def failures(found: Found) -> str:
    rows = found.failures()
    if not rows:
        return ""
    lines = [f'<tr><td>{escaped(row["what"])}</td><td>{row["code"]}</td><td class="number">{row["count"]:,}</td>'
             f'<td>{escaped(", ".join(map(str, which[:12])))}{" …" if len(which) > 12 else ""}</td>'
             f'<td>{escaped(row["said"])}</td></tr>'
             for row in rows for which in [sorted(set(row["trials"]), key=lambda one: (one == "plain", one))]]
    return ('<h2>What went wrong</h2><div class="card wide"><table id="failures"><tr><th>what</th><th>exit code</th><th '
            'class="number">times</th>'
            f'<th>trials</th><th>what was said last</th></tr>{"".join(lines)}</table></div>')


def trials(found: Found) -> str:
    """The best first, then those without a value."""
    ranked = sorted(found.shown(), key=lambda one: (one.state != DONE, one.value is None, -found.sign * (one.value or 0.0), one.number))
    paths = [one.path for one in found.study.space.dimensions]
    short = [path.removeprefix("Training.").removeprefix("Layers.") for path in paths]
    head = ("<tr><th>trial</th><th>state</th>" + f'<th class="number">epochs</th><th class="number">{escaped(found.objective)}</th>'
            + "".join(f'<th class="number">{cut(name)}</th>' for name in short) + "</tr>")
    rows = [f'<tr><td>{one.number}</td><td>{one.state}{taken_mark(one)}</td><td class="number">{one.epochs}</td>'
            f'<td class="number">{number(one.value, 5) if one.value is not None else ""}</td>'
            + "".join(f'<td class="number">{cut(value_text(one.settings[path])) if path in one.settings else ""}</td>' for path in paths)
            + "</tr>" for one in ranked]
    more = (f'<details><summary class="note">{len(rows) - LISTED} more</summary><table '
            f'class="trials">{head}{"".join(rows[LISTED:])}</table></details>'
            if len(rows) > LISTED else "")
    return f'<h2>Trials</h2><div class="card wide"><table class="trials">{head}{"".join(rows[:LISTED])}</table>{more}</div>' if rows else ""


def taken_mark(one: Shown) -> str:
    return f', <span title="from {escaped(origin_text(one.origin))}">taken</span>' if one.origin else ""


def made_of(found: Found) -> str:
    one = found.study.identity
    rungs = f"one of {one['halving']} goes on after epochs {', '.join(map(str, one['rungs']))}" if one["rungs"] else "none"
    made = one.get("made_of", {})
    rows = {"objective": one["objective"], "sampler": f"{one['sampler']}, {one['start']} trials at the start", "halving": rungs,
            "clock": one["clock"],
            "seed": one["seed"], "data": ", ".join([*one["inputs"], *one["outputs"]]), "options": " ".join(one["options"]),
            "taken without training": ", ".join(f"{count} of {folder}" for folder, count in found.taken().items()),
            "other studies": ", ".join(source["folder"] for source in one.get("sources", [])), "device": made.get("device_name", ""),
            "precision": made.get("precision", ""), "examples": f"{made.get('examples', 0):,}", "trainer": made.get("version", "")}
    lines = "".join(f"<tr><td>{name}</td><td>{escaped(value)}</td></tr>" for name, value in rows.items() if str(value))
    return f'<h2>The study</h2><div class="card wide"><table id="made-of">{lines}</table></div>'
