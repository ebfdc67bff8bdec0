# SPDX-License-Identifier: Apache-2.0
"""The report's page: one file with its data, style and script."""
import html
import json
import pathlib

from .drawing import count, floor_html, network_svg, ops_html, seconds
from .examples import SHOWN_ITEMS
from .runs import Curves

HERE = pathlib.Path(__file__).resolve().parent
STYLES, SCRIPTS = (HERE / "page.css",), (HERE / "drawing.js",)  # of every page
THEME_BUTTON = '<button id="theme">light / dark</button>'
SETTINGS = ("Optimizer", "Alpha", "Batch", "Epochs", "Lambda", "Lambda1", "Seed")


def escaped(value):
    return html.escape(str(value))


def tile(value, name):
    return f'<div class="tile"><b>{escaped(value)}</b><span>{escaped(name)}</span></div>'


def number(value, digits=5):
    return f"{value:.{digits}g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def tiles(run):
    epochs, evals = run.of("epoch"), run.of("eval")
    parts = []
    if evals:
        best = next((e for e in reversed(evals) if e["best"]), evals[-1])
        parts.append(tile(number(best["value"], 4), f'best {best["watched"]}, epoch {best["epoch"]}'))
    if epochs:
        parts.append(tile(number(epochs[-1]["cost"], 4), f'training cost, epoch {epochs[-1]["epoch"]:,}'))
        parts.append(tile(f'{count(epochs[-1]["epoch"])} / {count(run.start["epochs"])}', "epochs"))
    parts += [tile(count(round(run.speed())), "examples a second"), tile(seconds(run.seconds()), "of training"),
              tile(count(run.start["weights"]), "weights"), tile(count(run.start["examples"]), "examples")]
    ranks = run.start["ranks"]
    where = "GPU" if run.start["device"] == "cuda" else "CPU"
    parts.append(tile(f'{ranks} {where}{"s" if ranks > 1 and where == "GPU" else ""}' if where == "GPU" or ranks > 1 else where,
                      f'{run.start["precision"]}, {run.start["threads"]} threads' if where == "CPU" else run.start["precision"]))
    return f'<div class="tiles">{"".join(parts)}</div>'


def status(run):
    text = run.status()
    look = "good" if text in ("completed", "stopped early") else "bad" if text == "failed" else ""
    return f'<span class="status {look}">{escaped(text)}</span>'


def grid(look, charts):
    """Places for charts: one, three or as many small ones as there is room for beside each other."""
    cards = "".join(f'<div class="card" id="chart-{c["id"]}"></div>' for c in charts)
    return f'<div class="grid {look}">{cards}</div>' if cards else ""


def chart_cards(charts):
    return (grid("one", [c for c in charts if c.get("wide")]) + grid("small", [c for c in charts if c.get("small")]) +
            grid("", [c for c in charts if not c.get("wide") and not c.get("small")]))


def settings_of(run):
    """{group: {name: text}} of a run."""
    start, record = run.start, run.record
    network = record.get("network", {})
    training = network.get("Training", {})
    groups = {"Run": {"state": run.status(), "model": start["model"], "started": run.starts[0]["time"], "resumed": len(run.starts) - 1,
                      "command": " ".join(record.get("command", []))}}
    training = {**{"Batch": start["batch"], "Epochs": start["epochs"], "Seed": start["seed"]}, **training}
    groups["Training"] = {name: training[name] for name in SETTINGS if name in training}
    groups["Training"] |= {name: value for name, value in sorted(training.items()) if name not in SETTINGS}
    groups["Network"] = {name: value for name, value in sorted(network.items()) if name not in ("Training", "Layers")}
    groups["Network"] |= {f'layer {layer["Name"]}': layer_text(layer) for layer in network.get("Layers", [])}
    groups["Data"] = {s["name"]: f'{count(s["examples"])} examples, width {s["width"]:,}, {count(s["entries"])} entries, checksum '
                                 f'{s["checksum"]}, {s["file"]}' for s in record.get("sets", []) + record.get("validation_sets", [])}
    groups["Machine"] = {name: start[name] for name in ("device_name", "precision", "ranks", "threads")}
    groups["Machine"] |= {"host": record.get("host", ""), "version": start["version"], **record.get("versions", {})}
    return groups


def layer_text(layer):
    return ", ".join(f"{k} {plain(v)}" for k, v in layer.items() if k != "Name")


def plain(value):
    if isinstance(value, dict):
        return ", ".join(f"{k} {plain(v)}" for k, v in value.items())
    if isinstance(value, list):
        return " ".join(plain(v) for v in value)
    return number(value, 6) if not isinstance(value, bool) else "yes" if value else "no"


def settings_table(runs):
    every = [settings_of(run) for run in runs]
    rows = []
    if len(runs) > 1:
        rows.append("<tr><th></th>" + "".join(f"<th>{escaped(run.name)}</th>" for run in runs) + "</tr>")
    for group in every[0]:
        names = list(dict.fromkeys(name for settings in every for name in settings[group]))
        shown = [(name, [plain(settings[group].get(name, "")) for settings in every]) for name in names]
        if not any(any(values) for _, values in shown):
            continue
        rows.append(f'<tr class="group"><td colspan="{len(runs) + 1}">{group}</td></tr>')
        for name, values in shown:
            if any(values):
                differs = ' class="differs"' if len(set(values)) > 1 and group != "Run" else ""
                rows.append(f"<tr{differs}><td>{escaped(name)}</td>" + "".join(f"<td>{escaped(v)}</td>" for v in values) + "</tr>")
    note = '<p class="note">Rows that differ between the runs are tinted.</p>' if len(runs) > 1 else ""
    return f'<h2>Settings</h2><div class="card wide"><table id="settings">{"".join(rows)}</table>{note}</div>'


def comparison_table(runs):
    head = ["run", "state", "epochs", "training cost", "best", "examples/s", "time"]
    rows = []
    for i, run in enumerate(runs):
        epochs, evals = run.of("epoch"), run.of("eval")
        best = next((e for e in reversed(evals) if e["best"]), None)
        cells = [f"{epochs[-1]['epoch']:,}" if epochs else "0", number(epochs[-1]["cost"], 5) if epochs else "",
                 f'{best["watched"]} {best["value"]:.5g} (epoch {best["epoch"]})' if best else "", count(round(run.speed())),
                 seconds(run.seconds())]
        rows.append(f'<tr><td><span class="swatch c{i % 8}"></span>{escaped(run.name)}</td><td>{escaped(run.status())}</td>' +
                    "".join(f'<td class="number">{escaped(cell)}</td>' for cell in cells) + "</tr>")
    heads = "".join(f'<th{" class=number" if i > 1 else ""}>{name}</th>' for i, name in enumerate(head))
    return f'<div class="card wide"><table id="runs"><tr>{heads}</tr>{"".join(rows)}</table></div>'


def story(run):
    """What happened: starts, checkpoints, the end, errors."""
    rows = []
    for event in run.all:
        kind = event["event"]
        if kind == "start":
            text = f'goes on after epoch {event["epoch"]}, step {event["step"]:,}' if event["resumed"] else "begins"
        elif kind == "checkpoint":
            text = f'{event["file"]}, step {event["step"]:,}'
        elif kind == "end":
            text = {"completed": "completed", "early_stop": "stopped early", "stopped": "stopped by a signal"}[event["reason"]]
            text += f', {event["model"]}' if "model" in event else ""
        elif kind == "error":
            text = f'{event["message"]} (exit code {event["exit_code"]})'
        else:
            continue
        rows.append(f'<tr><td>{escaped(event["time"][:19].replace("T", " "))}</td><td>{kind}</td><td>{escaped(text)}</td></tr>')
    if len(rows) > 24:
        rows = [*rows[:8], f'<tr><td></td><td></td><td>… {len(rows) - 20} more …</td></tr>', *rows[-12:]]
    return f'<h2>What happened</h2><div class="card wide"><table id="story">{"".join(rows)}</table></div>'


def scores(best):
    most = max((score for _, score in best), default=1.0) or 1.0
    rows = "".join(f'<tr><td>{escaped(item)}</td><td class="score"><div class="bar" style="width:{max(0.0, 100 * score / most):.1f}%">'
                   f'</div></td><td class="number">{score:.3g}</td></tr>' for item, score in best)
    return f"<table>{rows}</table>"


def people(examples):
    cards = []
    for name, items, best in examples:
        chips = "".join(f'<span class="chip">{escaped(item)}</span>' for item in items[:SHOWN_ITEMS])
        if len(items) > SHOWN_ITEMS:
            chips += f'<span class="chip">and {len(items) - SHOWN_ITEMS} more</span>'
        cards.append(f'<div class="card person"><h3>{escaped(name)}</h3><div class="chips">{chips}</div>{scores(best)}</div>')
    return ('<h2>Recommendations</h2><p class="note">Above what an example holds, below what the model recommends it beside, best first.'
            f'</p><div class="people" id="examples">{"".join(cards)}</div>')


def pixels(address, text):
    return f'<img class="pixels" src="{address}" alt="{escaped(text)}">'


def filter_cards(filters):
    """Of each convolution that reads images."""
    return "".join(f'<h2>Filters of {escaped(one.layer)}</h2><p class="note">How much each place of {escaped(one.source)} counts: grey not '
                   f'at all, bright for, dark against.</p><div class="card wide filters">'
                   + "".join(pixels(address, f"filter {i}") for i, address in enumerate(one.shown)) + "</div>" for one in filters)


def mistake_cards(mistakes):
    cards = [f'<div class="card person"><h3>{escaped(one.name)}</h3><div class="mistake">{pixels(one.shown, one.name)}<div>'
             f'<p class="note">it is {escaped(", ".join(one.classes) or "of no class")}</p>{scores(one.best)}</div></div></div>'
             for one in mistakes.shown]
    return (f'<h2>Images taken for another class</h2><p class="note">{mistakes.count:,} of {mistakes.examples:,} images; those that the '
            f'model is surest of stand first.</p><div class="people" id="mistakes">{"".join(cards)}</div>')


def single_run(run, shown):
    plan = run.record.get("plan") or {}
    parts = []
    if plan.get("layers"):
        step = run.start["batch"] / run.speed() if run.speed() else 0.0
        parts.append(f'<h2>Network</h2><div class="card wide">{network_svg(plan)}</div>')
        times = floor_html(plan, step) + ops_html(run.record.get("ops") or [])
        parts.append(f"<h2>Where a step's time goes</h2>{times}" if times else "")
    parts.append(filter_cards(shown.filters))
    if shown.mistakes:
        parts.append(mistake_cards(shown.mistakes))
    if shown.recommendations:
        parts.append(people(shown.recommendations))
    return "".join(parts)


def block_of(name, value):
    """Data in the page for its script."""
    # No "<" at all: "<!--<script" would keep the block open beyond its end.
    text = json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{text}</script>'


def whole_page(title, body, blocks, styles, scripts):
    """One file with everything in it. `body`: HTML; `blocks`: {name: data}; `styles`, `scripts`: paths."""
    data = "".join(block_of(name, value) for name, value in blocks.items())
    style = "".join(path.read_text(encoding="utf-8") for path in styles)
    script = "".join(f"<script>{path.read_text(encoding='utf-8')}</script>" for path in scripts)
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, '
            f'initial-scale=1"><title>{escaped(title)}</title><style>{style}</style></head><body><main>{body}</main>{data}{script}'
            '</body></html>\n')


def make_page(runs, title, shown):
    charts = Curves(runs).all()
    single = len(runs) == 1
    body = [f'<header><h1>{escaped(title)}</h1>{status(runs[0]) if single else ""}{THEME_BUTTON}</header>',
            tiles(runs[0]) if single else comparison_table(runs), f"<h2>Curves</h2>{chart_cards(charts)}",
            single_run(runs[0], shown) if single else "", settings_table(runs), story(runs[0]) if single else "",
            f'<footer>Norn {escaped(runs[0].start["version"])}; made of {escaped(", ".join(str(run.folder) for run in runs))}</footer>']
    return whole_page(title, "".join(body), {"charts": charts}, STYLES, [*SCRIPTS, HERE / "page.js"])
