#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole studies on simulated workers, with the real coordinator and journal: any order of finishing, any loss of work and any kill of the
tuner make the same one."""
import os
import random
import sys
import time
import unittest
from unittest import mock

from simulated_study import Curves, Workers, begin, run
from tuner_case import SeededTest
from norn.tune.journal import Journal


class Killed(BaseException):
    """As kill -9 would: nothing after it is done."""


class Killer:
    """Ends the tuner at random events, before they are written or just after."""

    def __init__(self, chance, left, often):
        self.chance, self.left, self.often = chance, left, often
        self._append = Journal.append

    def append(self, journal, event, members):
        strikes = self.left > 0 and self.chance.random() < self.often
        self.left -= strikes
        if strikes and self.chance.random() < 0.5:
            raise Killed
        written = self._append(journal, event, members)
        if strikes:
            raise Killed
        return written


class Simulated(SeededTest):
    def study(self, name, workers, trials, kills=0, often=0.05, **rules):
        """(decisions by kind, workers, events) of a study that is killed so many times and goes on."""
        study, killer = begin(self.folder / name, **rules), Killer(self.random, kills, often)
        pool = Workers(Curves(self.seed), workers, random.Random(self.random.random()), loss=0.05 if workers > 1 else 0.0)
        with mock.patch.object(Journal, "append", lambda journal, *event: killer.append(journal, *event)):
            while True:
                try:
                    decided, facts = run(study, pool, trials)
                except Killed:
                    # Some workers outlive the tuner, some do not.
                    pool.lose(self.random)
                    continue
                self.assertEqual(killer.left, 0, "the study was over before all kills")
                return decided, pool, facts.journal.events

    def test_two_hundred_kills_leave_the_study_as_it_is_and_tell_each_trial_once(self):
        calm, _, _ = self.study("calm", 1, 250)
        killed, _, events = self.study("killed", 7, 250, kills=200, often=0.1)
        for kind, undisturbed in calm.items():
            for one, other in zip(killed[kind], undisturbed):
                self.assertEqual(one, other, kind)
        self.assertEqual(killed, calm)
        told = [event["trial"] for event in events if event["event"] == "tell"]
        self.assertEqual(sorted(told), list(range(250)))
        self.assertTrue({"done", "halved", "infeasible"} <= {event["state"] for event in calm["tell"]}, calm["tell"])

    def test_a_model_proposes_the_same_on_any_number_of_workers_and_through_kills(self):
        calm, _, _ = self.study("calm", 1, 26, sampler="gp", clock=5, start=8)
        for workers, kills in ((3, 0), (40, 9)):
            found, _, _ = self.study(f"on {workers}", workers, 26, kills=kills, often=0.15, sampler="gp", clock=5, start=8)
            self.assertEqual(found, calm)

    def test_attempts_begin_and_models_go_when_what_they_follow_from_is_on_the_disk(self):
        synced, really, path = [0], os.fdatasync, self.folder / "synced/journal.jsonl"

        def sync(file):
            really(file)
            synced[0] = os.fstat(file).st_size

        class Watching(Workers):
            def submit(self, attempt):
                assert synced[0] == path.stat().st_size, "an attempt began before the journal was on the disk"
                super().submit(attempt)

        with mock.patch.object(os, "fdatasync", sync):
            _, facts = run(begin(self.folder / "synced"), Watching(Curves(self.seed), 4, self.random), 30)
        self.assertEqual(len(facts.decided["tell"]), 30)
        self.assertLessEqual(len(list((self.folder / "synced/trials").glob("*/model.nc"))), 1)

    def test_attempts_whose_description_a_power_cut_left_in_pieces_begin_anew(self):
        study = begin(self.folder / "cut")
        decided, _ = run(study, Workers(Curves(self.seed), 3, self.random), 12)
        journal = (self.folder / "cut/journal.jsonl").read_bytes()
        submits = [at for at in range(len(journal)) if journal.startswith(b'"event": "submit"', at)]
        (self.folder / "cut/journal.jsonl").write_bytes(journal[:journal.rindex(b"\n", 0, submits[-1]) + 1])
        for attempt in (self.folder / "cut/trials").glob("*/attempt.json"):
            attempt.write_bytes(b"")
        again, _ = run(study, Workers(Curves(self.seed), 3, self.random), 12)
        self.assertEqual(again, decided)

    def test_what_the_tuner_does_for_a_trial_does_not_grow_with_workers_and_trials(self):
        def calls(workers, trials):
            counted = [0]

            def count(_frame, event, _argument):
                counted[0] += event == "call"
            study, pool = begin(self.folder / f"of {workers}", clock=workers), Workers(Curves(self.seed), workers, self.random)
            sys.setprofile(count)
            try:
                run(study, pool, trials)
            finally:
                sys.setprofile(None)
            return counted[0] / trials
        few, many = calls(8, 80), calls(240, 720)
        print(f"calls of functions for a trial: {few:.0f} with 8 workers, {many:.0f} with 240", file=sys.stderr)
        # With more slots more trials go on before their verdicts, and are stopped.
        self.assertLess(many, 1.2 * few, "calls of functions for each trial")

    def test_what_begins_together_waits_for_the_disk_once(self):
        really, synced = os.fdatasync, []

        class Watching(Workers):
            looks = 0

            def ended(self, attempts):
                self.looks += 1
                return super().ended(attempts)

        pool = Watching(Curves(self.seed), 20, self.random, together=10)
        with mock.patch.object(os, "fdatasync", lambda file: synced.append(really(file))):
            run(begin(self.folder / "together", clock=20), pool, 100)
        self.assertGreater(pool.begun, 120)
        self.assertLessEqual(len(synced), pool.looks + 5)

    def test_models_that_a_killed_tuner_left_are_removed_while_the_study_goes_on(self):
        study = begin(self.folder / "left")
        decided, facts = run(study, Workers(Curves(self.seed), 3, self.random), 60)
        for _ in range(2):  # it goes on in the middle, then from its end
            for folder in (self.folder / "left/trials").iterdir():
                (folder / "model.nc").write_text("left")
            again, facts = run(study, Workers(Curves(self.seed), 3, self.random), 60)
            self.assertEqual(again, decided)
            begun = {event["trial"] for event in facts.journal.events if event["event"] == "submit"}
            kept = {int(path.parent.name) for path in (self.folder / "left/trials").glob("*/model.nc")}
            self.assertEqual(kept & begun, {facts.ended["best"]})
            lines = (self.folder / "left/journal.jsonl").read_bytes().splitlines(keepends=True)
            (self.folder / "left/journal.jsonl").write_bytes(b"".join(lines[:len(lines) // 2]))

    def test_looking_at_what_runs_takes_a_fifth_of_a_core_at_most(self):
        class Slow(Workers):
            looked = rested = 0.0

            def ended(self, attempts):
                begun = time.thread_time()
                while time.thread_time() - begun < 0.02:
                    pass
                self.looked += 0.02
                return super().ended(attempts)

            def wait(self, seconds):
                super().wait(seconds)
                self.rested += seconds

        pool = Slow(Curves(self.seed), 4, self.random)
        run(begin(self.folder / "slow"), pool, 10)
        self.assertGreater(pool.rested, 3.5 * (pool.looked - 0.02))


if __name__ == "__main__":
    unittest.main()
