# SPDX-License-Identifier: Apache-2.0
"""The trainer under a real Slurm on this machine: srun's ranks, and configs/slurm/trainer.sbatch stopped and requeued."""
import re
import shutil
import sys
import tempfile
import time
import unittest

from programs import BIN, SOURCE, ProgramTest
from slurm_cluster import SlurmCluster, Unavailable

SCRIPT = SOURCE / "configs" / "slurm" / "trainer.sbatch"
LIMIT_SECONDS = 60

ENDLESS = """#!/bin/sh
done=$(ls job.epoch*.nc 2> /dev/null | sed 's/job.epoch\\([0-9]*\\).*/\\1/')
exec {trainer} "$@" --epochs $(( ${{done:-1000000}} + 20 ))
"""


class UnderSlurm(ProgramTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp(prefix="norn-slurm-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        try:
            cls.cluster = SlurmCluster(folder)
            cls.addClassCleanup(cls.cluster.stop)
            if "pmix" not in cls.cluster.call("srun", "--mpi=list").stdout:
                raise Unavailable("its srun has no pmix")
        except Unavailable as reason:
            print(f"SKIPPED: Slurm cannot run here: {reason}", file=sys.stderr)
            raise unittest.SkipTest(str(reason))

    def submit(self, model, *arguments, trainer=BIN / "trainer"):
        """The number of a job by the script that users have."""
        done = self.cluster.call(
            "sbatch", "--parsable", "--ntasks=2", f"--job-name={model}", SCRIPT, "-c", "net.json", "-i", "train.nc",
            "-n", model, "--log-format", "dsstne", *arguments, cwd=self.folder, env={**self.cluster.environment, "TRAINER": str(trainer)})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def output(self, model, job):
        path = self.path(f"{model}-{job}.out")
        return path.read_text() if path.exists() else ""

    def said(self, model, job):
        lines = [line for line in self.output(model, job).splitlines() if "Epoch" not in line]
        return "\n".join([str(self.cluster.job(job)), *lines])

    def wait_until(self, what, model, job, happened):
        end = time.monotonic() + LIMIT_SECONDS
        while not happened():
            self.assertLess(time.monotonic(), end, f"{what} has not come: {self.said(model, job)}")
            time.sleep(0.1)

    def submit_endless(self, model):
        """A job that does not end of itself until it is resumed, and then after 20 more epochs."""
        self.write("trainer", ENDLESS.format(trainer=BIN / "trainer")).chmod(0o755)
        job = self.submit(model, "--checkpoint-epochs", "0", trainer=self.path("trainer"))
        self.wait_until("the first epoch", model, job, lambda: "Epoch 1," in self.output(model, job))
        return job

    def ends_with_the_bits_of_a_straight_run(self, model, job):
        self.wait_until("its place in the queue", model, job,
                        lambda: self.cluster.job(job).get("JobState") == "PENDING")
        time.sleep(2)  # slurmd refuses to start a job again within the second in which it has ended it
        self.assertEqual(len(list(self.folder.glob("job.epoch*.nc"))), 1, self.said(model, job))
        self.assertEqual(self.cluster.job(job)["Restarts"], "1")
        self.cluster.call("scontrol", "update", f"JobId={job}", "StartTime=now")  # Slurm would wait two minutes
        self.wait_until("its end", model, job,
                        lambda: self.cluster.job(job).get("JobState") in ("COMPLETED", "FAILED", "CANCELLED"))
        self.assertEqual(self.cluster.job(job)["ExitCode"], "0:0", self.said(model, job))
        resumed = re.search(r"resuming from job\.epoch(\d+)", self.output(model, job))
        self.train("-e", int(resumed.group(1)) + 20, "--threads", "1", model="straight.nc")
        self.assertEqual(self.read(model), self.read("straight.nc"))

    def test_sruns_ranks_give_the_bits_of_one_process(self):
        self.train("--threads", "1", model="alone.nc")
        done = self.cluster.call("srun", "--mpi=pmix", "--ntasks=4", BIN / "trainer", "-c", "net.json", "-i", "train.nc",
                                 "-n", "ranks.nc", "--threads", "1", cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("MPI, 4 ranks", done.stderr)
        self.assertEqual(self.read("ranks.nc"), self.read("alone.nc"))

    def test_a_requeued_job_goes_on_and_ends_with_the_same_bits(self):
        job = self.submit_endless("job.nc")
        # Slurm says no as long as it has not heard from the node that the job runs.
        self.wait_until("requeue", "job.nc", job, lambda: self.cluster.call("scontrol", "requeue", job).returncode == 0)
        self.ends_with_the_bits_of_a_straight_run("job.nc", job)

    def test_a_job_that_gets_sigusr1_requeues_itself(self):
        job = self.submit_endless("job.nc")
        self.assertEqual(self.cluster.call("scancel", "--signal=USR1", job).returncode, 0)
        self.ends_with_the_bits_of_a_straight_run("job.nc", job)
        self.assertIn("the job goes back to the queue", self.output("job.nc", job))

    def test_a_job_with_bad_data_fails_with_the_trainers_code_and_is_not_requeued(self):
        self.write("train.nc", "no data")
        job = self.submit("job.nc")
        self.wait_until("the job's end", "job.nc", job, lambda: self.cluster.job(job).get("JobState") == "FAILED")
        self.assertEqual(self.cluster.job(job)["ExitCode"], "3:0")
        self.assertEqual(self.cluster.job(job)["Restarts"], "0")


if __name__ == "__main__":
    unittest.main()
