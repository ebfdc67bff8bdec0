#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""trainer --doctor on this machine, alone and under mpirun: whatever it finds, it says it in full."""
import json
import os
import pathlib
import unittest

from programs import ProgramTest, mpirun

STATES = {"ok", "warning", "problem", "not checked"}
FIELDS = {"host", "area", "check", "state", "value", "expected", "do"}
AVX512 = {"avx512f", "avx512dq", "avx512bw", "avx512vl"} <= set(pathlib.Path("/proc/cpuinfo").read_text().split())


class DoctorTest(ProgramTest):
    def doctor(self, *arguments, code=None, **more):
        """The report in JSON, whose exit code must fit what it says; where `code` is given, it must be that."""
        done = self.run_program("trainer", "--doctor", "--doctor-format", "json", *arguments, **more)
        report = json.loads(done.stdout)
        self.assertEqual(set(report), {"program", "summary", "seconds", "checks"}, done.stderr)
        self.assertRegex(report["program"], r"^trainer \d+\.\d+")
        counts = {state: 0 for state in STATES}
        for check in report["checks"]:
            self.assertEqual(set(check), FIELDS)
            counts[check["state"]] += 1
            self.assertTrue(check["value"], check)
            off = check["state"] in ("warning", "problem")
            self.assertEqual(bool(check["do"]), off, check)
            if off:
                self.assertTrue(check["expected"], check)
        self.assertEqual(report["summary"], {"ok": counts["ok"], "warnings": counts["warning"],
                                             "problems": counts["problem"], "not_checked": counts["not checked"]})
        self.assertLess(report["seconds"], 60)
        self.assertEqual(done.returncode, 4 if counts["problem"] else 0, done.stdout)
        if code is not None:
            self.assertEqual(done.returncode, code, done.stdout)
        return report["checks"]

    def one(self, checks, name):
        found = [check for check in checks if check["check"] == name]
        self.assertEqual(len(found), 1, name)
        return found[0]

    def test_one_process(self):
        before = sorted(self.folder.iterdir())
        checks = self.doctor("--model", "model.nc")
        self.assertEqual(sorted(self.folder.iterdir()), before)  # nothing is left behind
        areas = {check["area"] for check in checks}
        self.assertLessEqual({"CPU", "memory", "limits", "disk", "driver", "links", "ranks"}, areas)
        self.assertEqual(self.one(checks, "hosts")["value"], "1 rank on 1 host")
        self.assertRegex(self.one(checks, "write rate")["value"], r"^\d+ MB/s written and synced, [\d.]+ ms a sync$")
        self.assertRegex(self.one(checks, "dense product")["value"], r"^\d+ GFLOP/s a core$")
        cores = len(os.sched_getaffinity(0))
        self.assertTrue(self.one(checks, "cores")["value"].startswith(f"{cores} usable, {cores} thread"))
        self.assertEqual(self.one(checks, "messages")["state"], "not checked")

    def test_without_a_model_the_disk_is_not_checked(self):
        checks = self.doctor()
        for name in ("file system", "space", "write rate"):
            self.assertEqual(self.one(checks, name)["state"], "not checked")

    def test_a_folder_that_is_not_there_is_a_problem(self):
        checks = self.doctor("--model", "none/model.nc", code=4)
        self.assertEqual(self.one(checks, "space")["state"], "problem")
        self.assertIn("mkdir -p", self.one(checks, "space")["do"])
        self.assertEqual(self.one(checks, "write rate")["state"], "problem")

    def test_a_disk_that_is_full_is_a_problem(self):
        small = self.mount_small("64k")
        checks = self.doctor("--model", small / "model.nc", code=4)
        self.assertEqual(self.one(checks, "write rate")["state"], "problem")
        self.assertIn(f"nothing can be written in {small}: No space left on device", self.one(checks, "write rate")["value"])

    def test_what_the_shell_and_the_options_do_is_seen(self):
        cores = len(os.sched_getaffinity(0))
        checks = self.doctor("--threads", cores + 5, prefix=("bash", "-c", 'ulimit -n 300; exec "$@"', "bash"),
                             env={**os.environ, "OPENBLAS_CORETYPE": "Haswell"})
        self.assertEqual(self.one(checks, "open files")["state"], "warning")
        self.assertEqual(self.one(checks, "open files")["value"], "300")
        self.assertEqual(self.one(checks, "cores")["state"], "warning")
        if AVX512:
            self.assertIn("env -u OPENBLAS_CORETYPE", self.one(checks, "BLAS kernels")["do"])

    def test_two_ranks(self):
        prefix = mpirun(2)
        if prefix is None:
            self.skipTest("mpirun is missing")
        checks = self.doctor("--model", "model.nc", "--threads", 1, prefix=prefix)
        self.assertEqual(self.one(checks, "hosts")["value"], "2 ranks on 1 host")
        self.assertEqual(self.one(checks, "alike")["state"], "ok")
        self.assertRegex(self.one(checks, "messages")["value"], r"^[\d.]+ us a collective, [\d.]+ GB/s$")
        self.assertEqual(self.one(checks, "load")["host"], self.one(checks, "write rate")["host"])
        self.assertRegex(self.one(checks, "threads")["value"], r": 2 threads on \d+ cores?$")
        many = self.doctor("--threads", len(os.sched_getaffinity(0)) + 1, prefix=prefix)
        self.assertEqual(self.one(many, "threads")["state"], "warning")
        self.assertEqual(self.one(many, "binding")["state"], "warning")

    def test_the_table_says_the_same(self):
        done = self.run_program("trainer", "--doctor", "--model", "none/model.nc")
        self.assertEqual(done.returncode, 4)
        self.assertIn("CPU\n", done.stdout)
        self.assertRegex(done.stdout, r"  problem      space                .*none is not there\n"
                                      r" +expected: a folder\n +do: make it: mkdir -p")
        self.assertRegex(done.stdout, r"\n\d+ problems, \d+ warnings?; \d+ ok, \d+ not checked; [\d.]+ s\n$")

    def test_wrong_options(self):
        self.fail_with(2, "--doctor-format json belongs to --doctor", "trainer", "-c", "net.json", "-i", "train.nc",
                       "-n", "model.nc", "--doctor-format", "json")
        self.fail_with(2, "--doctor looks at the machine and --plan at a network", "trainer", "--doctor", "--plan")
        self.fail_with(2, "--threads -1 is out of range", "trainer", "--doctor", "--threads", "-1")
        self.fail_with(2, "--config (-c) or --recipe sigmoid, --input (-i), --model (-n) are missing", "trainer")


if __name__ == "__main__":
    unittest.main()
