# SPDX-License-Identifier: Apache-2.0
"""Runs docs/user/python.md from top to bottom."""
import re

import pytest

import norn


def test_the_page_runs(source, tmp_path, monkeypatch, capsys):
    if "Dataset" not in norn.__all__:
        pytest.skip("the page reads its data with norn.Dataset")
    (tmp_path / "tests").symlink_to(source / "tests")
    monkeypatch.chdir(tmp_path)
    page = source / "docs/user/python.md"
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) > 5
    names = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)
    assert "ndcg" in capsys.readouterr().out
