# SPDX-License-Identifier: Apache-2.0
"""predictor --explanations against requests that are written without an entry: the same scores, and their differences."""
import json
import unittest

import numpy as np

from norn_files import write_datasets, write_text
from programs import NETWORK, ProgramTest, mpirun

TWO_INPUTS = """{
  "ErrorFunction": "CrossEntropy", "Training": {"Optimizer": "Adam", "Alpha": 0.01, "Batch": 32, "Epochs": 4},
  "Layers": [
    {"Name": "Had", "Kind": "Input", "N": "auto", "DataSet": "gl_input", "Sparse": true, "Normalize": "L2"},
    {"Name": "About", "Kind": "Input", "N": "auto", "DataSet": "about", "InputWeighting": {"Scheme": "InverseDocumentFrequency"}},
    {"Name": "Hidden", "Kind": "Hidden", "N": 16, "Activation": "Tanh", "Source": ["Had", "About"]},
    {"Name": "Output", "Kind": "Output", "N": "auto", "DataSet": "gl_output", "Activation": "SoftMax"}
  ]
}
"""

IMAGES = """{
  "ErrorFunction": "CrossEntropy", "Training": {"Optimizer": "Adam", "Alpha": 0.01, "Batch": 32, "Epochs": 2},
  "Layers": [
    {"Name": "Image", "Kind": "Input", "Type": "Convolutional", "N": "auto", "DataSet": "images"},
    {"Name": "Conv", "Kind": "Hidden", "Type": "Convolutional", "Source": "Image", "N": 3, "Kernel": [3, 3], "Activation": "Relu"},
    {"Name": "Had", "Kind": "Input", "N": "auto", "DataSet": "gl_input"},
    {"Name": "Hidden", "Kind": "Hidden", "N": 16, "Activation": "Tanh", "Source": ["Conv", "Had"]},
    {"Name": "Output", "Kind": "Output", "N": "auto", "DataSet": "gl_output", "Activation": "SoftMax"}
  ]
}
"""


class Explaining(ProgramTest):
    def setUp(self):
        super().setUp()
        network = NETWORK % self.random.choice(["Sigmoid", "SoftMax"])
        if self.random.random() < 0.5:
            network = network.replace('"Sparse": true', '"Sparse": true, "Normalize": "L2"')
        self.write("net.json", network)
        self.train("-e", "5")
        write_text(self.path("requests.txt"), self.known, self.names, self.examples)

    def predict(self, *arguments, requests=("-r", "requests.txt", "-i", "features.txt"), **more):
        """By example and feature: the score, and the entries beside it."""
        self.succeed("predictor", "-n", "model.nc", *requests, "-o", "features.txt", "-s", "recs.tsv", "--format", "tsv", *arguments,
                     **more)
        found = {}
        for line in self.read("recs.tsv").decode().splitlines():
            example, _, feature, score, *entries = line.split("\t")
            found.setdefault(example, {})[feature] = np.float32(score), entries
        return found

    def test_each_effect_is_that_of_leaving_the_entry_out_by_hand(self):
        n, k = self.random.randint(1, 9), self.random.randint(1, 12)
        found = self.predict("-k", k, "--explanations", n, "-b", self.random.randint(1, 60))
        plain = self.predict("-k", k)
        self.assertEqual({e: {f: s for f, (s, _) in best.items()} for e, best in found.items()},
                         {e: {f: s for f, (s, _) in best.items()} for e, best in plain.items()}, "the lists are the same")
        rows, labels = [], []
        for e, row in enumerate(self.known):
            for u in row:
                rows.append([v for v in row if v != u])
                labels.append(f"{self.examples[e]} without {u}")
        write_text(self.path("without.txt"), rows, self.names, labels)
        left = self.predict("-k", self.width, requests=("-r", "without.txt", "-i", "features.txt"))
        for e, row in enumerate(self.known):
            for feature, (score, entries) in found[self.examples[e]].items():
                effects = {self.names[u]: score - left[f"{self.examples[e]} without {u}"][feature][0] for u in row}
                wanted = sorted(effects.items(), key=lambda one: (-abs(one[1]), self.names.index(one[0])))[:n]
                self.assertEqual([(name, np.float32(effect)) for name, effect in zip(entries[::2], entries[1::2])], wanted)

    def test_threads_ranks_batches_and_forms_give_the_same(self):
        self.predict("-k", "4", "--explanations", "3", "--threads", "1", "--exclude-seen")
        one = self.read("recs.tsv")
        lines = [line.split("\t") for line in one.decode().splitlines()]
        for arguments in (("--threads", "3"), ("-b", self.random.randint(1, 40))):
            self.predict("-k", "4", "--explanations", "3", "--exclude-seen", *arguments)
            self.assertEqual(self.read("recs.tsv"), one)
        for ranks in (2, 3):
            if mpirun(ranks):
                self.predict("-k", "4", "--explanations", "3", "--exclude-seen", "--threads", "1", prefix=mpirun(ranks))
                self.assertEqual(self.read("recs.tsv"), one)
        self.succeed("predictor", "-n", "model.nc", "-r", "requests.txt", "-i", "features.txt", "-o", "features.txt", "-s", "recs.jsonl",
                     "--format", "jsonl", "-k", "4", "--explanations", "3", "--exclude-seen")
        found = [json.loads(line) for line in self.read("recs.jsonl").decode().splitlines()]
        self.assertEqual(len(found), len(lines))
        for one, line in zip(found, lines):
            self.assertEqual(list(one), ["example", "rank", "feature", "score", "entries"])
            self.assertEqual([one["example"], str(one["rank"]), one["feature"]], line[:3])
            self.assertEqual([(entry["feature"], np.float32(entry["effect"])) for entry in one["entries"]],
                             [(name, np.float32(effect)) for name, effect in zip(line[4::2], line[5::2])])
            self.assertTrue(all(list(entry) == ["feature", "effect"] for entry in one["entries"]))

    def test_effects_are_before_the_factors_of_a_filter(self):
        plain = self.predict("-k", "3", "--explanations", "2")
        self.write("filter.txt", "".join(f"{example}\t{':'.join(f'{name},2' for name in self.names)}\n" for example in self.examples))
        scaled = self.predict("-k", "3", "--explanations", "2", "-f", "filter.txt", "--filter-mode", "scale")
        self.assertEqual(scaled, {example: {name: (2 * score, entries) for name, (score, entries) in best.items()}
                                  for example, best in plain.items()})

    def test_one_unit_is_asked_about_with_allow(self):
        unit = self.random.choice(self.names)
        self.write("one.txt", unit + "\n")
        for best in self.predict("-k", "3", "--explanations", "2", "--allow", "one.txt").values():
            self.assertEqual(list(best), [unit])

    def test_an_example_of_nothing_has_no_entries(self):
        self.write("none.txt", "nobody\t\nstranger\tno such item\n")
        for best in self.predict("-k", "3", "--explanations", "2", requests=("-r", "none.txt", "-i", "features.txt")).values():
            self.assertEqual([entries for _, entries in best.values()], [[]] * 3)

    def test_several_inputs_are_told_by_name(self):
        about = [sorted(self.random.sample(range(9), self.random.randint(0, 4))) for _ in self.rows]
        sets = [("gl_input", self.width, self.known, None), ("about", 9, about, None), ("gl_output", self.width, self.known, None)]
        write_datasets(self.path("train.nc"), sets)
        self.write("net.json", TWO_INPUTS)
        self.train("--force")
        run = ("predictor", "-n", "model.nc", "-k", "3", "--data", "train.nc", "--explanations", "100")
        self.succeed(*run, "-s", "recs.jsonl", "--format", "jsonl")
        found = [json.loads(line) for line in self.read("recs.jsonl").decode().splitlines()]
        self.succeed(*run, "-s", "recs.tsv", "--format", "tsv")
        lines = [line.split("\t") for line in self.read("recs.tsv").decode().splitlines()]
        e = self.random.randrange(len(self.rows))
        for one, line in list(zip(found, lines))[3 * e:3 * e + 3]:
            entries = {(entry["input"], int(entry["feature"])): np.float32(entry["effect"]) for entry in one["entries"]}
            self.assertEqual(set(entries), {("Had", u) for u in self.known[e]} | {("About", u) for u in about[e]})
            self.assertEqual([value for key, effect in entries.items() for value in (key[0], str(key[1]), effect)],
                             [np.float32(word) if at % 3 == 2 else word for at, word in enumerate(line[4:])])
        which, rows = self.random.choice([row for row in ((1, about), (0, self.known)) if row[1][e]])
        left_out = self.random.choice(rows[e])
        changed = [list(row) for row in rows]
        changed[e].remove(left_out)
        sets[which] = (*sets[which][:2], changed, None)
        write_datasets(self.path("without.nc"), sets)
        self.succeed("predictor", "-n", "model.nc", "-s", "left.tsv", "--format", "tsv", "-k", self.width, "--data", "without.nc")
        left = {(line.split("\t")[0], line.split("\t")[2]): np.float32(line.split("\t")[3])
                for line in self.read("left.tsv").decode().splitlines()}
        for one in found[3 * e:3 * e + 3]:
            effect = next(entry["effect"] for entry in one["entries"]
                          if (entry["input"], entry["feature"]) == (("Had", "About")[which], str(left_out)))
            self.assertEqual(np.float32(effect), np.float32(one["score"]) - left[str(e), one["feature"]])

    def test_images_stay_as_they_are_on_every_rank(self):
        pixels = np.random.default_rng(self.seed).integers(0, 256, (len(self.rows), 5 * 4), dtype=np.uint8)
        sets = [("images", [5, 4, 1], pixels, None), ("gl_input", self.width, self.known, None),
                ("gl_output", self.width, self.known, None)]
        write_datasets(self.path("train.nc"), sets)
        self.write("net.json", IMAGES)
        self.train("--force")
        run = ("predictor", "-n", "model.nc", "-s", "recs.tsv", "--format", "tsv", "-k", "2", "--data", "train.nc")
        self.succeed(*run, "--explanations", "50", "-b", self.random.randint(1, 300))
        one = self.read("recs.tsv")
        for ranks in (2, 3):
            if mpirun(ranks):
                self.succeed(*run, "--explanations", "50", prefix=mpirun(ranks))
                self.assertEqual(self.read("recs.tsv"), one)
        e = self.random.choice([e for e, row in enumerate(self.known) if row])
        left_out = self.random.choice(self.known[e])
        without = [[u for u in row if (other, u) != (e, left_out)] for other, row in enumerate(self.known)]
        write_datasets(self.path("without.nc"), [sets[0], ("gl_input", self.width, without, None), sets[2]])
        self.succeed("predictor", "-n", "model.nc", "-s", "left.tsv", "--format", "tsv", "-k", self.width, "--data", "without.nc")
        left = [line.split("\t") for line in self.read("left.tsv").decode().splitlines()]
        for line in (line.split("\t") for line in one.decode().splitlines()[2 * e:2 * e + 2]):
            effect = dict(zip(line[5::3], line[6::3]))[str(left_out)]
            score = next(other[3] for other in left if other[0] == str(e) and other[2] == line[2])
            self.assertEqual(np.float32(effect), np.float32(line[3]) - np.float32(score))


class BadInput(ProgramTest):
    def test_is_told_by_name(self):
        self.train("-e", "1")
        write_text(self.path("requests.txt"), self.known, self.names, self.examples)
        run = ("predictor", "-n", "model.nc", "-r", "requests.txt", "-i", "features.txt", "-s", "recs")
        self.fail_with(2, "--explanations 0 is out of range: it must be at least 1", *run, "--explanations", "0", "--format", "tsv")
        for form in ("text", "netcdf"):
            self.fail_with(2, f"--explanations writes entries beside each unit, for which --format {form} has no place; take tsv or jsonl",
                           *run, "--explanations", "2", "--format", form)
        run += ("--explanations", "2", "--format", "tsv")
        self.fail_with(2, '--explanations: layer "Hidden" is no output layer: it has no scores', *run, "--layer", "Hidden")
        write_datasets(self.path("dense.nc"), [("gl_input", [self.width], np.full((8, self.width), 200, np.uint8), None),
                                               ("gl_output", self.width, self.rows[:8], None)])
        self.write("dense.json", (NETWORK % "Sigmoid").replace(', "Sparse": true}', "}").replace('"Denoising": {"p": 0.25},', ""))
        self.succeed("trainer", "-c", "dense.json", "-i", "dense.nc", "-n", "dense_model.nc", "-e", "1", "-b", "4")
        message = ('the model\'s inputs are dense ("Input"): they have no entries that could be left out; explanations are of sparse '
                   "inputs")
        self.fail_with(2, message, "predictor", "-n", "dense_model.nc", "--data", "dense.nc", *run[-6:])


if __name__ == "__main__":
    unittest.main()
