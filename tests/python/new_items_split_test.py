# SPDX-License-Identifier: Apache-2.0
"""`--split new-items:0.1` of importer and `Dataset.split("new-items:0.1")`: the same parts, to the byte, and what is refused."""
import subprocess

import numpy as np
import pytest

import norn

PARTS = ("train", "test")


def lines(draw, items):
    """user<TAB>items; some have a few of them alone."""
    rows = [draw.choice(items, size=int(draw.integers(1, 1 + min(9, items))), replace=False) for _ in range(int(draw.integers(30, 120)))]
    rows += [np.arange(items)]  # somebody has all
    return [[f"item {item}" for item in draw.permutation(row)] for row in rows]


def imported(programs, folder, *arguments, code=0):
    words = (programs / "importer", "-i", folder / "shop.txt", "-o", folder / "shop.nc", "--name", "shop", *arguments)
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done


def test_program_and_package_make_the_same_parts(draw, programs, tmp_path):
    items = int(draw.integers(4, 40))
    rows = lines(draw, items)
    (tmp_path / "shop.txt").write_text("".join(f"user {user}\t{':'.join(row)}\n" for user, row in enumerate(rows)))
    share, seed = float(draw.uniform(1.01 / items, 0.6)), int(draw.integers(2**60))
    imported(programs, tmp_path, "--split", f"new-items:{share:.4f}", "--seed", seed)
    data = norn.Dataset.from_table(tmp_path / "shop.txt", name="shop").split(f"new-items:{share:.4f}", seed=seed)
    theirs = {part: norn.Dataset.from_netcdf(tmp_path / f"shop.{part}.nc") for part in PARTS}
    known = theirs["train"].shape[1]
    assert abs(items - known - share * items) <= 0.501 and theirs["test"].shape[1] == items
    for part in PARTS:
        ours = getattr(data, part)
        assert list(ours.feature_labels) == list(theirs[part].feature_labels)
        assert list(ours.example_labels) == list(theirs[part].example_labels)
        assert (ours.matrix != theirs[part].matrix).nnz == 0
    assert (data.test.targets != theirs["test"].targets).nnz == 0
    order = [line.split("\t")[0] for line in (tmp_path / "shop.features").read_text().splitlines()]
    assert order == list(data.test.feature_labels)
    held_out = set(order[known:])
    for user, row in zip(theirs["test"].example_labels, theirs["test"].targets):
        wanted = {order[item] for item in row.indices}
        assert wanted and wanted == set(rows[int(user.split()[1])]) & held_out


def test_a_model_of_the_training_part_gets_the_items(draw, programs, tmp_path):
    items = 20
    (tmp_path / "shop.txt").write_text("".join(f"u{user}\t{':'.join(row)}\n" for user, row in enumerate(lines(draw, items))))
    imported(programs, tmp_path, "--split", "new-items:0.2")
    test = norn.Dataset.from_netcdf(tmp_path / "shop.test.nc")
    features = {label: [f"kind {int(label.split()[1]) % 3}"] for label in test.feature_labels}
    model = norn.Recommender(recipe="sigmoid", epochs=2, device="cpu").fit(norn.Dataset.from_netcdf(tmp_path / "shop.train.nc"))
    new = list(test.feature_labels)[16:]
    model.add_items({label: features[label] for label in new}, known_features={label: features[label] for label in model.labels})
    assert list(model.labels) == list(test.feature_labels)
    assert 0.0 <= model.evaluate(test, k=[5])["recall@5"] <= 1.0


def test_who_has_none_of_the_items_of_training_is_left_out_and_told(programs, tmp_path):
    (tmp_path / "shop.txt").write_text("all\ta:b:c:d\n" + "".join(f"{item}{n}\t{item}\n" for item in "abcd" for n in range(3)))
    told = imported(programs, tmp_path, "--split", "new-items:0.25").stdout
    assert "3 examples left out: they have none of the items of the training part" in told
    assert len(norn.Dataset.from_netcdf(tmp_path / "shop.train.nc")) == 10


@pytest.mark.parametrize("rule, problem", [
    ("new-items:0", "--split new-items: expected a share of the items above 0 and below 1; give a share such as new-items:0.1"),
    ("new-items:1", "--split new-items: expected a share of the items above 0 and below 1; give a share such as new-items:0.1"),
    ("new-items:x", "--split new-items: expected a share of the items above 0 and below 1; give a share such as new-items:0.1"),
    ("new-items:0.1/0.2", "--split new-items: expected a share of the items above 0 and below 1"),
    ("new-items:0.01", "--split new-items:0.01: of 4 items it must hold back some and leave some; give a share such as new-items:0.1"),
])
def test_what_is_no_share_is_refused(programs, tmp_path, rule, problem):
    (tmp_path / "shop.txt").write_text("one\ta:b:c:d\ntwo\ta:b\n")
    assert problem in imported(programs, tmp_path, "--split", rule, code=2).stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shop.txt"]


def test_an_index_that_has_numbers_already_is_refused(programs, tmp_path):
    (tmp_path / "shop.txt").write_text("one\ta:b:c:d\ntwo\ta:b\n")
    imported(programs, tmp_path, "--features", tmp_path / "all.features")
    index = tmp_path / "all.features"
    for more in ((), ("--merge-features",)):
        said = imported(programs, tmp_path, "--features", index, "--split", "new-items:0.5", *more, code=2).stderr
        assert (f"--split new-items numbers items anew, and {index} has numbers for them; name another file with --features, or begin "
                "it anew with --new-features") in said
    imported(programs, tmp_path, "--features", index, "--split", "new-items:0.5", "--new-features")
    said = imported(programs, tmp_path, "--split", "new-items:0.5", "--split-by", "pair", code=2).stderr
    assert "a new-items split is by entry; drop --split-by" in said
