#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A journal and a study.json in which something is another value, or gone: one good line, or what can be read is shown."""
import contextlib
import io
import json
import shutil
import unittest

from made_study import Made
from tuner_case import SeededTest
from norn.tune import looks
from norn.errors import DataError, Error
from norn.tune.facts import Facts
from norn.tune.journal import read_events
from norn.tune.standing import standing
from norn.tune.study import Study

ODD = (None, True, 0, -1, 10**400, 1e400, float("nan"), "", "a", [], [1], {}, {"a": 1}, 0.5)


def places_of(value, path=()):
    """Paths of all that stands in JSON."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield (*path, key)
        yield from places_of(member, (*path, key))


class ChangedFiles(SeededTest):
    def setUp(self):
        super().setUp()
        Made(self.folder / "made", 8)

    def changed(self, value, keep=()):
        """(what was done, the value with one member another or gone)."""
        value = json.loads(json.dumps(value))
        path = self.random.choice([path for path in places_of(value) if path[0] not in keep])
        where = value
        for key in path[:-1]:
            where = where[key]
        if self.random.random() < 0.2:
            del where[path[-1]]
            return f"{path} gone", value
        where[path[-1]] = self.random.choice(ODD)
        return f"{path} is {where[path[-1]]!r:.40}", value

    def look(self, folder):
        study = Study.open(folder)
        events, _ = read_events(folder / "journal.jsonl")
        with contextlib.redirect_stdout(io.StringIO()):
            looks.status(study, Facts.read_only(folder / "journal.jsonl", events))

    def test_files_that_are_not_there_or_no_programs_bring_nothing_to_what_a_trainer_stands_on(self):
        program, data = self.folder / "trainer", self.folder / "train.nc"
        data.write_text("data")
        for files in ([data], [data, program]):
            found = standing(program, [str(data), str(self.folder / "none.nc")])
            self.assertEqual(set(found["files"]), set(map(str, files)))
            program.write_text("no program")

    def test_a_value_that_is_another_is_a_good_line(self):
        refused = 0
        for number in range(250):
            folder = self.folder / str(number)
            shutil.copytree(self.folder / "made", folder)
            if self.random.random() < 0.4:
                done, identity = self.changed(json.loads((folder / "study.json").read_text()))
                (folder / "study.json").write_text(json.dumps(identity))
            else:
                lines = (folder / "journal.jsonl").read_text().splitlines()
                at = self.random.randrange(len(lines))
                done, event = self.changed(json.loads(lines[at]), keep=("n", "event", "time"))
                lines[at] = json.dumps(event)
                (folder / "journal.jsonl").write_text("\n".join(lines) + "\n")
                done = f"line {at + 1}: {done}"
            with self.subTest(done):
                try:
                    self.look(folder)
                except Error as error:
                    refused += 1
                    self.assertIn(str(folder), str(error))
        self.assertGreater(refused, 50)

    def test_the_line_and_the_value_are_said(self):
        path = self.folder / "made/journal.jsonl"
        lines = path.read_text().splitlines()
        at = next(n for n, line in enumerate(lines) if json.loads(line)["event"] == "value")
        lines[at] = json.dumps({**json.loads(lines[at]), "values": [1]})
        path.write_text("\n".join(lines) + "\n")
        with self.assertRaises(DataError) as caught:
            read_events(path)
        self.assertIn(f'{path}:{at + 1}: "values" of the event "value" is [1]; ', str(caught.exception))

    def test_brackets_without_end_are_no_event(self):
        path = self.folder / "made/journal.jsonl"
        path.write_bytes(path.read_bytes() + b"[" * 100000 + b"\n")
        with self.assertRaises(DataError) as caught:
            read_events(path)
        self.assertIn("is no event", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
