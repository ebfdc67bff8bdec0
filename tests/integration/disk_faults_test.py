#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Disks that are full, and places that are taken: what the programs say of it, and that they leave no half files."""
import json
import resource
import signal
import subprocess
import unittest

from programs import BIN, LIMIT_SECONDS, ProgramTest


def files_of_at_most(size):
    """For a child: writing beyond that fails as on a full disk."""
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return limit


class DiskFaults(ProgramTest):
    def predict(self, *arguments):
        return ("-n", "model.nc", "--data", "test.nc", "--exclude-seen", *arguments)

    def fail_at(self, code, message, program, *arguments, stdout=subprocess.DEVNULL, **more):
        """All that the program says of errors is that line, and it leaves no new file."""
        before = sorted(self.folder.rglob("*"))
        done = subprocess.run([str(BIN / program), *map(str, arguments)], cwd=self.folder, stdout=stdout, stderr=subprocess.PIPE,
                              text=True, timeout=LIMIT_SECONDS, **more)
        errors = [line for line in done.stderr.splitlines() if ": error: " in line]
        self.assertEqual((done.returncode, errors), (code, [f"{program}: error: {message}"]))
        self.assertEqual(sorted(self.folder.rglob("*")), before)

    def test_standard_output(self):
        self.train("-e", "1")
        with open("/dev/full", "w") as full:
            self.fail_at(3, "standard output: could not be written; is the disk full?", "evaluator", "-n", "model.nc", "--data",
                         "test.nc", stdout=full)
            self.fail_at(3, "standard output: cannot be written: No space left on device; free some space", "predictor",
                         *self.predict("-s", "-"), stdout=full)

    def test_predictions(self):
        self.train("-e", "1")
        small = files_of_at_most(4096)
        self.fail_at(3, "recs.txt: cannot be written: File too large; write elsewhere", "predictor", *self.predict("-s", "recs.txt"),
                     preexec_fn=small)
        self.fail_at(3, ".: temporary file: cannot be written: File too large; free some space or write elsewhere", "predictor",
                     *self.predict("-s", "recs.nc", "--format", "netcdf"), preexec_fn=small)

    def test_limits_of_file_size_without_a_shell_that_ignores_their_signal(self):
        self.train("-e", "1")
        names = [f"feature{u}" for u in range(self.width)]
        self.write("rows.txt", "".join(f"row{i}\t" + ":".join(self.random.sample(names, 20)) + "\n" for i in range(2000)))

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

        for message, program, *arguments in (
                ("recs.txt: ", "predictor", *self.predict("-s", "recs.txt")),
                ("", "trainer", "-c", "net.json", "-i", "train.nc", "-n", "new.nc"),
                ("", "importer", "--input", "rows.txt", "--output", "rows.nc", "--name", "rows")):
            done = self.fail_with(3, message, program, *arguments, preexec_fn=limit)
            self.assertRegex(done.stderr, "cannot be written|File too large|cannot write|could not be written")
        for left in ("recs.txt", "new.nc", "rows.nc"):
            self.assertFalse(self.path(left).exists())

    def test_results_of_a_command_file(self):
        self.train("-e", "1")
        self.write("predict.cdl", json.dumps({"Version": 0.8, "Command": "Predict", "Network": "model.nc", "Data": "test.nc",
                                              "PredictionParameters": {"Results": "lines.txt"}}))
        self.fail_at(3, "lines.txt: cannot be written: File too large; write elsewhere", "predictor", "--cdl", "predict.cdl",
                     preexec_fn=files_of_at_most(64))

    def test_a_run_log_that_is_a_folder(self):
        self.path("run/log.jsonl").mkdir(parents=True)
        self.fail_at(3, "run/log.jsonl: cannot be written: Is a directory; give another --run-dir, or leave it out", "trainer", "-c",
                     "net.json", "-i", "train.nc", "-n", "model.nc", "--run-dir", "run", "--force")

    def test_a_run_record_on_a_full_disk(self):
        # Room for the log, which is made first, and not for the record.
        small = self.mount_small("8k")
        done = self.train("-e", "1", "--run-dir", small / "run")
        self.assertIn("/small/run/run.json: cannot be written: the disk is full; free some space or write elsewhere; the run goes on "
                      "without it", done.stderr)
        self.assertTrue(self.path("model.nc").exists())

    def test_a_checkpoint_that_is_a_folder(self):
        self.path("model.epoch1.nc").mkdir()
        self.write("model.epoch1.nc/file", "")
        self.fail_at(3, "model.epoch1.nc: the checkpoint could not be removed: Directory not empty; remove it first", "trainer", "-c",
                     "net.json", "-i", "train.nc", "-n", "model.nc", "--force")


if __name__ == "__main__":
    unittest.main()
