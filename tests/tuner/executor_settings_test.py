#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tuner says of an executor that is not as it should be, and that the schema of its file says the same as the program."""
import json
import os
import subprocess
import sys
import unittest

import jsonschema

from tuner_case import ROOT, SeededTest
from slurm_cluster import free_port

from norn.errors import UsageError
from norn.tune.executors import settings
from norn._files import JsonText

SCHEMA = JsonText(ROOT / "configs/schema/executor.schema.json").value
TYPES = {settings.WHOLE: "integer", settings.NUMBER: "number", settings.TEXT: "string", settings.WORDS: "array"}
# (executor, file, what is said behind the file's name)
MALFORMED = [
    ("slurm", '{\n "Partion": "gpu"}', ':2: Partion is unknown to --executor slurm. Did you mean "Partition"?'),
    ("celery", '{"Broker": "redis://h", "Partition": "gpu"}', ":1: Partition is unknown to --executor celery. Expected HeartbeatSeconds"),
    ("slurm", '{"Gpus": 0}', ":1: Gpus is 0; expected a whole number above 0"),
    ("slurm", '{"Gpus": 1.5}', ":1: Gpus is 1.5; expected a whole number above 0"),
    ("slurm", '{"Gpus": true}', ":1: Gpus is true; expected a whole number above 0"),
    ("slurm", '{"Hours": "2"}', ':1: Hours is "2"; expected a number above 0'),
    ("slurm", '{"HeartbeatSeconds": -1}', ":1: HeartbeatSeconds is -1; expected a number above 0"),
    ("slurm", '{"Options": ["--exclusive", 3]}', ':1: Options is ["--exclusive", 3]; expected a list of texts'),
    ("slurm", '{"Account": ""}', ':1: Account is ""; expected text'),
    ("slurm", "[1]", ": expected an object with keys such as HeartbeatSeconds"),
    ("slurm", '{"Gpus": 1,}', ":1: not JSON"),
    ("gridengine", '{"GpuNames": "0"}', ':1: GpuNames is "0"; expected a list of texts'),
    ("htcondor", '{"MemoryGiB": 0}', ":1: MemoryGiB is 0; expected a number above 0"),
    ("dask", '{"Scheduler": ""}', ':1: Scheduler is ""; expected text'),
    ("kubernetes", '{"Image": "i", "Claim": "c"}', ": Mount is missing; --executor kubernetes needs it in a file"),
    ("celery", "{}", ": Broker is missing; --executor celery needs it in a file (--executor-file)"),
]


class SettingsTest(SeededTest):
    def tuner(self, *arguments, **more):
        (self.folder / "trainer").write_text("#!/bin/sh\nexit 1\n")
        (self.folder / "trainer").chmod(0o755)
        return subprocess.run([sys.executable, "-B", str(ROOT / "tools/tuner.py"), "--trainer", "./trainer", "--dry-run", *arguments],
                              cwd=self.folder, capture_output=True, text=True, timeout=300, **more)

    def refuse(self, code, parts, *arguments, **more):
        done = self.tuner(*arguments, **more)
        errors = [line for line in done.stderr.splitlines() if line.startswith("tuner: error: ")]
        self.assertEqual((done.returncode, len(errors)), (code, 1), done.stderr)
        for part in parts:
            self.assertIn(part, errors[0])
        self.assertNotIn("Traceback", done.stderr)

    def write(self, text):
        (self.folder / "f.json").write_text(text)
        return ["--executor-file", "f.json"]

    def test_every_malformed_file_has_a_line(self):
        for executor, text, said in MALFORMED:
            with self.subTest(text), self.assertRaises(UsageError) as caught:
                self.write(text)
                settings.Settings(executor, 1, JsonText(self.folder / "f.json"))
            self.assertIn(f"{self.folder}/f.json{said}", str(caught.exception))
            self.assertEqual(len(str(caught.exception).splitlines()), 1)
        self.refuse(2, ["f.json:1: Gpus is 0; expected"], "--executor", "slurm", *self.write('{"Gpus": 0}'))

    def test_options_that_do_not_go_together(self):
        self.refuse(2, ["--gpus: are those of this machine; give Gpus"], "--executor", "slurm", "--gpus", "0")
        self.refuse(2, ["--executor-file: is for another --executor"], *self.write("{}"))
        self.refuse(2, ['--gpus: "0,1,2" names 3, and a trial takes 2 (--ranks)'], "--gpus", "0,1,2", "--ranks", "2")
        self.refuse(2, ["none.json: cannot be read"], "--executor", "slurm", "--executor-file", "none.json")

    def test_the_schema_has_the_same_keys_and_kinds(self):
        keys = dict(settings.SHARED)
        for _, _, own in settings.EXECUTORS.values():
            keys.update(own)
        self.assertEqual(set(SCHEMA["properties"]) - {"$schema"}, set(keys))
        for name, key in keys.items():
            self.assertEqual(SCHEMA["properties"][name]["type"], TYPES[key.kind], name)
        for executor, (_, _, own) in settings.EXECUTORS.items():
            for name in own:
                said = SCHEMA["properties"][name]["description"]
                self.assertTrue(executor in said or "(all" in said, f"{name}: {said}")
        for _, text, fault in MALFORMED:
            if "not JSON" not in fault and "missing" not in fault and "unknown to --executor celery" not in fault:
                with self.subTest(text), self.assertRaises(jsonschema.ValidationError):
                    jsonschema.validate(json.loads(text), SCHEMA)

    def test_programs_and_modules_that_are_missing_are_named(self):
        self.refuse(5, ["sbatch, squeue, scancel, sinfo: not in PATH"], "--executor", "slurm", env={**os.environ, "PATH": str(self.folder)})
        self.refuse(5, ["qsub, qstat, qdel, qhost: not in PATH"], "--executor", "gridengine", env={**os.environ, "PATH": str(self.folder)})
        self.refuse(5, ["condor_submit, condor_q, condor_rm, condor_status: not in PATH"], "--executor", "htcondor",
                    env={**os.environ, "PATH": str(self.folder)})
        (self.folder / "celery.py").write_text("raise ImportError('no', name='celery')\n")
        self.refuse(5, ["--executor celery: celery is missing; install it: apt-get install python3-celery python3-redis"], "--executor",
                    "celery",
                    *self.write('{"Broker": "redis://127.0.0.1:1/0"}'), env={**os.environ, "PYTHONPATH": str(self.folder)})

    def test_a_program_that_fails_is_quoted(self):
        for name in ("sbatch", "squeue", "scancel", "sinfo"):
            (self.folder / name).write_text("#!/bin/sh\necho 'slurm_load_partitions: Unable to contact slurm controller' >&2\nexit 1\n")
            (self.folder / name).chmod(0o755)
        self.refuse(5, ["sinfo: slurm_load_partitions: Unable to contact slurm controller (exit code 1); check that slurmctld runs"],
                    "--executor", "slurm", env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"})

    def test_a_broker_that_is_not_there(self):
        try:
            import celery  # noqa: F401
            import redis  # noqa: F401
        except ImportError as error:
            self.skipTest(f"the Python package {error.name} is not installed; pip install {error.name}, or tools/install_dependencies.sh "
                          "--cluster-tests")
        port = free_port()
        self.refuse(5, [f"redis://:**@127.0.0.1:{port}/0: the broker cannot be reached: ", "Connection refused", "correct Broker"],
                    "--executor", "celery", *self.write(json.dumps({"Broker": f"redis://:secret@127.0.0.1:{port}/0"})))

    def test_a_scheduler_that_is_not_there(self):
        try:
            import distributed  # noqa: F401
        except ImportError as error:
            self.skipTest(f"the Python package {error.name} is not installed; pip install {error.name}, or tools/install_dependencies.sh "
                          "--cluster-tests")
        port = free_port()
        self.refuse(5, [f"tcp://127.0.0.1:{port}: Dask's scheduler cannot be reached: ", "correct Scheduler"], "--executor", "dask",
                    *self.write(json.dumps({"Scheduler": f"tcp://127.0.0.1:{port}"})))


if __name__ == "__main__":
    unittest.main()
