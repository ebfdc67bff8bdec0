# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that are written while training goes on: when a run waits for them, what stops and failures leave."""
import json
import os
import re
import signal
import subprocess
import time
import unittest

from rank_runs import RanksTest


class Writing(RanksTest):
    """Rank 0 waits when it has all but stored the file after two epochs, of which there is one every two."""
    RANKS = 2

    def start_and_see_it_write(self, call):
        gate = self.gate(call, "/model.epoch2.nc.tmp-")
        process = self.start("--checkpoint-epochs", "2", "--run-dir", "run", gate=gate)
        return process, self.wait_at(gate, process), gate

    def epochs(self):
        lines = self.path("run/log.jsonl").read_text().split("\n")[:-1]  # the last one may be half there
        return sum(json.loads(line)["event"] == "epoch" for line in lines)

    def wait_for_epoch(self, process, number):
        self.wait_until(lambda: self.epochs() >= number, process)

    def temporaries(self):
        return sorted(re.sub(r"\.tmp-.*", "", name) for name in self.half_written())

    def checkpoints(self):
        return sorted(path.name for path in self.folder.glob("model.epoch*.nc"))

    def newest(self):
        return max(self.checkpoints(), key=lambda name: [int(number) for number in re.findall(r"\d+", name)])

    def check_goes_on(self, newest):
        """From the newest checkpoint, to the bytes of a run that nobody stopped."""
        epochs = int(re.search(r"epoch(\d+)", newest).group(1)) + 2
        self.assertIn(f"resuming from {newest}", self.train("-e", epochs, "--resume", "--checkpoint-epochs", "0").stderr)
        self.train("-e", epochs, "--checkpoint-epochs", "0", model="straight.nc")
        self.assertEqual(self.read("model.nc"), self.read("straight.nc"))

    def test_training_goes_on_until_the_next_one_which_waits(self):
        process, _, gate = self.start_and_see_it_write(self.random.choice(["fsync", "rename"]))
        self.wait_for_epoch(process, 4)
        time.sleep(0.5)  # in which it would come to the next checkpoint and further
        self.assertEqual((self.epochs(), self.temporaries(), self.checkpoints()), (4, ["model.epoch2.nc"], []))
        gate.open()
        self.wait_for_epoch(process, 10)
        process.send_signal(signal.SIGUSR1)
        code, errors, said = self.finish(process)
        self.assertEqual((code, errors), (75, []), said)
        self.assertEqual(self.temporaries(), [])
        self.check_goes_on(self.newest())

    def test_a_stop_waits_for_the_file_and_leaves_its_own(self):
        process, ranks, gate = self.start_and_see_it_write(self.random.choice(["fsync", "rename"]))
        os.kill(ranks[self.random.randrange(self.RANKS)], signal.SIGUSR1)
        time.sleep(0.5)
        self.assertIsNone(process.poll())
        self.assertEqual(self.checkpoints(), [])
        gate.open()
        code, errors, said = self.finish(process)
        self.assertEqual((code, errors), (75, []), said)
        self.assertIn("checkpoint model.epoch2.nc", said)
        self.assertEqual(self.temporaries(), [])
        self.check_goes_on(self.newest())

    MESSAGE_OF_A_FOLDER = r"out/model\.epoch2\.nc: .* \[rank 0 of 2 on \S+: writing a checkpoint, epoch 2\]$"

    def test_a_folder_that_goes_while_it_is_written_ends_the_run(self):
        self.path("out").mkdir()
        gate = self.gate("rename", "/model.epoch2.nc.tmp-")
        process = self.start("--checkpoint-epochs", "2", model="out/model.nc", gate=gate)
        self.wait_at(gate, process)
        self.path("out").rename(self.path("moved"))
        gate.open()
        self.assertRegex(self.finish_with_one_error(process, 3), self.MESSAGE_OF_A_FOLDER)


class WritingAlone(Writing):
    """The same of one process."""
    RANKS = 1
    MESSAGE_OF_A_FOLDER = r"^trainer: error: out/model\.epoch2\.nc: "

    def launch(self, *command, gate=None):
        process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=gate.environment if gate else None)
        self.addCleanup(self.end, process)
        return process

    def ranks(self, process):
        return {0: process.pid}

    def test_a_run_that_is_killed_goes_on_from_the_one_before(self):
        """At a random call of the one that is being written."""
        gate = self.gate("write", "/model.epoch4.nc.tmp-", self.random.randint(1, 9))
        process = self.start("--checkpoint-epochs", "2", "--run-dir", "run", gate=gate)
        self.wait_at(gate, process)
        self.wait_for_epoch(process, 4)
        process.kill()
        process.wait()
        self.assertEqual((self.checkpoints(), self.temporaries()), (["model.epoch2.nc"], ["model.epoch4.nc"]))
        self.check_goes_on("model.epoch2.nc")

    def test_a_short_run_writes_none_unless_it_is_asked_to(self):
        self.train("-e", "30")
        self.assertEqual(self.checkpoints(), [])
        self.train("-e", "30", "--force", "--checkpoint-minutes", "1e-9", "--keep", "0")
        self.assertNotEqual(self.checkpoints(), [])


if __name__ == "__main__":
    unittest.main()
