# SPDX-License-Identifier: Apache-2.0
"""Ranks that fail or die amid a training step, a checkpoint, recommending or evaluating, one or several of them at once: all
end, one of them says why, and what was there before is whole."""
import os
import pathlib
import re
import resource
import signal
import time
import unittest

from norn_files import write_datasets
from programs import BIN, NETWORK, failing_call, mpirun
from rank_runs import HOST, RanksTest

AMID_TRAINING = rf"of 3 on {HOST}: training, epoch \d+, batch \d+\]$"

# Wide enough for each of three ranks to have blocks of the output; its targets have values.
VALUES_NETWORK = """{
  "Name": "values", "ErrorFunction": "L2", "Training": {"Optimizer": "SGD", "Alpha": 0.001, "Batch": 32, "Epochs": 2},
  "Layers": [
    {"Name": "Input", "Kind": "Input", "N": "auto", "DataSet": "gl_input", "Sparse": true},
    {"Name": "Hidden", "Kind": "Hidden", "N": 16, "Activation": "Tanh"},
    {"Name": "Output", "Kind": "Output", "N": "auto", "DataSet": "gl_output", "Activation": "Linear", "Sparse": true}
  ]
}
"""

# One long row of the input decides how much memory its batch takes.
LONG_ROW_NETWORK = """{
  "Name": "long_row", "ErrorFunction": "CrossEntropy", "Training": {"Optimizer": "SGD", "Alpha": 0.001},
  "Layers": [
    {"Name": "Input", "Kind": "Input", "N": "auto", "DataSet": "gl_input", "Sparse": true},
    {"Name": "Hidden", "Kind": "Hidden", "N": 2, "Activation": "Tanh"},
    {"Name": "Output", "Kind": "Output", "N": "auto", "DataSet": "gl_output", "Activation": "SoftMax"}
  ]
}
"""


def cut_off(path):
    os.truncate(path, 5000)


def spoil(path):
    """Column numbers that cannot be, in the file's second half, which has the targets."""
    size = path.stat().st_size
    with open(path, "r+b") as file:
        file.seek(size // 2)
        file.write(b"\xff" * (size // 4))


class AmidTraining(RanksTest):
    """Each rank reads a file of its own, as ranks of several machines may, from the disk all the time."""

    def start_on(self, files):
        for name in set(files):
            self.path(name).write_bytes(self.read("train.nc"))
        command = (f"{BIN}/trainer -c net.json -i FILE -n model.nc -e {self.EPOCHS} --threads 1 --checkpoint-epochs 1 "
                   "--data-memory 1 --batch 500").split()
        return self.launch(*self.files_by_rank(command, files))

    def check_fails(self, files, harm, message):
        """Does that to the last rank's file; `message` may name it and its size."""
        failing = "".join(str(rank) for rank, name in enumerate(files) if name == files[-1])
        process = self.start_on(files)
        self.wait_for_epochs(process, 2)
        harmed = self.path(files[-1])
        size = harmed.stat().st_size
        harm(harmed)
        error = self.finish_with_one_error(process, 3)
        self.assertRegex(error, rf"^trainer: error: (\[rank [{failing}]\] )?{message.format(name=re.escape(harmed.name), size=size)} "
                         rf"\[rank [{failing}] {AMID_TRAINING}")
        self.check_leavings("--batch", "500")
        self.clear()

    def test_a_file_that_is_cut_off_or_written_over_on_one_rank(self):
        self.write_many()
        self.check_fails(("a.nc", "b.nc", "c.nc"), cut_off, r"{name}: is 5000 bytes long, expected {size} as when it was "
                         "opened: another program cut it off or writes into it; put the whole file back and run again")
        self.check_fails(("a.nc", "b.nc", "c.nc"), spoil, r'{name}: data set "gl_output": example \d+: column 4294967295 is '
                         "out of range, expected 0 to 999; correct the data and write the file again")

    def test_one_of_several_ranks_that_fail_at_once_speaks(self):
        self.write_many()
        message = r"{name}: is 5000 bytes long, expected {size} .*"
        self.check_fails(("a.nc", "b.nc", "b.nc"), cut_off, message)
        self.check_fails(("b.nc", "b.nc", "b.nc"), cut_off, message)

    def test_one_that_is_slow_to_say_why_is_not_interrupted(self):
        self.write_many()
        gate = self.gate("none", "")
        for name in ("a.nc", "b.nc"):
            self.path(name).write_bytes(self.read("train.nc"))
        undisturbed = f"FAILING_CALL=none:none:0:wait {BIN}/trainer -i a.nc"
        slow = f"FAILING_CALL=write:/run/log.jsonl:1:wait {BIN}/trainer -i b.nc"
        process = self.launch(*self.files_by_rank(
            f"env FILE -c net.json -n model.nc -e {self.EPOCHS} --threads 1 --data-memory 1 --batch 500 --run-dir run".split(),
            (undisturbed, slow, slow)), gate=gate)
        self.wait_for_epochs(process, 2)
        cut_off(self.path("b.nc"))
        self.wait_at(gate, process)
        time.sleep(1.5)  # while it writes what it says into the run's folder
        self.assertEqual(len(gate.waiting()), 1)
        gate.open()
        self.assertRegex(self.finish_with_one_error(process, 3), r"^trainer: error: \[rank [12]\] b.nc: is 5000 bytes long")

    def test_numbers_that_are_too_large_in_the_blocks_of_one_rank(self):
        width = 200
        values = [[1.0] * len(row) for row in self.rows]
        rows = [list(row) for row in self.rows]
        rows[77].append(width - 1)  # a unit of the last block
        values[77].append(3e38)
        write_datasets(self.path("train.nc"), [("gl_input", self.width, self.rows, None), ("gl_output", width, rows, values)])
        self.write("net.json", VALUES_NETWORK)
        process = self.start(epochs=2)
        self.assertEqual(self.finish_with_one_error(process, 6).split(" [rank")[0], 'trainer: error: layer "Hidden": a delta is '
                         "not finite at step 2 (epoch 1); lower the learning rate")


@unittest.skipIf(os.environ.get("NORN_SANITIZE"), "a sanitizer's memory has other limits")
class WithoutMemory(RanksTest):
    """Rank 1 gets no more memory than it has, while rank 0 waits amid its first steps."""

    def check_fails(self, gate, place, *arguments):
        width = 100000
        rows = [[self.random.randrange(width)] for _ in range(1000)] + [range(width)]  # the last batch needs more than all before
        write_datasets(self.path("train.nc"), [("gl_input", width, rows, None),
                                               ("gl_output", self.width, [[0]] * len(rows), None)])
        self.write("net.json", LONG_ROW_NETWORK)
        process = self.start("--batch", "8", *arguments, gate=gate)
        pid = self.wait_at(gate, process)[1]
        taken = re.search(r"VmSize:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text())
        resource.prlimit(pid, resource.RLIMIT_AS, (int(taken.group(1)) * 512,) * 2)
        gate.open()
        self.assertRegex(self.finish_with_one_error(process, 4), r"^trainer: error: \[rank 1\] main memory: \d.* could not be "
                         r"allocated, \d.* are in use; use a smaller batch or a machine with more memory \[rank 1 of 3 on "
                         rf"{HOST}: {place}\]$")

    def test_for_the_data_of_a_step(self):
        self.check_fails(self.gate("write", "/run/log.jsonl", 2), r"training, epoch 1, batch \d+", "--run-dir", "run")
        self.assertEqual(self.half_written(), [])

    def test_for_its_part_of_a_checkpoint(self):
        self.check_fails(self.gate("rename", "/model.epoch0.batch"), r"(writing a checkpoint|training), epoch 1(, batch \d+)?",
                         "--checkpoint-minutes", "0.0001")
        self.check_leavings("--batch", "8")


class AmidACheckpoint(RanksTest):
    """Rank 0 writes what all bring to it, and waits amid the file that it makes after four epochs; up to the sixth the run goes on."""
    WIDTH = 20000
    PLACE = r"\((writing a checkpoint|training), epoch \d+(, batch \d+)?\)"

    def start_writing(self, *arguments, epochs=3, **more):
        rows = [sorted(self.random.sample(range(self.WIDTH), 20)) for _ in range(160)]
        write_datasets(self.path("train.nc"), [("gl_input", self.WIDTH, rows, None), ("gl_output", self.WIDTH, rows, None)])
        process = self.start("--checkpoint-epochs", "2", "--batch", "160", *arguments, **more)
        self.wait_for_epochs(process, epochs)
        return process

    def start_and_see_it_write(self, *arguments):
        gate = self.gate("write", "/model.epoch4.nc.tmp-", 3)
        process = self.start_writing(*arguments, gate=gate)
        return process, self.wait_at(gate, process), gate

    def check(self, process, code, message):
        self.assertRegex(self.finish_with_one_error(process, code), message)
        self.check_leavings("--batch", "160")

    def test_a_rank_is_killed(self):
        process, ranks, gate = self.start_and_see_it_write()
        os.kill(ranks[2], signal.SIGKILL)
        gate.open()
        self.check(process, 137, rf"rank \d of 3 on {HOST} {self.PLACE}: \w+ cannot complete: rank 2 on \S+ "
                   rf"\(process {ranks[2]}\) is gone")

    def test_a_rank_hangs(self):
        process, ranks, gate = self.start_and_see_it_write("--collective-timeout", "2")
        os.kill(ranks[1], signal.SIGSTOP)
        gate.open()
        self.check(process, 5, rf"rank [02] of 3 on {HOST} {self.PLACE}: \w+ did not complete in 2 s: rank 1 "
                   rf"on \S+ \(process {ranks[1]}\) is stopped")

    def test_the_disk_is_full(self):
        small = self.mount_small("12m")  # for one file and a half
        process = self.start_writing(model="small/model.nc")
        self.assertRegex(self.finish_with_one_error(process, 3), r"^trainer: error: small/model.epoch4.nc: .* \[rank 0 of 3 on "
                         rf"{HOST}: writing a checkpoint, epoch 4\]$")
        self.assertEqual([path.name for path in small.iterdir()], ["model.epoch2.nc"])
        self.train("-e", "3", "--batch", "160", "--resume", "small/model.epoch2.nc", "--checkpoint-epochs", "0")

    def test_the_rank_that_writes_hangs(self):
        process, ranks, _ = self.start_and_see_it_write("--collective-timeout", "2")
        os.kill(ranks[0], signal.SIGSTOP)
        error = self.finish_with_one_error(process, 5)
        self.assertRegex(error, rf"rank [12] of 3 on {HOST} {self.PLACE}: \w+ did not complete in 2 s: rank 0 "
                         rf"on \S+ \(process {ranks[0]}\) is stopped")
        self.assertEqual(len(self.half_written()), 1)
        self.wait_for_end_of(ranks.values())  # the launcher does not: what a process that still ends has left is not removed
        self.check_leavings("--batch", "160", all_were_killed=True)  # the launcher ends it last of all


class BeforeTheWork(RanksTest):
    def test_a_rank_refuses_its_command_line(self):
        for rank in (0, 1):
            files = ["train.nc"] * self.RANKS
            files[rank] = "train.nc --nonsense"
            process = self.launch(*self.files_by_rank([f"{BIN}/trainer", "-c", "net.json", "-n", "model.nc", "-i", "FILE"], files))
            mark = f"[rank {rank}] " if rank else ""
            self.assertEqual(self.finish_with_one_error(process, 2),
                             f'trainer: error: {mark}unknown option "--nonsense"; trainer --help lists all options')


    def test_what_all_ranks_refuse_the_first_one_says_however_late(self):
        for name in ("late.json", "net.json"):
            self.write(name, NETWORK % "Nonsense")
        gate = self.gate("open", "/late.json")
        process = self.launch(*self.files_by_rank([f"{BIN}/trainer", "-c", "FILE", "-i", "train.nc", "-n", "model.nc"],
                                                  ("late.json", "net.json", "net.json")), gate=gate)
        self.wait_at(gate, process)
        time.sleep(2)
        gate.open()
        self.assertRegex(self.finish_with_one_error(process, 2), "^trainer: error: late.json:")


class SeveralAtOnce(RanksTest):
    def test_two_ranks_are_killed(self):
        process = self.start("--checkpoint-epochs", "1")
        ranks = self.wait_for_epochs(process, 5)
        os.kill(ranks[2], signal.SIGSTOP)  # or it might speak of rank 1 before it is killed itself
        for rank in (1, 2):
            os.kill(ranks[rank], signal.SIGKILL)
        self.assertRegex(self.finish_with_one_error(process, 137), r"rank 0 of 3 on .* cannot complete: rank [12] on \S+ .* is gone")
        self.check_leavings()

    def test_two_ranks_hang(self):
        process = self.start("--checkpoint-epochs", "1", "--collective-timeout", "2")
        ranks = self.wait_for_epochs(process, 5)
        for rank in (1, 2):
            os.kill(ranks[rank], signal.SIGSTOP)
        self.assertRegex(self.finish_with_one_error(process, 5), rf"rank 0 of 3 on {HOST} .* did not complete in 2 s: rank 1 on "
                         rf"\S+ \(process {ranks[1]}\) is stopped, rank 2 on \S+ \(process {ranks[2]}\) is stopped; end it")
        self.check_leavings()


class Reading:
    """What the predictor and the evaluator have in common: a pass over data, here an example at a time. All ranks wait
    shortly before the end of the file: it is read when it is opened, too."""

    def setUp(self):
        super().setUp()
        self.write_many()
        self.train("-e", "1")

    def command(self, file):
        return [f"{BIN}/{self.PROGRAM}", "-n", "model.nc", "--data", file, "--data-memory", "1", "--batch", "1", "--threads", "1",
                *self.OPTIONS]

    def begin(self, *arguments, files=("train.nc",) * 3):
        program, *undisturbed = self.command("train.nc")
        self.succeed(os.path.basename(program), *undisturbed,
                     env=failing_call("none", "train.nc", 0, "wait", FAILING_CALL_COUNTS=self.path("counts")))
        reads = int(re.search(r"^read (\d+)$", self.path("counts").read_text(), re.M)[1])
        for output in self.folder.glob("out.txt"):
            output.unlink()
        gate = self.gate("read", "train.nc", reads - 2)
        process = self.launch(*self.files_by_rank([*self.command("FILE"), *arguments], files), gate=gate)
        return process, self.wait_at(gate, process, self.RANKS), gate

    def check_ends(self, process, code, message):
        self.assertRegex(self.finish_with_one_error(process, code), message)
        self.assertEqual(self.half_written(), [])
        self.assertFalse(self.path("out.txt").exists())

    def test_a_rank_is_killed(self):
        rank = self.random.randrange(self.RANKS)
        process, ranks, gate = self.begin()
        os.kill(ranks[rank], signal.SIGKILL)
        gate.open()
        self.check_ends(process, 137, rf"rank \d of 3 on {HOST} \({self.WORK}, batch \d+\): \w+ cannot complete: rank {rank} on "
                        rf"\S+ \(process {ranks[rank]}\) is gone")

    def test_a_rank_hangs(self):
        process, ranks, gate = self.begin("--collective-timeout", "2")
        os.kill(ranks[1], signal.SIGSTOP)
        gate.open()
        self.check_ends(process, 5, rf"rank [02] of 3 on {HOST} \({self.WORK}, batch \d+\): \w+ did not complete in 2 s: rank 1 on "
                        rf"\S+ \(process {ranks[1]}\) is stopped")

    def test_the_data_of_a_rank_are_cut_off(self):
        self.path("own_train.nc").write_bytes(self.read("train.nc"))
        process, _, gate = self.begin(files=("train.nc", "train.nc", "own_train.nc"))
        cut_off(self.path("own_train.nc"))
        gate.open()
        self.check_ends(process, 3, rf"^{self.PROGRAM}: error: \[rank 2\] own_train.nc: is 5000 bytes long, expected \d+ as when it was "
                        r"opened: another program cut it off or writes into it; put the whole file back and run again "
                        rf"\[rank 2 of 3 on {HOST}: {self.WORK}, batch \d+\]$")


class AmidRecommending(Reading, RanksTest):
    PROGRAM, WORK, OPTIONS = "predictor", "predicting", ("-s", "out.txt")

    def test_the_disk_is_full(self):
        small = self.mount_small("64k")
        self.fail_with(3, "small/out.txt: ", "predictor", "-n", "model.nc", "--data", "train.nc", "-s", "small/out.txt",
                       "--threads", "1", prefix=mpirun(self.RANKS))
        self.assertEqual(list(small.iterdir()), [])


class AmidEvaluating(Reading, RanksTest):
    PROGRAM, WORK, OPTIONS = "evaluator", "evaluating", ("--keep-seen",)


if __name__ == "__main__":
    unittest.main()
