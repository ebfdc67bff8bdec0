#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The best trial beside the plain recipe: what is kept of random studies, whoever is killed, and where nothing can be compared."""
import json
import math
import unittest
from unittest import mock

from simulated_study import EPOCHS, Curves, Workers, begin, run
from tuner_case import SeededTest
from norn.errors import Error
from norn.tune import coordinator, finish, plain, program
from norn.tune.facts import PLAIN, Facts
from norn.tune.journal import read_events
from norn.tune.voice import result_text, status


class Flat(Curves):
    """No setting matters."""

    def value(self, network, epoch):
        return round(0.5 - 0.3 / epoch, 9)

    def breaks(self, network):
        return math.inf


class Better(Curves):
    """The plain recipe is the worst, or the best of all."""

    def __init__(self, seed, plain_value):
        super().__init__(seed)
        self.plain_value = plain_value

    def value(self, network, epoch):
        is_plain = (network["Training"]["Alpha"], network["Training"]["Batch"]) == (0.01, 64)
        return round((self.plain_value if is_plain else super().value(network, epoch)) - 0.01 / epoch, 9)

    def breaks(self, network):
        return math.inf


class Said:
    """What a coordinator warns of."""

    def __init__(self):
        self.warnings = []

    def warn(self, text):
        self.warnings.append(text)

    def __getattr__(self, name):
        return lambda *_, **__: None


class PlainTest(SeededTest):
    def study(self, curves, name="study", trials=None, **budget):
        """(facts of the study that has ended, its folder)"""
        study = begin(self.folder / name, rungs=self.rungs)
        workers = Workers(curves, self.random.randint(1, 5), self.random, loss=0.1)
        self.said = Said()
        with mock.patch("simulated_study.Silence", lambda: self.said):
            _, facts = run(study, workers, trials or self.trials, self.confirm, **{"plain": True, **budget})
        return study, facts

    def setUp(self):
        super().setUp()
        self.trials, self.confirm = self.random.randint(3, 9), self.random.randint(0, 2)
        self.rungs = self.random.choice([(), (2, 6)])

    def model(self, name):
        return (self.folder / "study/trials" / name / "model.nc").read_bytes()

    def kept(self):
        return (self.folder / "study/best.nc").read_bytes()

    def test_settings_that_cannot_matter_make_no_difference_and_the_plain_recipe_is_kept(self):
        study, facts = self.study(Flat(self.seed))
        one = facts.ended["comparison"]
        self.assertEqual((one["verdict"], facts.ended["kept"], one["difference"]), ("no difference", "plain", 0.0))
        self.assertEqual(facts.ended["settings"], {})
        self.assertEqual(self.kept(), self.model("plain"))
        self.assertEqual(json.loads((study.folder / "best.json").read_text()), study.network)
        said = result_text(study, facts, facts.ended)
        self.assertRegex(said, rf"no difference: ndcg@20 \S+ of trial {facts.ended['best']}, \S+ of the plain recipe, difference \+0 "
                               rf"\(each end 95 % sure for the best of {one['trials']}: \+0 to \+0\), kept the plain recipe\n")
        self.assertIn(f"model {study.folder}/best.nc of the plain recipe", said)
        self.assertRegex(status(study, facts), rf"plain  done +{EPOCHS} +0\.4833")
        self.assertEqual(self.said.warnings, [])

    def test_a_trial_that_is_better_is_kept_and_one_that_is_worse_is_not(self):
        study, facts = self.study(Better(self.seed, -9.0))
        best, one = facts.ended["best"], facts.ended["comparison"]
        self.assertEqual((one["verdict"], facts.ended["kept"], one["examples"]), ("trial", "trial", 50))
        self.assertAlmostEqual(one["difference"], one["value"] - one["plain"])
        self.assertTrue(0.0 < one["low"] <= one["difference"] + 1e-12 and one["difference"] <= one["high"] + 1e-12)
        self.assertEqual(self.kept(), self.model(f"{best:04d}"))
        self.assertEqual(facts.ended["settings"], facts.decided["propose"][best]["settings"])
        study, facts = self.study(Better(self.seed, 9.0), "worse")
        self.assertEqual((facts.ended["comparison"]["verdict"], facts.ended["kept"]), ("plain", "plain"))
        self.assertIn("worse than the plain recipe: ndcg@20 ", status(study, facts))
        self.assertIn(", kept the plain recipe", status(study, facts))

    def test_cut_anywhere_it_comes_to_the_same_end(self):
        curves = self.random.choice([Flat(self.seed), Better(self.seed, self.random.choice([-9.0, 0.8, 9.0])), Curves(self.seed)])
        self.study(curves)
        path = self.folder / "study/journal.jsonl"
        journal, kept = path.read_bytes(), self.kept()
        [end] = [event for event in map(json.loads, journal.splitlines()) if event["event"] == "end"]
        for _ in range(2):
            path.write_bytes(journal[:self.random.randrange(journal.index(b"\n") + 1, len(journal))])
            _, facts = self.study(curves)
            self.assertEqual({key: facts.ended[key] for key in ("best", "value", "kept", "comparison", "confirmed")},
                             {key: end[key] for key in ("best", "value", "kept", "comparison", "confirmed")})
            self.assertEqual(self.kept(), kept)

    def test_a_plain_recipe_that_cannot_be_trained_is_told_of_and_the_best_trial_is_kept(self):
        code, state = self.random.choice([(6, "diverged"), (4, "infeasible"), (2, "failed"), (3, "failed")])
        outcome = coordinator.Coordinator._outcome

        def fail(one, training, attempt, how):
            path = attempt.folder / coordinator.trial.RESULT
            if training == PLAIN and path.exists():
                path.write_text(json.dumps({**json.loads(path.read_text()), "code": code, "errors": [{"message": "it is spoilt"}]}))
            outcome(one, training, attempt, how)

        with mock.patch.object(coordinator.Coordinator, "_outcome", fail):
            study, facts = self.study(Flat(self.seed))
        self.assertEqual((facts.ended["comparison"], facts.ended["kept"]), (None, "trial"))
        self.assertEqual(self.said.warnings.count(f"warning: the plain recipe {state} (it is spoilt); the best trial is not compared with "
                                                  "it"), 1)
        self.assertEqual(self.kept(), self.model(f"{facts.ended['best']:04d}"))
        self.assertIn(f"plain  {state}", status(study, facts))

    def test_a_study_of_an_earlier_version_goes_on_without_it_and_may_ask_for_it(self):
        study, facts = self.study(Flat(self.seed), plain=False)
        path = study.folder / "journal.jsonl"
        events = [json.loads(line) for line in path.read_text().splitlines()]
        for event in events:
            if event["event"] == "open":
                del event["budget"]["plain"]
            if event["event"] == "end":
                del event["kept"], event["comparison"]
        path.write_text("".join(json.dumps(event) + "\n" for event in events))
        old = Facts.read_only(path, read_events(path)[0])
        self.assertIn(f"best: trial {old.ended['best']}", result_text(study, old, old.ended))
        _, facts = self.study(Flat(self.seed), trials=self.trials + 1, plain=False)
        self.assertEqual((facts.ended["kept"], PLAIN in facts.attempts), ("trial", False))
        _, facts = self.study(Flat(self.seed), trials=self.trials + 1)
        self.assertEqual((facts.ended["comparison"]["verdict"], self.kept()), ("no difference", self.model("plain")))

    def test_values_that_are_not_there_are_told_of(self):
        with mock.patch.object(finish.plain, "VALUES", "run/nowhere.tsv/none"):
            _, facts = self.study(Flat(self.seed))
        self.assertEqual((facts.ended["comparison"], facts.ended["kept"]), (None, "trial"))
        [said] = self.said.warnings
        self.assertRegex(said, r"^warning: the best trial is not compared with the plain recipe: .*validation_values.tsv: is not there, or "
                               r"cannot be read; train the run with --validation-values$")

    def test_the_level_is_that_of_all_trials_at_once(self):
        trials, asked = self.random.randint(1, 40), []
        ends = self.random.choice([(None, None), (-0.1, 0.2), (0.0, 0.2), (0.1, 0.2), (-0.2, -0.1), (-0.2, 0.0)])

        class Trainer:
            def compare(self, *words):
                asked.append(words)
                return {"examples": 7, "differences": [{"K": 10, "NDCG": {
                    "model": 0.25, "other": 0.5, "difference": 0.25, "low": ends[0], "high": ends[1], "p": 0.03}}]}

        found = plain.compare(Trainer(), self.folder / "a", self.folder / "b", trials)
        [(first, second, level, resamples)] = asked
        self.assertEqual((first, second), (self.folder / "b/run", self.folder / "a/run"))
        self.assertAlmostEqual(level, 1.0 - 2 * 0.05 / trials)
        self.assertEqual(resamples, min(20_000, 2000 * trials))
        verdict = "trial" if ends == (0.1, 0.2) else "plain" if ends == (-0.2, -0.1) else "no difference"
        self.assertEqual((found["verdict"], found["kept"]), (verdict, "trial" if verdict == "trial" else "plain"))
        self.assertEqual((found["value"], found["plain"], found["low"], found["p"]), (0.5, 0.25, ends[0], min(1.0, trials * 0.015)))
        self.assertIn("too few examples for an interval" if ends[0] is None else f"the best of {trials}: ",
                      plain.text_of("ndcg@10", 3, found))

    def test_a_comparison_that_is_killed_is_made_again(self):
        kills, begun = self.random.randint(0, 4), self.folder / "begun"
        evaluator = self.folder / "evaluator"
        evaluator.write_text(f"""#!/bin/sh
echo x >> {begun}
[ "$(wc -l < {begun})" -gt {kills} ] || kill -9 $$
echo '{{"differences": []}}'
""")
        evaluator.chmod(0o755)
        asked = program.Trainer(self.folder / "trainer", [], [], [], "ndcg@10", None, 1).compare
        runs = self.folder / "a/run", self.folder / "b/run"
        runs[0].mkdir(parents=True)
        if kills < 3:
            self.assertEqual(asked(*runs, 0.9, 100), {"differences": []})
        else:
            with self.assertRaisesRegex(Error, "^it ended with signal 9; "):
                asked(*runs, 0.9, 100)
        self.assertEqual(begun.read_text().count("x"), min(kills + 1, 3))

    def test_means_over_examples_alone_are_compared(self):
        self.assertEqual([plain.has_examples(one) for one in ("ndcg@10", "NDCG@5", "HitRate@1", "recall@20", "loss", "coverage@10")],
                         [True, True, True, True, False, False])


if __name__ == "__main__":
    unittest.main()
