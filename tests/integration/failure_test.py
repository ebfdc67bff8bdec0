# SPDX-License-Identifier: Apache-2.0
"""Ranks that die, hang, fail or are told to stop: how the others end, what they say, what they leave."""
import os
import re
import signal
import subprocess
import unittest

from norn_files import write_datasets
from programs import BIN, mpirun
from rank_runs import HOST, RanksTest


class Dying(RanksTest):
    def test_a_rank_that_is_killed_ends_all_and_is_named(self):
        for rank in (0, 1, 2):
            process = self.start("--checkpoint-epochs", "1", "--force")
            pid = self.wait_for_epochs(process, 5)[rank]
            os.kill(pid, signal.SIGKILL)
            code, errors, said = self.finish(process)
            # The launcher notices it first and gives its own code for it.
            self.assertEqual(code, 128 + signal.SIGKILL, said)
            self.assertRegex(said, rf"mpirun noticed that process rank {rank} with PID \d+ on node \S+ exited on signal 9")
            self.assertEqual(len(errors), 1, said)
            self.assertRegex(errors[0], rf"rank \d of 3 on {HOST} \((training|writing a "
                             rf"checkpoint), epoch \d+(, batch \d+)?\): \w+ cannot complete: rank {rank} on \S+ \(process {pid}\) is gone")
            self.check_leavings()
            self.clear()

    def test_a_rank_that_hangs_ends_all_when_the_time_is_up_and_is_named(self):
        process = self.start("--checkpoint-epochs", "1", "--collective-timeout", "3")
        pid = self.wait_for_epochs(process, 5)[1]
        os.kill(pid, signal.SIGSTOP)
        code, errors, said = self.finish(process)
        self.assertEqual(code, 5, said)
        self.assertEqual(len(errors), 1, said)
        self.assertRegex(errors[0], rf"rank [02] of 3 on {HOST} \((training|writing a "
                         rf"checkpoint), epoch \d+(, batch \d+)?\): \w+ did not complete in 3 s: rank 1 on \S+ "
                         rf"\(process {pid}\) is stopped")
        self.check_leavings()

    def test_the_limit_must_be_above_zero(self):
        self.fail_with(2, "--collective-timeout 0 is out of range: it must be above 0", "trainer", "-c", "net.json",
                       "-i", "train.nc", "-n", "model.nc", "--collective-timeout", "0")


class Launching(RanksTest):
    def test_processes_that_mpi_does_not_join_are_told_so(self):
        # What another MPI's mpirun, or srun without --mpi, leaves in the environment.
        for name in ("PMI_SIZE", "SLURM_STEP_NUM_TASKS"):
            others = {"PMI_RANK": "0"} if name == "PMI_SIZE" else {"SLURM_PROCID": "0"}
            done = subprocess.run([f"{BIN}/trainer", "-c", "net.json", "-i", "train.nc", "-n", "model.nc"], cwd=self.folder,
                                  capture_output=True, text=True, timeout=60, env={**os.environ, name: "3", **others})
            self.assertEqual(done.returncode, 5, done.stderr)
            said = re.sub(r" with \([^()]*\)", " with (MPI)", done.stderr)
            self.assertIn("trainer: error: the launcher started 3 processes, but MPI tells this one that it is alone, and each of "
                          "them would write the same files: launch with the mpirun of the MPI that this program is linked with "
                          "(MPI), or with srun --mpi=pmix\n", said)
            self.assertFalse(self.path("model.nc").exists())


class Failing(RanksTest):
    def test_an_error_on_one_rank_ends_all_with_its_code_and_one_message(self):
        # Rank 1 alone finds another file where the others find their data.
        write_datasets(self.path("short.nc"), [("gl_input", self.width, self.known, None),
                                               ("gl_output", self.width, self.known[:-1], None)])
        for rank in (0, 1, 2):
            script = self.write("start.sh", "#!/bin/sh\n"
                                f'if [ "$OMPI_COMM_WORLD_RANK" = {rank} ]; then data=short.nc; else data=train.nc; fi\n'
                                f'exec {BIN}/trainer -c net.json -i $data -n model.nc -e 1000 --threads 1\n')
            done = subprocess.run([*mpirun(self.RANKS), "sh", str(script)], cwd=self.folder, capture_output=True,
                                  text=True, timeout=60)
            errors = [line for line in done.stderr.splitlines() if "trainer: error: " in line]
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertEqual(len(errors), 1, done.stderr)
            mark = "" if rank == 0 else f"[rank {rank}] "
            self.assertTrue(errors[0].startswith(f"trainer: error: {mark}short.nc: data set"), errors[0])
            self.assertFalse(self.path("model.nc").exists())

    def test_an_error_on_one_rank_in_the_middle_of_training_names_its_place(self):
        self.path("out").mkdir()
        process = self.start("--checkpoint-epochs", "1", model="out/model.nc")
        self.wait_for_epochs(process, 5)
        # Only rank 0 writes, so only rank 0 fails; the others wait for it. What it was writing goes with the folder.
        self.path("out").rename(self.path("moved"))
        code, errors, said = self.finish(process)
        self.assertEqual(code, 3, said)
        self.assertEqual(len(errors), 1, said)
        self.assertRegex(errors[0], r"error: out/model\.epoch\d+\.nc: .*\[rank 0 of 3 on "
                         rf"{HOST}: writing a checkpoint, epoch \d+\]")


class Stopping(RanksTest):
    def check_stopped(self, process):
        code, errors, said = self.finish(process)
        self.assertEqual(code, 75, said)
        self.assertEqual(errors, [], said)
        self.assertIn("run the same command with --resume", said)
        self.check_stopped_run_goes_on()

    def check_stopped_run_goes_on(self):
        self.assertEqual([path.name for path in self.folder.iterdir() if ".tmp" in path.name], [])
        [checkpoint] = self.folder.glob("model.epoch*.nc")
        epoch = int(re.search(r"epoch(\d+)", checkpoint.name).group(1)) + 2
        self.train("-e", epoch, "--resume", "--checkpoint-epochs", "0")
        self.train("-e", epoch, "--checkpoint-epochs", "0", model="straight.nc")
        self.assertEqual(self.read("model.nc"), self.read("straight.nc"))
        self.clear()

    def test_by_a_signal_to_one_rank(self):
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT):
            for rank in (0, 2):
                process = self.start("--checkpoint-epochs", "0")
                os.kill(self.wait_for_epochs(process, 3)[rank], number)
                self.check_stopped(process)

    def test_by_a_signal_to_mpirun(self):
        process = self.start("--checkpoint-epochs", "0")
        self.wait_for_epochs(process, 3)
        process.send_signal(signal.SIGUSR1)
        self.check_stopped(process)

    def test_a_signal_with_which_mpirun_ends_its_ranks_leaves_the_last_checkpoint(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            process = self.start("--checkpoint-epochs", "1", "--force")
            ranks = self.wait_for_epochs(process, 5)
            process.send_signal(number)
            code, errors, said = self.finish(process)
            self.assertNotEqual(code, 0, said)
            self.assertEqual(errors, [], said)
            self.wait_for_end_of(ranks.values())  # mpirun does not wait for them
            self.check_leavings(all_were_killed=True)
            self.clear()


if __name__ == "__main__":
    unittest.main()
