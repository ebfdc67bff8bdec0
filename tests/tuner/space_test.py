#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Spaces: values and their places, conditions, repeated layers, and what is said of malformed ones."""
import copy
import json
import unittest

import numpy as np

from tuner_case import NETWORK, PARAMETERS, SeededTest

from norn.tune import descriptor
from norn.tune.draws import Draws
from norn.errors import UsageError
from norn.tune.space import read_space, space_of


def of(parameters, network=None):
    return space_of({"Parameters": parameters}, network or NETWORK, "space.json")


class Rows(SeededTest):
    def setUp(self):
        super().setUp()
        self.space = of(PARAMETERS)
        self.draws = Draws(self.seed, 9)

    def rows(self, count=300):
        return self.space.spread(self.draws.uniform(count, len(self.space)))

    def test_settings_lead_back_to_their_row(self):
        for row in self.rows():
            settings = self.space.settings(row)
            again = self.space.row(settings)
            # Ranges are rounded to six digits on the way.
            np.testing.assert_allclose(again, row, atol=2e-5)
            self.assertEqual(self.space.settings(again), settings)

    def test_values_are_within_their_ranges_and_of_their_types(self):
        for row in self.rows():
            found = self.space.settings(row)
            self.assertTrue(1e-4 <= found["Training.Alpha"] <= 2e-2)
            self.assertIn(found["Training.Batch"], [32, 64, 128, 512])
            self.assertTrue(isinstance(found["Layers.Hidden.N"], int) and found["Layers.Hidden.N"] % 64 == 0
                            and 64 <= found["Layers.Hidden.N"] <= 4096)
            json.dumps(found)

    def test_every_value_of_a_list_and_every_whole_number_is_met(self):
        space = of({"Training.Batch": {"Values": [1, 2, 5]}, "Denoising.p": {"Names": list("abcd")}, "Training.Epochs": {"Whole": [3, 9]},
                    "Layers.Hidden.N": {"Whole": [1, 64], "Scale": "log"}})
        rows = space.spread(self.draws.uniform(4000, 4))
        for number, values in enumerate([[1, 2, 5], list("abcd"), list(range(3, 10))]):
            met = [space.dimensions[number].value(row[number]) for row in rows]
            shares = np.array([met.count(value) for value in values]) / len(rows)
            np.testing.assert_allclose(shares, 1 / len(values), atol=0.05)
        widths = [space.dimensions[3].value(row[3]) for row in rows]
        self.assertLess(np.median(widths), 16)
        self.assertEqual((min(widths), max(widths)), (1, 64))

    def test_what_is_not_there_stands_at_its_middle_and_is_not_set(self):
        for row in self.rows():
            settings = self.space.settings(row)
            optimizer = settings["Training.Optimizer"]
            self.assertEqual("Training.Mu" in settings, optimizer != "SGD")
            self.assertEqual("Training.Mu1" in settings, optimizer == "Adam")
            self.assertEqual("Layers.Hidden2.pDropout" in settings, settings["Layers.Hidden.Count"] >= 2)
            if optimizer == "SGD":
                self.assertEqual(row[3], 0.5)
        rows = self.rows(50)
        np.testing.assert_array_equal(self.space.settle(rows), rows)

    def test_conditions_of_conditions(self):
        space = of({"A": {"Names": ["x", "y"]}, "C": {"Range": [0, 1], "If": {"B": 2}}, "B": {"Values": [1, 2], "If": {"A": "y"}}})
        for row in space.spread(self.draws.uniform(100, 3)):
            found = space.settings(row)
            self.assertEqual("B" in found, found["A"] == "y")
            self.assertEqual("C" in found, found.get("B") == 2)

    def test_moved_rows_are_rows_and_others(self):
        rows = self.rows(200)
        moved = self.space.moved(rows, 0.05, self.draws)
        np.testing.assert_array_equal(self.space.settle(moved), moved)
        snapped = np.column_stack([one.snap(moved[:, n]) for n, one in enumerate(self.space.dimensions)])
        np.testing.assert_array_equal(self.space.settle(snapped), moved)
        self.assertGreater(np.mean([tuple(a) != tuple(b) for a, b in zip(rows, moved)]), 0.6)

    def test_every_point_of_a_product_once(self):
        space = of({"A": {"Values": [1, 2]}, "B": {"Whole": [2, 8], "Multiple": 2, "If": {"A": 2}}, "C": {"Names": ["u", "v", "w"]}})
        rows = space.product(100)
        found = [json.dumps(space.settings(row), sort_keys=True) for row in rows]
        self.assertEqual((len(found), len(set(found))), (15, 15))
        self.assertIsNone(space.product(10))

    def test_corners_hold_every_end(self):
        found = [self.space.settings(row) for row in self.space.corners()]
        for path in PARAMETERS:
            self.assertTrue(any(path in settings for settings in found), path)
        self.assertEqual({s["Layers.Hidden.N"] for s in found} & {64, 4096}, {64, 4096})
        self.assertEqual({s["Training.Mu1"] for s in found if "Training.Mu1" in s} & {0.9, 0.9999}, {0.9, 0.9999})

    def test_corners_hold_all_that_is_least_and_all_that_is_most(self):
        ends = {f"k{number}": sorted(self.random.sample(range(1, 1000), 2)) for number in range(self.random.randint(2, 6))}
        space = of({path: {"Whole": both} for path, both in ends.items()} | {"Training.Optimizer": {"Names": ["Adam", "SGD", "NAG"]}})
        found = [{path: settings[path] for path in ends} for settings in map(space.settings, space.corners())]
        for end in (0, 1):
            self.assertIn({path: both[end] for path, both in ends.items()}, found)

    def test_a_list_of_one_value_has_one_place(self):
        value = self.random.randint(1, 512)
        space = of({"Training.Batch": {"Values": [value]}})
        rows = space.spread(self.draws.uniform(50, 1))
        np.testing.assert_array_equal(rows, np.zeros((50, 1)))
        self.assertEqual(space.settings(rows[0]), {"Training.Batch": value})


class Descriptors(unittest.TestCase):
    def test_keys_are_found_whatever_their_capitals(self):
        made = descriptor.apply(NETWORK, {"training.ALPHA": 0.5, "layers.hidden.n": 128, "Denoising.p": 0.1,
                                          "Layers.Input.Normalize": "L2"})
        self.assertEqual(made["Training"], {"Alpha": 0.5, "Epochs": 30})
        self.assertEqual(made["Layers"][1]["N"], 128)
        self.assertEqual(made["Layers"][0]["Normalize"], "L2")

    def test_none_removes_a_key_and_the_descriptor_itself_stays(self):
        before = copy.deepcopy(NETWORK)
        made = descriptor.apply(NETWORK, {"Denoising.p": None, "Layers.Hidden.N": None, "New.Part.x": 3})
        self.assertEqual((made["Denoising"], made["New"]), ({}, {"Part": {"x": 3}}))
        self.assertNotIn("N", made["Layers"][1])
        self.assertEqual(NETWORK, before)

    def test_a_repeated_layer_is_a_chain_that_others_read_the_end_of(self):
        made = descriptor.apply(NETWORK, {"Layers.Hidden3.N": 32, "Layers.Hidden.Count": 3, "Layers.Hidden.N": 256})
        self.assertEqual([(l["Name"], l.get("Source"), l.get("N")) for l in made["Layers"]],
                         [("Input", None, None), ("Hidden", "Input", 256), ("Hidden2", "Hidden", 256), ("Hidden3", "Hidden2", 32),
                          ("Output", ["Hidden3", "Input"], None)])
        self.assertEqual(descriptor.key_of(made, "Layers.hidden3.N"), "Layers[3].N")

    def test_names_with_dots(self):
        network = {"Layers": [{"Name": "a"}, {"Name": "a.b"}]}
        made = descriptor.apply(network, {"Layers.a.b.N": 3, "Layers.a.N": 2})
        self.assertEqual(made["Layers"], [{"Name": "a", "N": 2}, {"Name": "a.b", "N": 3}])


MALFORMED = [
    ('{"Parameters": {}}', ":1: Parameters: is empty"),
    ('{"Parameter": {}}', ":1: a space is an object with \"Parameters\""),
    ('{"Parameters": {\n"Training.Alpha": {"Range": [2, 1]}}}', ":2: Training.Alpha: Range [2, 1] is empty: 2 is more than 1"),
    ('{"Parameters": {\n"Training.Alpha": {"Range": [1, 1]}}}', ":2: Training.Alpha: Range [1, 1] holds one value"),
    ('{"Parameters": {\n"Training.Alpha": {"Range": [0, 1], "Scale": "log"}}}', "begins at 0, and Scale \"log\" needs more than 0"),
    ('{"Parameters": {\n"Training.Alpha": {"Range": [0, 1], "Scale": "Log"}}}', "Scale is \"Log\"; expected"),
    ('{"Parameters": {\n"Training.Alpha": {"Range": [0, "1"]}}}', "expected [lowest, highest], two numbers"),
    ('{"Parameters": {\n"Training.Alpha": {"Whole": [0, 1.5]}}}', "two whole numbers"),
    ('{"Parameters": {\n"Training.Alpha": {"Whole": [65, 127], "Multiple": 64}}}', "holds fewer than two multiples of 64"),
    ('{"Parameters": {\n"Training.Alpha": {"Whole": [1, 2], "Multiple": 0}}}', "Multiple is 0; expected a whole number of at least 1"),
    ('{"Parameters": {\n"Training.Alpha": {"Values": []}}}', "Values is []; expected a list of values"),
    ('{"Parameters": {\n"Training.Alpha": {"Names": ["a", "b", "a"]}}}', "Names holds \"a\" twice"),
    ('{"Parameters": {\n"Training.Alpha": {"Range": [0, 1], "Values": [1]}}}',
     "has Range and Values; expected one of Range, Whole, Values, Names"),
    ('{"Parameters": {\n"Training.Alpha": 3}}', "has none of them; expected one of"),
    ('{"Parameters": {\n"Training.Alpha": {"Range": [0, 1], "Multiple": 2}}}',
     "\"Multiple\" means nothing beside Range; expected If, Scale"),
    ('{"Parameters": {\n"Layers.Hiden.N": {"Whole": [1, 2]}}}', "the descriptor has no layer \"Hiden\". Did you mean \"Hidden\"?"),
    ('{"Parameters": {\n"Layers.N": {"Whole": [1, 2]}}}', "names no key of a layer"),
    ('{"Parameters": {\n"Training..Alpha": {"Whole": [1, 2]}}}', "has an empty part"),
    ('{"Parameters": {\n"Training": {"Names": [1, 2]}}}', "is a whole part of the descriptor; name a key in it: Training.KEY"),
    ('{"Parameters": {\n"Layers.Hidden.Count": {"Whole": [0, 2]}}}', "counts layers; expected"),
    ('{"Parameters": {\n"Layers.Hidden.Count": {"Range": [1, 2]}}}', "counts layers; expected"),
    ('{"Parameters": {"A": {"Values": [1, 2], "If": {"B": 3}},\n"B": {"Values": [1, 2]}}}', ":1: A: If: 3 is no value of \"B\""),
    ('{"Parameters": {"A": {"Values": [1, 2], "If": {"C": 3}},\n"B": {"Values": [1, 2]}}}',
     "If names \"C\", which is not among the parameters"),
    ('{"Parameters": {"A": {"Values": [1, 2], "If": {"B": 1}},\n"B": {"Range": [1, 2]}}}', "which is a Range; conditions need"),
    ('{"Parameters": {"A": {"Values": [1, 2], "If": {"B": 1}},\n"B": {"Values": [1, 2], "If": {"A": 1}}}}',
     "conditions lead round in a circle"),
    ('{"Parameters": {"A": {"Values": [1, 2], "If": 7}}}', "If is 7; expected"),
    ('{"Parameters": {"training.alpha": {"Values": [1]},\n"Training.Alpha": {"Values": [1]}}}', ":1: training.alpha: is given twice"),
    ('{"Parameters": {"A": {"Values": [1]},\n"A": {"Values": [1]}}}', ":2: \"A\" is given twice"),
    ('{"Parameters": {"A": {"Values": [1]}},\n "Parametres": 1}', ":2: Parametres: is unknown. Did you mean \"Parameters\"?"),
    ('{"Parameters": {"A": {"Values": [1]},\n}}', ":2: not JSON: "),
    ('{"Parameters": {"Layers.Hidden.Count": {"Whole": [2]},\n"Layers.Hidden2.N": {"Whole": [1, 2]}}}', "Whole is [2]; expected"),
    ('{"Parameters": {"Layers.Hidden.Count": {"Whole": [2, "a"]},\n"Layers.Hidden2.N": {"Whole": [1, 2]}}}',
     "Whole is [2, \"a\"]; expected"),
    ('{"Parameters": {"Layers.Hidden.Count": {"Values": [2, "a"]},\n"Layers.Hidden2.N": {"Whole": [1, 2]}}}', "counts layers; expected"),
    ('{"Parameters": {"Layers.Hidden.Count": {"Values": [2, 3]},\n"Layers.Hidden2.Count": {"Whole": [1, 2]}}}',
     ":2: Layers.Hidden2.Count: counts copies"),
    ('{"Parameters": {\n"Layers.Hidden.Name": {"Names": ["A", "B"]}}}',
     ":2: Layers.Hidden.Name: is what paths and sources call the layer by"),
    ('{"Parameters": {\n"Training.Epochs": {"Names": [null, 3]}}}', ":2: Training.Epochs: counts epochs; expected"),
    ('{"Parameters": {\n"Training.Epochs": {"Range": [1, 3]}}}', ":2: Training.Epochs: counts epochs; expected"),
    (f'{{"Parameters": {{\n"Training.Alpha": {{"Range": [0, 1{"0" * 400}]}}}}}}', "000]; expected [lowest, highest], two numbers"),
    ('{"Parameters": {\n"Training.Alpha": {"Range": [-1e308, 1e308]}}}', "is wider than a number can be"),
    ('{"Parameters": {\n"Training.Alpha": {"Values": [1, 1e999]}}}', "Values holds a number that is not finite"),
    ('{"Parameters": {\n"Training.Alpha": {"Values": [1, NaN]}}}', ":2: NaN is no number of JSON"),
    ('{"Parameters": {"A": {"Names": ["\\ud800"]}}}', "a string holds half a character"),
]


class Large(SeededTest):
    """Lists and spaces that nobody would write are read, or refused, as others are: nothing grows with their square."""

    def test_a_list_without_end_and_a_value_that_is_there_twice(self):
        count = self.random.randrange(100_000, 150_000)
        values = [number / 1e6 for number in range(count)]
        space = space_of({"Parameters": {"Training.Alpha": {"Values": values}}}, NETWORK, "space.json")
        at = self.random.randrange(count)
        self.assertEqual(space.settings(space.row({"Training.Alpha": values[at]})), {"Training.Alpha": values[at]})
        values[self.random.randrange(count // 2)] = values[-1]
        with self.assertRaisesRegex(UsageError, "twice"):
            space_of({"Parameters": {"Training.Alpha": {"Values": values}}}, NETWORK, "space.json")

    def test_a_space_of_more_parameters_than_can_be_searched_is_refused(self):
        count = self.random.randrange(1001, 5001)
        with self.assertRaisesRegex(UsageError, f"Parameters: are {count}, and 1000 are the most"):
            space_of({"Parameters": {f"k{number}": {"Range": [0, 1]} for number in range(count)}}, NETWORK, "space.json")


class Malformed(SeededTest):
    def test_each_is_one_good_line(self):
        path = self.folder / "space.json"
        for text, said in MALFORMED:
            with self.subTest(text):
                path.write_text(text)
                with self.assertRaises(UsageError) as caught:
                    read_space(str(path), NETWORK)
                lines = [line for line in str(caught.exception).splitlines() if said in line]
                self.assertEqual(len(lines), 1, caught.exception)
                self.assertTrue(lines[0].startswith(f"{path}:"), lines)

    def test_all_errors_are_said_at_once(self):
        path = self.folder / "space.json"
        path.write_text('{"Parameters": {\n"A": {"Range": [2, 1]},\n // a comment with "B": {\n"B": {"Names": 3}}}')
        with self.assertRaises(UsageError) as caught:
            read_space(str(path), NETWORK)
        self.assertEqual([line.split(": ")[0] for line in str(caught.exception).splitlines()], [f"{path}:2", f"{path}:4"])


if __name__ == "__main__":
    unittest.main()
