#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tuner with the real trainer on small data: the same study on any number of workers and through any kill."""
import os
import signal
import subprocess
import sys
import time
import unittest

from tuner_program import BIN, TUNER, TunerTest


class StudyTest(TunerTest):
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
            self.assertEqual(process.returncode, -signal.SIGKILL, said)

    def test_one_two_and_four_workers_make_the_same_study(self):
        for workers in (1, 2, 4):
            self.succeed_tuner(*self.command(f"w{workers}", "--trials", 9, "--start", 5, "--workers", workers, "--threads", 1, "--confirm", 2, "--seeds", 2))
        first = self.decisions("w1")
        self.assertEqual([len(first["propose"]), len(first["tell"])], [9, 9])
        self.assertTrue(any(event["decision"] == "halved" for event in first["rung"]))
        for workers in (2, 4):
            self.assertEqual(self.decisions(f"w{workers}"), first)
            self.assertEqual(self.read(f"w{workers}/best.nc"), self.read("w1/best.nc"))
        ends = [[e for e in self.events(f"w{workers}") if e["event"] == "end"][-1] for workers in (1, 4)]
        self.assertEqual(ends[0]["confirmed"], ends[1]["confirmed"])
        self.assertEqual([len(row["values"]) for row in ends[0]["confirmed"]], [2, 2])

    def test_kills_change_nothing(self):
        arguments = self.command("killed", "--trials", 8, "--start", 5, "--workers", 2, "--threads", 1, "--confirm", 0)
        self.succeed_tuner(*self.command("calm", "--trials", 8, "--start", 5, "--workers", 2, "--threads", 1, "--confirm", 0))
        struck = self.until_done("killed", list(map(str, arguments)), 12)
        print(f"{struck} kills", file=sys.stderr)
        self.assertEqual(self.decisions("killed"), self.decisions("calm"))
        self.assertEqual(self.read("killed/best.nc"), self.read("calm/best.nc"))
        told = [event["trial"] for event in self.events("killed") if event["event"] == "tell"]
        self.assertEqual(sorted(told), sorted(set(told)))
        self.assertEqual(self.processes("killed"), {"tuner": [], "trial": [], "trainer": []})
        self.assertEqual([p for p in self.path("killed").rglob(".*") if p.is_file()], [])

    def test_a_journal_that_was_cut_anywhere_is_made_to_the_same_end(self):
        self.succeed_tuner(*self.command("cut", "--trials", 5, "--start", 3, "--threads", 1, "--confirm", 1, "--seeds", 1))
        decisions, model, journal = self.decisions("cut"), self.read("cut/best.nc"), self.read("cut/journal.jsonl")
        first = journal.index(b"\n") + 1  # what was to be done
        for _ in range(3):
            self.path("cut/journal.jsonl").write_bytes(journal[:self.random.randrange(first, len(journal))])
            self.succeed_tuner("--study", "cut", "--threads", 1, "--workers", 2)
            self.assertEqual(self.decisions("cut"), decisions)
            self.assertEqual(self.read("cut/best.nc"), model)

    def test_more_trials_later_keep_what_was_decided_whenever_they_are_asked_for(self):
        self.succeed_tuner(*self.command("short", "--trials", 6, "--start", 4, "--threads", 1, "--confirm", 0))
        short = self.decisions("short")
        self.succeed_tuner("--study", "short", "--trials", 9, "--workers", 2, "--threads", 1)
        # Asked for before the first six are done.
        arguments = list(map(str, self.command("early", "--trials", 6, "--start", 4, "--threads", 1, "--confirm", 0)))
        with subprocess.Popen([sys.executable, "-B", str(TUNER), "--trainer", str(BIN / "trainer"), *arguments], cwd=self.folder,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            while not self.processes("early")["trainer"]:
                self.assertIsNone(process.poll())
                time.sleep(0.05)
            process.kill()
        self.succeed_tuner("--study", "early", "--trials", 9, "--threads", 1)
        grown = self.decisions("short")
        self.assertEqual(self.decisions("early"), grown)
        self.assertEqual({kind: grown[kind][:len(short[kind])] for kind in short}, short)
        self.assertEqual(len(grown["propose"]), 9)
        self.refuse_tuner(2, ["--trials 8: the study has 9 already"], "--study", "short", "--trials", 8)

    def test_a_signal_stops_it_with_75_and_the_same_command_goes_on(self):
        arguments = [*map(str, self.command("stopped", "--trials", 5, "--start", 5, "--threads", 1, "--confirm", 0))]
        gate = self.gate("rename", "model.nc")
        process = subprocess.Popen([sys.executable, "-B", str(TUNER), "--trainer", str(BIN / "trainer"), *arguments], cwd=self.folder,
                                   stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        while not self.processes("stopped")["trainer"]:
            self.assertIsNone(process.poll())
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=300)
        gate.open()
        self.assertEqual(process.returncode, 75, said)
        self.assertIn("the same command goes on", said)
        self.assertEqual(self.processes("stopped"), {"tuner": [], "trial": [], "trainer": []})
        self.succeed_tuner(*arguments)
        self.assertEqual(len(self.decisions("stopped")["tell"]), 5)

    def test_two_tuners_are_not_at_work_on_one_study(self):
        arguments = [*map(str, self.command("twice", "--trials", 4, "--threads", 1, "--confirm", 0))]
        with subprocess.Popen([sys.executable, "-B", str(TUNER), "--trainer", str(BIN / "trainer"), *arguments], cwd=self.folder,
                              stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
            while not self.processes("twice")["trainer"]:
                self.assertIsNone(process.poll())
                time.sleep(0.05)
            process.send_signal(signal.SIGSTOP)
            try:
                self.refuse_tuner(5, ["twice/journal.jsonl: another tuner is at work on this study, process"], "--study", "twice")
            finally:
                process.send_signal(signal.SIGCONT)
            self.assertEqual(process.wait(timeout=300), 0)


if __name__ == "__main__":
    unittest.main()
