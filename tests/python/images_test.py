# SPDX-License-Identifier: Apache-2.0
"""Images from Python: the pixels that were drawn, and the bits of the programs."""
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import norn

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from image_files import idx, png  # noqa: E402


def network(extent):
    return {"ErrorFunction": "CrossEntropy", "Training": {"Optimizer": "Adam", "Alpha": 0.01, "Batch": 9, "Epochs": 2},
            "Layers": [{"Name": "Picture", "Kind": "Input", "N": extent, "DataSet": "x_input"},
                       {"Name": "Shapes", "Kind": "Hidden", "Type": "Convolutional", "N": 5, "Kernel": [3, 3], "Activation": "Relu"},
                       {"Name": "Class", "Kind": "Output", "N": "auto", "DataSet": "x_output", "Activation": "SoftMax"}]}


def draw_folder(draw, folder, count=20):
    """Pixels by name."""
    drawn = {}
    for number in range(count):
        name = f"{draw.choice(['oak', 'ash', 'elm'])}/{number:02}.png"
        drawn[name] = draw.integers(0, 256, (6, 9, 3), dtype=np.uint8)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(png(drawn[name]))
    return drawn


def test_folders_are_what_was_drawn(draw, tmp_path):
    drawn = draw_folder(draw, tmp_path / "trees")
    images = norn.read_images(tmp_path / "trees")
    assert images.extent == [9, 6, 3] and images.pixels.dtype == np.float32
    assert images.classes.example_labels == sorted(drawn)
    expected = np.stack([drawn[name].transpose(2, 0, 1).ravel() for name in sorted(drawn)])
    assert np.array_equal(images.pixels, expected / np.float32(256) - np.float32(0.5))
    names = np.array(images.classes.feature_labels)
    assert list(names) == sorted(names)
    assert [name.split("/")[0] for name in images.classes.example_labels] == list(names[images.classes.matrix.argmax(1).A1])


def test_idx_with_labels_elsewhere(draw, tmp_path):
    pixels, classes = draw.integers(0, 256, (11, 5, 4), dtype=np.uint8), draw.integers(0, 6, 11)
    (tmp_path / "pixels").write_bytes(idx(pixels))
    (tmp_path / "classes").write_bytes(idx(classes))
    images = norn.read_images(tmp_path / "pixels", tmp_path / "classes")
    assert images.extent == [4, 5] and np.array_equal((images.pixels + 0.5) * 256, pixels.reshape(11, -1))
    assert np.array_equal(images.classes.matrix.argmax(1).A1, classes)
    assert norn.read_images(tmp_path / "pixels", tmp_path / "classes", size="3x2x3").extent == [3, 2, 3]


def test_a_training_has_the_bits_of_the_programs(draw, programs, tmp_path):
    draw_folder(draw, tmp_path / "trees")
    (tmp_path / "net.json").write_text(json.dumps(network("auto")))
    for words in (("importer", "-i", "trees", "--format", "images", "-o", "x.nc"),
                  ("trainer", "-c", "net.json", "-i", "x.nc", "-n", "model.nc", "--device", "cpu")):
        subprocess.run([programs / words[0], *words[1:], "-q"], cwd=tmp_path, check=True)
    images = norn.read_images(tmp_path / "trees")
    made = norn.train(network(images.extent), {"x_input": images.pixels, "x_output": images.classes}, device="cpu").parameters
    expected = norn.Network.load(tmp_path / "model.nc", device="cpu").parameters
    assert made.keys() == expected.keys() and all(np.array_equal(made[name], expected[name]) for name in made)


def test_damaged_ones_are_passed_over_and_counted(draw, tmp_path, caplog):
    drawn = draw_folder(draw, tmp_path / "trees")
    damaged = sorted(drawn)[3]
    (tmp_path / "trees" / damaged).write_bytes(png(drawn[damaged])[:-20])
    with pytest.raises(norn.DataError, match=f"{damaged}: is no whole PNG: "):
        norn.read_images(tmp_path / "trees")
    images = norn.read_images(tmp_path / "trees", skip_malformed=1)
    assert images.classes.example_labels == [name for name in sorted(drawn) if name != damaged] and len(images.pixels) == 19
    assert "1 of the images in" in caplog.text


def test_what_is_wrong_is_said(tmp_path):
    for part in ("train", "t10k"):
        (tmp_path / f"{part}-images-idx3-ubyte").write_bytes(idx(np.zeros((1, 2, 3))))
        (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(idx(np.zeros(1)))
    with pytest.raises(norn.UsageError, match="holds images to train on and others to test on; name one of its files"):
        norn.read_images(tmp_path)
    with pytest.raises(norn.UsageError, match="its name does not tell which file has the labels; name it with `target`"):
        (tmp_path / "x").write_bytes(idx(np.zeros((1, 2, 3))))
        norn.read_images(tmp_path / "x")
    with pytest.raises(norn.UsageError, match="`size` 3: expected WIDTHxHEIGHT"):
        norn.read_images(tmp_path, size="3")
    with pytest.raises(norn.UsageError, match="`skip_malformed` -1 is out of range"):
        norn.read_images(tmp_path, skip_malformed=-1)
    with pytest.raises(norn.DataError, match="none: no such file or folder"):
        norn.read_images(tmp_path / "none")
