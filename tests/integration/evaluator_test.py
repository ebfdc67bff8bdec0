# SPDX-License-Identifier: Apache-2.0
"""The evaluator against the NumPy reference, on random data with ties, empty rows and K beyond the catalogue."""
import json
import sys
import unittest

import numpy as np

from norn_files import read_recommendations, write_datasets, write_index
from programs import NETWORK, SOURCE, ProgramTest, mpirun

sys.path.insert(0, str(SOURCE / "tests" / "golden"))
import reference_metrics  # noqa: E402

KS = (1, 3, 10, 500)
METRICS = json.loads((SOURCE / "python/norn/report/metrics.json").read_text(encoding="utf-8"))


class Evaluating(ProgramTest):
    def setUp(self):
        super().setUp()
        self.prepare("SoftMax")

    def prepare(self, activation):
        self.write("net.json", NETWORK % activation)
        self.train("-e", "8", "--force")

    def scores(self):
        """Every unit's score, float32 exactly, from the predictor."""
        self.succeed("predictor", "-n", "model.nc", "--data", "test.nc", "-s", "all.txt", "-k", self.width, "-p", ".9g")
        scores = np.full((len(self.rows), self.width), -np.inf, dtype=np.float32)
        for example, pairs in read_recommendations(self.path("all.txt")).items():
            for unit, score in pairs:
                scores[int(example), int(unit)] = score
        self.assertTrue(np.isfinite(scores).all())
        return scores

    def evaluate(self, *arguments, **more):
        done = self.succeed("evaluator", "--model", "model.nc", "--data", "test.nc", "--top",
                            ",".join(map(str, KS)), "--format", "json", *arguments, **more)
        return json.loads(done.stdout), done

    def expect(self, got, scores, seen, name="model"):
        self.assertEqual([at["K"] for at in got[name]], list(KS))
        for at in got[name]:
            expected = reference_metrics.evaluate(scores, seen, self.held_out, at["K"])
            self.assertEqual(set(at), {"K", *expected}, "a metric without a reference is not compared")
            for metric, value in expected.items():
                self.assertAlmostEqual(at[metric], value, delta=1e-12, msg=f"{metric}@{at['K']}")

    def test_equals_the_reference(self):
        got, _ = self.evaluate("--batch", "23")
        self.expect(got, self.scores(), self.known)
        self.assertEqual(got["examples"], sum(1 for row in self.held_out if row))
        self.assertEqual(got["skipped"], sum(1 for row in self.held_out if not row))
        self.assertEqual(got["units"], self.width)

    def test_equals_the_reference_with_many_ties(self):
        self.write("net.json", (NETWORK % "Relu").replace("CrossEntropy", "L2"))
        self.train("-e", "2", "--force")
        scores = self.scores()
        self.assertGreater(np.mean(scores == 0), 0.2)
        self.expect(self.evaluate()[0], scores, self.known)

    def test_seen_units_can_stay(self):
        self.expect(self.evaluate("--keep-seen")[0], self.scores(), [[] for _ in self.rows])

    def test_units_of_other_sets_are_left_out_too(self):
        more = [sorted(self.random.sample(range(self.width), 5)) for _ in self.rows]
        write_datasets(self.path("more.nc"), [("whatever", self.width, more, None)])
        seen = [sorted(set(a) | set(b)) for a, b in zip(self.known, more)]
        self.expect(self.evaluate("--exclude", "more.nc")[0], self.scores(), seen)

    def test_units_beyond_the_index_are_no_candidates(self):
        write_index(self.path("short.txt"), self.names[:25])
        self.held_out = [[u for u in row if u < 25] for row in self.held_out]
        write_datasets(self.path("test.nc"), [("gl_input", self.width, self.known, None),
                                              ("gl_output", self.width, self.held_out, None)])
        got, _ = self.evaluate("--features", "short.txt")
        self.expect(got, self.scores()[:, :25], self.known)

    def test_units_of_a_list_are_ranked_among_themselves(self):
        most = max(range(self.width), key=lambda unit: sum(unit in row for row in self.held_out))
        units = sorted({most, *self.random.sample(range(self.width), self.random.randint(1, self.width - 1))})
        self.write("few.txt", "".join(self.names[unit] + self.random.choice(["\n", "\r\n"]) for unit in units))
        self.write("more.txt", self.read("few.txt").decode() + "stranger\n")
        write_index(self.path("features.txt"), self.names)
        at = {unit: column for column, unit in enumerate(units)}
        whole, known = self.held_out, [[at[unit] for unit in row if unit in at] for row in self.known]
        self.held_out = [[at[unit] for unit in row if unit in at] for row in whole]
        count = np.bincount(np.concatenate(self.known).astype(int), minlength=self.width)
        for words in (("--allow", "few.txt"), ("--allow", "more.txt")):
            got, done = self.evaluate("--features", "features.txt", *words, "--popularity", "train.nc")
            self.expect(got, self.scores()[:, units], known)
            self.expect(got, np.tile(count[units], (len(self.rows), 1)), known, name="popularity")
            self.assertEqual((got["units"], got["examples"]), (len(units), sum(1 for row in self.held_out if row)))
            self.assertEqual(f"more.txt: 1 of {len(units) + 1} lines are unknown features: left out" in done.stderr,
                             words[1] == "more.txt")
        if mpirun(2):
            ranks, _ = self.evaluate("--features", "features.txt", "--allow", "few.txt", "--popularity", "train.nc", prefix=mpirun(2))
            self.assertEqual(ranks, got)

    def test_popularity_stands_beside_the_model(self):
        count = np.zeros(self.width)
        for row in self.known:
            count[row] += 1
        got, _ = self.evaluate("--popularity", "train.nc")
        self.expect(got, np.tile(count, (len(self.rows), 1)), self.known, name="popularity")

    def test_the_metrics_of_each_example_are_those_of_the_reference(self):
        got, _ = self.evaluate("--popularity", "train.nc", "--per-example", "each.tsv", "--batch", "29")
        head, *lines = [line.split("\t") for line in self.path("each.tsv").read_text().splitlines()]
        self.assertEqual(head, ["ranking", "example", "K", "recall", "precision", "ndcg", "map", "mrr", "hit_rate", "capped_recall"])
        rows = {(ranking, int(example), int(k)): dict(zip(head[3:], map(float, values))) for ranking, example, k, *values in lines}
        asked = [e for e, row in enumerate(self.held_out) if row]
        self.assertEqual(list(rows), [(ranking, e, k) for ranking in ("model", "popularity") for e in asked for k in KS])
        scores, title = self.scores(), {metric["name"]: metric["title"] for metric in METRICS}
        for e in asked:
            for k in KS:
                ranked = reference_metrics.ranking(scores[e], self.known[e], k)
                expected = reference_metrics.metrics_of_user(ranked, self.held_out[e], k)
                for name, value in rows["model", e, k].items():
                    self.assertAlmostEqual(value, expected[title[name]], delta=1e-12)
        for ranking in ("model", "popularity"):
            for at in got[ranking]:
                for name in head[3:]:
                    mean = np.mean([rows[ranking, e, at["K"]][name] for e in asked])
                    self.assertAlmostEqual(mean, at[title[name]], delta=1e-12)

    def test_metrics_that_are_asked_for_are_those_of_the_reference(self):
        trained_on = np.zeros((len(self.rows), self.width))
        for e, row in enumerate(self.known):
            trained_on[e, row] = 1
        got, _ = self.evaluate("--also", "auc", "--also", "novelty", "--also", "diversity", "--popularity", "train.nc", "--propensity",
                               "0.55,1.5", "--per-example", "each.tsv", "--batch", "31")
        head = self.path("each.tsv").read_text().splitlines()[0].split("\t")
        self.assertEqual(head[-3:], ["auc", "novelty", "diversity"])
        asked = [e for e, row in enumerate(self.held_out) if row]
        of = {"model": self.scores(), "popularity": np.tile(trained_on.sum(axis=0), (len(self.rows), 1))}
        for name, scores in of.items():
            for at in got[name]:
                k = at["K"]
                lists = [reference_metrics.ranking(scores[e], self.known[e], k) for e in asked]
                areas = [reference_metrics.area_of_user(ranked, self.held_out[e], set(range(self.width)) - set(self.known[e]))
                         for e, ranked in zip(asked, lists)]
                self.assertAlmostEqual(at["AUC"], np.mean(areas), delta=1e-12)
                novelties = [reference_metrics.novelty_of_user(ranked, trained_on) for ranked in lists]
                self.assertAlmostEqual(at["Novelty"], np.mean(novelties), delta=1e-12)
                diversities = [reference_metrics.diversity_of_user(ranked, trained_on) for ranked in lists]
                self.assertAlmostEqual(at["Diversity"], np.mean(diversities), delta=1e-9)
                psp = reference_metrics.psp(lists, [self.held_out[e] for e in asked], trained_on, k, 0.55, 1.5)
                self.assertAlmostEqual(at["PSP"], psp, delta=1e-9)
        plain, _ = self.evaluate()
        self.assertEqual(set(got["model"][0]) - set(plain["model"][0]), {"AUC", "Novelty", "Diversity", "PSP"})
        if mpirun(2):
            alone, _ = self.evaluate("--also", "auc", "--also", "diversity", "--popularity", "train.nc")
            self.assertEqual(self.evaluate("--also", "auc", "--also", "diversity", "--popularity", "train.nc", prefix=mpirun(2))[0], alone)

    def test_metrics_that_cannot_be_computed_are_refused_by_name(self):
        run = ("evaluator", "--model", "model.nc", "--data", "test.nc", "--also")
        self.fail_with(2, '--also: there is no metric "novlty" to ask for; did you mean "novelty"? There are: auc, novelty, diversity',
                       *run, "novlty")
        for name in ("novelty", "diversity"):
            self.fail_with(2, f"--also: {name} counts units in the training data: give them with --popularity", *run, name)

    def test_a_table_of_examples_is_whole_or_not_there(self):
        self.fail_with(3, "missing/each.tsv: ", "evaluator", "-n", "model.nc", "--data", "test.nc", "--per-example", "missing/each.tsv")
        small = self.mount_small("4k")
        self.fail_with(3, f"{small}/each.tsv: ", "evaluator", "-n", "model.nc", "--data", "test.nc", "--per-example", small / "each.tsv")
        self.assertEqual(list(small.iterdir()), [])

    def test_prints_a_table(self):
        done = self.succeed("evaluator", "--model", "model.nc", "--data", "test.nc")
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0].split(), ["K", *(metric["title"] for metric in METRICS)])
        self.assertEqual(lines[0].split()[1:8], ["Recall", "Precision", "NDCG", "MAP", "MRR", "HitRate", "Coverage"])
        self.assertEqual([line.split()[1] for line in lines[1:4]], ["10", "20", "100"])
        self.assertEqual(len({len(line) for line in lines[:4]}), 1, "columns stand below each other")

    def test_every_metric_is_explained(self):
        told = " ".join(self.succeed("evaluator", "--help").stdout.split())
        documents = (SOURCE / "docs/user/metrics.md").read_text(encoding="utf-8")
        for metric in METRICS:
            self.assertIn(f'{metric["title"]}: {metric["help"]}', told)
            self.assertIn(f'| {metric["title"]}@K |', documents)

    def test_ranks_give_the_same(self):
        if mpirun(1) is None:
            self.skipTest("mpirun is not installed")
        alone, _ = self.evaluate()
        self.assertEqual(self.evaluate("--threads", "1", prefix=mpirun(3))[0], alone)

    def test_warns_when_nothing_can_be_found(self):
        done = self.succeed("evaluator", "--model", "model.nc", "--data", "train.nc")
        self.assertIn("are among the seen ones that are left out", done.stderr)

    def test_bad_input(self):
        def fails(code, message, *words):
            self.fail_with(code, message, "evaluator", *words)

        fails(2, "--model (-n), --data (-i) are missing; evaluator --help shows examples")
        fails(2, "--gpu -1 is out of range", "-n", "model.nc", "--data", "test.nc", "--gpu", "-1")
        fails(2, "--threads -1 is out of range", "-n", "model.nc", "--data", "test.nc", "--threads", "-1")
        fails(3, "none.nc: ", "-n", "none.nc", "--data", "test.nc")
        fails(3, "none.nc: ", "-n", "model.nc", "--data", "none.nc")
        fails(2, '--top: "10;20" is no list of numbers from 1 on', "-n", "model.nc", "--data", "test.nc", "-k", "10;20")
        fails(2, '--layer: "Hidden" is no output layer; metrics need one', "-n", "model.nc", "--data", "test.nc", "-l",
              "Hidden")
        write_datasets(self.path("few.nc"), [("x", self.width, self.known[:-1], None)])
        fails(3, "few.nc: --exclude: no sparse data set with 160 examples", "-n", "model.nc", "--data", "test.nc",
              "--exclude", "few.nc")
        fails(3, 'few.nc: --popularity: there is no data set "gl_output" in it. It holds: x', "-n", "model.nc", "--data",
              "test.nc", "--popularity", "few.nc")


if __name__ == "__main__":
    unittest.main()
