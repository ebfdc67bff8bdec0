#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Searches from Python are those of the program: norn.tune.Study with quick trainings (quick_trainer.py)."""
import csv
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest
from unittest import mock

from killed_study import TRAINER, TUNER, KilledStudy
from simulated_study import PARAMETERS
from tuner_case import ROOT, SeededTest
from programs import BIN

import norn

DECISIONS = ("propose", "plan", "rung", "tell")
# What a user's program is; it prints what it came to.
PROGRAM = """
import json, logging, sys
sys.path.insert(0, {python!r})
import norn
given = json.loads(sys.argv[1])
try:
    best = norn.tune.Study(given.pop("folder"), **given).run()
    print(json.dumps([best.trial, best.value]))
except KeyboardInterrupt:
    print("stopped")
"""


class StudyTest(SeededTest):
    def setUp(self):
        super().setUp()
        KilledStudy(self.folder, 1, self.random)  # descriptor, space and data
        (self.folder / "bin").mkdir()
        shutil.copy(TRAINER, self.folder / "bin/trainer")
        (self.folder / "bin/evaluator").symlink_to(BIN / "evaluator")
        self.plain = self.random.random() < 0.7
        where = mock.patch.dict(os.environ, NORN_BIN=str(self.folder / "bin"))
        where.start()
        self.addCleanup(where.stop)
        self.network = json.loads((self.folder / "net.json").read_text())
        self.settings = {"sampler": self.random.choice(["gp", "random"]), "start": self.random.randrange(2, 5), "rungs": [2, 6], "clock": 4,
                         "seed": self.random.randrange(1000), "trials": self.random.randrange(6, 9), "confirm": 2, "seeds": 1}

    def study(self, name, **more):
        return norn.tune.Study(self.folder / name, self.network, PARAMETERS, self.folder / "train.nc", validation=0.1, plain=self.plain,
                               **(self.settings | more))

    def by_program(self, name):
        """The same settings, made by the program; the bytes of its best model."""
        words = ["--plain", "yes" if self.plain else "no"]
        words += [word for key, value in self.settings.items()
                 for word in (f"--{key}", ",".join(map(str, value)) if isinstance(value, list) else str(value))]
        subprocess.run([sys.executable, "-B", TUNER, "--study", name, "-c", "net.json", "--space", "space.json", "-i", "train.nc", *words,
                        "--workers", str(self.random.randrange(1, 4)), "--known", "none", "--quiet", "--", "--validation-split", "0.1"],
                        cwd=self.folder,
                       check=True, capture_output=True, timeout=300)
        return (self.folder / name / "best.nc").read_bytes()

    def decided(self, name):
        events = [json.loads(line) for line in (self.folder / name / "journal.jsonl").read_text().splitlines()]
        return {kind: [{key: value for key, value in event.items() if key not in ("n", "time")}
                       for event in events if event["event"] == kind] for kind in DECISIONS}

    def start(self, name, **more):
        given = self.settings | {"plain": self.plain, "folder": str(self.folder / name), "network": self.network, "space": PARAMETERS,
                                 "data": str(self.folder / "train.nc"),
                                 "validation": 0.1, "known": [], "workers": 2} | more
        return subprocess.Popen([sys.executable, "-B", "-c", PROGRAM.format(python=str(ROOT / "python")), json.dumps(given)],
                                stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def wait_for(self, what, patience=60.0):
        end = time.monotonic() + patience
        while not what():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def processes(self, name):
        """Of a study: its tuner, its trials, their trainers."""
        found, folder = [], str(self.folder / name)
        for entry in pathlib.Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace") if entry.name.isdigit() else ""
                if "\0-c\0" not in words.replace("\0-c\0net.json", "") and (folder + "\0" in words or folder + "/" in words
                                                                            or os.readlink(entry / "cwd").startswith(folder)):
                    found.append(words)
            except OSError:
                continue
        return found

    def told(self, name):
        path = self.folder / name / "journal.jsonl"
        return path.read_bytes().count(b'"event": "tell"') if path.exists() else 0

    def test_the_same_settings_make_the_same_search_as_the_program(self):
        expected = self.by_program("program")
        study = self.study("python", workers=self.random.randrange(1, 4), known=[])
        with self.assertLogs("norn", "INFO") as said:
            best = study.run()
        self.assertEqual((self.folder / "python/best.nc").read_bytes(), expected)
        self.assertEqual(self.decided("python"), self.decided("program"))
        ended = [event for event in self.decided("python")["tell"] if event["state"] == "done"]
        self.assertIn(best.trial, [event["trial"] for event in ended])
        self.assertEqual(json.loads((self.folder / "python/best.json").read_text()), best.descriptor)
        self.assertEqual({row["trial"] for row in best.confirmed} & {best.trial}, {best.trial})
        self.assertEqual(study.best, best)
        self.assertEqual(norn.tune.Study(self.folder / "program").best, best)
        self.assertEqual((best.comparison is not None, best.kept), (self.plain, best.comparison["kept"] if self.plain else "trial"))
        self.assertEqual(best.settings == {}, best.kept == "plain")
        self.assertEqual(sum(f" of {len(study.trials)}]" in line for line in said.output), len(study.trials), said.output)
        with open(study.export(), newline="") as file:
            table = list(csv.DictReader(file))
        self.assertEqual([(str(row["trial"]), row["state"]) for row in study.trials], [(row["trial"], row["state"]) for row in table])
        self.assertEqual([set(row) - set(PARAMETERS) for row in study.trials], [set(table[0]) - set(PARAMETERS)] * len(table))
        self.assertIn("<html", study.report(self.folder / "page.html").read_text())
        self.assertIn(f"the best is trial {best.trial}", study.status())

    def test_killed_and_gone_on_with_it_is_the_same_and_nothing_runs_on_without_it(self):
        expected = self.by_program("program")
        kills = 0
        while True:
            process = self.start("python")
            moment = self.told("python") + self.random.randrange(1, 4)
            if kills < 3:
                self.wait_for(lambda: self.told("python") >= moment or process.poll() is not None)
                time.sleep(self.random.uniform(0.0, 0.1))
                process.kill()
            said, wrong = process.communicate(timeout=300)
            if process.returncode == 0:
                break
            self.assertEqual(process.returncode, -signal.SIGKILL, wrong)
            kills += 1
            self.wait_for(lambda: not self.processes("python"))
        self.assertEqual(wrong, "")
        self.assertEqual((self.folder / "python/best.nc").read_bytes(), expected)
        self.assertEqual(self.decided("python"), self.decided("program"))
        self.assertEqual(json.loads(said), [norn.tune.Study(self.folder / "python").best.trial,
                                            norn.tune.Study(self.folder / "python").best.value])

    def test_control_c_leaves_a_study_that_goes_on_and_prints_nothing(self):
        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # which jobs of a shell's background ignore, and theirs
        self.addCleanup(signal.signal, signal.SIGINT, before)
        process = self.start("python")
        self.wait_for(lambda: self.told("python") >= 1 or process.poll() is not None)
        process.send_signal(signal.SIGINT)
        said, wrong = process.communicate(timeout=300)
        self.assertEqual((said, wrong, process.returncode), ("stopped\n", "", 0))
        self.assertEqual(self.processes("python"), [])
        study = norn.tune.Study(self.folder / "python")
        self.assertEqual(len(self.decided("python")["propose"]), len(study.trials))
        study.run()
        self.assertEqual((self.folder / "python/best.nc").read_bytes(), self.by_program("program"))

    def test_it_may_have_more_trials_and_others_know_it(self):
        first = self.study("first", trials=3, confirm=0)
        first.run()
        more = norn.tune.Study(self.folder / "first")
        more.run(trials=5)
        self.assertEqual(len(first.trials), 5)
        second = self.study("second", sources=[first.folder], start=0, sampler="gp", trials=2, confirm=0)
        try:
            second.run()
        except norn.DataError as error:  # two trials that the machine has no memory for
            self.assertIn("none of 2 trials came to its end (2 infeasible)", str(error))
        self.assertEqual(json.loads((second.folder / "study.json").read_text())["sources"][0]["folder"], str(first.folder))

    def refuses(self, kind, words, call):
        with self.assertRaises(kind) as caught:
            call()
        for word in words:
            self.assertIn(word, str(caught.exception))
        self.assertNotIn(" --", str(caught.exception))

    def test_what_is_wrong_is_raised_in_words_of_arguments(self):
        self.refuses(norn.UsageError, ["holds no study yet; a new one needs `network`"], norn.tune.Study(self.folder / "none").run)
        self.refuses(norn.UsageError, ["holds no study"], lambda: norn.tune.Study(self.folder / "none").best)
        self.refuses(norn.UsageError, ["given-space.json:", "the descriptor has no layer \"Alfa\""],
                     norn.tune.Study(self.folder / "wrong", self.network, {"Layers.Alfa.N": {"Whole": [1, 2]}}, self.folder / "train.nc",
                                     validation=0.1).run)
        self.refuses(norn.UsageError, ["`sampler`"], self.study("wrong", sampler="best").run)
        self.refuses(norn.UsageError, ["nothing to compare trials by: give `validation`"],
                     norn.tune.Study(self.folder / "wrong", self.network, PARAMETERS, self.folder / "train.nc").run)
        study = self.study("study", trials=3, confirm=0)
        study.run()
        self.refuses(norn.UsageError, ["`trials` 2", "the study has 3 already"], lambda: study.run(trials=2))
        self.refuses(norn.UsageError, ["`seed`", "was begun with"], self.study("study", seed=self.settings["seed"] + 1).run)
        self.refuses(norn.UsageError, ["`network`: is not what the study"],
                     norn.tune.Study(study.folder, {**self.network, "Name": "other"}).run)
        self.refuses(norn.DataError, ["cannot be made"], norn.tune.Study(self.folder / "train.nc/study", self.network).run)

    def test_one_is_at_work_at_a_time(self):
        process = self.start("python", trials=40)
        try:
            self.wait_for(lambda: self.told("python") >= 1)
            self.refuses(norn.CommunicationError, ["another tuner is at work on this study"], norn.tune.Study(self.folder / "python").run)
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=300)


if __name__ == "__main__":
    unittest.main()
