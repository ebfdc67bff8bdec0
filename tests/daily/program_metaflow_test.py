#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""configs/metaflow/daily_flow.py publishes what daily itself does. NORN_METAFLOW names a python3 that has metaflow, where this one does
not."""
import ast
import importlib.util
import os
import shlex
import subprocess
import sys
import unittest

from daily_case import BIN, DAILY, DAY, LIMIT_SECONDS, ROOT, DailyTest
from norn.daily.days import STEPS
from norn.daily.options import parser_of

FLOW = ROOT / "configs/metaflow/daily_flow.py"


class Metaflow(DailyTest):
    def test_the_flow_calls_steps_and_options_that_daily_has(self):
        strings = {node.value for node in ast.walk(ast.parse(FLOW.read_text()))
                   if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        known = {option for action in parser_of("")._actions for option in action.option_strings}
        asked = {word for text in strings for word in text.split() if word.startswith("--") and "day's" not in text}
        self.assertEqual({word for word in asked if word not in known}, set())
        self.assertLessEqual({"--regions", "--day", "--until", "--list", "--region", "--step", "--go-on", "--status"}, asked)
        self.assertEqual(set(STEPS) - strings, {"import"})  # made with the search

    def test_a_day_by_the_flow_is_published_as_by_daily_and_again_nothing_is_made(self):
        python = os.environ.get("NORN_METAFLOW") or (sys.executable if importlib.util.find_spec("metaflow") else None)
        if python is None:
            self.skipTest("metaflow is not installed: pip install metaflow into an environment, and NORN_METAFLOW names its python3")
        tune = {"Trials": 2, "Options": ["--confirm", "0", "--halving", "none", "--epochs", "2"],
                "Validation": ["--validation-split", "0.3"]}
        for name in ("north sea", "it's"):
            self.draw_region(name, 90)
        for folder in ("own", "flow"):
            self.regions({"north sea": {}, "it's": {"Trials": 0}, "no text": {}}, f"{folder}.json", Space="space.json", Tune=tune,
                         Gate={"MinExamples": 10, "Metric": "recall@20", "Floor": 0.02}, Days=f"{folder}/days", Serving=f"{folder}/serving")
        self.ends_with(7, "--slots", 2, "--quiet", file="own.json")

        def run():
            return subprocess.run([python, FLOW, "run", "--max-workers", "2", "--regions", self.path("flow.json"), "--day", DAY,
                                   "--daily", shlex.join([sys.executable, "-B", str(DAILY), "--bin", str(BIN), "--threads", "1"])],
                                   cwd=self.folder,
                                  capture_output=True, text=True, timeout=LIMIT_SECONDS,
                                  env={**os.environ, "METAFLOW_USER": "norn", "METAFLOW_HOME": str(self.folder), "HOME": str(self.folder)})
        done = run()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("2 published, 1 failed", done.stdout + done.stderr)
        self.assertIn("some regions are not published", done.stdout + done.stderr)
        self.assertEqual(self.published("flow/serving"), self.published("own/serving"))
        made = {path: path.stat().st_mtime_ns for path in self.path("flow/days").rglob("stamp.json")}
        self.draw_region("no text", 90)
        done = run()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("3 published", done.stdout + done.stderr)
        self.assertEqual({path: path.stat().st_mtime_ns for path in made}, made)


if __name__ == "__main__":
    unittest.main()
