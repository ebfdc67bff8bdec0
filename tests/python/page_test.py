# SPDX-License-Identifier: Apache-2.0
"""Runs docs/user/python.md from top to bottom."""
import re


def test_the_page_runs(source, tmp_path, monkeypatch, capsys):
    (tmp_path / "tests").symlink_to(source / "tests")
    monkeypatch.chdir(tmp_path)
    page = source / "docs/user/python.md"
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) > 5
    names = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)
    assert "ndcg" in capsys.readouterr().out
