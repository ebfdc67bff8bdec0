# SPDX-License-Identifier: Apache-2.0
"""DSSTNE's command files on real data: the shipped ones, and what each of their settings does."""
import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import numpy as np

from norn_files import model_arrays, write_datasets
from programs import BIN, SOURCE, ProgramTest, mpirun

DATA = SOURCE / "tests/data/debian_packages"


class CommandFiles(ProgramTest):
    @classmethod
    def setUpClass(cls):
        cls.data = pathlib.Path(tempfile.mkdtemp(prefix="norn-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.data, ignore_errors=True)
        run = (BIN / "importer", "-q", "--name", "gl", "--features", cls.data / "features", "--input", DATA / "train.txt.gz")
        subprocess.run([*run, "--target", DATA / "test.txt.gz", "--output", cls.data / "gl_test.nc"], check=True,
                       capture_output=True)
        subprocess.run([*run, "--output", cls.data / "gl.nc"], check=True, capture_output=True)

    def setUp(self):
        super().setUp()
        shutil.copytree(SOURCE / "configs/dsstne", self.path("configs/dsstne"))
        for name in ("gl.nc", "gl_test.nc"):
            shutil.copy(self.data / name, self.folder)
        # As shipped, but for fewer units: these tests are about settings.
        text = self.read("configs/dsstne/autoencoder.json").decode()
        self.write("small.json", text.replace('"N": 128', '"N": 16'))

    def commands(self, name, base="train.cdl", **changes):
        """A copy of a shipped command file with other training parameters; None leaves one out."""
        text = (SOURCE / "configs/dsstne" / base).read_text()
        commands = json.loads("\n".join(line for line in text.splitlines() if not line.startswith("//")))
        parameters = commands.setdefault("TrainingParameters", {})
        commands["Network"] = "small.json"
        parameters["AlphaInterval"] = 0
        for key, value in changes.items():
            at = commands if key in ("Network", "Data", "Command", "RandomSeed") else parameters
            at[key] = value
            if value is None:
                del at[key]
        self.write(name, json.dumps(commands))
        return name

    def model(self, name="network.nc"):
        return self.read(name)

    def test_train_predict_and_validate_as_shipped(self):
        done = self.succeed("trainer", "--cdl", "configs/dsstne/train.cdl", "-e", "6")
        self.assertEqual(done.stdout.count("NNNetwork::Train: Epoch "), 6)
        self.assertEqual(sorted(path.name for path in self.folder.glob("check*")), ["check.epoch5.nc"])
        done = self.succeed("predictor", "--cdl", "configs/dsstne/predict.cdl")
        lines = [line.split(",") for line in done.stdout.splitlines()]
        self.assertEqual([line[0] for line in lines], [str(k) for k in range(1, 11)])
        for line in lines:
            self.assertEqual([len(value.split(".")[1]) for value in line[1:]], [4, 4, 4])
        # The same measures by the evaluator; DSSTNE leaves out nothing that was seen.
        told = json.loads(self.succeed("evaluator", "-n", "network.nc", "-i", "gl_test.nc", "--keep-seen", "--top",
                                       "1,2,3,4,5,6,7,8,9,10", "--format", "json").stdout)["model"]
        for line, at in zip(lines, told):
            self.assertAlmostEqual(float(line[1]), at["Precision"], delta=6e-5)
            self.assertAlmostEqual(float(line[2]), at["Recall"], delta=6e-5)
            self.assertLessEqual(float(line[3]), at["NDCG"] + 6e-5)  # its ideal list has all targets
        self.assertGreater(float(lines[9][2]), 0.05)
        done = self.succeed("trainer", "--cdl", "configs/dsstne/validate.cdl")
        self.assertEqual(done.stdout.splitlines()[-1], "gradients agree with the cost")
        table = self.succeed("trainer", "--check-gradients", "-c", "configs/dsstne/autoencoder.json", "-i", "gl.nc", "-b", "16").stdout
        self.assertEqual(table.splitlines()[-1], "gradients agree with the cost")
        counts = slice(0, 62)  # names, parameters, how many were checked and how many are wrong
        self.assertEqual([line[counts] for line in table.splitlines()], [line[counts] for line in done.stdout.splitlines()])

    def test_images_as_shipped(self):
        random = np.random.default_rng(self.random.getrandbits(64))
        for part, count in (("training", 11), ("test", 5)):
            classes = random.integers(0, 10, count)
            images = random.integers(0, 256, (count, 32 * 32 * 3), dtype=np.uint8)
            write_datasets(self.path(f"cifar10_{part}.nc"), [("input", [32, 32, 3], images, None),
                                                             ("output", 10, [[int(one)] for one in classes], None)])
        done = self.succeed("trainer", "--cdl", "configs/dsstne/cifar10_train.cdl", "-e", "1")
        self.assertEqual(done.stdout.count("NNNetwork::Train: Epoch "), 1)
        done = self.succeed("predictor", "--cdl", "configs/dsstne/cifar10_predict.cdl")
        lines = [line.split(",") for line in done.stdout.splitlines()]
        self.assertEqual([line[0] for line in lines], [str(k) for k in range(1, 11)])
        self.assertEqual(lines[9][2], "1.0000", "all ten classes")

    def test_is_the_same_as_options(self):
        self.commands("plain.cdl", Epochs=2, ShuffleIndices=True, CheckpointInterval=1)
        self.succeed("trainer", "--cdl", "plain.cdl")
        self.succeed("trainer", "-c", "small.json", "-i", "gl.nc", "-n", "same.nc", "-b", "256", "-e", "2",
                     "-alpha", "0.025", "-lambda", "0.0001", "--optimizer", "Nesterov", "-mu", "0.9", "--seed", "12345",
                     "--shuffle", "yes")
        self.assertEqual(self.model(), self.model("same.nc"))
        self.assertTrue(self.path("check.epoch1.nc").exists())

    def test_defaults_are_dsstnes(self):
        names = ("MiniBatch", "Alpha", "AlphaInterval", "AlphaMultiplier", "mu", "lambda", "Optimizer", "CheckpointInterval",
                 "CheckpointName", "Results", "RandomSeed")
        self.commands("bare.cdl", Epochs=1, **dict.fromkeys(names))
        self.succeed("trainer", "--cdl", "bare.cdl")
        self.succeed("trainer", "-c", "small.json", "-i", "gl.nc", "-n", "same.nc", "-b", "1024", "-e", "1",
                     "-alpha", "0.1", "-lambda", "0.001")
        self.assertEqual(self.model(), self.model("same.nc"))

    def test_options_win(self):
        self.commands("plain.cdl", Epochs=1)
        shutil.copy(self.path("gl.nc"), self.path("other.nc"))
        shutil.copy(self.path("small.json"), self.path("other.json"))
        self.succeed("trainer", "--cdl", "plain.cdl")
        self.path("gl.nc").unlink()
        self.succeed("trainer", "-b", "256", "-n", "mine.nc", "-i", "other.nc", "--seed", "3", "--cdl", "plain.cdl", "-c",
                     "other.json", "--checkpoint-name", "mine", "--keep", "1")
        weights, others = (model_arrays(self.path(name))[0]["weight0_weights"] for name in ("network.nc", "mine.nc"))
        self.assertFalse(np.array_equal(weights, others), "--seed has had no effect")
        self.succeed("trainer", "--cdl", "plain.cdl", "-n", "again.nc", "-i", "other.nc", "--checkpoint-name", "again")
        self.assertEqual(self.model(), self.model("again.nc"))

    def test_the_rate_falls_after_every_interval(self):
        self.commands("falls.cdl", Epochs=2, AlphaInterval=1, AlphaMultiplier=0.5)
        self.succeed("trainer", "--cdl", "falls.cdl")
        self.succeed("trainer", "-c", "small.json", "-i", "gl.nc", "-n", "same.nc", "-b", "256", "-e", "2", "-alpha", "0.025",
                     "-lambda", "0.0001", "--optimizer", "Nesterov", "-mu", "0.9", "--seed", "12345", "--rate-schedule", "step",
                     "--rate-interval", "1", "--rate-multiplier", "0.5")
        self.assertEqual(self.model(), self.model("same.nc"))
        self.commands("stays.cdl", Epochs=2, Results="stays.nc", CheckpointName="s")
        self.succeed("trainer", "--cdl", "stays.cdl")
        weights, others = (model_arrays(self.path(name))[0]["weight0_weights"] for name in ("network.nc", "stays.nc"))
        self.assertFalse(np.array_equal(weights, others))
        self.commands("one.cdl", Epochs=2, AlphaInterval=1, AlphaMultiplier=1.0, Results="one.nc", CheckpointName="o")
        self.succeed("trainer", "--cdl", "one.cdl")
        self.assertEqual(self.model("stays.nc"), self.model("one.nc"))

    def test_resumes_from_its_checkpoints(self):
        self.commands("plain.cdl", Epochs=4, CheckpointInterval=1)
        self.succeed("trainer", "--cdl", "plain.cdl")
        straight = self.model()
        for name in ("network.nc", "check.epoch3.nc"):
            self.path(name).unlink()
        self.fail_with(2, "check.epoch2.nc: a checkpoint of an earlier run exists; give --resume to go on from it, --force "
                          "to start anew, or another --model", "trainer", "--cdl", "plain.cdl")
        done = self.succeed("trainer", "--cdl", "plain.cdl", "--resume")
        self.assertIn("resuming from check.epoch2.nc", done.stderr)
        self.assertEqual(self.model(), straight)
        self.succeed("trainer", "--cdl", "plain.cdl", "--force", "-e", "1")
        self.assertEqual(list(self.folder.glob("check.epoch[1-9].nc")), [])

    def test_on_several_ranks(self):
        if mpirun(1) is None:
            self.skipTest("mpirun is not installed")
        self.commands("plain.cdl", Epochs=2)
        self.succeed("trainer", "--cdl", "plain.cdl")
        self.succeed("trainer", "--cdl", "plain.cdl", "-n", "two.nc", "--checkpoint-name", "two", "--threads", "1",
                     prefix=mpirun(2))
        self.assertEqual(self.model(), self.model("two.nc"))
        alone = self.succeed("predictor", "--cdl", "configs/dsstne/predict.cdl").stdout
        self.assertEqual(self.succeed("predictor", "--cdl", "configs/dsstne/predict.cdl", "--threads", "1",
                                      prefix=mpirun(2)).stdout, alone)
        self.fail_with(2, "gradients are checked by one process; start one, without mpirun",
                       "trainer", "--cdl", "configs/dsstne/validate.cdl", prefix=mpirun(2))

    def test_what_is_wrong(self):
        self.fail_with(2, "configs/dsstne/predict.cdl: Command Predict is run by the predictor: predictor --cdl "
                          "configs/dsstne/predict.cdl", "trainer", "--cdl", "configs/dsstne/predict.cdl")
        self.fail_with(2, "configs/dsstne/train.cdl: Command Train is run by the trainer: trainer --cdl "
                          "configs/dsstne/train.cdl", "predictor", "--cdl", "configs/dsstne/train.cdl")
        self.write("wrong.cdl", '{"Network": "x.json", "Data": "gl.nc", "Command": "Train",\n "TrainingParameters": {"Epocs": 1}}')
        done = self.run_program("trainer", "--cdl", "wrong.cdl", "--errors=json")
        error = json.loads(done.stderr)["errors"][0]
        self.assertEqual((done.returncode, error["file"], error["line"], error["key"], error["suggestion"]),
                         (2, "wrong.cdl", 2, "TrainingParameters.Epocs", "Epochs"))
        self.fail_with(2, "none.cdl: cannot be read; expected a command file in JSON, as DSSTNE's CDL", "trainer", "--cdl",
                       "none.cdl")

    def test_predictions_go_to_a_file_too(self):
        self.commands("plain.cdl", Epochs=1)
        self.succeed("trainer", "--cdl", "plain.cdl")
        self.write("lines.cdl", '{"Network": "network.nc", "Data": "gl_test.nc", "Command": "predict", '
                   '"PredictionParameters": {"Results": "lines.txt"}}')
        done = self.succeed("predictor", "--cdl", "lines.cdl")
        self.assertEqual(done.stdout, self.read("lines.txt").decode())


if __name__ == "__main__":
    unittest.main()
