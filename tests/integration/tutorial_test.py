#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every command of docs/user/tutorial.md, in its order, and looks at what the text says of them."""
import json
import re
import unittest

from programs import ProgramTest


class Tutorial(ProgramTest):
    def test_every_command(self):
        folder, said = self.run_page("tutorial.md", 10)
        self.check_texts(folder, said)

    def check_texts(self, folder, said):
        self.assertIn("the same bytes", said)
        self.assertIn("best ndcg@20", said)
        [line] = (folder / "recommended.txt").read_text().splitlines()
        name, best = line.split("\t")
        self.assertEqual(name, "my-program")
        units = [unit.rsplit(",", 1)[0] for unit in best.rstrip(":").split(":")]
        self.assertEqual(len(units), 5)
        self.assertFalse(set(units) & {"libc6", "libgcc-s1", "libstdc++6", "libqt5core5a"})
        # model K Recall Precision NDCG ..., of the first evaluation and of that after more epochs.
        recalls = [float(row.split()[2]) for row in said.splitlines() if re.match(r"model +20 ", row)]
        popularity = [float(row.split()[2]) for row in said.splitlines() if re.match(r"popularity +20 ", row)]
        self.assertEqual((len(recalls), len(popularity)), (2, 1))
        self.assertGreater(recalls[0], 1.5 * popularity[0])
        self.assertGreater(recalls[1], recalls[0])
        self.assertTrue("my-program" in (folder / "report.html").read_text(), "no recommendations in the report")
        events = [json.loads(text)["event"] for text in (folder / "runs/first/log.jsonl").read_text().splitlines()]
        self.assertEqual(events.count("start"), 2)
        self.assertEqual(events.count("end"), 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
