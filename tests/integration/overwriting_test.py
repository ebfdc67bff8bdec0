#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a program reads is not written over, by whatever name it is called."""
import os
import unittest

from programs import ProgramTest


class Overwriting(ProgramTest):
    def other_name(self, name):
        """The file itself, by its name or by another one."""
        way = self.random.choice(("same", "dot", "folder", "link", "hard link"))
        other = self.path(f"other{self.random.randrange(10**9)}")
        if way == "link":
            other.symlink_to(self.path(name))
        elif way == "hard link":
            os.link(self.path(name), other)
        else:
            return {"same": name, "dot": f"./{name}", "folder": str(self.path(name).parent / "." / name)}[way]
        return other.name

    def refused(self, name, program, *arguments):
        before = self.read(name)
        self.fail_with(2, f"{name} is both read and written; choose another output", program, *arguments)
        self.assertEqual(self.read(name), before)

    def setUp(self):
        super().setUp()
        self.train("-e", "1")
        self.write("asked.txt", "one\titem_1:item_2\n")
        self.write("filter.txt", "one\titem_1\n")

    def test_by_predictor(self):
        read = {"-n": "model.nc", "-f": "filter.txt", "--data": "test.nc"}
        words = [word for pair in read.items() for word in pair]
        for name in read.values():
            self.refused(name, "predictor", *words, "-k", "3", "-s", self.other_name(name))

    def test_by_evaluator(self):
        for name in ("model.nc", "test.nc"):
            self.refused(name, "evaluator", "-n", "model.nc", "-i", "test.nc", "--per-example", self.other_name(name))

    def test_by_trainer(self):
        words = ("-c", "net.json", "-i", "train.nc", "--validation-input", "test.nc", "-e", "1", "--force")
        for name in ("net.json", "train.nc", "test.nc"):
            self.refused(name, "trainer", *words, "-n", self.other_name(name))
        # A model that training goes on from is replaced by what it became.
        before = self.read("model.nc")
        self.succeed("trainer", "-c", "model.nc", "-i", "train.nc", "-n", "model.nc", "-e", "1", "--force")
        self.assertNotEqual(self.read("model.nc"), before)


if __name__ == "__main__":
    unittest.main()
