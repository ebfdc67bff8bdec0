#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""EASE by NumPy and SciPy, beside norn.Ease on the same matrix: processor time and wall time in turn, and how far the weights differ.

    tests/bench/peers/ease_numpy.py [--regularization 10] [--runs 3] [LINES]

LINES: a text of lines NAME<TAB>ITEM:ITEM:..., gzipped or not; without it tests/data/debian_packages/train.txt.gz.
"""
import argparse
import gzip
import pathlib
import time

import numpy as np
import scipy.linalg
import scipy.sparse

ROOT = pathlib.Path(__file__).resolve().parents[3]


def matrix_of(path):
    """[users x items] of ones."""
    numbers, rows, columns = {}, [], []
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
        for row, line in enumerate(lines):
            words = line.rstrip("\n").partition("\t")[2].split(":")
            items = {numbers.setdefault(word.split(",")[0], len(numbers)) for word in words if word}
            rows += [row] * len(items)
            columns += sorted(items)
    return scipy.sparse.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)))


def weights_of(matrix, regularization, dtype=np.float64):
    """EASE as its authors write it: the Gram matrix by SciPy, the inverse by Cholesky's factor (LAPACK's potrf and potri)."""
    gram = (matrix.T @ matrix).toarray().astype(dtype)
    gram[np.diag_indices_from(gram)] += regularization
    potrf, potri = scipy.linalg.get_lapack_funcs(("potrf", "potri"), (gram,))
    factor, failed = potrf(gram, lower=0, overwrite_a=1)
    assert not failed
    inverse, failed = potri(factor, lower=0, overwrite_c=1)
    assert not failed
    inverse = np.triu(inverse) + np.triu(inverse, 1).T
    weights = inverse / -np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    return weights


def timed(name, work):
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    print(f"{name:24} {time.perf_counter() - wall:8.2f} s wall {time.process_time() - processor:8.2f} s of processors", flush=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--regularization", type=float, default=10.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("lines", nargs="?", type=pathlib.Path, default=ROOT / "tests/data/debian_packages/train.txt.gz")
    args = parser.parse_args()
    import norn

    matrix = matrix_of(args.lines)
    print(f"{matrix.shape[0]} users, {matrix.shape[1]} items, {matrix.nnz} entries")
    for _ in range(args.runs):
        exact = timed("SciPy, float64", lambda: weights_of(matrix, args.regularization))
        single = timed("SciPy, float32", lambda: weights_of(matrix, args.regularization, np.float32))
        model = norn.Ease(regularization=args.regularization, device="cpu")
        timed("norn.Ease", lambda: model.fit(matrix))
    ours = model.network_.parameters["Input -> Output"]
    for name, weights in (("norn.Ease", ours), ("SciPy, float32", single)):
        print(f"{name}: differs from float64 by at most {np.abs(weights - exact).max():.2g}, weights are up to {np.abs(exact).max():.2g}")


if __name__ == "__main__":
    main()
