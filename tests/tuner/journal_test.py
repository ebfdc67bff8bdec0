#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The journal: cut at any byte, lines twice, lines missing, two writers, a full disk."""
import json
import os
import pathlib
import resource
import socket
import subprocess
import sys
import time
import unittest
import unittest.mock

from tuner_case import ROOT, SeededTest

from norn.errors import DataError, CommunicationError
from norn.tune.journal import Journal, read_events


class JournalTest(SeededTest):
    def filled(self, count):
        journal = Journal(self.folder)
        for number in range(count):
            journal.append(self.random.choice(["value", "tell"]),
                           {"trial": number, "why": "ü" * self.random.randrange(30), "value": self.random.random()})
        journal.close()
        return journal.path, journal.events

    def test_what_was_written_is_read_to_the_bit(self):
        path, events = self.filled(50)
        self.assertEqual(read_events(path), (events, path.stat().st_size))

    def test_a_journal_that_is_not_there_has_no_events(self):
        self.assertEqual(read_events(self.folder / "none.jsonl"), ([], 0))

    def test_cut_at_any_byte_the_whole_lines_before_are_left_and_it_goes_on(self):
        path, events = self.filled(12)
        data = path.read_bytes()
        ends = [0, *(n + 1 for n, byte in enumerate(data) if byte == ord("\n"))]
        for cut in range(len(data) + 1):
            path.write_bytes(data[:cut])
            whole = sum(end <= cut for end in ends) - 1
            journal = Journal(self.folder)
            self.assertEqual(journal.events, events[:whole])
            written = journal.append("tell", {"trial": 99})
            journal.close()
            self.assertEqual(read_events(path)[0], [*events[:whole], written])

    def test_lines_that_stand_there_twice_count_once(self):
        path, events = self.filled(20)
        lines = path.read_bytes().splitlines(keepends=True)
        for _ in range(15):
            at = self.random.randrange(len(lines))
            # At once, or a while after: what a copy that was broken off and begun again leaves.
            lines.insert(self.random.randrange(at + 1, len(lines) + 1), lines[at])
        path.write_bytes(b"".join(lines))
        self.assertEqual(read_events(path)[0], events)

    def test_a_missing_changed_or_strange_line_is_named(self):
        path, _ = self.filled(9)
        lines = path.read_bytes().splitlines(keepends=True)
        at = self.random.randrange(1, 8)
        changed = json.loads(lines[at])
        changed["trial"] = 1000
        for broken, said in [(lines[:at] + lines[at + 1:], f"{path}:{at + 1}: event {at + 2} stands here, but event {at + 1} is missing"),
                             ([*lines, json.dumps(changed).encode() + b"\n"],
                              f"{path}:10: event {at + 1} stands here, was another event before"),
                             (lines[:at] + [b"\0\0\n"] + lines[at:], f"{path}:{at + 1}: is no event: "),
                             (lines[:at] + [b"[1]\n"] + lines[at:], f"{path}:{at + 1}: is no event: expected an object")]:
            path.write_bytes(b"".join(broken))
            with self.assertRaises(DataError) as caught:
                read_events(path)
            self.assertTrue(str(caught.exception).startswith(said), caught.exception)
            self.assertIn("from a copy, or remove this line and all that follow", str(caught.exception))

    def test_numbers_are_whole_and_within_what_every_reader_holds(self):
        for number, good in [(0, True), (2**53 - 1, True), (2**53, False), (-1, False), (1.0, False), (True, False), ("1", False),
                             (None, False)]:
            path, events = self.filled(3)
            with open(path, "ab") as file:
                file.write(json.dumps({**events[-1], "n": len(events) + 1, "trial": number}).encode() + b"\n")
            if good:
                self.assertEqual(read_events(path)[0][-1]["trial"], number)
            else:
                with self.assertRaisesRegex(DataError, '"trial" of the event', msg=number):
                    read_events(path)
            path.unlink()

    def test_it_has_one_writer(self):
        first = Journal(self.folder)
        with self.assertRaises(CommunicationError) as caught:
            Journal(self.folder)
        self.assertIn(f"another tuner is at work on this study, process {os.getpid()} on {socket.gethostname()}", str(caught.exception))
        first.append("tell", {"trial": 1})
        first.close()
        Journal(self.folder).close()

    def test_a_writer_of_another_host_is_seen_by_its_lease(self):
        path, events = self.filled(2)
        lease = self.folder / "lease.json"
        lease.write_text(json.dumps({"host": "elsewhere.example", "pid": 7}))
        with self.assertRaises(CommunicationError) as caught:
            Journal(self.folder)
        self.assertIn("process 7 on elsewhere.example", str(caught.exception))
        for left in (0, time.time() + 3600):  # long ago; before a clock was set back by an hour
            lease.write_text(json.dumps({"host": "elsewhere.example", "pid": 7}))
            os.utime(lease, (left, left))
            journal = Journal(self.folder)
            self.assertEqual(journal.events, events)
            journal.close()

    def test_leases_are_timed_by_the_clock_of_the_file_system(self):
        self.filled(2)
        (self.folder / "lease.json").write_text(json.dumps({"host": "elsewhere.example", "pid": 7}))
        ahead = time.time() + 3600
        with unittest.mock.patch("time.time", lambda: ahead), self.assertRaises(CommunicationError):
            Journal(self.folder)

    def test_on_a_full_disk_nothing_of_an_event_is_left_and_it_goes_on_later(self):
        path, events = self.filled(3)
        room = path.stat().st_size + self.random.randrange(1, 40)
        program = ("import sys; sys.path.insert(0, sys.argv[1]); sys.dont_write_bytecode = True\n"
                   "import pathlib; from norn.errors import DataError; from norn.tune.journal import Journal\n"
                   "journal = Journal(pathlib.Path(sys.argv[2]))\n"
                   "try: journal.append('tell', {'why': 'x' * 100})\n"
                   "except DataError as error: print(error); sys.exit(error.exit_code)\n")
        done = subprocess.run([sys.executable, "-c", program, str(ROOT / "python"), str(self.folder)], capture_output=True, text=True,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)))
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("journal.jsonl: cannot be written: File too large; make room, then run the same command again", done.stdout)
        self.assertEqual(read_events(path), (events, path.stat().st_size))
        self.assertIsInstance(path, pathlib.Path)


if __name__ == "__main__":
    unittest.main()
