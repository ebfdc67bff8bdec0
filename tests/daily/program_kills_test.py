#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A day of some regions that is killed at random moments is published as one that was not. NORN_DAILY_KILLS: how often (4);
NORN_DAILY_REGIONS: of how many (6)."""
import os
import subprocess
import sys
import time
import unittest

from daily_case import DAY, LIMIT_SECONDS, DailyTest

KILLS = int(os.environ.get("NORN_DAILY_KILLS", "4"))
REGIONS = int(os.environ.get("NORN_DAILY_REGIONS", "6"))
TUNED = int(os.environ.get("NORN_DAILY_TUNED", "1"))  # regions


class Kills(DailyTest):
    def begin(self):
        self.names = [f"region {number}" for number in range(REGIONS - 4)] + ["Zürich", "東京 駅", "a'b\"c", "$HOME; ls"]
        for name in self.names[1:]:
            self.draw_region(name)
        regions = {name: {"Trials": 3 if 2 <= number < 2 + TUNED else 0} for number, name in enumerate(self.names)}
        regions["region 1"]["Model"] = "bad.json"
        tune = {"Trials": 3, "Waves": 2, "Options": ["--confirm", "0", "--rungs", "2", "--epochs", "4"],
                "Validation": ["--validation-split", "0.3"]}
        for folder in ("calm", "killed"):
            self.regions(regions, f"{folder}.json", Space="space.json", Requests="in/{region}.requests.txt", Tune=tune,
                         Recommend={"Top": 5, "PartLines": 9},
                         Gate={"MinExamples": 10, "Metric": "recall@20", "Floor": 0.12},
                         Days=f"{folder}/days", Serving=f"{folder}/serving")

    def strike(self):
        """Kills everything, the runner alone, or something at random."""
        found = self.processes()
        if not found:
            return 0
        kind = self.random.choice(["all", "all", "runner", "one"])
        runners = [process for process, words in found.items() if "--slots" in words]
        for process in {"all": list(found), "runner": runners[:1], "one": [self.random.choice(list(found))]}[kind]:
            self.kill(process)
        if kind == "all":
            self.kill_all()
        return 1

    def test_the_same_bytes_are_published_through_any_kill_and_nothing_that_failed(self):
        self.begin()
        begun = time.monotonic()
        self.ends_with(7, "--slots", 4, "--quiet", file="calm.json")
        calm_seconds = time.monotonic() - begun
        struck = 0
        while struck < KILLS:
            with open(self.path("said.txt"), "a") as said:
                process = subprocess.Popen(self.command("--slots", 4, "--quiet", file="killed.json"), cwd=self.folder, stdout=said,
                                           stderr=said)
            time.sleep(self.random.uniform(0.1, calm_seconds / 3))
            self.assertIn(process.poll(), (None, 7), self.path("said.txt").read_text())
            struck += self.strike() or process.poll() is not None
            time.sleep(self.random.uniform(0.0, 0.5))
            process.kill()  # its steps go on
            process.wait(timeout=LIMIT_SECONDS)
        print(f"{struck} kills", file=sys.stderr)
        done = self.ends_with(7, "--slots", 4, file="killed.json")
        self.assertIn(f"{REGIONS - 2} published, 1 held back, 1 failed", done.stdout)
        calm, killed = self.published("calm/serving"), self.published("killed/serving")
        self.assertEqual(list(calm), list(killed))
        self.assertEqual([name for name in calm if calm[name] != killed[name]], [])
        for name in self.names:
            models = [path.name for path in self.path("killed/serving", name).glob("20*")]
            self.assertEqual(len(models), 0 if name in self.names[:2] else 1, name)
            lists = list(self.path("killed/serving", name).glob("lists-*"))
            self.assertEqual(len(lists), len(models))
            for folder in self.path("killed/days", DAY, name).glob("*"):
                self.assertFalse(folder.name.endswith((".work", ".old")) and name not in self.names[:2], folder)
        self.ends_with(0, "--slots", 2, "--only", self.names[2], "--only", self.names[-1], file="killed.json")
        self.assertEqual(self.published("killed/serving"), killed)
        self.assertEqual(self.processes(), {})


if __name__ == "__main__":
    unittest.main()
