#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What becomes of steps that a queue loses, doubles or gives out late, and of attempts that an earlier runner has left."""
import json
import os
import pathlib
import types

from daily_case import DAY, DailyTest
from norn.daily import queued
from norn.daily.days import Day, Lock
from norn.daily.graph import Node
from norn.tune import trial
from norn.errors import UsageError
from norn.tune.executors import GONE, WAITING, Place, pool
from norn.tune.executors.settings import Settings

import unittest

TRAIN, IMPORT, SEARCH = Node("Zürich / west", "train"), Node("north", "import"), Node("north", "tune")


class Queue:
    """Says of all attempts what `state` is."""

    def __init__(self):
        self.state, self.submitted, self.stopped = WAITING, [], []

    def submit(self, attempt):
        self.submitted.append(attempt.name)

    def poll(self, handles):
        return dict.fromkeys(handles, self.state)

    def stop(self, handle):
        self.stopped.append(handle)


class QueuedTest(DailyTest):
    def setUp(self):
        super().setUp()
        self.queue, self.day = Queue(), Day(self.path("days"), DAY)
        self.day.own.mkdir(parents=True)
        self.steps = self.runner()

    def runner(self, **settings):
        """One that begins now."""
        pools = {}
        for on_gpu in (True, False):
            values = Settings("slurm", 1, None)
            values.update({"PollSeconds": 0.0, "HeartbeatSeconds": 1.0, "Gpus": 2 if on_gpu else None, **settings})
            pools[on_gpu] = pool.Pool(self.queue, [Place("slurm")], values, lambda said: None)
        work = types.SimpleNamespace(day=self.day.region("none"))
        return queued.Queued(self.day, pools, 2, [], lambda node: work)

    def place_of(self, node):
        return self.day.own / "steps" / queued.name_of(node)

    def wish(self, node):
        return json.loads((self.place_of(node) / trial.ATTEMPT).read_text())

    def begin(self, node, number, host="elsewhere"):
        (self.place_of(node) / trial.LOCK).write_text(json.dumps({"attempt": number, "host": host, "pid": 1}))

    def end(self, node, number, code):
        self.begin(node, number)
        (self.place_of(node) / trial.RESULT).write_text(json.dumps({"attempt": number, "code": code}))

    def test_only_steps_that_compute_ask_for_gpus_and_names_fit_every_queue(self):
        self.steps.submit(TRAIN, ["train", "it"])
        self.steps.submit(IMPORT, ["import", "it"])
        self.assertEqual([self.wish(node)["gpu_count"] for node in (TRAIN, IMPORT)], [2, 0])
        self.assertEqual(self.wish(TRAIN)["command"], ["train", "it"])
        for name in self.queue.submitted:
            self.assertRegex(name, r"^norn-[0-9a-f]{8}-[a-z0-9]*-[0-9a-f]{6}-[a-z]+-a0$")
            self.assertLessEqual(len(name), 63)  # of a label of Kubernetes
        names = {queued.name_of(Node(name, "recommend")) for name in ("東京 駅", "東京", "a" * 90, "a" * 91, "ä", "a")}
        self.assertEqual((len(names), max(map(len, names)) <= 40), (6, True))
        elsewhere = queued.Queued(Day(self.path("other days"), DAY), self.steps._pools, 2, [], self.steps._work_of)
        elsewhere.submit(IMPORT, ["import", "it"])
        self.assertEqual(len(set(self.queue.submitted)), 3)

    def test_a_search_takes_no_place_in_the_queue(self):
        for node in (TRAIN, IMPORT):
            self.assertTrue(self.steps.has_room(node))
            self.steps.submit(node, ["true"])
        self.assertFalse(self.steps.has_room(Node("south", "import")))
        self.assertTrue(self.steps.has_room(SEARCH))
        self.steps.submit(SEARCH, ["true"])
        self.assertEqual(len(self.queue.submitted), 2)

    def test_what_never_began_or_was_preempted_is_begun_again_and_what_was_killed_counts(self):
        for number, (happens, again) in enumerate([("forgotten", True), ("preempted", True), ("killed", False), ("done", False)]):
            self.steps.submit(TRAIN, ["it"])
            self.assertEqual((self.wish(TRAIN)["attempt"], len(self.queue.submitted)), (number, number + 1))
            if happens == "killed":
                self.begin(TRAIN, number, os.uname().nodename)
            elif happens != "forgotten":
                self.end(TRAIN, number, 75 if happens == "preempted" else 0)
            self.queue.state = GONE
            self.assertEqual(self.steps.ended(), {TRAIN: again}, happens)
            self.queue.state = WAITING

    def test_the_next_runner_waits_for_what_the_one_before_has_left(self):
        self.steps.submit(TRAIN, ["it"])
        self.steps.submit(IMPORT, ["it"])
        self.end(IMPORT, 0, 0)
        later = self.runner()
        later.submit(TRAIN, ["it"])
        self.assertEqual((self.wish(TRAIN)["attempt"], len(self.queue.submitted), later.ended()), (0, 2, {}))
        later.submit(IMPORT, ["it"])  # that one had ended: what it is made of may have changed
        self.assertEqual((self.wish(IMPORT)["attempt"], len(self.queue.submitted)), (1, 3))
        # What it had forgotten with the runner is begun anew, and not waited for again.
        self.queue.state = GONE
        self.assertEqual(later.ended(), {TRAIN: True, IMPORT: True})
        later.submit(TRAIN, ["it"])
        self.assertEqual(self.wish(TRAIN)["attempt"], 1)

    def test_an_attempt_of_other_words_or_another_queue_ends(self):
        self.steps.submit(TRAIN, ["it", "--threads", "1"])
        self.runner().submit(TRAIN, ["it", "--threads", "2"])
        self.assertEqual(self.wish(TRAIN)["attempt"], 1)
        self.assertFalse(trial.Attempt(self.place_of(TRAIN), 0).newest())
        (self.place_of(TRAIN) / trial.STOP).touch()  # a runner that was stopped had asked for it
        self.runner().submit(TRAIN, ["it", "--threads", "2"])
        self.assertEqual((self.wish(TRAIN)["attempt"], (self.place_of(TRAIN) / trial.STOP).exists()), (2, False))

    def test_a_step_that_somebody_is_at_work_on_is_not_taken_for_made(self):
        region = self.day.region("none")
        made = region.begin("import", {})
        (made / "it").write_text("")
        region.finish("import", {}, ["it"], {})
        work = types.SimpleNamespace(day=region, programs=types.SimpleNamespace(stop=types.SimpleNamespace(check=lambda: None)))
        module = types.SimpleNamespace(inputs=lambda _: {})
        from norn.daily import step
        self.addCleanup(setattr, step, "_module", step._module)
        step._module = lambda _: module
        with Lock(region.folder / "import.lock", lambda: None):
            self.assertFalse(step.is_made("import", work))
        self.assertFalse(region.outcome("import").exists())
        self.assertTrue(step.is_made("import", work))
        self.assertTrue(region.outcome("import").exists())
        module.inputs = lambda _: {"changed": True}
        self.assertFalse(step.is_made("import", work))

    def test_gpus_of_this_machine_are_none_of_a_queue(self):
        wish = types.SimpleNamespace(gpus="0", executor="slurm", executor_file=None)
        with self.assertRaisesRegex(UsageError, "--gpus: are those of this machine"):
            queued.pools_of(wish)


if __name__ == "__main__":
    unittest.main()
