# SPDX-License-Identifier: Apache-2.0
"""What a report shows without a script: the network with its sizes, and a step's floor by layers."""
import html
import math

BOX, GAP, ROW = 168, 92, 26  # width of a layer, between two of them, least distance of layers one above the other


def count(number, of=""):
    """8412345 -> '8.41 M', or of bytes '8.41 MB'."""
    for least, size, prefix in ((1e12, 1e12, "T"), (1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if number >= least:
            return f"{number / size:.3g} {prefix}{of}"
    return f"{number:,} {of}".rstrip()


def seconds(value):
    """0.00012 -> '120 µs'."""
    if value >= 100:
        minutes, rest = divmod(round(value), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def columns_of(layers, edges):
    """Layers by their distance from the inputs."""
    depth = {layer["name"]: 0 for layer in layers}
    for _ in layers:
        for edge in edges:
            depth[edge["destination"]] = max(depth[edge["destination"]], depth[edge["source"]] + 1)
    columns = {}
    for layer in layers:
        columns.setdefault(depth[layer["name"]], []).append(layer)
    return [columns[d] for d in sorted(columns)]


def heights(layers):
    """Tall where a layer is wide, by the logarithm: a layer of ten units can be seen beside one of ten million."""
    most = max(math.log10(max(layer["units"], 1)) for layer in layers)
    return {layer["name"]: 62 + 130 * (math.log10(max(layer["units"], 1)) / most if most else 0) for layer in layers}


def network_svg(plan):
    layers, edges = plan["layers"], plan["edges"]
    columns = columns_of(layers, edges)
    height_of = heights(layers)
    tallest = max(sum(height_of[l["name"]] for l in column) + ROW * (len(column) - 1) for column in columns)
    width, height = len(columns) * (BOX + GAP) - GAP + 4, tallest + 8
    place = {}
    for c, column in enumerate(columns):
        y = 4 + (tallest - sum(height_of[l["name"]] for l in column) - ROW * (len(column) - 1)) / 2
        for layer in column:
            place[layer["name"]] = (2 + c * (BOX + GAP), y)
            y += height_of[layer["name"]] + ROW
    parts = [f'<svg class="network" id="network" width="{width}" viewBox="0 0 {width} {height:.0f}" role="img" '
             'aria-label="the network">']
    for edge in edges:
        (x0, y0), (x1, y1) = place[edge["source"]], place[edge["destination"]]
        y0, y1 = y0 + height_of[edge["source"]] / 2, y1 + height_of[edge["destination"]] / 2
        bend = (x1 - x0 - BOX) / 2
        kind = "" if is_matrix(edge) else ' class="by-unit"'
        parts.append(f'<path{kind} d="M{x0 + BOX} {y0:.1f} C{x0 + BOX + bend} {y0:.1f} {x1 - bend} {y1:.1f} {x1} {y1:.1f}" '
                     f'stroke-width="{edge_width(edge):.1f}"><title>{html.escape(edge_text(edge))}</title></path>')
    for layer in layers:
        x, y = place[layer["name"]]
        parts += box(layer, x, y, height_of[layer["name"]])
    return "".join([*parts, "</svg>"])


def edge_width(edge):
    return min(14.0, 1.0 + max(0.0, math.log10(max(edge["flop"], 1.0)) - 3.0))


def is_matrix(edge):
    """Runs of older versions name weight matrices alone, and no kind."""
    return edge.get("kind", "weights") == "weights"


def edge_text(edge):
    what = f'{count(round(edge["flop"]), "FLOP")} a step' if is_matrix(edge) else f'{edge["kind"]}, unit by unit'
    return f'{edge["source"]} -> {edge["destination"]}: {what}'


def box(layer, x, y, height):
    middle, center = y + height / 2, x + BOX / 2
    lines = [f'{count(layer["units"])} units' + (f', {layer["activation"]}' if layer["activation"] else "")]
    if layer["weights"]:
        lines.append(f'{count(layer["weights"])} weights')
    name = layer["name"] if len(layer["name"]) <= 20 else layer["name"][:19] + "…"
    top = middle - 9 * len(lines) + 4
    texts = [f'<text x="{center}" y="{top:.1f}" text-anchor="middle" font-weight="600">{html.escape(name)}</text>']
    texts += [f'<text x="{center}" y="{top + 18 * (i + 1):.1f}" text-anchor="middle" class="soft">{html.escape(line)}</text>'
              for i, line in enumerate(lines)]
    return [f'<g><title>{html.escape(layer["name"])}</title><rect class="{layer["kind"]}" x="{x}" y="{y:.1f}" width="{BOX}" '
            f'height="{height:.1f}" rx="9"/>', *texts, "</g>"]


def ops_html(ops):
    """What each op of a step took beside its plan: trainer --ops."""
    took = sum(op["took_seconds"] for op in ops)
    if not took:
        return ""
    rows = []
    for op in ops:
        name = f'{op["name"]}: {op["of"]}' if op["of"] else op["name"]
        rows.append(f'<tr><td>{html.escape(name)}</td><td class="number">{seconds(op["took_seconds"])}</td>'
                    f'<td class="number">{100 * op["took_seconds"] / took:.1f} %</td><td class="number">{seconds(op["seconds"])}</td></tr>')
    return (f'<div class="card wide" id="ops"><div class="chart-head"><h3>What each op took: {seconds(took)} a step</h3></div>'
            '<table><tr><th>op</th><th class="number">took</th><th class="number">share</th><th class="number">planned</th></tr>'
            + "".join(rows) + "</table></div>")


def floor_html(plan, step_seconds):
    """A step's measured time, and what of it the weights between two layers need at least."""
    parts = [(f'{e["source"]} → {e["destination"]}', e["floor_seconds"], e) for e in plan["edges"] if is_matrix(e)]
    if not step_seconds or any(value is None for _, value, _ in parts):
        return ""
    whole = max(step_seconds, sum(value for _, value, _ in parts))
    stack, rows = [], []
    for i, (name, value, edge) in enumerate(parts):
        share = value / whole
        stack.append(f'<i class="c{i % 8}" style="width:{100 * share:.3f}%" title="{html.escape(name)}: {100 * share:.1f} %"></i>')
        rows.append(f'<tr><td><span class="swatch c{i % 8}"></span>{html.escape(name)}</td><td class="number">{seconds(value)}</td>'
                    f'<td class="number">{100 * value / step_seconds:.1f} %</td><td '
                    f'class="number">{count(round(edge["flop"]), "FLOP")}</td>'
                    f'<td class="number">{count(round(edge["bytes"]), "B")}</td></tr>')
    floor = sum(value for _, value, _ in parts)
    return (f'<div class="card wide" id="floor"><div class="chart-head"><h3>A step takes {seconds(step_seconds)}; its floor is '
            f'{seconds(floor)}, {100 * floor / step_seconds:.0f} %</h3></div><div class="stack">{"".join(stack)}</div>'
            '<table><tr><th>weights between</th><th class="number">floor</th><th class="number">share of the step</th>'
            '<th class="number">work</th><th class="number">memory</th></tr>' + "".join(rows) + "</table>"
            '<p class="note">The floor is what products, rows and updates need at rates that were measured on this machine when the '
            "run began. The rest of the step is element-wise work, waiting for data and other ranks, and what could still be "
            "won.</p></div>")
