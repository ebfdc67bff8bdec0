#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Intervals beside the evaluator's means, and two models compared: what is printed, in any company and on any number of ranks. The numbers
themselves are compared with NumPy in tests/python/intervals_test.py."""
import json
import unittest

import numpy as np

from programs import ProgramTest, mpirun


class Certainty(ProgramTest):
    def setUp(self):
        super().setUp()
        values = ("--validation-input", "test.nc", "--metrics-at", "3", "--validation-values", "--force")
        self.train("-e", "8", "--run-dir", "other", *values)
        self.path("model.nc").rename(self.path("other.nc"))
        self.train("-e", "1", "--run-dir", "model", *values)

    def evaluate(self, *options, **more):
        return self.succeed("evaluator", "-n", "model.nc", "-i", "test.nc", "--top", "3,10", *options, **more).stdout

    def test_prints_intervals_beside_the_means(self):
        plain = json.loads(self.evaluate("--format", "json"))
        self.assertNotIn("resampling", plain)
        told = json.loads(self.evaluate("--interval", "--format", "json", "--popularity", "train.nc"))
        self.assertEqual(told["resampling"], {"level": 0.95, "resamples": 2000, "seed": 1})
        self.assertEqual([{name: value for name, value in at.items() if name != "intervals"} for at in told["model"]], plain["model"])
        for at in (*told["model"], *told["popularity"]):
            self.assertEqual(set(at) - set(at["intervals"]), {"K", "intervals", "Coverage"})
            for metric, (low, high) in at["intervals"].items():
                self.assertLessEqual(low, at[metric])
                self.assertGreaterEqual(high, at[metric])
        rows = self.evaluate("--interval=0.8", "--seed", "7", "--resamples", "500").splitlines()
        self.assertEqual(rows[-1], "from, to: 80 % intervals, 500 resamples of the examples, seed 7")
        self.assertEqual([row.split()[0] for row in rows[1:7]], ["model", "from", "to"] * 2)
        self.assertEqual(rows[2].split()[7], "-", "coverage is no mean")
        self.assertEqual(len({len(row) for row in rows[:7]}), 1, "columns stand below each other")
        narrow, wide = (np.array([list(at["intervals"].values()) for at in json.loads(
            self.evaluate("--interval", level, "--format", "json"))["model"]]) for level in ("0.5", "0.99"))
        self.assertTrue((wide[..., 0] <= narrow[..., 0]).all() and (narrow[..., 1] <= wide[..., 1]).all())

    def test_compares_with_another_model(self):
        told = json.loads(self.evaluate("--compare", "other.nc", "--format", "json", "--per-example", "each.tsv"))
        alone = json.loads(self.succeed("evaluator", "-n", "other.nc", "-i", "test.nc", "--top", "3,10", "--format", "json").stdout)
        self.assertEqual(told["other"], alone["model"])
        rows = [line.split("\t") for line in self.path("each.tsv").read_text().splitlines()]
        asked = [[row[1:3] for row in rows if row[0] == name] for name in ("model", "other")]
        self.assertEqual(asked[0], asked[1])
        for at, model, other in zip(told["differences"], told["model"], told["other"]):
            self.assertEqual(set(at), set(model) - {"Coverage"})
            for metric in set(at) - {"K"}:
                one = at[metric]
                self.assertEqual((one["model"], one["other"], one["difference"]),
                                 (model[metric], other[metric], other[metric] - model[metric]))
                self.assertLessEqual(one["low"], one["high"])
                better = "no difference" if one["p"] > 1 - 0.95 else "other" if one["difference"] > 0 else "model"
                self.assertEqual(one["better"], better)
        text = self.evaluate("--compare", "other.nc").splitlines()
        first = next(row.split() for row in text if row.startswith("Recall@3"))
        one = told["differences"][0]["Recall"]
        self.assertEqual(first[1:4], [f"{one['model']:.4f}", f"{one['other']:.4f}", f"{one['difference']:+.4f}"])
        self.assertEqual(text[-1], "other - model: 2,000 resamples of the examples, seed 1")

    def test_compares_two_runs_as_their_models(self):
        options = ("--interval=0.9", "--seed", str(self.random.randrange(2**63)), "--resamples", str(self.random.randint(1, 3000)))
        told = json.loads(self.evaluate("--compare", "other.nc", "--format", "json", *options))
        runs = ("evaluator", "--compare-runs", "model", "--compare-runs", "other", *options)
        found = json.loads(self.succeed(*runs, "--format", "json").stdout)
        expected = {"K": 3, "NDCG": told["differences"][0]["NDCG"]}
        self.assertEqual(found, {"examples": told["examples"], "resampling": told["resampling"], "differences": [expected]})
        lines = self.succeed(*runs).stdout.splitlines()
        rows = self.evaluate("--compare", "other.nc", *options).splitlines()
        self.assertEqual(lines[1:3], [next(row for row in rows if row.startswith("NDCG@3")), rows[-1]])
        self.assertEqual((lines[0].split()[0], lines[3]), ("model", f"{told['examples']} examples"))

    def test_runs_that_cannot_be_compared(self):
        def fails(code, message, *folders, more=()):
            self.fail_with(code, message, "evaluator", *(word for one in folders for word in ("--compare-runs", one)), *more)

        fails(2, "--compare-runs is given once; name two folders, each behind it", "model")
        fails(2, "--compare-runs is given 3 times; name two folders, each behind it", "model", "model", "other")
        fails(2, "--compare-runs evaluates no model: give it without --model, --data and --compare", "model", "other",
              more=("-n", "model.nc"))
        fails(3, "none/validation_values.tsv: is not there, or cannot be read; train the run with --validation-values", "model", "none")
        values = self.path("model/validation_values.tsv").read_text()
        file = self.path("other/validation_values.tsv")
        file.write_text(values.replace("ndcg@3", "map@4"))
        fails(2, "--compare-runs: model watched ndcg@3 and other watched map@4; compare runs that watched the same", "model", "other")
        lines = values.splitlines(keepends=True)
        del lines[self.random.randrange(1, len(lines))]
        file.write_text("".join(lines))
        fails(2, "--compare-runs: model and other held back other examples; give both the same --validation-seed, or the same "
              "--validation-input", "model", "other")
        spoilt = [("", 1), ("example\tloss\n", 1), ("example\tcoverage@3\n", 1), ("a\tndcg@3\n", 1), ("example\tndcg@3", 1)]
        spoilt += [("example\tndcg@3\n" + line, 2) for line in ("0\t1", "0 1\n", "x\t1\n", "0\tnan\n", "0\t\n", "-1\t0\n")]
        spoilt += [("example\tndcg@3\n0\t1\n0\t1\n", 3)]
        for text, line in self.random.sample(spoilt, 4):
            file.write_text(text)
            fails(3, f"other/validation_values.tsv:{line}: is no line of an example and its value; train the run again with "
                  "--validation-values", "model", "other")
        for name in ("model", "other"):  # nothing to draw from
            self.path(f"{name}/validation_values.tsv").write_text("example\tndcg@3\n")
        [one] = json.loads(self.succeed("evaluator", "--compare-runs", "model", "--compare-runs", "other", "--format",
                                        "json").stdout)["differences"]
        self.assertEqual([one["NDCG"][name] for name in ("low", "high", "better")], [None, None, "no difference"])

    def test_a_model_does_not_differ_from_itself(self):
        told = json.loads(self.evaluate("--compare", "model.nc", "--format", "json", "--resamples", "99"))
        for at in told["differences"]:
            for metric in set(at) - {"K"}:
                self.assertEqual([at[metric][name] for name in ("difference", "low", "high", "p", "better")], [0, 0, 0, 1, "no difference"])

    def test_more_may_be_asked_for_at_once(self):
        told = json.loads(self.evaluate("--compare", "other.nc", "--interval", "--popularity", "train.nc", "--propensity", "0.55,1.5",
                                        "--format", "json", "--per-example", "each.tsv"))
        self.assertEqual([name for name in told if isinstance(told[name], list)], ["model", "popularity", "other", "differences"])
        self.assertIn("PSP", told["other"][0])
        self.assertNotIn("PSP", told["differences"][0])
        self.assertNotIn("PSP", told["model"][0]["intervals"])
        names = [line.split("\t")[0] for line in self.path("each.tsv").read_text().splitlines()[1:]]
        self.assertEqual(list(dict.fromkeys(names)), ["model", "popularity", "other"])
        self.assertEqual(len({names.count(name) for name in names}), 1)

    def test_has_the_same_bytes_on_any_number_of_threads_and_ranks(self):
        options = ("--compare", "other.nc", "--interval", "--resamples", "200", "--seed", str(self.random.randrange(2**63)))
        for form in ("json", "table"):
            expected = self.evaluate(*options, "--format", form, "--threads", "1")
            self.assertEqual(self.evaluate(*options, "--format", form, "--threads", "2", "--batch", "37"), expected)
            for ranks in (1, 2, 3) if mpirun(1) is not None else ():
                self.assertEqual(self.evaluate(*options, "--format", form, "--threads", "1", prefix=mpirun(ranks)), expected)

    def test_bad_options(self):
        def fails(code, message, *words):
            self.fail_with(code, message, "evaluator", "-n", "model.nc", "-i", "test.nc", *words)

        fails(2, "--interval 95 is out of range: it must be above 0 and below 1", "--interval", "95")
        fails(2, "--interval 0 is out of range: it must be above 0 and below 1", "--interval=0")
        fails(2, "--resamples 0 is out of range: it must be from 1 to 100000", "--interval", "--resamples", "0")
        fails(2, "--resamples 100001 is out of range: it must be from 1 to 100000", "--resamples", "100001")
        fails(3, "none.nc: ", "--compare", "none.nc")
        fails(2, "other.nc", "--compare", "other.nc", "--per-example", "other.nc")


if __name__ == "__main__":
    unittest.main()
