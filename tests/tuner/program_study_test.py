#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tuner with the real trainer on small data: the same study on any number of workers and through any kill."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from tuner_program import BIN, TUNER, TunerTest


BASIS = ("--trials", 9, "--start", 5, "--clock", 4, "--threads", 1, "--confirm", 2, "--seeds", 2)


class Same(TunerTest):
    """The study that one worker makes, undisturbed, is made again: it and its data are those of all tests here."""

    basis = None

    def setUp(self):
        super().setUp()
        if Same.basis is None:
            Same.basis = pathlib.Path(tempfile.mkdtemp(prefix="norn-test-"))
            self.addClassCleanup(shutil.rmtree, Same.basis, ignore_errors=True)
            shutil.copytree(self.folder, Same.basis, dirs_exist_ok=True)
            own, self.folder = self.folder, Same.basis
            self.succeed_tuner(*self.command("calm", *BASIS))
            self.folder = own
        shutil.rmtree(self.folder)
        shutil.copytree(Same.basis, self.folder)

    def until_done(self, study, arguments, kills):
        """Runs the study and kills its tuner, its trials or their trainers at random moments, so many times, then lets it end."""
        struck = 0
        while True:
            with subprocess.Popen([sys.executable, "-B", str(TUNER), "--trainer", str(BIN / "trainer"), *arguments], cwd=self.folder,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
                while struck < kills and process.poll() is None:
                    time.sleep(self.random.uniform(0.0, 0.6))
                    targets = [(what, pid) for what, pids in self.processes(study).items() for pid in pids]
                    if targets:
                        what, pid = self.random.choice(targets)
                        try:
                            os.kill(pid, signal.SIGKILL)
                            struck += 1
                        except ProcessLookupError:
                            pass
                _, said = process.communicate(timeout=500)
            if process.returncode == 0:
                return struck
            if process.returncode != -signal.SIGKILL:  # a trainer was killed of which the tuner itself had asked something
                self.assertEqual(process.returncode, 128 + signal.SIGKILL, said)
                self.assertIn("ended with signal 9", said)

    def end_of(self, study):
        return [event for event in self.events(study) if event["event"] == "end"][-1]

    def is_the_same(self, study):
        self.assertEqual(self.decisions(study), self.decisions("calm"))
        self.assertEqual(self.read(f"{study}/best.nc"), self.read("calm/best.nc"))
        for key in ("confirmed", "kept", "comparison"):
            self.assertEqual(self.end_of(study)[key], self.end_of("calm")[key])
        self.assertIsNotNone(self.end_of(study)["comparison"])

    def test_four_workers_make_the_same_study(self):
        self.succeed_tuner(*self.command("four", *BASIS, "--workers", 4))
        self.is_the_same("four")
        decisions = self.decisions("four")
        self.assertEqual([len(decisions["propose"]), len(decisions["tell"])], [9, 9])
        self.assertTrue(any(event["decision"] == "halved" for event in decisions["rung"]))
        self.assertEqual([len(row["values"]) for row in self.end_of("four")["confirmed"]], [2, 2])

    def test_two_workers_and_kills_change_nothing(self):
        struck = self.until_done("killed", list(map(str, self.command("killed", *BASIS, "--workers", 2))), 12)
        print(f"{struck} kills", file=sys.stderr)
        self.assertGreater(struck, 0)
        self.is_the_same("killed")
        told = [event["trial"] for event in self.events("killed") if event["event"] == "tell"]
        self.assertEqual(sorted(told), sorted(set(told)))
        self.assertEqual(self.processes("killed"), {"tuner": [], "trial": [], "trainer": []})
        self.assertEqual([p for p in self.path("killed").rglob(".*") if p.is_file()], [])

    def test_a_journal_that_was_cut_anywhere_is_made_to_the_same_end(self):
        journal = self.read("calm/journal.jsonl")
        shutil.copytree(self.path("calm"), self.path("cut"))
        first = journal.index(b"\n") + 1  # what was to be done
        for _ in range(3):
            self.path("cut/journal.jsonl").write_bytes(journal[:self.random.randrange(first, len(journal))])
            self.succeed_tuner("--study", "cut", "--threads", 1, "--workers", 2)
            self.is_the_same("cut")


class Going(TunerTest):
    def test_more_trials_later_keep_what_was_decided_whenever_they_are_asked_for(self):
        self.succeed_tuner(*self.command("short", "--trials", 4, "--start", 3, "--threads", 1, "--confirm", 0))
        short = self.decisions("short")
        self.succeed_tuner("--study", "short", "--trials", 6, "--workers", 2, "--threads", 1)
        # Asked for before the first four are done.
        arguments = list(map(str, self.command("early", "--trials", 4, "--start", 3, "--threads", 1, "--confirm", 0)))
        with subprocess.Popen([sys.executable, "-B", str(TUNER), "--trainer", str(BIN / "trainer"), *arguments], cwd=self.folder,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            while not self.processes("early")["trainer"]:
                self.assertIsNone(process.poll())
                time.sleep(0.05)
            process.kill()
        self.succeed_tuner("--study", "early", "--trials", 6, "--threads", 1)
        grown = self.decisions("short")
        self.assertEqual(self.decisions("early"), grown)
        self.assertEqual({kind: grown[kind][:len(short[kind])] for kind in short}, short)
        self.assertEqual(len(grown["propose"]), 6)
        self.refuse_tuner(2, ["--trials 5: the study has 6 already"], "--study", "short", "--trials", 5)

    def test_a_second_tuner_is_refused_and_a_signal_stops_the_first_with_75_and_the_same_command_goes_on(self):
        arguments = [*map(str, self.command("stopped", "--trials", 4, "--start", 4, "--threads", 1, "--confirm", 0))]
        gate = self.gate("rename", "model.nc")
        process = subprocess.Popen([sys.executable, "-B", str(TUNER), "--trainer", str(BIN / "trainer"), *arguments], cwd=self.folder,
                                   stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        while not self.processes("stopped")["trainer"]:
            self.assertIsNone(process.poll())
            time.sleep(0.05)
        process.send_signal(signal.SIGSTOP)
        try:
            self.refuse_tuner(5, ["stopped/journal.jsonl: another tuner is at work on this study, process"], "--study", "stopped")
        finally:
            process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=300)
        gate.open()
        self.assertEqual(process.returncode, 75, said)
        self.assertIn("the same command goes on", said)
        self.assertEqual(self.processes("stopped"), {"tuner": [], "trial": [], "trainer": []})
        self.succeed_tuner(*arguments)
        self.assertEqual(len(self.decisions("stopped")["tell"]), 4)


if __name__ == "__main__":
    unittest.main()
