#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tuner is used for, with the real trainer on small data: what it prints and writes, samplers, objectives, other studies."""
import csv
import json
import unittest

import numpy as np

from tuner_program import TunerTest
from norn.tune.study import Study
from norn.tune.transfer import prior_of


class UsesTest(TunerTest):
    def test_what_it_says_of_a_study(self):
        self.succeed_tuner(*self.command("told", "--trials", 5, "--threads", 1, "--confirm", 1, "--seeds", 1))
        said = self.succeed_tuner("--study", "told", "--status").stdout
        self.assertIn("5 trials", said)
        self.assertRegex(said, r"best so far: trial \d, ndcg@10 0\.")
        self.succeed_tuner("--study", "told", "--best", "best.json", "--export", "csv")
        self.assertEqual(json.loads(self.read("best.json")), json.loads(self.read("told/best.json")))
        self.train("--epochs", 1, config="best.json", model="again.nc")
        rows = list(csv.DictReader(self.path("told/export/trials.csv").read_text().splitlines()))
        self.assertEqual(len(rows), 5)
        self.assertEqual({row["state"] for row in rows} - {"done", "halved"}, set())
        self.assertTrue(all(float(row["Training.Alpha"]) > 0 for row in rows))
        self.succeed_tuner("--study", "told")
        self.assertEqual(len(self.decisions("told")["propose"]), 5)

    def test_all_trainings_of_a_study_are_compared_on_one_part_of_the_data(self):
        def seeds(study):
            runs = {run.parent.parent.name: json.loads(run.read_text())["network"]["Training"]
                    for run in self.path(study).glob("trials/*/run/run.json")}
            return {name: (training.get("Seed"), training.get("ValidationSeed")) for name, training in runs.items()}

        arguments = ("--trials", 2, "--threads", 1, "--confirm", 1, "--seeds", 2, "--halving", "none")
        self.succeed_tuner(*self.command("parts", *arguments))
        self.assertEqual(len(seeds("parts")), 5)
        self.assertIn("plain", seeds("parts"))
        self.assertEqual({part for _, part in seeds("parts").values()}, {12134})
        self.assertEqual(len({seed for seed, _ in seeds("parts").values()}), 3)
        last = 2**64 - 1  # after which comes 0
        network = json.loads(self.read("net.json"))
        network["Training"]["Seed"] = last
        self.write("net.json", json.dumps(network))
        self.succeed_tuner(*self.command("last", *arguments, "--seed", last))
        self.assertEqual(sorted(seed for seed, _ in seeds("last").values()), [0, 1, last, last, last])
        self.assertIn("2 trials", self.succeed_tuner("--study", "last", "--status").stdout)
        self.succeed_tuner(*self.command("given", *arguments, handed=("--validation-split", "0.2", "--validation-seed", "5")))
        self.assertEqual({part for _, part in seeds("given").values()}, {5})
        self.succeed_tuner(*self.command("files", *arguments, handed=("--validation-input", "test.nc")))
        self.assertEqual({part for _, part in seeds("files").values()}, {None})

    def test_a_study_of_an_earlier_version_goes_on_as_it_was(self):
        self.succeed_tuner(*self.command("old", "--trials", 2, "--threads", 1, "--confirm", 0, "--halving", "none", "--plain", "no"))
        identity = json.loads(self.read("old/study.json"))
        del identity["descriptor"]["Training"]["ValidationSeed"]
        self.write("old/study.json", json.dumps(identity))
        self.succeed_tuner("--study", "old", "--trials", 3, "--confirm", 1, "--seeds", 1)
        trainings = [json.loads(run.read_text())["network"]["Training"] for run in self.path("old").glob("trials/*/run/run.json")]
        self.assertEqual(sum("ValidationSeed" in training for training in trainings), 2)
        self.assertEqual(len(trainings), 4)

    def test_a_grid_ends_where_its_points_do(self):
        self.write("grid.json", '{"Parameters": {"Training.Batch": {"Values": [16, 32, 64]}, "Layers.Hidden.Count": {"Whole": [1, 2]}}}')
        self.succeed_tuner(*self.command("grid", "--sampler", "grid", "--threads", 1, "--confirm", 0, "--halving", "none",
                                         space="grid.json"))
        found = [(e["settings"]["Training.Batch"], e["settings"]["Layers.Hidden.Count"]) for e in self.decisions("grid")["propose"]]
        self.assertEqual(sorted(found), [(b, c) for b in (16, 32, 64) for c in (1, 2)])
        self.assertEqual({e["state"] for e in self.decisions("grid")["tell"]}, {"done"})
        self.refuse_tuner(2, ["--sampler grid: Training.Alpha is a Range"], *self.command("no", "--sampler", "grid"))

    def test_a_search_in_which_nothing_matters_keeps_the_plain_recipe(self):
        self.write("name.json", '{"Parameters": {"Name": {"Names": ["first", "second", "third"]}}}')
        done = self.succeed_tuner(*self.command("names", "--sampler", "grid", "--threads", 1, "--confirm", 0, "--halving", "none",
                                                space="name.json"))
        self.assertRegex(done.stdout, r"\nno difference: ndcg@10 (0\.\d+) of trial \d, \1 of the plain recipe, difference \+0 \(each "
                                      r"end 95 % sure for the best of 3: \+0 to \+0\), kept the plain recipe\n")
        self.assertEqual(self.read("names/best.nc"), self.read("names/trials/plain/model.nc"))
        self.succeed_tuner("--study", "names", "--best", "best.json")
        self.assertEqual(json.loads(self.read("best.json")), json.loads(self.read("names/study.json"))["descriptor"])
        self.assertIn("no difference: ndcg@10 ", self.succeed_tuner("--study", "names", "--status").stdout)
        self.assertIn("No difference: ndcg@10 ", self.path("names/report.html").read_text())

    def test_a_loss_is_made_small(self):
        done = self.succeed_tuner(*[x if x != "ndcg@10" else "loss"
                                    for x in self.command("loss", "--trials", 6, "--threads", 1, "--confirm", 0)])
        values = [e["value"] for e in self.decisions("loss")["tell"] if e["state"] == "done"]
        self.assertIn(f"loss {-max(values):.6g}", done.stdout)
        said = "single examples have no value of loss: the best trial is not compared with the plain recipe\n"
        self.assertEqual(done.stderr.count(said), 1)
        self.assertFalse(self.path("loss/trials/plain").exists())
        self.assertTrue(all(value < 0 for value in values))

    def test_trials_that_diverge_are_the_worst(self):
        self.write("wild.json", '{"Parameters": {"Training.Alpha": {"Values": [0.01, 1e30]}}}')
        self.succeed_tuner(*self.command("wild", "--sampler", "grid", "--threads", 1, "--confirm", 0, space="wild.json"))
        self.assertEqual([e["state"] for e in sorted(self.decisions("wild")["tell"], key=lambda e: e["trial"])], ["done", "diverged"])

    def test_hours_end_the_proposals_and_more_hours_go_on_from_there(self):
        self.succeed_tuner(*self.command("timed", "--hours", 1e-9, "--start", 4, "--threads", 1, "--confirm", 0))
        first = self.decisions("timed")
        self.assertEqual((len(first["propose"]), len(first["tell"])), (4, 4))  # what began together: the clock's slots
        self.succeed_tuner("--study", "timed", "--hours", 1e-9, "--workers", 2, "--threads", 1)
        then = self.decisions("timed")
        self.assertEqual(len(then["tell"]), 8)
        self.assertEqual({kind: then[kind][:len(first[kind])] for kind in first}, first)
        self.succeed_tuner("--study", "timed")
        self.assertEqual(self.decisions("timed"), then)
        # Killed before the hours were over.
        journal = self.read("timed/journal.jsonl").splitlines(keepends=True)
        self.path("timed/journal.jsonl").write_bytes(b"".join(journal[:4]))
        self.refuse_tuner(2, ["was begun with --hours alone, and they were not over: give --hours or --trials"], "--study", "timed")

    def test_a_dry_run_leaves_nothing(self):
        before = sorted(self.folder.iterdir())
        said = self.succeed_tuner(*self.command("dry", "--dry-run")).stdout
        self.assertIn("4 parameters", said)
        self.assertRegex(said, r"corners of the space planned: \d+ fit")
        self.assertRegex(said, r"\nthe plain recipe, which the best is compared with: [\d.e-]+ planned hours\n$")
        self.assertNotIn("the plain recipe", self.succeed_tuner(*self.command("dry", "--dry-run", "--plain", "no")).stdout)
        self.assertEqual(sorted(self.folder.iterdir()), before)

    def test_what_other_studies_know_is_used_from_the_first_trial(self):
        self.succeed_tuner(*self.command("north", "--trials", 10, "--start", 6, "--threads", 1, "--confirm", 0))
        self.succeed_tuner(*self.command("south", "--trials", 2, "--from", "north", "--threads", 1, "--confirm", 0, "--clock", 1))
        south = Study.open(self.path("south"))
        stack = prior_of(south)
        first = np.array(self.decisions("south")["propose"][0]["row"])
        anywhere = south.space.spread(np.random.default_rng(self.seed).uniform(size=(1000, len(south.space))))
        self.assertGreater(stack.expected(first[None, :])[0], np.quantile(stack.expected(anywhere), 0.98))
        self.assertEqual(len(stack.sources[0].values), 10)
        self.refuse_tuner(2, ["--from: the study", "has begun"], "--study", "south", "--from", "north")


if __name__ == "__main__":
    unittest.main()
