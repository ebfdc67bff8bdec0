#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.json, and trainer --repeat: the same bytes of the model."""
import json
import re
import shutil
import signal
import unittest

from norn_files import write_datasets
from programs import NETWORK, ProgramTest, mpirun
from run_files import read_log


class Repeat(ProgramTest):
    def record(self, *arguments, folder="run", **more):
        return self.train("--run-dir", folder, *arguments, **more)

    def run_json(self, folder="run"):
        return json.loads(self.path(folder).joinpath("run.json").read_text())

    def repeat(self, *arguments, folder="run", model="again.nc", **more):
        return self.succeed("trainer", "--repeat", f"{folder}/run.json", "-n", model, *arguments, **more)

    def same(self, *models):
        for model in models[1:]:
            self.assertEqual(self.read(models[0]), self.read(model), f"{models[0]} and {model}")

    def refuse(self, code, message, *arguments):
        return self.fail_with(code, message, "trainer", "--repeat", "run/run.json", "-n", "again.nc", *arguments)

    def refuse_wholly(self, code, message, *arguments):
        """The same of the whole message, in which # stands for a checksum."""
        done = self.refuse(code, "", *arguments)
        errors = [line for line in done.stderr.splitlines() if ": error: " in line]
        self.assertEqual([re.sub("[0-9a-f]{16}", "#", line) for line in errors], [f"trainer: error: {message}"])


class Bytes(Repeat):
    def test_are_the_same_from_the_record_alone(self):
        self.record("-e", "4", "-alpha", "0.0123", "--optimizer", "RMSProp", "-mu", "0.8", "-b", "17", "--seed", "5", "-lambda",
                    "0.001")
        self.path("net.json").unlink()
        done = self.repeat()
        self.assertIn("the same bytes as that of the run that was repeated", done.stderr)
        self.assertNotIn("warning", done.stderr)
        self.same("model.nc", "again.nc")

    def test_are_the_same_on_other_ranks_and_threads_and_of_a_repeated_run(self):
        if mpirun(1) is None:
            self.skipTest("mpirun is not installed")
        self.record("--threads", "2")
        done = self.repeat("--threads", "1", "--run-dir", "again", prefix=mpirun(3))
        self.assertNotIn("one kind of device", done.stderr)
        self.assertRegex(self.run_json()["device_name"], ", 2 threads$")
        self.assertRegex(self.run_json("again")["device_name"], ", 1 thread$")
        self.repeat(folder="again", model="third.nc")
        self.same("model.nc", "again.nc", "third.nc")
        self.assertEqual(self.run_json("again")["ranks"], 3)
        self.assertEqual(self.run_json("again")["result"]["checksum"], self.run_json()["result"]["checksum"])

    def test_are_the_same_of_a_run_from_a_models_weights(self):
        self.train("-e", "2", model="first.nc")
        self.record(config="first.nc")
        self.repeat()
        self.same("model.nc", "again.nc")
        self.assertEqual(self.run_json()["origin"]["from"], "weights")
        self.train("-e", "1", "--force", model="first.nc")
        self.refuse_wholly(3, f"run/run.json: the run began with the weights {self.path('first.nc')}, which is another file now: "
                           "its checksum is #, recorded #; put the old one back to repeat the run", "--force")
        self.path("first.nc").unlink()
        self.refuse_wholly(3, f"run/run.json: the run began with the weights {self.path('first.nc')}, which is not there; put it "
                           "back to repeat the run", "--force")

    def test_are_the_same_of_a_run_that_was_validated_and_stopped_early(self):
        self.record("-e", "40", "-alpha", "0.1", "--validation-split", "0.2", "--validation-by", "entry", "--metrics-at", "5",
                    "--early-stop", "recall@5", "--early-stop-from", "0", "--patience", "2")
        self.assertEqual(self.run_json()["result"]["reason"], "early_stop")
        self.assertIn("the same bytes", self.repeat("--threads", "1").stderr)
        self.same("model.nc", "again.nc")
        best = self.run_json()["result"]["best_evaluation"]
        self.assertEqual((best["best"], best["watched"]), (True, "recall@5"))

    def test_are_the_same_of_a_run_whose_part_held_back_has_a_seed_of_its_own(self):
        self.record("-e", "6", "--validation-split", "0.2", "--validation-by", "entry", "--validation-seed", "77", "--keep-best")
        self.assertEqual(self.run_json()["network"]["Training"]["ValidationSeed"], 77)
        self.repeat()
        self.same("model.nc", "again.nc")

    def test_are_the_same_of_a_run_with_validation_data_of_its_own(self):
        self.record("-e", "8", "--validation-input", "test.nc", "--metrics-at", "5", "--keep-best")
        record = self.run_json()
        self.assertEqual(record["validation_inputs"], [str(self.path("test.nc"))])
        self.assertEqual([s["name"] for s in record["validation_sets"]], ["gl_input", "gl_output"])
        self.repeat()
        self.same("model.nc", "again.nc")
        self.path("test.nc").rename(self.path("kept.nc"))
        self.repeat("--validation-input", "kept.nc", "--force")
        self.same("model.nc", "again.nc")
        self.refuse(3, f'{self.path("train.nc")}: data set "gl_output" is not the one that run/run.json records', "--force",
                    "--validation-input", "train.nc")

    def test_are_the_same_of_a_run_from_a_command_file_of_dsstne_that_went_on_from_its_checkpoint(self):
        self.write("train.cdl", json.dumps({
            "Version": 0.8, "Command": "train", "RandomSeed": 12, "Network": "net.json", "Data": "train.nc",
            "TrainingParameters": {"Epochs": 6, "MiniBatch": 32, "Alpha": 0.02, "Lambda": 0.0001, "mu": 0.5, "CheckpointName": "check",
                                   "CheckpointInterval": 2, "ShuffleIndices": False, "Results": "model.nc", "Optimizer": "Nesterov"}}))
        self.succeed("trainer", "--cdl", "train.cdl", "--run-dir", "run")
        self.path("model.nc").unlink()
        self.succeed("trainer", "--cdl", "train.cdl", "--run-dir", "run", "--resume")
        self.assertEqual(self.run_json()["origin"]["from"], "descriptor")
        for checkpoint in self.folder.glob("check*"):
            checkpoint.unlink()
        self.repeat()
        self.same("model.nc", "again.nc")

    def interrupted(self):
        self.stop_after_epochs(signal.SIGKILL, 30, "-c", "net.json", "-i", "train.nc", "-n", "model.nc", "-e", 400, "--run-dir", "run",
                               "--checkpoint-epochs", 5)

    def test_are_the_same_of_a_run_that_was_killed_and_resumed(self):
        self.interrupted()
        before = self.run_json()
        self.assertIsNone(before["result"])
        self.train("-e", "400", "--resume", "--run-dir", "run")
        after = self.run_json()
        self.assertEqual(after["origin"], before["origin"])
        self.assertEqual(after["started"], before["started"])
        for checkpoint in self.folder.glob("model.epoch*"):
            checkpoint.unlink()
        self.repeat("--checkpoint-epochs", "0")
        self.same("model.nc", "again.nc")

    def test_are_the_same_of_a_run_that_went_on_from_anothers_checkpoint(self):
        self.record("-e", "4", "--checkpoint-epochs", "2", folder="first")
        self.train("-e", "6", "-alpha", "0.001", "--resume", "model.epoch2.nc", "--run-dir", "run", model="second.nc")
        origin = self.run_json()["origin"]
        self.assertEqual((origin["from"], origin["file"]), ("checkpoint", str(self.path("model.epoch2.nc"))))
        self.repeat()
        self.same("second.nc", "again.nc")

    def test_settings_that_changed_when_it_was_resumed_make_the_checkpoint_the_origin(self):
        self.record("-e", "2")
        shutil.copy(self.path("model.nc"), self.path("kept.nc"))
        self.train("-e", "4", "-alpha", "0.002", "--resume", "kept.nc", "--run-dir", "run")
        self.assertEqual(self.run_json()["origin"]["from"], "checkpoint")
        self.repeat()
        self.same("model.nc", "again.nc")

    def test_more_epochs_make_another_run_where_the_rate_falls_along_a_cosine(self):
        text = (NETWORK % "SoftMax").replace('"Alpha"', '"RateSchedule": "Cosine", "Alpha"')
        self.write("net.json", text)
        self.record("-e", "4")
        self.repeat()
        self.same("model.nc", "again.nc")
        self.refuse_wholly(2, "--rate-schedule cannot be given with --repeat, which makes the run again as it was; leave one of them "
                           "out", "--rate-schedule", "step", "--force")
        self.train("-e", "6", "--resume", "--run-dir", "run")
        self.assertEqual(self.run_json()["origin"]["from"], "checkpoint")

    def test_the_same_settings_from_another_models_checkpoint_are_another_run(self):
        self.train("-e", "2", model="other.nc")
        self.record("-e", "2", "--force")
        self.train("-e", "4", "--resume", "other.nc", "--run-dir", "run")
        self.assertEqual(self.run_json()["origin"]["file"], str(self.path("other.nc")))


class Record(Repeat):
    def test_says_what_the_run_was_made_of(self):
        done = self.record("--seed", "42", "--threads", "2")
        record = self.run_json()
        self.assertEqual(record["command"][1:], ["-c", "net.json", "-i", "train.nc", "-n", "model.nc", "--run-dir", "run",
                                                 "--seed", "42", "--threads", "2"])
        self.assertEqual((record["folder"], record["seed"], record["ranks"], record["threads"]), (str(self.folder), 42, 1, 2))
        self.assertEqual([(s["name"], s["file"], s["examples"], s["width"]) for s in record["sets"]],
                         [(n, str(self.path("train.nc")), 160, 40) for n in ("gl_input", "gl_output")])
        self.assertRegex(record["sets"][0]["checksum"], "^[0-9a-f]{16}$")
        self.assertEqual(record["network"]["Training"]["Seed"], 42)
        self.assertEqual([layer["units"] for layer in record["plan"]["layers"]], [40, 16, 40])
        self.assertEqual([(e["source"], e["destination"]) for e in record["plan"]["edges"]],
                         [("Input", "Hidden"), ("Hidden", "Output")])
        self.assertTrue(all(edge["floor_seconds"] > 0 for edge in record["plan"]["edges"]))
        result = record["result"]
        self.assertEqual((result["reason"], result["epochs"], result["steps"]), ("completed", 3, 15))
        last = [event for event in read_log(self.path("run/log.jsonl")) if event["event"] == "epoch"][-1]
        self.assertEqual({**result["last_epoch"], "event": "epoch", "time": last["time"]}, last)
        self.assertIn("examples/s", done.stderr)

    def test_checksums_do_not_depend_on_how_data_are_held(self):
        self.record(folder="held")
        self.record("--data-memory", "1", "--force", folder="streamed")
        self.assertEqual(self.run_json("held")["sets"], self.run_json("streamed")["sets"])

    def test_a_damaged_record_is_named_and_a_resumed_run_writes_it_anew(self):
        self.record("-e", "2")
        shutil.copytree(self.path("run"), self.path("before"))
        self.write("run/run.json", "{}")
        self.refuse_wholly(2, 'run/run.json: "format" is missing or not as runs write it; give the run.json that a run wrote '
                           "to its --run-dir")
        for key in ("device", "precision"):
            self.write("run/run.json", json.dumps({**self.run_json("before"), key: "odd"}))
            self.refuse_wholly(2, f'run/run.json: "{key}" is missing or not as runs write it; give the run.json that a run wrote '
                               "to its --run-dir")
        done = self.train("-e", "4", "--resume", "--run-dir", "run")
        self.assertIn("it is written anew", done.stderr)
        self.assertEqual(self.run_json()["result"]["epochs"], 4)


class Refused(Repeat):
    def test_other_data(self):
        self.record()
        other = [list(row) for row in self.known]
        other[7] = sorted(set(range(self.width)) - set(other[7]))[:3]
        write_datasets(self.path("other.nc"), [("gl_input", self.width, self.known, None),
                                               ("gl_output", self.width, other, None)])
        self.refuse_wholly(3, f'{self.path("other.nc")}: data set "gl_output" is not the one that run/run.json records: its checksum is #, '
                           f"recorded # of {self.path('train.nc')}; give the run's own data with --input and --output-data", "-i",
                           "other.nc", "-o", "other.nc")

    def test_records_of_other_programs(self):
        self.record()
        whole = self.run_json()
        self.write("run/run.json", json.dumps({**whole, "format": 99}))
        self.refuse_wholly(2, "run/run.json: its format is 99, this program reads up to 1; use the program that recorded the run")
        self.write("run/run.json", json.dumps({**whole, "sets": whole["sets"][:1]}))
        self.refuse_wholly(3, "run/run.json: the run had 1 data sets, now there are 2; give its own data with --input and "
                           "--output-data")

    def test_data_that_have_moved_are_found_where_they_are_said_to_be(self):
        self.record()
        self.path("train.nc").rename(self.path("moved.nc"))
        self.refuse(3, f"{self.path('train.nc')}: ")
        self.repeat("-i", "moved.nc", "-o", "moved.nc")
        self.same("model.nc", "again.nc")

    def test_data_are_matched_as_they_were(self):
        entries = [(e, u) for e, row in enumerate(self.known) for u in row]
        for name, order in (("a", entries), ("b", entries[::-1])):  # features in another order
            self.write(f"{name}.txt", "".join(f"{self.examples[e]},{self.names[u]}\n" for e, u in order))
            self.succeed("importer", "--input", f"{name}.txt", "--format", "csv", "--header", "no", "--name", "gl", "--output",
                         f"{name}.nc")
        for trusted in ((), ("--trust-index",)):
            with self.subTest(trusted=trusted):
                folder, model = ("trusted", "trusted.nc") if trusted else ("matched", "matched.nc")
                self.succeed("trainer", "-c", "net.json", "-i", "a.nc", "--validation-input", "b.nc", "--keep-best", "loss", "-e", "3",
                             "-n", model, "--run-dir", folder, *trusted)
                self.assertEqual(json.loads(self.read(f"{folder}/run.json"))["trust_index"], bool(trusted))
                done = self.succeed("trainer", "--repeat", f"{folder}/run.json", "-n", f"again_{model}", "--run-dir", f"again_{folder}")
                self.assertIn("the model has the same bytes as that of the run that was repeated", done.stderr)
                evaluations = [[{k: v for k, v in event.items() if k not in ("time", "seconds")}
                                for event in map(json.loads, self.read(f"{name}/log.jsonl").splitlines()) if event["event"] == "eval"]
                               for name in (folder, f"again_{folder}")]
                self.assertEqual(*evaluations)
        self.fail_with(2, "--trust-index cannot be given with --repeat of a run that was made without it; leave it out", "trainer",
                       "--repeat", "matched/run.json", "-n", "third.nc", "--trust-index")

    def test_settings_beside_it(self):
        self.record()
        for option in (["-e", "3"], ["--rate", "0.1"], ["-c", "net.json"], ["--resume"], ["--seed", "1"], ["--validation-seed", "1"],
                       ["--shuffle", "no"]):
            name = {"-e": "--epochs", "-c": "--config"}.get(option[0], option[0])
            self.refuse_wholly(2, f"{name} cannot be given with --repeat, which makes the run again as it was; leave one of them "
                               "out", *option)

    def test_the_model_of_the_run_itself_is_not_overwritten(self):
        self.record()
        self.fail_with(2, f"{self.path('model.nc')}: the network file exists already", "trainer", "--repeat", "run/run.json")

    def test_another_build_or_device_is_warned_of(self):
        self.record()
        record = self.run_json()
        record.update(binary="0" * 16, device="cuda", precision="bf16")
        record["result"]["checksum"] = "0" * 16
        self.write("run/run.json", json.dumps(record))
        done = self.repeat("--device", "cpu")
        for part in ("only: device cpu, recorded cuda", "only: precision fp32, recorded bf16", "another build of the program",
                     "the model is not that of the run that was repeated"):
            self.assertIn(part, done.stderr)
        self.same("model.nc", "again.nc")


if __name__ == "__main__":
    unittest.main()
