#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A study in other programs' formats, read by those programs, and its page, as tuner writes them."""
import csv
import json
import os
import re
import socket
import subprocess
import unittest

from tuner_program import BIN, TUNER, TunerTest
from made_study import Made
from python_packages import OPTUNA, TENSORBOARD, python_with
from norn.tune.study_page.found import Found

READ_OPTUNA = """
import json, sys
import optuna
optuna.logging.set_verbosity(optuna.logging.ERROR)
storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(sys.argv[1]))
[summary] = optuna.get_all_study_summaries(storage)
study = optuna.load_study(storage=storage, study_name=summary.study_name)
trials = [{"state": t.state.name, "value": t.value, "params": t.params, "steps": t.intermediate_values,
           "attributes": t.user_attrs} for t in study.trials]
print(json.dumps({"name": study.study_name, "direction": study.direction.name, "metrics": study.metric_names, "trials": trials}))
"""
READ_HPARAMS = """
import json, pathlib, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import metadata, plugin_data_pb2
found = {}
for run in sorted(pathlib.Path(sys.argv[1]).glob("[0-9]*/run")):  # not of the plain recipe
    events = EventAccumulator(str(run), size_guidance={"scalars": 0})
    events.Reload()
    contents = events.SummaryMetadata
    data = events.PluginTagToContent("hparams")
    start = metadata.parse_session_start_info_plugin_data(data[metadata.SESSION_START_INFO_TAG])
    tag = metadata.SESSION_END_INFO_TAG
    end = metadata.parse_session_end_info_plugin_data(data[tag]) if tag in data else None
    values = {name: getattr(value, value.WhichOneof("kind")) for name, value in start.hparams.items()}
    found[run.parent.name] = {"hparams": values, "status": end and end.status,
                              "scalars": {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}}
print(json.dumps(found))
"""


class ExportTest(TunerTest):
    def with_package(self, package, *arguments):
        done = subprocess.run([python_with(package), "-B", str(TUNER), *map(str, arguments)], cwd=self.folder, capture_output=True,
                              text=True, timeout=500)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def read_with(self, package, script, path):
        done = subprocess.run([python_with(package), "-c", script, str(path)], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_optuna_reads_every_trial(self):
        for objective in ("ndcg@20", "loss"):
            made = Made(self.folder / objective, 14, diverging=0.2, objective=objective, confirm=0)
            for _ in range(2):  # the second time it is there
                said = self.with_package(OPTUNA, "--study", objective, "--export", "optuna")
            path = self.folder / objective / "export/optuna.journal"
            self.assertEqual(said.strip(), str(path))
            self.assertEqual([p.name for p in path.parent.iterdir()], ["optuna.journal"])
            found, read = Found(self.folder / objective), self.read_with(OPTUNA, READ_OPTUNA, path)
            self.assertEqual((read["name"], read["direction"], read["metrics"]),
                             (objective, "MINIMIZE" if objective == "loss" else "MAXIMIZE", [objective]))
            self.assertEqual(len(read["trials"]), len(found.trials))
            names = {"done": "COMPLETE", "halved": "PRUNED", "diverged": "FAIL"}
            for one, trial in zip(found.trials, read["trials"], strict=True):
                self.assertEqual((trial["state"], trial["attributes"]["trial"]), (names[one.state], one.number))
                self.assertEqual(trial["params"].keys(), one.settings.keys())
                self.assertEqual(trial["params"]["Training.Alpha"], one.settings["Training.Alpha"])
                if one.state == "done":
                    self.assertEqual(trial["value"], one.value)
                self.assertEqual({int(k): v for k, v in trial["steps"].items()}, dict(found.curves()[one.number]))
            self.assertEqual(made.study.objective, objective)

    def test_optuna_reads_a_study_that_has_just_begun(self):
        Made(self.folder / "begun", 9, values=2)
        self.with_package(OPTUNA, "--study", "begun", "--export", "optuna")
        read = self.read_with(OPTUNA, READ_OPTUNA, self.folder / "begun/export/optuna.journal")
        self.assertEqual({trial["state"] for trial in read["trials"]}, {"RUNNING"})

    def test_tensorboard_shows_settings_beside_the_curves_of_the_runs(self):
        python_with(TENSORBOARD)
        self.succeed_tuner(*self.command("small", "--trials", 4, "--threads", 1, "--confirm", 0))
        for _ in range(2):
            self.with_package(TENSORBOARD, "--study", "small", "--export", "hparams")
        found, read = Found(self.path("small")), self.read_with(TENSORBOARD, READ_HPARAMS, self.path("small/trials"))
        self.assertEqual(len(read), 4)
        for one in found.trials:
            shown = read[f"{one.number:04d}"]
            self.assertEqual(shown["hparams"].keys(), one.settings.keys())
            self.assertAlmostEqual(shown["hparams"]["Training.Alpha"], one.settings["Training.Alpha"])
            self.assertEqual(shown["status"], 1)
            self.assertGreater(len(shown["scalars"]["epoch/cost"]), 0)
            objective = shown["scalars"]["tuner/ndcg@10"]
            self.assertAlmostEqual(objective[-1][1], one.value, delta=1e-6)
            self.assertEqual(len(list(self.path(f"small/trials/{one.number:04d}/run").glob("*.hparams"))), 1)

    def test_a_package_that_is_missing_is_named(self):
        Made(self.folder / "study", 3)
        for kind, package in (("optuna", "optuna"), ("hparams", "tensorboard")):
            if subprocess.run(["/usr/bin/python3", "-c", f"import {package}"], capture_output=True).returncode:
                done = subprocess.run(["/usr/bin/python3", "-B", str(TUNER), "--study", "study", "--export", kind], cwd=self.folder,
                                      capture_output=True, text=True)
                self.assertEqual(done.returncode, 2)
                self.assertEqual(done.stderr,
                                 f"tuner: error: --export {kind}: the Python package {package} is missing; install it for the Python that "
                                              f"runs tuner: pip install {package}\n")

    def test_a_table_has_every_trial(self):
        Made(self.folder / "study", 12, diverging=0.2)
        said = self.succeed_tuner("--study", "study", "--export", "csv").stdout
        self.assertEqual(said.strip(), str(self.path("study/export/trials.csv")))
        rows, found = list(csv.DictReader(self.path("study/export/trials.csv").read_text().splitlines())), Found(self.path("study"))
        self.assertEqual([(int(row["trial"]), row["state"], int(row["epochs"])) for row in rows],
                         [(t.number, t.state, t.epochs) for t in found.trials])
        for row, one in zip(rows, found.trials):
            self.assertEqual(row["ndcg@20"], "" if one.value is None else repr(one.value))
            weighting = one.settings["Layers.Input.InputWeighting"]
            self.assertEqual(json.loads(row["Layers.Input.InputWeighting"]), weighting)


class PageTest(TunerTest):
    def test_stands_in_the_folder_when_a_study_has_ended_and_is_made_on_demand(self):
        self.succeed_tuner(*self.command("one", "--trials", 3, "--threads", 1, "--confirm", 0))
        text = self.path("one/report.html").read_text(encoding="utf-8")
        self.assertIn('<span class="status good">ended</span>', text)
        self.path("one/report.html").unlink()
        self.assertEqual(self.succeed_tuner("--study", "one", "--report").stdout.strip(), str(self.path("one/report.html")))
        self.assertEqual(self.path("one/report.html").read_text(encoding="utf-8"), text)
        # While it runs, and of one that was stopped.
        Made(self.folder / "two", 9, values=5)
        self.write("two/lease.json", json.dumps({"host": socket.gethostname(), "pid": os.getpid()}))
        self.succeed_tuner("--study", "two", "--report")
        self.assertIn('<span class="status ">running</span>', self.path("two/report.html").read_text(encoding="utf-8"))
        self.path("two/lease.json").unlink()
        self.succeed_tuner("--report", "two", "--page", "two.html")
        self.assertIn('<span class="status bad">stopped</span>', self.path("two.html").read_text(encoding="utf-8"))

    def test_of_several_studies_has_a_part_for_each(self):
        for name in ("north", "south/day"):
            Made(self.folder / name, 6)
        self.succeed_tuner("--study", "north", "--report", "south/day", "--page", "both.html")
        text = self.path("both.html").read_text(encoding="utf-8")
        self.assertEqual(re.findall(r'<a href="#study-\d+">(.*?)</a>', text), ["north", "day"])

    def test_what_is_wrong_is_said(self):
        Made(self.folder / "north", 3)
        self.refuse_tuner(2, ["--report: of which study? give --study FOLDER, or folders behind --report"], "--report")
        self.refuse_tuner(2, [f"{self.path('nowhere')}: holds no study"], "--study", "north", "--report", "nowhere")
        self.refuse_tuner(2, ["--report: ", "north is given twice; leave one out"], "--study", "north", "--report", "north")
        self.refuse_tuner(2, ["--page: says where --report writes to; give that too"], "--study", "north", "--page", "a.html")
        self.refuse_tuner(3, ["nowhere/a.html: cannot be written: No such file or directory"], "--report", "north", "--page",
                          "nowhere/a.html")
        self.assertTrue((BIN / "trainer").exists())


if __name__ == "__main__":
    unittest.main()
