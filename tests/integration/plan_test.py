#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""trainer --plan for machines and ranks that are not here."""
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import unittest

from norn_files import write_datasets
from programs import SOURCE, ProgramTest, mpirun
from rank_runs import RanksTest

H200 = SOURCE / "configs/machines/h200.json"
CPU = SOURCE / "configs/machines/cpu_cluster.json"
WIDE = """{
  "ErrorFunction": "ScaledMarginalCrossEntropy", "Training": {"Optimizer": "Adam", "Batch": 128},
  "Layers": [
    {"Name": "Input", "Kind": "Input", "N": %d, "DataSet": "gl_input", "Sparse": true},
    {"Name": "Hidden", "Kind": "Hidden", "N": %d, "Activation": "Relu"},
    {"Name": "Output", "Kind": "Output", "N": %d, "DataSet": "gl_output", "Activation": "Sigmoid"}
  ]
}
"""


def little_memory():
    """For a child: address space that weights of a wide network would not fit in. Sanitizers need more themselves."""
    if not os.environ.get("NORN_SANITIZE"):
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))


class PlanTest(ProgramTest):
    def plan(self, *arguments, config="net.json", **more):
        return self.succeed("trainer", "-c", config, "-i", "train.nc", "-n", "model.nc", "--plan", *arguments, **more)

    def plan_json(self, *arguments, **more):
        return json.loads(self.plan("--plan-format", "json", *arguments, **more).stdout)

    def refuse(self, message, *arguments, plan=True, **more):
        options = ("--plan",) if plan else ()
        return self.fail_with(2, message, "trainer", "-c", "net.json", "-i", "train.nc", "-n", "model.nc", *options,
                              *arguments, **more)

    def wide(self, width, hidden):
        self.write("wide.json", WIDE % (width, hidden, width))
        return "wide.json"

    def test_a_hundred_million_units_on_64_ranks_need_no_gpu_and_no_memory(self):
        config = self.wide(100_000_000, 128)
        done = self.plan("--ranks", "64", "--nodes", "8", "--machine", H200, "--precision", "bf16", "--optimizer",
                         "SGD", config=config, preexec_fn=little_memory)
        self.assertIn("64 ranks on 8 nodes, bf16", done.stdout)
        self.assertIn("machine: NVIDIA H200", done.stdout)
        for stage in ("sparse forward", "output forward", "output update", "gather activations", "reduce deltas"):
            self.assertIn(stage, done.stdout)
        self.assertRegex(done.stdout, "model parallelism (pays up to|stops paying at) ")
        self.assertFalse(self.path("model.nc").exists())

    def test_the_h200_needs_no_file(self):
        config = self.wide(10_000_000, 256)
        named = self.plan("--ranks", "16", "--machine", H200, config=config).stdout
        self.assertEqual(self.plan("--ranks", "16", config=config).stdout, named)

    def test_json_says_the_same_of_every_number_of_ranks(self):
        config = self.wide(10_000_000, 256)
        plan = self.plan_json("--ranks", "64", "--precision", "bf16", config=config)
        self.assertEqual((plan["precision"], plan["batch"]), ("bf16", 128))
        self.assertEqual((plan["plan"]["ranks"], plan["plan"]["nodes"]), (64, 8))
        by_ranks = {entry["ranks"]: entry for entry in plan["scaling"]}
        self.assertEqual(sorted(by_ranks)[:4], [1, 2, 4, 8])
        self.assertEqual(by_ranks[64], plan["plan"])
        self.assertEqual(by_ranks[1]["speedup"], 1)
        self.assertEqual(by_ranks[1]["communication_seconds"], 0)
        self.assertLess(by_ranks[8]["step_seconds"], by_ranks[1]["step_seconds"])
        stages = sum(stage["seconds"] for stage in plan["stages"])
        self.assertAlmostEqual(stages - plan["plan"]["overlapped_seconds"], plan["plan"]["step_seconds"], places=7)
        said = sum(stage["seconds"] for stage in plan["stages"] if stage["communication"])
        self.assertAlmostEqual(said, plan["plan"]["communication_seconds"], places=7)
        self.assertIn(plan["ranks_that_pay"], by_ranks)
        self.assertTrue(plan["memory"]["fits"])

    def test_ops_are_listed_with_what_they_add_to_the_stages(self):
        config = self.wide(10_000_000, 256)
        arguments = ("--ranks", "16", "--precision", "bf16")
        self.assertNotIn("ops", self.plan_json(*arguments, config=config))
        plan = self.plan_json(*arguments, "--ops", config=config)
        named = [(op["name"], op["of"]) for op in plan["ops"]]
        self.assertEqual((named[0], named[-1]), (("begin step", ""), ("end step", "")))
        of_layers = [op for op in named if op[0] in ("hidden forward", "output blocks", "hidden delta", "hidden blocks")]
        self.assertEqual(of_layers, [("hidden forward", "Hidden"), ("output blocks", "Output"), ("hidden delta", "Hidden"),
                                     ("hidden blocks", "Hidden")])
        self.assertIn(("catch up rows", "Input -> Hidden"), named)
        for quantity in ("seconds", "flop", "bytes"):
            added = {}
            for op in plan["ops"]:
                for part in op["stages"]:
                    key = (part["name"], part["communication"])
                    added[key] = added.get(key, 0) + part[quantity]
            said = {(stage["name"], stage["communication"]): stage[quantity] for stage in plan["stages"]}
            self.assertEqual(sorted(added), sorted(said))
            for key, value in said.items():
                self.assertAlmostEqual(added[key], value, delta=1e-7 * value, msg=f"{quantity} of {key}")
        text = self.plan(*arguments, "--ops", config=config).stdout
        for name, of in named:
            self.assertIn(f"\n{name}: {of}  " if of else f"\n{name}  ", text)
        self.assertNotIn("output blocks", self.plan(*arguments, config=config).stdout)

    def test_arrays_of_a_step_add_up_to_its_memory(self):
        for ranks in ("1", "3"):
            plan = self.plan_json("--ranks", ranks, "--machine", CPU, "--device", "cpu", "--ops")
            tensors, ops = plan["tensors"], len(plan["ops"])
            for purpose in ("parameter", "state"):
                held = sum(tensor["bytes"] for tensor in tensors if tensor["purpose"] == purpose)
                self.assertEqual(held, plan["memory"][purpose + "_bytes"])
            working = sum(tensor["bytes"] for tensor in tensors if tensor["purpose"] == "working")
            self.assertEqual(working, plan["memory"]["working_bytes"])
            for tensor in tensors:
                users = tensor["read_by"] + tensor["written_by"]
                self.assertTrue(all(0 <= op < ops for op in users), tensor)
                if users:
                    self.assertLessEqual(tensor["first_op"], min(users), tensor)
                    self.assertGreaterEqual(tensor["last_op"], max(users), tensor)
            weights = {tensor["name"]: tensor for tensor in tensors}["Hidden -> Output weights"]
            names = [op["name"] for op in plan["ops"]]
            self.assertIn(names.index("output blocks"), weights["written_by"])
            self.assertEqual((weights["shape"][1], weights["element"], weights["layout"]), (16, "float32", "by_unit"))

    def test_a_plan_of_this_machine_says_what_the_stages_of_a_step_cost(self):
        text = self.plan("--threads", "2").stdout
        for stage in ("sparse forward", "softmax rows", "output update", "bias update"):
            self.assertRegex(text, rf"\n{stage} +[\d.]+ +[\d.]+ %")
        self.assertNotIn("output blocks", text)
        self.assertIn("output blocks: Output", self.plan("--threads", "2", "--ops").stdout)

    def test_a_run_says_what_each_op_took_beside_its_plan(self):
        arguments = ("-c", "net.json", "-i", "train.nc", "-e", "20", "--threads", "2")
        done = self.succeed("trainer", *arguments, "-n", "measured.nc", "--ops")
        planned = self.plan("--threads", "2", "--ops").stdout
        row = re.compile(r"^(\w.*?) {2,}([\d.]+) +([\d.]+)(?: |$)", re.M)
        rows = [(name, float(took)) for name, _, took in row.findall(done.stdout)]
        ops = [name for name, _ in rows[:-1]]
        self.assertEqual(rows[-1][0], "step")
        self.assertIn("hidden forward: Hidden", ops)
        self.assertIn("output blocks: Output", ops)
        for name in ops:
            self.assertIn(f"\n{name}  ", planned)
        took = dict(rows)
        self.assertGreater(took["output blocks: Output"], 0)
        self.assertAlmostEqual(sum(took[name] for name in ops), took["step"], delta=1e-4 * len(ops))
        # To measure and to record changes nothing.
        self.succeed("trainer", *arguments, "-n", "plain.nc")
        self.assertEqual(self.path("measured.nc").read_bytes(), self.path("plain.nc").read_bytes())

    def test_the_record_of_a_run_has_what_its_ops_took(self):
        self.succeed("trainer", "-c", "net.json", "-i", "train.nc", "-e", "20", "--threads", "2", "-n", "recorded.nc", "--ops",
                     "--run-dir", "recorded")
        ops = json.loads(self.path("recorded/run.json").read_text())["ops"]
        planned = self.plan_json("--ranks", "1", "--machine", CPU, "--device", "cpu", "--ops")["ops"]
        self.assertEqual([(op["name"], op["of"], [stage["name"] for stage in op["stages"]]) for op in ops],
                         [(op["name"], op["of"], [stage["name"] for stage in op["stages"]]) for op in planned])
        for op in ops:
            self.assertGreaterEqual(op["took_seconds"], 0, op)
            self.assertAlmostEqual(op["seconds"], sum(stage["seconds"] for stage in op["stages"]), delta=1e-9)
        self.assertGreater(sum(op["took_seconds"] for op in ops if op["of"] == "Output"), 0)
        page = subprocess.run(["/usr/bin/python3", "-B", str(SOURCE / "tools/report.py"), "recorded"], cwd=self.folder, text=True,
                              capture_output=True, check=True)
        self.assertIn("What each op took", self.path("recorded/report.html").read_text(), page.stderr)
        # A run that is made again without --ops measures nothing.
        self.succeed("trainer", "--repeat", "recorded/run.json", "--model", "again.nc", "--run-dir", "again")
        self.assertNotIn("ops", json.loads(self.path("again/run.json").read_text()))

    def test_a_run_of_one_step_has_no_op_to_measure(self):
        done = self.succeed("trainer", "-c", "net.json", "-i", "train.nc", "-n", "one.nc", "-e", "1", "-b", "160", "--ops",
                            "--run-dir", "one")
        self.assertIn("--ops measures from a run's second step on, and there was none", done.stderr)
        self.assertNotIn("ops", json.loads(self.path("one/run.json").read_text()))

    def test_what_validations_take_is_planned(self):
        arguments = ("--machine", CPU, "--device", "cpu")
        plain = self.plan_json(*arguments)["memory"]
        own = self.plan_json(*arguments, "--validation-input", "test.nc")["memory"]
        # Columns, and where rows begin.
        held = sum(4 * sum(map(len, rows)) + 8 * (len(rows) + 1) for rows in (self.known, self.held_out))
        self.assertEqual(own["data_bytes"] - plain["data_bytes"], held)
        self.assertGreater(own["working_bytes"], plain["working_bytes"])
        part = self.plan_json(*arguments, "--validation-split", "0.2")["memory"]
        self.assertLessEqual(part["data_bytes"], plain["data_bytes"])
        self.assertIn("data sets of validations", self.plan(*arguments, "--validation-input", "test.nc").stdout)

    def test_one_rank_of_a_cpu_cluster(self):
        done = self.plan("--machine", CPU, "--device", "cpu")
        self.assertIn("1 rank on 1 node, fp32", done.stdout)
        self.assertIn("64 threads", done.stdout)

    def test_what_does_not_fit_is_planned_and_refused(self):
        config = self.wide(100_000_000, 4096)
        done = self.run_program("trainer", "-c", config, "-i", "train.nc", "-n", "model.nc", "--plan", "--ranks", "2")
        self.assertEqual(done.returncode, 4)
        self.assertIn("does not fit", done.stdout)
        self.assertIn("this run needs", done.stderr)

    def test_wrong_options(self):
        self.refuse("--ranks plans for ranks that are not there: give --plan too", "--ranks", "4", plan=False)
        self.refuse("--machine belongs to --plan", "--machine", CPU, plan=False)
        self.refuse("--nodes belongs to --plan", "--nodes", "2", plan=False)
        self.refuse("--nodes is for plans of a machine; give --ranks or --machine too", "--nodes", "2")
        self.refuse("--plan-format json is for plans of a machine", "--plan-format", "json")
        self.refuse("--ranks 0 is out of range: it must be from 1", "--ranks", "0")
        self.refuse("--nodes 5 does not divide 12 ranks", "--ranks", "12", "--nodes", "5")
        self.refuse("--nodes 4: 16 ranks would stand on each", "--ranks", "64", "--nodes", "4")
        self.refuse("--ranks with --device cpu needs --machine", "--ranks", "4", "--device", "cpu")

    def test_wrong_machines(self):
        self.refuse("none.json: cannot be read; expected the description of a machine", "--machine", "none.json")
        text = CPU.read_text()
        self.write("machine.json", text.replace('"MemoryGiB": 240', '"MemoryGib2": 240'))
        done = self.run_program("trainer", "-c", "net.json", "-i", "train.nc", "-n", "model.nc", "--plan", "--machine",
                                "machine.json")
        self.assertEqual(done.returncode, 2)
        self.assertIn('machine.json:9: Device: unknown key "MemoryGib2"; did you mean "MemoryGiB"?', done.stderr)
        self.write("fp32.json", H200.read_text().replace('"bf16"', '"tf32"').replace('"tf32"', '"fp64"', 1))
        self.assertIn('Precision "fp64" is unknown', self.run_program(
            "trainer", "-c", "net.json", "-i", "train.nc", "-n", "model.nc", "--plan", "--machine", "fp32.json").stderr)

    def test_ranks_of_the_run_measure_how_they_exchange(self):
        prefix = mpirun(2)
        if prefix is None:
            self.skipTest("mpirun is missing")
        arguments = ("-c", "net.json", "-i", "train.nc", "-n", "model.nc", "--plan", "--threads", "1")
        done = self.succeed("trainer", *arguments, prefix=prefix)
        self.assertEqual(done.stdout.count("gather activations"), 1)
        self.assertIn("us a collective", done.stdout)
        self.assertIn("one step:", done.stdout)
        done = self.succeed("trainer", *arguments, "--machine", CPU, prefix=prefix)
        self.assertIn("CPU nodes of 64 cores", done.stdout)
        done = self.run_program("trainer", *arguments, "--ranks", "2", prefix=prefix)
        self.assertEqual(done.returncode, 2)
        self.assertIn("trainer: error: --ranks plans for ranks that are not there: leave it out to plan for the ranks of this "
                      "run, or start the trainer without mpirun\n", done.stderr)
        done = self.run_program("trainer", *arguments, "--machine", CPU, "--plan-format", "json", prefix=prefix)
        self.assertEqual(done.returncode, 2)
        self.assertIn("trainer: error: --plan-format json is for plans of ranks that are not there: start the trainer without "
                      "mpirun, and give --ranks\n", done.stderr)


@unittest.skipIf(os.environ.get("NORN_SANITIZE"), "a sanitizer's memory is no measure")
class Memory(RanksTest):
    def planned_and_resident(self, ranks, width):
        """MiB: what the plan says of the rank that takes the most, and what the largest has while it trains."""
        self.RANKS = ranks
        rows = [[self.random.randrange(width)] for _ in range(128)]
        write_datasets(self.path("train.nc"), [("gl_input", width, rows, None), ("gl_output", width, rows, None)])
        self.write("net.json", WIDE % (width, 256, width))
        plan = self.train("--plan", "--threads", "1", prefix=mpirun(ranks)).stdout
        planned = re.search(r"  total +([\d.]+) (MiB|GiB)", plan)
        process = self.start()
        pids = self.wait_for_epochs(process, 3).values()
        status = [pathlib.Path(f"/proc/{pid}/status").read_text() for pid in pids]
        self.end(process)
        resident = max(int(re.search(r"VmRSS:\s+(\d+) kB", text)[1]) / 1024 for text in status)
        return float(planned[1]) * (1024 if planned[2] == "GiB" else 1), resident

    def test_a_rank_takes_what_was_planned(self):
        for ranks in (2, 4):
            little_planned, little = self.planned_and_resident(ranks, 5000)  # the rest is the program, MPI and BLAS
            planned, resident = self.planned_and_resident(ranks, 100000)
            ratio = (resident - little) / (planned - little_planned)
            print(f"{ranks} ranks: planned {planned:.0f} MiB, resident {resident:.0f} MiB, without the program's own {ratio:.3f}",
                  file=sys.stderr)
            self.assertAlmostEqual(ratio, 1, delta=0.15)


if __name__ == "__main__":
    unittest.main()
