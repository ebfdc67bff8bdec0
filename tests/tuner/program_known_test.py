#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trainings that were made before are taken with the real trainer: the same decisions and bytes, and none of another library."""
import shutil
import unittest

from tuner_program import BIN, TunerTest


class ProgramKnown(TunerTest):
    takes = ()

    def make(self, study, *arguments):
        self.succeed_tuner(*self.command(study, "--trials", 5, "--start", 3, "--clock", 3, "--threads", 1, "--workers", 2, "--confirm", 1,
                                         "--seeds", 1,
                                         "--quiet", *arguments))

    def count(self, study):
        """(trainings, trainings that were taken)"""
        return [sum(chosen(event) for event in self.events(study)) for chosen in (lambda e: e["event"] == "submit", lambda e: "taken" in e)]

    def test_a_search_is_made_again_without_training_and_with_another_library_it_is_not(self):
        self.make("first")
        trainings, taken = self.count("first")
        self.assertEqual(taken, 0)
        self.make("again", "--threads", 2)
        again = self.count("again")
        self.assertEqual(again[0], 2)  # the winner's model, and the plain recipe
        self.assertIn(again[1], range(6, trainings + 1))  # what was begun before its verdict was known may not have been needed
        self.assertEqual(self.decisions("again"), self.decisions("first"))
        self.assertEqual(self.read("again/best.nc"), self.read("first/best.nc"))
        for folder in ("bin", "lib", "libexec"):
            self.path(f"built/{folder}").mkdir(parents=True)
        shutil.copy(BIN / "trainer", self.path("built/bin"))
        shutil.copytree(BIN.parent / "libexec", self.path("built/libexec"), dirs_exist_ok=True)
        library = shutil.copy(next((BIN.parent / "lib").glob("libnorn.so.*.*.*")).resolve(), self.path("built/lib"))
        name = next((BIN.parent / "lib").glob("libnorn.so.?.?")).name
        self.path(f"built/lib/{name}").symlink_to(library)
        self.make("copied", "--trainer", self.path("built/bin/trainer"))
        self.assertEqual(self.count("copied"), again)
        with open(library, "ab") as file:
            file.write(b"\0")
        self.make("other", "--trainer", self.path("built/bin/trainer"))
        self.assertEqual(self.count("other")[1], 0)
        self.assertEqual(self.read("other/best.nc"), self.read("first/best.nc"))


if __name__ == "__main__":
    unittest.main()
