# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/user/interchange.md run as they stand."""
import re

import norn
from page_test import run_page


def test_the_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, _ = run_page("interchange")
    assert names["items"].shape == (2, 5) and not set(names["items"][0]) & {3, 7, 9} and 5 not in names["items"][1]
    assert norn.Network.load("from_torch.nc").descriptor["Layers"][1]["N"] == 16
    assert (tmp_path / "theirs.nc").exists() and not (tmp_path / "films.nc").exists(), "films.nc is a data set, on other pages"


def test_every_name_of_the_table_is_there(source):
    text = (source / "docs/user/interchange.md").read_text()
    for name in set(re.findall(r"`norn\.(\w+)\(", text)):
        assert callable(getattr(norn, name)), name
