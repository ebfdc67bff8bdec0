# SPDX-License-Identifier: Apache-2.0
"""The trainer as a program: what it writes and says, stopping and resuming, ranks and threads, bad input."""
import json
import os
import pty
import re
import resource
import signal
import subprocess
import unittest

from norn_files import model_arrays, write_datasets, write_text
from programs import BIN, LIMIT_SECONDS, NETWORK, WIDE_NETWORK, ProgramTest, mpirun

DSSTNES = ("--log-format", "dsstne")
EPOCH = re.compile(r"NNNetwork::Train: Epoch (\d+), average error ([\d.]+), average training error ([\d.]+), "
                   r"average regularization error ([\d.]+), elapsed time ([\d.]+)s$")


class Training(ProgramTest):
    def test_prints_one_line_an_epoch_for_people_and_nothing_else_on_stdout(self):
        done = self.train("-e", "5", "--lambda", "0.01", "--run-dir", "run")
        epochs = [event for event in map(json.loads, self.path("run/log.jsonl").read_text().splitlines()) if event["event"] == "epoch"]
        self.assertEqual(len(epochs), 5)
        for event, line in zip(epochs, done.stdout.splitlines(), strict=True):
            cost = event["cost"] + event["regularization"]
            self.assertRegex(line, rf"^epoch {event['epoch']}/5: cost {re.escape(f'{cost:.6g}')} \({event['regularization']:.3g} of it "
                             r"regularisation\), [\d,]+ examples/s" + (r", [\d.]+ s left$" if event["epoch"] < 5 else "$"))

    def test_a_line_has_what_the_epochs_validation_came_to(self):
        done = self.train("-e", "5", "--lambda", "0", "--validation-input", "test.nc", "--validate-every", "2", "--metrics-at", "7")
        held_out = [re.search(r", held out: ndcg@7 ([\d.]+)( \(the best\))?, ", line) for line in done.stdout.splitlines()]
        self.assertEqual([bool(found) for found in held_out], [False, True, False, True, True])
        values = [float(found.group(1)) for found in held_out if found]
        self.assertEqual([bool(found.group(2)) for found in held_out if found],
                         [value > max(values[:at], default=-1.0) for at, value in enumerate(values)])
        told = [float(value) for value in re.findall(r"at 7: .*ndcg ([\d.]+)", done.stderr)]
        for value, of_validation in zip(values, told, strict=True):  # each rounds the number itself: six digits and four decimals
            self.assertAlmostEqual(value, of_validation, delta=5.1e-5)

    def test_dsstnes_flags_and_words_bring_its_lines(self):
        for words in (["-alpha", "0.025"], ["-lambda=0.0001"], ["-lambda1", "0"], ["-mu", "0.5", "--optimizer", "SGD"], ["-d", "gl"],
                      [*DSSTNES]):
            with self.subTest(words):
                self.assertRegex(self.train("-e", "1", "--force", *words).stdout.strip(), EPOCH)
        for words in (["-b", "32"], ["--rate", "0.025"], ["-alpha", "0.025", "--log-format", "text"]):
            with self.subTest(words):
                self.assertRegex(self.train("-e", "1", "--force", *words).stdout, "^epoch 1/1: cost ")

    def test_prints_one_line_an_epoch_in_dsstnes_shape_and_nothing_else_on_stdout(self):
        done = self.train("-e", "5", "-lambda", "0.01")
        lines = [EPOCH.match(line) for line in done.stdout.splitlines()]
        self.assertEqual([line.group(1) for line in lines], ["1", "2", "3", "4", "5"])
        for line in lines:
            total, training, regularisation = (float(line.group(g)) for g in (2, 3, 4))
            self.assertAlmostEqual(total, training + regularisation, delta=2e-6)
            self.assertGreater(regularisation, 0.0)
        self.assertLess(float(lines[-1].group(3)), float(lines[0].group(3)))
        self.assertRegex(done.stderr, r"examples/s; model model\.nc")

    def test_quiet_says_nothing(self):
        for words in ((), ("--log-format", "dsstne"), ("--log-format", "text")):
            done = self.train("--quiet", "--force", *words)
            self.assertEqual((done.stdout, done.stderr), ("", ""))

    def test_flags_win_over_the_training_block_which_wins_over_defaults(self):
        self.train("-e", "2", "-alpha", "0.5", "-mu", "0.25", "-lambda1", "0.125", "-b", "16")
        training = json.loads(model_arrays(self.path("model.nc"))[1]["norn_descriptor"])["Training"]
        training = {key.lower(): value for key, value in training.items()}
        self.assertEqual(training["optimizer"], "Adam")
        self.assertEqual((training["epochs"], training["batch"]), (2, 16))
        self.assertEqual((training["alpha"], training["lambda1"]), (0.5, 0.125))
        self.assertAlmostEqual(training.get("lambda", 0.0001), 0.0001)

    def test_dsstnes_command_line_with_two_data_files(self):
        write_datasets(self.path("in.nc"), [("gl_input", self.width, self.known, None)])
        write_datasets(self.path("out.nc"), [("gl_output", self.width, self.known, None)])
        self.succeed("trainer", "-d", "gl", "-c", "net.json", "-i", "in.nc", "-o", "out.nc", "-n", "gl.nc", "-b", "32",
                     "-e", "2", "-alpha", "0.01", "-lambda", "0.001", "-mu", "0.5", "-mu1", "0.99")
        weights = model_arrays(self.path("gl.nc"))[0]
        self.assertEqual(weights["weight0_weights"].size, self.width * 16)

    def test_goes_on_from_a_models_weights(self):
        self.train("-e", "20", model="first.nc")
        done = self.succeed("trainer", "-c", "first.nc", "-i", "train.nc", "-n", "second.nc", "-e", "1", *DSSTNES)
        first = float(EPOCH.match(self.train("-e", "1", *DSSTNES).stdout.splitlines()[0]).group(3))
        again = float(EPOCH.match(done.stdout.splitlines()[0]).group(3))
        self.assertLess(again, first)

    def test_default_batch_shrinks_to_the_data(self):
        self.write("net.json", (NETWORK % "SoftMax").replace('"Batch": 32, ', ""))
        self.assertIn("batch 1024 is lowered to the 160 examples", self.train("-e", "1").stderr)

    def test_plan_prints_and_writes_nothing(self):
        before = sorted(self.folder.iterdir())
        done = self.train("--plan")
        for part in ("Hidden", "optimizer state", "GFLOP", "available"):
            self.assertIn(part, done.stdout)
        self.assertEqual(sorted(self.folder.iterdir()), before)

    def test_plan_lists_its_buffers(self):
        lines = self.train("--plan").stdout.splitlines()
        for buffer in ("Input -> Hidden weights", "Hidden -> Output optimizer state", "gradient of a tile"):
            self.assertTrue(any(line.strip().startswith(buffer) for line in lines), buffer)

    def test_a_gpu_that_is_not_there_ends_the_run_before_it_begins(self):
        nothing = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
        for words in (["--device", "cuda"], ["--gpu", "0"]):
            done = self.fail_with(4, "", "trainer", "-c", "net.json", "-i", "train.nc", "-n", "model.nc", *words, env=nothing)
            self.assertRegex(done.stderr, "this build has no CUDA|GPU 0 is not there")
            self.assertFalse(self.path("model.nc").exists())
        self.train("-e", "1", "--device", "auto", "--precision", "bf16", env=nothing)

    def test_progress_on_a_terminal_is_one_line_with_rate_and_time_left(self):
        ours, theirs = pty.openpty()
        with subprocess.Popen([str(BIN / "trainer"), "-c", "net.json", "-i", "train.nc", "-n", "model.nc", "-e", "3000"],
                              cwd=self.folder, stdout=subprocess.DEVNULL, stderr=theirs) as process:
            os.close(theirs)
            said = b""
            try:
                while chunk := os.read(ours, 65536):
                    said += chunk
            except OSError:  # the other end is closed
                pass
            self.assertEqual(process.wait(timeout=LIMIT_SECONDS), 0)
        os.close(ours)
        self.assertRegex(said.decode(), r"\r\x1b\[Kepoch \d+/3000 cost [\d.]+, \[=*>? *\] \d+%, [\d,]+ examples/s, .+ left")
        self.assertNotIn("\nepoch", said.decode())

    def test_help_and_version(self):
        done = self.succeed("trainer", "--help")
        for part in ("-alpha, --rate", "Examples", "Exit codes", "[0.025]"):
            self.assertIn(part, done.stdout)
        self.assertRegex(self.succeed("trainer", "--version").stdout, r"^trainer \d+\.\d+\.\d+ \(Norn\) \w.*\n")


class SameBits(ProgramTest):
    def test_whatever_the_threads_and_the_streaming(self):
        self.train("--threads", "1", model="one.nc")
        self.train("--threads", "3", model="three.nc")
        self.train("--data-memory", "1", model="streamed.nc")
        self.assertEqual(self.read("one.nc"), self.read("three.nc"))
        self.assertEqual(self.read("one.nc"), self.read("streamed.nc"))
        self.train("--seed", "7", model="other.nc")
        self.assertNotEqual(self.read("one.nc"), self.read("other.nc"))

    def test_with_steps_verified(self):
        self.train(model="plain.nc")
        for every in ("1", "3"):
            self.train("--verify", every, model=f"verified{every}.nc")
            self.assertEqual(self.read("plain.nc"), self.read(f"verified{every}.nc"))
        if mpirun(1) is not None:
            self.train("--verify", "2", "--threads", "1", model="ranks.nc", prefix=mpirun(2))
            self.assertEqual(self.read("plain.nc"), self.read("ranks.nc"))
        self.assertIn("copy of weights and state", self.train("--verify", "1", "--plan", model="none.nc").stdout)

    def test_whatever_the_ranks(self):
        if mpirun(1) is None:
            self.skipTest("mpirun is not installed")
        self.train(model="alone.nc")
        for ranks in (1, 2, 3):
            self.train("--threads", "1", model=f"ranks{ranks}.nc", prefix=mpirun(ranks))
            self.assertEqual(self.read("alone.nc"), self.read(f"ranks{ranks}.nc"))

    def test_whatever_the_ranks_where_weights_are_shared_out_by_source(self):
        if mpirun(1) is None:
            self.skipTest("mpirun is not installed")
        self.write("net.json", WIDE_NETWORK)
        plan = self.train("--plan", prefix=mpirun(2)).stdout
        self.assertRegex(plan, r"Input -> Wide +by units of Wide\n")
        self.assertRegex(plan, r"Wide -> Narrow +by units of Wide\n")
        self.assertRegex(plan, r"Narrow -> Output +by units of Output\n")
        self.train(model="alone.nc")
        for ranks in (2, 3):
            self.train("--threads", "1", "--verify", "2", model=f"ranks{ranks}.nc", prefix=mpirun(ranks))
            self.assertEqual(self.read("alone.nc"), self.read(f"ranks{ranks}.nc"))
        write_text(self.path("requests.txt"), self.known, self.names, self.examples)
        predict = ("predictor", "-n", "alone.nc", "-r", "requests.txt", "-i", "features.txt", "-o", "features.txt", "-k", "5",
                   "-b", "160")
        self.succeed(*predict, "-s", "alone.txt")
        self.succeed(*predict, "-s", "ranks.txt", "--threads", "1", prefix=mpirun(3))
        self.assertEqual(self.read("alone.txt"), self.read("ranks.txt"))


class Stopping(ProgramTest):
    EPOCHS = 400

    def stop(self, number, count, *arguments, model="stopped.nc", epochs=EPOCHS, **more):
        return self.stop_after_epochs(number, count, "-c", "net.json", "-i", "train.nc", "-n", model, "-e", epochs, *arguments, **more)

    def resume(self, *arguments, model="stopped.nc", **more):
        return self.train("-e", self.EPOCHS, "--resume", *arguments, model=model, **more)

    def test_by_a_signal_and_resumed_equals_never_stopped(self):
        self.train("-e", self.EPOCHS, model="straight.nc")
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT):
            model = f"{number.name}.nc"
            code, _, err = self.stop(number, 20, model=model)
            self.assertEqual(code, 75, err)
            self.assertIn("run the same command with --resume", err)
            self.assertFalse(self.path(model).exists())
            self.assertIn("resuming from", self.resume(model=model).stderr)
            self.assertEqual(self.read(model), self.read("straight.nc"), number.name)

    def test_by_kill_9_and_resumed_equals_never_stopped(self):
        self.train("-e", self.EPOCHS, model="straight.nc")
        code, _, _ = self.stop(signal.SIGKILL, 25, "--checkpoint-epochs", "4", "--keep", "2")
        self.assertEqual(code, -signal.SIGKILL)
        checkpoints = list(self.folder.glob("stopped.epoch*.nc"))
        self.assertTrue(1 <= len(checkpoints) <= 3, checkpoints)
        self.resume()
        self.assertEqual(self.read("stopped.nc"), self.read("straight.nc"))

    def test_on_ranks_and_resumed_on_another_number_of_ranks(self):
        if mpirun(1) is None:
            self.skipTest("mpirun is not installed")
        code, _, err = self.stop(signal.SIGUSR1, 10, "--threads", "1", "--checkpoint-epochs", "0", epochs=100000, prefix=mpirun(2))
        self.assertEqual(code, 75, err)
        [checkpoint] = self.folder.glob("stopped.epoch*.nc")
        epochs = int(re.search(r"epoch(\d+)", checkpoint.name)[1]) + 20
        self.train("-e", epochs, "--threads", "1", "--resume", model="stopped.nc", prefix=mpirun(3))
        self.train("-e", epochs, model="straight.nc")
        self.assertEqual(self.read("stopped.nc"), self.read("straight.nc"))

    def test_resume_starts_anew_when_there_is_nothing_yet(self):
        self.train(model="straight.nc")
        done = self.train("--resume", model="new.nc")
        self.assertIn("starting from the beginning", done.stderr)
        self.assertEqual(self.read("new.nc"), self.read("straight.nc"))

    def test_more_epochs_of_a_finished_run(self):
        self.train("-e", "6", model="straight.nc")
        self.train("-e", "2")
        self.train("-e", "6", "--resume")
        done = self.train("-e", "6", "--resume")
        self.assertIn("all 6 epochs are done already", done.stderr)
        arrays, straight = (model_arrays(self.path(m))[0] for m in ("model.nc", "straight.nc"))
        for name, values in straight.items():
            self.assertTrue((arrays[name] == values).all(), name)

    def test_a_damaged_checkpoint_falls_back_to_the_one_before(self):
        self.train("-e", "6", model="straight.nc")
        self.train("-e", "6", "--checkpoint-epochs", "2", "--keep", "0")
        self.path("model.nc").unlink()
        newest = self.path("model.epoch4.nc")
        newest.write_bytes(newest.read_bytes()[:1000])
        self.assertIn("resuming from model.epoch2.nc", self.train("-e", "6", "--resume").stderr)
        self.assertEqual(self.read("model.nc"), self.read("straight.nc"))

    def flip(self, name, at):
        data = bytearray(self.read(name))
        data[at] ^= 1 << self.random.randrange(8)
        self.path(name).write_bytes(data)

    def place_of(self, name, array):
        """Where the middle of an array stands in a file."""
        values = model_arrays(self.path(name))[0][array].astype("<f4").tobytes()
        middle = len(values) // 8 * 4
        return self.read(name).index(values[middle:middle + 64]) + self.random.randrange(64)

    def test_a_flipped_bit_is_named_and_the_checkpoint_before_taken(self):
        self.train("-e", "8", model="straight.nc")
        self.train("-e", "8", "--checkpoint-epochs", "2", "--keep", "0")
        self.path("model.nc").unlink()
        self.flip("model.epoch6.nc", self.place_of("model.epoch6.nc", "weight1_slot0"))
        self.flip("model.epoch4.nc", self.random.randrange(48, 512))
        for options in (["--resume"], ["--resume", "auto"]):
            done = self.train("-e", "8", *options, "--checkpoint-epochs", "0")
            self.assertIn('passed over: model.epoch6.nc: variable "weight1_slot0" is damaged: its checksum is ', done.stderr)
            self.assertIn("passed over: model.epoch4.nc: the header is damaged", done.stderr)
            self.assertIn("resuming from model.epoch2.nc", done.stderr)
            self.assertEqual(self.read("model.nc"), self.read("straight.nc"))
            self.path("model.nc").unlink()

    def test_a_damaged_file_that_is_asked_for(self):
        self.train("-e", "2")
        place = self.place_of("model.nc", "weight0_weights")
        self.flip("model.nc", place)
        damaged = 'model.nc: variable "weight0_weights" is damaged: its checksum is '
        run = ("trainer", "-c", "net.json", "-i", "train.nc", "-n")
        self.fail_with(3, damaged, *run, "model.nc", "-e", "4", "--resume", "model.nc")
        self.fail_with(3, damaged, "trainer", "-c", "model.nc", "-i", "train.nc", "-n", "more.nc", "-e", "4")
        self.fail_with(3, damaged, "predictor", "-n", "model.nc", "--data", "train.nc", "-o", "features.txt", "-s", "recs.txt")
        self.fail_with(3, damaged, "evaluator", "--model", "model.nc", "--data", "test.nc")
        self.fail_with(3, "model.nc: neither the model nor a checkpoint of it is whole and can be resumed from; restore one "
                       "of them, or start anew with --force instead of --resume", *run, "model.nc", "--resume")
        if mpirun(1) is not None:
            self.fail_with(3, damaged, *run, "model.nc", "-e", "4", "--resume", "model.nc", prefix=mpirun(3))
            self.fail_with(3, "model.nc: neither ", *run, "model.nc", "--resume", "auto", prefix=mpirun(3))

    def test_what_cannot_change_when_resumed(self):
        self.train("-e", "2")
        for option, value, before in (("--batch", "16", "32"), ("--seed", "5", "12134"),
                                      ("--optimizer", "SGD", "Adam")):
            self.fail_with(2, f"{option} cannot change when a run is resumed: model.nc was trained with {before}; "
                           "leave the option out", "trainer", "-c", "net.json", "-i", "train.nc", "-n", "model.nc",
                           "-e", "4", "--resume", option, value)


class BadInput(ProgramTest):
    def fail_training(self, code, message, *arguments, config="net.json", data="train.nc", model="model.nc", **more):
        before = {path: path.read_bytes() for path in self.folder.iterdir() if path.is_file()}
        self.fail_with(code, message, "trainer", "-c", config, "-i", data, "-n", model, *arguments, **more)
        after = {path: path.read_bytes() for path in self.folder.iterdir() if path.is_file()}
        self.assertEqual(before, after, "files have changed")

    def test_command_line(self):
        self.fail_training(2, 'unknown option "--epohcs"; did you mean "--epochs"? trainer --help lists all options',
                           "--epohcs", "3")
        self.fail_training(2, '--epochs: "ten" is no whole number', "-e", "ten")
        self.fail_with(2, "--config (-c) or --recipe sigmoid, --input (-i), --model (-n) are missing; trainer --help shows examples",
                       "trainer")

    def test_files_that_are_missing(self):
        self.fail_training(2, "--config: the file none.json does not exist; name a network descriptor (JSON) or a model",
                           config="none.json")
        self.fail_training(3, "none.nc: ", data="none.nc")
        self.fail_training(3, "no/model.nc: the folder no does not exist; make it first", model="no/model.nc")
        self.path("folder").mkdir()
        self.fail_training(3, "folder: is a folder; name a file to write", model="folder")

    def test_files_that_are_damaged(self):
        self.write("text.nc", "this is no NetCDF file\n")
        self.path("half.nc").write_bytes(self.read("train.nc")[:-2000])
        self.fail_training(3, "text.nc: ", data="text.nc")
        self.fail_training(3, "half.nc: ", data="half.nc")
        self.write("broken.json", '{"Layers": [')
        self.fail_training(2, "broken.json:1", config="broken.json")

    def test_an_existing_model(self):
        self.write("model.nc", "precious")
        self.fail_training(2, "model.nc: the network file exists already; give another --model, --force to replace "
                           "it, or --resume to go on with its training")
        self.train("--force")
        self.assertGreater(self.path("model.nc").stat().st_size, 1000)

    def test_checkpoints_of_an_earlier_run(self):
        self.train("-e", "4", "--checkpoint-epochs", "2")
        self.path("model.nc").unlink()
        self.fail_training(2, "model.epoch2.nc: a checkpoint of an earlier run exists; give --resume to go on from it, "
                           "--force to start anew, or another --model")
        self.train("-e", "1", "--force")
        self.assertEqual(list(self.folder.glob("model.epoch*")), [])

    def test_a_batch_larger_than_the_data(self):
        self.fail_training(2, "--batch 161 is larger than the 160 examples of the data; give --batch 160 or less",
                           "-b", "161")

    def test_data_that_do_not_belong_together(self):
        write_datasets(self.path("train.nc"), [("gl_input", self.width, self.known, None),
                                               ("gl_output", self.width, self.known[:-1], None)])
        self.fail_training(3, 'train.nc: data set "gl_output" has 159 examples, but "gl_input" of train.nc has 160')

    def test_a_set_that_is_missing(self):
        write_datasets(self.path("train.nc"), [("gl_input", self.width, self.known, None)])
        self.fail_training(3, 'net.json:7: layer "Output": data set "gl_output" is in none of the files')

    def test_indices_and_values_out_of_range(self):
        bad = [list(row) for row in self.known]
        bad[17] = [self.width]
        write_datasets(self.path("train.nc"), [("gl_input", self.width, bad, None),
                                               ("gl_output", self.width, self.known, None)])
        self.fail_training(3, "train.nc: ")
        values = [[1.0] * len(row) for row in self.known]
        values[3][0] = float("nan")
        write_datasets(self.path("train.nc"), [("gl_input", self.width, self.known, values),
                                               ("gl_output", self.width, self.known, None)])
        self.fail_training(3, "train.nc: ")

    def test_a_rate_that_diverges(self):
        text = (NETWORK % "Linear").replace("CrossEntropy", "L2").replace("Adam", "SGD").replace("Tanh", "Linear")
        self.write("wild.json", text)
        self.fail_training(6, 'layer "', "-alpha", "1e30", "-e", "50", config="wild.json")

    @unittest.skipIf(os.environ.get("NORN_SANITIZE"), "a sanitizer's memory has other limits")
    def test_too_little_memory(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (900 << 20, 900 << 20))

        text = (NETWORK % "SoftMax").replace('"N": 16', '"N": 4000000')
        self.write("huge.json", text)
        self.fail_training(4, "this run needs ", "--threads", "1", config="huge.json", preexec_fn=limit)

    def test_a_disk_that_is_full(self):
        small = self.mount_small("64k")
        (small / "kept.nc").write_bytes(b"precious")
        text = (NETWORK % "SoftMax").replace('"N": 16', '"N": 1024')
        self.write("wide.json", text)
        self.fail_with(3, "small/kept.nc: ", "trainer", "-c", "wide.json", "-i", "train.nc", "-n", "small/kept.nc",
                       "--force", "-e", "1")
        self.assertEqual((small / "kept.nc").read_bytes(), b"precious")
        self.assertEqual([path.name for path in small.iterdir()], ["kept.nc"])

    def test_a_disk_that_fills_up_while_checkpoints_are_written(self):
        self.train("-e", "6", model="straight.nc")
        small = self.mount_small(self.path("straight.nc").stat().st_size * 3 // 2)
        run = ("-c", "net.json", "-i", "train.nc", "-n", "small/model.nc", "-e", "6", "--checkpoint-epochs", "2", "--keep", "0")
        self.fail_with(3, "small/model.epoch4.nc: ", "trainer", *run)
        self.assertEqual([path.name for path in small.iterdir()], ["model.epoch2.nc"])
        subprocess.run(["mount", "-o", "remount,size=64m", str(small)], check=True)
        self.assertIn("resuming from small/model.epoch2.nc", self.succeed("trainer", *run, "--resume", "auto").stderr)
        self.assertEqual((small / "model.nc").read_bytes(), self.read("straight.nc"))

    def test_a_folder_that_cannot_be_written(self):
        self.path("closed").mkdir()
        if os.geteuid() == 0:  # permissions do not hold for the superuser
            self.fail_training(3, "/proc/model.nc: no file can be made in /proc: ", model="/proc/model.nc")
        else:
            self.path("closed").chmod(0o500)
            self.fail_training(3, "closed/model.nc: no file can be made in closed: permission denied",
                               model="closed/model.nc")

    def test_one_line_from_several_ranks(self):
        if mpirun(1) is None:
            self.skipTest("mpirun is not installed")
        self.fail_training(3, "none.nc: ", data="none.nc", prefix=mpirun(3))


if __name__ == "__main__":
    unittest.main()
