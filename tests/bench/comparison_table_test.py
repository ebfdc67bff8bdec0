#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The table of compare_gpu.sh from reports as the programs write them."""
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

TABLE = pathlib.Path(__file__).resolve().parent / "peers/comparison_table.py"


def rate(middle, spread, **more):
    return {"batch": 1024, "samples_per_second": middle, "slowest": middle - spread, "fastest": middle + spread, **more}


class ComparisonTable(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, *reports):
        (self.folder / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in reports), encoding="utf-8")

    def table(self, *names):
        """{row: {column: cell}}"""
        done = subprocess.run([sys.executable, "-B", TABLE, self.folder, *names], capture_output=True, text=True, check=True)
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line.startswith("|")]
        self.assertTrue((self.folder / "comparison.json").exists())
        return {row[0]: dict(zip(rows[0], row)) for row in rows[2:]}

    def test_rounds_become_one_interval(self):
        self.write("a.ours", rate(1000, 10, error=""), rate(1100, 20, error=""), rate(1020, 5, error=""))
        self.assertEqual(self.table("a")["a"]["Norn"], "1,020 (990-1,120)")

    def test_what_overlaps_is_equal_and_what_does_not_is_a_ratio(self):
        self.write("near.ours", rate(1000, 50, error=""))
        self.write("near.plain", rate(940, 10, variant="compile"), rate(500, 10, variant="eager"))
        self.write("far.ours", rate(1000, 50, error=""))
        self.write("far.strong", rate(500, 10, variant="blocks"), rate(800, 10, variant="fused"))
        table = self.table("near", "far")
        self.assertEqual(table["near"]["to the best"], "equal")
        self.assertEqual(table["far"]["to the best"], "1.25")
        self.assertEqual(table["far"]["strong PyTorch"], "800 (790-810)")

    def test_a_peer_that_cannot_says_why_and_is_not_compared(self):
        self.write("a.ours", rate(1000, 50, error=""))
        self.write("a.plain", {"variant": "cce", "batch": 1024, "error": "bf16 only"}, {"error": "time limit"},
                   {"variant": "eager", "batch": 1024, "error": "out of memory"}, rate(10, 1, variant="eager") | {"batch": 256})
        row = self.table("a")["a"]
        self.assertEqual((row["CCE"], row["eager"], row["to the best"]), ("bf16 only", "10 (9-11), batch 256", "100.00"))

    def test_liger_is_the_faster_of_its_functions_and_says_which_kernels_that_were(self):
        rates = random.SystemRandom().sample(range(100, 900), 2)
        kernels = ("chunks of rows", "CuTe DSL, scaled")
        self.write("a.ours", rate(1000, 50, error=""))
        self.write("a.plain", *(rate(one, 10, variant=variant, kernels=words)
                                for one, variant, words in zip(rates, ("liger", "liger_scaled"), kernels)))
        best = max(rates)
        self.assertEqual(self.table("a")["a"]["Liger"], f"{best} ({best - 10}-{best + 10}), {kernels[rates.index(best)]}", rates)

    def test_networks_of_images_have_a_column_for_deterministic_algorithms(self):
        self.write("vgg16-bf16.ours", rate(1000, 5, error=""))
        self.write("vgg16-bf16.plain", rate(800, 5, variant="eager", precision="bf16"), rate(2000, 5, variant="compile"),
                   rate(900, 5, variant="deterministic", not_deterministic=["max_pool2d_with_indices_backward_cuda"]))
        row = self.table("vgg16-bf16")["vgg16-bf16"]
        self.assertEqual((row["deterministic"], row["torch.compile"], row["to the best"]), ("900 (895-905)", "2,000 (1,995-2,005)", "0.50"))

    def test_dsstne_stands_beside_rows_that_were_measured(self):
        self.write("ml20m-tf32-SGD.ours", rate(700000, 1000, error=""))
        self.write("other.ours", rate(700000, 1000, error="the cost does not fall"))
        table = self.table("ml20m-tf32-SGD", "other")
        self.assertEqual((table["ml20m-tf32-SGD"]["DSSTNE"], table["other"]["DSSTNE"]), ("254,000", ""))
        self.assertEqual(table["other"]["Norn"], "the cost does not fall")


if __name__ == "__main__":
    unittest.main()
