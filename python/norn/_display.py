# SPDX-License-Identifier: Apache-2.0
"""What terminals and notebooks show of networks."""
from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._types import Facts
    from .history import History
    from .network import Network


def _units(layer: Facts) -> str:
    units = layer.get("N", "auto")
    return " x ".join(str(n) for n in units) if isinstance(units, list) else f"{units:,}" if isinstance(units, int) else str(units)


def _beside(layers: list[Facts]) -> list[list[Facts]]:
    """Layers that stand beside each other: inputs and hidden layers that are as far from the inputs as each other. Outputs, and
    layers that read what their output does, stand by themselves."""
    depth: dict[str, int] = {}
    groups: list[list[Facts]] = []
    for layer in layers:
        sources = layer.get("Source", [])
        named = [sources] if isinstance(sources, str) else sources
        depth[layer["Name"]] = max((depth.get(one, 0) + 1 for one in named), default=0)
        last = groups[-1][0] if groups else None
        if last is not None and layer["Kind"] == last["Kind"] != "Output" and depth[layer["Name"]] == depth[last["Name"]]:
            groups[-1].append(layer)
        else:
            groups.append([layer])
    return groups


def network_text(name: str, layers: list[Facts], epochs: int | None, history: History) -> str:
    """Up to three lines: layers, the run, how good it is. `epochs`: of training; None: not trained."""
    ordered = sorted(layers, key=lambda layer: layer["Kind"] == "Output")  # a layer of features stands behind its output
    lines = [f"{name}: " + " -> ".join(" + ".join(f"{layer['Name']} {_units(layer)}" for layer in beside) for beside in _beside(ordered))]
    if epochs is None:
        return lines[0] + ", not trained"
    if history:
        last = history[-1]
        lines.append(f"{last['epoch']} epochs, cost {last['cost']:.6g}")
        best = history.best
        if best:
            lines.append(f"best epoch {best['epoch']}: " + ", ".join(f"{k} {v:.4f}" for k, v in best.items() if "@" in k))
    elif epochs:
        lines.append(f"{epochs} epochs")
    return "\n".join(lines)


def recommender_text(name: str, network: str | None, params: dict[str, Any], trained: Network | None) -> str:
    """As its constructor is called, and where there is one the trained network. `network`: the name of that which was given, None: a
    recipe makes it."""
    if network is not None:
        params = {"network": network} | {key: value for key, value in params.items() if key != "recipe"}
    given = f"{name}({', '.join(f'{key}={value!r}' for key, value in params.items())})"
    return given if trained is None else network_text(given, trained.layers(), trained.model.epochs(), trained.history)


def network_html(name: str, layers: list[Facts], trained: bool, history: History) -> str:
    cells = [[html.escape(one) for one in (layer["Name"], layer["Kind"], _units(layer))] for layer in layers]
    rows = "".join(f"<tr><td>{'</td><td>'.join(row)}</td></tr>" for row in cells)
    state = "" if trained else " (not trained)"
    head = "<tr><th>layer</th><th>kind</th><th>units</th></tr>"
    return f"<div><b>norn.{name}</b>{state}<table>{head}{rows}</table>{curves_html(history)}</div>"


def curves_html(history: History) -> str:
    """A small chart for the cost and for what was watched, as SVG."""
    charts = history.curves()
    chosen = [name for name in charts if len(charts[name]) > 1][:4]
    return "".join(_chart(name, charts[name]) for name in chosen)


def _chart(name: str, points: list[tuple[int, float]], width: int = 220, height: int = 90) -> str:
    finite = [(x, y) for x, y in points if math.isfinite(y)]
    if not finite:
        return ""
    x0, x1 = finite[0][0], finite[-1][0]
    y0, y1 = min(y for _, y in finite), max(y for _, y in finite)
    place = " ".join(
        f"{4 + (width - 8) * (x - x0) / max(x1 - x0, 1):.1f},{height - 4 - (height - 22) * (y - y0) / ((y1 - y0) or 1):.1f}"
        for x, y in finite
    )
    return (
        f'<svg width="{width}" height="{height}" role="img" aria-label="{html.escape(name)} by epoch">'
        f'<polyline points="{place}" fill="none" stroke="currentColor" stroke-width="1.5"/>'
        f'<text x="4" y="12" font-size="11" fill="currentColor">{html.escape(name)}: {finite[-1][1]:.5g}</text></svg>'
    )
