# SPDX-License-Identifier: Apache-2.0
"""The tests that mutants are tried with: which there are, what each reaches, and how some of them are run."""
import collections
import concurrent.futures
import dataclasses
import itertools
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import tempfile
import time

MARKS = 4096
LAYERS = ("base", "tensor", "kernels", "data", "parallel", "nn", "step", "engine", "gradient", "run", "tools")
PYTEST = "tests/python"
CORES = sorted(os.sched_getaffinity(0))
TURN = itertools.count()
START = {"pytest": 2.0, "gtest": 0.05, "file": 0.3}  # seconds until the first test of a process begins
MEMORY, FILE_SIZE = 10 << 30, 2 << 30
PLUGIN = '''\
import json, os, time
import pytest
from norn import _norn_mutant as switch

def taken():
    marks = [number for number in range(len(switch.MARKS)) if switch.MARKS[number]]
    switch.MARKS[:] = bytes(len(switch.MARKS))
    return marks

def said(**line):
    with open(os.environ["NORN_MUTANT_RECORD"] + ".tests", "a") as file:
        print(json.dumps(line), file=file)

def pytest_collection_finish(session):
    said(imported=taken())

@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    begin = time.monotonic()
    failed = item.session.testsfailed
    done = yield
    said(name=item.nodeid, seconds=time.monotonic() - begin, failed=item.session.testsfailed > failed, reached=taken())
    return done
'''


@dataclasses.dataclass(frozen=True)
class Test:
    kind: str  # gtest, pytest, file
    program: str
    name: str
    seconds: float = 0.0


class Tests:
    """Those of a build of the copy."""

    def __init__(self, folder):
        self.folder, self.tree = folder, folder / "tree"
        build = self.tree / "build/cpu"
        self.bin = build / "bin"
        (folder / "plugin").mkdir(exist_ok=True)
        (folder / "plugin/norn_mutant_plugin.py").write_text(PLUGIN)
        self.environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"} | {
            "NORN_BIN": str(self.bin), "NORN_SOURCE": str(self.tree), "NORN_MPI": "ON", "OPENBLAS_NUM_THREADS": "1",
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1", "PYTHONPATH": str(build / "python")}
        self.python = str(self.tree / "build/venv/bin/python")

    def command(self, kind, program, names, plugin=False):
        if kind == "gtest":
            return [program, "--gtest_fail_fast", "--gtest_brief=1", "--gtest_filter=" + ":".join(names)]
        if kind == "pytest":
            extra = ["-p", "norn_mutant_plugin"] if plugin else ["-x"]
            return [self.python, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", *extra, *names]
        return ["/usr/bin/python3", "-B", program]

    def run(self, command, limit, chosen=None, record=None):
        """Exit code, or "no end"."""
        environment = dict(self.environment)
        if chosen:
            environment["NORN_MUTANT"] = str(chosen)
        if record:
            record.write_bytes(bytes(MARKS))
            environment |= {"NORN_MUTANT_RECORD": str(record), "PYTHONPATH": environment["PYTHONPATH"] + ":" + str(self.folder / "plugin")}
        if command[0] == "/usr/bin/python3":  # what these import stands beside them
            environment["PYTHONPATH"] = str(self.folder / "plugin")
        turn = next(TURN)
        # Or each process would begin a thread for each core of the machine
        cores = {CORES[(2 * turn + one) % len(CORES)] for one in (0, 1)}
        with tempfile.TemporaryDirectory(prefix="norn-mutant-") as own:
            process = subprocess.Popen(command, cwd=self.tree, env=environment | {"TMPDIR": own}, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL, start_new_session=True, preexec_fn=lambda: limit_process(cores))
            try:
                return process.wait(limit)
            except subprocess.TimeoutExpired:
                return "no end"
            finally:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                process.wait()

    def listed(self, layers, scripts, files):
        """Cases of the test programs of `layers`, Python files that are tests, and files for pytest, which is told to run them one by
        one."""
        yield from (Test("pytest", PYTEST, file) for file in files)
        yield from (Test("file", script, pathlib.Path(script).stem) for script in scripts)
        for program in (str(self.bin / f"{layer}_test") for layer in layers):
            suite = None
            for line in subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout.splitlines():
                word = line.split("#")[0].rstrip()
                if not line.startswith(" "):
                    suite = word
                elif not word.strip().startswith("DISABLED_"):
                    yield Test("gtest", program, suite + word.strip())

    def record(self, layers, scripts, files, jobs, longest):
        """Runs each once without a mutant, and writes what it reached: lines of reached.jsonl."""
        path = self.folder / "reached.jsonl"
        known = {tuple(json.loads(line)["asked"]) for line in path.read_text().splitlines()} if path.exists() else set()
        tests = [test for test in self.listed(layers, scripts, files) if (test.program, test.name) not in known]
        with open(path, "a", encoding="utf-8") as out, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            running = [pool.submit(self.reached_by, test, longest) for test in tests]
            for number, done in enumerate(concurrent.futures.as_completed(running)):
                for line in done.result():
                    print(json.dumps(line), file=out, flush=True)
                if number % 200 == 199:
                    print(f"mutants: {number + 1} of {len(tests)} tests recorded", flush=True)
        return [json.loads(line) for line in path.read_text().splitlines()]

    def reached_by(self, test, longest):
        with tempfile.TemporaryDirectory(prefix="norn-marks-") as folder:
            record = pathlib.Path(folder) / "marks"
            begin = time.monotonic()
            code = self.run(self.command(test.kind, test.program, [test.name], plugin=test.kind == "pytest"), longest, record=record)
            line = {"asked": [test.program, test.name], "kind": test.kind, "program": test.program}
            if test.kind != "pytest":
                marks = record.read_bytes()
                return [line | {"name": test.name, "seconds": time.monotonic() - begin, "failed": code != 0,
                                "reached": [number for number in range(MARKS) if marks[number]]}]
            said = pathlib.Path(str(record) + ".tests")
            found = [json.loads(one) for one in said.read_text().splitlines()] if said.exists() else []
            if len(found) < 2:  # nothing in it that could run
                return [line | {"name": test.name, "seconds": 0, "failed": True, "reached": []}]
            imported = set(found[0]["imported"])
            return [line | one | {"reached": sorted(imported | set(one["reached"]))} for one in found[1:]]

    def is_killed(self, mutant, tests, budget, until):
        """Runs what reaches it, in growing portions, the fastest first: (killer, cut, seconds of the tests). Cut: by the budget or by the
        end of the time. None: not begun."""
        if time.monotonic() > until:
            return None
        spent = 0.0
        for portion in portions(sorted(tests, key=lambda test: test.seconds + START[test.kind])):
            if spent > budget or time.monotonic() > until:
                return None, True, spent
            by_program = collections.defaultdict(list)
            for test in portion:
                by_program[test.kind, test.program].append(test)
            for (kind, program), some in by_program.items():
                seconds = START[kind] + sum(test.seconds for test in some)
                code = self.run(self.command(kind, program, [test.name for test in some]), 20 + 5 * seconds, chosen=mutant)
                spent += seconds
                if code != 0:
                    return f"{pathlib.Path(program).name} {some[0].name}{' ...' if len(some) > 1 else ''}: {code}", False, spent
        return None, False, spent


def portions(tests):
    portion, seconds, limit = [], 0.0, 1.0
    for test in tests:
        portion.append(test)
        seconds += test.seconds
        if seconds > limit:
            yield portion
            portion, seconds, limit = [], 0.0, min(60.0, 4 * limit)
    if portion:
        yield portion


def limit_process(cores):
    os.sched_setaffinity(0, cores)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_SIZE, FILE_SIZE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def by_mutant(lines):
    """Mutant -> tests that reach it and pass without it."""
    reaching = collections.defaultdict(list)
    for line in lines:
        if not line["failed"]:
            test = Test(line["kind"], line["program"], line["name"], line["seconds"])
            for number in line["reached"]:
                reaching[number].append(test)
    return reaching
