# SPDX-License-Identifier: Apache-2.0
"""Text that other people have: lists, filters that name few examples, names with control characters, files without end."""
import csv
import json
import pathlib
import random
import re
import shutil
import subprocess
import unittest

import numpy as np

from norn_files import model_arrays, read_recommendations, write_datasets, write_text
from programs import BIN, NETWORK, ProgramTest, sigmoid


class Trained(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("net.json", NETWORK % "Sigmoid")
        self.train("-e", "5")
        write_text(self.path("requests.txt"), self.known, self.names, self.examples)
        arrays = model_arrays(self.path("model.nc"))[0]
        x = np.zeros((len(self.known), self.width))
        for e, row in enumerate(self.known):
            x[e, row] = 1.0
        layer = [(arrays[f"weight{i}_weights"].astype(np.float64), arrays[f"weight{i}_bias"].astype(np.float64)) for i in (0, 1)]
        hidden = np.tanh(x @ layer[0][0].reshape(self.width, 16) + layer[0][1])
        self.scores = sigmoid(hidden @ layer[1][0].reshape(16, self.width) + layer[1][1])

    def predictor(self, *arguments, requests="requests.txt"):
        return self.succeed("predictor", "-n", "model.nc", "-r", requests, "-i", "features.txt", "-o", "features.txt", "-s",
                            "recs.txt", *arguments)

    def recommended(self, *arguments, **more):
        self.predictor("-p", ".9g", *arguments, **more)
        return read_recommendations(self.path("recs.txt"))


class Filters(Trained):
    def test_that_scale_few_examples_with_batches_of_any_size(self):
        for trial in range(12):
            listed = self.random.sample(range(len(self.rows)), self.random.choice([0, 1, 1, 2, 5]))
            factors = np.ones((len(self.rows), self.width))
            lines = ["nobody\tnothing,2\n"]  # an example that is not asked for
            for e in listed:
                units = self.random.sample(range(self.width), self.random.choice([0, 1, 3]))
                entries = ["no such item,0.5"] if self.random.random() < 0.5 else []
                for u in units:
                    factors[e, u] = self.random.choice([0.0, 0.5, 3.0])
                    entries.append(f"{self.names[u]},{factors[e, u]}")
                lines.append(f"{self.examples[e]}\t{':'.join(entries)}\n")
            self.write("filter.txt", "".join(lines))
            batch = self.random.choice([1, 7, 31, 32, 33, 159, 160, 161, 1024])
            with self.subTest(trial=trial, batch=batch, listed=listed):
                got = self.recommended("-k", self.width, "-b", batch, "-f", "filter.txt", "--filter-mode", "scale")
                wanted = self.scores * factors
                for e, example in enumerate(self.examples):
                    self.assertEqual(len(got[example]), self.width)
                    for name, score in got[example]:
                        self.assertAlmostEqual(score, wanted[e, self.names.index(name)], delta=3e-5)

    def test_requests_of_unknown_features_alone_and_of_none(self):
        self.write("strange.txt", "a\tnew:newer\nb\t\n")
        for arguments in ((), ("--values",)):
            self.write("strange.txt", "a\tnew,1:newer,2\nb\t\n")
            got = self.recommended("-k", "3", *arguments, requests="strange.txt")
            self.assertEqual(got["a"], got["b"])
            self.assertEqual(len(got["a"]), 3)


class Forms(Trained):
    def test_tables_and_lines_of_json_say_what_the_text_says(self):
        text = self.recommended("-k", "5", "--exclude-seen")
        self.assertRegex(self.read("recs.txt").decode(), r"\A([^\t\n]+\t([^\t:,\n]+,[^:,\n]+:){5}\n)+\Z")  # as DSSTNE's: a colon ends it
        pairs = [(example, rank, name, score) for example, best in text.items() for rank, (name, score) in enumerate(best, 1)]
        self.predictor("-k", "5", "--exclude-seen", "--format", "tsv")
        rows = [line.split("\t") for line in self.read("recs.txt").decode().splitlines()]
        self.assertEqual([(e, int(rank), name, float(score)) for e, rank, name, score in rows], pairs)
        self.predictor("-k", "5", "--exclude-seen", "--format", "jsonl")
        found = [json.loads(line) for line in self.read("recs.txt").decode().splitlines()]
        self.assertEqual([list(one) for one in found], [["example", "rank", "feature", "score"]] * len(pairs))
        for one, pair in zip(found, pairs):
            self.assertEqual((one["example"], one["rank"], one["feature"]), pair[:3])
            self.assertEqual(np.float32(one["score"]), np.float32(pair[3]))

    def test_an_activation_a_column(self):
        self.predictor("--layer", "Hidden", "--format", "jsonl")
        values = [json.loads(line)["values"] for line in self.read("recs.txt").decode().splitlines()]
        self.predictor("--layer", "Hidden", "--format", "tsv")
        rows = [line.split("\t") for line in self.read("recs.txt").decode().splitlines()]
        self.assertEqual([row[0] for row in rows], self.examples)
        np.testing.assert_array_equal(np.array([row[1:] for row in rows], np.float32), np.array(values, np.float32))

    def test_a_form_of_numbers_is_not_for_json(self):
        self.fail_with(2, "--score-format is for --format text and tsv; jsonl holds scores in full", "predictor", "-n", "model.nc",
                       "-r", "requests.txt", "-i", "features.txt", "-s", "recs.txt", "--format", "jsonl", "-p", ".3f")


class Tables(Trained):
    """One entry a line, in any order, as csv and tsv."""

    def write_table(self, name, separator, valued, ordered=False):
        """Some of the requests as a table, and the same as text, in the order in which the table has the examples."""
        entries = [(e, u) for e, row in enumerate(self.known) for u in row]
        if not ordered:
            self.random.shuffle(entries)
        value = {entry: self.random.choice([0.5, 1, -2]) for entry in entries}
        lines = [[self.examples[e], self.names[u], *([str(value[e, u])] if valued else [])] for e, u in entries]
        self.write(name, "".join(separator.join(line) + "\n" for line in ([["user", "item", "rating"]] if valued else []) + lines))
        rows = {}
        for e, u in entries:
            rows.setdefault(e, []).append(f"{self.names[u]},{value[e, u]}" if valued else self.names[u])
        self.write("same.txt", "".join(f"{self.examples[e]}\t{':'.join(row)}\n" for e, row in rows.items()))

    def test_are_one_request_an_example(self):
        for trial in range(8):
            kind = self.random.choice(["csv", "tsv"])
            valued, ordered = self.random.random() < 0.5, self.random.random() < 0.3
            batch = self.random.choice([1, 7, 159, 160, 161, 1024])
            with self.subTest(trial=trial, kind=kind, valued=valued, ordered=ordered, batch=batch):
                self.write_table(f"same.{kind}", {"csv": ",", "tsv": "\t"}[kind], valued, ordered)
                more = ("-k", "9", "-b", batch, *(("--values",) if valued else ()),
                        *(("--exclude-seen",) if self.random.random() < 0.5 else ()))
                got = {}
                for name in ("same.txt", f"same.{kind}"):
                    self.predictor(*more, requests=name)
                    got[name] = self.read("recs.txt")
                self.assertEqual(got["same.txt"], got[f"same.{kind}"])

    def test_that_list_an_entry_twice_or_one_that_is_unknown_say_so(self):
        self.write("t.csv", f"anna,{self.names[1]}\nbob,{self.names[2]}\nanna,{self.names[1]}\nanna,new\n")
        done = self.predictor("-k", "3", requests="t.csv")
        self.assertIn('1 of the 4 features of the requests are unknown to the model and were left out, first "new" at t.csv',
                      done.stderr)
        self.assertIn("1 features stood twice in a request; the first one counts", done.stderr)
        self.assertEqual(list(read_recommendations(self.path("recs.txt"))), ["anna", "bob"])

    def test_begin_with_a_header_line_or_not(self):
        rows = f"anna,{self.names[1]},5\nbob,{self.names[2]},3\n"
        for head, text, more, wanted in (("user,item,rating\n", rows, (), ["anna", "bob"]),
                                         ("user,item\n", rows, ("--request-header", "yes"), ["anna", "bob"]),
                                         ("", rows, ("--request-header", "yes"), ["bob"]),
                                         ("user,item,rating\n", rows, ("--request-header", "no"), ["user", "anna", "bob"]),
                                         ("", rows, (), ["anna", "bob"])):
            self.write("t.csv", head + text)
            self.assertEqual(list(self.recommended("-k", "3", *more, requests="t.csv")), wanted)
        self.fail_with(2, "--request-header is for --requests; --data has no header line", "predictor", "-n", "model.nc", "--data",
                       "train.nc", "-s", "recs.txt", "--request-header", "yes")

    def test_begin_with_names_over_two_columns(self):
        rows = f"anna,{self.names[1]}\nbob,{self.names[2]}\n"
        told = ("the first line is taken for the names of columns: user, item; say with --request-header no that it is a request, or yes, "
                "that it is none")
        for head, more, wanted, tells in (("user,item\n", (), ["anna", "bob"], True),
                                          ("user,item\n", ("--request-header", "yes"), ["anna", "bob"], False),
                                          ("user,item\n", ("--request-header", "no"), ["user", "anna", "bob"], False),
                                          (f"user,{self.names[3]}\n", (), ["user", "anna", "bob"], False),
                                          ("cleo,new\n", (), ["cleo", "anna", "bob"], False)):
            self.write("t.csv", head + rows)
            done = self.predictor("-k", "3", *more, requests="t.csv")
            self.assertEqual(list(read_recommendations(self.path("recs.txt"))), wanted, head)
            self.assertEqual(told in done.stderr, tells, done.stderr)

    def test_begin_with_words_over_items_of_one_form(self):
        rows = "".join(f"{example},{self.names[unit]}\n" for unit, example in enumerate(("anna", "bob", "dora"), 1))
        told = "the first line is taken for the names of columns: buyer, sku; say with --request-header no that it is a request, or yes, " \
               "that it is none"
        for head, more, wanted, tells in (("buyer,sku\n", (), ["anna", "bob", "dora"], True),
                                          ("buyer,sku\n", ("--request-header", "no"), ["buyer", "anna", "bob", "dora"], False),
                                          (f"buyer,{self.names[8]}\n", (), ["buyer", "anna", "bob", "dora"], False),
                                          ("anna,sku\n", (), ["anna", "bob", "dora"], False)):
            self.write("t.csv", head + rows)
            done = self.predictor("-k", "3", *more, requests="t.csv")
            self.assertEqual(list(read_recommendations(self.path("recs.txt"))), wanted, head)
            self.assertEqual(told in done.stderr, tells, done.stderr)

    def test_begin_with_a_header_line_or_not_as_filters(self):
        listed = self.names[:30]
        self.write("plain.csv", "".join(f"{self.examples[0]},{name}\n" for name in listed))
        self.write("headed.csv", f"{self.examples[0]},{self.names[39]}\n" + "".join(f"{self.examples[0]},{n}\n" for n in listed))
        plain = self.recommended("-k", "40", "-f", "plain.csv")
        self.assertEqual(self.recommended("-k", "40", "-f", "headed.csv", "--filter-header", "yes"), plain)
        headed = self.recommended("-k", "40", "-f", "headed.csv", "--filter-header", "no")
        self.assertEqual(len(headed[self.examples[0]]), len(plain[self.examples[0]]) - 1)
        self.fail_with(2, "--filter-header is for --filter; give that too, or leave it out", "predictor", "-n", "model.nc", "-r",
                       "requests.txt", "-s", "recs.txt", "--filter-header", "yes")

    def test_with_malformed_lines_are_read_as_far_as_allowed(self):
        self.write("torn.txt", f"anna\t{self.names[1]}\nnonsense\nbob\t{self.names[2]}\n")
        self.fail_with(3, 'torn.txt:2: "nonsense" has no tab between example and features; correct the line, or pass over malformed '
                       "lines with --skip-malformed N", "predictor", "-n", "model.nc", "-r", "torn.txt", "-i", "features.txt", "-o",
                       "features.txt", "-s", "recs.txt")
        done = self.predictor("-k", "3", "--skip-malformed", "1", requests="torn.txt")
        self.assertIn('1 malformed lines of the requests were passed over; the first: torn.txt:2: "nonsense"', done.stderr)
        self.assertEqual(list(read_recommendations(self.path("recs.txt"))), ["anna", "bob"])

    def test_of_no_known_format_are_told_how_to_say_it(self):
        self.write("strange.txt", "what is this\n")
        ask = ("predictor", "-n", "model.nc", "-i", "features.txt", "-o", "features.txt", "-s", "recs.txt")
        for option, more in (("--request-format", ("-r", "strange.txt")), ("--filter-format", ("-r", "requests.txt", "-f", "strange.txt"))):
            self.fail_with(3, 'strange.txt: the first line "what is this" follows no known format; say which with '
                           f"{option} dsstne, libsvm, csv, tsv or list", *ask, *more)

    def test_of_names_with_commas_and_colons_go_all_the_way(self):
        names = [f"Film {u}, The: a \"{u}\"" if u % 3 else f"film:{u}" for u in range(self.width)]
        with open(self.path("films.csv"), "w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(
                ((self.examples[e], names[u]) for e, row in enumerate(self.known) for u in row))
        self.succeed("importer", "--input", "films.csv", "--header", "no", "--name", "gl", "--output", "train.nc")
        self.path("model.nc").unlink()
        self.train("-e", "3")
        ask = ("predictor", "-n", "model.nc", "-r", "films.csv", "--request-header", "no", "-k", "5", "-s", "recs")
        first = names[next(u for row in self.known for u in row)]
        self.fail_with(2, f'--format text: the feature "{first}" has a {"comma" if first.startswith("Film ") else "colon"} in its name, '
                       "which separates features and scores in that text; take --format tsv or jsonl", *ask)
        self.succeed(*ask, "--format", "tsv", "--exclude-seen")
        tsv = [line.split("\t")[:3] for line in self.read("recs").decode().splitlines()]
        self.succeed(*ask, "--format", "jsonl", "-f", "films.csv", "--filter-header", "no")
        found = [json.loads(line) for line in self.read("recs").decode().splitlines()]
        self.assertEqual([[one["example"], str(one["rank"]), one["feature"]] for one in found], tsv)
        held = {(self.examples[e], names[u]) for e, row in enumerate(self.known) for u in row}
        self.assertTrue({name for _, _, name in tsv} <= set(names))
        self.assertFalse({(example, name) for example, _, name in tsv} & held)

    def test_as_filters_leave_all_their_features_out(self):
        self.write_table("filter.csv", ",", False)
        self.assertEqual(self.recommended("-k", "9", "-f", "filter.csv"), self.recommended("-k", "9", "-f", "same.txt"))


class Lists(ProgramTest):
    """`user item item ...`, from the importer to recommendations."""

    def write_list(self, name, rows):
        self.write(name, "".join(f"{u} {' '.join(map(str, items))} \n" for u, items in rows))

    def test_go_all_the_way_with_their_own_names(self):
        users = self.random.sample(range(5000), len(self.known))
        rows = [(user, [1000 + u for u in row]) for user, row in zip(users, self.known) if row]
        self.write_list("train.txt", rows)
        done = self.succeed("importer", "--input", "train.txt", "--name", "gl", "--output", "train.nc", "--features", "f")
        self.assertIn(f"train.nc: {len(rows)} examples", done.stdout)
        self.train("-e", "2")
        ask = ("predictor", "-n", "model.nc", "-r", "train.txt", "-i", "f", "-o", "f", "-k", "5", "-b", "31")
        self.succeed(*ask, "--exclude-seen", "-s", "seen.txt")
        self.succeed(*ask, "-f", "train.txt", "-s", "filtered.txt")
        got = read_recommendations(self.path("seen.txt"))
        self.assertEqual(got, read_recommendations(self.path("filtered.txt")))
        self.assertEqual(list(got), [str(user) for user, _ in rows])
        for user, items in rows:
            self.assertEqual({int(name) for name, _ in got[str(user)]} & set(items), set())
        self.write("names.txt", "Ada " + " ".join(str(i) for i in rows[0][1]) + "\n")
        self.succeed(*ask[:4], "names.txt", *ask[5:], "--request-format", "list", "--exclude-seen", "-s", "ada.txt")
        self.assertEqual(list(read_recommendations(self.path("ada.txt"))), ["Ada"])
        self.assertEqual([name for name, _ in read_recommendations(self.path("ada.txt"))["Ada"]],
                         [name for name, _ in got[str(rows[0][0])]])

    def test_numbers_are_labels_as_in_any_other_text(self):
        labels = self.random.sample(range(3 * self.width), self.width)  # some are units of other features, some are none
        rows = [(user, [labels[u] for u in row]) for user, row in enumerate(self.known) if row]
        self.write_list("train.txt", rows)
        self.succeed("importer", "--input", "train.txt", "--name", "gl", "--output", "train.nc")
        self.train("-e", "5")
        strange = next(n for n in range(3 * self.width) if n not in labels)
        asked = [row + [strange] for _, row in rows]
        listed = [self.random.sample(labels, 3) + [strange] for _ in rows]
        for name, some in (("asked", asked), ("listed", listed)):
            self.write_list(f"{name}.txt", list(enumerate(some)))
            self.write(f"{name}.svm", "".join(f"1 {' '.join(f'{n}:1' for n in row)}\n" for row in some))
        self.succeed("importer", "--input", "asked.svm", "--name", "gl", "--output", "asked.nc", "--libsvm-labels", "names")
        for more in ((), ("--exclude-seen",), ("--filter", "listed")):
            for ending in ("txt", "svm"):
                files = [f"listed.{ending}" if word == "listed" else word for word in more]
                done = self.succeed("predictor", "-n", "model.nc", "-r", f"asked.{ending}", "-s", ending, "-k", "9", *files)
                self.assertIn(f'features of the requests are unknown to the model and were left out, first "{strange}" at '
                              f"asked.{ending}:1", done.stderr)
            self.assertEqual(self.read("svm"), self.read("txt"), more)
        self.succeed("predictor", "-n", "model.nc", "-r", "asked.svm", "-s", "text", "-k", "9")
        self.succeed("predictor", "-n", "model.nc", "--data", "asked.nc", "-s", "data", "-k", "9")
        self.assertEqual([line.split(b"\t")[1] for line in self.read("text").splitlines()],
                         [line.split(b"\t")[1] for line in self.read("data").splitlines()])
        self.succeed("predictor", "-n", "model.nc", "-r", "asked.svm", "-s", "units", "-k", "9", "--trust-index")
        self.assertNotEqual(self.read("units"), self.read("text"))

    def test_of_units_beyond_the_layer_are_as_without_them(self):
        rows = [row for row in self.known if row]
        self.write("train.svm", "".join(f"{','.join(map(str, row))} {' '.join(f'{u}:1' for u in row)}\n" for row in rows))
        self.succeed("importer", "--input", "train.svm", "--name", "gl", "--output", "train.nc", "--type", "indicator",
                     "--libsvm-labels", "numbers")
        self.train("-e", "2")
        def lines(some):
            return "".join(f"1 {' '.join(f'{u}:1' for u in row)}\n" for row in some)
        listed = [self.random.sample(range(self.width), 3) for _ in rows]
        wide = [self.width, self.width + 1, 127, 128, 65536, 2**31 - 1, 2**31, 2**32 - 2]
        def widened(some):
            return [self.random.sample(row + (odd := self.random.sample(wide, 3)), len(row) + len(odd)) for row in some]
        for name, some in (("asked", rows), ("listed", listed)):
            self.write(f"{name}.svm", lines(some))
            self.write(f"wide_{name}.svm", lines(widened(some)))
        for more in (("--exclude-seen",), ("-f", "listed.svm"), ("-f", "listed.svm", "--exclude-seen"),
                     ("-f", "listed.svm", "--filter-mode", "scale", "--exclude-seen"), ("--exclude-seen", "--trust-index")):
            if "--trust-index" in more and "-f" in more:
                continue
            got = []
            for prefix in ("", "wide_"):
                files = [prefix + word if word == "listed.svm" else word for word in more]
                self.succeed("predictor", "-n", "model.nc", "-r", f"{prefix}asked.svm", "-k", self.width, "-b", "37", "-s", "recs", *files)
                got.append(self.read("recs"))
            self.assertEqual(*got, more)

    def test_read_as_something_else_say_so(self):
        self.write_list("train.txt", [(0, [3, 5, 7]), (1, [3])])
        self.fail_with(3, "train.txt:1: the feature 3 has no value; lines of an example and its features alone are read with "
                       "--format list", "importer", "--input", "train.txt", "--name", "gl", "--output", "x.nc", "--format",
                       "libsvm")


class Hostile(ProgramTest):
    def test_files_without_end_are_refused(self):
        self.train("-e", "1")
        write_text(self.path("requests.txt"), self.known, self.names, self.examples)
        words = "/dev/zero: has more than 64.0 MiB; is it the right file?"
        self.fail_with(2, words, "trainer", "-c", "/dev/zero", "-i", "train.nc", "-n", "x.nc")
        self.fail_with(2, words, "trainer", "--cdl", "/dev/zero")
        self.fail_with(2, words, "trainer", "--repeat", "/dev/zero")
        self.fail_with(2, words, "trainer", "-c", "net.json", "-i", "train.nc", "--plan", "--ranks", "2", "--machine", "/dev/zero",
                       "-n", "x.nc")
        self.fail_with(2, "/dev/zero: has more than 256.0 MiB; is it the right file?", "predictor", "-n", "model.nc", "-r",
                       "requests.txt", "-i", "features.txt", "-o", "features.txt", "-s", "recs.txt", "--allow", "/dev/zero")

    def test_a_key_of_millions_of_letters_is_no_work(self):
        self.write("net.json", (NETWORK % "SoftMax").replace('"Name": "small"', f'"{"a" * 5_000_000}": 1'))
        self.fail_with(2, "net.json:2: ", "trainer", "-c", "net.json", "-i", "train.nc", "-n", "x.nc")

    def test_names_of_data_sets_reach_the_terminal_harmlessly(self):
        name = "a\nb\x1b[31m\u2028"
        write_datasets(self.path("odd.nc"), [(name, self.width, self.known, None)])
        for extra in ((), ("--errors=json",)):
            done = self.run_program("trainer", "-c", "net.json", "-i", "odd.nc", "-n", "x.nc", *extra)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn("a\\x0ab\\x1b[31m" if not extra else "a\\nb\\u001b[31m", done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), done.stderr.count('\n'))
            self.assertNotIn("\x1b", done.stderr)
            for line in done.stderr.splitlines():
                self.assertRegex(line, r"^(trainer: |\{)")

    def test_a_header_of_numbers_without_end_writes_nothing(self):
        self.write("h.txt", "9223372036854775807 9223372036854775807 9223372036854775807\n1 1:1\n")
        self.fail_with(3, "h.txt:1: the header announces 9223372036854775807 examples, a data set has at most 4294967295; "
                       "correct the header line", "importer", "--input", "h.txt", "--name", "h", "--output", "h.nc")
        self.assertEqual([path.name for path in self.folder.glob("h.*")], ["h.txt"])


class OldProcessors(ProgramTest):
    def test_end_with_words_before_anything_else(self):
        qemu = shutil.which("qemu-x86_64")
        if qemu is None:
            self.skipTest("qemu, which has older processors, is not installed (tools/install_dependencies.sh --old-processors)")
        flags = pathlib.Path("/proc/cpuinfo").read_text() if pathlib.Path("/proc/cpuinfo").exists() else ""
        build = self.succeed("importer", "--version").stdout
        if " avx" not in flags or not re.search(r"-march=(native|x86-64-v[34])", build):
            self.skipTest("the build needs nothing that a processor of 2008 lacks")
        for program in ("importer", "trainer"):
            done = subprocess.run([qemu, "-cpu", "Nehalem", str(BIN / program), "--version"], capture_output=True, text=True, timeout=240)
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertRegex(done.stderr, rf"{program}: error: this processor lacks avx, .*-DNORN_ARCH=x86-64-v2, or on ")
            self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    unittest.main()
