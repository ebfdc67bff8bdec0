# SPDX-License-Identifier: Apache-2.0
"""`trainer --recipe auto`: the same bytes on any number of threads and ranks and after any kill, what it tells and leaves, and what it
refuses. Data are drawn."""
import json
import re
import signal
import struct
import subprocess
import time
import unittest

from norn_files import write_datasets
from programs import BIN, LIMIT_SECONDS, ProgramTest, mpirun, random_rows

KILLED = -signal.SIGKILL


def checksum(text):
    """src/base/checksum.h, of whole words and the zeros that fill up the last."""
    sum_of = 0
    padded = text + bytes(-len(text) % 4)
    for place, word in enumerate(struct.unpack(f"<{len(padded) // 4}I", padded)):
        x = (place * 0xD1342543DE82EF95 + word + 1) % 2**64
        x = (x ^ x >> 32) * 0xAEF17502108EF2D9 % 2**64
        x = (x ^ x >> 29) * 0xF1357AEA2E62A9C5 % 2**64
        sum_of += x ^ x >> 32
    return f"{sum_of % 2**64:016x}"


class Automatic(ProgramTest):
    def setUp(self):
        super().setUp()
        examples, width = self.random.randint(60, 400), self.random.randint(30, 180)
        rows = random_rows(self.random, examples, width, groups=self.random.randint(2, 9))
        self.write_rows("own.nc", width, rows)
        self.seed = self.random.randrange(1000)
        self.lengths = ["--epochs", self.random.randint(4, 12)] if self.random.randrange(2) else []  # else the search is of them, too
        self.settings = [*self.lengths, "--seed", self.seed, "--budget", self.random.choice((3.5, 5, 6))]

    def write_rows(self, name, width, rows):
        write_datasets(self.path(name), [("own_input", width, rows, None), ("own_output", width, rows, None)])

    def search(self, model, *arguments, data="own.nc", **more):
        return self.succeed("trainer", "--recipe", "auto", "-i", data, "-n", model, *self.settings, *arguments, **more)

    def refused(self, code, *command):
        done = self.run_program(*command)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def only_files(self, *names):
        """Beside the data and the checkpoints of the last training."""
        found = sorted(path.name for path in self.folder.iterdir() if re.match(r"(model|straight)\.(?!epoch)", path.name))
        self.assertEqual(found, sorted(names))

    def chosen(self, folder):
        return json.loads(self.path(folder).joinpath("run.json").read_text())["chosen"]

    def test_bytes_do_not_depend_on_threads_and_ranks(self):
        self.search("straight.nc", "--threads", 1)
        for threads in (2, 3):
            self.search("model.nc", "--threads", threads, "--force")
            self.assertEqual(self.read("model.nc"), self.read("straight.nc"), threads)
        for ranks in (2, 3):
            if mpirun(ranks) is None:
                continue
            self.search("model.nc", "--threads", 1, "--force", prefix=mpirun(ranks))
            self.assertEqual(self.read("model.nc"), self.read("straight.nc"), ranks)
        self.only_files("model.nc", "straight.nc")

    def test_a_search_that_is_killed_anywhere_goes_on_to_the_same_bytes(self):
        begun = time.monotonic()
        self.search("straight.nc", "--threads", 1)
        whole = time.monotonic() - begun
        command = [BIN / "trainer", "--recipe", "auto", "-i", "own.nc", "-n", "model.nc", *self.settings, "--threads", 1,
                   "--checkpoint-epochs", self.random.randint(1, 4), "--resume"]
        kills, most = 0, self.random.randint(1, 20)
        for number in range(most + 1):
            wait = self.random.uniform(0.05, 0.7) * whole if number < most else LIMIT_SECONDS
            if number == most:  # nobody kills this one
                command = [*(mpirun(self.random.randint(2, 3)) or ()), *command]
            ending = self.random.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
            process = subprocess.Popen([*map(str, command)], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            try:
                said = process.communicate(timeout=wait)[1]
            except subprocess.TimeoutExpired:
                process.send_signal(ending)
                said = process.communicate(timeout=LIMIT_SECONDS)[1]
            if process.returncode == 0:
                break
            self.assertIn(process.returncode, (KILLED, 75, -signal.SIGTERM), said)
            kills += 1
        print(f"{kills} kills", flush=True)
        self.assertEqual(process.returncode, 0, said)
        self.assertEqual(self.read("model.nc"), self.read("straight.nc"))
        self.only_files("model.nc", "straight.nc")
        self.search("model.nc", "--resume")  # there is nothing left to do
        self.assertEqual(self.read("model.nc"), self.read("straight.nc"))

    def test_ease_is_not_tried_where_entries_have_weights(self):
        width, rows = self.random.randint(20, 90), random_rows(self.random, self.random.randint(50, 200), 20, groups=3)
        counts = [[float(self.random.randint(0, 9)) for _ in row] for row in rows]
        write_datasets(self.path("counts.nc"), [("own_input", width, rows, None), ("own_output", width, rows, counts)])
        scheme = self.random.choice(("linear", "log"))
        self.search("model.nc", "--entry-weights", scheme, "--run-dir", "run", data="counts.nc")
        self.assertEqual({one["recipe"] for one in self.chosen("run")["candidates"]} - {"softmax"}, {"sigmoid"})
        network = json.loads(self.succeed("trainer", "-c", "model.nc", "-i", "counts.nc", "--print-recipe").stdout)
        self.assertEqual(network["Layers"][-1]["EntryWeights"]["Scheme"].lower(), scheme)

    def test_what_was_tried_stands_in_the_record_and_the_run_is_repeated_without_a_search(self):
        said = self.search("model.nc", "--run-dir", "run").stderr
        chosen = self.chosen("run")
        budget = float(self.settings[self.settings.index("--budget") + 1])
        self.assertLessEqual(chosen["spent"], 1.1 * budget * 1.000001)
        self.assertGreaterEqual(len(chosen["candidates"]), 2)
        self.assertEqual((chosen["metric"], chosen["budget"]), ("ndcg@20", budget))
        values = [one.get("value", -1) for one in chosen["candidates"]]
        sums = [one.get("with_ease", {"value": -1})["value"] for one in chosen["candidates"]]
        of_best = sums if chosen["best_with_ease"] else values
        self.assertEqual(of_best.index(max(of_best)), chosen["best"])
        self.assertEqual(chosen["best_with_ease"], max(sums) > 1.005 * max(values))
        self.assertEqual((chosen["plain_value"], chosen["best_value"]), (values[0], max(of_best)))  # all of the same examples
        self.assertIn((chosen["chosen"], chosen["chosen_with_ease"]), ((0, False), (chosen["best"], chosen["best_with_ease"])))
        best = chosen["candidates"][chosen["chosen"]]
        beside = best.get("with_ease")
        settings, value = best["settings"], best["value"]
        if chosen["chosen_with_ease"]:
            settings, value = f"{settings}, and {beside['weight']:g} times ease, lambda {beside['lambda']:g}", beside["value"]
        self.assertIn(f"{settings}: ndcg@20 {value:.4f} on held-back entries", said)
        again = self.succeed("trainer", "--repeat", "run/run.json", "-n", "straight.nc").stderr
        self.assertNotIn("candidate", again)
        self.assertIn("same bytes", again)
        self.assertEqual(self.read("model.nc"), self.read("straight.nc"))

    def test_what_is_chosen_is_the_training_of_its_descriptor(self):
        """Trained by itself, on everything: the same predictions."""
        self.search("model.nc", "--run-dir", "run")
        record = json.loads(self.path("run").joinpath("run.json").read_text())
        self.write("net.json", json.dumps(record["network"]))
        self.succeed("trainer", "-c", "net.json", "-i", "own.nc", "-n", "straight.nc")
        said = [self.succeed("evaluator", "--model", model, "--data", "own.nc", "--keep-seen", "--format", "json").stdout
                for model in ("model.nc", "straight.nc")]
        self.assertEqual(json.loads(said[0])["model"], json.loads(said[1])["model"])

    def test_with_too_little_data_it_is_the_plain_recipe_and_says_so(self):
        width = self.random.randint(2, 40)
        self.write_rows("thin.nc", width, [[self.random.randrange(width)] for _ in range(self.random.randint(2, 50))])
        by = self.random.choice([(), ("--validation-by", "user")])
        said = self.search("model.nc", *by, data="thin.nc").stderr
        self.assertIn("too little data to hold anything back", said)
        costs = re.findall(r"cost ([\d.]+)", self.search("model.nc", "--force", data="thin.nc").stdout)
        plain = self.succeed("trainer", "--recipe", "sigmoid", "-i", "thin.nc", "-n", "straight.nc", *self.lengths,
                             "--seed", self.seed)
        self.assertEqual(costs, re.findall(r"cost ([\d.]+)", plain.stdout))

    def test_a_budget_without_room_for_a_search_is_the_plain_recipe(self):
        self.settings = ["--epochs", 3, "--budget", self.random.choice((1, 1.7))]
        self.assertIn("has no room for a search", self.search("model.nc").stderr)

    def test_ease_is_chosen_where_it_is_better(self):
        """By itself or beside a network: networks of one epoch learn next to nothing."""
        self.settings = ["--epochs", 1, "--budget", 2000]
        rows = random_rows(self.random, 400, 60, groups=4)
        self.write_rows("own.nc", 60, rows)
        prefix = self.random.choice([(), mpirun(2) or ()])
        self.search("model.nc", "--rate", 0.00001, "--run-dir", "run", prefix=prefix)
        chosen = self.chosen("run")
        self.assertTrue(chosen["chosen_with_ease"] or chosen["candidates"][chosen["chosen"]]["recipe"] == "ease", chosen)
        self.only_files("model.nc")
        self.search("model.nc", "--rate", 0.00001, "--resume")
        self.search("straight.nc", "--rate", 0.00001, "--threads", 3)
        self.assertEqual(self.read("model.nc"), self.read("straight.nc"))

    def test_validation_data_of_their_own_take_the_place_of_held_back_entries(self):
        rows = random_rows(self.random, 90, 50)
        self.write_rows("own.nc", 50, rows)
        write_datasets(self.path("held.nc"), [("own_input", 50, [row[1:] for row in rows], None),
                                              ("own_output", 50, [row[:1] for row in rows], None)])
        said = self.search("model.nc", "--validation-input", "held.nc", "--keep-best", "recall@5").stderr
        self.assertRegex(said, r"chose .*: recall@5 [01]\.\d+ on the validation data")

    def test_a_search_that_is_in_the_way_is_named(self):
        said = self.started_and_killed()
        journal = self.path("model.search.json")
        self.assertTrue(journal.exists(), said)
        base = ("trainer", "--recipe", "auto", "-i", "own.nc", "-n", "model.nc")
        self.assertIn("model.search.json: a search of an earlier run exists; give --resume to go on with it, --force to begin anew, or "
                      "another --model", self.refused(2, *base, *self.settings))
        other = [*self.lengths, "--seed", self.seed + 1, *self.settings[-2:]]
        self.assertIn("model.search.json: the search that it records had another network, by its data or its settings; give what it was "
                      "begun with, or begin anew with --force", self.refused(2, *base, *other, "--resume"))
        self.search("model.nc", "--force")
        self.only_files("model.nc")

    def test_a_journal_that_is_no_more_what_was_written_is_refused(self):
        self.started_and_killed()
        base = ("trainer", "--recipe", "auto", "-i", "own.nc", "-n", "model.nc", *self.settings)
        journal = self.path("model.search.json")
        whole = journal.read_bytes()
        head, body, _ = whole.split(b"\n")
        spoilt = bytearray(whole)
        spoilt[self.random.randrange(len(head) + 1, len(whole) - 1)] ^= 1
        journal.write_bytes(spoilt)
        self.assertIn("model.search.json: the journal of a search is damaged; begin the search anew with --force, which replaces it",
                      self.refused(3, *base, "--resume"))
        journal.write_bytes(head.replace(b'"format": 1', b'"format": 7') + b"\n" + body + b"\n")
        self.assertIn("model.search.json: the journal of a search has format 7, this program reads 1; begin the search anew with --force",
                      self.refused(3, *base, "--resume"))
        self.assertIn(b'"rate": 1,', body)
        other = body.replace(b'"rate": 1,', b'"rate": 3,', 1)
        journal.write_bytes(json.dumps({"format": 1, "checksum": checksum(other)}).encode() + b"\n" + other + b"\n")
        self.assertIn("model.search.json: this program would have tried another candidate 1: the search was begun by another version; "
                      "begin it anew with --force", self.refused(3, *base, "--resume"))
        journal.unlink()
        journal.mkdir()
        journal.joinpath("somebody").touch()
        self.assertIn("model.search.json: the journal of a search could not be removed: Directory not empty; remove it first",
                      self.refused(3, *base, "--force"))

    def started_and_killed(self):
        """As soon as a candidate has been tried."""
        process = subprocess.Popen([*map(str, (BIN / "trainer", "--recipe", "auto", "-i", "own.nc", "-n", "model.nc", *self.settings))],
                                   cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        said = ""
        for line in process.stderr:
            said += line
            if re.search(r"candidate 2: \w", line):
                break
        process.kill()
        process.communicate()
        return said

    def test_what_does_not_go_with_it_is_refused_by_name(self):
        base = ("trainer", "--recipe", "auto", "-i", "own.nc", "-n", "model.nc")
        for arguments, message in (
                (("--budget", "0.5"), "--budget 0.5 is out of range: it must be at least 1"),
                (("--budget", "nan"), "--budget"),
                (("--early-stop", "ndcg@20"), "--early-stop does not go with --recipe auto, which trains each candidate to its end; name "
                 "the metric with --keep-best"),
                (("--keep-best", "loss"), "--keep-best loss is no mean over examples of one scale for all recipes, by which --recipe auto "
                 "could choose; give another metric, such as ndcg@20"),
                (("--keep-best", "coverage@20"), "--keep-best coverage@20 is no mean over examples of one scale for all recipes"),
                (("--patience", "3"), "--patience does not go with --recipe auto"),
                (("--lambda", "3"), "--lambda does not go with --recipe auto"),
                (("--last-epoch", "3"), "--last-epoch does not go with --recipe auto"),
                (("--validation-split", "0"), "--validation-split does not go with --recipe auto"),
                (("--print-recipe",), "--recipe auto trains several networks to choose one, so that there is no descriptor before; it "
                 "begins with --recipe sigmoid, and run.json and the model hold what it chose")):
            self.assertIn(message, self.refused(2, *base, *arguments))
        self.assertIn("--budget is what --recipe auto may spend; give that too, or leave it out",
                      self.refused(2, "trainer", "--recipe", "sigmoid", "-i", "own.nc", "-n", "model.nc", "--budget", 4))
        self.write("net.json", '{"Recipe": "auto"}')
        self.assertIn("auto trains several networks to choose one, and a descriptor is of one network; give --recipe auto without a "
                      "descriptor", self.refused(2, "trainer", "-c", "net.json", "-i", "own.nc", "-n", "model.nc"))

    def test_a_plan_says_what_it_may_take(self):
        said = self.succeed("trainer", "--recipe", "auto", "-i", "own.nc", "-n", "model.nc", *self.settings, "--plan").stdout
        self.assertRegex(said, r"recipe auto: begins with this network; budget [\d.]+, at most about ")
        self.only_files()

    def planned(self, *arguments, data="own.nc"):
        said = self.succeed("trainer", "--recipe", "auto", "-i", data, "-n", "model.nc", *self.settings, *arguments, "--plan").stdout
        return said[said.index("recipe auto: "):]

    def test_a_plan_counts_ease(self):
        self.settings[-1] = self.random.choice((6, 40))
        width, rows = self.random.randint(30, 90), random_rows(self.random, 300, 30, groups=3)
        self.write_rows("own.nc", width, rows)
        ease = re.search(r"\n  EASE is tried, too: (\d[\d.]* \w+) of main memory beside a network's, [\w ]+ [\d.]+ \w+ each time, about "
                         r"(\d+) times\n", self.planned(*self.random.choice([(), ("--threads", 1)])))
        number, unit = ease[1].split()
        # Gram matrix and the panel of its inverse, the weights, the entries by users and by items.
        exact = 8 * width * (width + 512) + 4 * width**2 + 16 * sum(map(len, rows)) + 16 * width
        self.assertAlmostEqual(float(number) * {"KiB": 2**10, "MiB": 2**20}[unit], exact, delta=exact / 50)
        self.search("model.nc", "--run-dir", "run")
        chosen = self.chosen("run")
        computed = sum(one["recipe"] == "ease" or "with_ease" in one for one in chosen["candidates"]) + chosen["chosen_with_ease"]
        self.assertGreater(computed, 3)
        self.assertGreater(int(ease[2]), 3)

    def test_a_plan_says_where_ease_is_not_tried(self):
        self.write_rows("own.nc", 500, random_rows(self.random, 70, 500))
        self.settings = ["--epochs", 1, "--budget", self.random.choice((2, 6))]
        self.assertIn(f"\n  EASE is not tried: a budget of {self.settings[3]} has no room for it\n", self.planned())
        self.assertNotIn("ease", str(self.search("model.nc", "--run-dir", "run").stderr).lower())
        self.assertNotIn("EASE", self.planned("--entry-weights", "linear"))
        self.settings[3] = 10**9
        self.assertIn("EASE is tried, too: ", self.planned())


if __name__ == "__main__":
    unittest.main()
