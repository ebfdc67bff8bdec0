# SPDX-License-Identifier: Apache-2.0
"""Runs of several ranks that are disturbed: starting them, finding each rank's process, and how they end."""
import os
import pathlib
import re
import signal
import socket
import subprocess
import time
import unittest

from norn_files import write_index, write_text
from programs import BIN, ProgramTest, mpirun

HOST = re.escape(socket.gethostname())
# More than it takes on the slowest machine, and less than a collective's usual time limit.
ENDED_WITHIN_SECONDS = 120


def process_lives(process):
    """Whether it has not ended; one that nobody has asked about has."""
    try:
        state = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


@unittest.skipIf(mpirun(1) is None, "mpirun is not installed")
class RanksTest(ProgramTest):
    RANKS = 3
    EPOCHS = 100000  # more than a run ends by itself

    def start(self, *arguments, epochs=EPOCHS, model="model.nc", data="train.nc", gate=None):
        return self.launch(str(BIN / "trainer"), "-c", "net.json", "-i", data, "-n", model, "-e", str(epochs),
                           "--threads", "1", *arguments, gate=gate)

    def launch(self, *command, gate=None):
        """With a gate, ranks wait where it says."""
        process = subprocess.Popen([*mpirun(self.RANKS), *command], cwd=self.folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=gate.environment if gate else None)
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        if process.poll() is None:
            for pid in self.ranks(process).values():
                os.kill(pid, signal.SIGKILL)
            process.kill()
            process.communicate()
        process.stdout.close()
        process.stderr.close()

    def ranks(self, process):
        """The process of each rank, from what the launcher put into their environments."""
        found = {}
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for pid in children:
            try:
                environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            for entry in environment:
                if entry.startswith(b"OMPI_COMM_WORLD_RANK="):
                    found[int(entry.partition(b"=")[2])] = int(pid)
        return found

    def wait_for_epochs(self, process, count):
        for _ in range(count):
            self.assertTrue(process.stdout.readline(), "the run ended too early")
        ranks = self.ranks(process)
        self.assertEqual(sorted(ranks), list(range(self.RANKS)))
        return ranks

    def wait_until(self, condition, process):
        limit = time.monotonic() + ENDED_WITHIN_SECONDS
        while not condition():
            self.assertIsNone(process.poll(), "the run ended too early")
            self.assertLess(time.monotonic(), limit, "the run does not go on")
            time.sleep(0.0005)

    def wait_at(self, gate, process, ranks=1):
        """Until so many ranks wait there; their processes."""
        self.wait_until(lambda: len(gate.waiting()) == ranks, process)
        found = self.ranks(process)
        self.assertEqual(sorted(found), list(range(self.RANKS)))
        return found

    def finish(self, process):
        """How it ended: exit code, its lines of errors, all that it said."""
        _, said = process.communicate(timeout=ENDED_WITHIN_SECONDS)
        errors = [line for line in said.splitlines() if re.search(r"\b\w+: error: ", line)]
        return process.returncode, errors, said

    def finish_with_one_error(self, process, expected_code):
        """Its only line of errors, said once for all ranks."""
        code, errors, said = self.finish(process)
        self.assertEqual((code, len(errors)), (expected_code, 1), said)
        return errors[0]

    def wait_for_end_of(self, processes):
        limit = time.monotonic() + ENDED_WITHIN_SECONDS
        while any(process_lives(process) for process in processes):
            self.assertLess(time.monotonic(), limit, "ranks do not end")
            time.sleep(0.01)

    def half_written(self):
        return [path.name for path in self.folder.rglob("*") if ".tmp-" in path.name]

    def clear(self):
        for path in [*self.folder.glob("model*"), *self.folder.glob("straight*")]:
            path.unlink()

    def check_leavings(self, *settings, all_were_killed=False):
        """Nothing half written, unless nobody was left to remove it; and the newest checkpoint can be gone on from."""
        left = self.half_written()
        if not all_were_killed:
            self.assertEqual(left, [])
        checkpoints = list(self.folder.glob("model.epoch*.nc"))
        self.assertTrue(checkpoints)
        last = max(int(re.search(r"epoch(\d+)", path.name).group(1)) for path in checkpoints)
        done = self.train("-e", last + 2, "--resume", "--checkpoint-epochs", "0", *settings)
        self.assertIn(f"resuming from model.epoch{last}", done.stderr)
        for name in left:
            self.assertIn(f"removed {name}", done.stderr)
        self.assertEqual(self.half_written(), [])
        self.train("-e", last + 2, "--checkpoint-epochs", "0", *settings, model="straight.nc")
        self.assertEqual(self.read("model.nc"), self.read("straight.nc"))

    def write_many(self, examples=6000, width=1000, entries=40):
        """Data of more than HDF5 keeps of a file in memory, so that streaming them reads the file; in train.nc, which is
        sealed, so that the ranks read it themselves."""
        rows = [sorted(self.random.sample(range(width), entries)) for _ in range(examples)]
        names = [f"f{unit}" for unit in range(width)]
        write_index(self.path("features.txt"), names)
        write_text(self.path("train.txt"), rows, names)
        self.succeed("importer", "--input", "train.txt", "--output", "train.nc", "--features", "features.txt", "--name", "gl")

    def files_by_rank(self, command, files):
        """A command in which FILE is another file on each rank."""
        cases = "".join(f"{rank}) file='{name}';; " for rank, name in enumerate(files))
        script = self.write("by_rank.sh", f'#!/bin/sh\ncase $OMPI_COMM_WORLD_RANK in {cases}esac\n'
                                          f'exec {" ".join(command).replace("FILE", "$file")}\n')
        return ("sh", str(script))
