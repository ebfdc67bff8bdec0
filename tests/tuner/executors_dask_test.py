#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What every executor must do (executors_body.py), by a real scheduler and workers of Dask."""
import subprocess
import sys
import unittest

import executors_body
from servers import DaskServers

CANCEL = """
import sys, distributed
client = distributed.Client(sys.argv[1], timeout=30, set_as_default=False)
client.cancel([distributed.Future(sys.argv[2], client)], force=True)
client.close()
"""


class DaskTest(executors_body.ExecutorTest):
    executor = "dask"
    there = r"tcp://127.0.0.1:\d+, workers: 2"
    kills_by_wish = True

    @classmethod
    def start_servers(cls):
        cls.queue = DaskServers(cls.place, cls.gpus, cls.environment)
        cls.addClassCleanup(cls.queue.stop)
        return {"Gpus": 1, "Scheduler": cls.queue.address}

    def lose(self, name):
        subprocess.run([sys.executable, "-c", CANCEL, self.queue.address, name], check=True, capture_output=True, timeout=120)

    def keep_servers(self):
        self.queue.keep()


if __name__ == "__main__":
    unittest.main()
