# SPDX-License-Identifier: Apache-2.0
"""gpu_check.sh with stand-ins for the GPU, the sanitizer and the test programs; bundle.sh with a program of the system."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHECK = ROOT / "tools/dev/gpu_check.sh"
BUNDLE = ROOT / "tools/dev/bundle.sh"

PASSES = """echo "filter=$* pool=${NORN_CUDA_POOL:-on} shard=${GTEST_SHARD_INDEX:-}/${GTEST_TOTAL_SHARDS:-}" >> "$NOTES"
echo '[==========] 3 tests from 1 test suite ran. (5 ms total)'
echo '[  PASSED  ] 3 tests.'"""
FAILS = """echo '[==========] 3 tests from 1 test suite ran. (5 ms total)'
echo '[  FAILED  ] 1 test, listed below:'
exit 1"""
SKIPS = """echo '[==========] 3 tests from 1 test suite ran. (5 ms total)'
echo '[  PASSED  ] 1 test.'
echo '[  SKIPPED ] 2 tests, listed below:'"""
DISABLED = PASSES + "\necho '  YOU HAVE 1 DISABLED TEST'"
EMPTY = "echo '[==========] 0 tests from 0 test suites ran. (0 ms total)'"
CRASHES = "echo '[ RUN      ] A.B'; kill -SEGV $$"
SLEEPS = "exec sleep 30"
# As compute-sanitizer: --tool NAME and others of its own, then the program.
SANITIZER = """tool=$2; while [[ "$1" == --* ]]; do shift 2; done; "$@"; status=$?
case "$tool" in
  racecheck) echo '========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)' ;;
  initcheck) [ -z "${FINDS_AT:-}" ] || { for kernel in $FINDS_AT; do
               echo '========= Uninitialized __global__ memory read of size 4 bytes'
               echo "=========     at void $kernel(int)+0x10"; done
               echo '========= ERROR SUMMARY: 2 errors'; exit 99; }
             [ -z "${FINDS:-}" ] || { echo '========= ERROR SUMMARY: 2 errors'; exit 99; }
             echo '========= ERROR SUMMARY: 0 errors' ;;
  memcheck) [ -n "${REFUSES:-}" ] || echo '========= ERROR SUMMARY: 0 errors' ;;
esac
exit $status"""


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "path").mkdir()

    def script(self, name, text):
        path = self.root / name
        path.write_text("#!/usr/bin/env bash\n" + text + "\n", encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    def call(self, command, **environment):
        variables = {**os.environ, "PATH": f"{self.root}/path:{os.environ['PATH']}", "NOTES": str(self.root / "notes"),
                     **environment}
        done = subprocess.run([str(c) for c in command], cwd=self.root, env=variables, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr


class GpuCheck(Folder):
    def setUp(self):
        super().setUp()
        self.script("path/nvidia-smi", "echo 'GPU 0: Stand-in'")
        self.script("path/compute-sanitizer", SANITIZER)

    def check(self, *arguments, **environment):
        return self.call([CHECK, "--out", self.root / "out", *arguments], **environment)

    def test_help_and_wrong_arguments(self):
        status, text = self.check("--help")
        self.assertEqual(status, 0)
        self.assertIn("usage:", text)
        for wrong in [["--nothing"], ["--tools", "memchek"], ["--tools", ","], ["--tools"], ["--limit", "x"],
                      ["--limit", "0"], ["--shard", "2/2"], ["--shard", "1"], ["--shard", "-1/2"]]:
            with self.subTest(wrong):
                status, text = self.check(*wrong)
                self.assertEqual(status, 2, text)
                self.assertIn("gpu_check.sh: ", text)

    def test_without_a_gpu_it_says_so(self):
        self.script("path/nvidia-smi", "echo 'no devices were found'; exit 6")
        status, text = self.check(self.script("a_test", PASSES))
        self.assertEqual(status, 3)
        self.assertIn("there is no GPU here", text)

    def test_passing_program_is_run_plainly_and_by_every_tool(self):
        status, text = self.check(self.script("a_test", PASSES), "--filter", "Dense.*", "--shard", "1/4")
        self.assertEqual(status, 0, text)
        self.assertIn("4 runs, all ok", text)
        notes = (self.root / "notes").read_text().splitlines()
        self.assertEqual(len(notes), 4)
        self.assertIn("pool=on shard=/", notes[0])
        self.assertNotIn("Dense", notes[0])
        for note in notes[1:]:
            self.assertIn("--gtest_filter=Dense.* pool=off shard=1/4", note)
        summary = (self.root / "out/summary.txt").read_text()
        for tool in ("plain", "memcheck", "racecheck", "initcheck"):
            self.assertRegex(summary, rf"a_test +{tool} +3 +\d+  ok")

    def test_a_precision_is_run_plainly_alone(self):
        program = self.script("a_test", 'echo "precision=$NORN_TEST_PRECISION" >> "$NOTES"\n' + PASSES)
        status, text = self.check(f"{program}:bf16")
        self.assertEqual(status, 0, text)
        self.assertIn("1 runs, all ok", text)
        self.assertIn("precision=bf16", (self.root / "notes").read_text())

    def test_what_is_wrong_with_a_program_is_found(self):
        for body, words in [(FAILS, "1 failed"), (SKIPS, "2 skipped"), (DISABLED, "1 disabled"),
                            (EMPTY, "no test ran"), (CRASHES, "no test ran"), (PASSES + "\nexit 3", "exit code 3")]:
            with self.subTest(words):
                status, text = self.check("--tools", "plain", self.script("a_test", body))
                self.assertEqual(status, 1, text)
                self.assertIn(words, text)
                self.assertIn("1 of 1 runs FAILED", text)

    def test_time_limit(self):
        status, text = self.check("--tools", "plain", "--limit", "1", self.script("a_test", SLEEPS))
        self.assertEqual(status, 1, text)
        self.assertIn("time limit of 1 s", text)

    def test_missing_program_is_a_failure_and_the_others_are_run(self):
        status, text = self.check("--tools", "plain", "no_such_test", self.script("a_test", PASSES))
        self.assertEqual(status, 1)
        self.assertRegex(text, r"no_such_test .* not found")
        self.assertIn("1 of 2 runs FAILED", text)

    def test_finding_and_silence_of_the_sanitizer_are_failures(self):
        program = self.script("a_test", PASSES)
        status, text = self.check(program, FINDS="1")
        self.assertEqual(status, 1)
        self.assertRegex(text, r"initcheck .* 2 errors")
        self.assertIn("1 of 4 runs FAILED", text)
        for kernels, expected in [("cublasLt::splitKreduce_kernel nvjet_sm90", 0), ("nvjet_sm90 norn::our_kernel", 1)]:
            status, text = self.check("--tools", "initcheck", program, FINDS_AT=kernels)
            self.assertEqual(status, expected, text)
        status, text = self.check(program, REFUSES="1")
        self.assertEqual(status, 1)
        self.assertRegex(text, r"memcheck .* no summary of memcheck")


class Bundle(Folder):
    def test_wrong_arguments(self):
        for wrong in [[], ["out.tar.gz"], ["--nothing", "x"], ["out.tar.gz", "no_such_file"]]:
            with self.subTest(wrong):
                status, text = self.call([BUNDLE, *wrong])
                self.assertEqual(status, 2, text)
                self.assertIn("bundle.sh: ", text)
        self.assertEqual(self.call([BUNDLE, "--help"])[0], 0)

    def test_two_files_of_one_name_are_refused(self):
        (self.root / "a").mkdir()
        for name in ("x.txt", "a/x.txt"):
            (self.root / name).write_text("x")
        status, text = self.call([BUNDLE, "out.tar.gz", "x.txt", "a/x.txt"])
        self.assertEqual(status, 2)
        self.assertIn("x.txt", text)

    def test_packed_program_runs_from_the_archive(self):
        script = self.script("go.sh", "echo from the archive")
        status, text = self.call([BUNDLE, "out/b.tar.gz", "/bin/gzip", script])
        self.assertEqual(status, 0, text)
        status, text = self.call(["bash", "-euc", "mkdir u && tar xzf out/b.tar.gz -C u && . u/env.sh && "
                                  "command -v gzip && gzip --version && go.sh && ls u/lib && echo $NORN_DATA"])
        self.assertEqual(status, 0, text)
        self.assertIn(f"{self.root}/u/bin/gzip", text)
        self.assertIn("from the archive", text)
        self.assertIn(f"{self.root}/u/data", text)
        self.assertNotIn("libc.so", text)

    def test_a_library_of_the_build_is_packed(self):
        if shutil.which("cc") is None:
            self.skipTest("cc is not installed")
        (self.root / "bin").mkdir()
        (self.root / "lib").mkdir()
        (self.root / "own.c").write_text("int number(void) { return 7; }\n")
        (self.root / "main.c").write_text("int number(void);\nint main(void) { return number(); }\n")
        for command in (["cc", "-shared", "-fPIC", "own.c", "-o", "lib/libown.so"],
                        ["cc", "main.c", "-o", "bin/seven", "-Llib", "-lown", "-Wl,-rpath,$ORIGIN/../lib"]):
            self.assertEqual(self.call(command), (0, ""))
        status, text = self.call([BUNDLE, "b.tar.gz", "bin/seven"])
        self.assertEqual(status, 0, text)
        self.call(["rm", "-r", "lib"])
        status, text = self.call(["bash", "-uc", "mkdir u && tar xzf b.tar.gz -C u && . u/env.sh && seven"])
        self.assertEqual(status, 7, text)


if __name__ == "__main__":
    unittest.main()
