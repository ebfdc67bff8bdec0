#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a pool makes of leases, results and the words of an executor that is not there: hosts that are lost, clocks that differ, attempts
that come late."""
import fcntl
import json
import os
import subprocess
import sys
import time
import unittest

from tuner_case import SeededTest
from norn.tune import trial
from norn.errors import CommunicationError
from norn.tune.executors import GONE, TRIAL, WAITING, Attempt, FreePlaces, Place, pool
from norn.tune.executors.settings import Settings


class Queue:
    """Says of all attempts what `state` is; unreachable while `broken`."""

    def __init__(self):
        self.state, self.broken, self.submitted, self.stopped = WAITING, False, [], []

    def submit(self, attempt):
        self._answer()
        self.submitted.append(attempt.name)
        return attempt.name

    def poll(self, handles):
        self._answer()
        return dict.fromkeys(handles, self.state)

    def stop(self, handle):
        self._answer()
        self.stopped.append(handle)

    def _answer(self):
        if self.broken:
            raise CommunicationError("the queue: no answer")


class PoolTest(SeededTest):
    def setUp(self):
        super().setUp()
        self.queue, self.said = Queue(), []
        self.pool = pool.Pool(self.queue, [Place("0")], self.settings(), self.said.append)

    def settings(self, **values):
        settings = Settings("slurm", 1, None)
        settings.update({"PollSeconds": 0.0, "HeartbeatSeconds": 1.5, **values})
        return settings

    def attempt(self, number=0, name="0000"):
        folder = self.folder / "trials" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / trial.ATTEMPT).write_text(json.dumps({"attempt": number}))
        one = Attempt(folder, number, "0123456789ab", Place("0"))
        self.pool.submit(one)
        return one

    def lease(self, one, host="elsewhere", at=None):
        path = one.folder / trial.LOCK
        path.write_text(json.dumps({"attempt": one.number, "host": host, "pid": 1}))
        if at is not None:
            os.utime(path, (at, at))

    def until(self, ones, seconds):
        """What ends within that time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.pool.ended(ones)
            if found:
                return found
            time.sleep(0.02)
        return {}

    def test_an_attempt_of_another_host_lives_while_its_lease_changes_whatever_the_clocks_say(self):
        one = self.attempt()
        for at in [0.0, 4e9, time.time(), 5.0]:
            self.lease(one, at=at)
            self.assertEqual(self.until([one], 0.6), {})
        self.assertEqual(self.until([one], 60.0), {one: pool.LOST})

    def test_an_attempt_of_this_host_is_lost_with_its_lock(self):
        one = self.attempt()
        self.lease(one, host=pool.socket.gethostname())
        with open(one.folder / trial.LOCK) as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            self.assertEqual(self.until([one], 2.0), {})  # its trainer writes a checkpoint
        self.assertEqual(self.pool.ended([one]), {one: pool.LOST})

    def test_a_result_of_an_earlier_attempt_is_none(self):
        one = self.attempt(number=1)
        (one.folder / trial.RESULT).write_text(json.dumps({"attempt": 0}))
        self.assertEqual(self.until([one], 0.2), {})
        (one.folder / trial.RESULT).write_text(json.dumps({"attempt": 1}))
        self.assertEqual(self.pool.ended([one]), {one: pool.ENDED})

    def test_what_the_queue_has_lost_never_began_and_five_in_a_row_end_it(self):
        self.queue.state = GONE
        (self.folder / "trials/0000").mkdir(parents=True)
        (self.folder / "trials/0000/job.txt").write_text("hello\npython3: not found\n")
        for number in range(pool.UNBEGUN_TRIES - 1):
            one = self.attempt(number)
            self.assertEqual(self.pool.ended([one]), {one: pool.UNBEGUN})
        with self.assertRaisesRegex(CommunicationError,
                                    r"0000/job.txt: python3: not found; 5 attempts in a row never began: check that the folder"):
            self.pool.ended([self.attempt(9)])

    def test_what_was_stopped_before_it_began_is_taken_out_of_the_queue_and_counts_for_nothing(self):
        for number in range(2 * pool.UNBEGUN_TRIES):
            self.queue.state = WAITING
            one = self.attempt(number)
            self.pool.stop(one)
            self.assertEqual(self.queue.stopped[-1], one.name)
            self.assertTrue((one.folder / trial.STOP).exists())
            self.queue.state = GONE
            self.assertEqual(self.pool.ended([one]), {one: pool.UNBEGUN})

    def test_what_waits_too_long_is_submitted_anew_and_the_next_one_may_wait_twice_as_long(self):
        self.pool.settings = self.settings(StartSeconds=0.3)
        waited = []
        for number in range(3):
            one, begun = self.attempt(number), time.monotonic()
            self.assertEqual(self.until([one], 20.0), {one: pool.UNBEGUN})
            waited.append(time.monotonic() - begun)
        self.assertEqual(len(self.queue.stopped), 3)
        for seconds, least in zip(waited, (0.3, 0.6, 1.2)):
            self.assertGreaterEqual(seconds, least)
        self.assertIn("and is submitted anew; does anybody work on the queue?", self.said[0])

    def test_a_queue_that_is_away_for_a_while_is_asked_again(self):
        self.queue.broken = True
        one, other = self.attempt(), self.attempt(name="0001")
        self.assertEqual(self.until([one, other], 0.2), {})
        self.lease(other)  # it runs all the same: it was submitted before, perhaps
        (other.folder / trial.RESULT).write_text(json.dumps({"attempt": 0}))
        self.assertEqual(self.pool.ended([one, other]), {other: pool.ENDED})
        self.assertEqual(len(self.said), 1)
        self.assertIn("the queue: no answer; trying again for 300 s", self.said[0])
        self.queue.broken = False
        self.assertEqual(self.pool.ended([one]), {})
        self.assertIn(one.name, self.queue.submitted)

    def test_a_queue_that_stays_away_ends_it(self):
        self.queue.broken = True
        one = self.attempt()
        self.addCleanup(setattr, pool, "PATIENCE", pool.PATIENCE)
        pool.PATIENCE = 0.2
        with self.assertRaisesRegex(CommunicationError, "the queue: no answer"):
            self.until([one], 20.0)

    def test_an_attempt_that_comes_late_or_twice_does_nothing(self):
        one = self.attempt(number=1)
        before = sorted(path.name for path in one.folder.iterdir())
        for number in (0, 2):  # of what nobody has asked for, too
            subprocess.run([sys.executable, "-B", str(TRIAL), str(one.folder), str(number)], check=True, timeout=60)
        self.assertEqual(sorted({path.name for path in one.folder.iterdir()} - {trial.LOCK}), before)
        self.lease(one)
        with open(one.folder / trial.LOCK) as held:
            fcntl.flock(held, fcntl.LOCK_EX)  # the first one is at work
            subprocess.run([sys.executable, "-B", str(TRIAL), str(one.folder), "1"], check=True, timeout=60)
        self.assertFalse((one.folder / trial.RESULT).exists())


class Ranks(SeededTest):
    def test_a_rank_holds_its_locks_as_long_as_the_program_that_takes_its_place(self):
        locks = [self.folder / f"{number}.lock" for number in range(self.random.randint(1, 3))]
        words = [f"word {number}" for number in range(self.random.randint(0, 3))]
        program = "import sys; print(sys.argv[1:], flush=True); sys.stdin.read()"
        rank = subprocess.Popen([sys.executable, "-B", TRIAL, "--rank", *locks, "--", sys.executable, "-c", program, *words],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        with rank:
            self.assertEqual(rank.stdout.readline(), f"{words}\n")
            self.assertEqual([self.is_free(lock) for lock in locks], [False] * len(locks))
            rank.stdin.close()
            self.assertEqual(rank.wait(), 0)
        self.assertEqual([self.is_free(lock) for lock in locks], [True] * len(locks))

    @staticmethod
    def is_free(lock):
        with open(lock, "rb+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True


class Places(SeededTest):
    def test_places_are_taken_in_their_order_whatever_an_earlier_tuner_had(self):
        places = [Place(f"worker {number}") for number in range(4)]
        free, taken = FreePlaces(places), []
        free.take(Place("worker 9"))  # of a tuner with more workers
        for _ in range(200):
            self.assertEqual(free.first(9), [place for place in places if place not in taken])
            self.assertEqual(len(free), 4 - len(set(taken)))
            if taken and self.random.random() < 0.5:
                free.give_back(taken.pop(self.random.randrange(len(taken))))
            else:  # one place twice, too, as a journal that was put together may say
                taken.append(self.random.choice(places))
                free.take(taken[-1])
        free.give_back(Place("worker 9"))
        self.assertNotIn(Place("worker 9"), free.first(9))


if __name__ == "__main__":
    unittest.main()
