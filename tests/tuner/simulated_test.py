#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole studies on simulated workers, with the real coordinator and journal: any order of finishing, any loss of work and any kill of the
tuner make the same one."""
import os
import random
import unittest
from unittest import mock

from simulated_study import Curves, Workers, begin, run
from tuner_case import SeededTest
from tuning.journal import Journal


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


if __name__ == "__main__":
    unittest.main()
