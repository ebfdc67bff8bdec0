# SPDX-License-Identifier: Apache-2.0
"""Curves of Recall by seconds as one small SVG that can be read on light and dark pages. Needs nothing but Python."""
import html
import math

WIDTH, HEIGHT = 760, 400
LEFT, RIGHT, TOP, BOTTOM = 56, 190, 40, 48  # of the plot to the edges; names of curves stand at the right
LINE = 17  # between names
COLOURS = (("#0072b2", "#56b4e9"), ("#d55e00", "#ff8c42"), ("#007f5f", "#2bd4a0"), ("#a3478b", "#e39ac8"),
           ("#7a6a00", "#e0c830"), ("#555555", "#bbbbbb"))  # on light, on dark
STYLE = """<style>
 text{font:13px system-ui,sans-serif;fill:#222} .soft{fill:#555} .grid{stroke:#ddd} .frame{stroke:#888;fill:none}
 .bound{stroke:#333;stroke-dasharray:7 4} .curve{fill:none;stroke-width:2.2;stroke-linejoin:round}
 %s
 @media (prefers-color-scheme:dark){text{fill:#eee} .soft{fill:#aaa} .grid{stroke:#444} .frame{stroke:#888}
 .bound{stroke:#ddd} %s}
</style>"""


def powers_of_ten(low, high):
    return [10.0 ** power for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]


def steps(high):
    """Values from 0 to at least `high` for a grid of four to eight lines."""
    size = 10.0 ** math.floor(math.log10(high))
    step = next(size * part for part in (0.2, 0.5, 1, 2) if high / (size * part) <= 7)
    return [round(step * number, 10) for number in range(math.ceil(high / step) + 1)]


def seconds_text(value):
    return f"{value:g} s" if value < 1e5 else f"{value:.0e} s"


def spread(places, least):
    """Places in the same order, at least `least` apart, as little moved as going down from the top allows."""
    moved, last = {}, -math.inf
    for number in sorted(range(len(places)), key=places.__getitem__):
        last = max(places[number], last + least)
        moved[number] = last
    return [moved[number] for number in range(len(places))]


def curves_svg(title, curves, bounds, y_name):
    """curves: {name: [(seconds, value), ...]}; bounds: {name: value}, lines across; seconds have a logarithmic axis."""
    points = [point for curve in curves.values() for point in curve if point[0] > 0]
    if not points:
        raise ValueError("there is no curve to draw")
    ticks = powers_of_ten(min(x for x, _ in points), max(x for x, _ in points))
    first, last = math.log10(ticks[0]), math.log10(ticks[-1])
    levels = steps(max([y for _, y in points] + list(bounds.values()) + [1e-6]))
    x_of = lambda x: LEFT + (math.log10(x) - first) / max(last - first, 1e-9) * (WIDTH - LEFT - RIGHT)
    y_of = lambda y: HEIGHT - BOTTOM - y / levels[-1] * (HEIGHT - TOP - BOTTOM)
    colours = [COLOURS[number % len(COLOURS)] for number in range(len(curves))]
    rules = [" ".join(f".c{n}{{stroke:{pair[side]}}} .t{n}{{fill:{pair[side]}}}" for n, pair in enumerate(colours)) for side in (0, 1)]
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img" '
             f'aria-label="{html.escape(title, quote=True)}">', STYLE % tuple(rules),
             f'<text x="{LEFT}" y="22" font-weight="600">{html.escape(title)}</text>']
    for level in levels:
        parts.append(f'<path class="grid" d="M{LEFT} {y_of(level):.1f}H{WIDTH - RIGHT}"/>'
                     f'<text class="soft" x="{LEFT - 6}" y="{y_of(level) + 4:.1f}" text-anchor="end">{level:g}</text>')
    for tick in ticks:
        parts.append(f'<path class="grid" d="M{x_of(tick):.1f} {TOP}V{HEIGHT - BOTTOM}"/>'
                     f'<text class="soft" x="{x_of(tick):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{seconds_text(tick)}</text>')
    parts.append(f'<rect class="frame" x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" height="{HEIGHT - TOP - BOTTOM}"/>'
                 f'<text class="soft" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">'
                 f'{html.escape(y_name)} after seconds of training</text>')
    names = []
    for name, value in bounds.items():
        parts.append(f'<path class="bound" d="M{LEFT} {y_of(value):.1f}H{WIDTH - RIGHT}"/>')
        names.append((y_of(value), f"{name} {value:.3f}", "soft"))
    for number, (name, curve) in enumerate(curves.items()):
        drawn = [(x_of(x), y_of(y)) for x, y in curve if x > 0]
        if drawn:
            path = "L".join(f"{x:.1f} {y:.1f}" for x, y in drawn)
            dots = "".join(f'<circle class="t{number}" cx="{x:.1f}" cy="{y:.1f}" r="2.4"/>' for x, y in drawn)
            parts.append(f'<path class="curve c{number}" d="M{path}"/>{dots}')
            names.append((drawn[-1][1], f"{name} {curve[-1][1]:.3f}", f"t{number}"))
    for (_, name, kind), y in zip(names, spread([place for place, _, _ in names], LINE)):
        parts.append(f'<text class="{kind}" x="{WIDTH - RIGHT + 8}" y="{y + 4:.1f}">{html.escape(name)}</text>')
    return "\n".join([*parts, "</svg>\n"])
