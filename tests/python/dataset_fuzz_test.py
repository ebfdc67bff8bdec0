# SPDX-License-Identifier: Apache-2.0
"""Damaged files and random filters end with an error of Norn's, or are data; never with another exception."""
import json
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from tables import mutated, random_table, write_csv

import norn
from norn.data.where import parse

import pyarrow as pa


@pytest.mark.parametrize("kind", ["csv", "filtered.csv", "dat", "jsonl", "nested.jsonl", "npz", "inter", "nc"])
def test_damaged_files(draw, kind, tmp_path):
    table = random_table(draw, 12, 10, 40)
    path = tmp_path / f"t.{kind}"
    options = {"where": "rating > -9"} if "filtered" in kind else {}
    columns = ("user", "item", "rating")
    if kind.endswith("csv"):
        write_csv(path, table)
    elif kind == "dat":
        path.write_text("".join(f"{u}::{i}::3::97830{u}\n" for u in range(9) for i in range(u)))
        columns, options = (), {"where": "rating >= 3"}
    elif kind == "inter":
        path.write_text("user_id:token\titem_id:token\trating:float\n" + "".join(f"{u}\t{i}\t3\n" for u in range(9) for i in range(u)))
        columns = ()
    elif kind == "nested.jsonl":
        path.write_text("".join(json.dumps({"user": f"u{u}", "items": [f"i{i}" for i in range(u)]}) + "\n" for u in range(1, 9)))
        columns = ("user", "items")
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(dict(zip(table, row))) + "\n" for row in zip(*table.values())))
    elif kind == "npz":
        sp.save_npz(path, sp.csr_matrix(draw.normal(size=(6, 7))), compressed=False)
        columns = ()
    else:
        norn.Dataset(sp.csr_matrix(np.eye(5, dtype=np.float32)), feature_labels=list("abcde")).to_netcdf(path)
    whole, met = path.read_bytes(), {True: 0, False: 0}
    for _ in range(8 if kind == "nc" else 30):
        path.write_bytes(mutated(draw, whole, b',;\t:"\n\r{}[]\\\xff\xc3 0-eN'))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                made = norn.Dataset.from_netcdf(path) if kind == "nc" else norn.Dataset.from_table(path, *columns, **options)
                assert made.matrix.shape == made.shape and np.isfinite(made.matrix.data).all()
                met[True] += 1
            except norn.Error as error:
                assert str(error)
                met[False] += 1
    assert met[False] > 0


def test_random_filters(draw):
    words = ["rating", "user", "item", ">=", "<", "==", "in", "(", ")", ",", "and", "or", "4", "'a b'", '"', "`x`", "2026-01-01", "-1e3",
             "é", "\\", "=", "nan"]
    table = pa.table(random_table(draw, 6, 6, 20))
    for _ in range(400):
        text = (" " if draw.random() < 0.8 else "").join(draw.choice(words, int(draw.integers(1, 8))))
        try:
            parse(text)
            norn.Dataset.from_table(table, "user", "item", where=text)
        except norn.Error as error:
            assert str(error)
