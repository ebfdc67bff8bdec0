#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Days from Python are those of the program: norn.daily.Day with the real programs, killed and stopped, too."""
import contextlib
import io
import os
import signal
import subprocess
import sys
import time
import unittest
from unittest import mock

from daily_case import BIN, DAY, LIMIT_SECONDS, ROOT, DailyTest

import norn

# What a user's program is; it prints what it came to.
PROGRAM = """
import sys, time
sys.path.insert(0, {python!r})
import norn
for last in [False] * 600 + [True]:
    try:
        open(sys.argv[3], "w").close()
        outcomes = norn.daily.Day(sys.argv[1], sys.argv[2]).run(slots=2)
        print(*(one.state for one in outcomes.values()))
        break
    except norn.CommunicationError:  # the runner of a process that was killed is about to end
        if last:
            raise
        time.sleep(0.1)
    except KeyboardInterrupt:
        print("stopped")
        break
"""


class DayTest(DailyTest):
    def setUp(self):
        super().setUp()
        where = mock.patch.dict(os.environ, NORN_BIN=str(BIN))
        where.start()
        self.addCleanup(where.stop)
        for name in ("north", "south"):
            self.draw_region(name)

    def expected(self):
        """What the program publishes of the same."""
        self.regions({"north": {}, "south": {}}, file="program.json", Days="program-days", Serving="program")
        self.ends_with(0, "--slots", 2, file="program.json")
        return self.published("program")

    def start(self):
        self.path("running").unlink(missing_ok=True)
        return subprocess.Popen([sys.executable, "-B", "-c", PROGRAM.format(python=str(ROOT / "python")), str(self.path("regions.json")),
                                 DAY, str(self.path("running"))],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def wait_for(self, what, process):
        end = time.monotonic() + LIMIT_SECONDS
        while not what() and process.poll() is None:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def made(self):
        # Folders come and go meanwhile, which Path.rglob takes for an error.
        return sum("stamp.json" in files for _, _, files in os.walk(self.path("days")))

    def test_a_day_has_the_outcomes_and_the_bytes_of_the_program(self):
        self.regions({"north": {}, "east": {}, "south": {}})
        day, said = norn.daily.Day(self.path("regions.json"), DAY), io.StringIO()
        self.assertEqual({one.state for one in day.outcomes.values()}, {"open"})
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), self.assertLogs("norn", "INFO") as log:
            outcomes = day.run(slots=2)
        self.assertEqual(said.getvalue(), "")
        self.assertIn("east: import: ", "\n".join(log.output))
        self.assertEqual([outcomes[name].state for name in ("north", "east", "south")], ["published", "failed", "published"])
        self.assertEqual((outcomes["east"].step, outcomes["east"].made, outcomes["east"].in_service), ("import", [], None))
        self.assertIn("there is no text of region \"east\"", outcomes["east"].why)
        self.assertEqual(outcomes["north"].in_service, self.current("north"))
        self.assertEqual({name: one for name, one in self.published().items() if "east" not in name}, self.expected())
        self.draw_region("east")
        self.assertEqual({name: one.state for name, one in day.run(only=["east"]).items()}, {"east": "published"})
        self.assertIn("3 published", day.status())
        with self.assertRaisesRegex(norn.UsageError, "there is no model before"):
            norn.daily.Regions(self.path("regions.json")).roll_back("north")

    def test_killed_or_stopped_and_gone_on_with_it_publishes_the_same_bytes(self):
        self.regions({"north": {}, "south": {}})
        for ends in self.random.sample([signal.SIGKILL, signal.SIGINT], 2):
            process, moment = self.start(), self.made() + self.random.randrange(1, 3)
            # What the runner of a killed process makes says nothing of this one.
            self.wait_for(lambda: self.path("running").exists() and self.made() >= moment, process)
            process.send_signal(ends)
            said, wrong = process.communicate(timeout=LIMIT_SECONDS)
            self.assertEqual(wrong, "")
            if (said, process.returncode) != ("published published\n", 0):  # it had come to its end
                self.assertIn((ends, said, process.returncode), [(signal.SIGKILL, "", -signal.SIGKILL), (signal.SIGINT, "stopped\n", 0)])
        said, wrong = self.start().communicate(timeout=LIMIT_SECONDS)
        self.assertEqual((said, wrong), ("published published\n", ""))
        self.assertEqual(self.published(), self.expected())

    def test_what_is_wrong_is_raised(self):
        self.regions({"north": {}}, Regoins={})
        with self.assertRaisesRegex(norn.UsageError, "Did you mean \"Regions\""):
            norn.daily.Day(self.path("regions.json"))
        self.regions({"north": {}})
        with self.assertRaisesRegex(norn.UsageError, "is no day"):
            norn.daily.Day(self.path("regions.json"), "2026-13-01")
        day = norn.daily.Day(self.path("regions.json"), DAY)
        with self.assertRaisesRegex(norn.UsageError, "has no region \"nort\". Did you mean \"north\""):
            day.run(only=["nort"])
        with self.assertRaisesRegex(norn.UsageError, "`slots`"):
            day.run(slots=0)


if __name__ == "__main__":
    unittest.main()
