#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""trainer --run-dir: the log of a run, whatever happens to it."""
import copy
import os
import re
import signal
import unittest

from programs import NETWORK, ProgramTest, mpirun
from run_files import kinds, read_log, validator


class RunFolder(ProgramTest):
    def record(self, *arguments, folder="run", **more):
        return self.train("--run-dir", folder, *arguments, **more)

    def events(self, folder="run"):
        return read_log(self.path(folder) / "log.jsonl")


class Log(RunFolder):
    def test_tells_a_run_from_start_to_end(self):
        done = self.record("-e", "4", "--checkpoint-epochs", "2", "--seed", "99", "--threads", "1", "--log-format", "dsstne",
                           folder="runs/first")
        events = self.events("runs/first")
        [checkpoint] = [event for event in events if event["event"] == "checkpoint"]
        self.assertGreater(events.index(checkpoint), 3)  # training goes on while it is written
        events.remove(checkpoint)
        self.assertEqual(kinds(events), ["start", "step", "epoch", "epoch", "epoch", "epoch", "end"])
        start = events[0]
        said = {"program": "trainer", "model": "model.nc", "resumed": False, "epoch": 0, "step": 0, "epochs": 4,
                "batch": 32, "examples": 160, "ranks": 1, "threads": 1, "seed": 99}
        self.assertEqual({key: start[key] for key in said}, said)
        self.assertEqual(start["weights"], 40 * 16 + 16 + 16 * 40 + 40)
        self.assertIn(start["version"], self.succeed("trainer", "--version").stdout)
        epochs = [event for event in events if event["event"] == "epoch"]
        self.assertEqual([(event["epoch"], event["step"]) for event in epochs], [(1, 5), (2, 10), (3, 15), (4, 20)])
        printed = re.findall(r"average training error ([\d.]+), average regularization error ([\d.]+)", done.stdout)
        for event, (cost, regularization) in zip(epochs, printed, strict=True):
            self.assertAlmostEqual(event["cost"], float(cost), delta=1e-6)
            self.assertAlmostEqual(event["regularization"], float(regularization), delta=1e-6)
        self.assertAlmostEqual(epochs[0]["rate"], 0.01, places=7)
        self.assertEqual((checkpoint["epoch"], checkpoint["step"], checkpoint["file"]), (2, 10, "model.epoch2.nc"))
        self.assertEqual((events[-1]["reason"], events[-1]["epochs"], events[-1]["model"]), ("completed", 4, "model.nc"))
        times = [event["time"] for event in self.events("runs/first")]
        self.assertEqual(times, sorted(times))

    def test_leaves_the_model_as_it_is_without_one(self):
        self.record(model="recorded.nc")
        self.train(model="plain.nc")
        self.assertEqual(self.read("recorded.nc"), self.read("plain.nc"))

    def test_is_written_once_by_several_ranks(self):
        if mpirun(1) is None:
            self.skipTest("mpirun is not installed")
        self.record("--threads", "1", prefix=mpirun(3))
        events = self.events()
        # A slow machine has more events of steps.
        self.assertEqual([kind for kind in kinds(events) if kind != "step"], ["start", "epoch", "epoch", "epoch", "end"])
        self.assertEqual(events[0]["ranks"], 3)

    def test_tells_what_validating_came_to(self):
        done = self.record("-e", "40", "--validation-split", "0.2", "--metrics-at", "5,10", "--validate-every", "2", "--early-stop",
                           "recall@5", "--early-stop-from", "0", "--patience", "2", "-alpha", "0.1")
        events = self.events()
        evaluated = [event for event in events if event["event"] == "eval"]
        self.assertEqual([event["epoch"] for event in evaluated], list(range(2, 2 * len(evaluated) + 1, 2)))
        for event in evaluated:
            self.assertEqual([at["k"] for at in event["metrics"]], [5, 10])
            self.assertEqual((event["watched"], event["value"]), ("recall@5", event["metrics"][0]["recall"]))
        self.assertTrue(evaluated[0]["best"])
        self.assertEqual(events[-1]["reason"], "early_stop", done.stderr)
        self.assertEqual((events[-1]["epochs"], evaluated[-1]["since_best"]), (evaluated[-1]["epoch"], 2))

    def test_its_schema_refuses_wrong_lines(self):
        self.record("--checkpoint-epochs", "1", "--validation-split", "0.2")
        log = validator("log")
        for event in self.events():
            for key, value in event.items():
                for wrong in (None, {"x": 1}, -1 if isinstance(value, (int, float)) else 1):
                    if key in ("cost", "regularization", "value") and wrong in (None, -1):
                        continue
                    self.assertFalse(log.is_valid({**event, key: wrong}), f"{event['event']}: {key}: {wrong}")
                less = copy.copy(event)
                del less[key]
                self.assertEqual(log.is_valid(less), (event["event"], key) == ("end", "model"), f"{event['event']}: no {key}")
            self.assertFalse(log.is_valid({**event, "more": 1}))


class Continued(RunFolder):
    EPOCHS = 400

    def interrupt(self, number, epochs=20):
        """Ends a run by a signal in the midst of it."""
        self.stop_after_epochs(number, epochs, "-c", "net.json", "-i", "train.nc", "-n", "model.nc", "-e", self.EPOCHS,
                               "--checkpoint-epochs", 3, "--run-dir", "run")

    def test_after_a_signal(self):
        self.interrupt(signal.SIGTERM)
        before = self.events()
        self.assertEqual(kinds(before)[-2:], ["checkpoint", "end"])
        self.assertEqual((before[-1]["reason"], "model" in before[-1]), ("stopped", False))
        self.record("-e", self.EPOCHS, "--resume")
        events = self.events()
        self.assertEqual(events[:len(before)], before)
        start = events[len(before)]
        self.assertEqual((start["event"], start["resumed"], start["step"]), ("start", True, before[-2]["step"]))
        self.assertEqual([event["epoch"] for event in events if event["event"] == "epoch"],
                         list(range(1, self.EPOCHS + 1)))
        self.assertEqual(events[-1]["reason"], "completed")

    def test_after_kill_9_with_a_torn_last_line(self):
        self.interrupt(signal.SIGKILL)
        log = self.path("run") / "log.jsonl"
        whole = log.read_bytes()
        self.assertTrue(whole.endswith(b"\n"), "a kill tore a line")
        log.write_bytes(whole + b'{"event": "epoch", "time": "2026-')
        self.record("-e", self.EPOCHS, "--resume")
        self.assertTrue(log.read_bytes().startswith(whole + b'{"event": "start"'))
        events = self.events()
        again = [event for event in events if event["event"] == "start"][1]
        self.assertTrue(again["resumed"])
        self.assertGreater(again["step"], 0)
        self.assertEqual(events[-1]["event"], "end")

    def test_a_log_that_is_one_torn_line(self):
        self.path("run").mkdir()
        self.path("run/log.jsonl").write_text("x" * 10000)
        self.record("--resume")
        self.assertEqual(kinds(self.events())[0], "start")

    def test_an_earlier_log_is_not_overwritten_unless_forced(self):
        self.record()
        before = self.read("run/log.jsonl")
        self.fail_with(2, "run/log.jsonl: the log of an earlier run exists already; give another --run-dir, --force to "
                       "replace it, or --resume to go on with its run", "trainer", "-c", "net.json", "-i", "train.nc",
                       "-n", "other.nc", "--run-dir", "run")
        self.assertEqual(self.read("run/log.jsonl"), before)
        self.record("--force", "-e", "1")
        self.assertEqual(kinds(self.events()), ["start", "step", "epoch", "end"])


class Trouble(RunFolder):
    def fail_recorded(self, code, message, *arguments, config="net.json", data="train.nc", **more):
        """A run that fails, and its error event."""
        done = self.fail_with(code, message, "trainer", "-c", config, "-i", data, "-n", "model.nc", "--run-dir", "run",
                              *arguments, **more)
        error = self.events()[-1]
        self.assertEqual((error["event"], error["exit_code"]), ("error", code))
        self.assertIn(error["message"], done.stderr)
        return error

    def test_a_divergence_is_recorded(self):
        text = (NETWORK % "Linear").replace("CrossEntropy", "L2").replace("Adam", "SGD").replace("Tanh", "Linear")
        self.write("wild.json", text)
        error = self.fail_recorded(6, 'layer "', "-alpha", "1e30", "-e", "50", config="wild.json")
        self.assertTrue(error["message"].startswith('layer "'))
        self.assertEqual(kinds(self.events())[0], "start")

    def test_data_that_are_missing_are_recorded(self):
        self.fail_recorded(3, "none.nc: ", data="none.nc")
        self.assertEqual(kinds(self.events()), ["error"])
        if mpirun(1) is not None:
            self.fail_recorded(3, "none.nc: ", "--force", data="none.nc", prefix=mpirun(3))

    def test_a_folder_that_cannot_be_made(self):
        self.write("taken", "a file")
        self.fail_with(3, "--run-dir taken: the folder cannot be made: ", "trainer", "-c", "net.json", "-i", "train.nc",
                       "-n", "model.nc", "--run-dir", "taken")

    def test_a_full_disk_is_said_once_and_the_run_goes_on(self):
        small = self.mount_small("16k")
        self.train("-e", "100", model="plain.nc")
        done = self.record("-e", "100", folder=small / "run")
        self.assertEqual(self.read("model.nc"), self.read("plain.nc"))
        warnings = [line for line in done.stderr.splitlines() if "warning" in line]
        self.assertEqual(len(warnings), 1, done.stderr)
        self.assertRegex(warnings[0], "small/run/[^ ]+: cannot be written.*; the run goes on without")
        events = read_log(small / "run/log.jsonl")
        self.assertEqual(kinds(events)[0], "start")
        self.assertGreater(len(events), 10)

    def test_a_plan_records_nothing(self):
        self.record("--plan")
        self.assertFalse(self.path("run").exists())


if __name__ == "__main__":
    unittest.main()
