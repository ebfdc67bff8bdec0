# SPDX-License-Identifier: Apache-2.0
"""docs/user/python_data.md does what it says."""
import os
import re
import shlex
import subprocess
import sys



def test_the_page_runs_from_top_to_bottom(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (source / "docs/user/python_data.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", text, re.S | re.M)
    assert [kind for kind, _ in blocks].count("python") >= 5 and "sh" in dict(blocks)
    names: dict = {}
    for kind, code in blocks:
        if kind == "python":
            exec(compile(code, "python_data.md", "exec"), names)
            continue
        for line in code.splitlines():
            words = shlex.split(line)
            assert words[0] == "norn"
            subprocess.run([sys.executable, "-B", "-m", *words], check=True, capture_output=True, env=os.environ)
    assert (tmp_path / "shop.nc").exists() and (tmp_path / "films.nc").exists()
