# SPDX-License-Identifier: Apache-2.0
"""Files that people have: JSON lines, RecBole's, MovieLens', SciPy's, folders, packed ones; and splits by time."""
import bz2
import datetime
import gzip
import json
import lzma
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from tables import checksum, random_table, run_importer, write_csv

import norn
from norn import cli
from norn.data.columns import ArrayColumn, Table
from norn.data.text import found_name
from norn.data.times import parse_times, times_of

import pyarrow as pa


def triples(data):
    """What a data set holds, by name."""
    matrix = data.matrix.tocoo()
    return sorted((data.example_labels[row], data.feature_labels[column], float(value))
                  for row, column, value in zip(matrix.row, matrix.col, matrix.data))


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_json_lines_of_lists_and_of_pairs(tmp_path):
    baskets = [{"user": "ann", "items": ["soap", "2026-01-01"], "w": [1.5, 2]}, {"user": "bob", "items": ["tea"], "w": [3]}]
    nested = lines(tmp_path / "nested.jsonl", baskets)
    pairs = lines(tmp_path / "pairs.jsonl", [{"user": row["user"], "item": item, "w": w} for row in baskets
                                             for item, w in zip(row["items"], row["w"])])
    a = norn.Dataset.from_table(nested, "user", "items", "w")
    b = norn.Dataset.from_table(pairs, "user", "item", "w")
    assert triples(a) == triples(b) == [("ann", "2026-01-01", 2), ("ann", "soap", 1.5), ("bob", "tea", 3)]
    assert a.feature_labels == ["soap", "2026-01-01", "tea"]
    assert triples(norn.Dataset.from_table(nested, "user", "items", where="w > 1.5")) == [("ann", "2026-01-01", 1), ("bob", "tea", 1)]


def test_structures_in_lists_are_named_by_dots(tmp_path):
    sessions = [{"session": 5, "events": [{"aid": 1, "type": "view", "ts": 10}, {"aid": 2, "type": "buy", "ts": 30}]},
                {"session": 7, "events": [{"aid": 2, "type": "buy", "ts": 20}]}]
    path = lines(tmp_path / "s.jsonl", sessions)
    data = norn.Dataset.from_table(path, "session", "events.aid", where="events.type == buy", time="events.ts")
    assert triples(data) == [("5", "2", 1), ("7", "2", 1)]
    data = norn.Dataset.from_table(path, "session", "events.aid", time="events.ts", split="time:25", split_by="entry")
    assert triples(data.train) == [("5", "1", 1), ("7", "2", 1)] and data.test.targets.nnz == 1
    with pytest.raises(norn.UsageError, match="holds structures; name one of their fields: events.aid"):
        norn.Dataset.from_table(path, "session", "events")


def test_lists_that_do_not_fit_are_named(tmp_path):
    with pytest.raises(norn.DataError, match=r"row 1 \(from 0\) has 1 elements in \"items\" and 2 in \"w\""):
        norn.Dataset.from_table(lines(tmp_path / "a.jsonl",
                                      [{"u": "a", "items": ["x"], "w": [1]}, {"u": "b", "items": ["x"], "w": [1, 2]}]), "u", "items", "w")
    empty = lines(tmp_path / "b.jsonl", [{"u": "a", "items": ["x"]}, {"u": "b", "items": []}])
    with pytest.raises(norn.DataError, match=r"row 1 \(from 0\) has no features.*`empty_rows` drop"):
        norn.Dataset.from_table(empty)
    assert norn.Dataset.from_table(empty, empty_rows="drop").example_labels == ["a"]
    with pytest.raises(norn.DataError, match="b.jsonl.*row 2"):
        norn.Dataset.from_table(lines(tmp_path / "b.jsonl", [{"u": "a", "i": "x"}, {"u": "b", "i": "x"}, {"u": "c", "i": 4}]))
    (tmp_path / "c.jsonl").write_text('{"u": "a", "i": "x"}\n{"u": "b", \n')
    with pytest.raises(norn.DataError, match="c.jsonl"):
        norn.Dataset.from_table(tmp_path / "c.jsonl")
    (tmp_path / "d.jsonl").write_text("\n")
    with pytest.raises(norn.DataError, match="holds no lines"):
        norn.Dataset.from_table(tmp_path / "d.jsonl")


RATINGS = [(1, 10, 5, 978300760), (1, 20, 3, 978302109), (2, 10, 4, 978301968), (2, 30, 1, 978300275), (3, 20, 4, 978824291)]
LIKED = [("1", "10", 1), ("2", "10", 1), ("3", "20", 1)]


def movielens(folder):
    def written(name, text):
        (folder / name).write_text(text)
        return folder / name

    return [
        written("ratings.csv", "userId,movieId,rating,timestamp\n" + "".join("{},{},{}.0,{}\n".format(*row) for row in RATINGS)),
        written("ratings.dat", "".join("::".join(map(str, row)) + "\n" for row in RATINGS)),
        written("u.data", "".join("\t".join(map(str, row)) + "\n" for row in RATINGS)),
        written("u1.base", "".join("\t".join(map(str, row)) + "\n" for row in RATINGS)),
        written("ml.inter", "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
                + "".join("\t".join(map(str, row)) + "\n" for row in RATINGS)),
    ]


def test_files_of_movielens_and_recbole_need_no_names(tmp_path, caplog):
    for path in movielens(tmp_path):
        assert triples(norn.Dataset.from_table(path, where="rating >= 4")) == LIKED, path
        assert len(triples(norn.Dataset.from_table(path))) == 5, path
        last = norn.Dataset.from_table(path, split="leave-last-out").test
        assert {last.feature_labels[i] for i in last.targets.indices} == {"20", "10"} and len(last) == 2, path
        assert "2 of 2 entries held out are older than the newest of training, which knows what came later" in caplog.text, path
        caplog.clear()
        rated = norn.Dataset.from_table(path, value="rating")
        assert triples(rated)[0] == ("1", "10", 5) and not rated.indicator, path


def test_movielens_files_make_the_bytes_that_the_importer_makes(programs, tmp_path):
    table, *others = movielens(tmp_path)
    by = checksum(run_importer(programs, table, tmp_path / "by.nc"))
    for path in (table, *others):
        norn.Dataset.from_table(path, name="shop").to_netcdf(tmp_path / "made.nc")
        assert checksum(tmp_path / "made.nc") == by, path


def test_a_folder_is_read_in_the_order_of_its_files(draw, programs, tmp_path):
    import pyarrow.parquet as parquet

    table = random_table(draw)
    third = len(table["user"]) // 3
    whole = write_csv(tmp_path / "t.csv", table)
    for kind in ("csv", "parquet", "gz", "jsonl"):
        folder = tmp_path / kind
        folder.mkdir()
        for part in range(3):
            rows = {name: column[part * third: (part + 1) * third if part < 2 else None] for name, column in table.items()}
            name = folder / f"part-{part}"
            if kind == "parquet":
                parquet.write_table(pa.table(rows), f"{name}.parquet")
            elif kind == "jsonl":
                lines(name.with_suffix(".jsonl"), [dict(zip(rows, row)) for row in zip(*rows.values())])
            else:
                write_csv(f"{name}.csv{'.gz' if kind == 'gz' else ''}", rows, opener=gzip.open if kind == "gz" else open)
    by = checksum(run_importer(programs, whole, tmp_path / "by.nc", "--example-column", "user", "--feature-column", "item"))
    for kind in ("csv", "parquet", "gz", "jsonl"):
        for where in (None, "rating >= -100"):
            norn.Dataset.from_table(tmp_path / kind, "user", "item", where=where, name="shop").to_netcdf(tmp_path / "made.nc")
            assert checksum(tmp_path / "made.nc") == by, (kind, where)


def test_files_that_are_cut_off_or_of_another_format_are_named(draw, tmp_path):
    import pyarrow.parquet as parquet

    table = random_table(draw)
    write_csv(tmp_path / "t.csv.gz", table, opener=gzip.open)
    write_csv(tmp_path / "t.csv.xz", table, opener=lzma.open)
    parquet.write_table(pa.table(table), tmp_path / "t.parquet")
    sp.save_npz(tmp_path / "t.npz", sp.csr_matrix(np.eye(50)))
    for path in sorted(tmp_path.iterdir()):
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) * 2 // 3])
        for where in (None,) if path.suffix == ".npz" else (None, "rating > 0"):
            with pytest.raises(norn.DataError, match=f"{path.name}: "):
                norn.Dataset.from_table(path, *(() if path.suffix == ".npz" else ("user", "item")), where=where)
    for name in ("t.parquet", "t.npz", "t.feather", "t.csv.gz", "t.csv", "t.jsonl"):
        (tmp_path / name).write_bytes(b"\x00\x01 this is none of them \xff\n")
        with pytest.raises(norn.DataError, match=name):
            norn.Dataset.from_table(tmp_path / name)
    with pytest.raises(norn.DataError, match="missing.parquet: no such file"):
        norn.Dataset.from_table(tmp_path / "missing.parquet", "a", "b")
    (tmp_path / "empty").mkdir()
    with pytest.raises(norn.DataError, match="the folder has no files"):
        norn.Dataset.from_table(tmp_path / "empty")


def test_columns_of_text_have_names_or_numbers_from_1(draw, tmp_path):
    rows = [(f"u{draw.integers(9)}", f"i{draw.integers(9)}", float(draw.integers(1, 40)) / 8) for _ in range(30)]
    places = draw.permutation(4)  # of user, item, value, and a column that nobody wants
    names = [["user", "item", "stars", "7"][place] for place in places]
    path = tmp_path / "columns.csv"
    path.write_text("".join(",".join(str((*row, "x")[place]) for place in places) + "\n"
                            for row in [("user", "item", "stars"), *rows]).replace("x", "7", 1))
    user, item, stars = (str(names.index(name) + 1) for name in ("user", "item", "stars"))
    named = norn.Dataset.from_table(path, "user", "item", "stars", duplicates="sum")
    assert triples(norn.Dataset.from_table(path, user, item, stars, duplicates="sum")) == triples(named)
    with pytest.raises(norn.DataError, match="has 4 columns, column 5 is wanted"):
        norn.Dataset.from_table(path, "5", item)
    with pytest.raises(norn.UsageError, match="column 0: columns are numbered from 1"):
        norn.Dataset.from_table(path, "0", item)


def test_tables_of_two_columns_beside_a_time_need_no_names():
    days = ["2026-01-02", "2026-01-03"]
    for time in ("timestamp", "time"):
        columns = {time: days, "basket": ["a", "b"], "thing": ["x", "y"]}
        assert triples(norn.Dataset.from_table(pa.table(columns))) == [("a", "x", 1), ("b", "y", 1)]
        with pytest.raises(norn.UsageError, match="which column has the examples"):
            norn.Dataset.from_table(pa.table(columns | {"shop": ["p", "q"]}))
        with pytest.raises(norn.UsageError, match="which column has the examples"):
            norn.Dataset.from_table(pa.table({"shop": ["p", "q"], **{name: columns[name] for name in ("basket", "thing")}}))


def test_labels_of_old_files_that_are_not_utf8_are_kept(tmp_path):
    """Text with such labels is refused now; data and models that were made of some open, train and recommend as they did."""
    data = norn.Dataset(sp.csr_matrix(np.tri(4, 2, dtype=np.float32)), feature_labels=["caf\udce9", "tea"], name="shop")
    data.to_netcdf(tmp_path / "old.nc")
    read = norn.Dataset.from_netcdf(tmp_path / "old.nc")
    assert read.feature_labels == data.feature_labels == ["caf\udce9", "tea"]
    norn.Recommender(epochs=1, hidden=2, seed=1).fit(read).save(tmp_path / "model.nc")
    assert norn.load(tmp_path / "model.nc").recommend(["tea"], N=1)[0][0] == "caf\udce9"


def test_text_that_is_not_utf8_is_named(tmp_path):
    (tmp_path / "old.csv").write_bytes("ann,caf\xe9,1\nbob,tea,2\n".encode("latin-1"))
    with pytest.raises(norn.DataError, match=r'old.csv:1: "caf\\xe9": the byte 0xe9 is no UTF-8; convert the text first, for example '
                                             'with iconv -f latin1 -t utf-8, or pass over malformed lines with `skip_malformed` N'):
        norn.Dataset.from_table(tmp_path / "old.csv", name="shop")
    for path, options in ((tmp_path / "old.csv", dict(where="3 > 0", header="no")), (tmp_path / "old.jsonl", {})):
        if path.suffix == ".jsonl":
            path.write_bytes(b'{"u": "a", "i": "x"}\n{"u": "b", "i": "caf\xe9"}\n')
        with pytest.raises(norn.DataError, match=r"old\.\w+:\d: the byte 0xe9 is no UTF-8"):
            norn.Dataset.from_table(path, **options)
    (tmp_path / "old.txt").write_bytes(b"ann\tsoap\nbob\ttea\ncaf\xe9\ttea\n")
    with pytest.raises(norn.DataError, match="old.txt:3: .* is no UTF-8") as caught:
        norn.Dataset.from_table(tmp_path / "old.txt")
    assert caught.value.problems[0]["line"] == 3
    bad = pa.Array.from_buffers(pa.string(), 2, [None, pa.array([0, 1, 2], pa.int32()).buffers()[1], pa.py_buffer(b"a\xe9")])
    with pytest.raises(norn.DataError, match='column "u" holds text that is not UTF-8'):
        norn.Dataset.from_table(pa.table({"u": bad, "i": ["x", "y"]}), "u", "i")


def test_npz_is_a_matrix(tmp_path):
    matrix = sp.csr_matrix(np.arange(12, dtype=np.float32).reshape(3, 4))
    for kind in (matrix, matrix.tocsc(), matrix.tocoo()):
        sp.save_npz(tmp_path / "m.npz", kind)
        assert (norn.Dataset.from_table(tmp_path / "m.npz").matrix != matrix).nnz == 0
    with pytest.raises(norn.UsageError, match="m.npz: `where` does not go with .npz, which has a matrix; leave it out"):
        norn.Dataset.from_table(tmp_path / "m.npz", where="x > 1")


def times_as(kind, seconds):
    moments = [datetime.datetime.fromtimestamp(second, datetime.timezone.utc) for second in seconds]
    return {"s": seconds, "ms": [second * 1000 for second in seconds], "float": [second + 0.25 for second in seconds],
            "text": [moment.isoformat() for moment in moments], "stamp": pa.array(moments, pa.timestamp("ms", "UTC")),
            "naive": pa.array([moment.replace(tzinfo=None) for moment in moments], pa.timestamp("ns")), "objects": moments}[kind]


@pytest.mark.parametrize("kind", [int, float])
def test_numbers_are_the_times_that_their_texts_are(draw, kind):
    """Seconds or milliseconds: 10^11 parts them."""
    numbers = [sign * number for number in (0, 10**11 - 1, 10**11, 10**11 + 1, *draw.integers(0, 9 * 10**12, 20).tolist())
               for sign in (1, -1)]
    texts, known = parse_times([str(number) for number in numbers])
    assert known.all()
    table = Table({"when": ArrayColumn("when", np.array(numbers, dtype=kind))}, len(numbers), "table")
    assert times_of(table, "when").tolist() == texts.tolist()


def test_columns_without_names_are_called_by_their_number():
    names = ["a", "b", "c"]
    assert [found_name(str(number), names, True) for number in range(5)] == ["0", "a", "b", "c", "4"]
    assert found_name("2", names, False) == "2" and found_name("2", ["2", "b"], True) == "2"


@pytest.mark.parametrize("split, rule", [("time:2022-05-01/2023-01-01T12:30", "error"), ("time:20220501", "sum"),
                                         ("leave-last-out", "error"), ("leave-last-out", "first")])
def test_splits_by_time_are_those_of_the_importer(draw, split, rule, programs, tmp_path):
    """Whatever the times are, and in whatever order the rows come."""
    table = random_table(draw, 20, 30, 250)
    border = int(datetime.datetime(2022, 5, 1, tzinfo=datetime.timezone.utc).timestamp())
    table["when"] = [when // 5_000_000 * 5_000_000 for when in table["when"]]  # some at the same time
    table["when"][:2] = border, border - 1
    if rule != "error":
        more = draw.integers(0, 250, 100)
        table = {name: column + [column[i] for i in more] for name, column in table.items()}
        table["rating"] = [float(np.float32(x)) for x in draw.normal(size=350)]
        table["when"][250:] = draw.integers(1_640_000_000, 1_660_000_000, 100).tolist()
    words = ("--example-column", "user", "--feature-column", "item", "--type", "analog", "--value-column", "rating", "--time-column",
             "when", "--split", split,
             "--duplicates", rule)

    def compare(data, by, what):
        data.to_netcdf(tmp_path / "made.nc")
        for part in data.parts:
            assert checksum(tmp_path / f"made.{part}.nc") == checksum(tmp_path / f"{by}.{part}.nc"), (part, what)

    for by, kinds in (("whole", ("s", "ms", "text", "stamp", "naive", "objects")), ("fraction", ("float",))):
        written = table | {"when": times_as(kinds[0], table["when"])}
        write_csv(tmp_path / f"{by}.csv", written)
        run_importer(programs, tmp_path / f"{by}.csv", tmp_path / f"{by}.nc", *words)
        for kind in kinds:
            source = pa.table(table | {"when": times_as(kind, table["when"])})
            for one in (source, source.take(draw.permutation(source.num_rows))):
                compare(norn.Dataset.from_table(one, "user", "item", "rating", time="when", split=split, duplicates=rule, name="shop"), by,
                        kind)
        compare(norn.Dataset.from_table(tmp_path / f"{by}.csv", "user", "item", "rating", time="when", split=split, duplicates=rule,
                                        name="shop"), by, "csv")
        if rule == "error":
            compare(norn.Dataset.from_table(source, "user", "item", "rating", time="when", name="shop").split(split), by,
                    "split afterwards")


@pytest.mark.parametrize("split, message", [
    ("time:2026-02-30", "time:2026-02-30: expected ratio"), ("time:tomorrow", "time:tomorrow: expected"), ("time:", "time:: expected"),
    ("time:2023-01-01/2022-01-01", "the earlier first"), ("time:1/2/3", "expected one time"),
    ("time:2030-01-01", "are left for the test part"), ("time:1990-01-01", "are left for the train part"),
    ("leave-last", 'Did you mean "leave-last-out"'),
])
def test_wrong_dates_are_named(split, message):
    table = pa.table(random_table(np.random.default_rng(3)))
    with pytest.raises((norn.UsageError, norn.DataError), match=message):
        norn.Dataset.from_table(table, "user", "item", time="when", split=split)


def test_a_given_index_numbers_features_and_leaves_out_others(draw, programs, tmp_path):
    train, test = random_table(draw, 30, 20, 150), random_table(draw, 30, 25, 150)
    write_csv(tmp_path / "train.csv", train)
    write_csv(tmp_path / "test.csv", test)
    words = ("--example-column", "user", "--feature-column", "item", "--features", tmp_path / "index")
    run_importer(programs, tmp_path / "train.csv", tmp_path / "a.nc", *words)
    run_importer(programs, tmp_path / "test.csv", tmp_path / "by.nc", *words)
    known = norn.Dataset.from_table(pa.table(train), "user", "item")
    data = norn.Dataset.from_table(pa.table(test), "user", "item", features=known, name="shop")
    data.to_netcdf(tmp_path / "made.nc")
    assert checksum(tmp_path / "made.nc") == checksum(tmp_path / "by.nc")
    assert data.left_out == sum(item not in set(train["item"]) for item in test["item"]) and data.feature_labels == known.feature_labels


TEXTS = {"baskets.txt": "ann\tsoap,2:tea,3\nbob\ttea,1.5\n", "one.txt": "ann\tsoap\nbob\ttea\n", "liked.txt": "1 10 20\n2 10\n",
         "x.libsvm": "1,2 3:1.5 4:2\n2 3:1\n",
         "header.csv": "user,item,rating\nann,soap,2\nbob,tea,3\n", "none.tsv": "ann\tsoap\nbob\ttea\n",
         "comma.txt": "ann,soap,1\nbob,tea,2\n"}


@pytest.mark.parametrize("name", TEXTS)
def test_packed_text_is_read_as_the_text(name, tmp_path, capsys, monkeypatch):
    """All formats, by any program: the bytes of the file that was packed."""
    monkeypatch.setattr("norn.importing.run_instead", lambda *words: pytest.fail(f"importer cannot unpack: {words}"))
    (tmp_path / name).write_text(TEXTS[name])
    plain = norn.Dataset.from_table(tmp_path / name)
    plain.to_netcdf(tmp_path / "by.nc", name="shop")
    for ending, packed in (("bz2", bz2.compress), ("xz", lzma.compress), ("zst", lambda data: pa.compress(data, "zstd", asbytes=True)),
                           ("gz", gzip.compress)):
        path = tmp_path / f"{name}.{ending}"
        path.write_bytes(packed(TEXTS[name].encode()))
        norn.Dataset.from_table(path, name="shop").to_netcdf(tmp_path / "made.nc")
        assert checksum(tmp_path / "made.nc") == checksum(tmp_path / "by.nc"), ending
        if ending != "gz":  # which importer reads itself
            assert cli.main(["import", str(path), "--name", "shop", "--output", str(tmp_path / "said.nc")]) == 0, capsys.readouterr().err
            assert checksum(tmp_path / "said.nc") == checksum(tmp_path / "by.nc"), ending


def test_a_folder_of_packed_text_is_read_in_the_order_of_its_files(tmp_path):
    for folder in ("plain", "packed"):
        (tmp_path / folder).mkdir()
    for number in range(3):
        text = f"user{number}\tsoap:item{number}\n"
        (tmp_path / "plain" / f"{number}.txt").write_text(text)
        (tmp_path / "packed" / f"{number}.txt.{'xz' if number else 'gz'}").write_bytes((lzma if number else gzip).compress(text.encode()))
    data = [norn.Dataset.from_table(tmp_path / folder) for folder in ("plain", "packed")]
    assert triples(data[0]) == triples(data[1]) and data[1].feature_labels == ["soap", "item0", "item1", "item2"]
    (tmp_path / "packed" / "2.txt.xz").write_bytes(lzma.compress(b"user0\tsoap\n"))
    with pytest.raises(norn.DataError, match=r"packed/2\.txt\.xz:1: example \"user0\" has been on an earlier line") as caught:
        norn.Dataset.from_table(tmp_path / "packed")
    assert caught.value.problems[0]["file"] == str(tmp_path / "packed" / "2.txt.xz")


def test_filters_are_not_for_text_without_columns(tmp_path):
    for name in ("baskets.txt", "liked.txt"):
        (tmp_path / name).write_text(TEXTS[name])
        for path in (tmp_path / name, tmp_path / f"{name}.xz"):
            path.write_bytes(lzma.compress(TEXTS[name].encode()) if path.suffix == ".xz" else TEXTS[name].encode())
            with pytest.raises(norn.UsageError, match=f"{path.name}: (dsstne|list) text has no columns"):
                norn.Dataset.from_table(path, where="2 != x")


@pytest.mark.parametrize("text, options, warned", [
    ("user_id,item_id\n1,10\n2,10\n", {}, True), ("userId,movieId\nann,soap\n", {}, True), ("who,what\nann,1\nbob,2\n", {}, True),
    ("User,Item,title\n1,10,x\n", {}, True),
    ("user_id,item_id\n1,10\n2,10\n", {"header": "yes"}, False), ("user_id,item_id\n1,10\n2,10\n", {"header": "no"}, False),
    ("user_id,item_id\n1,10\n2,10\n", {"example": "user_id"}, False), ("user_id,item_id,n\n1,10,3\n", {}, False),
    ("ann,soap\nbob,tea\n", {}, False), ("ann,7\nbob,8\n", {}, False), ("1,10\n2,10\n", {}, False),
    ("ann,soap\nbob,5\ncleo,tea\n", {}, False), ("user,soap\n", {}, False),
    (" Users ,MOVIE title\nann,soap\n", {}, True), ("users id,items\n7,soap\n", {}, True), ("userx,item\nann,soap\n", {}, False),
    ("a,b\n" + "".join(f"x,{n}\n" for n in range(18)) + "x,y\n", {}, False),
    ("buyer,sku\nu1,p7\nu2,p8\nu3,p7\n", {}, True), ("buyer,sku\nu1,soap\nu1,tea\nu13,milk\n", {}, True),
    ("buyer,sku\nann,p7\nbob,p12\nann,p9\n", {"header": "no"}, False), ("buyer,sku\nu1,p7\nu2,p8\nu3,p7\n", {"header": "yes"}, False),
    ("ann,soap\nu1,tea\nu2,milk\n", {}, False), ("ann,soap\nu1,tea\nu2,milk\nu3,soap\n", {}, False),
    ("ann,p0\nu1,p1\nu2,p2\nu3,p3\n", {}, False), ("buyer,sku\nu1,p7\nv2,q8\nu3,p7\n", {}, False),
    ("ann,soap\n" + "".join(f"u{n},i{n}\n" for n in range(30)) + "u99,soap\n", {}, False),
    ("buyer,soap\n" + "".join(f"u{n},i{n}\n" for n in range(30)) + "u99,tea\n", {}, True),
    ("ann,soap,fresh\nbob,tea,5\nann,tea,3\n", {}, "ann"), ("ann,soap,fresh\nbob,soap,5\n", {}, "soap"),
    ("ann,soap,fresh\nbob,tea,5\n", {}, False),
    ("ann,soap,fresh\nbob,tea,5\nann,tea,3\n", {"header": "yes"}, False),
    ("ann,soap,fresh\nbob,tea,5\nann,tea,3\n", {"header": "no"}, False),
])
def test_a_first_line_that_is_taken_for_what_it_may_not_be_is_said(text, options, warned, programs, tmp_path, caplog):
    """Names for data and data for names, by importer and by either reader, in the same words."""
    names = "t.csv", "t.txt", "t.dat"
    for name in names:
        (tmp_path / name).write_text(text.replace(",", ";") if name == "t.dat" else text)
    words = [f"--{name}{'-column' if name == 'example' else ''}={value}" for name, value in options.items()]
    by = checksum(run_importer(programs, tmp_path / "t.csv", tmp_path / "by.nc", *words))
    first = ", ".join(text.split("\n")[0].split(",")[:2])
    data = f"taken as data: {first}; say with `header` yes that it names the columns, or no, that it does not"
    kind = "an example" if warned == "ann" else "a feature"
    other = f"taken for the names of columns: {first}, but \"{warned}\" is {kind} of other lines, too; "
    asked = "say with `header` no that it is data, or yes, that it is not"
    said = f"the first line is {data}" if warned is True else f"the first line is {other}{asked}"
    for name in names:
        caplog.clear()
        data = norn.Dataset.from_table(tmp_path / name, name="shop", **options)
        data.to_netcdf(tmp_path / "made.nc")
        assert checksum(tmp_path / "made.nc") == by, name
        assert [record.getMessage() for record in caplog.records] == ([f"{tmp_path / name}: {said}"] if warned else [])
    done = subprocess.run([programs / "importer", "--input", tmp_path / "t.txt", "--name", "shop", "--output", tmp_path / "made.nc", "-q",
                           *words],
                          capture_output=True, text=True, check=True)
    assert done.stderr == (f"importer: warning: {tmp_path / 't.txt'}: {said}\n".replace("`header`", "--header") if warned else "")
    assert checksum(tmp_path / "made.nc") == by


def test_words_over_values_of_one_form_are_said_whatever_they_are(draw, tmp_path, caplog):
    def word(most):
        return "".join(draw.choice(list("abcdefghijkmäöü_"), int(draw.integers(1, most))))
    prefix, other = (word(4) if draw.integers(2) else "" for _ in "ab")
    names = [f"{word(9)}x", f"{word(9)}y"]
    rows = [[f"{prefix}{draw.integers(10**6)}", f"{other}{draw.integers(40)}" if draw.integers(2) else f"{word(9)}z"]
            for _ in range(int(draw.integers(3, 60)))]
    (tmp_path / "t.csv").write_text("".join(",".join(row) + "\n" for row in [names, *rows]), encoding="utf-8")
    norn.Dataset.from_table(tmp_path / "t.csv", name="shop", duplicates="first")
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path / 't.csv'}: the first line is taken as data: {names[0]}, {names[1]}; say with `header` yes that it names the "
        "columns, or no, that it does not"]
    caplog.clear()
    (tmp_path / "t.csv").write_text("".join(",".join(row) + "\n" for row in [rows[0], *rows]), encoding="utf-8")
    norn.Dataset.from_table(tmp_path / "t.csv", name="shop", duplicates="first")
    assert not caplog.records


def test_an_index_that_is_no_utf8_is_refused_with_its_line(programs, tmp_path):
    (tmp_path / "t.txt").write_text("ann,soap\nbob,tea\n")
    (tmp_path / "t.csv.xz").write_bytes(lzma.compress(b"ann,soap\nbob,tea\n"))
    index = tmp_path / "old.index"
    index.write_bytes("soap\t0\ncafé\t1\n".encode("latin1"))
    for command in ([programs / "importer", "--input", tmp_path / "t.txt"],
                    [programs / "importer", "--samples", index, "--features", tmp_path / "none", "--input", tmp_path / "t.txt"],
                    [sys.executable, "-B", "-m", "norn", "import", tmp_path / "t.csv.xz"]):
        words = [] if "--samples" in command else ["--features", index]
        done = subprocess.run([*command, *words, "--name", "shop", "--output", tmp_path / "a.nc", "-q"], capture_output=True, text=True)
        assert done.returncode == 3 and not (tmp_path / "a.nc").exists()
        assert done.stderr.split(": error: ")[1] == (f'{index}:2: "caf\\xe9": the byte 0xe9 is no UTF-8; convert the index first, for '
                                                     "example with iconv -f latin1 -t utf-8\n")


def test_norn_import_says_that_it_takes_names_for_data(tmp_path):
    for name, packed, called in (("t.csv", bytes, "norn import"), ("t.csv.xz", lzma.compress, "norn"), ("t.txt", bytes, "norn import")):
        (tmp_path / name).write_bytes(packed(b"user_id,item_id\n1,10\n2,10\n"))
        for words, said in (((), True), (("--header", "no"), False)):
            done = subprocess.run([sys.executable, "-B", "-m", "norn", "import", tmp_path / name, "--name", "shop", "--output",
                                   tmp_path / "a.nc", "-q", *words],
                                  capture_output=True, text=True, check=True)
            assert done.stderr == (f"{called}: warning: {tmp_path / name}: the first line is taken as data: user_id, item_id; say with "
                                   "--header yes that it names the columns, or no, that it does not\n" if said else "")


def test_examples_without_any_given_feature_are_said_dropped_or_kept(draw, tmp_path, caplog):
    table = random_table(draw, 30, 20, 90, odd=False)
    known = sorted(set(table["item"]))[::3]
    users = list(dict.fromkeys(user for user, rating in zip(table["user"], table["rating"]) if rating > -4))
    lost = [user for user in users if not any(u == user and item in known and r > -4
                                              for u, item, r in zip(table["user"], table["item"], table["rating"]))]
    write_csv(tmp_path / "t.csv", table)
    for source in (pa.table(table), tmp_path / "t.csv"):
        read = {}
        for rule in ("error", "drop", "keep"):
            caplog.clear()
            read[rule] = norn.Dataset.from_table(source, "user", "item", where="rating > -4", features=known, empty_rows=rule)
            said = [record.getMessage().split(": ", 1)[1].split(",")[0] for record in caplog.records]
            assert said == ([f"{len(lost)} examples have none of the features given and are left out"] if lost and rule == "error" else [])
        assert read["keep"].example_labels == users and read["keep"].shape == (len(users), len(known))
        assert read["drop"].example_labels == read["error"].example_labels and set(read["drop"].example_labels) == set(users) - set(lost)
        assert triples(read["keep"]) == triples(read["drop"]) and len({data.left_out for data in read.values()}) == 1
    empty = lines(tmp_path / "b.jsonl", [{"u": "a", "items": ["x"]}, {"u": "b", "items": []}])
    with pytest.raises(norn.DataError, match=r"row 1 \(from 0\) has no features"):  # keep is for the features given
        norn.Dataset.from_table(empty, features=["x"], empty_rows="keep")
