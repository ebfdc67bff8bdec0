#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Labels from features: text in the Extreme Classification Repository's format, the recipe, P@1, P@3 and P@5."""
import collections
import json
import math
import random
import unittest

import netCDF4

from programs import SOURCE, ProgramTest

FEATURES, LABELS = 900, 200
RECIPE = SOURCE / "configs/recipes/extreme_classification.json"


def make_examples(generator, words, count):
    """Every label has words of its own; an example has most of those of its labels, and some of no meaning."""
    weights = [1 / (label + 4) for label in range(LABELS)]
    examples = []
    for _ in range(count):
        labels = sorted(set(generator.choices(range(LABELS), weights, k=generator.choice([1, 2, 3]))))
        values = {f: round(generator.uniform(0.02, 0.3), 4) for f in generator.sample(range(FEATURES), 6)}
        for label in labels:
            for feature in generator.sample(words[label], 4):
                values[feature] = round(generator.uniform(0.3, 1.0), 4)
        examples.append((labels, sorted(values.items())))
    return examples


def text_of(examples):
    """`examples features labels`, then `l1,l2 f:v f:v`, as the repository's files are."""
    lines = [f"{len(examples)} {FEATURES} {LABELS}"]
    for labels, values in examples:
        lines.append(",".join(map(str, labels)) + " " + " ".join(f"{f}:{v}" for f, v in values))
    return "\n".join(lines) + "\n"


class ExtremeClassificationTest(ProgramTest):
    def setUp(self):
        super().setUp()
        words = [self.random.sample(range(FEATURES), 6) for _ in range(LABELS)]
        self.test = make_examples(self.random, words, 400)
        self.write("xc_train.txt", text_of(make_examples(self.random, words, 2000)))
        self.write("xc_test.txt", text_of(self.test))
        for part in ("train", "test"):
            done = self.succeed("importer", "--input", f"xc_{part}.txt", "--name", "xc", "--output", f"xc_{part}.nc")
            self.assertIn(f"width: {FEATURES} inputs, {LABELS} targets", done.stdout)
        self.succeed("trainer", "-q", "-c", RECIPE, "-i", "xc_train.nc", "-n", "xc.nc", "--epochs", "15", "--batch", "128")

    def metrics(self, *more):
        done = self.succeed("evaluator", "--model", "xc.nc", "--data", "xc_test.nc", "--top", "1,3,5",
                            "--popularity", "xc_train.nc", "--format", "json", *more)
        report = json.loads(done.stdout)
        return {name: {m["K"]: m["Precision"] for m in report[name]} for name in ("model", "popularity")}

    def precision(self, k, *options, requests="xc_test.txt"):
        """Precision@k of the predictor's recommendations, computed here."""
        self.succeed("predictor", "-q", "-n", "xc.nc", "-r", requests, "-k", k, "-s", "recs.txt", *options)
        hits = 0
        lines = self.path("recs.txt").read_text().splitlines()
        self.assertEqual(len(lines), len(self.test))
        for (labels, _), line in zip(self.test, lines):
            best = [int(pair.split(",")[0]) for pair in line.split("\t")[1].split(":") if pair]
            hits += len(set(best) & set(labels))
        return hits / (k * len(self.test))

    def test_from_text_to_labels(self):
        metrics = self.metrics()
        self.assertGreater(metrics["model"][1], 0.75)
        self.assertLess(metrics["popularity"][1], 0.2)
        for k in (1, 3, 5):
            self.assertGreater(metrics["model"][k], 3 * metrics["popularity"][k])
            self.assertAlmostEqual(self.precision(k), metrics["model"][k], delta=1e-9)
            # The data set that the importer made has the values that the text has.
            self.assertEqual(self.precision(k, "--request-format", "libsvm", "--values"), self.precision(k))

    def test_rare_labels_count_more_by_their_propensity(self):
        arguments = ("--model", "xc.nc", "--data", "xc_test.nc", "--top", "1,3", "--popularity", "xc_train.nc")
        report = json.loads(self.succeed("evaluator", *arguments, "--propensity", "0.55,1.5", "--format", "json").stdout)
        counts, examples = collections.Counter(), 0
        for line in self.path("xc_train.txt").read_text().splitlines()[1:]:
            counts.update(map(int, line.split(" ")[0].split(",")))
            examples += 1
        factor = (math.log(examples) - 1) * 2.5**0.55
        gain = [1 + factor * math.exp(-0.55 * math.log(counts[label] + 1.5)) for label in range(LABELS)]
        self.succeed("predictor", "-q", "-n", "xc.nc", "-r", "xc_test.txt", "-k", "3", "-s", "recs.txt")
        for metrics in report["model"]:
            got = best = 0.0
            for (labels, _), line in zip(self.test, self.path("recs.txt").read_text().splitlines()):
                ranked = [int(pair.split(",")[0]) for pair in line.split("\t")[1].split(":") if pair][:metrics["K"]]
                got += sum(gain[label] for label in ranked if label in labels)
                best += sum(sorted((gain[label] for label in labels), reverse=True)[:metrics["K"]])
            self.assertAlmostEqual(metrics["PSP"], got / best, places=9)
        self.assertIn("PSP", self.succeed("evaluator", *arguments, "--propensity", "0.5,0.4").stdout.splitlines()[0])
        self.assertNotIn("PSP", self.succeed("evaluator", *arguments).stdout)
        self.fail_with(2, '--propensity: "0.5" is no pair of numbers above 0', "evaluator", *arguments, "--propensity", "0.5")
        self.fail_with(2, "--propensity counts units in the training data: give them with --popularity", "evaluator",
                       *arguments[:4], "--propensity", "0.5,1")

    def test_values_of_requests_count_unless_told_otherwise(self):
        self.precision(5)
        with_values = self.read("recs.txt")
        self.precision(5, "--values", "no")
        without = self.read("recs.txt")
        self.assertNotEqual(with_values, without)
        # The same as text whose values are all one.
        self.write("ones.txt", text_of([(labels, [(f, 1) for f, _ in values]) for labels, values in self.test]))
        self.precision(5, requests="ones.txt")
        self.assertEqual(self.read("recs.txt"), without)

    def test_features_are_no_seen_labels(self):
        # As many features as labels: what an input holds then looks like labels that were seen.
        same = random.Random(5)
        rows = [([r % 50], [(f, 1.5) for f in sorted(same.sample(range(50), 3) + [50 + r % 50])]) for r in range(300)]
        text = f"{len(rows)} 100 100\n" + "".join(
            f"{labels[0]} " + " ".join(f"{f}:{v}" for f, v in values) + "\n" for labels, values in rows)
        self.write("same.txt", text)
        self.succeed("importer", "--input", "same.txt", "--name", "xc", "--output", "same.nc")
        self.succeed("trainer", "-q", "-c", RECIPE, "-i", "same.nc", "-n", "same_model.nc", "--epochs", "8",
                     "--batch", "32")
        kept = self.succeed("evaluator", "--model", "same_model.nc", "--data", "same.nc", "--top", "1", "--keep-seen")
        plain = self.succeed("evaluator", "--model", "same_model.nc", "--data", "same.nc", "--top", "1")
        self.assertEqual(plain.stdout, kept.stdout)
        self.assertNotIn("warning", plain.stderr)
        # Held back while training: whole examples, and all their labels are looked for.
        done = self.succeed("trainer", "-c", RECIPE, "-i", "same.nc", "-n", "split.nc", "--epochs", "1",
                            "--validation-split", "0.5")
        self.assertRegex(done.stderr, "validation after epoch 1: .*hit_rate")
        self.fail_with(2, "same.nc: data set \"xc_output\" is 100 units wide, and no sparse input has these units",
                       "trainer", "-c", RECIPE, "-i", "same.nc", "-n", "entry.nc", "--validation-split", "0.1",
                       "--validation-by", "entry")
        # Files of other makers do not say so; then held-out labels may be hidden, which is warned of.
        with netCDF4.Dataset(self.path("same.nc"), "a") as file:
            file.delncattr("ownUnits1")
            file.delncattr("norn_sealed")
        masked = self.succeed("evaluator", "--model", "same_model.nc", "--data", "same.nc", "--top", "1")
        self.assertRegex(masked.stderr, "held-out units are among the seen ones .* or --keep-seen")

    def test_what_is_wrong_in_the_text(self):
        self.write("wrong.txt", "3 10 5\n1 3:0.5\n2,7 4:0.5\n0 2:1\n")
        done = self.run_program("importer", "--input", "wrong.txt", "--name", "xc", "--output", "wrong.nc")
        self.assertEqual(done.returncode, 3)
        self.assertIn("wrong.txt:3: the label 7 is out of range, the header announces 5 labels, from 0", done.stderr)
        self.write("feature.txt", "1 10 5\n1 10:0.5\n")
        done = self.run_program("importer", "--input", "feature.txt", "--name", "xc", "--output", "wrong.nc")
        self.assertIn("feature.txt:2: the feature 10 is out of range, the header announces 10 features", done.stderr)
        self.write("short.txt", "5 10 5\n1 3:0.5\n2 4:0.5\n")
        done = self.succeed("importer", "--input", "short.txt", "--name", "xc", "--output", "short.nc")
        self.assertIn("short.txt: 2 examples were read, but the header announces 5: the file may be cut off", done.stderr)
        self.write("empty.txt", "2 10 5\n1 3:0.5\n 4:0.5\n")
        done = self.run_program("importer", "--input", "empty.txt", "--name", "xc", "--output", "empty.nc")
        self.assertIn("has no labels; remove it, or choose with --empty-rows drop or keep", done.stderr)
        done = self.succeed("importer", "--input", "empty.txt", "--name", "xc", "--output", "empty.nc", "--empty-rows", "drop")
        self.assertIn("1 examples", done.stdout)


if __name__ == "__main__":
    unittest.main()
