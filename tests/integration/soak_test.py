# SPDX-License-Identifier: Apache-2.0
"""Kills training with -9 again and again, each time resumes it on another number of ranks, and expects the model of a run
that nobody disturbed, and nothing left over.

  soak_test.py [--kills N] [--seed S]     kills in all, shared out over the networks; a few unless given
NORN_SOAK_KILLS and NORN_TEST_SEED say the same. A run prints its seed; the same seed makes the same plan of kills."""
import argparse
import collections
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import threading
import time
import unittest

from norn_files import write_datasets
from programs import BIN, LIMIT_SECONDS, ODD_NETWORK, ProgramTest, drop_some, mpirun, random_rows

KILLS = int(os.environ.get("NORN_SOAK_KILLS", "3"))
EPOCHS_A_KILL = 24
CHECKPOINT_EPOCHS = 5
ENDED_WITHIN_SECONDS = 60.0
EPOCH = re.compile(r"NNNetwork::Train: Epoch (\d+),")


def parent_of(pid):
    """None when the process has ended, also when nobody has asked for its end yet."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[1])


def descendants(pid):
    """The process and all that it started, parents first."""
    parents = {int(p.name): parent_of(p.name) for p in pathlib.Path("/proc").iterdir() if p.name.isdigit()}
    found = [pid]
    for known in found:
        found += [child for child, parent in parents.items() if parent == known]
    return found


def programs_of(pid):
    """Its descendants, but for readers of files: a run that has read its data goes on without."""
    readers = "norn_netcdf_reader"[:15]
    return [p for p in descendants(pid) if read_name(p) != readers]


def read_name(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


class Run:
    """A run of trainer whose progress is watched."""

    def __init__(self, command, **more):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
        self.epoch = 0
        self.err = ""
        self.readers = [threading.Thread(target=self.read_epochs), threading.Thread(target=self.read_errors)]
        for reader in self.readers:
            reader.start()

    def read_epochs(self):
        for line in self.process.stdout:
            match = EPOCH.match(line)
            self.epoch = int(match.group(1)) if match else self.epoch

    def read_errors(self):
        for line in self.process.stderr:
            self.err += line

    def runs(self):
        return self.process.poll() is None

    def end(self):
        code = self.process.wait(timeout=LIMIT_SECONDS)
        for reader in self.readers:
            reader.join()
        self.process.stdout.close()
        self.process.stderr.close()
        return code


class Soak(ProgramTest):
    WIDTH = 401

    def setUp(self):
        super().setUp()
        if mpirun(1) is None:
            self.skipTest("mpirun is not installed")
        known, held_out = drop_some(self.random, random_rows(self.random, 523, self.WIDTH))
        write_datasets(self.path("train.nc"), [("gl_input", self.WIDTH, known, None),
                                               ("gl_output", self.WIDTH, held_out, None)])
        # Open MPI's own files, where nobody else's are.
        self.mpi = self.path("mpi")
        self.mpi.mkdir()

    def command(self, ranks, model, epochs, *arguments):
        # Polling ranks must give way when there are more of them than cores. 0: one process without a launcher.
        prefix = ()
        if ranks > 0:
            prefix = (*mpirun(ranks), "--mca", "orte_tmpdir_base", str(self.mpi), "--mca", "btl_vader_backing_directory",
                      str(self.mpi), "--mca", "mpi_yield_when_idle", "1")
        return [*prefix, str(BIN / "trainer"), "-c", "net.json", "-i", "train.nc", "-n", model, "-e", str(epochs),
                "--threads", "1", "--log-format", "dsstne", *arguments]

    def temporary_files(self):
        return sorted(path.name for path in self.folder.glob("*.tmp-*"))

    def mpi_files(self):
        return [path for path in self.mpi.rglob("*") if not path.is_dir()]

    def wait_for(self, condition, run):
        limit = time.monotonic() + LIMIT_SECONDS
        while not condition():
            self.assertTrue(run.runs(), "it ended before it was killed: " + run.err)
            self.assertLess(time.monotonic(), limit, "the run does not go on: " + run.err)
            time.sleep(0.0005)

    def plan(self, kills):
        """How each kill is to hit: a run that begins, a rank or the launcher at work, one that writes a checkpoint or, last of
        all, the model."""
        kinds = ["start", "checkpoint", "rank", "launcher"]
        self.random.shuffle(kinds)
        hows = (kinds * kills)[:kills]
        if kills > len(kinds) or (kills > 0 and self.random.random() < 0.5):
            hows[-1] = "end"
        return hows

    def gate_for(self, how, at_epoch):
        """Where a run waits until it is killed, so that it is not over before: amid the file that ends its next epochs."""
        epoch = (at_epoch // CHECKPOINT_EPOCHS + 1) * CHECKPOINT_EPOCHS
        name = "soaked.nc" if how == "end" else f"soaked.epoch{epoch}.nc"
        return self.gate("write", f"/{name}.tmp-", self.random.randint(1, 9))

    def kill(self, run, how, at_epoch, ranks, gate):
        """Kills one process of the run and waits until all have ended. Returns what was hit."""
        if how == "start":
            moment = time.monotonic() + self.random.uniform(0.0, 1.0)
            self.wait_for(lambda: time.monotonic() >= moment, run)
            return self.kill_one(run, self.random.choice(programs_of(run.process.pid)), ranks, gate)
        if how in ("checkpoint", "end"):
            self.wait_for(gate.waiting, run)
            [writer] = gate.waiting()
            self.assertTrue(self.temporary_files())
            return self.kill_one(run, writer, ranks, gate)
        self.wait_for(lambda: run.epoch >= at_epoch, run)
        time.sleep(self.random.uniform(0.0, 0.15))
        all_of_it = programs_of(run.process.pid)
        victim = self.random.choice(all_of_it[-ranks:]) if ranks > 0 and how == "rank" else all_of_it[0]
        return self.kill_one(run, victim, ranks, gate)

    def kill_one(self, run, victim, ranks, gate):
        all_of_it = descendants(run.process.pid)
        os.kill(victim, signal.SIGKILL)
        self.assertNotEqual(run.end(), 0, f"{victim} was killed, and the run did not notice")
        limit = time.monotonic() + ENDED_WITHIN_SECONDS
        # The gate stays closed: ranks whose launcher is gone could make all other epochs before they notice.
        while left := [pid for pid in all_of_it if parent_of(pid) is not None]:
            self.assertLess(time.monotonic(), limit, f"processes {left} go on after {victim} was killed")
            time.sleep(0.01)
        gate.open()
        return "launcher" if ranks > 0 and victim == run.process.pid else "rank"

    def check_mpis_files(self, hit):
        """A launcher that is alive clears up after its ranks; one that is killed cannot, and that is all that may stay."""
        if hit == "launcher":
            subprocess.run(["rm", "-rf", *map(str, self.mpi.iterdir())], check=True)
        self.assertEqual(self.mpi_files(), [])

    def check_nothing_is_left(self, model):
        expected = {"net.json", "train.nc", "straight.nc", f"{model}.nc"}
        names = {path.name for path in self.folder.iterdir() if path.is_file() and not path.name.startswith("gate")}
        names -= {"test.nc", "features.txt"}
        checkpoints = {name for name in names if re.fullmatch(model + r"\.epoch\d+(\.batch\d+)?\.nc", name)}
        self.assertEqual(names - checkpoints, expected)
        self.assertLessEqual(len(checkpoints), 2)
        self.check_mpis_files("none")
        ours = [p.name for p in pathlib.Path("/proc").iterdir() if p.name.isdigit() and self.works_here(p)]
        self.assertEqual(ours, [], "processes that are left")

    def works_here(self, process):
        try:
            return pathlib.Path(os.readlink(process / "cwd")) == self.folder.resolve()
        except OSError:
            return False

    def soak(self, kills):
        began = time.monotonic()
        epochs = EPOCHS_A_KILL * (kills + 1)
        subprocess.run(self.command(0, "straight.nc", epochs, "--checkpoint-epochs", "0"), cwd=self.folder, check=True,
                       capture_output=True, timeout=LIMIT_SECONDS)
        counts = collections.Counter()
        hows = self.plan(kills)
        for number in range(kills + 1):
            ranks = self.random.randint(0, 4)
            left_before = self.temporary_files()
            last = number == kills
            at = EPOCHS_A_KILL * number + self.random.randint(1, EPOCHS_A_KILL - CHECKPOINT_EPOCHS)
            gate = None if last else self.gate_for(hows[number], at)
            run = Run(self.command(ranks, "soaked.nc", epochs, "--resume", "auto", "--checkpoint-epochs", str(CHECKPOINT_EPOCHS),
                                   "--checkpoint-minutes", "0.002", "--keep", "2"), cwd=self.folder,
                      env=gate.environment if gate else None)
            if last:
                self.assertEqual(run.end(), 0, run.err)
            else:
                hit = self.kill(run, hows[number], at, ranks, gate)
                counts[hit] += 1
                counts["amid a file"] += hows[number] in ("checkpoint", "end")
                if hows[number] in ("start", "end"):
                    counts["at the " + hows[number]] += 1
                self.check_mpis_files(hit)
            counts["resumed"] += "resuming from" in run.err
            for name in left_before if " of memory" in run.err else ():  # it got as far as that
                self.assertIn(f"removed {name}", run.err)
        self.assertEqual(self.read("soaked.nc"), self.read("straight.nc"))
        self.check_nothing_is_left("soaked")
        print(f"{self.id()}: {kills} kills ({dict(counts)}), {epochs} epochs in {time.monotonic() - began:.0f} s, the same "
              "bytes", file=sys.stderr)

    def test_a_softmax_network(self):
        self.write("net.json", ODD_NETWORK % ("Relu", "SoftMax"))
        self.soak((KILLS + 1) // 2)

    def test_a_sigmoid_network(self):
        self.write("net.json", ODD_NETWORK % ("Sigmoid", "Sigmoid"))
        self.soak(KILLS // 2)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--seed", type=int)
    options, rest = parser.parse_known_args()
    KILLS = options.kills
    if options.seed is not None:
        os.environ["NORN_TEST_SEED"] = str(options.seed)
    unittest.main(argv=[sys.argv[0], *rest])
