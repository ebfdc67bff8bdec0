#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tuner says while it runs: a line in place on a terminal, whole lines elsewhere."""
import fcntl
import io
import math
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import types
import unittest

from tuner_program import BIN, TUNER, TunerTest
from norn.tune import progress
from norn.tune.facts import Training


class ProgressTest(TunerTest):
    def at_a_terminal(self, columns, *arguments):
        """What a terminal of that width gets, and the exit code."""
        own, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        with subprocess.Popen([sys.executable, "-B", str(TUNER), "--trainer", str(BIN / "trainer"), *map(str, arguments)], cwd=self.folder,
                              stdout=subprocess.DEVNULL, stderr=theirs) as process:
            os.close(theirs)
            said = b""
            while True:
                try:
                    piece = os.read(own, 65536)
                except OSError:  # the terminal has gone
                    break
                if not piece:
                    break
                said += piece
            os.close(own)
            return said.decode(), process.wait(timeout=300)

    def test_changes_a_line_of_a_terminal_and_leaves_none_behind(self):
        columns = self.random.randint(30, 70)
        said, code = self.at_a_terminal(columns,
                                        *self.command("study", "--trials", 6, "--threads", 1, "--workers", 2, "--confirm", 1, "--seeds", 2))
        self.assertEqual(code, 0, said)
        screen, lasting = [], []
        for piece in re.split(r"(\r\n|\r\x1b\[K)", said):  # what stands on the last line, as a terminal shows it
            if piece == "\r\n":
                lasting.append("".join(screen))
                screen = []
            elif piece == "\r\x1b[K":
                screen = []
            else:
                screen.append(piece)
                if not piece.startswith("tuner: "):
                    self.assertLess(len(piece), columns)
        self.assertEqual("".join(screen), "")
        self.assertTrue(all(line.startswith("tuner: ") for line in lasting), lasting)
        self.assertEqual(sum(" after " in line for line in lasting), 6)
        shown = re.findall(r"\x1b\[K(\d+) of 6 trials, (\d) running", said)
        self.assertTrue(shown, said)
        self.assertEqual([int(told) for told, _ in shown], sorted(int(told) for told, _ in shown))

    def test_says_nothing_in_place_elsewhere_and_nothing_at_all_when_quiet(self):
        done = self.succeed_tuner(*self.command("plain", "--trials", 3, "--threads", 1, "--confirm", 0))
        self.assertNotIn("\r", done.stderr)
        self.assertNotIn("\x1b", done.stderr)
        self.assertEqual(self.succeed_tuner(*self.command("quiet", "--trials", 3, "--threads", 1, "--confirm", 0, "--quiet")).stderr, "")
        said, code = self.at_a_terminal(80, *self.command("silent", "--trials", 3, "--threads", 1, "--confirm", 0, "-q"))
        self.assertEqual((said, code), ("", 0))


class Expected(unittest.TestCase):
    def coordinator(self, took, limit=math.inf, epochs=math.inf, planned=math.inf, places=1, deadline=None, done=False, confirm=0.0):
        facts = types.SimpleNamespace(decided={"tell": [{"trial": n} for n in range(len(took))]},
                                      seconds={Training(n): t for n, t in enumerate(took)})
        search = types.SimpleNamespace(limit=limit, epoch_limit=epochs, second_limit=planned, spent_epochs=10 * len(took),
                                       spent_seconds=5.0 * len(took), done=done)
        return types.SimpleNamespace(facts=facts, search=search, deadline=deadline, pool=types.SimpleNamespace(places=[None] * places),
                                     finish=types.SimpleNamespace(seconds_left=lambda _: confirm))

    def test_the_end_follows_from_what_trials_took(self):
        left = progress.seconds_left
        self.assertIsNone(left(self.coordinator([])))
        self.assertIsNone(left(self.coordinator([4.0])))
        self.assertAlmostEqual(left(self.coordinator([4.0, 6.0], limit=10)), 40.0)
        self.assertAlmostEqual(left(self.coordinator([4.0, 6.0], limit=10, places=4)), 10.0)
        paused = self.coordinator([4.0, 6.0], limit=10)
        paused.facts.seconds[Training(2)] = 3.0  # of a trial that waits at a rung
        self.assertAlmostEqual(left(paused), 37.0)
        self.assertAlmostEqual(left(self.coordinator([4.0, 6.0], limit=10, epochs=40)), 10.0)  # the first that is used up
        self.assertAlmostEqual(left(self.coordinator([4.0, 6.0], planned=30.0)), 20.0)
        self.assertAlmostEqual(left(self.coordinator([4.0, 6.0], limit=10, confirm=8.0, places=2)), 24.0)
        self.assertAlmostEqual(left(self.coordinator([4.0, 6.0], limit=2, done=True, confirm=8.0)), 8.0)
        self.assertAlmostEqual(left(self.coordinator([4.0, 6.0], deadline=progress.time.monotonic() + 60.0)), 65.0, delta=1.0)

    def test_whole_lines_come_now_and_then(self):
        out = io.StringIO()
        line = progress.Line(out)
        self.assertFalse(line.due())
        line._drawn -= progress.LINE_SECONDS
        self.assertTrue(line.due())
        line.show("3 of 9 trials")
        line.show("3 of 9 trials")  # nothing new
        self.assertEqual(out.getvalue(), "tuner: 3 of 9 trials\n")
        self.assertFalse(line.due())


if __name__ == "__main__":
    unittest.main()
