#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What every executor must do (executors_body.py), by Celery's workers and a real Redis."""
import json
import subprocess
import sys
import time
import unittest

import executors_body
from executors_body import KILLED, PREEMPTED
from servers import CeleryServers


class CeleryTest(executors_body.ExecutorTest):
    executor = "celery"
    there = r"redis://127.0.0.1:\d+/0, queue norn, workers that answer: 2"
    tells = False
    servers = CeleryServers

    @classmethod
    def start_servers(cls):
        cls.queue = cls.servers(cls.place, cls.gpus, cls.environment)
        cls.addClassCleanup(cls.queue.stop)
        return {"Gpus": 1, "Broker": cls.queue.broker, "StartSeconds": 12}

    def lose(self, name):
        # Workers forget it when it comes to its turn; nobody tells the tuner.
        subprocess.run([sys.executable, "-m", "celery", "-b", self.queue.broker, "control", "revoke", name], check=True,
                       capture_output=True)

    def keep_servers(self):
        self.queue.keep()

    def victims(self, study):
        workers = [process.pid for name, (process, _, _) in self.queue.processes.items() if name.startswith("worker")]
        children = [int(pid) for worker in workers for pid in
                    subprocess.run(["pgrep", "-P", str(worker)], capture_output=True, text=True).stdout.split()]
        return [*super().victims(study), *workers, *children]

    def test_a_queue_that_doubles_what_it_has_and_then_forgets_all(self):
        for number in (PREEMPTED, KILLED):
            self.act("six", number, "hang")
        process = self.six("six", *self.where())
        for number in (PREEMPTED, KILLED):
            self.wait_until(f"trial {number}", lambda: f"hangs {number:04d}" in self.said(), process)
        for number in (PREEMPTED, KILLED, PREEMPTED):
            subprocess.run([sys.executable, "-m", "celery", "-b", self.queue.broker, "call", "norn.trial", "--queue", "norn", "--args",
                            json.dumps([str(self.path(f"six/trials/{number:04d}")), 0])], check=True, capture_output=True)
        broker = self.queue.processes["redis"][0]
        broker.kill()
        broker.wait()
        time.sleep(2)  # it is not there for a while
        for name, (worker, _, _) in self.queue.processes.items():
            if name != "redis":  # with kombu before 5.4 some reconnect and take up no work
                worker.kill()
                worker.wait()
        self.queue.keep()
        for number in (PREEMPTED, KILLED):
            self.preempt("six", number)
        self.end(process)
        begun = [line.split()[1] for line in self.said() if line.startswith("begin")]
        twice = {f"{number:04d}" for number in (PREEMPTED, KILLED)}
        self.assertEqual({one: begun.count(one) for one in begun}, {f"{n:04d}": 2 if f"{n:04d}" in twice else 1 for n in range(6)})
        self.assertEqual(len(self.has("six", "tell")), 6)
        self.check_gpus()


if __name__ == "__main__":
    unittest.main()
