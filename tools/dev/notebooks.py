#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes docs/notebooks of the pages that they show: a page's blocks of Python and shell are cells, what stands between them is text.
Each is executed from top to bottom, with what it prints and draws. A test compares them with their pages. The README shows what the first
one draws.
  PYTHONPATH=build/cpu/python NORN_BIN=build/cpu/bin PYTHON tools/dev/notebooks.py [PAGE...]
PYTHON has what python/requirements-test.txt and python/requirements-notebooks.txt name."""
import base64
import json
import os
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ("python_tutorial", "python_search", "python_networks")
MOST_BYTES = 200_000
NOTEBOOKS = "docs/notebooks"  # where Jupyter starts them
PICTURE = "docs/images/python_tutorial.png"  # of the README
FENCE = re.compile(r"^```(python|sh)\n(.*?)^```\n", re.M | re.S)


def cells_of(text):
    """(kind, text) of a page's parts in their order: "markdown", "python", "sh"."""
    cells, done = [], 0
    for found in FENCE.finditer(text):
        cells += [("markdown", text[done:found.start()]), (found[1], found[2])]
        done = found.end()
    return [(kind, part.strip("\n")) for kind, part in [*cells, ("markdown", text[done:])] if part.strip()]


def source_of(kind, text):
    """What a cell of a notebook has for a part of a page, whose links are told from another folder."""
    if kind == "sh":
        return "%%bash\n" + text
    return re.sub(r"\]\((\w+\.md)", r"](../user/\1", text).replace("](../notebooks/", "](") if kind == "markdown" else text


def notebook_of(page):
    """A notebook that has not been executed."""
    cells = []
    for number, (kind, text) in enumerate(cells_of(page)):
        cell = {"cell_type": "markdown" if kind == "markdown" else "code", "id": f"part{number}", "metadata": {},
                "source": source_of(kind, text)}
        cells.append(cell if kind == "markdown" else cell | {"execution_count": None, "outputs": []})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5}


def place_for_pages(folder):
    """A folder to run pages in, as the source's is, and NOTEBOOKS below it: the data of the tests are there, and the program `norn` is
    this package. Returns a PATH."""
    (folder / "tests").symlink_to(ROOT / "tests")
    (folder / NOTEBOOKS).mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin/norn").write_text(f'#!/bin/sh\nexec "{sys.executable}" -B -m norn "$@"\n')
    (folder / "bin/norn").chmod(0o755)
    return f"{folder}/bin{os.pathsep}{os.environ['PATH']}"


def joined(outputs):
    """What came from one stream in several pieces, as one; warnings of packages on stderr are not shown."""
    kept = []
    for output in outputs:
        if output.output_type == "stream" and kept and kept[-1].output_type == "stream" and kept[-1].name == output.name:
            kept[-1].text += output.text
        elif output.get("name") != "stderr":
            kept.append(output)
    return kept


def executed(notebook, folder):
    import nbclient
    import nbformat

    made = nbformat.from_dict(notebook)
    nbclient.NotebookClient(made, kernel_name="python3", timeout=600, record_timing=False,
                            resources={"metadata": {"path": f"{folder}/{NOTEBOOKS}"}}).execute()
    for cell in made.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = joined(cell.outputs)
    made.metadata.pop("language_info")
    made.metadata["language_info"] = {"name": "python"}
    return json.loads(nbformat.writes(made))


def first_picture(notebook):
    """The bytes of what it draws first, as PNG."""
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    drawn = next(output["data"]["image/png"] for output in outputs if "image/png" in output.get("data", {}))
    return base64.b64decode(drawn if isinstance(drawn, str) else "".join(drawn))


def main():
    for name in sys.argv[1:] or PAGES:
        page = (ROOT / f"docs/user/{name}.md").read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            os.environ["PATH"] = place_for_pages(pathlib.Path(folder))
            text = json.dumps(executed(notebook_of(page), folder), indent=1, ensure_ascii=False) + "\n"
        if folder in text:
            raise SystemExit(f"{name}: shows the folder that it ran in, which is another one everywhere")
        if len(text.encode()) > MOST_BYTES:
            raise SystemExit(f"{name}: {len(text.encode())} bytes, more than {MOST_BYTES}: draw less")
        target = ROOT / NOTEBOOKS / f"{name}.ipynb"
        target.write_text(text, encoding="utf-8")
        print(f"wrote {target.relative_to(ROOT)}, {len(text.encode()):,} bytes")
        if name == pathlib.Path(PICTURE).stem:
            (ROOT / PICTURE).write_bytes(first_picture(json.loads(text)))


if __name__ == "__main__":
    main()
