#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recipes that follow from the data, data sets that are found by their role, and training on everything for as long as validation
chose."""
import json
import signal
import subprocess
import time
import unittest

from norn_files import model_arrays, write_datasets
from programs import BIN, NETWORK, ProgramTest, mpirun, random_rows

REFIT = ("--validation-split", "0.2", "--metrics-at", "5", "--refit")


def descriptor_of(path):
    return json.loads(model_arrays(path)[1]["norn_descriptor"])


class RecipeOptions(ProgramTest):
    def printed(self, *arguments):
        return self.succeed("trainer", "-i", "train.nc", "--print-recipe", *arguments).stdout

    def test_needs_no_descriptor_and_printed_and_edited_gives_the_same_bytes(self):
        for recipe in ("sigmoid", "softmax"):
            with self.subTest(recipe):
                done = self.succeed("trainer", "--recipe", recipe, "-i", "train.nc", "-n", f"{recipe}.nc", "-e", 3, "--threads", 1)
                self.assertRegex(done.stderr, rf"recipe {recipe}: 128 hidden units, batch 32, rate [\d.]+, \d+ epochs; "
                                 "--print-recipe shows all of it")
                self.write("printed.json", self.printed("--recipe", recipe, "-e", 3))
                self.write("net.json", json.dumps({"Recipe": recipe, "Training": {"Epochs": 3}}))
                self.train("--threads", 1, config="printed.json", model=f"{recipe}1.nc")
                self.train("--threads", 1, model=f"{recipe}2.nc")
                self.assertEqual(self.read(f"{recipe}1.nc"), self.read(f"{recipe}.nc"))
                self.assertEqual(self.read(f"{recipe}2.nc"), self.read(f"{recipe}.nc"))

    def test_is_as_long_in_steps_on_any_number_of_examples(self):
        for examples in (7, 160, 3000):
            rows = random_rows(self.random, examples, self.width)
            write_datasets(self.path("train.nc"), [("x_output", self.width, rows, None), ("x_input", self.width, rows, None)])
            network = json.loads(self.printed("--recipe", "sigmoid"))
            training = network["Training"]
            self.assertEqual([layer.get("DataSet") for layer in network["Layers"]], ["x_input", None, "x_output"])
            steps = training["Epochs"] * examples / training["Batch"]
            self.assertGreaterEqual(steps, 2000)
            self.assertLessEqual(steps, 2000 + examples / training["Batch"])
            halved = json.loads(self.printed("--recipe", "sigmoid", "--batch", max(1, training["Batch"] // 2)))["Training"]
            self.assertAlmostEqual(halved["Epochs"] / training["Epochs"], halved["Batch"] / training["Batch"], delta=0.02)

    def test_learns_on_data_of_any_shape(self):
        known, held_out = self.known, self.held_out
        for examples in (1, 160):
            write_datasets(self.path("train.nc"), [("x_input", self.width, known[:examples], None),
                                                   ("x_output", self.width, known[:examples], None)])
            self.succeed("trainer", "--recipe", "sigmoid", "-i", "train.nc", "-n", "model.nc", "--force")
        write_datasets(self.path("test.nc"), [("x_input", self.width, known, None), ("x_output", self.width, held_out, None)])
        report = json.loads(self.succeed("evaluator", "--model", "model.nc", "--data", "test.nc", "--top", 5, "--popularity",
                                         "train.nc", "--format", "json").stdout)
        self.assertGreater(report["model"][0]["NDCG"], 1.5 * report["popularity"][0]["NDCG"])

    def test_is_recorded_and_repeated(self):
        run = ("trainer", "--recipe", "softmax", "-i", "train.nc", "-n", "model.nc", "-e", 2, "--run-dir", "run")
        self.succeed(*run)
        record = json.loads(self.path("run/run.json").read_text())
        self.assertEqual(record["origin"], {"from": "recipe", "file": "softmax"})
        self.assertEqual(record["network"]["Training"]["Epochs"], 2)
        self.assertEqual([layer["Name"] for layer in record["network"]["Layers"]], ["Input", "Hidden", "Output"])
        again = self.succeed("trainer", "--repeat", "run/run.json", "-n", "again.nc")
        self.assertIn("the model has the same bytes", again.stderr)

    def test_what_a_descriptor_says_wins(self):
        self.write("net.json", """{"Recipe": "sigmoid", "Name": "mine", // of the rest the recipe
            "Training": {"Batch": 16, "Epochs": 2}, "Layers": [{"Name": "Hidden", "N": 9}]}""")
        self.train()
        network = descriptor_of(self.path("model.nc"))
        self.assertEqual((network["Name"], network["Layers"][1]["N"], network["Training"]["Batch"]), ("mine", 9, 16))
        self.assertNotIn("Recipe", network)
        self.assertGreater(network["DeltaBoost"]["one"], 1)

    def test_wrong_wishes_are_refused(self):
        base = ("trainer", "-i", "train.nc", "-n", "model.nc")
        self.write("train.cdl", '{"Version": 0.2, "Network": "net.json", "Data": "train.nc", "Command": "Train", '
                   '"TrainingParameters": {"Epochs": 1, "Results": "other.nc"}}')
        for wrong, message in (
                ((), "--config (-c) or --recipe sigmoid is missing"),
                (("--recipe", "tanh"), "--recipe: \"tanh\" is"),
                (("--recipe", "sigmoid", "-c", "net.json"), "--recipe sigmoid makes the descriptor that --config names: give one "
                 'of the two; a descriptor with "Recipe": "sigmoid" gives what it does not say itself'),
                (("--recipe", "sigmoid", "--cdl", "train.cdl"), "--recipe does not go with --cdl, whose file names a network; give one "
                 "of them"),
                (("--recipe", "sigmoid", "--print-recipe", "--plan"), "--print-recipe prints a descriptor and --plan a plan: give one of "
                 "the two"),
                (("--recipe", "sigmoid", "--check-gradients", "--plan"), "--check-gradients trains nothing and prints a table: give it "
                 "without --plan"),
                (("--recipe", "sigmoid", "--refit"), "--refit needs a part of the training data to choose the length by; give "
                 "--validation-split 0.1"),
                (("--recipe", "sigmoid", "--refit", "--last-epoch", "3", "--validation-split", "0.1"), "--refit ends after the "
                 "epoch that validation chooses and --last-epoch after one that is given: give one of the two"),
                (("--recipe", "sigmoid", "--last-epoch", "0"), "--last-epoch 0 is out of range"),
                (("--recipe", "sigmoid", "--refit", "--validation-input", "test.nc"), "--refit adds what was held back of the "
                 "training data, and --validation-input names data that are none of them: the best model is trained on everything "
                 "already; leave --refit out")):
            self.fail_with(2, message, *base, *wrong)
        self.write("net.json", '{"Recipe": "sigmoid", "Layers": [{"Name": "Output", "DataSet": "clicks"}]}')
        self.fail_with(3, 'data set "clicks", which a recipe is to be made for, is in none of the files. They hold: gl_input, gl_output',
                       *base, "-c", "net.json")
        self.write("net.json", '{"Training": {"Refit": true, "ValidationSplit": 0.2}, "Recipe": "sigmoid"}')
        self.fail_with(2, "--refit needs a metric to choose the length by; give --keep-best, or --early-stop", *base, "-c", "net.json",
                       "--keep-best", "none")
        self.write("none.json", '{"Training": {"Refit": true, "ValidationSplit": 0.2, "Epochs": 0}, "Recipe": "sigmoid"}')
        for none in (("-c", "net.json", "-e", "0"), ("-c", "none.json"), ("--recipe", "sigmoid", "-e", "0", *REFIT)):
            self.fail_with(2, "--refit needs an epoch at least, whose model may be the best; give --epochs 1 or more, or leave --refit "
                           "out", *base, *none)
        self.assertEqual(list(self.folder.glob("model*")), [])


class AutoDataSets(ProgramTest):
    def test_are_those_of_the_files_one_pair(self):
        self.train("-e", 2, "--threads", 1, model="named.nc")
        text = (NETWORK % "SoftMax").replace('"gl_input"', '"auto"').replace('"gl_output"', '"auto"')
        self.write("net.json", text)
        self.train("-e", 2, "--threads", 1)
        self.assertEqual(self.read("model.nc"), self.read("named.nc"))

    def test_without_one_pair_are_refused_naming_what_there_is(self):
        self.write("net.json", (NETWORK % "SoftMax").replace('"gl_input"', '"auto"'))
        rows = [(name, self.width, self.known, None) for name in ("a_input", "a_output", "b_output", "gl_output", "b_input")]
        write_datasets(self.path("train.nc"), rows)
        self.fail_with(3, '"DataSet": "auto" does not tell which data sets are meant: they hold 2 pairs of NAME_input and '
                       "NAME_output; name the data sets in the descriptor, or give files with one pair. They hold: a_input, "
                       "a_output, b_output, gl_output, b_input", "trainer", "-c", "net.json", "-i", "train.nc", "-n", "model.nc")


class LastEpoch(ProgramTest):
    def rates(self, *arguments):
        self.train("-e", "9", "--rate-schedule", "cosine", "--warm-up", "1.5", "--validation-split", "0.2", "--validate-every", "4",
                   "--run-dir", "run", "--force", *arguments)
        events = [json.loads(line) for line in self.path("run/log.jsonl").read_text().splitlines()]
        return [[event[member] for event in events if event["event"] == kind] for kind, member in (("epoch", "rate"), ("eval", "epoch"))]

    def test_ends_the_run_there_with_the_rates_of_all_epochs(self):
        rates, _ = self.rates()
        self.assertEqual(len(set(rates[1:])), 8)
        fewer, validated = self.rates("--last-epoch", "6")
        self.assertEqual(fewer, rates[:6])
        self.assertEqual(validated, [4, 6])  # what is the result is validated
        done = self.train("-e", "9", "--validation-split", "0.2", "--last-epoch", "6", "--resume")
        self.assertIn("all 6 epochs are done already; give a later --last-epoch, or --epochs, for more", done.stderr)


class Refit(ProgramTest):
    SETTINGS = ("-alpha", "0.05", "-e", "42", "--rate-schedule", "cosine", "--warm-up", "1.5", "--threads", "1")

    def arrays(self, name):
        return {key: values.tobytes() for key, values in model_arrays(self.path(name))[0].items()}

    def test_is_training_on_everything_up_to_the_best_epoch_with_its_rates(self):
        done = self.train(*self.SETTINGS, *REFIT, "--run-dir", "run")
        best = int(done.stderr.rsplit("after epoch ", 1)[1].split(";")[0])
        self.assertLess(best, 42)  # or there is nothing to choose
        self.assertIn(f"training on everything for {best} epoch", done.stderr)
        self.train(*self.SETTINGS, "--last-epoch", best, model="plain.nc")
        self.assertEqual(self.arrays("model.nc"), self.arrays("plain.nc"))
        training = descriptor_of(self.path("model.nc"))["Training"]
        self.assertEqual((training["LastEpoch"], training["Epochs"], training["Refit"]), (best, 42, True))
        self.assertEqual(training["ValidationSplit"], 0.2)  # what chose the length
        self.assertFalse(self.path("model.best.nc").exists())
        events = [json.loads(line) for line in self.path("run/log.jsonl").read_text().splitlines()]
        self.assertEqual([event["examples"] for event in events if event["event"] == "start"], [128, 160])
        self.assertEqual([event["reason"] for event in events if event["event"] == "end"], ["completed"])
        again = self.succeed("trainer", "--repeat", "run/run.json", "-n", "again.nc", "--threads", 1)
        self.assertIn("the model has the same bytes", again.stderr)

    def test_stopped_or_killed_anywhere_and_resumed_is_never_stopped(self):
        settings = (*self.SETTINGS, *REFIT, "--early-stop", "ndcg@5", "--patience", 3, "--early-stop-from", "0.5",
                    "--checkpoint-epochs", "3")
        self.train(*settings, model="straight.nc")
        command = [str(BIN / "trainer"), "-c", "net.json", "-i", "train.nc", "-n", "model.nc", *map(str, settings), "--resume"]
        for turn in range(40):
            with subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
                time.sleep(0.1 + self.random.random() / 2)
                process.send_signal((signal.SIGUSR1, signal.SIGKILL)[turn % 2])
                process.communicate(timeout=60)
                self.assertIn(process.returncode, (75, -signal.SIGUSR1, -9, 0))
                if process.returncode == 0:
                    break
        self.succeed("trainer", *command[1:])
        self.assertEqual(self.read("model.nc"), self.read("straight.nc"))
        # Whoever asks for more is told that all is done.
        done = self.succeed("trainer", *command[1:])
        self.assertIn("are done already", done.stderr)
        self.assertEqual(self.read("model.nc"), self.read("straight.nc"))

    def test_goes_on_from_its_own_checkpoint_rather_than_from_the_first_part(self):
        settings = (*self.SETTINGS, *REFIT)
        self.train(*settings, "--checkpoint-epochs", 1, "--keep", 0)
        whole = self.read("model.nc")
        last = descriptor_of(self.path("model.nc"))["Training"]["LastEpoch"]
        if last > 2:  # as a killed run leaves it: the first part's model is where the second's will be
            self.train(*settings[:-1], "--keep-best", model="first.nc")
            for epoch in range(2, last):
                self.path(f"model.refit.epoch{epoch}.nc").unlink()
            self.path("first.nc").replace(self.path("model.nc"))
            done = self.train(*settings, "--resume")
            self.assertIn("resuming from model.refit.epoch1.nc: 1 of", done.stderr)
            self.assertEqual(self.read("model.nc"), whole)
        self.train(*settings, "--force", "--checkpoint-epochs", 0)
        self.assertEqual(self.read("model.nc"), whole)
        self.assertEqual(list(self.folder.glob("model.refit.*")), [])

    def test_by_the_descriptor_is_that_by_the_option(self):
        self.train("-e", "4", *REFIT, "--threads", 1, model="option.nc")
        network = json.loads(NETWORK % "SoftMax")
        network["Training"].update({"Refit": True, "ValidationSplit": 0.2, "MetricsAt": "5"})
        self.write("refit.json", json.dumps(network))
        done = self.train("-e", "4", "--threads", 1, config="refit.json")
        self.assertIn("training on everything for", done.stderr)
        self.assertEqual(self.arrays("model.nc"), self.arrays("option.nc"))

    def test_that_is_resumed_keeps_the_rates_that_were_validated(self):
        run = ("-e", "6", "-alpha", "0.05", *REFIT)
        self.train(*run, "--checkpoint-epochs", "1", "--keep", "0")
        whole = self.read("model.nc")
        last = descriptor_of(self.path("model.nc"))["Training"]["LastEpoch"]
        resume = ("trainer", "-c", "net.json", "-i", "train.nc", "-n", "model.nc", "--resume")
        again = (*resume, *REFIT)
        wrong = ((("-e", "500"), "--epochs", "6"), (("-alpha", "0.5"), "--rate", "0.05"),
                 (("--rate-schedule", "cosine"), "--rate-schedule, or its settings,", "others"),
                 (("--warm-up", "2"), "--rate-schedule, or its settings,", "others"))
        for more, option, value in wrong:
            self.fail_with(2, f"{option} cannot change when a run is resumed: model.nc was trained with {value}; leave the option out",
                           *again, *more)
        for more, option, value in ((("--validation-split", "0.3"), "--validation-split", "0.2"),
                                    (("--refit", "--validation-split", "0"), "--validation-split", "0.2"),
                                    (("--validation-by", "entry"), "--validation-by", "user")):
            self.fail_with(2, f"{option} cannot change when a run is resumed: model.nc was trained with {value}; leave the option out",
                           *resume, *more)
        for form in (run, ()):
            done = self.train(*form, "--resume")
            self.assertIn(f"all {last} epochs are done already, as many as validation chose: the run is complete", done.stderr)
            self.assertNotIn("for more", done.stderr)
        self.assertEqual(self.read("model.nc"), whole)

    def test_gives_weights_to_runs_that_hold_nothing_back(self):
        self.train("-e", 3, *REFIT)
        self.train("-e", 1, "--run-dir", "run", config="model.nc", model="more.nc")
        self.assertNotIn("ValidationSplit", descriptor_of(self.path("more.nc"))["Training"])
        events = [json.loads(line) for line in self.path("run/log.jsonl").read_text().splitlines()]
        self.assertEqual([event["examples"] for event in events if event["event"] == "start"], [160])
        self.assertNotIn("eval", [event["event"] for event in events])

    def test_begins_anew_and_not_with_weights(self):
        self.train("-e", 2, model="first.nc")
        self.fail_with(2, "--refit begins anew, and first.nc is a model with weights of its own; give the descriptor that it was "
                       "made of, or a recipe", "trainer", "-c", "first.nc", "-i", "train.nc", "-n", "model.nc", *REFIT)

    @unittest.skipIf(mpirun(1) is None, "needs mpirun")
    def test_has_the_same_bytes_on_several_ranks(self):
        settings = ("-e", "12", "-alpha", "0.05", *REFIT, "--threads", "1")
        self.train(*settings, model="one.nc")
        self.train(*settings, model="two.nc", prefix=mpirun(2))
        self.assertEqual(self.read("one.nc"), self.read("two.nc"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
