#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mutants as tools/dev/mutants.sh makes them: each changes what a program does when it is chosen, and nothing when none is."""
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/dev/mutants"))
sys.dont_write_bytecode = True
import python_mutants  # noqa: E402

CPP = """\
#include <cstdio>
#include <cstdlib>
#include <string>
constexpr int kLimit = 2 + 3;
static bool is_odd(int value) { return value % 2 == 1; }
template <typename T> T twice(T value) { return value + value; }
static void tell(int value) {
  std::string text = "n";
  if (value > kLimit && !is_odd(value)) {
    text += "big";
  }
  int sum = 1;
  for (int each = 0; each < value; ++each) sum += each * 2;
  std::printf("%s %d %d\\n", text.c_str(), sum, twice(value));
}
int main(int count, char** arguments) {
  for (int at = 1; at < count; ++at) tell(std::atoi(arguments[at]));
}
"""
PYTHON = '''\
"""A module."""
from __future__ import annotations
LIMIT = 5


def of(value: int = 3) -> str:
    """Text of it."""
    words = ["n"]
    if value > LIMIT and not value % 2 == 1:
        words.append("big")
    total = 1
    for each in range(value):
        total += each * 2
    return f"{words[0]} {len(words)} {total}"
'''
VALUES = ("0", "5", "6", "7", "12")


class MutantsTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="norn-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.seed = int(os.environ.get("NORN_TEST_SEED", random.SystemRandom().randrange(2**30)))
        print("seed", self.seed)

    def said(self, command, mutant=0):
        (self.folder / "marks").write_bytes(bytes(4096))
        done = subprocess.run([*command, *VALUES], capture_output=True, text=True, timeout=60, cwd=self.folder, preexec_fn=limit,
                              env=os.environ | {"NORN_MUTANT": str(mutant), "NORN_MUTANT_RECORD": str(self.folder / "marks")})
        return done.returncode, done.stdout

    def check(self, command, expected, mutants, least):
        """All are reached by a run without any, most of them change what is said, and none is taken for another."""
        self.assertEqual(self.said(command), expected)
        marks = (self.folder / "marks").read_bytes()
        self.assertEqual([number for number in range(4096) if marks[number]], sorted(one.number for one in mutants))
        found = [one for one in mutants if self.said(command, one.number) != expected]
        self.assertGreaterEqual(len(found), least * len(mutants), [(one.was, one.becomes) for one in mutants if one not in found])
        self.assertEqual(self.said(command, 4000), expected)

    def test_python(self):
        (self.folder / "python/norn").mkdir(parents=True)
        (self.folder / "python/norn/module.py").write_text(PYTHON)
        (self.folder / "python/norn/__init__.py").write_text("")
        mutants, places = python_mutants.sample(self.folder, 100, self.seed, 1)
        self.assertGreater(places, len(mutants))  # one of a place's alternatives
        command = [sys.executable, "-B", "-c",
                   "import sys; sys.path.insert(0, 'python'); from norn import module; print([module.of(int(value)) for value in "
                   "sys.argv[1:]])"]
        expected = self.said(command)
        python_mutants.write(self.folder, self.folder, mutants)
        self.check(command, expected, mutants, 0.6)

    def test_cpp(self):
        try:
            import cpp_mutants
        except ImportError:
            self.skipTest("no clang for Python: tools/install_dependencies.sh --coverage")
        (self.folder / "src").mkdir()
        source, program = self.folder / "src" / "program.cpp", self.folder / "program"
        source.write_text(CPP)
        (self.folder / "compile_commands.json").write_text(json.dumps([{"file": str(source), "command": "c++ -std=c++20"}]))
        compiled = ["c++", "-std=c++20", "-w", str(source), "-o", str(program)]
        subprocess.run(compiled, check=True)
        expected = self.said([str(program)])
        mutants, places = cpp_mutants.sample(self.folder, self.folder, 100, self.seed, Here())
        self.assertGreater(places, 20)
        cpp_mutants.write(self.folder, self.folder, mutants)
        subprocess.run(compiled, check=True)
        self.check([str(program)], expected, mutants, 0.6)


class Here:
    """A pool of this process alone."""

    @staticmethod
    def starmap(function, arguments, chunksize):
        return [function(*some) for some in arguments]


def limit():
    import resource
    resource.setrlimit(resource.RLIMIT_CPU, (1, 1))
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))


if __name__ == "__main__":
    unittest.main()
