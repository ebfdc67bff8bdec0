# SPDX-License-Identifier: Apache-2.0
"""Labels travel with data sets and models: data of any index of features mean the same to a model."""
import hashlib
import json
import unittest
import zlib

import netCDF4
import numpy

from norn_files import write_datasets, write_index, write_text
from programs import ProgramTest, mpirun

ODD_EXTRA = ["never seen", "item_1000000"]


class Labels(ProgramTest):
    def setUp(self):
        super().setUp()
        write_text(self.path("known.txt"), self.known, self.names)
        write_text(self.path("held.txt"), self.held_out, self.names)
        self.make("train.nc", "known.txt", "features.txt")
        self.make("test.nc", "known.txt", "features.txt", "--target", "held.txt")
        self.other = self.names[:]
        self.random.shuffle(self.other)
        write_index(self.path("other.txt"), self.other)
        self.make("train_other.nc", "known.txt", "other.txt")
        self.make("test_other.nc", "known.txt", "other.txt", "--target", "held.txt")

    def make(self, output, text, index, *more):
        self.succeed("importer", "-i", text, "-o", output, "-d", "gl", "--features", index, "--empty-rows", "keep", *more)

    def add_unknown(self):
        """Texts with features that no index of the model has, and an index in yet another order that has them."""
        names = self.other + ODD_EXTRA
        rows = {}
        for name, before in (("known", self.known), ("held", self.held_out)):
            rows[name] = [[self.other.index(self.names[u]) for u in row] for row in before]
            for row in self.random.sample(rows[name], 20):
                row.insert(self.random.randrange(len(row) + 1), self.random.choice([self.width, self.width + 1]))
        self.random.shuffle(names)
        write_index(self.path("more.txt"), names)
        for name, some in rows.items():
            write_text(self.path(f"{name}_more.txt"), some, self.other + ODD_EXTRA)
        self.make("test_more.nc", "known_more.txt", "more.txt", "--target", "held_more.txt")
        return sum(unit >= self.width for some in rows.values() for row in some for unit in row)

    def evaluate(self, data, *arguments, **more):
        return self.succeed("evaluator", "--model", "model.nc", "--data", data, "--top", "1,5,20", "--format", "json",
                            *arguments, **more)

    def expect_same_metrics(self, data, *arguments, **more):
        done = self.evaluate(data, *arguments, **more)
        self.assertEqual(done.stdout, self.evaluate("test.nc").stdout)
        return done

    def test_data_in_another_order_have_the_same_metrics(self):
        self.train("-e", "8")
        done = self.expect_same_metrics("test_other.nc")
        self.assertNotIn("left out", done.stderr)
        self.expect_same_metrics("test_other.nc", "--data-memory", "0")
        trusted = self.evaluate("test_other.nc", "--trust-index").stdout
        self.assertLess(json.loads(trusted)["model"][2]["NDCG"], json.loads(done.stdout)["model"][2]["NDCG"])

    def test_what_the_model_does_not_know_is_left_out_and_counted(self):
        self.train("-e", "8")
        entries = self.add_unknown()
        for memory in ("8G", "0"):
            done = self.expect_same_metrics("test_more.nc", "--data-memory", memory)
            lines = [line for line in done.stderr.splitlines() if "left out" in line]
            self.assertEqual(len(lines), 1, done.stderr)
            self.assertRegex(lines[0], rf"test_more.nc: 2 of 42 features \({entries} entries, [0-9.]+ %\) are not known to the "
                             "model and were left out")

    def test_all_ranks_match_alike(self):
        if mpirun(1) is None:
            self.skipTest("mpirun is not installed")
        self.train("-e", "8")
        self.add_unknown()
        done = self.expect_same_metrics("test_more.nc", "--threads", "1", prefix=mpirun(2))
        self.assertEqual(done.stderr.count("left out"), 1, done.stderr)

    def test_what_is_left_out_and_popularity_are_matched_too(self):
        self.train("-e", "3")
        alone = self.evaluate("test.nc", "--exclude", "train.nc", "--popularity", "train.nc", "--propensity", "0.55,1.5")
        mixed = self.evaluate("test_other.nc", "--exclude", "train_other.nc", "--popularity", "train_other.nc",
                              "--propensity", "0.55,1.5")
        self.assertEqual(mixed.stdout, alone.stdout)

    def test_validation_in_another_order_says_the_same(self):
        said = []
        for number, data in enumerate(("test.nc", "test_other.nc")):
            done = self.train("-e", "4", "--validation-input", data, "--keep-best", "ndcg@5", model=f"{number}.nc")
            said.append([line.split("validation after")[1] for line in done.stderr.splitlines() if "validation after" in line])
        self.assertEqual(len(said[0]), 4)
        self.assertEqual(said[0], said[1])
        self.assertEqual(self.read("0.nc"), self.read("1.nc"))

    def test_training_goes_on_with_data_in_another_order(self):
        self.train("-e", "2", model="start.nc")
        prefixes = [(), mpirun(2)] if mpirun(1) else [()]
        for prefix in prefixes:
            for name, data in (("a.nc", "train.nc"), ("b.nc", "train_other.nc")):
                self.path(name).write_bytes(self.read("start.nc"))
                self.succeed("trainer", "-c", "net.json", "-i", data, "-n", name, "-e", "5", "--resume", "--threads", "1",
                             prefix=prefix)
            self.assertEqual(self.read("a.nc"), self.read("b.nc"))
        for name, data in (("c.nc", "train.nc"), ("d.nc", "train_other.nc")):
            self.succeed("trainer", "-c", "start.nc", "-i", data, "-n", name, "-e", "2", "--data-memory", "0")
        self.assertEqual(self.read("c.nc"), self.read("d.nc"))

    def test_predictor_needs_no_index(self):
        self.train("-e", "4")
        for more in ((), ("--exclude-seen",), ("--filter", "held.txt")):
            self.succeed("predictor", "-n", "model.nc", "-r", "known.txt", "-i", "features.txt", "-o", "features.txt", "-s",
                         "with.txt", "-k", "7", *more)
            self.succeed("predictor", "-n", "model.nc", "-r", "known.txt", "-s", "without.txt", "-k", "7", *more)
            self.assertEqual(self.read("with.txt"), self.read("without.txt"))
        self.assertIn(b"item_", self.read("without.txt"))
        for data in ("test.nc", "test_other.nc"):
            self.succeed("predictor", "-n", "model.nc", "--data", data, "-s", data + ".txt", "--exclude-seen")
        self.assertEqual(self.read("test.nc.txt"), self.read("test_other.nc.txt"))

    def test_an_index_file_that_contradicts_the_model_is_refused(self):
        self.train("-e", "1")
        at = next(u for u in range(self.width) if self.other[u] != self.names[u])
        names = (("-i", "Input"), ("-o", "Output"))
        for option, layer in names:
            self.fail_with(3, f'other.txt: number {at} is "{self.other[at]}", but "{self.names[at]}" in layer "{layer}" of the '
                           "model: it is another index; leave it out, the model has its labels, or take it as it is with "
                           "--trust-index", "predictor", "-n", "model.nc", "-r", "known.txt", "-s", "out.txt", option,
                           "other.txt")
            self.succeed("predictor", "-n", "model.nc", "-r", "known.txt", "-s", "out.txt", option, "other.txt",
                         "--trust-index")
        self.fail_with(3, "other.txt: number ", "evaluator", "-n", "model.nc", "-i", "test.nc", "-o", "other.txt")
        write_index(self.path("longer.txt"), self.names + ODD_EXTRA)
        write_index(self.path("shorter.txt"), self.names[:30])
        self.succeed("predictor", "-n", "model.nc", "-r", "known.txt", "-s", "out.txt", "-i", "longer.txt", "-o", "shorter.txt")

    def test_predictions_as_a_data_set_keep_the_labels(self):
        self.train("-e", "1")
        self.succeed("predictor", "-n", "model.nc", "-r", "known.txt", "-s", "recs.nc", "--format", "netcdf")
        with netCDF4.Dataset(self.path("recs.nc")) as file:
            self.assertEqual(zlib.decompress(file["featureLabels0"][:].tobytes()).decode().splitlines(), self.names)

    def test_files_of_dsstne_go_on_where_widths_agree(self):
        self.train("-e", "2")
        sets = [("gl_input", self.width, self.known, None), ("gl_output", self.width, self.held_out, None)]
        write_datasets(self.path("dsstne.nc"), sets)
        self.expect_same_metrics("dsstne.nc")
        narrower = [[[u for u in row if u < 30] for row in rows] for _, _, rows, _ in sets]
        write_datasets(self.path("narrow.nc"), [("gl_input", 30, narrower[0], None), ("gl_output", 30, narrower[1], None)])
        message = 'narrow.nc: data set "gl_input" is 30 wide and has no labels of features, but layer "Input" of the model has 40' \
            " units with labels, so units cannot be matched; import the text with importer, which keeps labels, or take unit " \
            "numbers as they are with --trust-index"
        self.fail_with(3, message, "evaluator", "--model", "model.nc", "--data", "narrow.nc")
        self.fail_with(3, message, "trainer", "-c", "model.nc", "-i", "narrow.nc", "-n", "again.nc")
        self.fail_with(3, message, "predictor", "-n", "model.nc", "--data", "narrow.nc", "-s", "out.txt")
        self.evaluate("narrow.nc", "--trust-index")
        write_datasets(self.path("wide.nc"), [(name, 128, rows, None) for name, _, rows, _ in sets])
        self.fail_with(3, 'wide.nc: data set "gl_input" is 128 wide', "evaluator", "--model", "model.nc", "--data", "wide.nc")

    def test_an_index_file_labels_data_that_have_none(self):
        self.train("-e", "2")
        number = {name: u for u, name in enumerate(self.other)}
        rows = [[number[self.names[u]] for u in row] for row in self.known]
        # As wide as generateNetCDF makes it.
        write_datasets(self.path("dsstne.nc"), [("gl_input", 128, rows, None)])
        self.succeed("predictor", "-n", "model.nc", "--data", "dsstne.nc", "-i", "other.txt", "-s", "a.txt")
        self.succeed("predictor", "-n", "model.nc", "--data", "test.nc", "-s", "b.txt")
        a, b = (dict(line.split("\t") for line in self.read(name).decode().splitlines()) for name in ("a.txt", "b.txt"))
        self.assertEqual(list(a.values()), list(b.values()))

    def test_a_model_without_labels(self):
        write_datasets(self.path("plain.nc"), [("gl_input", self.width, self.known, None),
                                               ("gl_output", self.width, self.known, None)])
        self.succeed("trainer", "-c", "net.json", "-i", "plain.nc", "-n", "model.nc", "-e", "2")
        self.evaluate("test.nc")
        write_index(self.path("thirty.txt"), self.names[:30])
        self.make("labelled.nc", "known.txt", "thirty.txt")
        message = 'labelled.nc: data set "gl_input" is 30 wide and has the labels of features, but layer "Input" of the model has ' \
            "40 units without labels, so units cannot be matched; import the text with the index of features that the model was " \
            "trained with, or take unit numbers as they are with --trust-index"
        self.fail_with(3, message, "evaluator", "--model", "model.nc", "--data", "labelled.nc")
        self.evaluate("labelled.nc", "--trust-index", "--keep-seen")
        # As DSSTNE: nobody knows more, and unit u is unit u.
        rows = [[u for u in row if u < 30] for row in self.known]
        write_datasets(self.path("narrow.nc"), [("gl_input", 30, rows, None), ("gl_output", 30, rows, None)])
        self.evaluate("narrow.nc", "--keep-seen")
        # A run that goes on takes the labels of its data.
        self.succeed("trainer", "-c", "model.nc", "-i", "train.nc", "-n", "labelled_model.nc", "-e", "1")
        with netCDF4.Dataset(self.path("labelled_model.nc")) as file:
            self.assertEqual(zlib.decompress(file["labels0"][:].tobytes()).decode().splitlines(), self.names)

    def apart(self, text, output, names, examples):
        """A data set on its own, with an index of its own."""
        write_index(self.path(f"{output}.features"), names)
        write_text(self.path(f"{output}.txt"), text, self.names, examples)
        self.succeed("importer", "-d", output, "-i", f"{output}.txt", "-o", f"{output}.nc", "-f", f"{output}.features", "-s",
                     "samples", "-m", "--empty-rows", "keep")

    def train_apart(self, names):
        """Inputs and targets that were imported one by one, the targets with this index."""
        write_index(self.path("samples"), self.examples)
        self.apart(self.known, "gl_input", self.names, self.examples)
        self.apart(self.known, "gl_output", names, self.examples)
        return self.succeed("trainer", "-c", "net.json", "-i", "gl_input.nc", "-o", "gl_output.nc", "-n", "apart.nc", "-e", "1",
                            "--validation-split", "0.2", "--force")

    def test_inputs_and_targets_of_one_catalogue_with_two_indexes_are_told(self):
        said = 'gl_output.nc: data set "gl_output": 40 of the 40 features are also among those of gl_input.nc: data set "gl_input", ' \
            "which numbers them otherwise: nothing that an example's input holds is taken for seen, or hidden to validate with; import " \
            "both with one index (importer --input, --target, or --features)"
        self.assertIn(said, self.train_apart(self.other).stderr)
        evaluated = self.succeed("evaluator", "-n", "apart.nc", "-i", "gl_input.nc", "-i", "gl_output.nc")
        self.assertIn("numbers them otherwise", evaluated.stderr)
        self.assertNotIn("numbers them otherwise", self.train_apart(self.names).stderr)

    def test_other_labels_are_another_catalogue(self):
        names = self.names[:]
        self.names = [f"tag {u}" for u in range(self.width)]
        write_index(self.path("samples"), self.examples)
        self.apart(self.known, "gl_output", self.names, self.examples)
        self.names = names
        self.apart(self.known, "gl_input", self.names, self.examples)
        done = self.succeed("trainer", "-c", "net.json", "-i", "gl_input.nc", "-o", "gl_output.nc", "-n", "apart.nc", "-e", "1")
        self.assertNotIn("numbers them otherwise", done.stderr)

    def test_examples_that_are_left_out_are_those_of_the_data(self):
        self.train("-e", "1")
        swapped = list(reversed(range(len(self.known))))
        write_text(self.path("swapped.txt"), [self.known[e] for e in swapped], self.names, [f"example{e}" for e in swapped])
        self.make("swapped.nc", "swapped.txt", "features.txt")
        self.fail_with(3, f'swapped.nc: data set "gl_input": example 0 is "example{swapped[0]}", but in "gl_input" of test.nc it is '
                       '"example0": examples pair by position, so the two are not aligned', "evaluator", "-n", "model.nc", "-i",
                       "test.nc", "--exclude", "swapped.nc")
        self.evaluate("test.nc", "--exclude", "train.nc")

    def test_data_of_another_catalogue_are_refused(self):
        self.train("-e", "1")
        write_index(self.path("foreign.txt"), ["x", "y"])
        self.write("foreign_rows.txt", "e1\tx:y\ne2\ty\n")
        self.make("foreign.nc", "foreign_rows.txt", "foreign.txt")
        self.fail_with(3, 'foreign.nc: data set "gl_input": none of its 2 features is one of the 40 of layer "Input" of the '
                       "model; give data of the same catalogue, or take unit numbers as they are with --trust-index", "evaluator",
                       "--model", "model.nc", "--data", "foreign.nc")

    def test_a_checksum_alone_tells_another_index(self):
        self.make("train.nc", "known.txt", "features.txt", "--feature-labels", "checksum")
        self.train("-e", "1")
        with netCDF4.Dataset(self.path("model.nc")) as file:
            self.assertNotIn("labels0", file.variables)
        self.evaluate("test.nc")
        lines = ["".join(name + "\n" for name in order).encode() for order in (self.other, self.names)]
        sums = [hashlib.sha256(text).hexdigest()[:8] for text in lines]
        self.fail_with(3, 'test_other.nc: data set "gl_input" has other features than layer "Input" of the model: the checksums of '
                       f"their labels are {sums[0]} and {sums[1]}, and the labels themselves are not kept on both sides; import "
                       "the text with the model's index of features, or take unit numbers as they are with --trust-index",
                       "evaluator", "--model", "model.nc", "--data", "test_other.nc")
        self.evaluate("test_other.nc", "--trust-index")

    def test_a_checksum_alone_tells_another_index_file(self):
        self.make("train.nc", "known.txt", "features.txt", "--feature-labels", "checksum")
        self.train("-e", "1")
        write_index(self.path("longer.txt"), self.names + ODD_EXTRA)
        write_index(self.path("shorter.txt"), self.names[:30])
        write_index(self.path("numbers.txt"), [str(u) for u in range(self.width)])
        predict = ("predictor", "-n", "model.nc", "-r", "known.txt", "-s", "out.txt")
        right = {"-i": "features.txt", "-o": "features.txt"}
        sums = {name: hashlib.sha256("".join(label + "\n" for label in labels).encode()).hexdigest()[:8]
                for name, labels in (("features.txt", self.names), ("other.txt", self.other), ("shorter.txt", self.names[:30]))}
        for option, layer in (("-i", "Input"), ("-o", "Output")):
            for wrong in ("other.txt", "shorter.txt", "numbers.txt"):
                files = [word for pair in {**right, option: wrong}.items() for word in pair]
                self.fail_with(3, f'{wrong}: is not the index of layer "{layer}" of the model, which keeps the checksum of its 40 '
                               f"labels alone: it is {sums['features.txt']}, of the {30 if wrong == 'shorter.txt' else 40} labels "
                               f"given it is {sums.get(wrong, 'that of numbers')}; give the index that the training data were "
                               "imported with, or take this one as it is with --trust-index", *predict, *files)
                self.succeed(*predict, *files, "--trust-index")
        for known in ("features.txt", "longer.txt"):
            self.succeed(*predict, "-i", known, "-o", known)
        evaluate = ("evaluator", "-n", "model.nc", "-i", "test.nc", "-o")
        self.fail_with(3, 'other.txt: is not the index of layer "Output"', *evaluate, "other.txt")
        self.succeed(*evaluate, "features.txt")

    def test_files_keep_labels_once_and_anybody_can_read_them(self):
        self.train("-e", "1")
        lines = "".join(name + "\n" for name in self.names).encode()
        digest = hashlib.sha256(lines).hexdigest()
        with netCDF4.Dataset(self.path("train.nc")) as file:
            self.assertEqual(zlib.decompress(file["featureLabels0"][:].tobytes()), lines)
            self.assertEqual((file.featureLabelDigest0, file.featureLabelCount0, file.featureLabelsOf1), (digest, 40, 0))
        with netCDF4.Dataset(self.path("model.nc")) as file:
            self.assertEqual(zlib.decompress(file["labels0"][:].tobytes()), lines)
            self.assertEqual((file.labels0_digest, file.layer0_labels, file.layer2_labels), (digest, 0, 0))
            self.assertNotIn("labels1", file.variables)

    def test_a_damaged_label_is_found(self):
        self.train("-e", "1")
        with netCDF4.Dataset(self.path("model.nc")) as file:
            stored = file["labels0"][:].tobytes()
        model = self.read("model.nc")
        at = model.index(stored) + len(stored) // 2
        self.path("model.nc").write_bytes(model[:at] + bytes([model[at] ^ 4]) + model[at + 1:])
        self.fail_with(3, 'model.nc: variable "labels0" is damaged', "evaluator", "--model", "model.nc", "--data", "test.nc")

    def rewrite(self, name, change):
        """The file as another program writes it, without a seal, once `change` has been at its attributes and bytes of labels."""
        with netCDF4.Dataset(self.path(name)) as old, netCDF4.Dataset(self.path("other.nc"), "w") as new:
            attributes = {item: old.getncattr(item) for item in old.ncattrs() if item != "norn_sealed"}
            values = {item: variable[...] for item, variable in old.variables.items()}
            dimensions = {item: variable.dimensions for item, variable in old.variables.items()}
            change(attributes, values)
            new.setncatts(attributes)
            for item, value in values.items():
                names = [f"{item}_{d}" if value.ndim != 1 or value.size != len(old.dimensions[one]) else one
                         for d, one in enumerate(dimensions[item][:1] * value.ndim)]
                for one, size in zip(names, value.shape):
                    if one not in new.dimensions:
                        new.createDimension(one, size)
                new.createVariable(item, value.dtype, names)[...] = value

    def damages(self, count, digest, line_bytes, labels):
        """Each with what is said; the items are called so."""
        def put(item, change):
            return lambda attributes, values: attributes.update({item: change(attributes[item])})

        def pack(change):
            return lambda _, values: values.update({labels: change(values[labels])})

        def twice(attributes, values):
            lines = (self.names[0] + "\n").encode() * 2 + "".join(name + "\n" for name in self.names[2:]).encode()
            attributes.update({digest: hashlib.sha256(lines).hexdigest(), line_bytes: numpy.uint64(len(lines))})
            values[labels] = numpy.frombuffer(zlib.compress(lines), "u1")

        at = self.random.randrange(64)
        damaged = "its labels of features are damaged"
        return {
            "cut off": (pack(lambda packed: packed[:1]), damaged), "another byte": (pack(lambda packed: packed ^ 1), damaged),
            "one less": (put(count, lambda number: number - 1), damaged), "a byte less": (put(line_bytes, lambda size: size - 1), damaged),
            "without end": (put(line_bytes, lambda size: numpy.uint64(2**62)), damaged),
            "another digit": (put(digest, lambda sum: sum[:at] + "%x" % (int(sum[at], 16) ^ 1) + sum[at + 1:]), damaged),
            "no digits": (put(digest, lambda sum: "x" * 64), f"{damaged}: their checksum is \"{'x' * 8}"),
            "twice": (twice, f'the label "{self.names[0]}" of feature 1 is that of feature 0, too; import again'),
            "two dimensions": (pack(lambda packed: packed.reshape(1, -1)), "in one|has 2 dimensions"),
            "no dimension": (pack(lambda packed: packed[0]), "in one|has 0 dimensions")}

    def test_damaged_labels_of_a_data_set_without_a_seal_are_found(self):
        train = ("trainer", "-c", "net.json", "-i", "other.nc", "-n", "out.nc", "-e", "1", "--threads", "1", "--force")
        self.rewrite("train.nc", lambda attributes, values: None)
        self.succeed(*train)
        for damage, (change, said) in self.damages("featureLabelCount0", "featureLabelDigest0", "featureLabelLineBytes0",
                                                   "featureLabels0").items():
            with self.subTest(damage):
                self.path("out.nc").unlink(missing_ok=True)
                self.rewrite("train.nc", change)
                done = self.run_program(*train)
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertRegex(done.stderr, f'other.nc: data set "gl_input": .*({said})')
                self.assertFalse(self.path("out.nc").exists())

    def test_a_damaged_checksum_alone_is_found(self):
        self.make("train.nc", "known.txt", "features.txt", "--feature-labels", "checksum")
        for wrong in ("", "f" * 63, "F" * 64, "0123456789abcdeg" * 4):
            self.rewrite("train.nc", lambda attributes, values, wrong=wrong: attributes.update(featureLabelDigest0=wrong))
            self.fail_with(3, 'other.nc: data set "gl_input": ', "trainer", "-c", "net.json", "-i", "other.nc", "-n", "out.nc", "-e", "1")

    def test_damaged_labels_of_a_model_without_a_seal_are_found(self):
        self.train("-e", "1", "--threads", "1")
        again = ("trainer", "-c", "other.nc", "-i", "train.nc", "-n", "out.nc", "-e", "1", "--threads", "1", "--force")
        self.rewrite("model.nc", lambda attributes, values: None)
        self.succeed(*again)
        damages = self.damages("labels0_count", "labels0_digest", "labels0_lineBytes", "labels0")
        for item, value, said in (
                ("labels0_count", -3, "other.nc: attribute labels0_count is -3; the file is damaged, use an older copy of it"),
                ("labels0_count", 41, damages["one less"][1]),
                ("layer2_labels", 7, "attribute layer2_labels is 7, but there are 1 lists of labels; the file is damaged"),
                ("layer0_labels", -2, "attribute layer0_labels is -2, but there are 1 lists of labels; the file is damaged")):
            damages[f"{item} {value}"] = (lambda attributes, values, item=item, value=value: attributes.update({item: value}), said)
        damages["numbers without memory"] = (lambda attributes, values: (attributes.pop("labels0_digest"), attributes.update(
            labels0_count=numpy.uint64(2**31))), "attribute labels0_count is 2147483648, more than it has weights; the file is damaged")
        damages["no checksum"] = (lambda attributes, values: attributes.pop("labels0_digest"), "they have no checksum")
        more = "".join(f"{name}\n" for name in [*self.names, "one more"]).encode()
        damages["a label more"] = (lambda attributes, values: (
            values.update(labels0=numpy.frombuffer(zlib.compress(more), "u1")),
            attributes.update(labels0_count=41, labels0_lineBytes=len(more), labels0_digest=hashlib.sha256(more).hexdigest())),
            'it has 41 labels of the 40 units of layer "Input"; the file is damaged, use an older copy of it')
        for damage, (change, said) in damages.items():
            with self.subTest(damage):
                self.rewrite("model.nc", change)
                done = self.run_program(*again)
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertRegex(done.stderr, said)
                self.assertIn("trainer: error: other.nc: ", done.stderr)

    def test_numbers_are_features_too(self):
        self.write("numbers.txt", "".join(f"1 {' '.join(f'{u}:1' for u in row)}\n" for row in self.rows if row))
        self.succeed("importer", "-i", "numbers.txt", "-o", "numbers.nc", "-d", "gl", "--format", "libsvm", "--separate-targets",
                     "--libsvm-labels", "names")
        with netCDF4.Dataset(self.path("numbers.nc")) as file:
            self.assertEqual(file.featureLabelsAreNumbers0, 1)
            self.assertNotIn("featureLabels0", file.variables)


if __name__ == "__main__":
    unittest.main(verbosity=2)
