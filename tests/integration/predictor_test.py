# SPDX-License-Identifier: Apache-2.0
"""The predictor as a program, against scores that NumPy computes from the model file."""
import gzip
import os
import resource
import signal
import subprocess
import time
import unittest

import netCDF4
import numpy as np

from norn_files import model_arrays, read_recommendations, write_index, write_text
from programs import BIN, LIMIT_SECONDS, NETWORK, ProgramTest, mpirun, sigmoid


class Predicting(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("net.json", NETWORK % "Sigmoid")
        self.train("-e", "10")
        write_text(self.path("requests.txt"), self.known, self.names, self.examples)
        arrays = model_arrays(self.path("model.nc"))[0]
        self.weights = [arrays[f"weight{i}_weights"].astype(np.float64) for i in (0, 1)]
        self.biases = [arrays[f"weight{i}_bias"].astype(np.float64) for i in (0, 1)]
        self.scores = self.forward(self.dense(self.known))

    def dense(self, rows, values=None):
        x = np.zeros((len(rows), self.width))
        for e, row in enumerate(rows):
            x[e, row] = 1.0 if values is None else values[e]
        return x

    def hidden(self, x):
        return np.tanh(x @ self.weights[0].reshape(self.width, 16) + self.biases[0])

    def forward(self, x):
        return sigmoid(self.hidden(x) @ self.weights[1].reshape(16, self.width) + self.biases[1])

    def predict(self, *arguments, requests=("-r", "requests.txt", "-i", "features.txt"), **more):
        done = self.succeed("predictor", "-n", "model.nc", *requests, "-o", "features.txt", "-s", "recs.txt", "-p",
                            ".9g", *arguments, **more)
        return read_recommendations(self.path("recs.txt")), done

    def expect(self, recommendations, scores, k, excluded=None, allowed=None):
        """Lists are sorted, hold the right scores, and miss nothing that is clearly better than their last."""
        self.assertEqual(list(recommendations), self.examples)
        unit = {name: u for u, name in enumerate(self.names)}
        for e, example in enumerate(self.examples):
            candidates = set(range(self.width)) if allowed is None else set(allowed)
            if excluded is not None:
                candidates -= set(excluded[e])
            got = [(unit[name], score) for name, score in recommendations[example]]
            self.assertEqual(len(got), min(k, len(candidates)), example)
            self.assertEqual(got, sorted(got, key=lambda pair: (-pair[1], pair[0])))
            chosen = {u for u, _ in got}
            self.assertEqual(len(chosen), len(got))
            self.assertLessEqual(chosen, candidates)
            for u, score in got:
                self.assertAlmostEqual(score, scores[e, u], delta=1e-5)
            if candidates - chosen and got:
                self.assertLessEqual(max(scores[e, u] for u in candidates - chosen), got[-1][1] + 1e-5)

    def test_any_number_of_units(self):
        for k in (1, 7, 30, self.width, 1000):
            self.expect(self.predict("-k", k, "-b", "37")[0], self.scores, k)

    def test_dsstnes_command_line_leaves_listed_units_out(self):
        with open(self.path("ratings.txt"), "w") as file:
            for e, row in enumerate(self.known):
                file.write(self.examples[e] + "\t" + ":".join(f"{self.names[u]},1234567890" for u in row) + "\n")
        self.succeed("predictor", "-b", "256", "-d", "gl", "-i", "features.txt", "-o", "features.txt", "-k", "10", "-n",
                     "model.nc", "-f", "ratings.txt", "-s", "recs.txt", "-r", "ratings.txt", "-p", ".9g")
        self.expect(read_recommendations(self.path("recs.txt")), self.scores, 10, excluded=self.known)

    def test_default_form_of_scores(self):
        self.succeed("predictor", "-n", "model.nc", "-r", "requests.txt", "-i", "features.txt", "-o", "features.txt",
                     "-s", "recs.txt", "-k", "2")
        self.assertRegex(self.read("recs.txt").decode(),
                         r"^(example\d+\t[^\t:,]+,[01]\.\d{3}:[^\t:,]+,[01]\.\d{3}:\n){160}$")

    def test_seen_units_are_left_out_when_asked(self):
        self.expect(self.predict("-k", "9", "--exclude-seen")[0], self.scores, 9, excluded=self.known)

    def test_scaling_filter(self):
        factors = np.ones((len(self.rows), self.width))
        with open(self.path("filter.txt"), "w") as file:
            for e in range(0, len(self.rows), 2):
                file.write(f"example{e}\t{self.names[3]},2.5:{self.names[4]}\n")
                factors[e, 3], factors[e, 4] = 2.5, 0.0
        got = self.predict("-k", "12", "-f", "filter.txt", "--filter-mode", "scale")[0]
        self.expect(got, self.scores * factors, 12)

    def test_allowed_units_alone(self):
        allowed = self.random.sample(range(self.width), 11)
        self.write("allow.txt", "".join(self.names[u] + "\r\n" for u in allowed))
        self.expect(self.predict("-k", "20", "--allow", "allow.txt")[0], self.scores, 20, allowed=allowed)

    def test_units_beyond_the_index_are_never_recommended(self):
        write_index(self.path("short.txt"), self.names[:13])
        self.succeed("predictor", "-n", "model.nc", "-r", "requests.txt", "-i", "features.txt", "-o", "short.txt",
                     "-s", "recs.txt", "-p", ".9g")
        self.expect(read_recommendations(self.path("recs.txt")), self.scores, 100, allowed=range(13))

    def test_text_with_other_line_ends_and_compressed(self):
        plain = self.predict("-k", "5")[0]
        write_text(self.path("requests.txt"), self.known, self.names, self.examples, newline="\r\n")
        self.assertEqual(self.predict("-k", "5")[0], plain)
        with gzip.open(self.path("requests.txt.gz"), "wb") as file:
            file.write(self.read("requests.txt"))
        self.assertEqual(self.predict("-k", "5", requests=("-r", "requests.txt.gz", "-i", "features.txt"))[0], plain)

    def test_data_sets_instead_of_text(self):
        plain = self.predict("-k", "5", "--exclude-seen")[0]
        got = self.predict("-k", "5", "--exclude-seen", requests=("--data", "test.nc"))[0]
        self.assertEqual(list(got.values()), list(plain.values()))
        self.assertEqual(list(got), [str(e) for e in range(len(self.rows))])

    def test_valued_requests(self):
        values = [[self.random.uniform(0.5, 2.0) for _ in row] for row in self.known]
        with open(self.path("requests.txt"), "w") as file:
            for e, row in enumerate(self.known):
                pairs = [f"{self.names[u]},{v!r}" for u, v in zip(row, values[e])]
                file.write(self.examples[e] + "\t" + ":".join(pairs) + "\n")
        self.expect(self.predict("-k", "5", "--values")[0], self.forward(self.dense(self.known, values)), 5)
        self.expect(self.predict("-k", "5")[0], self.scores, 5)  # without --values they count as 1

    def test_unknown_features_are_counted_in_one_warning(self):
        text = self.read("requests.txt").decode().replace("example1\t", "example1\tnew:").replace(
            "example5\t", "example5\tnewer:")
        self.write("requests.txt", text)
        got, done = self.predict("-k", "4")
        self.expect(got, self.scores, 4)
        self.assertEqual(done.stderr.count("warning"), 1, done.stderr)
        self.assertRegex(done.stderr, r'warning: 2 of the \d+ features of the requests are unknown to the model and '
                                      r'were left out, first "new" at .*requests\.txt:2')

    def test_embeddings_of_a_hidden_layer(self):
        self.succeed("predictor", "-n", "model.nc", "-r", "requests.txt", "-i", "features.txt", "-l", "Hidden", "-s",
                     "vectors.txt")
        lines = [line.split("\t") for line in self.read("vectors.txt").decode().splitlines()]
        self.assertEqual([label for label, _ in lines], self.examples)
        got = np.array([[float(v) for v in values.split(" ")] for _, values in lines])
        np.testing.assert_allclose(got, self.hidden(self.dense(self.known)), atol=2e-6)
        self.succeed("predictor", "-n", "model.nc", "--data", "test.nc", "-l", "Hidden", "-s", "vectors.nc", "--format",
                     "netcdf")
        with netCDF4.Dataset(self.path("vectors.nc")) as file:
            np.testing.assert_array_equal(np.array(file["data0"][:]).reshape(-1, 16).astype(np.float32),
                                          got.astype(np.float32))

    def test_netcdf_holds_the_same_as_text(self):
        recommendations = self.predict("-k", "6", "-b", "11")[0]
        self.succeed("predictor", "-n", "model.nc", "-r", "requests.txt", "-i", "features.txt", "-o", "features.txt",
                     "-s", "recs.nc", "--format", "netcdf", "-k", "6", "-b", "11")
        with netCDF4.Dataset(self.path("recs.nc")) as file:
            index = np.array(file["sparseIndex0"][:]).reshape(-1, 6)
            scores = np.array(file["sparseData0"][:]).reshape(-1, 6)
        for e, example in enumerate(self.examples):
            self.assertEqual([self.names[u] for u in index[e]], [name for name, _ in recommendations[example]])
            np.testing.assert_array_equal(scores[e], np.float32([score for _, score in recommendations[example]]))

    def test_netcdf_of_examples_for_whom_nothing_is_left(self):
        everything = ":".join(self.names)
        empty = set(self.random.sample(range(len(self.rows)), self.random.choice((1, 40, len(self.rows)))))
        for left_out in (empty, range(len(self.rows))):
            with self.subTest(left_out=len(left_out)):
                self.write("filter.txt", "".join(f"{self.examples[e]}\t{everything}\n" for e in left_out))
                self.succeed("predictor", "-n", "model.nc", "-r", "requests.txt", "-i", "features.txt", "-o", "features.txt", "-f",
                             "filter.txt",
                             "-s", "recs.nc", "--format", "netcdf", "-k", "5", "-b", "11")
                with netCDF4.Dataset(self.path("recs.nc")) as file:
                    sizes = (file["sparseEnd0"][:] - file["sparseStart0"][:]).astype(int).tolist()
                self.assertEqual(sizes, [0 if e in left_out else 5 for e in range(len(self.rows))])
                # What it holds is a data set that others read.
                with netCDF4.Dataset(self.path("recs.nc"), "a") as file:
                    file.delncattr("norn_sealed")
                    file.name0 = "gl_input"
                done = self.succeed("predictor", "-n", "model.nc", "--data", "recs.nc", "-s", "-", "-k", "3")
                self.assertEqual(len(done.stdout.splitlines()), len(self.rows))

    def test_stdout_as_output(self):
        self.predict("-k", "3")
        done = self.succeed("predictor", "-n", "model.nc", "-r", "requests.txt", "-i", "features.txt", "-o",
                            "features.txt", "-s", "-", "-p", ".9g", "-k", "3")
        self.assertEqual(done.stdout, self.read("recs.txt").decode())

    def test_ranks_and_threads_give_the_same(self):
        self.predict("-k", "7", "--threads", "1")
        one = self.read("recs.txt")
        self.predict("-k", "7", "--threads", "3")
        self.assertEqual(self.read("recs.txt"), one)
        if mpirun(2):
            self.predict("-k", "7", "--threads", "1", prefix=mpirun(3))
            self.assertEqual(self.read("recs.txt"), one)


    @unittest.skipIf(os.environ.get("NORN_SANITIZE"), "a sanitizer's memory has other limits")
    def test_fewer_examples_at_a_time_where_memory_has_no_room(self):
        self.write("wide.json", (NETWORK % "Sigmoid").replace('"N": 16', '"N": 20000'))
        self.train("-e", "1", "-b", "16", "--force", config="wide.json")

        def limited(mebibytes):
            return lambda: resource.setrlimit(resource.RLIMIT_AS, (mebibytes << 20, mebibytes << 20))
        most = str(self.random.randrange(30_000, 90_000))
        lists = ("predictor", "-n", "model.nc", "-r", "requests.txt", "-i", "features.txt", "-k", "9")
        for words in (lists, ("predictor", "-n", "model.nc", "--data", "test.nc", "-l", "Hidden"),
                      ("evaluator", "--model", "model.nc", "--data", "test.nc", "--format", "json")):
            output = ["-s", "-"] if words[0] == "predictor" else []
            whole = self.succeed(*words, *output)
            small = self.succeed(*words, *output, "--threads", "1", "-b", most, preexec_fn=limited(900))
            self.assertRegex(small.stderr, rf"\d examples at a time: memory has no room for {most}, which need [\d.]+ GiB")
            self.assertEqual(small.stdout, whole.stdout)
        self.fail_with(4, "this run needs ", *lists, "-s", "none", "--threads", "1", preexec_fn=limited(330))


class BadInput(ProgramTest):
    def setUp(self):
        super().setUp()
        self.train("-e", "1")
        write_text(self.path("requests.txt"), self.known, self.names, self.examples)
        self.write("recs.txt", "what was there\n")

    def fail_predicting(self, code, message, **changes):
        options = {"-n": "model.nc", "-r": "requests.txt", "-i": "features.txt", "-o": "features.txt", "-s": "recs.txt"}
        options.update({"-" * (1 if len(name) == 1 else 2) + name.replace("_", "-"): value
                        for name, value in changes.items()})
        words = [word for name, value in options.items() if value is not None for word in (name, value)]
        before = sorted(path.name for path in self.folder.iterdir())
        self.fail_with(code, message, "predictor", *words)
        self.assertEqual(self.read("recs.txt"), b"what was there\n")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), before)

    def test_leaves_existing_recommendations_as_they_were(self):
        self.path("half.nc").write_bytes(self.read("model.nc")[:-3000])
        self.fail_predicting(3, "half.nc: ", n="half.nc")
        self.fail_predicting(3, "none.nc: ", n="none.nc")
        self.fail_predicting(3, "none.txt: ", r="none.txt")
        self.fail_predicting(3, "none.txt: ", i="none.txt")
        self.fail_predicting(3, "none.txt: ", f="none.txt")
        self.fail_predicting(3, "no/recs.txt: the folder no does not exist; make it first", s="no/recs.txt")
        self.write("late.txt", self.read("requests.txt").decode() + "a line without a tab\n")
        self.fail_predicting(3, "late.txt:161", r="late.txt", b="16")
        self.write("empty.txt", "")
        self.fail_predicting(3, "empty.txt: ", r="empty.txt")

    def test_a_signal_leaves_existing_recommendations_as_they_were(self):
        text = self.read("requests.txt").decode()
        self.write("many.txt", text * 3000)
        with subprocess.Popen([str(BIN / "predictor"), "-n", "model.nc", "-r", "many.txt", "-i", "features.txt", "-o",
                               "features.txt", "-s", "recs.txt", "-k", "30"], cwd=self.folder,
                              stderr=subprocess.PIPE) as process:
            while not list(self.folder.glob("recs.txt.*")):
                self.assertIsNone(process.poll())
                time.sleep(0.001)
            process.terminate()
            process.communicate(timeout=LIMIT_SECONDS)
        self.assertEqual(process.returncode, -signal.SIGTERM)
        self.assertEqual(self.read("recs.txt"), b"what was there\n")
        self.assertEqual(list(self.folder.glob("recs.txt.*")), [])

    def test_options_that_contradict(self):
        self.fail_predicting(2, '--layer: the model has no layer "Hiden"; did you mean "Hidden"?', l="Hiden")
        self.fail_predicting(2, '--dataset (-d) ml: no input layer reads "ml_input"; the model\'s reads: gl_input',
                             d="ml")
        self.fail_predicting(2, "--requests (-r) is missing: give text, or data sets with --data", r=None)
        self.fail_predicting(2, '--score-format: "d" is no printf format of a number', p="d")
        self.fail_predicting(2, "--top 0 is out of range: it must be at least 1", k="0")
        self.fail_predicting(2, "--filter (-f) names features: give the feature index --output-features (-o)",
                             f="requests.txt", o=None)

    def test_a_data_file_that_is_no_model(self):
        self.fail_predicting(3, "train.nc: ", n="train.nc")


if __name__ == "__main__":
    unittest.main()
