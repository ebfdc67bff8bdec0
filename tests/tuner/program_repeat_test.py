#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tuner --repeat with the real trainer on small data: a whole search made again, and what is said where it comes to something else."""
import json
import shutil
import unittest

from tuner_program import TunerTest


class RepeatTest(TunerTest):
    def first(self, name, *arguments):
        self.succeed_tuner(*self.command(name, "--start", 4, "--clock", 3, "--threads", 1, "--workers", 2, "--confirm", 1, "--seeds", 1,
                                         *arguments))

    def change(self, study, kind, number, change):
        """In the journal: the event of that kind and number, changed."""
        events = self.events(study)
        change([event for event in events if event["event"] == kind][number])
        self.write(f"{study}/journal.jsonl", "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in events))

    def test_a_search_that_was_cut_short_and_extended_is_made_again(self):
        self.first("first", "--hours", 1e-9)
        self.succeed_tuner("--study", "first", "--trials", 7, "--threads", 1)
        said = self.succeed_tuner("--study", "again", "--repeat", "first/study.json", "--workers", 3, "--threads", 1).stdout
        self.assertRegex(said, r"repeated .*/first: 7 proposals, \d+ verdicts, the checksums of all models and the bytes of the best "
                               "one are the same")
        self.assertEqual(self.decisions("again"), self.decisions("first"))
        self.assertEqual(self.read("again/best.nc"), self.read("first/best.nc"))
        # Stopped anywhere it goes on as a search that is repeated.
        journal = self.read("again/journal.jsonl")
        first = journal.index(b"\n") + 1
        self.path("again/journal.jsonl").write_bytes(journal[:self.random.randrange(first, len(journal))])
        self.assertIn("are the same", self.succeed_tuner("--study", "again", "--threads", 1).stdout)
        self.assertEqual(self.decisions("again"), self.decisions("first"))
        for arguments, said in ((("--study", "again", "--trials", 9), "--trials: cannot be given for a search that is made again"),
                                (("--study", "more", "--repeat", "first/study.json", "--seed", 3), "--seed: cannot be given"),
                                (("--study", "first", "--repeat", "again/study.json"), "is a search of its own; give another --study")):
            self.refuse_tuner(2, [said], *arguments)

    def test_data_may_have_moved_and_must_have_the_same_contents(self):
        self.first("first", "--trials", 3)
        shutil.move(self.path("train.nc"), self.path("moved.nc"))
        said = self.succeed_tuner("--study", "again", "--repeat", "first", "-i", "moved.nc", "--threads", 1).stdout
        self.assertIn("are the same", said)
        self.refuse_tuner(3, ["\"gl_output\" has other contents than the study"], "--study", "other", "--repeat", "first", "-i", "test.nc")
        self.assertFalse(self.path("other/study.json").exists())
        self.refuse_tuner(2, ["--repeat: -i: 2 are given, and the study had 1"], "--study", "two", "--repeat", "first", "-i", "moved.nc",
                          "-i", "test.nc")

    def test_what_differs_ends_it_with_its_trial(self):
        self.first("first", "--trials", 5)
        journal = self.read("first/journal.jsonl")

        def expect(parts, code=1):
            name = f"again{len(list(self.folder.iterdir()))}"
            self.refuse_tuner(code, parts, "--study", name, "--repeat", "first", "--threads", 1)
            self.assertEqual(self.processes(name), {"tuner": [], "trial": [], "trainer": []})
            self.path("first/journal.jsonl").write_bytes(journal)
            return name

        told = [event["trial"] for event in self.events("first") if event["event"] == "tell"]
        self.change("first", "tell", 2, lambda event: event.update(checksum="0" * 16))
        expect([f"the end of trial {told[2]} is another one than in", "/first: checksum ",
                "now, 0000000000000000 there; the training gave other bits"])
        self.change("first", "propose", 4, lambda event: event["settings"].update({"Training.Batch": 7}))
        name = expect(["the proposal of trial 4 is another one than in", "'Training.Batch': 7", "numpy, scipy or the tuner is another"])
        # The same command says the same, and where it is mended goes on.
        self.assertIn("are the same", self.succeed_tuner("--study", name, "--threads", 1).stdout)
        best = self.read("first/best.nc")
        self.path("first/best.nc").write_bytes(best[:-1] + bytes([best[-1] ^ 1]))
        expect(["best.nc: has other bytes than"])
        self.path("first/journal.jsonl").write_bytes(b"".join(journal.splitlines(keepends=True)[:-1]))
        expect(["/first has not ended; let it end first: tuner --study"], code=2)
        study = json.loads(self.read("first/study.json"))
        self.write("first/study.json", json.dumps({**study, "sampler": "tpe"}))
        expect(["has the sampler tpe, whose proposals follow from more than the study; gp, random, grid can be repeated"], code=2)


if __name__ == "__main__":
    unittest.main()
