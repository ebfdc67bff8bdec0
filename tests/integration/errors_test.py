# SPDX-License-Identifier: Apache-2.0
"""What the programs say when they fail, in words and with --errors=json: one document that fits its schema, for every
program and every kind of error."""
import json
import os
import resource
import signal
import sys
import unittest

from programs import NETWORK, SOURCE, ProgramTest, mpirun

try:
    import jsonschema
except ImportError:
    jsonschema = None

SCHEMA = json.loads((SOURCE / "configs/schema/errors.schema.json").read_text())
PROGRAMS = ("trainer", "predictor", "importer", "evaluator")

# A line each of: an unknown key, a word that is misspelt, a source that is misspelt, a value out of range.
WRONG = """{
  "Nmae": "wrong",
  "Layers": [
    {"Name": "Input", "Kind": "Input", "N": 40},
    {"Name": "Hidden", "N": 16, "Activation": "Tahn"},
    {"Name": "Output", "N": 40, "Source": "Hiden", "pDropout": 2}
  ]
}
"""


class JsonErrors(ProgramTest):
    def document(self, stderr):
        """The JSON document on stderr: the only line that begins with a brace."""
        lines = [line for line in stderr.splitlines() if line.startswith("{")]
        self.assertEqual(len(lines), 1, stderr)
        self.assertNotIn(": error: ", stderr)
        document = json.loads(lines[0])
        if jsonschema:
            jsonschema.validate(document, SCHEMA)
        return document

    def fail(self, code, kind, program, *arguments, option=("--errors=json",), **more):
        done = self.run_program(program, *arguments, *option, **more)
        self.assertEqual(done.returncode, code, done.stderr)
        document = self.document(done.stderr)
        self.assertEqual((document["program"], document["exit_code"], document["kind"]), (program, code, kind))
        return document

    def test_command_lines_of_every_program(self):
        for program in PROGRAMS:
            for option in (("--errors=json",), ("--errors", "JSON")):
                errors = self.fail(2, "usage", program, "--versoin", "stray words", option=option)["errors"]
                self.assertEqual(errors[0], {
                    "message": f'unknown option "--versoin"; did you mean "--version"? {program} --help lists all options',
                    "key": "--versoin", "suggestion": "--version"})
                self.assertTrue(any(" missing; " in error["message"] for error in errors), errors)

    def test_a_descriptor(self):
        self.write("wrong.json", WRONG)
        document = self.fail(2, "usage", "trainer", "-c", "wrong.json", "-i", "train.nc", "-n", "model.nc")
        places = [(e["file"], e["line"], e["column"], e["key"], e.get("suggestion")) for e in document["errors"]]
        self.assertEqual(places, [("wrong.json", 2, 3, "Nmae", "Name"),
                                  ("wrong.json", 5, 33, "Layers[1].Activation", "Tanh"),
                                  ("wrong.json", 6, 52, "Layers[2].pDropout", None),
                                  ("wrong.json", 6, 33, "Layers[2].Source", "Hidden")])
        self.assertEqual(document["errors"][3]["message"],
                         'layer "Output": Source "Hiden" is not a layer; did you mean "Hidden"? Layers: Input, Hidden, '
                         "Output")

    def test_a_descriptor_that_is_no_json(self):
        self.write("broken.json", '{\n  "Layers": ]')
        errors = self.fail(2, "usage", "trainer", "-c", "broken.json", "-i", "train.nc", "-n", "model.nc")["errors"]
        self.assertEqual(errors, [{"message": "not JSON: Syntax error: value, object or array expected.",
                                   "file": "broken.json", "line": 2, "column": 13}])

    def test_data_of_every_program(self):
        self.train("-e", "1")
        for program, *arguments in (("trainer", "-c", "net.json", "-i", "none.nc", "-n", "more.nc"),
                                    ("predictor", "-n", "none.nc", "--data", "test.nc", "-s", "recs.txt"),
                                    ("importer", "-i", "none.nc", "-d", "x", "-o", "x.nc"),
                                    ("evaluator", "-n", "model.nc", "-i", "none.nc")):
            errors = self.fail(3, "data", program, *arguments)["errors"]
            self.assertEqual(len(errors), 1)
            self.assertEqual(errors[0].get("file"), "none.nc", errors)
            self.assertFalse(errors[0]["message"].startswith("none.nc"))

    @unittest.skipIf(os.environ.get("NORN_SANITIZE"), "a sanitizer's memory has other limits")
    def test_memory_that_does_not_suffice(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (900 << 20, 900 << 20))

        self.write("huge.json", (NETWORK % "SoftMax").replace('"N": 16', '"N": 4000000'))
        self.fail(4, "device", "trainer", "-c", "huge.json", "-i", "train.nc", "-n", "model.nc", "--threads", "1",
                  preexec_fn=limit)

    def test_divergence(self):
        text = (NETWORK % "Linear").replace("CrossEntropy", "L2").replace("Adam", "SGD").replace("Tanh", "Linear")
        self.write("wild.json", text)
        errors = self.fail(6, "divergence", "trainer", "-c", "wild.json", "-i", "train.nc", "-n", "model.nc", "-alpha",
                           "1e30", "-e", "50")["errors"]
        self.assertIn('layer "', errors[0]["message"])

    def test_a_stop_after_a_checkpoint(self):
        code, _, err = self.stop_after_epochs(signal.SIGUSR1, 1, "-c", "net.json", "-i", "train.nc", "-n", "model.nc", "-e", 400,
                                              "--errors=json")
        self.assertEqual(code, 75, err)
        document = self.document(err)
        self.assertEqual((document["exit_code"], document["kind"]), (75, "stopped"))

    def test_one_of_several_ranks_speaks(self):
        if mpirun(1) is None:
            self.skipTest("mpirun is not installed")
        document = self.fail(3, "data", "trainer", "-c", "net.json", "-i", "none.nc", "-n", "model.nc", prefix=mpirun(2))
        self.assertEqual(document["ranks"], 2)

    def test_words_stay_lines(self):
        self.write("wrong.json", WRONG)
        done = self.run_program("trainer", "-c", "wrong.json", "-i", "train.nc", "-n", "model.nc", "--errors=text")
        self.assertEqual(done.returncode, 2)
        known = "Known: Linear, Sigmoid, Tanh, Relu, LRelu, ELU, SELU, SoftPlus, SoftSign, GELU, Swish, SoftMax"
        self.assertEqual(done.stderr.splitlines(), ["trainer: error: wrong.json:" + line for line in (
            '2: unknown key "Nmae"; did you mean "Name"?',
            f'5: layer "Hidden": Activation "Tahn" is unknown; did you mean "Tanh"? {known}',
            '6: layer "Output": pDropout 2 is out of range; expected a number of at least 0 and below 1',
            '6: layer "Output": Source "Hiden" is not a layer; did you mean "Hidden"? Layers: Input, Hidden, Output')])


if __name__ == "__main__":
    if jsonschema is None:
        print("python3-jsonschema is not installed: the documents are not compared with their schema", file=sys.stderr)
    unittest.main()
