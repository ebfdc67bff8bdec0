#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""regions.json: what is read from it, and what is said of one that is wrong; the plan of a day; what comes after what."""
import json
import unittest
from types import SimpleNamespace

import jsonschema

from daily_case import DAY, NETWORK, ROOT, DailyTest

from norn.daily import regions as reading
from norn.daily import train_step
from norn.daily.days import Day, Lock
from norn.daily.graph import Node, graph_of
from norn.daily.import_step import days_before
from norn.daily.plan import Plan, shares_of, waves_of
from norn.daily.regions import Regions
from norn.errors import UsageError

SCHEMA = json.loads((ROOT / "configs/schema/regions.schema.json").read_text())
GOOD = {"Model": "net.json", "Text": "in/{day}/{region}.txt", "Regions": {"north": {}}}
# (what is changed, what is said); None in place of a value: the key is left out.
MALFORMED = [
    ({"Regions": None}, ["Regions names no region"]),
    ({"Regions": {}}, ["Regions names no region"]),
    ({"Regions": []}, ["Regions holds []; expected an object"]),
    ({"Regions": {"north": 3}}, ["north holds 3; expected an object"]),
    ({"Regions": {"north": {"Modle": "x"}}}, ["Modle is no key of region \"north\". Did you mean \"Model\"?"]),
    ({"Regions": {"north": {"Trials": -1}}}, ["Trials holds -1; expected a whole number of at least 0"]),
    ({"Regoins": {}}, ["Regoins is no key. Did you mean \"Regions\"?"]),
    ({"Keep": 1}, ["Keep holds 1; expected a whole number of at least 2"]),
    ({"Keep": True}, ["Keep holds True"]),
    ({"Objective": "loss"}, ["Objective holds \"loss\"; expected a metric with its K"]),
    ({"HeldOut": "ratio:0.8/0.1/0.1"},
     ["HeldOut holds \"ratio:0.8/0.1/0.1\"; expected \"newest\", days of the text such as \"days:1\", or a ratio"]),
    ({"HeldOut": "days:0"}, ["HeldOut holds \"days:0\"; expected \"newest\", days"]),
    ({"Import": "--format csv"}, ["Import holds \"--format csv\"; expected a list of texts"]),
    ({"Tune": {"Trials": 0}}, ["Trials holds 0"]),
    ({"Tune": {"From": ["today"]}}, ["From holds ['today']; expected a list of \"yesterday\" and \"regions\""]),
    ({"Tune": {"GpuHoursInAll": 0}}, ["GpuHoursInAll holds 0; expected a number above 0"]),
    ({"Gate": {"MinRatio": 0}}, ["MinRatio holds 0"]),
    ({"Gate": {"Floor": "random"}}, ["Floor holds \"random\"; expected \"popularity\", a number from 0 to 1, or null"]),
    ({"Gate": {"Metrics": "ndcg@20"}}, ["Metrics is no key of Gate. Did you mean \"Metric\"?"]),
    ({"Recommend": {"Top": 0}}, ["Top holds 0"]),
]
# What a schema cannot know.
BEYOND_A_SCHEMA = [
    ({"Text": None}, ["north has no Text; give it there, or for all regions at the top"]),
    ({"Model": None}, ["north has no Model"]),
    ({"Recommend": {}}, ["Recommend needs Requests for region \"north\""]),
    ({"HeldOut": "newest", "Text": "in/{region}.txt"}, ["Text of region \"north\" has no {day}"]),
    ({"Serving": "./days"}, ["Serving is the same folder as Days"]),
    ({"Model": "none.json"}, ["none.json: cannot be read"]),
    *(({"Regions": {name: {}}}, ["is no name of a region"])
      for name in ("", ".", "..", ".hidden", "a/b", "a\\b", "a\nb", "a ", " a", "é" * 101, "a.")),
    ({"Regions": {"é": {}, "e\u0301": {}}}, ["are one name on some file systems"]),
    ({"Regions": {"North": {}, "north": {}}}, ["are one name on some file systems"]),
]


class RegionsTest(DailyTest):
    def read(self, changes):
        self.write("regions.json", json.dumps({key: value for key, value in {**GOOD, **changes}.items() if value is not None}, indent=1))
        return Regions(self.path("regions.json"))

    def test_what_is_wrong_is_said_with_its_line(self):
        for changes, parts in [*MALFORMED, *BEYOND_A_SCHEMA]:
            with self.subTest(changes), self.assertRaises(UsageError) as raised:
                self.read(changes)
            for part in parts:
                self.assertIn(part, str(raised.exception))
            self.assertNotIn("\n", str(raised.exception).replace("a\nb", ""))
        self.write("regions.json", "{\n \"Model\": \"net.json\",\n \"Keep\": 0 }")
        with self.assertRaisesRegex(UsageError, "regions.json:3: Keep holds 0"):
            Regions(self.path("regions.json"))

    def test_the_schema_takes_what_is_right_and_refuses_what_is_malformed(self):
        for changes in ({}, {"Tune": {}, "Train": {}, "Gate": {}}, {"Keep": 2, "HeldOut": "newest"}, {"HeldOut": "days:7"},
                        {"Regions": {"Zürich 7": {"Trials": 0}}}):
            self.read(changes)
            jsonschema.validate({**GOOD, **changes}, SCHEMA)
        for changes, _ in MALFORMED:
            with self.subTest(changes), self.assertRaises(jsonschema.ValidationError):
                jsonschema.validate({key: value for key, value in {**GOOD, **changes}.items() if value is not None}, SCHEMA)

    def test_the_schema_has_every_key_and_default(self):
        def compare(keys, where):
            self.assertEqual(set(keys), set(where["properties"]))
            for key, one in keys.items():
                default = one.default
                said = where["properties"][key].get("description", "")
                if isinstance(default, (int, float, str)):
                    self.assertTrue(said.endswith(f"[{default}]") or f"[{default:g}]" in said if not isinstance(default, str)
                                    else f"[{default}]" in said, key)
        compare(reading.ALL, SCHEMA)
        for name, keys in reading.BLOCKS.items():
            compare(keys, SCHEMA["properties"][name])
        self.assertEqual(set(reading.REGION), set(SCHEMA["properties"]["Regions"]["additionalProperties"]["properties"]))

    def test_a_region_has_its_own_and_else_what_all_have(self):
        self.write("other.json", NETWORK.replace("shop", "market") % "0.1")
        found = self.read({"Space": "space.json", "Tune": {"Trials": 9}, "Regions": {
            "north sea": {}, "south": {"Text": "south/{day}.csv", "Import": ["--format", "csv"], "Trials": 4, "Model": "other.json"},
            "east": {"Trials": 0}}})
        north, south, east = found.regions.values()
        self.assertEqual((north.text, north.trials, north.data_set), (str(self.path("in/{day}/north sea.txt")), 9, "shop"))
        self.assertEqual((south.text, south.trials, south.data_set, south.import_words),
                         (str(self.path("south/{day}.csv")), 4, "market", ["--format", "csv"]))
        self.assertEqual((east.trials, found.gate["Metric"], found.recommend), (0, "ndcg@20", None))
        self.assertEqual(self.read({"Space": "space.json"}).regions["north"].trials, 0)

    def test_waves_hold_every_region_once_the_largest_first(self):
        for _ in range(200):
            sizes = {f"r{number}": self.random.randint(1, 50) for number in range(self.random.randint(1, 40))}
            waves = waves_of(sizes, self.random.randint(1, 6))
            order = [name for wave in waves for name in wave]
            self.assertEqual(sorted(order), sorted(sizes))
            self.assertEqual([sizes[name] for name in order], sorted(sizes.values(), reverse=True))
            self.assertTrue(all(len(a) <= len(b) + 1 for a, b in zip(waves, waves[1:])), waves)
            shares = shares_of(sizes)
            self.assertAlmostEqual(sum(shares.values()), 1.0)
            largest, least = order[0], order[-1]
            self.assertAlmostEqual((shares[largest] / shares[least]) ** 2, sizes[largest] / sizes[least])

    def test_a_plan_stays_whatever_comes_later_in_the_day(self):
        for number, size in enumerate((500, 100, 300, 40)):
            self.write(f"in/{DAY}/r{number}.txt", "x" * size)
        names = {f"r{number}": {} for number in range(5)}  # there is no text of the last one
        rules = {"Space": "space.json", "Tune": {"Waves": 2}}

        def plan(regions):
            day = Day(regions.days, DAY)
            return Plan(regions, day, Lock(day.own / "plan.lock", lambda: None))
        first = plan(self.read({"Regions": names, **rules}))
        self.assertEqual(first.waves, [["r0", "r2"], ["r4", "r1", "r3"], []])  # r4 counts as the median of the others
        self.assertEqual(first.before("r3"), ["r0", "r2"])
        self.write(f"in/{DAY}/r4.txt", "x" * 9999)
        later = plan(self.read({"Regions": {**names, "new": {}}, **rules}))
        self.assertEqual(later.waves, [["r0", "r2"], ["r4", "r1", "r3"], ["new"]])
        self.assertEqual({name: later.shares[name] for name in names}, first.shares)
        graph = graph_of(self.read({"Regions": names, **rules}), first, ["r0", "r3"])
        self.assertEqual(graph[Node("r3", "tune")], [Node("r3", "import"), Node("r0", "tune")])
        self.assertEqual(graph[Node("r0", "train")], [Node("r0", "tune")])

    def test_days_before_are_found_wherever_the_day_stands(self):
        days = ["2026-01-31", "2026-02-01", "2026-02-03"]
        for pattern in ("in/{day}/[a]*.txt", "in/x-{day}.txt", "in/{day}/{day}.txt"):
            for day in (*days, "2026-02-30", "x"):
                self.write(pattern.replace("{day}", day), "x")
            self.write(pattern.replace("{day}", "2026-02-02", 1).replace("{day}", "2026-02-01") if pattern.count("{day}") > 1
                       else "in/none.txt", "x")
            full = str(self.path(pattern))
            self.assertEqual([str(path) for path in days_before(full, "2026-02-04", 30)], [full.replace("{day}", day) for day in days])
            self.assertEqual([str(path) for path in days_before(full, "2026-02-03", 1)], [full.replace("{day}", days[1])])
        self.assertEqual(days_before(str(self.path("none/{day}.txt")), DAY, 5), [])


class Inputs(DailyTest):
    def test_a_training_stands_on_what_was_tuned_and_else_on_its_descriptor(self):
        self.write("net.json", NETWORK)
        outputs = {"import": {"train.nc": "1"}, "tune": {"best.json": "2", "tuned.json": "3"}}

        def tuned(trials):
            work = SimpleNamespace(day=SimpleNamespace(outputs=outputs.get), build=lambda program: "4", regions=SimpleNamespace(
                train={"Options": []}), region=SimpleNamespace(trials=trials, model=self.path("net.json")))
            return train_step.inputs(work)["tuned"]
        self.assertEqual(tuned(self.random.randint(1, 9)), outputs["tune"])
        before = tuned(0)
        self.write("net.json", NETWORK + "\n")
        self.assertNotEqual(tuned(0), before)


if __name__ == "__main__":
    unittest.main()
