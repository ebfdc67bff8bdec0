#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is written beside the tuner is true: its page names every option and event, spaces that ship fit their recipes and the schema."""
import re
import unittest

import jsonschema

from space_test import MALFORMED
from tuner_case import NETWORK, PARAMETERS, ROOT, SeededTest

from norn.tune import facts, options, search
from norn.errors import UsageError
from norn._files import JsonText
from norn.tune.space import read_space

PAGE = (ROOT / "docs/user/tuner.md").read_text(encoding="utf-8")
SCHEMA = JsonText(ROOT / "configs/schema/space.schema.json").value
# What a schema cannot know: the descriptor, and how values compare. And what is no JSON for it to look at.
BEYOND_A_SCHEMA = ("is empty: 2", "holds one value", "needs more than 0", "multiples of 64", "no layer", "no key of a layer", "whole part",
                   "counts layers", "no value of", "not among", "is a Range", "circle", "training.alpha: is given twice",
                   "counts copies", "call the layer by", "counts epochs", "wider than a number", "not finite", "000]; expected")
NO_JSON = ("\"A\" is given twice", "not JSON", "no number of JSON", "half a character")


class Documents(SeededTest):
    def test_the_page_names_every_option(self):
        for action in options.parser_of("")._actions:
            for option in action.option_strings:
                if option not in ("-h", "--help"):
                    self.assertIn(f"`{option}", PAGE, option)

    def test_the_page_names_every_event_and_state(self):
        source = "".join(path.read_text() for path in (ROOT / "python/norn/tune").rglob("*.py"))
        events = set(re.findall(r'\.note\("(\w+)"', source)) | set(facts.DECISIONS)
        self.assertLessEqual({"open", "submit", "value", "lost", "broken", "limit", "end"}, events)
        for event in events:
            self.assertIn(f"`{event}`", PAGE)
        for state in (search.DONE, search.HALVED, search.DIVERGED, search.INFEASIBLE, search.FAILED):
            self.assertIn(state, PAGE)

    def test_the_space_on_the_page_is_one(self):
        text = re.search(r"```json\n(.*?)```", PAGE, re.S).group(1)
        path = self.folder / "space.json"
        path.write_text(text)
        space, value = read_space(str(path), NETWORK)
        jsonschema.validate(value, SCHEMA)
        self.assertEqual(len(space), 7)

    def test_the_schema_takes_what_is_right_and_refuses_what_is_malformed(self):
        jsonschema.validate({"Parameters": PARAMETERS}, SCHEMA)
        counts = dict.fromkeys((*BEYOND_A_SCHEMA, *NO_JSON, "refused"), 0)
        for text, said in MALFORMED:
            (self.folder / "space.json").write_text(text)
            with self.subTest(text):
                kind = next((part for part in (*BEYOND_A_SCHEMA, *NO_JSON) if part in said), "refused")
                counts[kind] += 1
                if kind in NO_JSON:
                    self.assertRaises(UsageError, JsonText, self.folder / "space.json")
                elif kind == "refused":
                    self.assertRaises(jsonschema.ValidationError, jsonschema.validate, JsonText(self.folder / "space.json").value, SCHEMA)
                else:
                    jsonschema.validate(JsonText(self.folder / "space.json").value, SCHEMA)
        self.assertEqual([part for part, count in counts.items() if not count], [])
        self.assertEqual((sum(counts.values()), counts["refused"]), (len(MALFORMED), 16))


if __name__ == "__main__":
    unittest.main()
