// SPDX-License-Identifier: Apache-2.0
// Draws the charts of a report from the data that stand in the page. No library, no network.
"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const charts = JSON.parse(document.getElementById("charts").textContent);
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
      if (data.series.length > 1 || data.series[0].name) this.addLegend(card);
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

    addLegend(card) {
      const legend = html("div", "legend", card);
      this.data.series.forEach((series, i) => {
        const entry = html("button", "entry c" + (series.color % 8), legend);
        entry.title = "show or hide";
        html("span", "swatch" + (series.dashed ? " dashed" : "") + (series.faint ? " faint" : ""), entry);
        entry.append(series.name);
        entry.onclick = () => {
          this.hidden.has(i) ? this.hidden.delete(i) : this.hidden.add(i);
          entry.classList.toggle("off", this.hidden.has(i));
          this.draw();
        };
      });
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
      seen.forEach((series) => this.curve(series));
      this.addHover(seen);
      this.svg.dataset.curves = seen.length;
    }
    state() {
      return this.logarithmic + ":" + [...this.hidden].sort().join();
    }

    scale(series) {
      const points = series.flatMap((s) => s.points);
      const single = points.every((p) => p[0] === points[0][0]);
      const xs = points.map((p) => p[0]);
      this.xRange = single ? [xs[0] - 1, xs[0] + 1] : [xs.reduce((a, b) => Math.min(a, b)), xs.reduce((a, b) => Math.max(a, b))];
      this.yRange = range(points.map((p) => p[1]), this.logarithmic, this.data.zero);
    }
    px(x) {
      const [low, high] = this.xRange;
      return this.box.x0 + ((x - low) / (high - low)) * (this.box.x1 - this.box.x0);
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
      const whole = this.data.x === "epoch";
      const places = ticks(...this.xRange, Math.max(4, Math.floor((x1 - x0) / 80)));
      for (const x of whole ? places.filter((v) => Number.isInteger(v)) : places) {
        const at = this.px(x).toFixed(1);
        element("line", { x1: at, x2: at, y1: y0, y2: y0 + 4, class: "tick" }, grid);
        element("text", { x: at, y: y0 + 16, "text-anchor": "middle" }, grid, shown(x));
      }
      element("line", { x1: x0, x2: x1, y1: y0, y2: y0, class: "base" }, grid);
      element("text", { x: x1, y: height - 6, "text-anchor": "end", class: "name" }, grid, this.data.x);
      if (this.data.y) element("text", { x: 2, y: 11, class: "name" }, grid, this.data.y);
    }

    curve(series) {
      const group = element("g", { class: "curve c" + (series.color % 8) + (series.faint ? " faint" : "") + (series.dashed ? " dashed" : "") }, this.svg);
      const at = series.points.map(([x, y]) => [this.px(x).toFixed(1), this.py(y).toFixed(1)]);
      if (at.length > 1) element("polyline", { points: at.map((p) => p.join()).join(" ") }, group);
      if (at.length <= 30 && !series.faint) for (const [cx, cy] of at) element("circle", { cx, cy, r: at.length > 1 ? 2.2 : 3.5 }, group);
      for (const x of series.best || []) {
        const point = series.points.find((p) => p[0] === x);
        if (point) element("circle", { cx: this.px(point[0]), cy: this.py(point[1]), r: 5.5, class: "best" }, group);
      }
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
        tip.style.display = "block";
        const right = x > place.width / 2;
        tip.style.left = right ? "" : x + 14 + "px";
        tip.style.right = right ? place.width - x + 14 + "px" : "";
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

  for (const data of charts) new Chart(data, document.getElementById("chart-" + data.id));
  const button = document.getElementById("theme");
  button.onclick = () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  };
  document.body.dataset.drawn = charts.length;
})();
