// SPDX-License-Identifier: Apache-2.0
// Charts drawn from data that stand in a page, and what they are made of. No library, no network.
"use strict";
const drawing = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const margin = { left: 58, right: 16, top: 12, bottom: 36 };

  function element(name, attributes, parent, text) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.appendChild(made);
    return made;
  }

  function html(name, className, parent, text) {
    const made = document.createElement(name);
    made.className = className;
    if (text !== undefined) made.textContent = text;
    parent.appendChild(made);
    return made;
  }

  // 12300 -> "12.3k", 0.00042 -> "4.2e-4".
  function shown(value, digits = 4) {
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1e6 && size < 1e15) {
      const unit = size >= 1e12 ? [1e12, "T"] : size >= 1e9 ? [1e9, "G"] : [1e6, "M"];
      return trimmed(value / unit[0], digits) + unit[1];
    }
    if (size >= 1e4 && size < 1e6) return trimmed(value / 1e3, digits) + "k";
    if (size < 1e-4 || size >= 1e15) return value.toExponential(Math.max(0, digits - 2)).replace(/\.?0+e/, "e");
    return trimmed(value, digits);
  }
  function trimmed(value, digits) {
    const text = value.toPrecision(digits);
    return text.includes(".") && !text.includes("e") ? text.replace(/\.?0+$/, "") : String(Number(text));
  }

  // Classes of a curve.
  function look(series) {
    return (series.gray ? "gray" : "c" + (series.color % 8)) + (series.faint ? " faint" : "") + (series.dashed ? " dashed" : "");
  }

  function short(text, letters) {
    const every = [...text];
    return every.length <= letters ? text : every.slice(0, Math.max(1, letters - 1)).join("") + "…";
  }

  // Beside a pointer at x, on the side where there is room.
  function show(tip, x, width) {
    tip.style.display = "block";
    const right = x > width / 2;
    tip.style.left = right ? "" : x + 14 + "px";
    tip.style.right = right ? width - x + 14 + "px" : "";
  }

  // A value stays until there is another.
  function stairs(at) {
    return at.flatMap((point, i) => (i ? [[point[0], at[i - 1][1]], point] : [point]));
  }

  function ticks(low, high, wanted) {
    const raw = (high - low) / wanted;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) found.push(i * step);
    return found;
  }
  function logTicks(low, high) {
    const found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); ++power)
      for (const m of [1, 2, 5]) found.push(m * 10 ** power);
    const inside = found.filter((v) => v >= low * 0.999 && v <= high * 1.001);
    if (inside.length > 9) return inside.filter((v) => Math.abs(Math.log10(v) % 1) < 1e-6);
    return inside.length >= 3 ? inside : ticks(low, high, 5);
  }

  // Low and high of the values with some air, or as they must be for a logarithm.
  function range(values, logarithmic, zero) {
    let low = Infinity, high = -Infinity;
    for (const value of values) {
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
    if (low === high) {
      const half = logarithmic ? 0 : Math.abs(low) / 2 || 0.5;
      [low, high] = logarithmic ? [low / 2, high * 2] : [low - half, high + half];
    }
    if (logarithmic) return [low / 1.05, high * 1.05];
    const air = 0.06 * (high - low);
    return [zero && low >= 0 ? 0 : low - (low >= 0 && low < air ? low : air), high + air];
  }

  class Chart {
    constructor(data, card) {
      this.data = data;
      this.hidden = new Set();
      const head = html("div", "chart-head", card);
      html("h3", "", head, data.title);
      this.logarithmic = false;
      if (data.log && data.series.every((s) => s.points.every((p) => p[1] > 0))) this.addLogButton(head);
      this.plot = html("div", "plot", card);
      this.addLegend(card);
      new ResizeObserver(() => this.draw()).observe(this.plot);
      this.draw();
    }

    addLogButton(head) {
      const button = html("button", "", head, "log");
      button.title = "logarithmic scale";
      button.setAttribute("aria-pressed", "false");
      button.onclick = () => {
        this.logarithmic = !this.logarithmic;
        button.setAttribute("aria-pressed", this.logarithmic);
        this.draw();
      };
    }

    // An entry for each name; curves of one group go together.
    addLegend(card) {
      const groups = new Map();
      this.data.series.forEach((series, i) => {
        if (series.name) groups.set(series.group || i, [...(groups.get(series.group || i) || []), i]);
      });
      if (!groups.size) return;
      const legend = html("div", "legend", card);
      for (const members of groups.values()) {
        const series = this.data.series[members[0]];
        const entry = html("button", "entry " + look(series).split(" ")[0], legend);
        entry.title = "show or hide";
        const kind = series.dashed ? " dashed" : series.band ? " band" : series.dots ? " dots" : "";
        html("span", "swatch" + kind + (series.faint ? " faint" : ""), entry);
        entry.append(series.name);
        entry.onclick = () => {
          const off = !this.hidden.has(members[0]);
          for (const i of members) off ? this.hidden.add(i) : this.hidden.delete(i);
          entry.classList.toggle("off", off);
          this.draw();
        };
      }
    }

    draw() {
      const width = Math.max(240, this.plot.clientWidth || 560);
      const height = this.data.small ? 190 : this.data.wide ? 320 : 250;
      const top = this.data.y ? 26 : margin.top;
      if (this.size === width && this.drawn === this.state()) return;
      this.size = width;
      this.drawn = this.state();
      const seen = this.data.series.filter((_, i) => !this.hidden.has(i));
      this.plot.replaceChildren();
      this.svg = element("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": this.data.title }, this.plot);
      this.box = { x0: margin.left, x1: width - margin.right, y0: height - margin.bottom, y1: top };
      this.scale(seen.length ? seen : this.data.series);
      this.axes(height);
      this.marks();
      this.groups = new Map(seen.map((series) => [series, this.curve(series)]));
      const pointed = seen.filter((s) => s.points.length);
      if (pointed.length) this.data.one ? this.addPointing(pointed) : this.addHover(pointed);
      this.svg.dataset.curves = seen.length;
    }
    state() {
      return this.logarithmic + ":" + [...this.hidden].sort().join();
    }

    scale(series) {
      const points = series.flatMap((s) => [...s.points, ...(s.band || []).flatMap(([x, low, high]) => [[x, low], [x, high]])]);
      const single = points.every((p) => p[0] === points[0][0]);
      const xs = points.map((p) => p[0]);
      const around = this.data.xlog ? [xs[0] / 2, xs[0] * 2] : [xs[0] - 1, xs[0] + 1];
      this.xRange = this.data.xrange || (single ? around : [xs.reduce((a, b) => Math.min(a, b)), xs.reduce((a, b) => Math.max(a, b))]);
      this.yRange = range(points.map((p) => p[1]), this.logarithmic, this.data.zero);
    }
    px(x) {
      const f = this.data.xlog ? Math.log : (v) => v;
      const [low, high] = this.xRange.map(f);
      return this.box.x0 + ((f(x) - low) / (high - low)) * (this.box.x1 - this.box.x0);
    }
    py(y) {
      const f = this.logarithmic ? Math.log : (v) => v;
      const [low, high] = this.yRange.map(f);
      return this.box.y0 - ((f(y) - low) / (high - low)) * (this.box.y0 - this.box.y1);
    }

    axes(height) {
      const { x0, x1, y0, y1 } = this.box;
      const grid = element("g", { class: "axis" }, this.svg);
      const levels = this.logarithmic ? logTicks(...this.yRange) : ticks(...this.yRange, this.data.small ? 4 : 5);
      for (const y of levels) {
        const at = this.py(y).toFixed(1);
        element("line", { x1: x0, x2: x1, y1: at, y2: at, class: "grid" }, grid);
        element("text", { x: x0 - 8, y: at, dy: "0.32em", "text-anchor": "end" }, grid, shown(y));
      }
      for (const [x, text] of this.places(x1 - x0)) {
        const at = this.px(x).toFixed(1);
        element("line", { x1: at, x2: at, y1: y0, y2: y0 + 4, class: "tick" }, grid);
        element("text", { x: at, y: y0 + 16, "text-anchor": "middle" }, grid, text);
      }
      element("line", { x1: x0, x2: x1, y1: y0, y2: y0, class: "base" }, grid);
      element("text", { x: x1, y: height - 6, "text-anchor": "end", class: "name" }, grid, this.data.x);
      if (this.data.y) element("text", { x: 2, y: 11, class: "name" }, grid, this.data.y);
    }

    // Where the axis has words: [[x, text]].
    places(room) {
      if (this.data.names) {
        const letters = Math.max(3, Math.floor(room / this.data.names.length / 6.5));
        return this.data.names.map((name, i) => [i, short(name, letters)]);
      }
      if (this.data.xlog) {
        const found = logTicks(...this.xRange), most = Math.max(2, Math.floor(room / 44));
        const powers = found.filter((x) => Math.abs(Math.log10(x) % 1) < 1e-6);
        const thinned = found.length <= most ? found : powers.length >= 2 ? powers : found.filter((_, i) => i % Math.ceil(found.length / most) === 0);
        return thinned.map((x) => [x, shown(x)]);
      }
      const found = ticks(...this.xRange, Math.max(4, Math.floor(room / 80)));
      return (this.data.whole || this.data.x === "epoch" ? found.filter((v) => Number.isInteger(v)) : found).map((x) => [x, shown(x)]);
    }

    // Upright lines: [{x, text}].
    marks() {
      for (const mark of this.data.marks || []) {
        if (mark.x < this.xRange[0] || mark.x > this.xRange[1]) continue;
        const at = this.px(mark.x).toFixed(1);
        element("line", { x1: at, x2: at, y1: this.box.y1, y2: this.box.y0, class: "mark" }, this.svg);
        element("text", { x: at, y: this.box.y1 - 3, "text-anchor": "middle" }, this.svg, mark.text);
      }
    }

    curve(series) {
      const group = element("g", { class: "curve " + look(series) }, this.svg);
      if (series.band) this.band(series.band, group);
      const at = series.points.map(([x, y]) => [this.px(x).toFixed(1), this.py(y).toFixed(1)]);
      if (series.dots) {
        for (const [cx, cy] of at) element("circle", { cx, cy, r: 3, class: "point" }, group);
        this.rings(series, group);
        return group;
      }
      if (at.length > 1) element("polyline", { points: (series.step ? stairs(at) : at).map((p) => p.join()).join(" ") }, group);
      if (at.length === 1 || (at.length <= 30 && !series.faint)) for (const [cx, cy] of at) element("circle", { cx, cy, r: at.length > 1 ? 2.2 : 3.5 }, group);
      this.rings(series, group);
      return group;
    }

    rings(series, group) {
      for (const x of series.best || []) {
        const point = series.points.find((p) => p[0] === x);
        if (point) element("circle", { cx: this.px(point[0]).toFixed(1), cy: this.py(point[1]).toFixed(1), r: 5.5, class: "best" }, group);
      }
    }

    band(rows, group) {
      const at = (x, y) => [this.px(x).toFixed(1), this.py(y).toFixed(1)];
      const high = stairs(rows.map((row) => at(row[0], row[2]))), low = stairs(rows.map((row) => at(row[0], row[1])));
      element("polygon", { points: [...high, ...low.reverse()].map((p) => p.join()).join(" ") }, group);
    }

    // Of many curves or points the nearest one alone: a point's third member says what it is, or the series' name.
    addPointing(series) {
      const dot = element("circle", { r: 4.5, class: "dot", visibility: "hidden" }, this.svg);
      const tip = html("div", "tip", this.plot);
      let raised = null;
      const hide = () => {
        tip.style.display = "none";
        dot.setAttribute("visibility", "hidden");
        if (raised) raised.classList.remove("raised");
        raised = null;
      };
      const every = series.flatMap((s) => s.points.map((p) => [this.px(p[0]), this.py(p[1]), p, s]));
      this.svg.onpointerleave = hide;
      this.svg.onpointermove = (event) => {
        const place = this.svg.getBoundingClientRect();
        const x = event.clientX - place.left, y = event.clientY - place.top;
        let best = null, least = Infinity;
        for (const one of every) {
          const far = (one[0] - x) ** 2 + (one[1] - y) ** 2;
          if (far < least) [best, least] = [one, far];
        }
        hide();
        const [px, py, point, of] = best;
        dot.setAttribute("class", "dot " + look(of));
        dot.setAttribute("cx", px);
        dot.setAttribute("cy", py);
        dot.setAttribute("visibility", "visible");
        if (!of.dots) (raised = this.groups.get(of)).classList.add("raised");
        tip.replaceChildren();
        html("div", "tip-x", tip, point[2] || of.name || "");
        const named = this.data.names ? this.data.names[Math.round(point[0])] : shown(point[0], 5);
        html("div", "tip-row", tip, `${this.data.x} ${named}, ${this.data.y || ""} ${shown(point[1], 5)}`);
        show(tip, x, place.width);
      };
    }

    addHover(series) {
      const marker = element("line", { y1: this.box.y1, y2: this.box.y0, class: "marker", visibility: "hidden" }, this.svg);
      const dots = series.map((s) => element("circle", { r: 4, class: "dot c" + (s.color % 8), visibility: "hidden" }, this.svg));
      const tip = html("div", "tip", this.plot);
      const hide = () => {
        tip.style.display = "none";
        for (const part of [marker, ...dots]) part.setAttribute("visibility", "hidden");
      };
      this.svg.onpointerleave = hide;
      this.svg.onpointermove = (event) => {
        const place = this.svg.getBoundingClientRect();
        const x = event.clientX - place.left;
        const near = series.map((s) => this.nearest(s.points, x));
        const chosen = near.reduce((a, b) => (Math.abs(this.px(b[0]) - x) < Math.abs(this.px(a[0]) - x) ? b : a), near[0]);
        if (!chosen) return;
        marker.setAttribute("visibility", "visible");
        for (const side of ["x1", "x2"]) marker.setAttribute(side, this.px(chosen[0]));
        tip.replaceChildren();
        html("div", "tip-x", tip, `${this.data.x} ${shown(chosen[0], 5)}`);
        series.forEach((s, i) => {
          const [px, py] = near[i];
          const close = Math.abs(this.px(px) - this.px(chosen[0])) < 12;
          dots[i].setAttribute("visibility", close ? "visible" : "hidden");
          if (!close) return;
          dots[i].setAttribute("cx", this.px(px));
          dots[i].setAttribute("cy", this.py(py));
          const row = html("div", "tip-row c" + (s.color % 8), tip);
          html("span", "swatch", row);
          row.append((s.name ? s.name + " " : "") + shown(py, 5));
        });
        show(tip, x, place.width);
      };
    }
    nearest(points, x) {
      let low = 0, high = points.length - 1;
      while (high - low > 1) {
        const middle = (low + high) >> 1;
        this.px(points[middle][0]) < x ? (low = middle) : (high = middle);
      }
      return Math.abs(this.px(points[low][0]) - x) < Math.abs(this.px(points[high][0]) - x) ? points[low] : points[high];
    }
  }

  function themeButton(button) {
    button.onclick = () => {
      const root = document.documentElement;
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
    };
  }

  // Those of the block "charts"; how many there are.
  function drawCharts() {
    const charts = JSON.parse(document.getElementById("charts").textContent);
    for (const data of charts) new Chart(data, document.getElementById("chart-" + data.id));
    return charts.length;
  }

  return { element, html, shown, short, show, ticks, themeButton, drawCharts };
})();
