#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every command of docs/user/images_tutorial.md, in its order, and looks at what the text says of them."""
import re
import unittest

from programs import ProgramTest


class ImagesTutorial(ProgramTest):
    def test_every_command(self):
        folder, said = self.run_page("images_tutorial.md", 8)
        self.assertIn("shapes.train.nc: 640 images\nshapes.test.nc: 160 images\n", said)
        self.assertIn("9,408 = 28 x 28 x 12", said)
        costs = [float(cost) for cost in re.findall(r"^epoch \d+/12: cost ([\d.]+)", said, re.M)]
        self.assertEqual(len(costs), 24)
        self.assertGreater(costs[0], 1)
        self.assertLess(costs[11], 0.1)
        precision, moved = (float(found) for found in re.findall(r"^model +1 +[\d.]+ +([\d.]+)", said, re.M))
        self.assertGreater(precision, 0.9)
        self.assertGreaterEqual(moved, precision)
        self.assertIn("true\tcross\tdisc\tring\tsquare\ncross\t", said)
        page = (folder / "run/report.html").read_text()
        self.assertIn(f"{round(160 * (1 - precision))} of 160 images", page)
        self.assertIn("Filters of Edges", page)
        named = [line.split("\t") for line in (folder / "named.txt").read_text().splitlines()]
        self.assertEqual([(image, best.split(",")[0]) for image, best in named],
                         [("unknown/0.png", "cross"), ("unknown/1.png", "ring"), ("unknown/2.png", "disc")])


if __name__ == "__main__":
    unittest.main(verbosity=2)
