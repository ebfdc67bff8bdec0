# SPDX-License-Identifier: Apache-2.0
"""One table, whatever it comes as, makes the file that importer makes of it in CSV."""
import bz2
import gzip
import json
import lzma
import subprocess
import sys

import numpy as np
import pytest
from tables import as_columns, checksum, chosen, random_table, run_importer, write_csv

import norn

import pyarrow as pa
COLUMNS = dict(example="user", feature="item")


def arrow_of(table):
    return pa.table(table)


def every_kind(table, folder):
    """The table as each kind of source, by name."""
    import duckdb
    import pandas
    import polars
    import pyarrow.feather as feather
    import pyarrow.parquet as parquet

    arrow = arrow_of(table)
    frame = pandas.DataFrame(table)
    parquet.write_table(arrow, folder / "t.parquet", row_group_size=17)
    feather.write_feather(arrow, folder / "t.feather")
    with open(folder / "t.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(dict(zip(table, row))) + "\n" for row in zip(*table.values()))
    write_csv(folder / "t.csv", table)
    write_csv(folder / "semi.txt", table, ";")
    write_csv(folder / "t.csv.gz", table, opener=gzip.open)
    write_csv(folder / "t.csv.bz2", table, opener=bz2.open)
    write_csv(folder / "t.csv.xz", table, opener=lzma.open)
    half = len(table["user"]) // 2
    return {
        "pandas": frame, "categories": frame.astype({"user": "category", "item": "category"}), "strings": frame.astype({"user": "string"}),
        "polars": polars.DataFrame(table), "duckdb": duckdb.sql("select * from frame"), "arrow": arrow,
        "chunks": pa.concat_tables([arrow.slice(0, half), arrow.slice(half)]), "arrays": as_columns(table), "lists": table,
        **{path.name: path for path in sorted(folder.glob("*.*")) if path.suffix != ".nc"},
    }


@pytest.mark.parametrize("round", range(4))
def test_every_source_gives_the_bytes_of_the_importer(draw, round, programs, tmp_path):
    table = random_table(draw, int(draw.integers(1, 60)), int(draw.integers(2, 60)), int(draw.integers(1, 400)))
    value = "rating" if round % 2 else None
    words = ["--example-column", "user", "--feature-column", "item"] + (["--type", "analog", "--value-column", "rating"] if value else [])
    sources = every_kind(table, tmp_path)
    expected = checksum(run_importer(programs, tmp_path / "t.csv", tmp_path / "by.nc", *words))
    for kind, source in sources.items():
        data = norn.Dataset.from_table(source, **COLUMNS, value=value, name="shop", header="yes" if kind.startswith("semi") else "auto")
        data.to_netcdf(tmp_path / "made.nc")
        assert checksum(tmp_path / "made.nc") == expected, kind


def test_numbers_as_labels_and_columns_by_number(draw, programs, tmp_path):
    table = {"item": draw.permutation(50).tolist() * 3, "user": np.repeat(draw.permutation(3) - 1, 50).tolist()}
    write_csv(tmp_path / "t.csv", table)
    run_importer(programs, tmp_path / "t.csv", tmp_path / "by.nc", "--example-column", "2", "--feature-column", "1", "--header", "yes")
    for source in (tmp_path / "t.csv", arrow_of(table), table):
        by = dict(example=2, feature=1, header="yes") if source is not table and not isinstance(source, pa.Table) else COLUMNS
        norn.Dataset.from_table(source, **by, name="shop").to_netcdf(tmp_path / "made.nc")
        assert checksum(tmp_path / "made.nc") == checksum(tmp_path / "by.nc")


@pytest.mark.parametrize("split, by", [("ratio:0.8/0.2", "entry"), ("ratio:5/2/3", "entry"), ("leave-one-out", "entry"),
                                       ("ratio:0.6/0.4", "pair"), ("ratio:0.5/0.25/0.25", "pair"), ("ratio:0.7/0.2/0.1", "example")])
def test_splits_are_those_of_the_importer(draw, split, by, programs, tmp_path):
    seed = int(draw.integers(0, 2**64, dtype=np.uint64))
    table = random_table(draw, 50, 40, 600)
    write_csv(tmp_path / "t.csv", table)
    for value, words in ((None, []), ("rating", ["--type", "analog", "--value-column", "rating", "--target-type", "analog"])):
        run_importer(programs, tmp_path / "t.csv", tmp_path / "by.nc", "--example-column", "user", "--feature-column", "item", "--split",
                     split, "--split-by", by,
                     "--seed", str(seed), *words)
        data = norn.Dataset.from_table(arrow_of(table), **COLUMNS, value=value, split=split, split_by=by, seed=seed, name="shop")
        files = data.to_netcdf(tmp_path / "made.nc", target_values=value is not None)
        assert len(files) == len(data.parts)
        for part in data.parts:
            assert checksum(tmp_path / f"made.{part}.nc") == checksum(tmp_path / f"by.{part}.nc"), (part, value)


@pytest.mark.parametrize("rule", ["error", "drop", "keep"])
def test_examples_without_a_feature_of_a_given_index_are_those_of_the_importer(draw, rule, programs, tmp_path):
    """Left out, with a warning or without, or rows without entries; also where such lines come first, and in every split."""
    for split in ((), ("--split", "ratio:0.6/0.4"), ("--split", "ratio:0.5/0.2/0.3", "--split-by", "pair"),
                  ("--split", "ratio:0.5/0.5", "--split-by", "example"),
                  ("--split", "leave-one-out"), ("--split", "leave-last-out", "--time-column", "when")):
        table = random_table(draw, int(draw.integers(30, 90)), 40, int(draw.integers(300, 600)), odd=False)
        known = [str(item) for item in draw.permutation(sorted(set(table["item"])))[:13]]
        lost = set(table["user"]) - {user for user, item in zip(table["user"], table["item"]) if item in known}
        write_csv(tmp_path / "t.csv", table)
        (tmp_path / "known").write_text("".join(f"{item}\t{number}\n" for number, item in enumerate(known)))
        done = subprocess.run([programs / "importer", "-i", tmp_path / "t.csv", "-o", tmp_path / "by.nc", "-d", "shop", "-f",
                               tmp_path / "known", "--empty-rows", rule,
                               "--example-column", "user", "--feature-column", "item", *split], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        said = f"{len(lost)} examples have no features that the given index knows and are left out"
        assert (said in done.stderr) == bool(lost and rule == "error")
        assert (f"\n{len(lost)} examples without features\n" in done.stdout) == bool(lost)
        words = dict(zip((word[2:].replace("-", "_") for word in split[::2]), split[1::2]))
        data = norn.Dataset.from_table(arrow_of(table), **COLUMNS, time=words.pop("time_column", None), features=known, empty_rows=rule,
                                       name="shop", **words)
        data.to_netcdf(tmp_path / "made.nc")
        for part in data.parts if split else [None]:
            made, by = (tmp_path / (name if part is None else f"{name}.{part}") for name in ("made", "by"))
            assert checksum(f"{made}.nc") == checksum(f"{by}.nc"), split
        if not split:
            assert set(norn.Dataset.from_netcdf(tmp_path / "by.nc").example_labels) == set(table["user"]) - (lost if rule != "keep"
                                                                                                             else set())


def test_rows_follow_an_index_of_examples_also_where_none_of_their_features_is_known(draw, programs, tmp_path):
    """Of CSV as of text with all of an example on a line."""
    table = random_table(draw, 40, 40, 100, odd=False)
    users = [str(user) for user in draw.permutation(sorted(set(table["user"])))]
    known = [str(item) for item in draw.permutation(sorted(set(table["item"])))[:9]]
    rows = {user: [item for one, item in zip(table["user"], table["item"]) if one == user] for user in users}
    write_csv(tmp_path / "t.csv", table)
    (tmp_path / "t.txt").write_text("".join(f"{user}\t{':'.join(rows[user])}\n" for user in users))
    for name, labels in (("known", known), ("users", users)):
        (tmp_path / name).write_text("".join(f"{label}\t{number}\n" for number, label in enumerate(labels)))
    for source, words in (("t.csv", ["--example-column", "user", "--feature-column", "item"]), ("t.txt", [])):
        run_importer(programs, tmp_path / source, tmp_path / "made.nc", "-f", tmp_path / "known", "-s", tmp_path / "users", "--empty-rows",
                     "keep", *words)
        data = norn.Dataset.from_netcdf(tmp_path / "made.nc")
        assert data.example_labels == users
        for user, begin, end in zip(users, data.matrix.indptr, data.matrix.indptr[1:]):
            assert {known[unit] for unit in data.matrix.indices[begin:end]} == set(rows[user]) & set(known)


@pytest.mark.parametrize("rule", ["sum", "first"])
def test_duplicates_are_merged_with_the_importers_bits(draw, rule, programs, tmp_path):
    """Also where the lines of an example are apart, and some of its duplicates beside each other."""
    for _ in range(4):
        lines = int(draw.integers(3, 300))
        examples = np.repeat(draw.integers(0, 8, lines), draw.integers(1, 5, lines))
        table = {"user": [f"u{n}" for n in examples], "item": [f"i{n}" for n in draw.integers(0, 12, examples.size)],
                 "rating": [float(np.float32(x)) for x in draw.normal(size=examples.size)]}
        write_csv(tmp_path / "t.csv", table)
        run_importer(programs, tmp_path / "t.csv", tmp_path / "by.nc", "--type", "analog", "--duplicates", rule, "--header", "yes")
        norn.Dataset.from_table(arrow_of(table), **COLUMNS, value="rating", duplicates=rule, name="shop").to_netcdf(tmp_path / "made.nc")
        assert checksum(tmp_path / "made.nc") == checksum(tmp_path / "by.nc")


def test_filters_and_cores_are_those_of_the_table_that_is_left(draw, programs, tmp_path):
    """The labels that are left are numbered as if the others had never been there, in interleaved text too."""
    for _ in range(3):
        table = random_table(draw, 30, 25, 300)
        kept = [rating >= -2.5 and when < 1_680_000_000 and user != "NA"
                for user, rating, when in zip(table["user"], table["rating"], table["when"])]
        left = chosen(table, kept)
        while True:  # the definition, one label at a time
            few = {("user", u) for u in left["user"] if left["user"].count(u) < 5} | {("item", i)
                                                                                      for i in left["item"] if left["item"].count(i) < 4}
            if not few:
                break
            left = chosen(left, [("user", u) not in few and ("item", i) not in few for u, i in zip(left["user"], left["item"])])
        where = ["rating >= -2.5 and when < 1680000000", 'user != "NA"']
        write_csv(tmp_path / "all.csv", table)
        sources = [arrow_of(table), table, tmp_path / "all.csv"]
        if not left["user"]:
            with pytest.raises(norn.DataError, match="no entry is left with at least 5 features"):
                norn.Dataset.from_table(sources[0], **COLUMNS, where=where, min_features=5, min_examples=4)
            continue
        write_csv(tmp_path / "left.csv", left)
        run_importer(programs, tmp_path / "left.csv", tmp_path / "by.nc", "--example-column", "user", "--feature-column", "item")
        for source in sources:
            data = norn.Dataset.from_table(source, **COLUMNS, where=where, min_features=5, min_examples=4, name="shop")
            data.to_netcdf(tmp_path / "made.nc")
            assert checksum(tmp_path / "made.nc") == checksum(tmp_path / "by.nc")


@pytest.mark.parametrize("ending, line", [("txt", "{0}\t{1}\n"), ("list", "{0} {2}\n")])
def test_text_that_the_importer_reads_is_read_by_it(draw, ending, line, programs, tmp_path):
    rows = [(f"u{n}", draw.choice(40, int(draw.integers(1, 9)), replace=False)) for n in range(30)]
    path = tmp_path / f"t.{ending}"
    path.write_text("".join(line.format(user, ":".join(f"i{i}" for i in items), " ".join(f"i{i}" for i in items)) for user, items in rows))
    run_importer(programs, path, tmp_path / "by.nc")
    norn.Dataset.from_table(path, name="shop").to_netcdf(tmp_path / "made.nc")
    assert checksum(tmp_path / "made.nc") == checksum(tmp_path / "by.nc")


def test_libsvm_text_has_targets_of_its_own(programs, tmp_path):
    path = tmp_path / "t.svm"
    path.write_text("4,1 0:0.5 3:2\n2 1:1 2:-1.25\n1 0:3\n")
    run_importer(programs, path, tmp_path / "by.nc", "--libsvm-labels", "names")
    data = norn.Dataset.from_table(path, name="shop")
    assert data.matrix.toarray().tolist() == [[0.5, 0, 0, 2], [0, 1, -1.25, 0], [3, 0, 0, 0]]
    assert data.targets.shape == (3, 3) and data.target_labels == ["4", "1", "2"]
    data.to_netcdf(tmp_path / "made.nc")
    assert checksum(tmp_path / "made.nc") == checksum(tmp_path / "by.nc")


@pytest.mark.parametrize("shuffled", [False, True])
def test_columns_of_a_matrix_are_in_order_and_sorted_ones_are_no_copy(draw, shuffled):
    pairs = sorted((user, item) for user in range(20) for item in range(12) if draw.random() < 0.4)
    pairs = draw.permutation(pairs).tolist() if shuffled else pairs
    users, items = zip(*pairs)
    data = norn.Dataset.from_table({"user": np.array(users), "item": np.array(items)}, "user", "item",
                                   features=[str(item) for item in range(12)])
    found = data.matrix
    for begin, end in zip(found.indptr, found.indptr[1:]):
        assert np.all(np.diff(found.indices[begin:end]) > 0)
    assert np.shares_memory(found.indices, data._rows.columns) != shuffled
    rows = {label: number for number, label in enumerate(data.example_labels)}
    assert sorted(zip(*(part.tolist() for part in found.nonzero()))) == sorted((rows[str(user)], item) for user, item in pairs)


def test_without_pyarrow_pandas_and_arrays_give_the_same(draw, tmp_path):
    table = random_table(draw)
    norn.Dataset.from_table(arrow_of(table), **COLUMNS, value="rating", where="when >= 1620000000").to_netcdf(tmp_path / "with.nc")
    write_csv(tmp_path / "t.csv", table)
    code = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] == 'pyarrow':
            raise ImportError(name)
sys.meta_path.insert(0, Missing())
import numpy, pandas, norn
frame = pandas.read_csv(sys.argv[1], dtype={'user': str, 'item': str}, keep_default_na=False)
one = dict(example='user', feature='item', value='rating', where='when >= 1620000000')
strings = frame.astype({'user': 'string', 'item': 'category'})
for name, table in {'pandas': frame, 'strings': strings, 'lists': frame.to_dict('list')}.items():
    norn.Dataset.from_table(table, **one).to_netcdf(sys.argv[2])
    assert open(sys.argv[2], 'rb').read() == open(sys.argv[3], 'rb').read(), name
objects = {'user': numpy.array([4, 2, None, 4], dtype=object), 'item': ['x', 'y', 'x', 'y'], 'kept': [1, 1, 0, 1]}
assert norn.Dataset.from_table(objects, 'user', 'item', where='kept = 1').example_labels == ['4', '2']
norn.Dataset.from_table(sys.argv[1], 'user', 'item')  # the engine reads it
try:
    norn.Dataset.from_table('x.parquet', 'user', 'item')
except norn.UsageError as error:
    assert 'pip install pyarrow' in str(error)
"""
    (tmp_path / "x.parquet").write_bytes(b"")
    subprocess.run([sys.executable, "-c", code, tmp_path / "t.csv", tmp_path / "made.nc", tmp_path / "with.nc"], check=True, cwd=tmp_path)


@pytest.mark.parametrize("kind", ["Categorical", "Enum", "String"])
def test_categories_of_polars_are_text(kind):
    """As labels, in filters and in lists, also in frames of several chunks."""
    import polars

    made = polars.Enum(["ann", "bob", "soap", "tea", "view", "buy"]) if kind == "Enum" else getattr(polars, kind)
    parts = [{"user": ["ann", "bob"], "item": ["tea", "tea"], "event": ["buy", None]},
             {"user": ["bob", "ann"], "item": ["soap", "soap"], "event": ["view", "buy"]}]
    frame = polars.concat([polars.DataFrame(part, schema_overrides=dict.fromkeys(part, made)) for part in parts], rechunk=False)
    data = norn.Dataset.from_table(frame, "user", "item")
    assert data.example_labels == ["ann", "bob"] and data.feature_labels == ["tea", "soap"] and data.entries == 4
    bought = norn.Dataset.from_table(frame, "user", "item", where="event in (buy, other)")
    assert bought.example_labels == ["ann"] and bought.feature_labels == ["tea", "soap"]
    with pytest.raises(norn.DataError, match=r"column \"event\", row 1 \(from 0\): the feature is null"):
        norn.Dataset.from_table(frame, "user", "event")
    lists = frame.group_by("user", maintain_order=True).agg("item")
    data = norn.Dataset.from_table(lists, "user", "item")
    assert data.example_labels == ["ann", "bob"] and data.feature_labels == ["tea", "soap"] and data.entries == 4
