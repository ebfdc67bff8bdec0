# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a table is told with its column, row and value; filters with the place in their text."""
import datetime
import json
import subprocess

import numpy as np
import pytest
import scipy.sparse as sp
from tables import random_table, write_csv

import norn

import pyarrow as pa
GOOD = {"user": ["a", "b", "a"], "item": ["x", "x", "y"], "rating": [1.0, 4.0, 5.0],
        "day": [datetime.date(2026, 1, day) for day in (1, 2, 3)], "ok": [True, False, True]}


def kinds_of(table):
    """The table as Arrow and, where its columns are such, pandas and NumPy have it."""
    import pandas

    yield pa.table(table)
    yield pandas.DataFrame(table)
    yield table


def message_of(table, *columns, error=norn.DataError, **options):
    with pytest.raises(error) as caught:
        norn.Dataset.from_table(table, *columns, **options)
    assert isinstance(caught.value, ValueError) and caught.value.exit_code in (2, 3)
    return str(caught.value)


@pytest.mark.parametrize("columns, message", [
    (("usr", "item"), '`example`: there is no column "usr". Did you mean "user"? There are: user, item, rating, day, ok'),
    (("user", "itm"), '`feature`: there is no column "itm". Did you mean "item"?'),
    (("user", "item", "ratng"), '`value`: there is no column "ratng". Did you mean "rating"?'),
    (("user", "item", None, "date"), '`time`: there is no column "date"'),
])
def test_columns_that_are_not_there(columns, message):
    for table in kinds_of(GOOD):
        time = columns[3] if len(columns) > 3 else None
        assert message in message_of(table, *columns[:3], time=time, error=norn.UsageError), type(table)


def test_columns_must_be_named_where_they_cannot_be_known():
    for table in kinds_of(GOOD):
        assert "Say `example` and `feature`; there are: user, item, rating" in message_of(table, error=norn.UsageError)


@pytest.mark.parametrize("change, message", [
    ({"user": ["a", None, "b"]}, 'column "user", row 1 (from 0): the example is null'),
    ({"item": ["x", "x", None]}, 'column "item", row 2 (from 0): the feature is null'),
    ({"item": ["x", None, None]}, 'column "item", row 1 (from 0): the feature is null'),
    ({"item": ["x", "", "y"]}, 'column "item", row 1 (from 0): the feature has no name'),
    ({"user": [1.0, 2.5, 3.0]},
     'column "user" (example) holds float data; labels are text or whole numbers: convert it, for example with .astype("int64")'),
    ({"user": [True, False, True]}, 'column "user" (example) holds boolean data'),
    ({"user": GOOD["day"]}, 'column "user" (example) holds '),
    ({"rating": [1.0, float("nan"), 2.0]}, "row 1 (from 0): the value is n"),  # NaN; null in Arrow, which pandas makes of it
    ({"rating": [1.0, float("inf"), 2.0]}, 'column "rating", row 1 (from 0): the value is inf, expected a finite 32-bit number'),
    ({"rating": [1.0, 2.0, -1e39]}, "row 2 (from 0): the value is -1e+39"),
    ({"rating": ["good", "bad", "4"]}, "column \"rating\" (value) holds text ('good' in row 0), expected numbers"),
    ({"user": ["a", "b", "b"], "item": ["x", "y", "y"]}, "example 'b': the feature 'y' occurs twice"),
    ({"user": ["a", "a", "a"], "item": ["x", "y", "x"]},
     "example 'a': the feature 'x' occurs twice; remove one, or choose with `duplicates` sum or first"),
])
def test_values_that_are_wrong(change, message):
    for table in kinds_of(GOOD | change):
        assert message in message_of(table, "user", "item", "rating"), type(table)


def test_negative_values_are_values():
    data = norn.Dataset.from_table(pa.table(GOOD | {"rating": [-1.5, 0.0, 2.0]}), "user", "item", "rating")
    assert sorted(data.matrix.data.tolist()) == [-1.5, 0.0, 2.0]


def test_mixed_types():
    import pandas

    for table in (pandas.DataFrame({"user": ["a", 1], "item": ["x", "y"]}), {"user": np.array(["a", 1], dtype=object), "item": ["x", "y"]}):
        said = message_of(table, "user", "item")
        assert "mixed types" in said and 'olumn "user"' in said and "Conversion" not in said, said
    gaps = pandas.DataFrame({"user": pandas.Series([None, float("nan"), "a", 1], dtype=object), "item": ["x", "y", "x", "y"]})
    assert "holds mixed types, such as 'a' and 1:" in message_of(gaps, "user", "item")  # what is not there is of no type
    # A column that nobody asked for may hold anything.
    norn.Dataset.from_table(pandas.DataFrame({"user": ["a", "b"], "item": ["x", "y"], "junk": ["a", 1]}), "user", "item")


def test_whole_numbers_that_no_column_holds():
    import pandas

    assert "too large" in message_of(pandas.DataFrame({"user": [1, 2**70], "item": [1, 2]}), "user", "item")


def test_columns_with_an_empty_name_or_with_the_same(tmp_path):
    file, columns = tmp_path / "t.csv", [["a", "a", "b"], ["1", "2", "2"], [3, 4, 4]]

    def sources(names):
        file.write_text("\n".join(",".join(map(str, row)) for row in (names, *zip(*columns))))
        return file, pa.table(columns, names=names)

    for names in (["", "item", "rating"], ["user", "", "rating"]):
        text, table = sources(names)
        for source, asked in ((text, ()), (text, names[:2]), (table, names[:2])):
            assert norn.Dataset.from_table(source, *asked, where="rating >= 4").shape == (2, 1), (names, asked)
    for names in (["", "", "rating"], ["rating", "item", "rating"], ["user", "user", "rating"]):
        for source in sources(names):
            assert "two columns have the name" in message_of(source, *names[:2], where="rating >= 4")


@pytest.mark.parametrize("label, fault", [("a\tb", "a tab"), ("a\nb", "a line feed"), ("a\0b", "a zero byte"),
                                          ("x" * 65_536, "more than 65535 bytes")])
def test_labels_that_no_file_can_hold(label, fault, tmp_path):
    for change in ({"user": ["a", "b", label]}, {"item": ["x", "x", label]}):
        data = norn.Dataset.from_table(pa.table(GOOD | change), "user", "item")
        with pytest.raises(norn.DataError, match=fault):
            data.to_netcdf(tmp_path / "a.nc")
        assert not (tmp_path / "a.nc").exists()


def test_a_mask_is_no_filter():
    import pandas

    frame = pandas.DataFrame(GOOD)
    assert message_of(frame, "user", "item", where=frame.rating > 4, error=norn.UsageError) == (
        "`where` is of type Series, expected a filter as text, such as \"rating >= 4\", or a list of such; rows of a frame are chosen by a "
        "mask before: frame[frame.rating >= 4]")


@pytest.mark.parametrize("split", [0.8, (0.8, 0.2), 1, b"ratio:0.8/0.2"])
def test_a_split_that_is_no_rule_is_named(split):
    data = norn.Dataset.from_table(pa.table(GOOD), "user", "item")
    for call in (data.split, lambda split: norn.Dataset.from_table(pa.table(GOOD), "user", "item", split=split)):
        with pytest.raises(norn.UsageError) as caught:
            call(split)
        assert str(caught.value) == f"`split` {split!r}: expected a rule such as \"ratio:0.8/0.2\""


def test_empty_tables():
    for table in kinds_of({name: column[:0] for name, column in GOOD.items()}):
        assert "has no rows" in message_of(table, "user", "item")
    assert "no row is left of 3 where rating > 9" in message_of(pa.table(GOOD), "user", "item", where="rating > 9")


def test_columns_of_other_lengths():
    assert "its columns are not as long as each other: {'user': 2, 'item': 3}" in message_of({"user": ["a", "b"], "item": ["x", "y", "z"]},
                                                                                             "user", "item")


@pytest.mark.parametrize("where, message", [
    ("rating >> 4", "`where` 'rating >> 4': column 9: '> 4' stands where a value is expected"),
    ("rating", "ends where an operator is expected"), ("rating >=", "ends where a value is expected"),
    ("", "ends where a column is expected"),
    ("rating >= 4 and", "ends where a column is expected"), ("rating >= 4 or user == a", "joined by \"and\" alone"),
    ("rating >= 4 user == a", "column 13: 'user == a' stands where \"and\" is expected"),
    ("rating is 4", "stands where an operator is expected"),
    ("user in a, b", 'stands where "(" is expected'), ("user in (a b)", 'stands where "," or ")" is expected'),
    ("user in (a, b", 'ends where "," or ")"'),
    ("user == 'a", "column 9: \"'a\" is not understood"), ("rating >= four", 'column "rating" holds numbers, and \'four\' is none'),
    ("day < soon", "column \"day\" holds times, and 'soon' is none"), ("day < 2026-02-30", "holds times"),
    ("ok == maybe", "true and false, and 'maybe' is neither"),
    ("user > 4", "column \"user\" holds text such as 'a', which has no order beside the number 4"),
    ("rting > 4", 'there is no column "rting". Did you mean "rating"?'),
    (7, "`where` is of type int, expected a filter as text, such as \"rating >= 4\""),
    (np.array([True, False, True]), "`where` is of type ndarray, expected a filter as text"), ([7], "`where` 7 is no text"),
])
def test_filters_that_are_not_understood(where, message):
    for table in kinds_of(GOOD):
        assert message in message_of(table, "user", "item", where=where, error=norn.UsageError)


@pytest.mark.parametrize("where, kept", [
    ("rating >= 4", 2), ("rating>=4", 2), ("rating = 4", 1), ("rating != 4", 2), ("rating <> 4", 2), ("rating < 4.5 and rating > 1", 1),
    ("user == a", 2), ("user = 'a'", 2), ('user == "a" AND item != x', 1), ("user in (a, c)", 2), ("user in (c)", 0),
    ("rating in (1, 5)", 2), ("user >= b", 1),
    ("day < 2026-01-03", 2), ("day >= '2026-01-02' and day <= 2026-01-02T00:00:00Z", 1), ("day == 2026-01-01", 1), ("ok == true", 2),
    ("ok != true", 1),
    (["rating >= 4", "user == b"], 1), ("`rating` >= 4", 2), ("", None),
])
def test_filters_say_which_rows_are_kept(where, kept):
    for table in kinds_of(GOOD):
        if not kept:
            message_of(table, "user", "item", where=where, error=(norn.DataError, norn.UsageError))
        else:
            assert norn.Dataset.from_table(table, "user", "item", where=where).entries == kept, type(table)


def test_nulls_are_never_kept_and_need_not_be_labels():
    table = pa.table({"user": ["a", None, "b", "c"], "item": ["x", "x", "y", "z"], "n": [1, 2, None, 3]})
    assert norn.Dataset.from_table(table, "user", "item", where="n != 2").example_labels == ["a", "c"]
    assert norn.Dataset.from_table(table, "user", "item", where="user != a and n > 0").example_labels == ["c"]


@pytest.mark.parametrize("times, message", [
    (["2026-01-01", "yesterday", "2026-01-03"],
     "column \"day\", row 1 (from 0): the time 'yesterday' is no ISO date (2026-01-31, 2026-01-31T12:30:00Z) and no Unix time"),
    (["2026-01-01", None, "2026-01-03"], "row 1 (from 0): the time null is no ISO date"), ([1, None, 3], "row 1 (from 0): the time n"),
    ([1.0, float("inf"), 3.0], "row 1 (from 0): the time inf"),
    ([1, 10**15, 3], "row 1 (from 0): the time 1000000000000000 is no ISO date"),
    ([True, True, False], 'column "day" (time) holds boolean data'),
])
def test_times_that_are_none(times, message):
    for table in kinds_of(GOOD | {"day": times}):
        if times[1] is None and times[0] == 1 and isinstance(table, dict):
            continue
        assert message in message_of(table, "user", "item", time="day", split="time:2026-01-02")


@pytest.mark.parametrize("options, message", [
    (dict(min_features=0), "`min_features` 0 is out of range: it must be from 1"), (dict(min_examples=2.5), "`min_examples` 2.5"),
    (dict(duplicates="add"), "`duplicates` 'add'"), (dict(empty_rows="hold"), "`empty_rows` 'hold'"),
    (dict(empty_rows="keep"), "`empty_rows` 'keep': keeps examples that have none of `features`, which are not given"),
    (dict(seed=-1, split="ratio:1/1"), "`seed` -1"),
    (dict(split="leave-one-out", split_by="pair"), "leave-one-out"), (dict(name=""), "`name` ''"),
])
def test_settings_that_none_can_have(options, message):
    assert message in message_of(pa.table(GOOD), "user", "item", error=norn.UsageError, **options)


@pytest.mark.parametrize("options, message", [
    (dict(format="parket"), "`format` 'parket': there is no such choice; Did you mean \"parquet\"?"),
    (dict(header="maybe"), "`header` 'maybe'"),
    (dict(separator=""), "`separator` ''"), (dict(where="r > 1", format="libsvm"), "libsvm text has no columns"),
])
def test_settings_of_files_that_none_can_have(options, message, tmp_path):
    (tmp_path / "t.csv").write_text("u,i,r\na,x,1\n")
    assert message in message_of(tmp_path / "t.csv", "u", "i", error=norn.UsageError, **options)


def test_text_is_told_with_its_line(tmp_path):
    (tmp_path / "t.csv").write_text("u,i,r\na,x,1\nb\nc,y,2\n")
    assert "t.csv:3: the line has 1 columns, column 2 is wanted" in message_of(tmp_path / "t.csv", "u", "i")
    assert "t.csv" in message_of(tmp_path / "t.csv", "u", "i", where="r > 0") and "3" in message_of(tmp_path / "t.csv", "u", "i",
                                                                                                    where="r > 0")
    assert norn.Dataset.from_table(tmp_path / "t.csv", "u", "i", skip_malformed=1).example_labels == ["a", "c"]
    (tmp_path / "t.csv").write_text("u,i,r\na,x,1\nb,y,good\n")
    assert "t.csv:3: the value \"good\" is not a number" in message_of(tmp_path / "t.csv", "u", "i", "r")
    assert "column \"r\" (value) holds text" in message_of(tmp_path / "t.csv", "u", "i", "r", where="u != c")
    for where in (None, "r > 0"):
        message = message_of(tmp_path / "t.csv", "user", "i", where=where, error=norn.UsageError)
        assert "t.csv" in message and 'no column "user"' in message and "u, i, r" in message


def test_objects_that_are_no_tables():
    for table in (7, [1, 2], object(), None):
        assert "`table` is of type" in message_of(table, "user", "item", error=norn.UsageError)
    assert "nothing.csv: no such file or folder" in message_of("nothing.csv", "user", "item")


GIVEN = {"example": "user", "feature": "item", "value": "rating", "time": "when", "where": "rating > 3", "separator": ";", "header": "yes",
         "skip_malformed": 2,
         "duplicates": "sum", "empty_rows": "drop", "format": "csv"}
NOT_OF_TEXT = {"separator", "header", "skip_malformed"}
MEANINGLESS = {"t.txt": {"example", "feature", "time", "where", "header"},
               "l.txt": {"example", "feature", "value", "time", "where", "header"},
               "s.svm": {"example", "feature", "value", "time", "where", "header"}, "t.dat": {"skip_malformed"}, "t.parquet": NOT_OF_TEXT,
               "t.feather": NOT_OF_TEXT,
               "t.jsonl": NOT_OF_TEXT, "m.npz": set(GIVEN) - {"format"}, "matrix": set(GIVEN), "arrow": NOT_OF_TEXT | {"format"},
               "arrays": NOT_OF_TEXT | {"format"},
               "t.csv": set()}


def test_arguments_without_meaning_for_a_source_are_refused_by_name(draw, tmp_path):
    """The others have an effect, or are rules for what does not occur here."""
    import pyarrow.feather as feather
    import pyarrow.parquet as parquet

    table = random_table(draw, 12, 9, 60, odd=False)
    arrow = pa.table(table)
    parquet.write_table(arrow, tmp_path / "t.parquet")
    feather.write_feather(arrow, tmp_path / "t.feather")
    rows = {user: [f"{item},{rating}" for one, item, rating in zip(table["user"], table["item"], table["rating"]) if one == user]
            for user in table["user"]}
    texts = {"t.txt": "".join(f"{user}\t{':'.join(items)}\n" for user, items in rows.items()), "l.txt": "1 20 30\n2 40\n",
             "s.svm": "0 1:2\n1 2:1 3:1\n",
             "t.jsonl": "".join(json.dumps(dict(zip(table, row))) + "\n" for row in zip(*table.values()))}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    write_csv(tmp_path / "t.csv", table)
    write_csv(tmp_path / "t.dat", table, ";")
    matrix = sp.random(5, 4, 0.5, format="csr")
    sp.save_npz(tmp_path / "m.npz", matrix)
    needed = {"example": "user", "feature": "item"}
    for name, refused in MEANINGLESS.items():
        source = {"matrix": matrix, "arrow": arrow, "arrays": table}.get(name, tmp_path / name)
        for argument, value in GIVEN.items():
            given = {argument: value} | (needed if "example" not in refused and argument != "format" else {})
            if argument in refused:
                with pytest.raises(norn.UsageError, match=f"`{argument}`"):
                    norn.Dataset.from_table(source, **given)
            elif argument not in ("separator", "format"):
                norn.Dataset.from_table(source, **given)
    with pytest.raises(norn.UsageError, match=r"m.npz: `value`, `duplicates` do not go with .npz, which has a matrix; leave them out"):
        norn.Dataset.from_table(tmp_path / "m.npz", value="x", duplicates="first")


def test_rules_for_rows_hold_in_every_text(tmp_path):
    (tmp_path / "s.svm").write_text("0 1:2 1:3\n1 2:1\n")
    with pytest.raises(norn.DataError, match="occurs twice"):
        norn.Dataset.from_table(tmp_path / "s.svm")
    for rule, value in (("sum", 5), ("first", 2)):
        assert norn.Dataset.from_table(tmp_path / "s.svm", duplicates=rule).matrix.data.tolist() == [value, 1]
    (tmp_path / "t.txt").write_text("a\tx:y\nb\t\nc\ty\n")
    with pytest.raises(norn.DataError, match=r"t.txt:2: example \"b\" has no features; remove it, or choose with `empty_rows` drop"):
        norn.Dataset.from_table(tmp_path / "t.txt")
    assert norn.Dataset.from_table(tmp_path / "t.txt", empty_rows="drop").example_labels == ["a", "c"]


@pytest.mark.parametrize("words, data, said", [
    ("dimensions: examplesDim0 = 2; dataDim0 = 4; variables: float data0(dataDim0); :attributes0 = 0; :dataType0 = 4;",
     "data0 = 1, 2, 3, 4;", "is dense"),
    ("dimensions: examplesDim0 = 2; sparseDataDim0 = 2; variables: uint sparseStart0(examplesDim0); uint sparseEnd0(examplesDim0); "
     "uint sparseIndex0(sparseDataDim0); float dataWeight0(examplesDim0); :attributes0 = 131; :dataType0 = 0;",
     "sparseStart0 = 0, 1; sparseEnd0 = 1, 2; sparseIndex0 = 1, 0; dataWeight0 = 1, 0.5;", "has weights of examples")])
def test_files_of_more_than_sparse_examples_are_refused(tmp_path, words, data, said):
    (tmp_path / "x.cdl").write_text(
        f'netcdf x {{ {words} :datasets = 1; :name0 = "x"; :kind0 = 0; :dimensions0 = 1; :width0 = 2; data: {data} }}')
    subprocess.run(["ncgen", "-4", "-o", tmp_path / "x.nc", tmp_path / "x.cdl"], check=True)
    with pytest.raises(norn.DataError, match=f'x.nc: data set "x" {said}, and norn.Dataset holds sparse examples alone'):
        norn.Dataset.from_netcdf(tmp_path / "x.nc")
