#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which class is taken for which: the evaluator's table beside the predictor's lists, in any company and on any number of ranks."""
import json
import sys
import unittest

import netCDF4
import numpy as np

from norn_files import read_recommendations, write_datasets
from programs import SOURCE, ProgramTest, mpirun

sys.path.insert(0, str(SOURCE / "tests/attack"))
from datasets import write_sets  # noqa: E402


class Confusion(ProgramTest):
    def setUp(self):
        super().setUp()
        draw = np.random.default_rng(self.seed)
        self.classes = self.random.randint(3, 9)
        examples = self.random.randint(40, 90)
        self.true = draw.integers(0, self.classes, examples)
        values = draw.normal(size=(examples, 7)).astype(np.float32)
        values[:, 0] += self.true
        write_sets(self.path("data.nc"), [{"name": "values", "width": 7, "dense": values},
                                          {"name": "classes", "width": self.classes, "classes": self.true}])
        self.write("classes.json", json.dumps({"Name": "classes", "Layers": [
            {"Name": "In", "Kind": "Input", "N": "auto", "DataSet": "values"},
            {"Name": "Out", "Kind": "Output", "N": "auto", "DataSet": "classes", "Activation": "SoftMax"}]}))
        self.succeed("trainer", "-c", "classes.json", "-i", "data.nc", "-n", "classes.nc", "-e", "3", "-b", "16", "--optimizer", "Adam",
                     "--rate", "0.1", "--threads", "1")

    def table(self, *options, data="data.nc", **more):
        self.succeed("evaluator", "-n", "classes.nc", "-i", data, "--top", "2", "--confusion", "table.tsv", *options, **more)
        head, *lines = [line.split("\t") for line in self.path("table.tsv").read_text().splitlines()]
        self.assertEqual(head[0], "true")
        self.assertEqual([line[0] for line in lines], head[1:])
        return head[1:], np.array([[int(count) for count in line[1:]] for line in lines])

    def expected(self):
        self.succeed("predictor", "-n", "classes.nc", "--data", "data.nc", "-k", "1", "-s", "best.txt")
        best = [int(units[0][0]) for units in read_recommendations(self.path("best.txt")).values()]
        counts = np.zeros((self.classes, self.classes), dtype=int)
        np.add.at(counts, (self.true, best), 1)
        return counts

    def test_counts_what_is_ranked_first(self):
        labels, counts = self.table()
        self.assertEqual(labels, [str(i) for i in range(self.classes)])
        np.testing.assert_array_equal(counts, self.expected())
        done = self.succeed("evaluator", "-n", "classes.nc", "-i", "data.nc", "--top", "1", "--format", "json")
        self.assertAlmostEqual(json.loads(done.stdout)["model"][0]["Precision"], np.trace(counts) / len(self.true), delta=1e-12)

    def test_has_the_same_bytes_in_any_batch_and_on_any_number_of_ranks(self):
        self.table()
        expected = self.read("table.tsv")
        self.table("--batch", self.random.randint(1, 17))
        self.assertEqual(self.read("table.tsv"), expected)
        if mpirun(1) is None:
            return
        for ranks in (2, 3):
            self.table("--threads", "1", prefix=mpirun(ranks))
            self.assertEqual(self.read("table.tsv"), expected)

    def write_rows(self, rows):
        with netCDF4.Dataset(self.path("data.nc")) as file:
            values = np.array(file["data0"][:]).reshape(len(self.true), 7)
        write_sets(self.path("rows.nc"), [{"name": "values", "width": 7, "dense": values},
                                          {"name": "classes", "width": self.classes, "rows": rows}])

    def test_leaves_out_examples_without_a_class(self):
        kept = [self.random.random() < 0.8 for _ in self.true]
        kept[0], kept[1] = True, False
        self.write_rows([[int(c)] if keep else [] for c, keep in zip(self.true, kept)])
        _, counts = self.table(data="rows.nc")
        np.testing.assert_array_equal(counts.sum(axis=1), np.bincount(self.true[kept], minlength=self.classes))

    def test_refuses_examples_of_several_classes(self):
        at = self.random.randrange(len(self.true))
        self.write_rows([[0, 1, 2] if e == at else [int(c)] for e, c in enumerate(self.true)])
        self.fail_with(3, f"rows.nc: data set \"classes\": example {at} has 3 units, and --confusion is of one class an example; leave it "
                          "out", "evaluator", "-n", "classes.nc", "-i", "rows.nc", "--confusion", "table.tsv")
        self.assertFalse(self.path("table.tsv").exists())

    def test_refuses_layers_of_very_many_units(self):
        write_datasets(self.path("wide.nc"), [("gl_input", 30, [[1]] * 9, None), ("gl_output", 5001, [[5000]] * 9, None)])
        self.succeed("trainer", "-c", "net.json", "-i", "wide.nc", "-n", "wide_model.nc", "-e", "1")
        self.fail_with(2, "--confusion: layer \"Output\" has 5001 units, and a table has at most 5000; leave it out, or name a layer of "
                          "classes with --layer", "evaluator", "-n", "wide_model.nc", "-i", "wide.nc", "--confusion", "table.tsv")

    def test_has_the_labels_of_the_units(self):
        kinds = ["cat", "dog", "a bird"]
        self.write("kinds.csv", "example,kind\n" + "".join(f"e{i},{kinds[i % 3]}\n" for i in range(30)))
        self.write("marks.csv", "example,mark\n" + "".join(f"e{i},m{i % 3}\n" for i in range(30)))
        self.succeed("importer", "--input", "marks.csv", "--target", "kinds.csv", "--name", "gl", "--output", "kinds.nc")
        self.succeed("trainer", "-c", "net.json", "-i", "kinds.nc", "-n", "classes.nc", "-e", "1", "--force")
        labels, counts = self.table(data="kinds.nc")
        self.assertEqual(sorted(set(labels) & set(kinds)), sorted(kinds))
        self.assertEqual([counts[labels.index(kind)].sum() for kind in kinds], [10, 10, 10])

    def test_is_whole_or_not_there(self):
        self.fail_with(3, "missing/table.tsv: ", "evaluator", "-n", "classes.nc", "-i", "data.nc", "--confusion", "missing/table.tsv")
        self.assertEqual(self.run_program("evaluator", "-n", "classes.nc", "-i", "data.nc", "--confusion", "data.nc").returncode, 2)
        self.fail_with(2, "--per-example and --confusion are both t.tsv; give each a file of its own", "evaluator", "-n", "classes.nc",
                       "-i", "data.nc", "--confusion", "t.tsv", "--per-example", "./t.tsv")


if __name__ == "__main__":
    unittest.main()
