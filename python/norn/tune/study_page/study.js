// SPDX-License-Identifier: Apache-2.0
// What a study's page has beside charts: parallel coordinates, and who worked when.
"use strict";
(() => {
  const { element, html, shown, short, show, ticks } = drawing;
  const MOST_ROWS = 12;

  // A line a trial, an axis a parameter, the objective last. Drawing along an axis chooses the trials that cross it there.
  class Parallel {
    constructor(data, box) {
      this.data = data;
      this.box = box;
      this.card = box.closest(".card");
      this.chosen = new Map(); // axis -> [low, high] of levels
      const values = data.trials.map((t) => t.value);
      this.low = Math.min(...values);
      this.high = Math.max(...values);
      this.axes = [...data.axes, { name: data.objective, ticks: this.valueTicks(), value: true }];
      // The better, the higher its rank and the stronger its colour; the best is drawn last.
      this.trials = [...data.trials].sort((a, b) => (data.larger ? a.value - b.value : b.value - a.value));
      this.trials.forEach((t, i) => (t.rank = this.trials.length > 1 ? i / (this.trials.length - 1) : 1));
      this.steep = Math.max(1, this.trials.length / 50); // many would hide the good ones
      this.card.querySelector(".clear").onclick = () => {
        this.chosen.clear();
        this.draw();
      };
      new ResizeObserver(() => this.width !== this.room() && this.draw()).observe(box);
      this.draw();
    }

    valueTicks() {
      if (this.low === this.high) return [[0.5, shown(this.low)]];
      return ticks(this.low, this.high, 4).map((v) => [this.level(v), shown(v)]);
    }
    level(value) {
      return this.low === this.high ? 0.5 : (value - this.low) / (this.high - this.low);
    }
    room() {
      return Math.max(this.box.clientWidth || 900, 84 * this.axes.length + 120);
    }

    draw() {
      const width = (this.width = this.room()), height = 330;
      this.top = 44;
      this.bottom = height - 40;
      this.box.replaceChildren();
      const svg = (this.svg = element("svg", { width, height, viewBox: `0 0 ${width} ${height}`, class: "parallel", role: "img", "aria-label": "trials by their settings" }, this.box));
      const left = 64, right = width - 64;
      this.xs = this.axes.map((_, i) => left + ((right - left) * i) / Math.max(1, this.axes.length - 1));
      this.lines = this.trials.map((trial) => this.line(trial));
      this.axes.forEach((axis, i) => this.axis(axis, i));
      this.choose();
    }

    y(level) {
      // What is not there crosses below its axis.
      return level === null ? this.bottom + 22 : this.bottom - level * (this.bottom - this.top);
    }
    levels(trial) {
      return [...trial.at, this.level(trial.value)];
    }

    line(trial) {
      const points = this.levels(trial).map((level, i) => `${this.xs[i].toFixed(1)},${this.y(level).toFixed(1)}`).join(" ");
      const best = trial.n === this.data.best;
      const made = element("polyline", { points, class: "trial" + (best ? " best" : trial.state === "done" ? "" : " halved"), style: `--rank:${(trial.rank ** this.steep).toFixed(3)}` }, this.svg);
      const said = trial.text.map((text, i) => `${this.data.axes[i].name} ${text}`).join("\n");
      element("title", {}, made, `trial ${trial.n}, ${trial.state}\n${this.data.objective} ${shown(trial.value, 5)}\n${said}`);
      return made;
    }

    axis(axis, i) {
      const x = this.xs[i], group = element("g", { class: "axis" }, this.svg), step = this.axes.length > 1 ? this.xs[1] - this.xs[0] : 200;
      element("line", { x1: x, x2: x, y1: this.top, y2: this.bottom, class: "base" }, group);
      const letters = Math.max(8, Math.floor(step / 6.4));
      const last = axis.name.split(".").slice(-2).join(".");
      const title = element("text", { x, y: this.top - (i % 2 && step < 130 ? 28 : 14), "text-anchor": "middle", class: "axis-name" }, group, short(last, step < 130 ? 2 * letters : letters));
      element("title", {}, title, axis.name);
      for (const [level, text] of axis.ticks) {
        element("line", { x1: x - 3, x2: x + 3, y1: this.y(level), y2: this.y(level), class: "tick" }, group);
        const made = element("text", { x: x + 6, y: this.y(level), dy: "0.32em", class: "halo" }, group, short(text, Math.max(5, Math.floor((step - 14) / 6.6))));
        element("title", {}, made, text);
      }
      const range = this.chosen.get(i);
      if (range) element("rect", { x: x - 8, width: 16, y: this.y(range[1]), height: Math.max(2, this.y(range[0]) - this.y(range[1])), class: "brush" }, group);
      this.addBrush(element("rect", { x: x - 16, width: 32, y: this.top - 8, height: this.bottom - this.top + 16, class: "grip" }, group), i);
    }

    addBrush(grip, i) {
      let from = null;
      const at = (event) => {
        const place = this.svg.getBoundingClientRect();
        return Math.min(1, Math.max(0, (this.bottom - (event.clientY - place.top)) / (this.bottom - this.top)));
      };
      grip.onpointerdown = (event) => {
        from = at(event);
        try {
          grip.setPointerCapture(event.pointerId);
        } catch { /* made by a script */ }
      };
      grip.onpointermove = (event) => {
        if (from === null) return;
        const to = at(event);
        this.chosen.set(i, [Math.min(from, to), Math.max(from, to)]);
        this.choose();
      };
      grip.onpointerup = (event) => {
        if (from === null) return;
        const to = at(event);
        // A click takes the choice of this axis back.
        Math.abs(to - from) < 0.015 ? this.chosen.delete(i) : this.chosen.set(i, [Math.min(from, to), Math.max(from, to)]);
        from = null;
        this.draw();
      };
    }

    choose() {
      const within = (trial) => [...this.chosen].every(([i, [low, high]]) => {
        const level = this.levels(trial)[i];
        return level !== null && level >= low - 1e-6 && level <= high + 1e-6;
      });
      const kept = this.trials.filter((trial, n) => {
        const is = within(trial);
        this.lines[n].classList.toggle("out", !is);
        return is;
      });
      this.box.dataset.chosen = kept.length;
      const any = this.chosen.size > 0;
      this.card.querySelector(".chosen").textContent = any ? `${kept.length} of ${this.trials.length} trials` : "";
      this.card.querySelector(".clear").hidden = !any;
      this.table(any ? kept.reverse().slice(0, MOST_ROWS) : []);
    }

    table(trials) {
      const box = this.card.querySelector(".chosen-table");
      box.replaceChildren();
      if (!trials.length) return;
      const table = html("table", "", box);
      const row = (cells, kind) => {
        const made = html("tr", "", table);
        cells.forEach((cell, i) => html(kind, i ? "number" : "", made, cell));
      };
      row(["trial", this.data.objective, ...this.data.axes.map((axis) => axis.name.split(".").slice(-2).join("."))], "th");
      for (const trial of trials) row([`${trial.n}, ${trial.state}`, shown(trial.value, 5), ...trial.text], "td");
    }
  }

  // A row a worker, a bar an attempt.
  class Gantt {
    constructor(data, box) {
      this.data = data;
      this.box = box;
      new ResizeObserver(() => this.width !== box.clientWidth && this.draw()).observe(box);
      this.draw();
    }

    draw() {
      const { places, bars, idle } = this.data;
      const width = (this.width = Math.max(240, this.box.clientWidth || 900)), row = 24, bottom = 34;
      const names = places.map((name, i) => `${short(name, 16)} (${(100 * idle[i]).toFixed(0)} %)`);
      const left = Math.min(width / 3, 12 + 6.6 * Math.max(...names.map((name) => [...name].length))), right = width - 12;
      const height = places.length * row + bottom;
      this.box.replaceChildren();
      const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": "who worked when" }, this.box);
      const longest = bars.reduce((most, bar) => Math.max(most, bar[2]), 1e-3);
      const [size, unit] = longest > 7200 ? [3600, "hours"] : longest > 120 ? [60, "minutes"] : [1, "seconds"];
      const px = (seconds) => left + (seconds / longest) * (right - left);
      names.forEach((name, i) => {
        const text = element("text", { x: left - 8, y: i * row + row / 2, dy: "0.32em", "text-anchor": "end" }, svg, name);
        element("title", {}, text, places[i]);
        element("line", { x1: left, x2: right, y1: (i + 1) * row, y2: (i + 1) * row, class: "grid" }, svg);
      });
      const tip = html("div", "tip", this.box);
      for (const [place, from, to, text, how] of bars) {
        const bar = element("rect", { x: px(from).toFixed(1), width: Math.max(1, px(to) - px(from) - 0.5).toFixed(1), y: place * row + 4, height: row - 8, rx: 2, class: "work " + how }, svg);
        bar.onpointermove = (event) => {
          const at = svg.getBoundingClientRect();
          tip.replaceChildren();
          html("div", "tip-row", tip, `${text}, ${shown((to - from) / size, 3)} ${unit}`);
          show(tip, event.clientX - at.left, at.width);
        };
        bar.onpointerleave = () => (tip.style.display = "none");
      }
      for (const x of ticks(0, longest / size, Math.max(3, Math.floor((right - left) / 90)))) {
        element("line", { x1: px(x * size), x2: px(x * size), y1: height - bottom, y2: height - bottom + 4, class: "tick" }, svg);
        element("text", { x: px(x * size), y: height - bottom + 16, "text-anchor": "middle" }, svg, shown(x));
      }
      element("text", { x: right, y: height - 4, "text-anchor": "end", class: "name" }, svg, unit);
    }
  }

  const panels = JSON.parse(document.getElementById("panels").textContent);
  let drawn = drawing.drawCharts();
  panels.forEach((panel, i) => {
    for (const [Kind, box] of [[Parallel, document.getElementById("parallel-" + i)], [Gantt, document.getElementById("gantt-" + i)]]) {
      if (!box || (Kind === Gantt && !panel.places.length)) continue;
      new Kind(panel, box);
      ++drawn;
    }
  });
  // A link to a study that is folded opens it.
  const open = () => {
    const wanted = location.hash && document.getElementById(location.hash.slice(1));
    if (wanted && wanted.tagName === "DETAILS") wanted.open = true;
  };
  addEventListener("hashchange", open);
  open();
  drawing.themeButton(document.getElementById("theme"));
  document.body.dataset.drawn = drawn;
})();
