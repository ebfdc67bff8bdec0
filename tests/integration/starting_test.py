# SPDX-License-Identifier: Apache-2.0
"""How a run of the trainer begins: where it may write, how many epochs, and that no other run is at the same model."""
import os
import unittest

from norn_files import model_arrays
from programs import ProgramTest, mpirun


class Checkpoints(ProgramTest):
    """Checkpoints whose name is not the model's."""

    def refused(self, message, name, *arguments, code=3, **more):
        done = self.fail_with(code, message, "trainer", "-c", "net.json", "-i", "train.nc", "-n", "model.nc", "--checkpoint-name",
                              name, *arguments, **more)
        self.assertEqual(done.stdout, "")  # not an epoch was trained
        self.assertEqual(list(self.folder.glob("model*")), [])

    def test_in_a_folder_that_is_not_there_are_refused_at_the_start(self):
        self.refused("none/ck.nc: the folder none does not exist; make it first", "none/ck")
        if mpirun(1) is not None:
            self.refused("none/ck.nc: the folder none does not exist; make it first", "none/ck", prefix=mpirun(2))

    def test_in_a_folder_that_cannot_be_written_are_refused_at_the_start(self):
        if os.geteuid() == 0:  # permissions do not hold for the superuser
            self.refused("/proc/ck.nc: no file can be made in /proc: ", "/proc/ck")
        else:
            self.path("closed").mkdir(mode=0o500)
            self.refused("closed/ck.nc: no file can be made in closed: permission denied", "closed/ck")


class NoEpochs(ProgramTest):
    def test_write_the_initial_model_which_can_be_trained(self):
        self.train("-e", "0")
        self.train("-e", "3", "--resume")
        self.train("-e", "3", model="straight.nc")
        self.assertEqual(self.read("model.nc"), self.read("straight.nc"))

    def test_by_option_and_by_descriptor_are_the_same(self):
        self.assertNotIn("average error", self.train("-e", "0").stdout)
        self.write("none.json", self.path("net.json").read_text().replace('"Epochs": 3', '"Epochs": 0'))
        self.train(config="none.json", model="none.nc")
        self.assertEqual(self.read("model.nc"), self.read("none.nc"))

    def test_copy_a_model(self):
        self.train()
        self.train("-e", "0", config="model.nc", model="copy.nc")
        trained, copy = (model_arrays(self.path(name))[0] for name in ("model.nc", "copy.nc"))
        for name in ("weight0_weights", "weight1_weights", "weight0_bias"):
            self.assertTrue((trained[name] == copy[name]).all(), name)

    def test_have_nothing_to_validate(self):
        done = self.train("-e", "0", "--validation-split", "0.2", "--early-stop", "ndcg@5", "--rate-schedule", "cosine", "--warm-up", "2",
                          "--run-dir", "run", "--checkpoint-epochs", "1")
        self.assertNotIn("best", done.stderr)
        self.train("-e", "2", "--resume", "--run-dir", "run", "--checkpoint-epochs", "1")
        self.train("-e", "2", "--validation-split", "0.2", "--early-stop", "ndcg@5", "--rate-schedule", "cosine", "--warm-up", "2",
                   model="straight.nc")
        self.assertEqual(self.read("model.nc"), self.read("straight.nc"))

    def test_below_none_are_refused(self):
        self.fail_with(2, "--epochs -1 is out of range: it must be at least 0", "trainer", "-c", "net.json", "-i", "train.nc", "-n",
                       "model.nc", "-e", "-1")


if __name__ == "__main__":
    unittest.main()
