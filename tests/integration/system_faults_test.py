#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls of the system that fail, one at a time: the programs say so with the right exit code, and never crash."""
import errno
import os
import subprocess
import unittest

from norn_files import write_text
from programs import BIN, ProgramTest, failing_call


@unittest.skipIf(os.environ.get("NORN_SANITIZE"), "sanitizers want to be loaded first")
class SystemFaults(ProgramTest):
    def run_failing(self, call, part, first, count, error, program, *arguments):
        """The run, where that many calls (1, or all) on paths with `part` in them fail from the first-th on; and how many there were."""
        counter = self.path("calls")
        counter.unlink(missing_ok=True)
        environment = failing_call(call, part, f"{first}+" if count > 1 else first, error, FAILING_CALL_COUNTS=str(counter))
        done = self.run_program(program, *arguments, env=environment)
        counts = dict(line.split() for line in counter.read_text().splitlines()) if counter.exists() else {}
        return done, int(counts.get(call, 0))

    def calls_of(self, call, part, program, *arguments):
        done, calls = self.run_failing(call, part, 0, 1, 0, program, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(calls, 0)
        return calls

    def some_of(self, calls, most, last):
        """The last ones, of which the libraries make in closing files, and others."""
        chosen = set(range(max(1, calls - last + 1), calls + 1))
        rest = [call for call in range(1, calls + 1) if call not in chosen]
        return sorted(chosen | set(self.random.sample(rest, min(most, len(rest)))))

    def check_writes(self, program, *arguments, output):
        part = f"{output}.tmp"
        for call, error, most, last in (("write", errno.ENOSPC, 8, 10), ("truncate", errno.EIO, 4, 4)):
            for first in self.some_of(self.calls_of(call, part, program, *arguments), most, last):
                for count in (1, 10**6):
                    self.path(output).unlink(missing_ok=True)
                    done, _ = self.run_failing(call, part, first, count, error, program, *arguments)
                    with self.subTest(call=call, first=first, count=count):
                        self.assertEqual(done.returncode, 3, done.stderr)
                        self.assertRegex(done.stderr, f"{program}: error: {output}: (its checksum )?cannot ")
                        self.assertFalse(self.path(output).exists())
                        self.assertEqual([path.name for path in self.folder.rglob("*.tmp-*")], [])

    def test_writes_of_the_model(self):
        self.check_writes("trainer", "-c", "net.json", "-i", "train.nc", "-n", "model.nc", "-e", "1", "--force", output="model.nc")

    def test_writes_of_data_sets(self):
        write_text(self.path("named.txt"), self.rows, self.names, self.examples)
        self.check_writes("importer", "--input", "named.txt", "--name", "gl", "--output", "d.nc", output="d.nc")

    def test_reads_of_what_was_written(self):
        """A file is read back for its seal: what cannot be read is not passed over."""
        write_text(self.path("named.txt"), self.rows, self.names, self.examples)
        command = ("importer", "--input", "named.txt", "--name", "gl", "--output", "d.nc")
        calls = self.calls_of("read", "d.nc.tmp", *command)
        whole = self.path("d.nc").read_bytes()
        told = ""
        for first in range(1, calls + 1):
            self.path("d.nc").unlink(missing_ok=True)
            done, _ = self.run_failing("read", "d.nc.tmp", first, 1, errno.EIO, *command)
            with self.subTest(first=first):
                self.assertIn(done.returncode, (0, 3), done.stderr)
                self.assertEqual(self.path("d.nc").exists(), done.returncode == 0)
                if done.returncode == 0:
                    self.assertEqual(self.path("d.nc").read_bytes() == whole, True)
            told += done.stderr
        self.assertIn("importer: error: d.nc: what was written cannot be read back for its checksum; check the disk", told)

    def test_threads_that_the_system_refuses(self):
        self.train("-e", "1")
        write_text(self.path("named.txt"), self.rows, self.names, self.examples)
        for program, *arguments in (
                ("trainer", "-c", "net.json", "-i", "train.nc", "-n", "m.nc", "-e", "1", "--force", "--data-memory", "1K"),
                ("importer", "--input", "named.txt", "--name", "gl", "--output", "d.nc"),
                ("predictor", "-n", "model.nc", "-r", "named.txt", "-i", "features.txt", "-s", "out.txt"),
                ("predictor", "-n", "model.nc", "--data", "test.nc", "-s", "out.txt"),
                ("evaluator", "-n", "model.nc", "--data", "test.nc")):
            for first in range(1, self.calls_of("thread", "", program, *arguments) + 1):
                done, _ = self.run_failing("thread", "", first, 1, errno.EAGAIN, program, *arguments)
                with self.subTest(program=program, first=first):
                    self.assertEqual(done.returncode, 4, done.stderr)
                    self.assertRegex(done.stderr, r"thread .*could not be started")
                    self.assertIn("Resource temporarily unavailable", done.stderr)
        self.assertIn(f"{program}: error: a thread could not be started: Resource temporarily unavailable; end other programs, or "
                      "raise the limit of processes (ulimit -u, or the job's)", done.stderr)

    def test_folders_that_cannot_be_read_on(self):
        """Old checkpoints that are not found stay; those to be resumed from must be found."""
        train = ("trainer", "-c", "net.json", "-i", "train.nc", "-n", "model.nc", "--checkpoint-epochs", "1", "--keep", "1", "-e", "3")
        calls = self.calls_of("readdir", self.folder.name, *train, "--force")
        for first in self.some_of(calls, 12, 4):
            done, _ = self.run_failing("readdir", self.folder.name, first, 1, errno.EIO, *train, "--force")
            with self.subTest(first=first):
                self.assertIn(done.returncode, (0, 3), done.stderr)
                self.assertNotIn("unforeseen", done.stderr)
        done, _ = self.run_failing("readdir", self.folder.name, 1, 10**6, errno.EIO, *train, "--resume")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(".: checkpoints cannot be looked for: Input/output error; check the folder", done.stderr)
        self.path("texts").mkdir()
        write_text(self.path("texts/a.txt"), self.rows, self.names, self.examples)
        done, _ = self.run_failing("readdir", self.folder.name, 1, 10**6, errno.EIO, "predictor", "-n", "model.nc", "-r", "texts", "-i",
                                   "features.txt",
                                   "-s", "out.txt")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("texts: cannot list the folder: Input/output error", done.stderr)

    def test_a_system_without_proc_has_the_memory_that_it_has(self):
        """As in a bare chroot. There the system finds no library by the place of the program."""
        alone = ["unshare", "--map-root-user", "--mount"]
        if subprocess.run([*alone, "true"], capture_output=True).returncode != 0:
            self.skipTest("name spaces of mounts cannot be made here")
        shown = subprocess.run(["ldd", BIN / "trainer"], capture_output=True, text=True, check=True).stdout
        folders = {os.path.dirname(word) for word in shown.split() if word.startswith("/")}
        hidden = [*alone, "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh", "env", f"LD_LIBRARY_PATH={':'.join(sorted(folders))}"]
        done = self.run_program("trainer", "-c", "net.json", "-i", "train.nc", "-n", "model.nc", "-e", "1", prefix=hidden)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
