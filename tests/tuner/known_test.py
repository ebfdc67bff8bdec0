#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trainings that a study beside it has made are taken by the real tuner, with quick trainings (quick_trainer.py): nothing is decided
otherwise, and nothing is taken that would have come to something else."""
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
import unittest

import quick_trainer
from killed_study import TRAINER, TUNER, KilledStudy
from tuner_case import SeededTest
from norn.tune import trial
from norn._files import write_json

TRIALS = 3
DECISIONS = ("propose", "plan", "rung", "tell")


class KnownTest(SeededTest):
    def setUp(self):
        super().setUp()
        self.trainer = self.folder / "trainer.py"
        shutil.copy(TRAINER, self.trainer)
        KilledStudy(self.folder, 1, random.Random(1))  # descriptor, space and data

    def tuner(self, name, *words, code=0):
        """What it says; the study is begun where there is none."""
        if not (self.folder / name / "study.json").exists() and "--repeat" not in words:
            words = ["-c", "net.json", "--space", "space.json", "-i", "train.nc", "--sampler", "random", "--rungs", "2,6", "--clock", 4,
                     *words, "--",
                     "--validation-split", "0.1"]
        done = subprocess.run([sys.executable, "-B", str(TUNER), "--study", name, "--trainer", str(self.trainer), "--workers", "2",
                               *map(str, words)],
                              cwd=self.folder, capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout + done.stderr

    def begin(self, name, *words):
        return self.tuner(name, "--trials", TRIALS, "--confirm", 0, "--plain", "no", *words)

    def events(self, name, kind=None):
        lines = (self.folder / name / "journal.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if kind in (None, event["event"])]

    def decided(self, name):
        return {kind: [{key: value for key, value in event.items() if key not in ("n", "time")} for event in self.events(name, kind)]
                for kind in DECISIONS}

    def trained(self, name):
        """How many trainings were given to workers."""
        return len(self.events(name, "submit"))

    def taken(self, name):
        return [event for event in self.events(name) if "taken" in event]

    def test_a_study_made_again_trains_its_winner_alone_and_says_so(self):
        self.begin("first")
        said = self.begin("again", "--confirm", 2, "--seeds", 2, "--plain", "yes")
        self.assertEqual(self.decided("again"), self.decided("first"))
        self.assertEqual(self.trained("again"), 4 + 1 + 1)  # with other seeds, the winner's model, and the plain recipe
        self.assertIsNotNone(self.events("again", "end")[-1]["comparison"])
        self.assertEqual({event["taken"]["folder"] for event in self.taken("again")}, {str(self.folder / "first")})
        self.assertEqual({event["seconds"] for event in self.taken("again")}, {0.0})
        trial = self.decided("first")["tell"][0]["trial"]
        self.assertRegex(said, rf"trial {trial} \w+ after .*, taken from trial {trial} of {self.folder}/first(; best| \[)")
        model = f"trials/{self.events('again', 'end')[-1]['best']:04d}/model.nc"
        self.assertEqual((self.folder / "again" / model).read_bytes(), (self.folder / "first/best.nc").read_bytes())
        # Of three studies the seeds are known, too, and where it came from first is what is said.
        said = self.begin("third", "--confirm", 2, "--seeds", 2)
        self.assertEqual(self.trained("third"), 1)
        self.assertRegex(said, rf"trial \d with seed 2 taken from trial \d with seed 2 of {self.folder}/again")
        self.assertEqual({event["taken"]["folder"] for event in self.taken("third") if "seed" not in event}, {str(self.folder / "first")})
        status = self.tuner("third", "--status")
        self.assertEqual(len(re.findall(rf", taken from trial \d of {self.folder}/first$", status, re.M)), TRIALS)
        self.tuner("third", "--export", "csv")
        self.assertIn(f"trial {trial} of {self.folder}/first,", (self.folder / "third/export/trials.csv").read_text())
        page = (self.folder / "third/report.html").read_text()
        self.assertEqual(page.count('">taken</span>'), TRIALS)
        self.assertRegex(page, rf"taken without training</td><td>\d+ of {self.folder}/again, \d of {self.folder}/first")

    def test_none_takes_nothing_and_other_folders_can_be_named(self):
        self.begin("first")
        self.begin("alone", "--known", "none")
        self.assertEqual([self.taken("alone"), self.decided("alone")], [[], self.decided("first")])
        os.mkdir(self.folder / "elsewhere")
        self.begin("elsewhere/one", "--known", ".")
        self.assertEqual([self.trained("elsewhere/one"), self.decided("elsewhere/one")], [1, self.decided("first")])
        self.assertIn("--known nowhere: is no folder", self.tuner("first", "--trials", 7, "--known", "nowhere", code=2))
        self.assertIn("--known none: says to take nothing", self.tuner("first", "--trials", 7, "--known", ".", "--known", "none", code=2))
        # Made again to compare it, all of it is.
        self.assertIn("are the same", self.tuner("compared", "--repeat", "first"))
        self.assertEqual(self.taken("compared"), [])

    def test_other_searches_take_what_is_the_same_and_decide_what_they_would(self):
        """Seeds, rungs, epochs, spaces drawn at random, after each other."""
        small = {"Parameters": {"Training.Batch": {"Values": [32, 64, 128, 256]}, "Layers.Hidden.N": {"Whole": [64, 256], "Multiple": 64}}}
        (self.folder / "small.json").write_text(json.dumps(small))
        taken = 0
        for number in range(3):
            words = ["--trials", self.random.randint(4, 6), "--confirm", 0, "--space", "small.json", "--seed", self.random.randint(1, 2),
                     "--rungs", self.random.choice(["2,6", "2", "3,6"]), "--epochs", self.random.choice([9, 9, 12])]
            self.tuner(f"s{number}", *words)
            self.tuner(f"calm/s{number}", *words, "--known", "none")
            self.assertEqual(self.decided(f"s{number}"), self.decided(f"calm/s{number}"), words)
            self.assertEqual((self.folder / f"s{number}/best.nc").read_bytes(), (self.folder / f"calm/s{number}/best.nc").read_bytes())
            taken += len(self.taken(f"s{number}"))
        print(f"{taken} taken", file=sys.stderr)
        self.assertGreater(taken, 0)

    def test_a_winner_whose_end_was_taken_has_the_model_of_its_end(self):
        """It was trained here up to a rung that the other study does not have."""
        self.begin("first")
        self.begin("other", "--rungs", 3)
        winner = self.events("other", "end")[-1]["best"]
        self.assertEqual([event["until"] for event in self.events("other", "submit") if event["trial"] == winner], [3, 18])
        network = json.loads((self.folder / "other/best.json").read_text())
        self.assertEqual((self.folder / "other/best.nc").read_text(), quick_trainer.checksum(network, 18))

    def test_what_bits_follow_from_must_be_the_same(self):
        self.begin("first")
        data, facts = self.folder / "train.nc", os.stat(self.folder / "train.nc")
        data.write_text("[]")
        os.utime(data, ns=(facts.st_atime_ns, facts.st_mtime_ns))
        self.assertEqual(os.stat(data).st_size, facts.st_size)
        self.begin("data")
        self.assertEqual(self.taken("data"), [])
        # The study whose data were replaced notices, too, whatever their time says.
        self.assertIn("other contents than the study", self.tuner("first", "--trials", 5, code=3))
        data.write_text("{}")
        self.trainer.write_text(self.trainer.read_text() + "# another build\n")
        self.begin("binary")
        self.assertEqual(self.taken("binary"), [])
        self.begin("epochs", "--epochs", 17)
        self.assertEqual(self.taken("epochs"), [])

    def test_half_a_line_and_files_that_are_gone_are_no_results(self):
        self.begin("first")
        journal = self.folder / "first/journal.jsonl"
        lines = journal.read_bytes().splitlines(keepends=True)
        values = [n for n, line in enumerate(lines) if b'"event": "value"' in line]
        cut = self.random.choice(values[1:])
        journal.write_bytes(b"".join(lines[:cut]) + lines[cut][:self.random.randrange(len(lines[cut]))])
        shutil.rmtree(self.folder / "first/trials")
        (self.folder / "first/study.json").unlink()
        (self.folder / "broken").mkdir()
        (self.folder / "broken/journal.jsonl").write_bytes(b'{"n": 1, "key": "' + b"0" * 32 + b'/2"\n\xff\n' + lines[values[0]][:-9]
                                                           + b"\n")
        self.begin("again")
        self.assertEqual(len(self.taken("again")), values.index(cut))
        # What was taken stays, wherever it came from.
        shutil.rmtree(self.folder / "first")
        self.tuner("again", "--trials", 4)
        self.assertEqual(len(self.decided("again")["tell"]), 4)

    def test_two_that_came_to_something_else_are_both_not_believed(self):
        self.begin("first")
        shutil.copytree(self.folder / "first", self.folder / "second")
        path = self.folder / "second/journal.jsonl"
        lines = path.read_text().splitlines()
        at = next(n for n, line in enumerate(lines) if json.loads(line)["event"] == "value")
        event = json.loads(lines[at])
        last = max(event["values"], key=int)
        lines[at] = json.dumps({**event, "values": {**event["values"], last: event["values"][last] + 0.5}})
        path.write_text("\n".join(lines) + "\n")
        said = self.begin("third")
        self.assertRegex(said, rf"warning: trial {event['trial']} of \S+ and trial {event['trial']} of \S+ are the same training and came "
                               "to something else")
        self.assertEqual(said.count("came to something else"), 1)
        self.assertEqual(self.decided("third"), self.decided("first"))
        self.assertGreater(len(self.taken("third")), 1)
        self.assertIn(event["trial"], [one["trial"] for one in self.events("third", "submit")])

    def test_two_at_once_decide_what_each_would_alone(self):
        words = [sys.executable, "-B", str(TUNER), "--trainer", str(self.trainer), "--trials", "6", "--confirm", "0", "--quiet", "-c",
                 "net.json", "--space",
                 "space.json", "-i", "train.nc", "--sampler", "random", "--rungs", "2,6", "--clock", "4", "--study"]
        both = []
        for name in ("one", "two"):
            both.append(subprocess.Popen([*words, name, "--", "--validation-split", "0.1"], cwd=self.folder, stdout=subprocess.DEVNULL,
                                         stderr=subprocess.PIPE, text=True))
            time.sleep(self.random.uniform(0.0, 2.0))
        for process in both:
            _, said = process.communicate(timeout=200)
            self.assertEqual(process.returncode, 0, said)
        self.begin("calm", "--trials", 6, "--known", "none")
        self.assertEqual([self.decided("one"), self.decided("two")], [self.decided("calm")] * 2)
        print(f"taken: {len(self.taken('one'))}, {len(self.taken('two'))}", file=sys.stderr)

    def test_kills_change_nothing_where_much_is_known(self):
        KilledStudy(self.folder, 2, self.random, "first").run(5, 0)
        study = KilledStudy(self.folder, 3, self.random, "killed")
        study.run(9, 4)
        print(f"killed: {study.struck}", file=sys.stderr)
        study.check(9)
        self.assertGreater(len(self.taken("killed")), 4)
        numbers = [(event["trial"], max(event["values"], key=int)) for event in self.taken("killed") if event["event"] == "value"]
        self.assertEqual(len(numbers), len(set(numbers)))


class MakersTest(SeededTest):
    def attempt(self, number, binary, code=0):
        """What it leaves, of a trainer of that name."""
        record = {"binary": binary, "sets": [{"name": "a", "checksum": "1"}], "result": {"checksum": "2"}}
        script = f"mkdir -p run; echo '{json.dumps(record)}' > run/run.json; exit {code}"
        write_json(self.folder / trial.ATTEMPT, {"attempt": number, "until": 1, "launch": [], "heartbeat": 60, "gpus": [], "gpu_count": 0,
                                                 "command": ["/bin/sh", "-c", script]})
        subprocess.run([sys.executable, "-B", trial.__file__, str(self.folder), str(number)], check=True)
        return json.loads((self.folder / trial.RESULT).read_text())

    def test_a_training_of_two_programs_is_nobody_elses(self):
        one = self.attempt(0, "a")
        self.assertEqual(one["made"], trial.made_of(json.loads((self.folder / trial.RECORD).read_text())))
        self.assertEqual(self.attempt(1, "a")["made"], one["made"])
        self.assertIsNone(self.attempt(2, "b")["made"])
        self.assertIsNone(self.attempt(3, "b")["made"])

    def test_nor_where_the_first_of_them_was_killed(self):
        self.attempt(0, "a", code=75)
        for name in (trial.RESULT, trial.MAKERS):  # it came to neither
            (self.folder / name).unlink()
        self.assertIsNone(self.attempt(1, "b")["made"])

    def test_threads_are_no_other_device(self):
        names = ["OpenBLAS 0.3.21 Zen, 1 thread", "OpenBLAS 0.3.21 Zen, 16 threads", "OpenBLAS 0.3.21 Haswell, 1 thread"]
        one, two, other = (trial.made_of({"device_name": name}) for name in names)
        self.assertEqual(one, two)
        self.assertNotEqual(one, other)


if __name__ == "__main__":
    unittest.main()
