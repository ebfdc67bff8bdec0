#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What every executor must do (executors_body.py), by Celery's workers and a real Redis."""
import subprocess
import sys
import unittest

import executors_body
from servers import CeleryServers


class CeleryTest(executors_body.ExecutorTest):
    executor = "celery"
    tells = False
    servers = CeleryServers

    @classmethod
    def start_servers(cls):
        cls.queue = cls.servers(cls.place, cls.gpus, cls.environment)
        cls.addClassCleanup(cls.queue.stop)
        return {"Gpus": 1, "Broker": cls.queue.broker, "StartSeconds": 12}

    def lose(self, name):
        # Workers forget it when it comes to its turn; nobody tells the tuner.
        subprocess.run([sys.executable, "-m", "celery", "-b", self.queue.broker, "control", "revoke", name], check=True, capture_output=True)

    def keep_servers(self):
        self.queue.keep()

    def victims(self, study):
        workers = [process.pid for name, (process, _, _) in self.queue.processes.items() if name.startswith("worker")]
        children = [int(pid) for worker in workers for pid in
                    subprocess.run(["pgrep", "-P", str(worker)], capture_output=True, text=True).stdout.split()]
        return [*super().victims(study), *workers, *children]


if __name__ == "__main__":
    unittest.main()
