#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A study that an older version has begun is not searched on, but it can be looked at, and what it found is known to a new one: regions go
on after an upgrade."""
import argparse
import contextlib
import io
import json
import unittest

from made_study import Made
from tuner_case import SeededTest
from norn.tune import looks
from norn.errors import DataError
from norn.tune.study import ALGORITHM, Study
from norn.tune.transfer import read_sources


class OlderStudyTest(SeededTest):
    def setUp(self):
        super().setUp()
        self.new = Made(self.folder / "new", 4).study
        Made(self.folder / "old", 12)
        self.path = self.folder / "old/study.json"

    def change(self, **members):
        self.path.write_text(json.dumps({**json.loads(self.path.read_text()), **members}))

    def test_its_results_are_known_to_a_new_one(self):
        [same] = read_sources([str(self.folder / "old")], self.new)
        self.change(algorithm=ALGORITHM - 1)
        [found] = read_sources([str(self.folder / "old")], self.new)
        self.assertEqual(found, same)
        self.assertGreater(len(found["rows"]), 5)

    def test_it_can_be_looked_at(self):
        """Status, best descriptor, page and table as those of a study of today, with what it has found."""
        def look():
            looked = self.folder / f"look-{len(list(self.folder.iterdir()))}"
            wish = argparse.Namespace(study=str(self.folder / "old"), status=True, best=str(looked), export="csv", report=[], page=None)
            with contextlib.redirect_stdout(io.StringIO()) as said:
                self.assertEqual(looks.look(wish), 0)
            return said.getvalue(), looked.read_text(), *((self.folder / "old" / name).read_text()
                                                          for name in ("export/trials.csv", "report.html"))
        now = look()
        self.change(algorithm=ALGORITHM - 1)
        self.assertEqual(look(), now)
        self.assertIn("best so far: trial ", now[0])

    def test_it_does_not_go_on(self):
        self.change(algorithm=ALGORITHM - 1)
        with self.assertRaisesRegex(DataError, "begin another one, which --from lets know what this one found"):
            Study.open(self.folder / "old")

    def test_another_format_is_not_read(self):
        self.change(format=0)
        with self.assertRaisesRegex(DataError, "is no study of this version"):
            read_sources([str(self.folder / "old")], self.new)


if __name__ == "__main__":
    unittest.main()
