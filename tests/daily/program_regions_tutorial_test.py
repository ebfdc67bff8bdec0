#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every command of docs/user/regions_tutorial.md, in its order, and looks at what the text says of them."""
import json
import os
import re
import subprocess
import unittest

from daily_case import BIN, ROOT, DailyTest

TUTORIAL = ROOT / "docs/user/regions_tutorial.md"
LIMIT_SECONDS = 300  # of a block


class Tutorial(DailyTest):
    def test_every_command(self):
        blocks = re.findall(r"^```sh\n(.*?)^```$", TUTORIAL.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        self.assertGreaterEqual(len(blocks), 9)
        folder = self.path("tutorial")
        folder.mkdir()
        environment = {**os.environ, "NORN": str(ROOT), "PATH": f"{BIN}:{ROOT / 'tools'}:/usr/bin:{os.environ['PATH']}"}
        said = []
        for block in blocks:
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=folder, env=environment, capture_output=True, text=True,
                                  timeout=LIMIT_SECONDS, check=False)
            self.assertEqual(done.returncode, 0, f"{block}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}")
            said.append(done.stdout + done.stderr)
        self.check_texts(folder, said)

    def check_texts(self, folder, said):
        first, _, second, stands, mended, back, other = said[2:9]
        self.assertIn("3 published", first)
        self.assertIn("1 published, 1 held back, 1 failed", second)
        self.assertIn("exit code 7", second)
        self.assertIn("there is no text of region \"qt\"", second)
        self.assertIn("perl: publish: held back: ", second)
        current = dict(re.findall(r"serving/(\w+)/current -> (\S+)-", stands))
        self.assertEqual(current, {"python": "2026-11-22", "perl": "2026-11-21", "qt": "2026-11-21"})
        self.assertIn("3 published", mended)
        self.assertRegex(back, r"python: 2026-11-22-\w+ is taken back, 2026-11-21-\w+ is in service")
        self.assertIn("exit code 7", back)
        self.assertIn("2 published", other)
        # Recommended are needs that a package does not have itself.
        requests = dict(line.split("\t") for line in (folder / "in/python.requests.txt").read_text().splitlines())
        lines = (folder / "serving/python/recommendations/part-00000.txt").read_text().splitlines()
        self.assertEqual(len(lines), len(requests))
        for line in lines:
            name, best = line.split("\t")
            units = [one.rsplit(",", 1)[0] for one in best.rstrip(":").split(":")]
            self.assertEqual(len(units), 5)
            self.assertFalse(set(units) & set(requests[name].split(":")))
        verdict = json.loads((folder / "serving/perl/current/gate.json").read_text())
        self.assertGreater(verdict["popularity"]["bound"], 1.0)


if __name__ == "__main__":
    unittest.main()
