#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of a study: what it says is what the journal says, and a browser draws it whatever the study has come to."""
import html
import json
import math
import os
import re
import time
import unittest
import unittest.mock

import numpy as np

from tuner_case import NETWORK, PARAMETERS, SeededTest
from browser import Browsing, Page
from made_study import EPOCHS, Made
from norn.tune.borders import at_the_end, wider
from norn.tune.dimensions import Listed, dimension
from norn.tune.study_page import found as found_module
from norn.tune.study_page.charts import slice_charts, value_text
from norn.tune.study_page.found import Clock, Found
from norn.tune.study_page.page import idle, make_page

STRANGE = '<!--<script>&" ünï 日本'


class PageTest(Browsing, SeededTest):
    def made(self, name="study", **more):
        Made(self.folder / name, seed=self.random.randrange(1000), **more)
        return Found(self.folder / name)

    def page(self, *founds, script=""):
        text = make_page(list(founds))
        (self.folder / "page.html").write_text(text.replace("</body>", f"{script}</body>"), encoding="utf-8")
        return text

    def drawn(self, *founds):
        text = self.page(*founds)
        dom = Page(self.browse("page.html", "--dump-dom", size=f"{self.random.choice((360, 700, 1280))},2000"))
        self.numbers_are_numbers(dom)
        return text, dom


class InABrowser(PageTest):
    def test_shows_every_trial_and_needs_nothing_from_elsewhere(self):
        found = self.made(trials=24, workers=3, diverging=0.15)
        text, dom = self.drawn(found)
        self.assertEqual(re.findall("https?://[^ \"]*|@import|src=|href=", text.replace("http://www.w3.org/2000/svg", "")), [])
        lines = [a for a in dom.all("polyline") if a.get("class", "").startswith("trial")]
        self.assertEqual(len(lines), sum(one.value is not None for one in found.trials))
        bars = [a for a in dom.all("rect") if a.get("class", "").startswith("work ")]
        self.assertEqual(len(bars), sum(event["event"] in ("value", "broken") for event in found.events))
        self.assertEqual(sum("broken" in a["class"] for a in bars), found.counts().get("diverged", 0))
        self.assertEqual(len(dom.all("tr")) > 24, True)
        self.assertIn(f"<b>{found.best.value:.5g}</b>", text)
        # And the parallel coordinates
        self.assertEqual(dom.all("body")[0]["data-drawn"], str(len(dom.all("svg", **{"class": "chart"})) + 1))

    def test_is_drawn_whatever_there_is(self):
        shapes = [dict(trials=1), dict(trials=9, values=1), dict(trials=9, values=2), dict(trials=6, diverging=1.0),
                  dict(trials=self.random.randint(2, 9), objective="loss", rungs=[], halving=0, confirm=0),
                  dict(trials=self.random.randint(10, 30), values=self.random.randint(3, 30), diverging=0.3,
                       workers=self.random.randint(1, 9)),
                  dict(trials=5, parameters={"Training.Batch": {"Values": [32, 64, 128]}, "Training.Optimizer": {"Names": ["Adam"]}},
                       sampler="random")]
        founds = [self.made(f"{n}", **shape) for n, shape in enumerate(shapes)]
        text, dom = self.drawn(*founds)
        self.assertEqual(len(dom.all("details", **{"class": "study"})), len(shapes))
        self.assertEqual(len(re.findall('<a href="#study-', text)), len(shapes))
        self.drawn(founds[1])
        self.drawn(founds[3])

    def test_names_may_be_html_long_and_of_any_script(self):
        long = f"A name that goes on and on {STRANGE} and on"
        network = json.loads(json.dumps(NETWORK))
        network["Layers"][1]["Name"], network["Layers"][2]["Source"] = long, [long, "Input"]
        parameters = {"Training.Alpha": PARAMETERS["Training.Alpha"], f"Layers.{long}.N": {"Whole": [64, 4096]},
                      "Training.Optimizer": {"Names": ["Adam", "<script>alert(1)</script>", long]}}
        found = self.made(STRANGE, trials=8, parameters=parameters, network=network)
        text, dom = self.drawn(found)
        for block in ("charts", "panels"):
            self.assertNotIn("<", re.search(f'<script type="application/json" id="{block}">(.*?)</script>', text, re.S).group(1))
        self.assertEqual(len(dom.all("script")), 4)
        self.assertIn(f"<h1>{html.escape(STRANGE)}</h1>", text)

    def test_a_choice_on_axes_keeps_the_trials_that_cross_it(self):
        found = self.made(trials=20, parameters={"Training.Alpha": PARAMETERS["Training.Alpha"], "Layers.Hidden.N": {"Whole": [64, 4096]}})
        script = """<script>
          const grips = [...document.querySelectorAll("#parallel-0 .grip")], box = document.getElementById("parallel-0");
          const draw = (axis, from, to) => {
            const grip = document.querySelectorAll("#parallel-0 .grip")[axis], place = box.querySelector("svg").getBoundingClientRect();
            const at = (level) => ({clientX: 0, clientY: place.top + 290 - level * (290 - 44), pointerId: 1, bubbles: true});
            grip.dispatchEvent(new PointerEvent("pointerdown", at(from)));
            grip.dispatchEvent(new PointerEvent("pointermove", at((from + to) / 2)));
            grip.dispatchEvent(new PointerEvent("pointerup", at(to)));
            return [Number(box.dataset.chosen), document.querySelectorAll(".chosen-table tr").length];
          };
          const all = Number(box.dataset.chosen), first = draw(0, 0, 0.5), both = draw(1, 1, 0.4);
          document.querySelector(".clear").click();
          const result = {all, first, both, cleared: Number(box.dataset.chosen), axes: grips.length};
          document.body.appendChild(document.createElement("pre")).textContent = JSON.stringify(result);
        </script>"""
        self.page(found, script=script)
        said = json.loads(re.search(r"<pre>(.*?)</pre>", self.browse("page.html", "--dump-dom")).group(1))
        axes = json.loads(re.search(r'id="panels">(.*?)</script>', make_page([found])).group(1))[0]
        self.assertEqual([axis["name"] for axis in axes["axes"]].__len__(), 2)
        levels = np.array([trial["at"] for trial in axes["trials"]])
        first = levels[:, 0] <= 0.5
        self.assertEqual((said["all"], said["cleared"], said["axes"]), (len(levels), len(levels), 3))
        self.assertEqual(said["first"], [first.sum(), 1 + min(12, first.sum()) if first.any() else 0])
        self.assertEqual(said["both"][0], (first & (levels[:, 1] >= 0.4)).sum())

    def test_light_and_dark_are_pictures(self):
        self.page(self.made(trials=6))
        for look in ((), ("--blink-settings=preferredColorScheme=0",)):
            self.browse("page.html", *look, f"--screenshot={self.folder / 'page.png'}")
            self.assertGreater((self.folder / "page.png").stat().st_size, 30000)


class WhatItSays(PageTest):
    def test_the_best_so_far_rises_and_ends_at_the_best(self):
        for objective in ("ndcg@20", "loss"):
            found = self.made(objective, trials=20, objective=objective, confirm=0)
            points = found.best_so_far(lambda one: one.epochs)
            values = [found.sign * value for _, value in points]
            self.assertEqual(values, sorted(values))
            self.assertEqual(points[-1], (sum(one.epochs for one in found.ended), found.best.value))
            done = [found.sign * one.value for one in found.trials if one.state == "done"]
            self.assertEqual(values[-1], max(done))

    def test_the_band_of_random_search_lies_within_what_it_is_drawn_from(self):
        found = self.made(trials=30, start=12, confirm=0)
        drawn = [one.value for one in found.ended if one.drawn and one.state == "done"]
        self.assertEqual(sum(one.drawn for one in found.trials), 12)
        band = found.random_band(lambda one: 1)
        self.assertTrue(all(min(drawn) <= low <= high <= max(drawn) for _, low, high in band))
        if len(drawn) <= 2:  # more than a tenth of the searches, (10/12)^12, has none of them
            return
        self.assertEqual(band[-1][0], 12)
        lows = [low for _, low, _ in band]
        self.assertEqual(lows, sorted(lows))
        # By hand: of n values drawn n times the best is missed with (1 - 1/n)^n.
        self.assertEqual(band[-1][2], max(drawn))
        self.assertEqual(Found(self.folder / "study").random_band(lambda one: 1), band)

    def test_a_band_needs_four_trials_that_results_had_no_say_in(self):
        for start in (3, 4):
            found = self.made(f"start {start}", trials=9, start=start, confirm=0)
            done = sum(one.drawn and one.state == "done" for one in found.ended)
            # Of four one alone is missed by more than a tenth of the searches, (3/4)^4.
            self.assertEqual(bool(found.random_band(lambda one: 1)), start == 4 and done > 1)

    def test_a_tuner_elsewhere_is_at_work_as_long_as_it_touches_its_lease(self):
        lease, now = self.folder / "lease.json", time.time()
        lease.write_text(json.dumps({"host": "elsewhere", "pid": 1}))
        for age, at_work in ((0, True), (10 * found_module.LEASE_SECONDS, False)):
            os.utime(lease, (now - age, now - age))
            self.assertIs(found_module.is_running(self.folder), at_work)

    def test_places_are_idle_for_what_their_work_leaves_of_the_whole_time(self):
        begin, busy, whole = self.random.uniform(0, 50), self.random.uniform(1, 9), self.random.uniform(10, 20)
        bars = [{"place": "a", "from": begin, "to": begin + whole}, {"place": "b", "from": begin, "to": begin + busy}]
        self.assertEqual(idle(["a", "b", "c"], bars), [0.0, round(1 - busy / whole, 4), 1.0])
        self.assertEqual(idle(["a"], []), [0.0])

    def test_charts_of_parameters_name_values_and_mark_the_best(self):
        found = self.made(trials=12, confirm=0)
        dimensions = found.study.space.dimensions
        charts = slice_charts(found, "", list(range(len(dimensions))))
        self.assertEqual(len(charts), sum(any(one.path in trial.settings for trial in found.trials) for one in dimensions))
        for chart in charts:
            one = dimensions[int(chart["id"].removeprefix("slice-"))]
            names = [value_text(value) for value in getattr(one, "values", [])] if isinstance(one, Listed) else None
            self.assertEqual(chart.get("names"), names)
            best = [series for series in chart["series"] if series["name"] == "the best"]
            self.assertEqual(len(best), one.path in found.best.settings)
            for series in best:
                self.assertEqual(series["best"], [series["points"][0][0]])

    def test_what_matters_is_most_important(self):
        Made(self.folder / "study", trials=25, rungs=[], halving=0, confirm=0)
        found = Found(self.folder / "study")
        which = self.random.randrange(3)
        numbers = [n for n, one in enumerate(found.study.space.dimensions)
                   if one.path in ("Training.Alpha", "Training.Batch", "Layers.Hidden.N")]
        for one in found.trials:
            one.whole = math.sin(3.0 * one.row[numbers[which]])
        shares = found.importances()
        self.assertAlmostEqual(sum(shares), 1.0)
        self.assertEqual(int(np.argmax(shares)), numbers[which])
        self.assertGreater(max(shares), 0.4)

    def test_of_very_many_trials_the_best_are_drawn(self):
        found = self.made(trials=20)
        with unittest.mock.patch.object(found_module, "MOST_SHOWN", 6):
            text = make_page([found])
            self.assertEqual(len(json.loads(re.search(r'id="panels">(.*?)</script>', text).group(1))[0]["trials"]), 6)
            self.assertEqual({one.number for one in found.shown()},
                             {one.number for one in sorted(found.trials, key=lambda t: -t.whole)[:6]})
            self.assertIn("Of 20 trials the best 6 are drawn", text)
        self.assertNotIn("are drawn", make_page([found]))

    def test_few_results_have_no_importances(self):
        self.assertEqual(self.made(trials=9, values=3).importances(), [])

    def test_confirmed_trials_stand_with_mean_and_spread(self):
        found = self.made(trials=8)
        rows = found.confirmed()
        self.assertEqual([len(row["values"]) for row in rows], [3] * len(rows))
        self.assertEqual([row["mean"] for row in rows], sorted((float(np.mean(row["values"])) for row in rows), reverse=True))
        self.assertAlmostEqual(rows[0]["spread"], float(np.std(rows[0]["values"], ddof=1)))
        table = re.search(r'<table id="confirmed">(.*?)</table>', make_page([found])).group(1)
        self.assertEqual(table.count("<tr"), 1 + len(rows))
        for row in rows:
            self.assertIn(f"{row['mean']:.5g} ({row['spread']:.2g})", table)
        self.assertNotIn('id="confirmed"', make_page([self.made("alone", trials=3, confirm=0)]))

    def test_what_went_wrong_is_counted_by_code(self):
        made = Made(self.folder / "study", trials=12, diverging=0.4, values=9)
        path = self.folder / "study/journal.jsonl"
        events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        lost = {"event": "lost", "time": events[-1]["time"], "trial": 0, "attempt": 0, "code": 137, "why": "gone", "seconds": 1.0,
                "counts": True}
        events += [{"n": len(events) + 1, **lost}, {"n": len(events) + 2, **lost},
                   {"n": len(events) + 3, **lost, "code": 75, "counts": False}]
        path.write_text("".join(json.dumps(event) + "\n" for event in events))
        found = {(row["what"], row["code"]): row for row in Found(self.folder / "study").failures()}
        self.assertEqual(found[("lost, and begun again", "137")]["count"], 2)
        self.assertNotIn(("lost, and begun again", "75"), found)
        diverged = sum(event["event"] == "broken" for event in events)
        self.assertEqual(found.get(("diverged", "6"), {"count": 0})["count"], diverged)
        self.assertEqual(made.study.folder, self.folder / "study")

    def test_time_in_which_no_tuner_ran_is_left_out(self):
        events = [{"n": n, "event": event, "time": f"2026-01-01T{hour:02}:00:{second:02}.000Z"} for n, (event, hour, second) in enumerate(
            [("open", 0, 0), ("submit", 0, 1), ("value", 0, 11), ("open", 9, 0), ("submit", 9, 5)], 1)]
        clock = Clock(events)
        self.assertEqual([clock.at(n) for n in range(1, 6)], [0, 1, 11, 11, 16])


class Borders(PageTest):
    def test_a_wider_range_holds_the_old_one_and_is_one(self):
        for _ in range(300):
            low = self.random.choice((-5, 0, 1, 3, 64))
            multiple = self.random.choice((1, 8, 64))
            log = low > 0 and self.random.random() < 0.5
            scale = {"Scale": "log"} if log else {}
            entry = ({"Whole": [low * multiple, (low + self.random.randint(2, 40)) * multiple], "Multiple": multiple, **scale}
                     if self.random.random() < 0.5
                     else {"Range": [low + self.random.random() * 0.1 if log else float(low), low + self.random.uniform(0.2, 30)], **scale})
            one, upper = dimension("a", entry, {}), self.random.random() < 0.5
            nothing_before = not upper and (one.low == 0 or one.low == getattr(one, "multiple", None))
            with self.subTest(entry, upper=upper):
                if nothing_before:
                    self.assertIsNone(wider(one, upper))
                    continue
                made = dimension("a", json.loads(wider(one, upper)), {})
                self.assertEqual((made.low < one.low, made.high > one.high), (not upper, upper))
                self.assertEqual((made.low if upper else made.high), (one.low if upper else one.high))
                self.assertEqual(made.scale.log, one.scale.log)

    def test_a_share_stays_one(self):
        for high in (0.5, 0.8, 0.99):
            made = json.loads(wider(dimension("p", {"Range": [0.1, high]}, {}), True))["Range"]
            self.assertTrue(high < made[1] < 1.0, made)

    def test_are_those_of_the_best_trial(self):
        found = self.made(trials=20)
        best = found.best
        for border in at_the_end(found.study, found.facts, best.number):
            number = [one.path for one in found.study.space.dimensions].index(border.path)
            self.assertEqual(best.row[number] > 0.5, border.upper)
            self.assertIn(border.path, make_page([found]))
        self.assertEqual(best.epochs, EPOCHS)


if __name__ == "__main__":
    unittest.main()
