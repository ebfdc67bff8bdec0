#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Days of a few regions with the real programs: what is published, what is held back, and what goes on beside it."""
import json
import os

import shutil
import subprocess
import time
import unittest

import netCDF4

from daily_case import DAY, LOOSE, NETWORK, DailyTest
from programs import Gate

NEXT, THIRD = "2026-11-21", "2026-11-22"


class Days(DailyTest):
    def test_a_missing_text_stops_its_region_alone_and_is_mended_by_the_same_command(self):
        for name in ("north", "south"):
            self.draw_region(name)
        self.regions({"north": {}, "east": {}, "south": {}})
        done = self.ends_with(7, "--slots", 2)
        self.assertIn("in/east.txt.gz: there is no text of region \"east\"; put it there", done.stderr)
        self.assertIn("2 published, 1 failed", done.stdout)
        self.assertEqual([self.current(name) is not None for name in ("north", "east", "south")], [True, False, True])
        before = self.published()
        self.draw_region("east")
        done = self.ends_with(0, "--slots", 2)
        self.assertIn("3 published", done.stdout)
        after = self.published()
        self.assertEqual({name: after[name] for name in before}, before)
        self.assertIn("3 published", self.ends_with(0, "--status").stdout)
        self.ends_with(7, "--status", day=NEXT)

    def test_a_worse_model_is_held_back_and_yesterdays_stays_and_recommends(self):
        self.draw_region("north", 300)
        more = {"Requests": "in/{region}.requests.txt", "Recommend": {"Top": 3}}
        self.regions({"north": {}}, **more)
        self.ends_with(0)
        first = self.current("north")
        lists = os.readlink(self.path("serving/north/recommendations"))
        self.assertIsNone(self.record("north")["against"])
        # The next day the network is hardly trained.
        self.regions({"north": {"Model": "bad.json"}}, Gate={"Metric": "recall@20", "MinExamples": 20}, **more)
        done = self.ends_with(7, day=NEXT)
        self.assertIn("north: publish: held back: ", done.stderr)
        self.assertIn("may be worse than the model in service", done.stderr)
        self.assertIn("not surely better than popularity", done.stderr)
        self.assertEqual(self.current("north"), first)
        verdict = json.loads(self.path("days", NEXT, "north/gate/gate.json").read_text())
        self.assertEqual((verdict["passed"], verdict["against"]), (False, first))
        self.assertLess(verdict["serving"]["bound"], 0.98)
        self.assertLessEqual(verdict["serving"]["bound"], verdict["serving"]["ratio"])
        # Recommended is with what is in service.
        now = os.readlink(self.path("serving/north/recommendations"))
        self.assertNotEqual(now, lists)
        self.assertEqual(self.record("north", f"../{now}/published.json")["model"], first)
        # With the good network the same day is published, and held against the first.
        self.regions({"north": {}}, **more)
        self.ends_with(0, day=NEXT)
        self.assertEqual((self.record("north")["against"], self.record("north")["previous"]), (first, first))

    def test_a_rollback_holds_and_the_next_day_is_held_against_it(self):
        self.draw_region("north", 300)
        self.regions({"north": {}})
        self.refuses(2, ["nothing of region \"north\" is in service"], "--rollback", "north")
        self.ends_with(0)
        first = self.current("north")
        self.refuses(2, ["there is no model before ", first], "--rollback", "north")
        self.regions({"north": {}}, Train={"Options": ["--seed", "7"]})
        self.ends_with(0, day=NEXT)
        second = self.current("north")
        self.assertNotEqual(second, first)
        self.assertIn(f"{second} is taken back, {first} is in service", self.ends_with(0, "--rollback", "north").stdout)
        self.assertEqual(self.current("north"), first)
        done = self.ends_with(7, day=NEXT)
        self.assertIn("was taken back by --rollback", done.stdout)
        self.assertIn("was taken back by --rollback", self.ends_with(7, "--from-step", "publish", day=NEXT).stderr)
        self.assertEqual(self.current("north"), first)
        self.ends_with(0, day=THIRD)
        self.assertEqual(self.record("north")["against"], first)
        # A day that is over does not take the place of a later one.
        third = self.current("north")
        self.regions({"north": {}}, Train={"Options": ["--seed", "8"]})
        self.assertIn(f"the model of a later day is in service: {third}", self.ends_with(7, day=DAY).stderr)
        self.assertEqual(self.current("north"), third)

    def test_a_full_disk_at_publishing_leaves_what_is_in_service(self):
        if os.geteuid() != 0:
            self.skipTest("only the superuser can mount a small file system")
        small = self.path("serving")
        small.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(small)], capture_output=True, text=True)
        if mounted.returncode != 0:
            self.skipTest(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", str(small)], check=True)
        self.draw_region("north", 150)
        self.regions({"north": {}})
        self.ends_with(0)
        before = self.published()
        filler = small / "filler"
        with open(filler, "wb", buffering=0) as file:
            try:
                while file.write(b"0" * 4096):
                    pass
            except OSError:
                pass
        self.regions({"north": {}}, Train={"Options": ["--seed", "7"]})
        done = self.ends_with(7, day=NEXT)
        self.assertIn("No space left on device; make room or mend it", done.stderr)
        filler.unlink()
        self.assertEqual(self.published(), before)
        self.assertEqual([path for path in small.rglob(".*") if path.name != ".lock"], [])
        self.ends_with(0, day=NEXT)
        self.assertEqual(self.record("north")["day"], NEXT)

    def test_a_second_daily_on_the_same_day_is_refused_and_two_steps_wait_for_each_other(self):
        self.draw_region("north", 150)
        self.regions({"north": {}})
        gate = Gate(self.path("gate"), "rename", "train.nc")
        self.addCleanup(gate.open)
        first = subprocess.Popen(self.command(), cwd=self.folder, env=gate.environment, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        while not gate.waiting():
            self.assertIsNone(first.poll())
            time.sleep(0.05)
        self.refuses(5, [f"another daily is at work on this day, process {first.pid} on "])
        step = subprocess.Popen(self.command("--region", "north", "--step", "import"), cwd=self.folder, stdout=subprocess.PIPE, text=True)
        time.sleep(0.5)
        self.assertIsNone(step.poll(), "it does not wait")
        gate.open()
        said, _ = step.communicate(timeout=200)
        self.assertEqual((step.returncode, first.wait(timeout=300)), (0, 0))
        self.assertIn("north: import", said)
        self.assertEqual(len(list(self.path("serving/north").glob("20*"))), 1)

    def pairs(self, day, file, part):
        """{(example, feature)} of the inputs (0) or outputs (1) of a data set that a day has imported."""
        made = self.path("days", day, "north/import")
        names = [line.rsplit("\t", 1)[0] for line in (made / "features.txt").read_text().splitlines()]
        with netCDF4.Dataset(made / file) as data:
            examples = bytes(data["exampleLabels0"][:]).decode()
            ends = [0, *map(int, data["exampleLabelEnd0"][:])]
            rows = zip(data[f"sparseStart{part}"][:], data[f"sparseEnd{part}"][:])
            index = data[f"sparseIndex{part}"][:]
            return {(examples[ends[e]:ends[e + 1]], names[unit]) for e, (begin, end) in enumerate(rows) for unit in index[begin:end]}

    def test_what_is_held_out_today_was_not_trained_on_yesterday(self):
        rows = [(name, needs) for name, needs in self.draw(300) if len(needs) >= 5]
        self.text("in/north.txt.gz", rows, packed=True)
        self.regions({"north": {}})
        self.ends_with(0)
        changed = [(name, ["what is new", *reversed(needs)]) for name, needs in self.random.sample(rows, len(rows) - 20)]
        changed += self.draw(1, besides=rows)
        self.text("in/north.txt.gz", changed, packed=True)
        self.ends_with(7, "--step", "train", "--region", "north", day=NEXT)
        self.ends_with(0, "--step", "import", "--region", "north", day=NEXT)
        trained, held_out = self.pairs(DAY, "train.nc", 0), self.pairs(NEXT, "test.nc", 1)
        self.assertGreater(len(held_out), 50)
        self.assertLess(len(trained & held_out), 0.005 * len(held_out) + 2)
        again = held_out & self.pairs(DAY, "test.nc", 1)
        self.assertGreater(len(again), 0.8 * len(held_out) - 20)

    def test_days_that_hold_the_newest_entries_alone(self):
        """Three days: the first has nothing to train on, the second no validation by time, the third has."""
        needs = [(name, needs) for name, needs in self.draw(400) if len(needs) >= 6]
        days = ("2026-11-18", "2026-11-19", DAY)
        for at, day in enumerate(days):
            self.text(f"in/{day}/all of it.txt", [(name, own[at::3]) for name, own in needs])
        self.text("in/2026-13-41/all of it.txt", needs)  # no day
        self.regions({"all of it": {}}, HeldOut="newest", Text="in/{day}/{region}.txt", Space="space.json",
                     Tune={"Trials": 5, "GpuHoursInAll": 50, "Options": ["--confirm", "0", "--halving", "none", "--epochs", "2"],
                           "Validation": ["--validation-split", "0.3"]})
        self.assertIn("is the first day of region", self.ends_with(7, day=days[0]).stderr)
        self.ends_with(0, day=days[1])
        self.ends_with(0, day=days[2])
        for day in days[1:]:
            self.assertEqual(json.loads(self.path("days", day, ".daily/hours.json").read_text()),
                             {"in_all": 50, "hours": {"all of it": 50.0}})
        study = json.loads(self.path("days", DAY, "all of it/tune/study/study.json").read_text())
        self.assertEqual(study["options"], ["--validation-input", str(self.path("days", DAY, "all of it/import/validation.nc"))])
        self.assertEqual([one["folder"] for one in study["sources"]], [str(self.path("days", days[1], "all of it/tune/study"))])
        index = [self.path("days", day, "all of it/import/features.txt").read_text().splitlines() for day in days[1:]]
        self.assertEqual(index[1][:len(index[0])], index[0])
        self.assertGreater(len(index[1]), len(index[0]))
        record = json.loads(self.path("days", DAY, "all of it/train/run/run.json").read_text())
        tuned = json.loads(self.path("days", DAY, "all of it/tune/tuned.json").read_text())
        self.assertEqual(record["result"]["epochs"], tuned["epochs"])

    def test_the_newest_days_of_a_text_with_times_are_held_out_and_those_before_them_validate(self):
        rows = [(name, need, self.random.randint(0, 9)) for name, needs in self.draw(300) if len(needs) >= 5 for need in needs]
        def write(day, newest):
            lines = [f"{name},{need},2026-11-{10 + at:02d}T{self.random.randint(0, 23):02d}:30\n"
                     for name, need, at in rows if at <= newest]
            self.random.shuffle(lines)
            self.write(f"in/{day}.csv", "name,need,time\n" + "".join(lines))
        days = {"2026-11-18": 8, "2026-11-19": 9}
        for day, newest in days.items():
            write(day, newest)
        self.regions({"north": {}}, HeldOut="days:2", Text="in/{day}.csv",
                     Import=["--time-column", "time", "--example-column", "name", "--feature-column",
                     "need"], Space="space.json", Gate={**LOOSE, "Floor": 0.02},
                     Tune={"Trials": 2, "Options": ["--confirm", "0", "--halving", "none", "--epochs", "2"]})
        for day, newest in days.items():
            self.ends_with(0, day=day)
            def entries(*when):
                return {(name, need) for name, need, at in rows if at in when}
            train = self.pairs(day, "train.nc", 0)
            self.assertEqual(train, entries(*range(newest - 1)))
            known = {name for name, _ in train}
            self.assertEqual(self.pairs(day, "test.nc", 1), {pair for pair in entries(newest - 1, newest) if pair[0] in known})
            fit = self.pairs(day, "fit.nc", 0)
            self.assertEqual(fit, entries(*range(newest - 3)))
            known = {name for name, _ in fit}
            self.assertEqual(self.pairs(day, "validation.nc", 1), {pair for pair in entries(newest - 3, newest - 2) if pair[0] in known})
        self.ends_with(7, day="2026-11-23")  # no text yet

    def test_tuning_that_is_not_due_takes_the_last_ones_descriptor_and_old_days_go(self):
        self.draw_region("north", 150)
        rules = {"Space": "space.json", "Keep": 2,
                 "Tune": {"Trials": 2, "Every": 2, "Options": ["--confirm", "0", "--halving", "none", "--epochs", "2"]}}
        self.regions({"north": {}}, **rules)
        days = ["2026-11-17", "2026-11-18", "2026-11-19", DAY]
        for day in days:
            self.draw_region("north", 150)
            self.regions({"north": {}}, **rules)
            self.ends_with(0, day=day)
        tuned = [json.loads(self.path("days", day, "north/tune/tuned.json").read_text())["day"] for day in days[2:]]
        self.assertEqual(tuned, ["2026-11-19", "2026-11-19"])
        self.assertEqual(sorted(path.name for path in self.path("days").iterdir()), days[2:])
        self.assertEqual(sorted(path.name[:10] for path in self.path("serving/north").glob("20*")), days[2:])

    def test_from_a_step_on_everything_is_made_again_and_only_there(self):
        for name in ("north", "south"):
            self.draw_region(name, 120)
        self.regions({"north": {}, "south": {}})
        self.ends_with(0, "--slots", 2)

        def times():
            return {str(path.relative_to(self.path("days", DAY))): path.stat().st_mtime_ns
                    for path in self.path("days", DAY).glob("*/*/stamp.json")}
        before = times()
        self.ends_with(0, "--only", "south", "--from-step", "gate")
        changed = {name for name, when in times().items() if when != before[name]}
        self.assertEqual(changed, {"south/gate/stamp.json", "south/publish/stamp.json"})
        # A text that changes is noticed.
        self.draw_region("north", 120)
        self.ends_with(0)
        changed = {name.split("/")[0] for name, when in times().items() if when != before[name] and name.startswith("north")}
        self.assertEqual(changed, {"north"})
        self.assertEqual(len(list(self.path("serving/north").glob("20*"))), 2)

    def test_a_day_until_a_step_and_the_list_of_regions_for_programs(self):
        self.draw_region("north", 120)
        self.regions({"north": {}, "no text": {}}, Recommend={}, Requests="in/{region}.requests.txt")
        self.ends_with(0, "--only", "north", "--until", "train")
        self.assertEqual(sorted(path.parent.name for path in self.path("days", DAY, "north").glob("*/stamp.json")), ["import", "train"])
        self.assertIn("no text: import: ", self.ends_with(7, "--until", "train").stderr)
        steps = "import train gate publish recommend"
        self.assertEqual(self.ends_with(0, "--list", day=None).stdout, f"north\t{steps}\nno text\t{steps}\n")
        self.ends_with(0, "--only", "north", "--until", "publish")
        self.assertFalse(self.path("serving/north/recommendations").exists())

    def test_what_a_step_is_called_with_and_what_it_says(self):
        self.draw_region("north", 120)
        self.regions({"north": {}})
        self.refuses(2, ["--step and --region"], "--step", "import")
        self.refuses(2, ["--step tune: region \"north\" has no such step; it has: import, train, gate, publish"], "--step", "tune",
                     "--region", "north")
        self.refuses(7, ["north: step import has not been made on 2026-11-20; run it first"], "--step", "train", "--region", "north")
        self.ends_with(0, "--step", "train", "--region", "north", "--go-on")
        self.refuses(2, ["has no region \"nort\". Did you mean \"north\"?"], "--only", "nort")
        for day, said in (("2026-11-31", "is no day"), ("20-11-2026", "is no day"), ("2026-W47-1", "is no day"),
                          ("9999-12-31", "is to come")):
            self.refuses(2, [f"--day: {day} {said}" if said == "is to come" else f"--day: \"{day}\" {said}"], day=day)
        self.assertEqual([path.name for path in self.path("days").iterdir()], [DAY])
        shutil.rmtree(self.path("in"))
        self.assertIn("text of region", self.ends_with(7).stderr)
        self.refuses(2, ["importer is not there", "--bin"], "--bin", str(self.path("in")))

    def test_a_program_that_fails_is_told_with_its_words(self):
        self.draw_region("north", 120)
        self.text("in/south.txt.gz", [])
        self.write("broken.json", (NETWORK % "0.01").replace("Tanh", "Tahn"))
        self.regions({"north": {"Model": "broken.json"}, "south": {}})
        done = self.ends_with(7, "--slots", 2)
        self.assertIn("north: train: trainer ended with code 2: ", done.stderr)
        self.assertIn("Activation \"Tahn\" is unknown; did you mean \"Tanh\"?", done.stderr)
        self.assertIn("south: import: importer ended with code 3: ", done.stderr)

    def test_a_signal_stops_it_with_75_and_the_same_command_goes_on(self):
        self.draw_region("north", 120)
        self.regions({"north": {}})
        gate = Gate(self.path("gate"), "rename", "train.nc")
        self.addCleanup(gate.open)
        process = subprocess.Popen(self.command(), cwd=self.folder, env=gate.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   text=True)
        while not gate.waiting():
            self.assertIsNone(process.poll())
            time.sleep(0.05)
        process.terminate()
        gate.open()
        _, said = process.communicate(timeout=200)
        self.assertEqual(process.returncode, 75, said)
        self.assertIn("the same command goes on", said)
        self.assertEqual(self.processes(), {})
        self.ends_with(0)


if __name__ == "__main__":
    unittest.main()
