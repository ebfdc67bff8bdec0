#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A model, a data set and index files that DSSTNE itself wrote: read as they are, with the results that DSSTNE had."""
import gzip
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import netCDF4

from norn_files import read_recommendations
from programs import BIN, LIMIT_SECONDS, SOURCE

FILES = SOURCE / "tests" / "data" / "dsstne_model"
LINES = 1000
TOLERANCE = 0.0015  # DSSTNE prints three digits, and summed in another order


class WhatDsstneWrote(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="norn-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        for name in ("deb.nc", "deb_input.nc", "features", "recs.txt"):
            (cls.folder / name).write_bytes(lzma.decompress((FILES / f"{name}.xz").read_bytes()))
        os.rename(cls.folder / "recs.txt", cls.folder / "expected.txt")
        with gzip.open(SOURCE / "tests" / "data" / "debian_packages" / "train.txt.gz", "rt") as text:
            lines = [line.rstrip("\n") for line, _ in zip(text, range(LINES))]
        (cls.folder / "some.txt").write_text("".join(line + "\n" for line in lines))
        with open(cls.folder / "filter.txt", "w") as filters:
            for line in lines:
                example, features = line.split("\t")
                filters.write(example + "\t" + ":".join(f"{feature},0" for feature in features.split(":")) + "\n")
        # generateNetCDF gives the targets the same contents under another name.
        shutil.copy(cls.folder / "deb_input.nc", cls.folder / "deb_output.nc")
        with netCDF4.Dataset(cls.folder / "deb_output.nc", "a") as file:
            file.name0 = "deb_output"

    def succeed(self, program, *arguments):
        done = subprocess.run([str(BIN / program), *map(str, arguments)], cwd=self.folder, capture_output=True, text=True,
                              timeout=LIMIT_SECONDS)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def recommend(self, model, output):
        self.succeed("predictor", "-b", 256, "-d", "deb", "-i", "features", "-o", "features", "-k", 10, "-n", model,
                     "-f", "filter.txt", "-s", output, "-r", "some.txt")
        return read_recommendations(self.folder / output)

    def test_the_same_recommendations(self):
        expected = read_recommendations(self.folder / "expected.txt")
        found = self.recommend("deb.nc", "recs.txt")
        self.assertEqual(list(found), list(expected))
        self.assertEqual(len(expected), LINES)
        swapped = 0
        for example, pairs in expected.items():
            with self.subTest(example=example):
                theirs, ours = dict(pairs), dict(found[example])
                self.assertEqual(len(ours), 10)
                for one, other in zip(pairs, found[example]):
                    self.assertAlmostEqual(one[1], other[1], delta=TOLERANCE)
                last = min(theirs.values())
                for feature in theirs.keys() & ours.keys():
                    self.assertAlmostEqual(theirs[feature], ours[feature], delta=TOLERANCE)
                for feature in theirs.keys() ^ ours.keys():  # only what stands at the tenth place with another
                    self.assertAlmostEqual(theirs.get(feature, ours.get(feature)), last, delta=TOLERANCE)
                swapped += theirs.keys() != ours.keys()
        self.assertLess(swapped, LINES // 50)

    def test_text_that_is_imported_with_its_index(self):
        """Norn's data sets have the index' width, DSSTNE's layers that of a multiple of 128: the same units all the same."""
        text = SOURCE / "tests" / "data" / "debian_packages" / "train.txt.gz"
        self.succeed("importer", "--input", text, "--target", text, "--name", "deb", "--features", "features", "--output", "own.nc")
        evaluate = ("evaluator", "--model", "deb.nc", "--keep-seen", "--top", "10")
        own = self.succeed(*evaluate, "--data", "own.nc").stdout
        theirs = self.succeed(*evaluate, "--data", "deb_input.nc", "--data", "deb_output.nc").stdout
        line = re.compile(r"^model( +[0-9.]+){7}", re.MULTILINE)  # not the coverage, which counts the padding
        self.assertEqual(line.search(own)[0], line.search(theirs)[0])

    def test_the_evaluator_reads_model_and_data(self):
        table = self.succeed("evaluator", "--model", "deb.nc", "--data", "deb_input.nc", "--data", "deb_output.nc", "--keep-seen",
                             "--top", "10").stdout
        self.assertIn("17,642 examples", table)
        # What a network of 32 hidden units finds again of its own input; one that is misread finds next to nothing.
        recall = float(re.search(r"^model +10 +([0-9.]+)", table, re.MULTILINE).group(1))
        self.assertGreater(recall, 0.2)

    def first_cost(self, config, model):
        done = self.succeed("trainer", "-c", config, "-i", "deb_input.nc", "-o", "deb_output.nc", "-n", model, "-e", 1,
                            "-b", 1024, "-alpha", 0.01)
        return float(re.search(r"average error ([0-9.]+)", done.stdout).group(1))

    def test_training_goes_on_from_its_weights(self):
        shutil.copy(FILES / "ae.json", self.folder)
        self.assertLess(self.first_cost("deb.nc", "more.nc"), 0.9 * self.first_cost("ae.json", "new.nc"))
        self.assertEqual(len(self.recommend("more.nc", "more.txt")), LINES)


if __name__ == "__main__":
    unittest.main()
