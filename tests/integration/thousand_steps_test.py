# SPDX-License-Identifier: Apache-2.0
"""The same bytes of every file for 1, 2, 3 and 4 ranks after a thousand steps, with all that draws random numbers, schedules, clipped
gradients, validation and an early stop."""
import os
import re
import unittest

from norn_files import model_arrays, write_datasets
from programs import ODD_NETWORK, ProgramTest, mpirun, random_rows

# Nothing gets better by 1, so the run stops so many validations after the first; the checkpoint of the thousandth step stays.
COMMON = ("--validation-split", "0.2", "--validate-every", "21", "--metrics-at", "5,10", "--min-delta", "1", "--patience", "9",
          "--threads", "1")
RUNS = (
    ("Relu", "SoftMax", ("-e", "400", "--checkpoint-epochs", "200", "--early-stop", "ndcg@10", "--early-stop-from", "0",
                         "--rate-schedule", "cosine", "--rate-minimum", "0.1", "--warm-up", "2.5", "--clip-gradient", "0.001")),
    ("Sigmoid", "Sigmoid", ("-e", "170", "--checkpoint-epochs", "168", "--keep-best", "recall@5", "--validation-by", "entry",
                            "--rate-schedule", "plateau", "--rate-patience", "3", "--warm-up", "1")),
)


@unittest.skipIf(mpirun(1) is None, "mpirun is not installed")
class ThousandSteps(ProgramTest):
    WIDTH = 229  # four blocks, so that each of four ranks has one

    def setUp(self):
        super().setUp()
        rows = random_rows(self.random, 167, self.WIDTH)
        write_datasets(self.path("train.nc"), [("gl_input", self.WIDTH, rows, None), ("gl_output", self.WIDTH, rows, None)])

    def files_and_reports(self, ranks, settings):
        """What one run leaves and what it says of its validations."""
        done = self.train(*COMMON, *settings, prefix=mpirun(ranks), env={**os.environ, "OMPI_MCA_mpi_yield_when_idle": "1"})
        files = {path.name: path.read_bytes() for path in self.folder.glob("model*.nc")}
        [checkpoint] = self.folder.glob("model.epoch*.nc")
        self.assertGreaterEqual(model_arrays(checkpoint)[1]["norn_step"], 1000)
        self.assertEqual("stopped early: 9 validations without" in done.stderr, "--early-stop" in settings, done.stderr)
        for name in files:
            self.path(name).unlink()
        return files, re.findall(r"^trainer: (?:validation after|best|stopped early).*", done.stderr, re.MULTILINE)

    def test_whatever_the_ranks(self):
        for hidden, output, settings in RUNS:
            self.write("net.json", ODD_NETWORK % (hidden, output))
            alone = self.files_and_reports(1, settings)
            self.assertEqual(len(alone[0]), 2)
            for ranks in (2, 3, 4):
                self.assertEqual(self.files_and_reports(ranks, settings), alone, f"{output}, {ranks} ranks")


if __name__ == "__main__":
    unittest.main()
