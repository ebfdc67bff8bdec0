#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tuner says of what it cannot do: one line with what, where, the value, what was expected and the next step; nothing is lost."""
import json
import shutil
import unittest

from tuner_program import BIN, ROOT, SPACE, TunerTest
from norn_files import write_datasets
from norn._files import JsonText


class Before(TunerTest):
    """Errors before anything is trained leave no folder."""

    def refuse(self, code, parts, *arguments, **more):
        self.refuse_tuner(code, parts, *self.command("no", *arguments, **more))
        self.assertFalse(self.path("no/study.json").exists())

    def space(self, path, entry):
        self.write("bad.json", '{"Parameters": {\n  "Training.Batch": {"Values": [16, 32]},\n  "%s": %s}}' % (path, json.dumps(entry)))
        return "bad.json"

    def test_a_path_that_is_no_key_of_the_descriptor(self):
        self.refuse(2, ["bad.json:3: Training.Alfa 0.1: ", 'unknown key "Alfa"; did you mean "Alpha"?'],
                    space=self.space("Training.Alfa", {"Values": [0.1]}))

    def test_many_keys_that_there_are_not_are_told_at_once_and_counted(self):
        count = self.random.randrange(50, 900)
        self.write("bad.json", json.dumps({"Parameters": {f"Training.K{number}": {"Range": [0, 1]} for number in range(count)}}, indent=0))
        done = self.tuner(*self.command("no", space="bad.json"))
        lines = [line for line in done.stderr.splitlines() if "error: " in line]
        self.assertEqual((done.returncode, len(lines)), (2, 41), done.stderr[:500])
        self.assertIn('unknown key "K', lines[0])
        self.assertIn(f"and {count - 40} more", lines[-1])

    def test_a_value_that_the_descriptor_does_not_take(self):
        self.refuse(2, ["bad.json:3: Layers.Hidden.Activation 'Tahn': ", 'did you mean "Tanh"?'],
                    space=self.space("Layers.Hidden.Activation", {"Names": ["Tanh", "Tahn"]}))
        self.refuse(2, ["bad.json:3: Training.Alpha"], space=self.space("Training.Alpha", {"Values": [0.1, -1]}))

    def test_a_program_that_is_no_trainer(self):
        for name, said, kept in [("broken", "{not", '"{not\\n"'), ("another", "[]", '"[]\\n"'), ("silent", "", '"\\n"')]:
            self.write(name, f"#!/bin/sh\necho '{said}'; printf '\\377{{\\n' >&2\n")
            self.path(name).chmod(0o755)
            self.refuse(2, [f"{name}: said {kept}, where an object with \"Layers\" was expected"], "--trainer", self.path(name))
        self.write("failing", "#!/bin/sh\necho '{not' >&2; exit 2\n")
        self.path("failing").chmod(0o755)
        self.refuse(2, ["{not"], "--trainer", self.path("failing"))

    def test_a_space_in_which_nothing_fits(self):
        machine = JsonText(ROOT / "configs/machines/h200.json").value
        machine["Device"]["MemoryGiB"] = 1e-3
        self.write("small_machine.json", json.dumps(machine))
        self.refuse(4, ["space.json: none of", "corners of the space fits", "--machine"], "--machine", "small_machine.json")

    def test_documents_without_an_end(self):
        self.refuse(2, ["/dev/zero: has more than 64 MiB"], space="/dev/zero")
        self.refuse(2, ["/dev/zero: is no regular file"], "--machine", "/dev/zero")

    def test_files_that_are_not_there(self):
        self.refuse(2, ["missing.json: cannot be read: No such file or directory; check the path"], space="missing.json")
        self.refuse_tuner(3, ["nope.nc: no such file"], *["nope.nc" if x == "train.nc" else x for x in self.command("no")])
        self.refuse(2, ["--trainer: nowhere is not there"], "--trainer", "nowhere")

    def test_a_metric_that_does_not_exist(self):
        self.refuse(2, ['"ndgc@10" is no metric to watch'], *("--objective", "ndgc@10"))

    def test_nothing_to_compare_by(self):
        self.refuse(2, ["nothing to compare trials by: give --validation-input and --validation-output, or --validation-split 0.1"],
                    handed=())

    def test_seeds_that_there_are_not(self):
        for seed in ("-1", str(2**64), "1.5", "many"):
            self.refuse(2, [f'--seed: "{seed}" is no whole number from 0 to {2**64 - 1}'], f"--seed={seed}")

    def test_options_that_would_win_over_the_descriptor(self):
        self.refuse(2, ["--batch: is not among the options that go to the trainer", "descriptor or the space"],
                    handed=("--validation-split", "0.2", "--batch", "3"))

    def test_a_descriptor_that_is_wrong(self):
        self.write("net.json", self.read("net.json").decode().replace('"Adam"', '"Adm"'))
        self.refuse(2, ["net.json:3: ", "Adm"])

    def test_a_study_that_is_none(self):
        self.refuse_tuner(2, ["holds no study yet; a new one needs --config"], "--study", "nothing")
        self.refuse_tuner(2, ["--study is missing"], "--status")
        self.refuse_tuner(2, ["nothing: holds no study; check the path"], "--study", "nothing", "--status")
        self.refuse(2, ["--gpus: \"0*x\" is no GPU"], "--gpus", "0*x")
        for wrong in ("x", "1.5", "-1", "GPU", self.random.choice("abcxyz") + "0"):
            self.refuse(2, [f"--gpus: \"{wrong}\" is no GPU"], f"--gpus={wrong}")
        self.refuse(2, ["--gpus: \"0,0\" names a GPU twice"], "--gpus", "0,0")
        self.refuse(2, ["--from nothing: holds no study"], "--from", "nothing")


class Later(TunerTest):
    def setUp(self):
        super().setUp()
        self.succeed_tuner(*self.command("one", "--trials", 3, "--threads", 1, "--confirm", 0))
        self.before = self.read("one/journal.jsonl")

    def refuse(self, code, parts, *arguments):
        self.refuse_tuner(code, parts, "--study", "one", *arguments)
        self.assertEqual(self.read("one/journal.jsonl"), self.before)

    def test_another_identity_under_the_same_study(self):
        self.refuse(2, ["--seed 4: the study", "was begun with 1; leave the option out"], "--seed", 4)
        self.refuse(2, ["--rungs 2: the study", "was begun with 1,3"], "--rungs", 2)
        self.refuse(2, ["--input ", "was begun with", "train.nc"], "-i", "test.nc")
        self.refuse(2, ["-- --validation-split 0.3: the study", "was begun with --validation-split 0.2"], "--", "--validation-split", "0.3")
        self.write("other.json", SPACE.replace("1e-1", "2e-1"))
        self.refuse(2, ["other.json: is not what the study", "was begun with"], "--space", "other.json")
        self.write("net.json", self.read("net.json").decode().replace("0.01", "0.02"))
        self.refuse(2, ["net.json: is not what the study"], "-c", "net.json")

    def test_other_contents_under_the_same_name(self):
        write_datasets(self.path("train.nc"), [("gl_input", self.width, self.known[::-1], None),
                                               ("gl_output", self.width, self.known, None)])
        self.refuse(3, ["train.nc: data set \"gl_input\" has other contents than the study", "--from"], "--trials", 5)

    def test_a_broken_journal(self):
        lines = self.before.splitlines(keepends=True)
        at = self.random.randrange(1, len(lines) - 1)
        self.path("one/journal.jsonl").write_bytes(b"".join(lines[:at] + lines[at + 1:]))
        self.refuse_tuner(3, [f"journal.jsonl:{at + 1}: event {at + 2} stands here, but event {at + 1} is missing; restore"], "--study",
                          "one")
        # A decision that does not follow from what stands before it.
        number = next(n for n, line in enumerate(lines) if json.loads(line)["event"] == "tell")
        event = json.loads(lines[number])
        changed = json.dumps({**event, "epochs": event["epochs"] + 1}).encode() + b"\n"
        self.path("one/journal.jsonl").write_bytes(b"".join(lines[:number] + [changed] + lines[number + 1:]))
        self.refuse_tuner(3, ["journal.jsonl: tell 1 has epochs", "and from what stands before it follows", "restore"], "--study", "one")
        self.path("one/journal.jsonl").write_bytes(self.before)
        self.succeed_tuner("--study", "one", "--trials", 4)

    def test_a_study_of_another_version(self):
        value = json.loads(self.read("one/study.json"))
        self.write("one/study.json", json.dumps({**value, "algorithm": 0}))
        self.refuse(3, ["study.json: is no study of this version of the tuner"])

    def test_a_trial_whose_trainer_crashes_is_tried_again_and_fails_alone(self):
        """A trainer that ends by itself with code 1 for small batches, and otherwise is the real one."""
        self.write("crashing",
                   "#!/bin/bash\nif [[ $* != *--plan* && $* != *'--epochs 0'* ]] && grep -q '\"Batch\": 16' net.json 2> /dev/null; then "
                   f"exit 1; fi\nexec {BIN / 'trainer'} \"$@\"\n").chmod(0o755)
        self.write("batches.json", '{"Parameters": {"Training.Batch": {"Values": [16, 32, 64]}}}')
        done = self.succeed_tuner(*self.command("crash", "--sampler", "grid", "--confirm", 0, "--threads", 1, "--trainer",
                                                self.path("crashing"),
                                                space="batches.json"))
        told = {event["trial"]: event["state"] for event in self.decisions("crash")["tell"]}
        self.assertEqual(told[0], "failed")
        self.assertNotIn("failed", (told[1], told[2]))
        lost = [event for event in self.events("crash") if event["event"] == "lost"]
        self.assertEqual([(event["trial"], event["attempt"], event["code"]) for event in lost], [(0, 0, 1), (0, 1, 1)])
        self.assertIn("warning: trial 0000 was lost", done.stderr)

    def test_a_full_disk_ends_it_and_it_goes_on_when_there_is_room(self):
        small = self.mount_small("256k")
        done = self.tuner(*self.command(small / "study", "--trials", 4, "--confirm", 0, "--threads", 1))
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        self.assertRegex(done.stderr, r"tuner: error: .*(No space left on device|check the disk's free space)")
        shutil.copytree(small / "study", self.path("roomy")) if (small / "study/study.json").exists() else None
        if self.path("roomy").exists():
            self.succeed_tuner("--study", "roomy", "--trials", 4)


if __name__ == "__main__":
    unittest.main()
