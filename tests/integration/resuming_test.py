# SPDX-License-Identifier: Apache-2.0
"""What the trainer says of a run that is resumed with other data, or with another descriptor, than it had before."""
import json
import re
import signal
import subprocess
import unittest

import netCDF4
import numpy as np

from norn_files import write_datasets
from programs import BIN, LIMIT_SECONDS, NETWORK, ODD_NETWORK, WIDE_NETWORK, ProgramTest, mpirun

RUN = ("trainer", "-c", "net.json", "-i", "train.nc", "-n", "model.nc")


class Data(ProgramTest):
    def write_train(self, rows):
        write_datasets(self.path("train.nc"), [(name, self.width, rows, None) for name in ("gl_input", "gl_output")])

    def stop_amid_an_epoch(self):
        """Leaves one checkpoint, after some of the 160 batches of an epoch; gives back its name."""
        for _ in range(20):
            command = [str(BIN / RUN[0]), *RUN[1:], "-e", "1000", "-b", "1", "--checkpoint-epochs", "0", "--force"]
            with subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
                process.stdout.readline()
                process.send_signal(signal.SIGUSR1)
                process.communicate(timeout=LIMIT_SECONDS)
            for path in self.folder.glob("model.epoch*.batch*.nc"):
                return path.name
        self.fail("no stop came amid an epoch")

    def test_with_another_number_of_examples_amid_an_epoch_are_refused(self):
        name = self.stop_amid_an_epoch()
        for rows in (self.known[:-1], self.known + self.known[:3], self.known[:1]):
            self.write_train(rows)
            message = (f"{name}: the checkpoint is of the middle of an epoch over 160 examples, and data set \"gl_input\" has "
                       f"{len(rows)}; give the data that it was trained on, or resume from a checkpoint of whole epochs")
            for prefix in [(), mpirun(3)] if mpirun(1) else [()]:
                done = self.fail_with(3, message, *RUN, "-e", "1000", "--resume", prefix=prefix)
                self.assertEqual(done.stdout, "")

    def test_that_are_others_are_told_and_trained_on(self):
        self.train("-e", "2")
        self.write_train(self.known[:-9])
        done = self.train("-e", "4", "--resume", "--log-format", "dsstne")
        self.assertIn('data set "gl_input" is not the one that model.nc was trained on: it has 151 examples, not 160; the run goes '
                      'on with it', done.stderr)
        self.assertIn("Epoch 4, ", done.stdout)
        rows = [list(row) for row in self.known[:-9]]
        rows[77] = [u for u in range(3) if u not in rows[77]] + [7]
        self.write_train(rows)
        done = self.train("-e", "5", "--resume")
        self.assertIn('data set "gl_output" is not the one that model.nc was trained on: it has other contents; the run goes on with '
                      'it', done.stderr)
        self.assertNotIn("is not the one", self.train("-e", "6", "--resume").stderr)

    def test_that_are_the_same_elsewhere_are_the_same(self):
        self.train("-e", "2")
        self.path("train.nc").rename(self.path("moved.nc"))
        for more in (("--data-memory", "1"), ("--run-dir", "run")):
            done = self.succeed("trainer", "-c", "net.json", "-i", "moved.nc", "-n", "model.nc", "-e", "3", "--resume", *more)
            self.assertNotIn("is not the one", done.stderr)

    def test_with_fewer_examples_than_the_batch_are_one_batch(self):
        self.train("-e", "2")
        for rows, epochs in ((self.known[:20], "4"), (self.known[:1], "5"), (self.known, "6")):
            self.write_train(rows)
            self.assertIn(f"epoch {epochs}/{epochs}: ", self.train("-e", epochs, "--resume").stdout)
        with netCDF4.Dataset(self.path("model.nc")) as model:
            self.assertEqual(json.loads(model.norn_descriptor)["Training"]["Batch"], 32)

    def rewrite(self, name, **changed):
        """The file as older programs wrote it, without seal, checksums and data sets, with attributes changed."""
        with netCDF4.Dataset(self.path(name)) as old, netCDF4.Dataset(self.path("bare.nc"), "w") as bare:
            for attribute in old.ncattrs():
                if not re.match("norn_(seal|checksum|set)", attribute):
                    bare.setncattr(attribute, changed.get(attribute, old.getncattr(attribute)))
            for dimension in old.dimensions.values():
                bare.createDimension(dimension.name, dimension.size)
            for variable in old.variables.values():
                bare.createVariable(variable.name, variable.dtype, variable.dimensions)[:] = variable[:]

    def test_an_epoch_that_has_no_such_batch_is_refused(self):
        self.train("-e", "2")
        for batch in (5, 41, 2**40):  # of the batches 0 to 4
            self.rewrite("model.nc", norn_batch=np.int64(batch))
            self.fail_with(3, f"bare.nc: {batch} batches of an epoch are done, of which these data have 5; give the data that it was "
                              "trained on, or resume from a checkpoint of whole epochs",
                           *RUN[:-1], "new.nc", "-e", "4", "--resume", "bare.nc")
        self.rewrite("model.nc")
        self.train("-e", "4", "--resume", "bare.nc", model="new.nc")

    def test_counts_that_are_none_are_refused(self):
        self.train("-e", "2")
        for name, most in (("norn_epoch", 2**30), ("norn_batch", 2**60), ("norn_step", 2**60), ("norn_epoch_examples", 2**60)):
            for value in (-1, -2**63, most + 1, 2**63 - 1):
                self.rewrite("model.nc", **{name: np.int64(value)})
                self.fail_with(3, f'bare.nc: attribute "{name}" is {value}, expected 0 to {most}; the file is damaged, resume from '
                                  "another", *RUN[:-1], "new.nc", "-e", "4", "--resume", "bare.nc")


class Descriptor(ProgramTest):
    TOLD = "goes on as it was"

    def test_that_is_the_same_is_not_spoken_of(self):
        for network in (NETWORK % "Sigmoid", ODD_NETWORK % ("Relu", "SoftMax"), WIDE_NETWORK,
                        (NETWORK % "SoftMax").replace('"Batch": 32, ', ""),
                        (NETWORK % "SoftMax").replace('"Name": "Input"', '"Name": "Eingang"')):
            self.write("net.json", network)
            for first, again in (((), ()), (("-alpha", "0.5", "--validation-split", "0.2", "--shuffle", "yes"),) * 2):
                self.train("-e", "1", "--force", *first)
                self.assertNotIn(self.TOLD, self.train("-e", "2", "--resume", *again).stderr, network)

    def test_of_images_is_told_by_what_was_edited_alone(self):
        random = np.random.default_rng(self.random.getrandbits(64))
        images = random.integers(0, 256, (9, 7 * 6 * 3), dtype=np.uint8)
        write_datasets(self.path("images.nc"), [("images", [7, 6, 3], images, None), ("classes", 3, [[i % 3] for i in range(9)], None)])
        network = {"Layers": [{"Kind": "Input", "Type": "Convolutional", "N": "auto", "DataSet": "images"},
                              {"Name": "Conv", "Type": "Convolutional", "N": 4, "Kernel": [3, 3]},
                              {"Name": "Pool", "Type": "Pooling", "Function": "Max", "Kernel": [2, 2], "KernelStride": [2, 2]},
                              {"Kind": "Output", "N": "auto", "DataSet": "classes", "Activation": "SoftMax"}]}
        train = lambda *more: self.succeed("trainer", "-c", "net.json", "-i", "images.nc", "-n", "images.model.nc", *more)
        self.write("net.json", json.dumps(network))
        train("-e", "1")
        self.assertNotIn(self.TOLD, train("-e", "2", "--resume").stderr)
        network["Layers"][1]["N"] = 5
        self.write("net.json", json.dumps(network))
        told = train("-e", "3", "--resume").stderr
        self.assertIn("Layers.Conv.N is [7, 6, 5], the checkpoint has [7, 6, 4]", told)

    def test_that_was_edited_is_told_key_by_key(self):
        self.train("-e", "3")
        network = json.loads(self.path("net.json").read_text())
        network["Training"].update(Alpha=0.1, Epochs=7)
        network["Layers"][1].update(N=100, pDropout=0)
        network["Denoising"] = {"p": 0.5}
        self.write("net.json", json.dumps(network))
        done = self.train("--resume")
        told = [line.partition(": ")[2] for line in done.stderr.splitlines() if self.TOLD in line]
        start = "warning: model.nc goes on as it was: in net.json "
        self.assertEqual(told, [start + line for line in (
            "Denoising.p is 0.5, the checkpoint has 0.25",
            "Layers.Hidden.N is 100, the checkpoint has 16",
            "Layers.Hidden.pDropout is the default, the checkpoint has 0.1",
            "Training.Alpha is 0.1, the checkpoint has 0.01; --rate changes it",
            "Training.Epochs is 7, the checkpoint has 3; --epochs changes it")])
        self.assertIn("all 3 epochs are done already; give --epochs for more", done.stderr)
        told = self.train("--resume", "-e", "7", "-alpha", "0.1").stderr
        self.assertNotIn("Epochs", told)
        self.assertNotIn("Alpha", told)
        self.assertIn("Layers.Hidden.N is 100", told)

    def test_of_another_network_is_told_in_few_lines(self):
        self.train("-e", "1")
        network = json.loads(self.path("net.json").read_text())
        network["Layers"][1:1] = [{"Name": f"Hidden{i}", "Kind": "Hidden", "N": i + 1} for i in range(100)]
        self.write("net.json", json.dumps(network))
        told = [line for line in self.train("-e", "2", "--resume").stderr.splitlines() if self.TOLD in line]
        self.assertEqual(len(told), 21)
        self.assertRegex(told[-1], r"in net.json \d+ more differ$")

    def test_may_be_a_model(self):
        self.train("-e", "2")
        self.train("-e", "2", "-alpha", "0.5", model="other.nc")
        self.assertNotIn(self.TOLD, self.train("-e", "3", "--resume", config="model.nc").stderr)
        self.assertIn("model.nc goes on as it was: in other.nc Training.Alpha is 0.5, the checkpoint has 0.01; --rate changes it",
                      self.train("-e", "4", "--resume", config="other.nc").stderr)

    def test_that_is_wrong_or_gone_does_not_keep_a_run_from_going_on(self):
        self.train("-e", "2")
        self.write("net.json", '{"Layers": [')
        self.assertIn("--config is not looked at when a run is resumed, and has errors: net.json:1:",
                      self.train("-e", "3", "--resume").stderr)
        self.path("net.json").unlink()
        self.train("-e", "4", "--resume")


if __name__ == "__main__":
    unittest.main()
