#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/report.py: the page of a run, looked at by a browser without a screen."""
import html
import json
import math
import re
import subprocess
import sys
import unittest

from browser import Browsing, Page
from programs import BIN, SOURCE, ProgramTest

sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "python"))
from norn.report import drawing  # noqa: E402
from norn.report.runs import METRICS, MOST_POINTS, Curves, Run, thin  # noqa: E402

START = {"event": "start", "program": "trainer", "version": "0.1.0", "model": "model.nc", "resumed": False, "epoch": 0, "step": 0,
         "epochs": 1, "batch": 10, "examples": 100, "weights": 5000, "ranks": 1, "threads": 2, "device": "cpu",
         "device_name": "a processor", "precision": "fp32", "seed": 1}


def time(seconds):
    return f"2026-01-01T{seconds // 3600:02.0f}:{seconds // 60 % 60:02.0f}:{seconds % 60:02.0f}.000Z"


def epoch_event(epoch, cost=1.0, step=None, second=None):
    return {"event": "epoch", "time": time(second if second is not None else epoch), "epoch": epoch, "step": step or epoch * 10,
            "cost": cost, "regularization": 0.0, "rate": 0.01, "seconds": 1.0, "examples_per_second": 100.0}


class Report(Browsing, ProgramTest):
    def report(self, *arguments):
        return subprocess.run([sys.executable, SOURCE / "tools/report.py", *map(str, arguments)], cwd=self.folder,
                              capture_output=True, text=True, timeout=120)

    def made(self, *arguments, page="run/report.html"):
        done = self.report(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.path(page).read_text(encoding="utf-8")

    def refused(self, message, *arguments, code=3):
        done = self.report(*arguments)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(message, done.stderr)

    def log(self, folder, events):
        self.path(folder).mkdir()
        self.write(f"{folder}/log.jsonl", "".join(json.dumps(event) + "\n" for event in events))

    def holds(self, text, *parts):
        for part in parts:
            self.assertTrue(part in text, f"{part!r} is not in the page")

    def drawn(self, page, charts):
        """The browser has drawn that many charts, each with curves and axes."""
        dom = Page(self.browse(page, "--dump-dom"))
        self.assertEqual(dom.all("body")[0].get("data-drawn"), str(charts))
        pictures = dom.all("svg", **{"class": "chart"})
        self.assertEqual(len(pictures), charts)
        self.assertTrue(all(int(picture["data-curves"]) >= 1 for picture in pictures))
        marks = len(dom.all("polyline")) + len(dom.all("circle"))
        self.assertGreaterEqual(marks, charts)
        self.numbers_are_numbers(dom)
        return dom

    def train_validated(self, *arguments, folder="run", model="model.nc"):
        self.train("--run-dir", folder, "-e", "6", "--validation-split", "0.2", "--metrics-at", "5,10", *arguments, model=model)


class Drawing(unittest.TestCase):
    PLAN = {"layers": [{"name": name, "kind": kind, "units": 100, "activation": "", "weights": 0}
                       for name, kind in (("In", "Input"), ("First", "Hidden"), ("Out", "Output"))],
            "edges": [{"source": source, "destination": destination, "flop": flop, "bytes": flop, "floor_seconds": 1e-3 * flop, **kind}
                      for source, destination, flop, kind in (("In", "First", 5, {"kind": "weights"}), ("First", "Out", 7, {}),
                                                              ("In", "Out", 0, {"kind": "skip"}))]}

    def test_shows_every_edge_as_the_run_says_that_it_is(self):
        page = Page(drawing.network_svg(self.PLAN))
        self.assertEqual([path.get("class") for path in page.all("path")], [None, None, "by-unit"])
        for words in ("In -&gt; Out: skip, unit by unit", "First -&gt; Out: 7 FLOP a step"):
            self.assertIn(words, page.text)

    def test_a_floor_is_that_of_weights_alone(self):
        text = drawing.floor_html(self.PLAN, 0.1)
        self.assertIn("First → Out", text)
        self.assertNotIn("In → Out", text)

    def test_without_a_time_or_a_floor_there_is_none(self):
        unknown = {**self.PLAN, "edges": [{**self.PLAN["edges"][0], "floor_seconds": None}]}
        for plan, step_seconds in ((self.PLAN, None), (self.PLAN, 0), (unknown, 0.1)):
            self.assertEqual(drawing.floor_html(plan, step_seconds), "")

    def test_a_unit_of_time_begins_with_one(self):
        self.assertEqual([drawing.seconds(value) for value in (1e-6, 1e-3, 1.0, 0.5, 99.9, 100, 3600)],
                         ["1 µs", "1 ms", "1 s", "500 ms", "99.9 s", "1 min 40 s", "1 h 00 min"])


class OfOneRun(Report):
    def test_shows_everything_and_needs_nothing_from_elsewhere(self):
        self.train_validated("--checkpoint-epochs", "2")
        text = self.made("run", "--examples", "3", "--features", "features.txt", "--predictor", BIN / "predictor")
        elsewhere = re.findall("https?://[^ \"]*|@import|src=|href=", text.replace("http://www.w3.org/2000/svg", ""))
        self.assertEqual(elsewhere, [])
        page = self.drawn("run/report.html", charts=3 + len(METRICS))
        self.assertEqual(len(page.all("rect")), 3, "layers of the network")
        self.assertEqual(len(page.all("div", **{"class": "card", "id": "floor"})), 1)
        self.assertEqual(len([a for a in page.all("div") if a.get("class") == "card person"]), 3)
        self.assertIn("item", re.search(r'class="card person">.*?</table>', text).group(0))
        self.holds(text, "model.epoch2.nc", "ValidationSplit", "OpenBLAS", "completed", "best ndcg@5")

    def test_a_picture_can_be_made_light_dark_and_on_paper(self):
        self.train_validated()
        self.made("run")
        for name, look in (("light.png", ()), ("dark.png", ("--blink-settings=preferredColorScheme=0",))):
            self.browse("run/report.html", *look, f"--screenshot={self.path(name)}")
            self.assertGreater(self.path(name).stat().st_size, 30000)
        self.browse("run/report.html", f"--print-to-pdf={self.path('paper.pdf')}")
        self.assertTrue(self.read("paper.pdf").startswith(b"%PDF"))

    def test_a_pointer_shows_values_and_buttons_change_the_curves(self):
        self.train_validated()
        script = """<script>
          for (const chart of document.querySelectorAll("svg.chart")) {
            const place = chart.getBoundingClientRect();
            chart.dispatchEvent(new PointerEvent("pointermove", {clientX: place.left + place.width / 2, clientY: place.top + 40}));
          }
          const says = [...document.querySelectorAll(".tip")].map((tip) => tip.textContent);
          const card = document.getElementById("chart-cost");
          const ticks = () => [...card.querySelectorAll(".axis text")].map((text) => text.textContent).join();
          const before = ticks();
          card.querySelector(".chart-head button").click();
          const logarithmic = ticks();
          card.querySelector(".entry").click();
          const left = card.querySelector("svg").dataset.curves;
          document.getElementById("theme").click();
          const result = {says, changed: before !== logarithmic, left, theme: document.documentElement.dataset.theme};
          document.body.appendChild(document.createElement("pre")).textContent = JSON.stringify(result);
        </script></body>"""
        self.write("run/tried.html", self.made("run").replace("</body>", script))
        result = json.loads(html.unescape(re.search(r"<pre>(.*?)</pre>", self.browse("run/tried.html", "--dump-dom")).group(1)))
        self.assertEqual(len(result["says"]), 3 + len(METRICS))
        for said in result["says"]:
            self.assertRegex(said, r"^(epoch|seconds of training) [\d.e-]+.*[\dkM]$")
        self.assertEqual((result["changed"], result["left"], result["theme"]), (True, "2", "dark"))

    def test_examples_from_a_text(self):
        self.train("--run-dir", "run", "-e", "2")
        self.write("requests.txt", "Ada\titem_1:item_2:item_3\nBob\titem_4\nEve\titem_5\n")
        text = self.made("run", "--examples", "2", "--features", "features.txt", "--requests", "requests.txt", "--predictor",
                         BIN / "predictor", "--top", "4")
        self.assertEqual(re.findall(r'class="card person"><h3>(.*?)</h3>', text), ["Ada", "Bob"])
        self.assertEqual(re.search(r"<h3>Ada</h3>.*?</table>", text).group(0).count("<tr>"), 4)

    def test_examples_of_data_without_labels_need_an_index(self):
        self.train("--run-dir", "run", "-e", "1")
        self.refused("--examples: the run's data keep no labels; give the feature index with --features", "run", "--examples", "2")

    def test_examples_from_labels_of_the_data_and_the_model(self):
        names = [f"Film {u}, The: {u}" for u in range(self.width)]
        self.write("films.csv", "".join(f'{self.examples[e]},"{names[u]}"\n' for e, row in enumerate(self.known) for u in row))
        self.succeed("importer", "--input", "films.csv", "--header", "no", "--name", "gl", "--output", "train.nc")
        self.train("--run-dir", "run", "-e", "2")
        text = html.unescape(self.made("run", "--examples", "3", "--predictor", BIN / "predictor", "--top", "4"))
        self.assertGreaterEqual(len(set(re.findall(r"Film \d+, The: \d+", text))), 4)

    def test_names_that_hold_what_python_takes_for_ends_of_lines(self):
        odd = ["\u2028", "\u0085", "\x0b", "\x0c", "\x1c", "\x1e", "\udce9"]  # the last one: no UTF-8
        names = [f"item{u}{odd[u % len(odd)]}x" for u in range(self.width)]
        with open(self.path("odd.txt"), "w", encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            file.writelines(f"{name}\t{u}\n" for u, name in enumerate(names))
        requests = "".join(f"per{letter}son\t{names[2]}:{names[3]}\n" for letter in odd)
        self.path("people.txt").write_bytes(requests.encode("utf-8", errors="surrogateescape"))
        self.train_validated()
        text = self.made("run", "--examples", len(odd), "--features", "odd.txt", "--requests", "people.txt",
                         "--predictor", BIN / "predictor")
        cards = re.findall(r'class="card person"><h3>(.*?)</h3>.*?<table>(.*?)</table>', text, re.S)
        self.assertEqual([name for name, _ in cards], [f"per{letter}son".replace("\udce9", "?") for letter in odd])
        for name, table in cards:
            self.assertEqual(table.count("<tr>"), 8, name)

    def test_a_folder_whose_name_is_html(self):
        self.log("other", [{**START, "time": time(0)}, epoch_event(1)])
        for folder in ("<!--<script", "<b>&'"):
            with self.subTest(folder):
                self.log(folder, [{**START, "time": time(0)}, epoch_event(1)])
                text = self.made(folder, "other", "--output", "page.html", page="page.html")
                block = re.search(r'<script type="application/json" id="charts">(.*?)</script>', text, re.S).group(1)
                self.assertNotIn("<", block)
                self.assertTrue(any(folder in s["name"] for chart in json.loads(block) for s in chart["series"]))

    def test_of_one_epoch(self):
        self.log("run", [{**START, "time": time(0)}, epoch_event(1)])
        self.made("run")
        self.drawn("run/report.html", charts=3)

    def test_of_ten_thousand_epochs_is_thinned_and_keeps_its_peaks(self):
        costs = [2.0 + math.sin(e) + (50.0 if e == 7001 else 0.0) for e in range(1, 10001)]
        self.log("run", [{**START, "epochs": 10000, "time": time(0)}, *(epoch_event(e, c) for e, c in enumerate(costs, 1))])
        text = self.made("run")
        self.assertLess(len(text), 200_000)
        charts = json.loads(re.search(r'id="charts">(.*?)</script>', text).group(1))
        for chart in charts:
            for series in chart["series"]:
                self.assertLessEqual(len(series["points"]), MOST_POINTS + 2)
        cost = next(chart for chart in charts if chart["id"] == "cost")["series"][0]["points"]
        self.assertAlmostEqual(max(y for _, y in cost), max(costs), delta=1e-3)
        self.drawn("run/report.html", charts=3)

    def test_metrics_that_the_trainer_of_the_log_did_not_have_have_no_chart(self):
        old = [{"event": "eval", "time": time(n), "epoch": n, "step": n, "cost": 1.0, "best": True, "value": 0.5, "watched": "recall@5",
                "since_best": 0, "examples": 9, "seconds": 1.0, "metrics": [{"k": 5, "recall": n / 10, "ndcg": n / 20}]} for n in (1, 2)]
        self.log("run", [{**START, "time": time(0)}, epoch_event(1), old[0], epoch_event(2), old[1]])
        self.made("run")
        charts = {chart["id"]: chart for chart in Curves([Run(self.path("run"), "run")]).all()}
        self.assertEqual(sorted(charts.keys() & {metric["name"] for metric in METRICS}), ["ndcg", "recall"])
        self.assertEqual(charts["recall"]["series"][0]["points"], [[1.0, 0.1], [2.0, 0.2]])

    def test_a_cost_that_is_no_number_and_a_log_that_is_torn(self):
        self.log("run", [{**START, "time": time(0)}, epoch_event(1), epoch_event(2, None),
                         {"event": "error", "time": time(3), "message": 'layer "<b>Output</b>": not finite', "exit_code": 6}])
        with open(self.path("run/log.jsonl"), "a") as log:
            log.write('{"event": "ep')
        text = self.made("run")
        self.holds(text, "failed", "&lt;b&gt;Output&lt;/b&gt;")
        self.drawn("run/report.html", charts=3)


class OfSeveral(Report):
    def test_are_compared(self):
        self.train_validated(folder="one")
        self.train_validated("-alpha", "0.003", folder="two", model="second.nc")
        text = self.made("one", "two", "--output", "both.html", page="both.html")
        page = self.drawn("both.html", charts=3 + len(METRICS))
        self.assertEqual(len(page.all("table", id="runs")), 1)
        differing = re.findall(r'<tr class="differs"><td>(.*?)</td>', text)
        self.assertIn("Alpha", differing)
        self.assertNotIn("Batch", differing)


class Reading(Report):
    def test_steps_that_were_made_again_are_dropped_and_pauses_left_out(self):
        again = {**START, "resumed": True, "epoch": 1, "step": 10, "time": time(1000)}
        self.log("run", [{**START, "time": time(0)}, epoch_event(1), epoch_event(2, 7.0), again, epoch_event(2, 3.0, second=1002)])
        run = Run(self.path("run"), "run")
        self.assertEqual([(e["epoch"], e["cost"], e["elapsed"]) for e in run.of("epoch")], [(1, 1.0, 1.0), (2, 3.0, 3.0)])

    def test_a_run_that_began_anew_has_its_own_events_alone(self):
        self.log("run", [{**START, "time": time(0)}, epoch_event(1), {**START, "time": time(9)}, epoch_event(1, 5.0, second=10)])
        self.assertEqual([e["cost"] for e in Run(self.path("run"), "run").of("epoch")], [5.0])

    def test_thinning_keeps_ends_and_extremes_in_order(self):
        points = [(x, self.random.random()) for x in range(12345)]
        thinned = thin(points)
        self.assertLessEqual(len(thinned), MOST_POINTS)
        self.assertEqual((thinned[0], thinned[-1]), (points[0], points[-1]))
        self.assertEqual(thinned, sorted(thinned))
        for extreme in (min, max):
            self.assertEqual(extreme(y for _, y in thinned), extreme(y for _, y in points))
        self.assertEqual(thin(points[:MOST_POINTS]), points[:MOST_POINTS])

    def test_what_is_wrong_is_said(self):
        self.refused("none/log.jsonl: cannot be read: No such file or directory; give the folder of trainer --run-dir", "none")
        self.log("run", [{"event": "error", "time": time(0), "message": "none.nc: missing", "exit_code": 3}])
        self.refused("no run has begun there; its error: none.nc: missing", "run")
        self.write("run/log.jsonl", json.dumps({**START, "time": time(0)}) + "\nnonsense\n{}\n")
        self.refused("run/log.jsonl:2: not JSON", "run")
        self.write("run/log.jsonl", json.dumps({**START, "time": time(0)}) + "\n" + json.dumps(epoch_event(1)) + "\n")
        self.refused("the same folder is given twice", "run", "run")
        self.refused("the run's model (none was written) is not there; give --model", "run", "--examples", "2", "--features",
                     "features.txt")
        self.refused("cannot be written", "run", "--output", "nowhere/report.html")


if __name__ == "__main__":
    unittest.main()
