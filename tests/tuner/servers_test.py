#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A queue that is installed and does not start skips its tests where somebody works, and fails them in CI."""
import os
import tempfile
import unittest
from unittest import mock

import servers
from slurm_cluster import Unavailable


class ServersTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="norn-test-")
        self.addCleanup(folder.cleanup)
        self.queue = servers.Servers(folder.name)
        self.addCleanup(self.queue.stop)

    def starts(self, *words, ci):
        self.queue.start("queue", words)
        with mock.patch.object(servers, "START_SECONDS", 0.3), mock.patch.dict(os.environ, {"CI": ci}):
            self.queue.wait("the queue", lambda: False)

    def test_what_does_not_become_ready_fails_in_ci_and_else_is_a_reason_to_skip(self):
        for ci, kind in (("true", AssertionError), ("", Unavailable), ("false", Unavailable)):
            with self.assertRaisesRegex(kind, "the queue is not ready: "):
                self.starts("sleep", "100", ci=ci)
            self.queue.stop()

    def test_what_ends_is_told_with_its_words(self):
        with self.assertRaisesRegex(AssertionError, "queue ended; "):
            self.starts("sh", "-c", "echo no port; exit 3", ci="true")
        self.assertIn("no port", self.queue.last_words())

    def test_what_is_not_installed_is_skipped_in_ci_too(self):
        with mock.patch.dict(os.environ, {"CI": "true"}), self.assertRaisesRegex(Unavailable, "no-such-queue not installed"):
            self.queue.require("no-such-queue")


if __name__ == "__main__":
    unittest.main()
