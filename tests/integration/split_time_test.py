#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tables that are split by time: the same bytes however times are written and lines are ordered, and what is held out can be trained
and evaluated."""
import datetime
import gzip
import json
import unittest

from programs import NETWORK, ProgramTest

FILES = ("shop.train.nc", "shop.test.nc", "shop.features", "shop.train.examples", "shop.test.examples")


class SplitByTime(ProgramTest):
    def setUp(self):
        super().setUp()
        pairs = {(f"user {self.random.randrange(120)}", f"item {self.random.randrange(60)}") for _ in range(2500)}
        # Milliseconds of the years 1980 to 2029; many at the same time.
        self.lines = [(user, item, 1000 * self.random.choice([self.random.randrange(315532800, 1893456000), 1500000000])
                       + self.random.choice([0, 250]))
                      for user, item in sorted(pairs)]
        self.border = sorted(at for _, _, at in self.lines)[2 * len(self.lines) // 3]

    @staticmethod
    def written(at, how):
        moment = datetime.datetime.fromtimestamp(at / 1000, datetime.timezone.utc)
        if how == "zone":
            moment = moment.astimezone(datetime.timezone(datetime.timedelta(hours=5, minutes=45)))
        return {"ms": str(at), "s": f"{at / 1000:.3f}"}.get(how) or moment.isoformat(" " if how == "blank" else "T",
                                                                                     "milliseconds").replace("+00:00", "Z")

    def imported(self, text, *arguments):
        """{file: bytes}"""
        self.succeed("importer", "--input", text, "--name", "gl", "--output", "shop.nc", *arguments)
        return {name: self.read(name) for name in FILES}

    def test_bytes_follow_from_what_the_lines_say_alone(self):
        for rule in (f"time:{self.border}", f"time:{self.written(self.border, 'zone')}", "leave-last-out"):
            found = []
            for number, how in enumerate(("ms", "s", "T", "blank", "zone")):
                self.random.shuffle(self.lines)
                mark = "\t" if number % 2 else ","
                lines = [mark.join((self.written(at, how), item, user)) + "\n" for user, item, at in self.lines]
                name = f"in{number}" + (".tsv" if number % 2 else ".csv")
                arguments = ["--example-column", "3", "--feature-column", "2", "--time-column", "1"]
                if number == 2:  # a folder whose parts have headers, one of them packed
                    self.path(name).mkdir(exist_ok=True)
                    heading, half = "when,item,user\n", len(lines) // 2
                    self.write(f"{name}/1.csv", heading + "".join(lines[:half]))
                    self.path(f"{name}/2.csv.gz").write_bytes(gzip.compress((heading + "".join(lines[half:])).encode()))
                    arguments = ["--example-column", "user", "--feature-column", "item", "--time-column", "when"]
                else:
                    self.write(name, "".join(lines))
                found.append(self.imported(name, "--split", rule, *arguments))
            for one in found[1:]:
                self.assertEqual([name for name in FILES if one[name] != found[0][name]], [], rule)
        self.assertEqual(found[0]["shop.features"].decode().splitlines(),
                         [f"{name}\t{n}" for n, name in enumerate(sorted({item for _, item, _ in self.lines}))])

    def test_what_is_held_out_is_evaluated_and_was_not_trained_on(self):
        self.write("in.csv", "".join(f"{user},{item},{self.written(at, 'T')}\n" for user, item, at in self.lines))
        said = self.succeed("importer", "--input", "in.csv", "--name", "gl", "--output", "shop.nc", "--time-column", "3", "--split",
                            f"time:{self.border}").stdout
        train = {(user, item) for user, item, at in self.lines if at < self.border}
        known = {user for user, _ in train}
        test = {(user, item) for user, item, at in self.lines if at >= self.border and user in known}
        self.assertIn(f"shop.train.nc: {len(known)} examples, {len(train):,} input and {len(train):,} target entries\n", said)
        self.assertIn(f"{len({user for user, _ in test})} examples, ", said)
        self.assertIn(f" input and {len(test):,} target entries\n", said)
        self.write("net.json", NETWORK % "SoftMax")
        self.succeed("trainer", "-c", "net.json", "-i", "shop.train.nc", "-n", "m.nc", "--epochs", "3")
        found = self.succeed("evaluator", "--model", "m.nc", "--data", "shop.test.nc", "--popularity", "shop.train.nc", "--format",
                             "json").stdout
        self.assertEqual(json.loads(found)["examples"], len({user for user, _ in test}))

    def test_a_line_without_a_time_is_named_or_passed_over(self):
        self.write("in.csv", "u,i,5,2026-01-01\nu,j,5,\nv,i,5,31.01.2026\nu,k,5,2026-02-01\n")
        arguments = ("--input", "in.csv", "--name", "gl", "--output", "shop.nc", "--split", "time:2026-01-15")
        self.fail_with(3, 'in.csv:2: the time "" is no ISO date (2026-01-31, 2026-01-31T12:30:00Z) and no Unix time in seconds or '
                          'milliseconds; correct the line',
                       "importer", *arguments)
        done = self.succeed("importer", *arguments, "--skip-malformed", "2")
        self.assertIn("2 malformed lines were passed over; the first: in.csv:2: the time", done.stderr)
        self.assertIn("shop.test.nc: 1 examples, 1 input and 1 target entries", done.stdout)


if __name__ == "__main__":
    unittest.main()
