#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Features of items that are trained with the model: the same bytes however they are trained, and what is told and refused."""
import json
import subprocess
import unittest

import netCDF4

from norn_files import write_datasets
from programs import BIN, NETWORK, ProgramTest, mpirun


class ItemFeatures(ProgramTest):
    def setUp(self):
        super().setUp()
        write_datasets(self.path("train.nc"), [("gl_input", self.width, self.known, None), ("gl_output", self.width, self.known, None)])
        self.features = self.random.randint(2, 9)
        self.rows = [sorted(self.random.sample(range(self.features), self.random.randint(0 if item else 1, self.features)))
                     for item in range(self.width)]
        self.write_items(self.rows)

    def write_items(self, rows, file="items.nc"):
        values = [[self.random.choice((0.5, 1, 2)) for _ in row] for row in rows] if self.random.random() < 0.5 else None
        write_datasets(self.path(file), [("items", self.features, rows, values)])

    def use(self, activation="Sigmoid", **keys):
        network = json.loads(NETWORK % activation)
        network["Layers"][2].update(keys)
        self.write("net.json", json.dumps(network))

    def train_items(self, *options, model="model.nc", prefix=()):
        return self.train("-i", "items.nc", *options, model=model, prefix=prefix)

    def same(self, *models):
        for model in models[1:]:
            self.assertEqual(self.read(models[0]), self.read(model), f"{models[0]} and {model}")


class Trained(ItemFeatures):
    def test_have_the_same_bytes_on_any_ranks_by_descriptor_and_option_and_resumed(self):
        for activation in ("Sigmoid", "SoftMax"):
            self.use(activation, Features="items")
            self.train_items("--force")
            for ranks in (2, 3):
                self.train_items("--force", model=f"{ranks}.nc", prefix=mpirun(ranks))
            self.use(activation)
            self.train_items("--force", "--item-features", "items", model="option.nc")
            self.same("model.nc", "2.nc", "3.nc", "option.nc")
            self.train_items("--force", "-e", "4", "--item-features", "items", model="long.nc")
            self.train("-e", "4", "--resume", model="2.nc", prefix=mpirun(2))
            self.same("long.nc", "2.nc")

    def test_are_in_the_model(self):
        self.use(Features="items")
        self.train_items()
        with netCDF4.Dataset(self.path("model.nc")) as file:
            starts = [int(start) for start in file["layer2_featureStart"][:]]
            columns = [int(column) for column in file["layer2_featureColumn"][:]]
        self.assertEqual([columns[first:last] for first, last in zip(starts, starts[1:])], self.rows)

    def test_have_right_gradients(self):
        self.use(Features="items")
        table = self.succeed("trainer", "-c", "net.json", "-i", "train.nc", "-i", "items.nc", "--check-gradients").stdout
        self.assertIn("Output features", table)
        self.assertIn("gradients agree", table)


class ByLabel(ItemFeatures):
    def setUp(self):
        super().setUp()
        self.items = [f"film {item}" for item in range(self.random.randint(9, 30))]
        rows = [self.random.sample(self.items, self.random.randint(2, 6)) for _ in range(80)] + [self.items]
        self.write("films.txt", "".join(f"user {user}\t{':'.join(row)}\n" for user, row in enumerate(rows)))
        self.kinds = {item: self.random.sample("abcd", self.random.randint(1, 4)) for item in self.items[1:]} | {"nobody": ["a"]}
        given = list(self.kinds)
        self.random.shuffle(given)
        self.write("kinds.txt", "".join(f"{item}\t{':'.join(self.kinds[item])}\n" for item in given))
        for name in ("films", "kinds"):
            self.succeed("importer", "-i", f"{name}.txt", "-o", f"{name}.nc", "-d", name, "-q")

    def test_features_of_importer_go_to_the_items_of_a_recipe(self):
        told = self.succeed("trainer", "--recipe", "softmax", "-i", "films.nc", "-i", "kinds.nc", "--item-features", "kinds_input",
                            "--epochs", "2", "-n", "films_model.nc").stderr
        self.assertIn('1 ("nobody") of its rows are of no unit of layer "Output", and left out', told)
        self.assertIn('1 ("film 0") units of layer "Output" have no row there', told)
        with netCDF4.Dataset(self.path("films_model.nc")) as file:
            counts = [int(count) for count in file["layer2_featureStart"][1:] - file["layer2_featureStart"][:-1]]
        order = [line.split("\t")[0] for line in self.read("films.features").decode().splitlines()]
        self.assertEqual(counts, [len(self.kinds.get(item, ())) for item in order])
        self.write("others.txt", "nobody\ta\n")
        self.succeed("importer", "-i", "others.txt", "-o", "others.nc", "-d", "others", "-q")
        done = self.run_program("trainer", "--recipe", "softmax", "-i", "films.nc", "-i", "others.nc", "--item-features", "others_input",
                                "-n", "no.nc")
        self.assertIn(": none of its rows is of a unit of the layer and has entries; rows are units, by the labels of the "
                      "targets' features",
                      done.stderr)
        self.succeed("predictor", "-n", "films_model.nc", "--data", "films.nc", "-k", "3", "-s", "recommended.txt")


class Told(ItemFeatures):
    def test_items_that_are_missing_and_rows_without_entries(self):
        self.use(Features="items")
        self.write_items([[0], [], *self.rows[2:-2]])
        told = self.train_items().stderr
        self.assertIn("2 (", told)
        self.assertIn("have no row there, and no features", told)
        self.assertRegex(told, r'warning: items.nc: data set "items": \d+ \((such as )?"[^)]*\) of its rows have no entries\n')

    def test_what_cannot_be(self):
        for keys, problem in (({"Features": "item"},
                               'Features: data set "item" is in none of the files; did you mean "items"? They hold: '),
                              ({"Features": "items", "Factored": {"Rule": "SGD"}}, 'Features "items" and Factored exclude each other')):
            with self.subTest(keys):
                self.use(**keys)
                done = self.run_program("trainer", "-c", "net.json", "-i", "train.nc", "-i", "items.nc", "-n", "no.nc")
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(problem, done.stderr)
        self.use(Features="items")
        self.write_items([*self.rows, [0]])
        done = self.run_program("trainer", "-c", "net.json", "-i", "train.nc", "-i", "items.nc", "-n", "no.nc")
        self.assertIn(f'"items" has {self.width + 1} rows, but the layer has {self.width} units, and there are no labels to match them by; '
                      "give a row for each unit", done.stderr)


class Searched(ItemFeatures):
    """`--recipe auto` gives them to every network."""

    def setUp(self):
        super().setUp()
        self.settings = ["--epochs", self.random.randint(2, 6), "--budget",
                         self.random.choice((3.5, 6)), "--seed", self.random.randrange(99)]

    def search(self, model, *options, **more):
        return self.succeed("trainer", "--recipe", "auto", "-i", "train.nc", "-i", "items.nc", "--item-features", "items", "-n", model,
                            "--run-dir", "run", *self.settings, *options, **more)

    def network(self):
        return json.loads(self.path("run/run.json").read_text())["network"]

    def test_have_the_same_bytes_on_any_ranks_and_after_a_kill(self):
        self.search("model.nc", "--threads", 1)
        for ranks in (2, 3):
            self.search(f"{ranks}.nc", "--force", prefix=mpirun(ranks))
        self.same("model.nc", "2.nc", "3.nc")
        killed = subprocess.Popen([*map(str, (BIN / "trainer", "--recipe", "auto", "-i", "train.nc", "-i", "items.nc", "--item-features",
                                              "items", "-n", "killed.nc", "--run-dir", "run", "--force", *self.settings))],
                                  cwd=self.folder, stderr=subprocess.PIPE, text=True)
        most = self.random.randint(1, 3)
        for line in killed.stderr:
            if f"candidate {most}: " in line:
                break
        killed.kill()
        killed.communicate()
        if self.path("killed.search.json").exists():
            kept, self.rows = self.read("items.nc"), [[0] if not row or self.random.random() < 0.5 else [row[0]] for row in self.rows]
            self.write_items([*self.rows[:-1], [*range(self.features)]])
            said = self.run_program("trainer", "--recipe", "auto", "-i", "train.nc", "-i", "items.nc", "--item-features", "items", "-n",
                                    "killed.nc", *self.settings, "--resume").stderr
            self.assertIn("killed.search.json: the search that it records had another content of the data", said)
            self.path("items.nc").write_bytes(kept)
        self.search("killed.nc", "--resume")
        self.same("model.nc", "killed.nc")

    def test_what_is_chosen_is_the_training_of_its_descriptor(self):
        self.search("model.nc")
        self.succeed("trainer", "--repeat", "run/run.json", "-n", "again.nc")
        self.same("model.nc", "again.nc")
        network = self.network()
        if network["Training"].get("Method") == "Ease":
            return
        self.assertIn("items", [layer.get("Features") for layer in network["Layers"]])
        with netCDF4.Dataset(self.path("model.nc")) as file:
            self.assertIn("layer2_featureStart", file.variables)

    def test_what_is_told_of_them_is_told_once(self):
        self.write_items([[0], [], *self.rows[2:]])
        said = self.search("model.nc").stderr
        self.assertGreater(said.count("candidate "), 2, said)
        self.assertEqual(said.count("of its rows have no entries"), 1, said)

    def test_ease_that_is_chosen_has_none_and_says_so(self):
        self.settings = ["--epochs", 1, "--budget", 5000, "--rate", 1e-7, "--seed", 1]
        said = self.search("model.nc").stderr
        told = ("EASE, which is chosen, has no features of items: adding new items needs those of the known ones again, or choose --recipe "
                "sigmoid or softmax")
        self.assertEqual(told in said, self.network()["Training"].get("Method") == "Ease", said)
        self.succeed("predictor", "-n", "model.nc", "--data", "train.nc", "-k", "3", "-s", "recommended.txt")


if __name__ == "__main__":
    unittest.main()
