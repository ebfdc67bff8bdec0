# SPDX-License-Identifier: Apache-2.0
"""The product of an output layer, x w^T [1024 x 65,536], as others make it: bf16 operands, float32 sums, a bf16 result.

cublas: torch.mm. cute: NVIDIA's persistent CuTe DSL kernel for Hopper (tiles of 128 x 256, clusters of two), as liger-kernel
0.8.5 carries it. Each is compared with float64 first. Weights rotate, as in fused_bench, which times Norn's own tiles; the median
of 21 calls by events. One JSON line a product."""
import json
import statistics
import sys

import torch

import gpu_common

EXAMPLES, UNITS, DEPTHS = 1024, 65536, (128, 256, 1024)
COPIES, WARM, CALLS = 3, 3, 21
AHEAD = 100_000_000  # cycles that the GPU waits at first, so that it never waits for Python


def cublas(x, w, z):
    torch.mm(x, w.t(), out=z)


def cute(x, w, z):
    import cuda.bindings.driver as driver
    from liger_kernel.ops.cutedsl.ops._sm90_persistent_gemm import logits_persistent_gemm

    logits_persistent_gemm(x, w, z, 1, 1, driver.CUstream(torch.cuda.current_stream().cuda_stream))


def milliseconds(multiply, x, weights, z):
    torch.cuda._sleep(AHEAD)
    marks = []
    for call in range(WARM + CALLS):
        multiply(x, weights[call % COPIES], z)
        marks.append(torch.cuda.Event(enable_timing=True))
        marks[-1].record()
    torch.cuda.synchronize()
    return statistics.median(begin.elapsed_time(end) for begin, end in zip(marks[WARM - 1:], marks[WARM:]))


def measure(multiply, depth):
    x = torch.randn(EXAMPLES, depth, device="cuda").bfloat16()
    weights = [torch.randn(UNITS, depth, device="cuda").bfloat16() for _ in range(COPIES)]
    z = torch.empty(EXAMPLES, UNITS, device="cuda", dtype=torch.bfloat16)
    multiply(x, weights[0], z)
    exact = x.double() @ weights[0].t().double()
    difference = float((z.double() - exact).norm() / exact.norm())
    if not difference < 2.0**-8:
        raise RuntimeError(f"{multiply.__name__}: differs from float64 by {difference:.2e}")
    time = milliseconds(multiply, x, weights, z)
    return {"us": round(1e3 * time, 1), "TFLOP/s": round(2e-9 * EXAMPLES * UNITS * depth / time), "difference": float(f"{difference:.2g}")}


def main():
    gpu_common.need_gpu()
    fine = True
    for depth in DEPTHS:
        for multiply in (cublas, cute):
            result = {"product": multiply.__name__, "examples": EXAMPLES, "units": UNITS, "depth": depth}
            try:
                result |= measure(multiply, depth)
            except Exception as problem:  # noqa: BLE001: the other products are still timed
                result["error"] = f"{type(problem).__name__}: {problem}".split("\n")[0][:200]
                fine = False
            print(json.dumps(result), flush=True)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
