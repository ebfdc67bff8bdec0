# SPDX-License-Identifier: Apache-2.0
"""How a run of the trainer begins: where it may write, how many epochs, and that no other run is at the same model."""
import os
import shutil
import signal
import socket
import subprocess
import time
import unittest

from norn_files import model_arrays, write_datasets
from programs import BIN, LIMIT_SECONDS, Gate, ProgramTest, mpirun


class Checkpoints(ProgramTest):
    """Checkpoints whose name is not the model's."""

    def refused(self, message, name, *arguments, code=3, **more):
        done = self.fail_with(code, message, "trainer", "-c", "net.json", "-i", "train.nc", "-n", "model.nc", "--checkpoint-name",
                              name, *arguments, **more)
        self.assertEqual(done.stdout, "")  # not an epoch was trained
        self.assertEqual(list(self.folder.glob("model*")), [])

    def test_in_a_folder_that_is_not_there_are_refused_at_the_start(self):
        self.refused("none/ck.nc: the folder none does not exist; make it first", "none/ck")
        if mpirun(1) is not None:
            self.refused("none/ck.nc: the folder none does not exist; make it first", "none/ck", prefix=mpirun(2))

    def test_in_a_folder_that_cannot_be_written_are_refused_at_the_start(self):
        if os.geteuid() == 0:  # permissions do not hold for the superuser
            self.refused("/proc/ck.nc: no file can be made in /proc: ", "/proc/ck")
        else:
            self.path("closed").mkdir(mode=0o500)
            self.refused("closed/ck.nc: no file can be made in closed: permission denied", "closed/ck")


    def test_named_as_a_folder_are_refused_at_the_start(self):
        for name in ("ck", "ck/", "none/", "."):
            self.path("ck").mkdir(exist_ok=True)
            inside = name if name.endswith("/") else name + "/"
            self.refused(f"--checkpoint-name {name} is a folder; checkpoints are NAME.epochN.nc: give a name in it, such as {inside}model",
                         name, code=2)
            self.assertEqual(list(self.path("ck").iterdir()), [])
        self.train("-e", "2", "--checkpoint-name", "ck/model", "--checkpoint-epochs", "1")
        self.assertTrue(self.path("ck/model.epoch1.nc").exists())


class Alignment(ProgramTest):
    """Examples of an input and of targets in another file."""

    def write_texts(self):
        lines = [f"user{i}\t" + ":".join(f"item{u}" for u in row) for i, row in enumerate(self.known) if row]
        self.random.shuffle(lines)
        for name, order in (("d", lines), ("reversed", lines[::-1])):
            self.write(f"{name}.txt", "\n".join(order) + "\n")
            self.succeed("importer", "--input", f"{name}.txt", "--output", f"{name}.nc", "--name", "gl", "--features", "known.txt")
        first, last = (line.split("\t")[0] for line in (lines[0], lines[-1]))
        return (f'reversed.nc: data set "gl_output": example 0 is "{last}", but in "gl_input" of d.nc it is "{first}": examples pair '
                "by position, so the two are not aligned; import both together (importer --input, --target)")

    def test_of_files_in_another_order_is_refused(self):
        message = self.write_texts()
        base = ("-c", "net.json", "-n", "model.nc")
        for more in ((), ("--data-memory", "1")):
            self.fail_with(3, message, "trainer", *base, "-i", "d.nc", "-o", "reversed.nc", *more)
        self.assertFalse(self.path("model.nc").exists())
        self.fail_with(3, message, "trainer", *base, "-i", "d.nc", "--validation-input", "d.nc", "--validation-output", "reversed.nc")
        self.path("d.nc").rename(self.path("twin.nc"))
        self.succeed("importer", "--input", "d.txt", "--output", "d.nc", "--name", "gl", "--features", "known.txt")
        self.succeed("trainer", *base, "-i", "d.nc", "-o", "twin.nc", "-e", "1")


class Readers(ProgramTest):
    """Of what the programs print, that go before the end."""

    def test_of_epochs_that_go_do_not_end_the_run(self):
        command = [str(BIN / "trainer"), "-c", "net.json", "-i", "train.nc", "-n", "model.nc", "-e", "300", "--log-format", "dsstne"]
        with subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, pipesize=4096) as run:
            self.assertIn("Epoch 1,", run.stdout.readline())
            run.stdout.close()
            said = run.stderr.read()
        self.assertEqual(run.returncode, 0, said)
        self.assertEqual(said.count("standard output: its reader has gone; the run goes on and prints no more there"), 1)
        self.train("-e", "300", model="straight.nc")
        self.assertEqual(self.read("model.nc"), self.read("straight.nc"))

    def test_of_all_that_is_said_that_go_do_not_end_the_run(self):
        done = subprocess.run(["bash", "-c", '"$0" "$@" 2>&1 | head -1; exit ${PIPESTATUS[0]}', str(BIN / "trainer"), "-c", "net.json",
                               "-i", "train.nc", "-n", "model.nc", "-e", "30"], cwd=self.folder, capture_output=True,
                              timeout=LIMIT_SECONDS)
        self.assertEqual(done.returncode, 0)
        self.assertTrue(self.path("model.nc").exists())

    def test_of_results_that_go_end_the_program_quietly(self):
        self.train("-e", "1")
        rows = self.known * 40
        write_datasets(self.path("many.nc"), [("gl_input", self.width, rows, None)])
        command = [str(BIN / "predictor"), "-n", "model.nc", "--data", "many.nc", "-s", "-", "--quiet"]
        with subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, pipesize=4096) as run:
            run.stdout.readline()
            run.stdout.close()
            self.assertEqual((run.stderr.read(), run.wait()), ("", -signal.SIGPIPE))

    def run_into_nowhere(self, program, *arguments):
        """As by a program that ignores SIGPIPE, which it hands on."""
        reader, closed = os.pipe()
        os.close(reader)
        done = subprocess.run([str(BIN / program), *arguments], cwd=self.folder, stdout=closed, stderr=subprocess.PIPE, text=True,
                              timeout=LIMIT_SECONDS,
                              preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN))
        os.close(closed)
        return done.returncode, done.stderr

    def test_that_go_end_programs_quietly_whoever_started_them(self):
        self.train("-e", "1")
        for program in ("trainer", "importer", "predictor", "evaluator"):
            for word in ("--help", "--version", "--explain", "--print-man"):
                self.assertEqual(self.run_into_nowhere(program, word), (-signal.SIGPIPE, ""), (program, word))
                with open("/dev/full", "w") as full:
                    done = subprocess.run([str(BIN / program), word], stdout=full, stderr=subprocess.PIPE, text=True, timeout=LIMIT_SECONDS)
                self.assertEqual((done.returncode, done.stderr),
                                 (3, f"{program}: error: standard output: could not be written; is the disk full?\n"))
        self.assertEqual(self.run_into_nowhere("predictor", "-n", "model.nc", "--data", "test.nc", "-s", "-", "-q"), (-signal.SIGPIPE, ""))
        self.assertEqual(self.run_into_nowhere("evaluator", "-n", "model.nc", "--data", "test.nc", "-q"), (-signal.SIGPIPE, ""))

    def test_of_the_last_epoch_that_go_leave_the_run_a_success(self):
        gate = Gate(self.path("gate"), "rename", "model.nc")
        command = [str(BIN / "trainer"), "-c", "net.json", "-i", "train.nc", "-n", "model.nc", "-e", "1", "--ops", "--log-format", "dsstne"]
        with subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=gate.environment) as run:
            self.assertIn("Epoch 1,", run.stdout.readline())
            run.stdout.close()
            gate.open()
            said = run.stderr.read()
        self.assertEqual(run.returncode, 0, said)
        self.assertNotIn("reader", said)
        self.assertTrue(self.path("model.nc").exists())


class NoEpochs(ProgramTest):
    def test_write_the_initial_model_which_can_be_trained(self):
        self.train("-e", "0")
        self.train("-e", "3", "--resume")
        self.train("-e", "3", model="straight.nc")
        self.assertEqual(self.read("model.nc"), self.read("straight.nc"))

    def test_by_option_and_by_descriptor_are_the_same(self):
        self.assertEqual(self.train("-e", "0").stdout, "")
        self.write("none.json", self.path("net.json").read_text().replace('"Epochs": 3', '"Epochs": 0'))
        self.train(config="none.json", model="none.nc")
        self.assertEqual(self.read("model.nc"), self.read("none.nc"))

    def test_copy_a_model(self):
        self.train()
        self.train("-e", "0", config="model.nc", model="copy.nc")
        trained, copy = (model_arrays(self.path(name))[0] for name in ("model.nc", "copy.nc"))
        for name in ("weight0_weights", "weight1_weights", "weight0_bias"):
            self.assertTrue((trained[name] == copy[name]).all(), name)

    def test_have_nothing_to_validate(self):
        done = self.train("-e", "0", "--validation-split", "0.2", "--early-stop", "ndcg@5", "--rate-schedule", "cosine", "--warm-up", "2",
                          "--run-dir", "run", "--checkpoint-epochs", "1")
        self.assertNotIn("best", done.stderr)
        self.train("-e", "2", "--resume", "--run-dir", "run", "--checkpoint-epochs", "1")
        self.train("-e", "2", "--validation-split", "0.2", "--early-stop", "ndcg@5", "--rate-schedule", "cosine", "--warm-up", "2",
                   model="straight.nc")
        self.assertEqual(self.read("model.nc"), self.read("straight.nc"))

    def test_below_none_are_refused(self):
        self.fail_with(2, "--epochs -1 is out of range: it must be at least 0", "trainer", "-c", "net.json", "-i", "train.nc", "-n",
                       "model.nc", "-e", "-1")


class AnotherRun(ProgramTest):
    """Two trainers of one model: the one that came first goes on as if it were alone."""
    EPOCHS = "600"  # their lines do not fit into the pipe, so a run cannot end before it is read

    def command(self, *arguments, model="model.nc"):
        return [str(BIN / "trainer"), "-c", "net.json", "-i", "train.nc", "-n", model, "-e", self.EPOCHS, "--log-format", "dsstne",
                *arguments]

    def start(self, *arguments, prefix=(), **more):
        process = subprocess.Popen([*prefix, *self.command(*arguments, **more)], cwd=self.folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def start_and_wait_for_an_epoch(self, *arguments, **more):
        process = self.start(*arguments, **more)
        self.assertTrue(process.stdout.readline())
        return process

    def end(self, process):
        out, err = process.communicate(timeout=LIMIT_SECONDS)
        self.assertEqual(list(self.folder.glob("*.lock")), [])
        return process.returncode, out, err

    def refuse(self, first, *arguments, model="model.nc", named="model.nc", pid=None, **more):
        message = (f"{named}: process {pid or first.pid} on {socket.gethostname()} trains this model; wait for its end, stop it, or "
                   "give another --model or --checkpoint-name")
        done = self.fail_with(2, message, "trainer", *self.command(*arguments, model=model)[1:], **more)
        self.assertEqual(done.stdout, "")

    def test_of_a_new_model_is_refused(self):
        self.train("-e", "1")
        self.path("link.nc").symlink_to("model.nc")
        first = self.start_and_wait_for_an_epoch("--force")
        for more in ((), ("--force",), ("--force", "--seed", "5"), ("--resume",)):
            self.refuse(first, *more)
        self.refuse(first, "--force", model="link.nc", named="link.nc")
        self.train("--plan")
        self.train("-e", "1", model="else.nc")
        self.assertEqual(self.end(first)[0], 0)
        self.train("-e", self.EPOCHS, model="straight.nc")
        self.assertEqual(self.read("model.nc"), self.read("straight.nc"))

    def test_with_the_same_checkpoints_is_refused(self):
        first = self.start_and_wait_for_an_epoch("--checkpoint-name", "ck")
        self.refuse(first, "--checkpoint-name", "ck", model="else.nc", named="ck.nc")
        self.assertEqual(self.end(first)[0], 0)

    def test_of_ranks_is_refused_and_refuses(self):
        if mpirun(1) is None:
            self.skipTest("mpirun is not installed")
        first = self.start_and_wait_for_an_epoch("--threads", "1", prefix=mpirun(2))
        pid = self.path("model.nc.lock").read_text().split()[1]
        os.kill(int(pid), signal.SIGSTOP)  # mpirun reads its lines whoever else does, so it could end meanwhile
        try:
            self.refuse(first, "--force", pid=pid)
            self.refuse(first, "--force", "--threads", "1", pid=pid, prefix=mpirun(3))
        finally:
            os.kill(int(pid), signal.SIGCONT)
        self.assertEqual(self.end(first)[0], 0)

    def test_that_begins_at_the_same_moment_is_refused(self):
        self.train("-e", self.EPOCHS, model="straight.nc")
        for _ in range(5):
            both = [self.start("--force"), self.start("--force")]
            while not (ended := [process for process in both if process.poll() is not None]):
                time.sleep(0.02)  # the one that is refused ends, the other one waits to be read
            self.assertEqual([process.returncode for process in ended], [2])
            [other] = [process for process in both if process not in ended]
            code, _, err = self.end(other)
            self.assertEqual(code, 0, err)
            self.assertEqual(self.read("model.nc"), self.read("straight.nc"))

    def test_that_resumes_waits_for_one_that_is_ending(self):
        first = self.start_and_wait_for_an_epoch()
        second = self.start("--resume")
        self.assertIn(f"waiting up to 10 s for process {first.pid} on ", second.stderr.readline())
        first.send_signal(signal.SIGUSR1)
        out, err = first.communicate(timeout=LIMIT_SECONDS)
        self.assertEqual(first.returncode, 75, err)
        code, out, err = self.end(second)
        self.assertEqual(code, 0, err)
        self.assertIn("resuming from model.epoch", err)
        self.train("-e", self.EPOCHS, model="straight.nc")
        self.assertEqual(self.read("model.nc"), self.read("straight.nc"))

    def test_that_was_killed_is_in_nobodys_way(self):
        first = self.start_and_wait_for_an_epoch("--checkpoint-epochs", "1")
        first.kill()
        first.communicate()
        self.assertTrue(self.path("model.nc.lock").exists())
        self.train("-e", self.EPOCHS, "--resume")
        self.assertFalse(self.path("model.nc.lock").exists())

    def test_is_not_seen_where_files_cannot_be_locked(self):
        if shutil.which("strace") is None:
            self.skipTest("strace is not installed (tools/install_dependencies.sh)")
        for error, reason in (("ENOLCK", "No locks available"), ("ENOSYS", "Function not implemented")):
            done = self.train("--force", env={**os.environ, "HDF5_USE_FILE_LOCKING": "FALSE"}, prefix=(
                "strace", "-f", "-o", os.devnull, "-e", "trace=flock", "-e", f"inject=flock:error={error}"))
            self.assertIn(f"model.nc.lock: cannot be locked ({reason}): start no other run that writes the same model", done.stderr)


if __name__ == "__main__":
    unittest.main()
