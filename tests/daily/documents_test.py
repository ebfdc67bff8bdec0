#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is written of daily is true: its page names every option, key and step, and what it shows is read."""
import json
import re
import unittest

from daily_case import NETWORK, ROOT, SPACE, DailyTest

from norn.daily import regions as reading
from norn.daily.days import STEPS
from norn.daily.export import EXPORTS
from norn.daily.options import parser_of

PAGE = (ROOT / "docs/user/daily.md").read_text(encoding="utf-8")


class Documents(DailyTest):
    def test_the_page_names_every_option(self):
        for action in parser_of("")._actions:
            for option in action.option_strings:
                if option not in ("-h", "--help"):
                    self.assertIn(f"`{option}", PAGE, option)

    def test_the_page_names_every_key_step_and_engine(self):
        for keys in (reading.ALL, *reading.BLOCKS.values()):
            for key in keys:
                if key != "$schema":
                    self.assertIn(f"`{key}`", PAGE.replace("`\"HeldOut\": ", "`HeldOut` `").replace("`\"Floor\": ", "`Floor` `"), key)
        for step in STEPS:
            self.assertIn(f"| {step} |", PAGE)
        for kind in EXPORTS:
            self.assertIn(f"| `{kind}` |", PAGE)

    def test_the_page_names_every_default(self):
        for name, keys in reading.BLOCKS.items():
            for key, one in keys.items():
                if isinstance(one.default, (int, float)) and one.default != 1:
                    self.assertIn(f"({one.default})", PAGE, f"{name}.{key}")
        for key in ("Keep", "History"):
            self.assertIn(f"({reading.ALL[key].default})", PAGE, key)

    def test_the_file_on_the_page_is_read(self):
        text = re.search(r"```json\n(.*?)```", PAGE, re.S).group(1)
        self.write("regions.json", text)
        self.write("net.json", NETWORK % "0.1")
        self.write("space.json", SPACE)
        found = reading.Regions(self.path("regions.json"))
        self.assertEqual([(one.name, one.trials) for one in found.regions.values()], [("north", 20), ("south", 20), ("east", 0)])
        import jsonschema
        jsonschema.validate(json.loads(text), json.loads((ROOT / "configs/schema/regions.schema.json").read_text()))


if __name__ == "__main__":
    unittest.main()
