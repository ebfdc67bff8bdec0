#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who gets how many of the day's hours: those whose last search promises more; what was decided stays, whatever comes later in the day."""
import json
import shutil
import types
import unittest
from unittest import mock

from daily_case import DAY, SPACE, DailyTest
from norn.daily.budget import hours_of
from norn.daily.days import Day, Lock, checksum
from norn.daily.plan import Plan
from norn.daily.regions import Regions
from made_study import Made
from norn.tune import outlook

BEFORE = "2026-11-19"


class Budget(DailyTest):
    def setUp(self):
        super().setUp()
        self.names = ["long searched", "hardly searched", "new"]
        for name in self.names:
            self.text(f"in/{name}.txt.gz", [("example", ["feature"])])  # all as large
        self.settings()

    def settings(self, **tune):
        self.regions({name: {} for name in self.names}, Space="space.json", Tune={"Trials": 30, "GpuHoursInAll": 12, **tune})

    def study(self, name, trials, day=BEFORE, **more):
        folder = self.path("days", day, name, "tune/study")
        folder.parent.mkdir(parents=True)
        Made(folder, trials, confirm=0, seconds=36.0, parameters=json.loads(SPACE)["Parameters"],
             space_digest=checksum(self.path("space.json"))[:16], **more)
        (folder / "best.json").write_text("{}")

    def hours(self, name):
        regions, day = Regions(self.path("regions.json")), Day(self.path("days"), DAY)
        plan = Plan(regions, day, Lock(day.own / "plan.lock", lambda: None))
        work = types.SimpleNamespace(regions=regions, region=regions.regions[name], day=day.region(name),
                                     programs=types.SimpleNamespace(stop=types.SimpleNamespace(check=lambda: None)))
        return hours_of(work, plan)

    def all_hours(self):
        return {name: self.hours(name) for name in self.names}

    def test_what_was_never_searched_has_its_part_and_the_others_what_they_promise(self):
        for name in self.names[:2]:
            self.study(name, 8)
        promised = {"long searched": outlook.Outlook((0.001,) * 30, 0.3), "hardly searched": outlook.Outlook((0.1,) * 20, 0.3)}
        with mock.patch.object(outlook, "outlook_of", lambda folder, trials: promised[folder.parents[1].name]):
            hours = self.all_hours()
        self.assertAlmostEqual(sum(hours.values()), 12.0, places=4)
        self.assertAlmostEqual(hours["new"], 4.0, places=4)
        self.assertGreaterEqual(hours["long searched"], 2.0)  # half of its part is its own, whatever is expected
        self.assertGreater(hours["hardly searched"], hours["long searched"])

    def test_it_is_decided_once_a_day_and_anew_where_there_are_other_hours(self):
        self.study("long searched", 20)
        hours = self.all_hours()
        shutil.rmtree(self.path("days", BEFORE))
        self.names.append("late")
        self.text("in/late.txt.gz", [("example", ["feature"])])
        self.settings()
        later = self.all_hours()
        self.assertAlmostEqual(later.pop("late"), 4.0, places=4)
        self.assertEqual(later, hours)
        self.settings(GpuHoursInAll=24)
        self.assertAlmostEqual(sum(self.all_hours().values()), 24.0, places=4)

    def test_regions_that_are_not_searched_today_leave_their_hours_to_the_others(self):
        self.study("long searched", 8)
        self.settings(Every=7)
        self.assertAlmostEqual(self.hours("hardly searched"), 6.0, places=4)
        self.assertAlmostEqual(self.hours("new"), 6.0, places=4)

    def test_a_search_of_another_space_says_nothing(self):
        self.study("long searched", 20)
        self.write("space.json", SPACE.replace("5e-2", "6e-2"))
        self.assertEqual({round(one, 4) for one in self.all_hours().values()}, {4.0})

    def test_a_search_that_cannot_be_read_stops_no_region_and_an_older_versions_counts(self):
        for name in self.names[:2]:
            self.study(name, 12)
        broken, older = (self.path("days", BEFORE, name, "tune/study") for name in self.names[:2])
        (broken / "journal.jsonl").write_text("broken\n" * 3)
        identity = json.loads((older / "study.json").read_text())
        (older / "study.json").write_text(json.dumps({**identity, "algorithm": identity["algorithm"] - 1}))
        asked = []
        with mock.patch.object(outlook, "divide", lambda hours, weights, outlooks: asked.append(outlooks) or dict.fromkeys(weights, 4.0)):
            self.all_hours()
        self.assertEqual([{name: one is not None for name, one in outlooks.items()} for outlooks in asked],
                         [{"hardly searched": True, "long searched": False, "new": False}])

    def test_without_hours_none_are_divided(self):
        self.regions({name: {} for name in self.names}, Space="space.json", Tune={"Trials": 30})
        self.assertIsNone(self.hours("new"))
        self.assertFalse((self.path("days", DAY, ".daily") / "hours.json").exists())


if __name__ == "__main__":
    unittest.main()
