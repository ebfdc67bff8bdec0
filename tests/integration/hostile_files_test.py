#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files whose items are not what they should be, damaged ones, and odd paths: an error that says so, and never a crash."""
import os
import resource
import shutil
import subprocess
import unittest

import netCDF4
import numpy as np

from norn_files import write_text
from programs import BIN, ProgramTest

PATIENCE_SECONDS = 60
LITTLE = 1 << 30  # of addresses: three times what a small run needs
ADDRESS_SPACE = 6 << 30  # of addresses: what needs more is a size that was believed


def little_memory():
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))


def copy_netcdf(source, target, attributes=(), left_out=(), sizes=(), variables=()):
    """A copy without Norn's checksums. `attributes`: of the file, others than there; `left_out`: beginnings of names of attributes
    that go; `sizes`: of dimensions, whose variables then have no contents; `variables`: a function for each that is made otherwise."""
    attributes, sizes, variables = dict(attributes), dict(sizes), dict(variables)
    with netCDF4.Dataset(source) as old, netCDF4.Dataset(target, "w", format="NETCDF4") as new:
        for name in old.ncattrs():
            if name != "norn_sealed" and not any(name.startswith(start) for start in left_out):
                new.setncattr(name, old.getncattr(name))
        for name, value in attributes.items():
            new.setncattr(name, value)
        for name, dimension in old.dimensions.items():
            new.createDimension(name, sizes.get(name, len(dimension)))
        for name, variable in old.variables.items():
            if name in variables:
                variables[name](new)
                continue
            empty = any(dimension in sizes for dimension in variable.dimensions)
            copy = new.createVariable(name, variable.dtype, variable.dimensions, chunksizes=(4096,) if empty else None)
            if not empty:
                copy[:] = variable[:]


class HostileFiles(ProgramTest):
    """What users get from elsewhere."""

    def dsstne_model(self, name="theirs.nc", **changes):
        """The model as DSSTNE would have written it."""
        if not self.path("model.nc").exists():
            self.train("-e", "1")
        changes.setdefault("left_out", ("norn_",))
        copy_netcdf(self.path("model.nc"), self.path(name), **changes)
        return name

    def refused(self, code, message, program, *arguments):
        return self.fail_with(code, message, program, *arguments, preexec_fn=little_memory)

    def predict(self, model):
        return ("-n", model, "--data", "test.nc", "-s", "out.txt")

    def test_the_model_as_dsstne_writes_it(self):
        # Every item for every layer, as odd as it may be where it has no meaning.
        odd = {f"kernel{what}{axis}": np.uint32(self.random.randrange(9)) for what in ("", "Stride", "Padding") for axis in "XYZ"}
        odd |= {"kernelDimensions": np.uint32(3), "poolingfunction": np.uint32(9), "weightInit": np.uint32(77),
                "activation": np.uint32(44), "weightNorm": np.float32(-1), "deltaNorm": np.float32(-1), "biasInit": np.float32(3),
                "sparsenessPenalty_beta": np.float32(5), "attributes": np.uint32(7)}
        model = self.dsstne_model(attributes={f"layer0_{item}": value for item, value in odd.items()})
        self.succeed("predictor", *self.predict(model))
        theirs = self.read("out.txt")
        self.succeed("predictor", *self.predict("model.nc"))
        self.assertEqual(self.read("out.txt"), theirs)

    def test_numbers_of_kinds_that_are_none(self):
        for item, last in (("kind", 1), ("layer0_kind", 3), ("layer1_kind", 3), ("layer2_kind", 3), ("layer0_type", 2),
                           ("layer1_type", 2)):
            for number in (-1, last + 1, self.random.randrange(last + 1, 2**31), 2**32 + 1, -2**63):
                with self.subTest(item=item, number=number):
                    model = self.dsstne_model(attributes={item: np.int64(number)})
                    for program, arguments in (("predictor", self.predict(model)), ("evaluator", ("-n", model, "--data", "test.nc"))):
                        self.refused(3, f'{model}: attribute "{item}" is {number}, expected 0 to {last}; the file may be damaged or '
                                     'of another kind', program, *arguments)
        for item, low, high in (("dimensions", 1, 4), ("kernelDimensions", 0, 3)):
            for number in (low - 1, high + 1, 2**31, 2**63 - 1):
                with self.subTest(item=item, number=number):
                    model = self.dsstne_model(attributes={f"layer1_{item}": np.int64(number)})
                    self.refused(3, f'{model}: attribute "layer1_{item}" is {number}, expected {low} to {high}', "predictor",
                                 *self.predict(model))

    def test_more_weights_and_layers_than_the_file_has(self):
        for number in (3, 2**31, 2**62):
            model = self.dsstne_model(attributes={"weights": np.int64(number)})
            self.refused(3, f'{model}: attribute "weight2_outputLayer" is missing', "predictor", *self.predict(model))
            model = self.dsstne_model(attributes={"layers": np.int64(number + 1)})
            self.refused(3, f'{model}: attribute "layer3_name" is missing', "predictor", *self.predict(model))

    def test_sizes_that_the_file_does_not_have(self):
        for size in (17, 2**31, 2**32 - 1):
            model = self.dsstne_model(attributes={"layer1_Nx": np.int64(size)})
            expected = f'{model}: variable "weight0_weights" has {40 * 16} elements, but the network needs {40 * size}; it is a model'
            self.refused(3, expected, "predictor", *self.predict(model))
            self.refused(3, expected, "evaluator", "-n", model, "--data", "test.nc")
            self.refused(3, expected, "trainer", "-c", model, "-i", "train.nc", "-n", "more.nc", "-e", 1)
        model = self.dsstne_model(attributes={"layer1_Nx": np.int64(2**62), "layer1_Ny": np.int64(2**62)})
        self.refused(3, f"{model}: layer \"Hidden\": N ", "predictor", *self.predict(model))

    def test_sizes_that_nobody_wrote(self):
        size = 2**30
        model = self.dsstne_model(attributes={"layer1_Nx": np.int64(size)}, sizes={
            "weight0_biasDim": size, "weight0_weightDim": 40 * size, "weight1_weightDim": 40 * size})
        for program, arguments in (("predictor", self.predict(model)), ("evaluator", ("-n", model, "--data", "test.nc"))):
            self.refused(3, f'{model}: cannot read variable "weight0_weights": has {40 * size} elements, which the file does not hold; the '
                         "file may be damaged", program, *arguments)

    def test_a_layer_without_a_kind(self):
        model = self.dsstne_model(left_out=("norn_", "layer1_kind"))
        self.refused(3, f"{model}: layer 1 has no kind; the file is damaged or of another kind", "predictor", *self.predict(model))

    def test_more_weights_than_can_be_counted(self):
        net = self.read("net.json").decode()
        layer = '{"Name": "Hidden", "Kind": "Hidden", "N": 4000000000, "Activation": "Tanh"},'
        self.write("wide.json", net.replace('"N": 16', '"N": 3000000000').replace('    {"Name": "Hidden"', f"    {layer}\n    "
                                                                                  '{"Name": "Next"'))
        self.fail_with(2, 'wide.json:7: layer "Next": N: 3000000000 units after the 4000000000 of layer "Hidden" make 1.2e+19 weights; '
                       "give one of the two fewer units", "trainer", "-c", "wide.json", "-i", "train.nc", "-n", "more.nc", "--plan")

    def labelled(self, variables=(), **changes):
        """Data whose examples have names, as the importer writes them."""
        write_text(self.path("named.txt"), self.rows, self.names, self.examples)
        self.succeed("importer", "--input", "named.txt", "--name", "gl", "--output", "named.nc", "--features", "features.txt")
        copy_netcdf(self.path("named.nc"), self.path("odd.nc"), variables=variables, **changes)

    def test_labels_of_examples_of_another_shape(self):
        self.train("-e", "1")
        size = sum(map(len, self.examples))

        def shaped(kind, *extent):
            def make(file):
                dimensions = [file.createDimension(f"odd{i}", length).name for i, length in enumerate(extent)]
                file.createVariable("exampleLabels0", kind, dimensions)[...] = np.full(extent, b"x" if kind == "S1" else 7)
            return {"exampleLabels0": make}
        for kind, extent, problem in (
                ("S1", (), "variable exampleLabels0 has 1 elements in 0 dimensions, expected in one"),
                ("S1", (size, 1), f"variable exampleLabels0 has {size} elements in 2 dimensions, expected in one"),
                ("S1", (1, size, 1), f"variable exampleLabels0 has {size} elements in 3 dimensions, expected in one"),
                ("i4", (size,), "variable exampleLabels0 is of type int, expected char; write the file again with importer")):
            with self.subTest(kind=kind, extent=extent):
                self.labelled(shaped(kind, *extent))
                self.fail_with(3, f'odd.nc: data set "gl_input": {problem}', "predictor", "-n", "model.nc", "--data", "odd.nc",
                               "-s", "out.txt")

    def test_labels_of_a_set_that_cannot_be(self):
        self.train("-e", "1")
        for number in (2**32, 2**40, 10000):
            self.labelled(attributes={"exampleLabelsOf1": np.int64(number)})
            self.fail_with(3, f'odd.nc: data set "gl_output": attribute exampleLabelsOf1 is {number}, expected the number of a set, '
                           "below 10000; write the file again with importer", "evaluator", "-n", "model.nc", "--data", "odd.nc")

    def test_widths_that_are_numbers_alone(self):
        """Data with a feature of a large number are as wide as that says: nobody has memory for the others."""
        wide = self.random.choice((2**31, 2**32 - 3, 2**32 - 2))
        self.write("wide.txt", f"1 1:1 {wide}:1\n1 2:1\n")
        self.labelled()
        self.succeed("trainer", "-c", "net.json", "-i", "named.nc", "-n", "named_model.nc", "-e", 1)
        self.train("-e", "1")
        little = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_AS, (LITTLE, LITTLE))}
        self.succeed("importer", "--input", "wide.txt", "--name", "gl_input", "--output", "wide.nc", **little)
        copy_netcdf(self.path("wide.nc"), self.path("bare.nc"))
        copy_netcdf(self.path("test.nc"), self.path("said.nc"), attributes={"width0": np.uint32(wide), "width1": np.uint32(wide)})
        for model in ("model.nc", "named_model.nc"):
            for data in ("wide.nc", "bare.nc", "said.nc"):
                for more in ((), ("--data-memory", "0"), ("--trust-index",)):
                    with self.subTest(model=model, data=data, more=more):
                        done = self.run_program("predictor", "-n", model, "--data", data, "-s", "out.txt", "--threads", "1", *more,
                                                **little)
                        self.assertIn(done.returncode, (0, 2, 3), done.stderr)
                        self.assertNotIn("of memory", done.stderr)
        for more in ((), ("--popularity", "said.nc"), ("--popularity", "said.nc", "--propensity", "0.5,1"), ("--exclude", "said.nc")):
            for data in ("said.nc", "test.nc"):
                with self.subTest(data=data, more=more):
                    done = self.run_program("evaluator", "-n", "model.nc", "--data", data, "--threads", "1", *more, **little)
                    self.assertIn(done.returncode, (0, 2, 3), done.stderr)

    def test_labels_with_a_byte_of_zero(self):
        def zeros(file):
            text = np.frombuffer("".join(self.examples).encode(), "S1").copy()
            text[self.random.randrange(len(text))] = b"\0"
            file.createVariable("exampleLabels0", "S1", ("exampleLabelBytesDim0",))[:] = text
        self.train("-e", "1")
        self.labelled({"exampleLabels0": zeros})
        done = self.run_program("predictor", "-n", "model.nc", "--data", "odd.nc", "-s", "out.txt")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertRegex(done.stderr,
                         r'odd.nc: data set "gl_input": example \d+: its label has a byte of zero, which no text has; write the '
                         "file again with importer")

    def test_formats_of_sums_that_are_none(self):
        self.write("net.json", self.read("net.json").decode().replace('"Tanh"', '"Sigmoid"'))
        self.train("-e", "1")
        for bits in (513, -513, 2**31, 2**32 + 40):
            copy_netcdf(self.path("model.nc"), self.path("odd.nc"), attributes={"layer1_deltaFineBits": np.int64(bits)})
            self.fail_with(3, f'odd.nc: attribute "layer1_deltaFineBits" is {bits}, expected -512 to 512; use an older checkpoint',
                           "trainer", "-c", "net.json", "--resume", "odd.nc", "-i", "train.nc", "-n", "more.nc", "-e", 2)

    def test_damaged_data_sets(self):
        """A flipped bit is found, that of a header before a library sees it, or it is in what nobody reads."""
        self.train("-e", "1")
        self.labelled()
        whole = self.read("named.nc")
        expected = self.succeed("evaluator", "-n", "model.nc", "--data", "named.nc").stdout
        found = 0
        for number in range(40):
            # The last bytes are the seal; most of the first ones are the header.
            at = self.random.randrange(len(whole) if number % 2 else min(len(whole), 4096))
            damaged = bytearray(whole)
            damaged[at] ^= 1 << self.random.randrange(8)
            self.path("damaged.nc").write_bytes(damaged)
            done = self.run_program("evaluator", "-n", "model.nc", "--data", "damaged.nc")
            with self.subTest(at=at):
                if done.returncode == 0:
                    self.assertEqual(done.stdout, expected)
                else:
                    self.assertEqual(done.returncode, 3, done.stderr)
            found += done.returncode == 3
        self.assertGreater(found, 10)
        for cut in (1, 8, 20, len(whole) // 2):
            self.path("damaged.nc").write_bytes(whole[:-cut])
            self.fail_with(3, "damaged.nc: ", "evaluator", "-n", "model.nc", "--data", "damaged.nc")
        copy_netcdf(self.path("named.nc"), self.path("rewritten.nc"))
        self.succeed("evaluator", "-n", "model.nc", "--data", "rewritten.nc", "--keep-seen")


class OddPaths(ProgramTest):
    def test_paths_that_begin_with_blanks(self):
        write_text(self.path("named.txt"), self.rows, self.names, self.examples)
        for start in (" ", "\t", "  \n "):
            with self.subTest(start=start):
                data, model, out = start + "d.nc", start + "m.nc", start + "o.nc"
                self.succeed("importer", "--input", "named.txt", "--name", "gl", "--output", data)
                self.train("-e", "1", "--checkpoint-epochs", "1", model=model)
                self.succeed("predictor", "-n", model, "--data", data, "-s", out, "--format", "netcdf")
                self.assertEqual([path.name for path in self.folder.rglob("*.tmp-*")], [])
                for name in (data, model, out):
                    self.assertTrue(self.path(name).is_file(), name)
                    self.assertFalse(self.path(name.lstrip()).exists(), name)

    def test_paths_that_lead_nowhere(self):
        self.train("-e", "1")
        self.path("loop").symlink_to("loop")
        self.path("texts").mkdir()
        write_text(self.path("texts/a.txt"), self.rows, self.names, self.examples)
        self.path("texts/loop").symlink_to("loop")
        predict = ("predictor", "-n", "model.nc", "-s", "out.txt", "-i", "features.txt", "-o", "features.txt")
        trainer = ("trainer", "-i", "train.nc", "-n", "new.nc")
        for bad, reason in (("loop", "Too many levels of symbolic links"), ("x" * 300, "File name too long"),
                            ("loop/file", "Too many levels of symbolic links")):
            for command in (("predictor", "--cdl", bad), ("trainer", "--cdl", bad), (*trainer, "-c", bad),
                            ("predictor", "-n", "model.nc", "-s", "out.txt", "-r", "texts/a.txt", "-i", bad),
                            ("predictor", "-n", "model.nc", "-s", "out.txt", "-r", "texts/a.txt", "-i", "features.txt", "-o", bad),
                            ("predictor", "-n", bad, "-s", "out.txt", "-r", "texts/a.txt"), (*predict, "-r", bad),
                            (*predict, "-r", "texts/a.txt", "-f", bad), (*trainer, "-c", "net.json", "-i", bad),
                            ("importer", "--input", bad, "--name", "gl", "--output", "d.nc"),
                            ("importer", "--input", "texts/a.txt", "--name", "gl", "--output", "d.nc", "--features", bad),
                            ("trainer", "-c", "net.json", "-i", "train.nc", "-n", "new.nc", "--machine", bad, "--plan")):
                with self.subTest(command=command):
                    done = self.run_program(*command)
                    self.assertIn(done.returncode, (2, 3), done.stderr)
                    self.assertNotIn("unforeseen", done.stderr)
                    self.assertIn(bad, done.stderr)
                    self.assertIn(reason, done.stderr)
        self.fail_with(3, "texts/loop: cannot be looked at: Too many levels of symbolic links; check the path and its permissions",
                       *predict, "-r", "texts")

    def test_pipes_and_devices_are_no_netcdf_files(self):
        self.train("-e", "1")
        os.mkfifo(self.path("pipe"))
        for name in ("pipe", "/dev/zero"):
            for program, arguments in (("predictor", ("-n", "model.nc", "--data", name, "-s", "out.txt")),
                                       ("evaluator", ("-n", name, "-i", "test.nc")),
                                       ("trainer", ("-c", "net.json", "-i", name, "-n", "more.nc"))):
                self.fail_with(3, f"{name}: is a pipe or a device, expected a NetCDF file", program, *arguments)

    def test_a_folder_of_work_that_is_gone(self):
        gone = self.path("gone")
        gone.mkdir()
        shutil.copy(self.path("net.json"), self.path("here.json"))
        done = subprocess.run(["sh", "-c", f"rmdir '{gone}'; exec '{BIN / 'trainer'}' -c '{self.path('here.json')}' -i "
                               f"'{self.path('train.nc')}' -n '{self.path('m.nc')}' --run-dir '{self.path('run')}'"], cwd=gone,
                              capture_output=True, text=True, timeout=PATIENCE_SECONDS)
        self.assertIn(done.returncode, (0, 3), done.stderr)
        self.assertNotIn("unforeseen", done.stderr)


if __name__ == "__main__":
    unittest.main()
