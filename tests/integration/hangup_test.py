# SPDX-License-Identifier: Apache-2.0
"""A terminal that is closed under the trainer: it stops with a checkpoint, or under nohup goes on."""
import os
import pty
import signal
import subprocess
import unittest

from programs import BIN, LIMIT_SECONDS, ProgramTest

EPOCHS = "1000"  # their lines do not fit into a pipe or a terminal, so a run cannot end before it is read


class Hangup(ProgramTest):
    COMMAND = [str(BIN / "trainer"), "-c", "net.json", "-i", "train.nc", "-n", "model.nc", "-e", EPOCHS,
               "--log-format", "dsstne"]

    def expect_that_it_goes_on(self):
        self.train("-e", EPOCHS, "--resume")
        self.train("-e", EPOCHS, model="straight.nc")
        self.assertEqual(self.read("model.nc"), self.read("straight.nc"))

    def test_a_closed_terminal_leaves_a_checkpoint(self):
        process, terminal = pty.fork()
        if process == 0:
            signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whatever the tests run under
            os.chdir(self.folder)
            os.execv(self.COMMAND[0], self.COMMAND)
        said = b""
        while said.count(b"average error") < 20:
            said += os.read(terminal, 4096)
        os.close(terminal)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), 75, said)
        self.assertFalse(self.path("model.nc").exists())
        self.assertTrue(list(self.folder.glob("model.epoch*.nc")))
        self.expect_that_it_goes_on()

    def hang_up(self, disposition):
        with subprocess.Popen(self.COMMAND, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              preexec_fn=lambda: signal.signal(signal.SIGHUP, disposition)) as process:
            for _ in range(20):
                self.assertTrue(process.stdout.readline(), "the run ended before it was stopped")
            process.send_signal(signal.SIGHUP)
            _, err = process.communicate(timeout=LIMIT_SECONDS)
        return process.returncode, err

    def test_the_signal_alone(self):
        code, err = self.hang_up(signal.SIG_DFL)
        self.assertEqual(code, 75, err)
        self.assertIn("resuming from model.epoch", self.train("--resume", "--plan").stderr)

    def test_under_nohup_it_is_ignored(self):
        code, err = self.hang_up(signal.SIG_IGN)
        self.assertEqual(code, 0, err)
        self.assertTrue(self.path("model.nc").exists())


if __name__ == "__main__":
    unittest.main()
