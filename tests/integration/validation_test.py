# SPDX-License-Identifier: Apache-2.0
"""Validating while training, as a user sees it: what is said, which model is written, ranks, resuming, bad input."""
import json
import re
import signal
import unittest

from norn_files import model_arrays, write_datasets
from programs import NETWORK, SOURCE, ProgramTest, mpirun, random_rows

METRICS = json.loads((SOURCE / "python/norn/report/metrics.json").read_text(encoding="utf-8"))
REPORT = re.compile(r"trainer: validation after epoch (\d+): loss ([\d.e+-]+)((?:; at .*?)*); best (\S+) (so far|was .*)$")
AT = re.compile(r"at (\d+): " + ", ".join(rf"{metric['name']} ([\d.]+)" for metric in METRICS))
SPLIT = ("--validation-split", "0.2")
RANKS = mpirun(1)


def reports(text):
    """(epoch, loss, {K: metrics as printed}, watched, whether it is the best) of each validation."""
    found = []
    for line in text.splitlines():
        if match := REPORT.match(line):
            lists = {int(at[0]): at[1:] for at in AT.findall(match.group(3))}
            found.append((int(match.group(1)), match.group(2), lists, match.group(4), match.group(5) == "so far"))
    return found


class Validation(ProgramTest):
    def values(self, folder):
        """(metric, {example: value}) that a run has written."""
        [first, *lines] = [line.split("\t") for line in self.path(f"{folder}/validation_values.tsv").read_text().splitlines()]
        self.assertEqual(first[0], "example")
        return first[1], {int(example): float(value) for example, value in lines}

    def test_with_files_of_its_own_says_what_the_evaluator_says_of_the_model(self):
        done = self.train("-e", "3", "--validation-input", "test.nc", "--metrics-at", "5,10", "--run-dir", "run", "--validation-values")
        found = reports(done.stderr)
        self.assertEqual([report[0] for report in found], [1, 2, 3])
        self.assertEqual(len(done.stdout.splitlines()), 3)
        told = self.succeed("evaluator", "--model", "model.nc", "--data", "test.nc", "--top", "5,10", "--format", "json", "--per-example",
                            "each.tsv")
        for at in json.loads(told.stdout)["model"]:
            self.assertEqual(found[-1][2][at["K"]], tuple(f"{at[metric['title']]:.4f}" for metric in METRICS))
        self.assertIn("best ndcg@5", done.stderr)
        [names, *rows] = [line.split("\t") for line in self.path("each.tsv").read_text().splitlines()]
        expected = {int(row[1]): float(row[names.index("ndcg")]) for row in rows if row[2] == "5"}
        self.assertEqual(self.values("run"), ("ndcg@5", expected))

    def test_does_not_change_the_model(self):
        self.train("-e", "4", model="plain.nc")
        self.train("-e", "4", "--validation-input", "test.nc", model="validated.nc")
        plain, validated = (model_arrays(self.path(name))[0] for name in ("plain.nc", "validated.nc"))
        for name, values in plain.items():
            self.assertEqual(values.tobytes(), validated[name].tobytes(), name)

    def test_early_stop_writes_the_model_of_the_best_epoch(self):
        settings = ("-alpha", "0.05", "-e", "200", *SPLIT, "--early-stop", "ndcg@10", "--early-stop-from", "0", "--patience", "4",
                    "--metrics-at", "5", "--run-dir", "run", "--validation-values")
        done = self.train(*settings)
        found = reports(done.stderr)
        self.assertLess(found[-1][0], 200)
        best = max(epoch for epoch, _, _, _, is_best in found if is_best)
        self.assertEqual(found[-1][0], best + 4)
        self.assertEqual(sorted(found[0][2]), [5, 10])
        self.assertIn("stopped early: 4 validations without a better ndcg@10", done.stderr)
        self.assertRegex(done.stderr, rf"best ndcg@10 [\d.]+ after epoch {best}; the model is of that epoch")
        self.assertFalse(self.path("model.best.nc").exists())
        self.assertEqual(model_arrays(self.path("model.nc"))[1]["norn_epoch"], best)
        written = self.values("run")
        events = [json.loads(line) for line in self.path("run/log.jsonl").read_text().splitlines()]
        [value] = [event["value"] for event in events if event["event"] == "eval" and event["epoch"] == best]
        self.assertEqual(written[0], "ndcg@10")
        self.assertAlmostEqual(sum(written[1].values()) / len(written[1]), value, places=9)
        self.path("run/validation_values.tsv").unlink()
        again = self.succeed("trainer", "-c", "net.json", "-i", "train.nc", "-n", "model.nc", *settings, "--resume")
        self.assertEqual(reports(again.stderr), [])  # that run has ended
        self.assertEqual(self.values("run"), written)
        more = self.train(*settings[:-7], "--patience", "6", "--metrics-at", "5", "--resume")
        self.assertEqual(reports(more.stderr)[0][0], best + 1)

    def test_a_plateau_at_the_beginning_does_not_end_the_run(self):
        # Nothing is ever better by 1 than the first.
        settings = (*SPLIT, "--early-stop", "ndcg@10", "--patience", "2", "--min-delta", "1")
        for more, ends_after in (((), 6), (("--early-stop-from", "0"), 3), (("--warm-up", "7.5"), 8),
                                 (("--rate-schedule", "cosine"), 16), (("--validate-every", "4"), 12)):
            done = self.train("-e", "21", *settings, *more, "--force")
            self.assertEqual(reports(done.stderr)[-1][0], ends_after, more)
            self.assertEqual(model_arrays(self.path("model.nc"))[1]["norn_epoch"], reports(done.stderr)[0][0])

    @unittest.skipIf(RANKS is None, "needs mpirun")
    def test_the_same_bytes_and_words_on_any_number_of_ranks(self):
        for by in ("user", "entry"):
            seen = []
            for ranks in (1, 2, 3):
                wish = ("--keep-best", "loss") if by == "entry" else ("--keep-best", "map@7", "--validation-values", "--run-dir",
                                                                                f"r{ranks}")
                done = self.train("-e", "6", *SPLIT, "--validation-by", by, *wish, "--threads", "1",
                                  model=f"{by}{ranks}.nc", prefix=mpirun(ranks))
                seen.append((reports(done.stderr), self.read(f"{by}{ranks}.nc"), by == "user" and self.read(
                    f"r{ranks}/validation_values.tsv")))
            self.assertEqual(len(seen[0][0]), 6)
            self.assertEqual(seen[0], seen[1])
            self.assertEqual(seen[0], seen[2])

    def test_killed_and_resumed_is_never_stopped(self):
        settings = ("-e", "400", *SPLIT, "--validation-by", "entry", "--keep-best", "--checkpoint-epochs", "5", "--validation-values",
                    "--run-dir")
        self.train(*settings, "straight", model="straight.nc")
        run = ("-c", "net.json", "-i", "train.nc", "-n", "model.nc", *settings, "run", "--resume")
        for number, code in ((signal.SIGUSR1, 75), (signal.SIGKILL, -signal.SIGKILL)):
            ended, _, err = self.stop_after_epochs(number, self.random.randint(6, 50), *run)
            self.assertEqual(ended, code, err)
        self.succeed("trainer", *run)
        self.assertEqual(self.read("model.nc"), self.read("straight.nc"))
        self.assertEqual(self.read("run/validation_values.tsv"), self.read("straight/validation_values.tsv"))

    def test_settings_of_the_descriptor_are_kept_with_the_model(self):
        self.write("net.json", (NETWORK % "SoftMax").replace(
            '"Lambda": 0.0001}', '"Lambda": 0.0001, "ValidationSplit": 0.25, "ValidationBy": "Entry", "KeepBest": "map@7", '
            '"ValidateEvery": 2, "MetricsAt": "3"}'))
        found = reports(self.train("-e", "4").stderr)
        self.assertEqual([report[0] for report in found], [2, 4])
        self.assertEqual((sorted(found[0][2]), found[0][3]), ([3, 7], "map@7"))
        training = json.loads(model_arrays(self.path("model.nc"))[1]["norn_descriptor"])["Training"]
        self.assertEqual((training["ValidationSplit"], training["ValidationBy"], training["KeepBest"]), (0.25, "Entry", "map@7"))

    def test_a_split_is_not_changed_when_a_run_is_resumed(self):
        self.train("-e", "2", *SPLIT)
        self.fail_with(2, "--validation-split cannot change when a run is resumed: model.nc was trained with 0.2; leave the "
                       "option out", "trainer", "-c", "net.json", "-i", "train.nc", "-n", "model.nc", "--resume",
                       "--validation-split", "0.3")

    def test_a_seed_of_its_own_holds_the_same_part_back_for_any_training(self):
        self.train("-e", "5", model="first.nc")
        still = ("--rate", "1e-30", "-e", "1", *SPLIT)  # weights stay: what is said depends on the part alone
        one, other = (self.random.randrange(2**63) for _ in range(2))
        for by in ("user", "entry"):
            said = []
            for number, seeds in enumerate(((one,), (other, one), (other,))):
                more = [word for name, seed in zip(("--seed", "--validation-seed"), seeds) for word in (name, seed)]
                done = self.train(*still, *more, "--validation-by", by, config="first.nc", model=f"{by}{number}.nc")
                said.append([report[1:3] for report in reports(done.stderr)])
            self.assertEqual(len(said[0]), 1)
            self.assertEqual(said[0], said[1], by)
            self.assertNotEqual(said[0], said[2], by)

    def test_a_seed_of_its_own_that_is_the_trainings_changes_no_weight(self):
        settings = ("-e", "4", *SPLIT, "--seed", "7", "--validation-by", "entry")
        self.train(*settings, model="plain.nc")
        self.train(*settings, "--validation-seed", "7", model="same.nc")
        self.train(*settings, "--validation-seed", "8", model="other.nc")
        self.write("net.json", (NETWORK % "SoftMax").replace('"Lambda": 0.0001}', '"Lambda": 0.0001, "ValidationSeed": 8}'))
        self.train(*settings, model="described.nc")
        plain, same, other = (model_arrays(self.path(f"{name}.nc"))[0] for name in ("plain", "same", "other"))
        self.assertTrue(all(values.tobytes() == same[name].tobytes() for name, values in plain.items()))
        self.assertFalse(all(values.tobytes() == other[name].tobytes() for name, values in plain.items()))
        self.assertNotIn("ValidationSeed", model_arrays(self.path("plain.nc"))[1]["norn_descriptor"])
        self.assertEqual(self.read("described.nc"), self.read("other.nc"))

    def test_a_part_that_is_held_back_stays_when_a_run_is_resumed(self):
        settings = (*SPLIT, "--validation-by", "entry", "--seed", "7")
        self.train(*settings, "-e", "4", "--validation-seed", "8", model="straight.nc")
        self.train(*settings, "-e", "2", "--validation-seed", "8")
        for seed in ("7", "9"):
            self.fail_with(2, "--validation-seed cannot change when a run is resumed: model.nc was trained with 8; leave the option out",
                           "trainer",
                           "-c", "net.json", "-i", "train.nc", "-n", "model.nc", *settings, "-e", "4", "--validation-seed", seed,
                           "--resume")
        self.train(*settings, "-e", "4", "--resume")
        self.assertEqual(self.read("model.nc"), self.read("straight.nc"))
        # Where nothing was said it was the training's.
        self.train(*settings, "-e", "2", model="plain.nc")
        self.train(*settings, "-e", "4", "--validation-seed", "7", "--resume", model="plain.nc")
        self.fail_with(2, "--validation-seed cannot change when a run is resumed: plain.nc was trained with 7; leave the option out",
                       "trainer",
                       "-c", "net.json", "-i", "train.nc", "-n", "plain.nc", *settings, "-e", "5", "--validation-seed", "8", "--resume")

    def test_a_refit_keeps_the_seed_that_its_length_was_chosen_with(self):
        settings = (*SPLIT, "--seed", "7", "--refit", "--keep-best", "recall@5", "-e", "4", "--validation-seed", "8")
        self.train(*settings, "--run-dir", "run", "--validation-values")
        metric, values = self.values("run")  # of the part that validated
        self.assertTrue(metric == "recall@5" and values)
        training = json.loads(model_arrays(self.path("model.nc"))[1]["norn_descriptor"])["Training"]
        self.assertEqual((training["ValidationSeed"], training["Refit"]), (8, True))
        self.fail_with(2, "--validation-seed cannot change when a run is resumed: model.nc was trained with 8", "trainer", "-c", "net.json",
                       "-i",
                       "train.nc", "-n", "model.nc", *settings[:-1], "9", "--resume")

    def test_labels_of_another_width_are_all_to_be_found(self):
        labels = [[row[0] % 7] if row else [] for row in self.rows]
        write_datasets(self.path("train.nc"), [("gl_input", self.width, self.rows, None), ("gl_output", 7, labels, None)])
        found = reports(self.train("-e", "60", *SPLIT, "--metrics-at", "1").stderr)
        self.assertGreater(float(found[-1][2][1][0]), 0.5)  # recall of the label itself
        self.fail_with(2, f"train.nc: data set \"gl_output\" is 7 units wide, and no sparse input has these units: entries that are hidden "
                       "must be hidden from an input, too; validate by user, or with data sets of their own "
                       "(--validation-input)", "trainer", "-c", "net.json", "-i", "train.nc", "-n", "other.nc", *SPLIT,
                       "--validation-by", "entry")

    def test_wrong_wishes_are_refused(self):
        base = ("trainer", "-c", "net.json", "-i", "train.nc", "-n", "model.nc")
        for wrong, message in (
                (("--early-stop", "ndcg@20"), "--early-stop ndcg@20 needs data to validate with; give --validation-split 0.1, "
                 "or --validation-input"),
                ((*SPLIT, "--early-stop", "ndgc@20"), "--early-stop: \"ndgc@20\" is no metric to watch; did you mean \"ndcg\"? "
                 f"Write loss, or one of {', '.join(metric['name'] for metric in METRICS)} with its K, such as ndcg@20"),
                ((*SPLIT, "--early-stop", "ndcg"), "--early-stop: \"ndcg\" is no metric to watch; write loss, or one of"),
                ((*SPLIT, "--early-stop", "loss", "--keep-best", "map@20"), "the run is to stop early by \"loss\" but to keep "
                 "the best model by \"map@20\"; name one metric"),
                (("--validation-split", "1"), "--validation-split 1 is out of range: it must be at least 0 and below 1"),
                ((*SPLIT, "--validation-input", "test.nc"), "--validation-split holds back a part of the training data"),
                (("--validation-output", "test.nc"), "--validation-output needs --validation-input; give that too"),
                ((*SPLIT, "--early-stop-from", "1.5"), "--early-stop-from 1.5 is out of range: it must be from 0 to 1"),
                (("--validation-values", "--run-dir", "run"), "--validation-values needs data to validate with; give "
                 "--validation-split 0.1, or --validation-input"),
                ((*SPLIT, "--validation-values"), "--validation-values go to a file of --run-dir; give that too"),
                ((*SPLIT, "--validation-values", "--run-dir", "loss", "--keep-best", "loss"), "--validation-values: single examples have "
                 "no value of loss; watch another metric with --keep-best, or leave it out"),
                ((*SPLIT, "--validation-values", "--run-dir", "coverage", "--keep-best", "coverage@3"), "--validation-values: single "
                 "examples have no value of coverage@3; watch another metric with --keep-best, or leave it out"),
                ((*SPLIT, "--patience", "0"), "--patience 0 is out of range: it must be at least 1"),
                ((*SPLIT, "--metrics-at", "10;20"), "--metrics-at: \"10;20\" is no list of numbers from 1 on; write for example")):
            self.fail_with(2, message, *base, *wrong)
        self.assertFalse(self.path("model.nc").exists())

    def test_data_of_another_catalogue_are_refused(self):
        rows = random_rows(self.random, 30, 50)
        write_datasets(self.path("wide.nc"), [("gl_input", 50, rows, None), ("gl_output", 50, rows, None)])
        self.fail_with(3, '--validation-input: data set "gl_input" is 50 units wide, but layer "Input" has 40; import both data '
                       "with the same feature index", "trainer", "-c", "net.json", "-i", "train.nc", "-n", "model.nc",
                       "--validation-input", "wide.nc")
        values = [[0.5] * len(row) for row in self.known]
        write_datasets(self.path("valued.nc"), [("gl_input", self.width, self.known, values),
                                                ("gl_output", self.width, self.held_out, None)])
        self.train("-e", "1", "--validation-input", "valued.nc")


if __name__ == "__main__":
    unittest.main(verbosity=2)
