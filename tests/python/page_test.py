# SPDX-License-Identifier: Apache-2.0
"""Runs the pages that show the package, from top to bottom, and compares their figures with what comes out."""
import ast
import contextlib
import importlib
import importlib.util
import inspect
import io
import json
import os
import pathlib
import re
import subprocess

import norn
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("notebooks", ROOT / "tools/dev/notebooks.py")
notebooks = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(notebooks)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", notebooks.place_for_pages(tmp_path))
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def text_of(page):
    return (ROOT / (page if page.endswith(".md") else f"docs/user/{page}.md")).read_text(encoding="utf-8")


def run_page(page, without=()):
    """The names that its Python leaves behind, and what its commands print. `without`: packages whose blocks are passed over."""
    names, said = {}, ""
    cells = [(kind, code) for kind, code in notebooks.cells_of(text_of(page)) if kind != "markdown"]
    assert cells
    for kind, code in cells:
        if kind == "sh":
            said += shell(code)
        elif not any(re.search(rf"^import {package}\b", code, re.M) for package in without):
            exec(compile(code, f"{page}.md", "exec"), names)
    return names, said


def shell(code):
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", code], env=os.environ, capture_output=True, text=True)
    assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def run_notebook(page, place, monkeypatch):
    """As run_page(), of its notebook, where Jupyter starts it; and what each cell shows is what is stored of it."""
    monkeypatch.chdir(place / notebooks.NOTEBOOKS)
    names, said = {}, ""
    for cell in json.loads((ROOT / notebooks.NOTEBOOKS / f"{page}.ipynb").read_text(encoding="utf-8"))["cells"]:
        code = "".join(cell["source"])
        if cell["cell_type"] != "code":
            continue
        if code.startswith("%%bash\n"):
            printed, shown = shell(code.removeprefix("%%bash\n")), {}
            said += printed
        else:
            printed, shown = run_cell(code, names)
        stored = {"".join(output.get("text", ())) for output in cell["outputs"] if output["output_type"] == "stream"}
        values = next((output["data"] for output in cell["outputs"] if output["output_type"] == "execute_result"), {})
        kind = "text/html" if "text/html" in values else "text/plain"
        assert shown.keys() == values.keys(), code
        for new, old in ((printed, "".join(stored)), (shown.get(kind, ""), "".join(values.get(kind, "")))):
            assert looks(new) == looks(old), f"{code}: tools/dev/notebooks.py makes the notebook"
    return names, said


def run_cell(code, names):
    """What it prints, and what Jupyter would show of its last line, by type."""
    body, last = ast.parse(code), None
    if isinstance(body.body[-1], ast.Expr) and not code.rstrip().endswith(";"):
        last = ast.Expression(body.body.pop().value)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(body, "cell", "exec"), names)
        value = None if last is None else eval(compile(last, "cell", "eval"), names)
    if value is None:
        return printed.getvalue(), {}
    return printed.getvalue(), {"text/plain": repr(value)} | ({"text/html": value._repr_html_()} if hasattr(value, "_repr_html_") else {})


def looks(text):
    """What other machines print, too: lines of a table and its heads, or how much there is of all else; numbers are others, and what is
    recommended may be."""
    if text.startswith("<"):
        return text.count("<tr"), [re.sub(r"[\d.,]+", "", head) for head in re.findall("<th>(.*?)</th>", text)]
    if text[:1] in "[({'":
        return text.count("(")
    lines = text.splitlines()
    return len(lines), re.sub(r"[\d.,\s]+", " ", lines[0]) if lines else ""


def compare_figures(page, results, *columns):
    """Every row of the page's tables of figures, by its name; other machines have other last digits."""
    rows = re.findall(r"^\| ([a-z ]+) ((?:\| 0\.\d\d )+)\|$", text_of(page), re.M)
    assert len(rows) >= len(results)
    for name, result in results.items():
        stated = [[float(cell) for cell in cells.strip("| ").split(" | ")] for row, cells in rows if row == name]
        assert [result[column] for column in columns] in [pytest.approx(figures, abs=0.015) for figures in stated], name


def test_what_the_readme_begins_with_runs(place, capsys):
    names, _ = run_page("README.md")
    said = capsys.readouterr().out
    model, popular = (float(figure) for figure in re.findall(r"^ndcg +(0\.\d+)$", said, re.M))
    assert model > 1.5 * popular and "('libvorbisfile3', 1.0" in said and (place / "packages.nc").exists()
    assert text_of("README.md").index("norn.Recommender") < text_of("README.md").index("tools/quickstart.sh")


def test_the_overview_runs(place, capsys):
    run_page("python")
    assert "ndcg" in capsys.readouterr().out


def test_the_page_on_data_runs(place):
    run_page("python_data")
    assert (place / "shop.nc").exists() and (place / "films.nc").exists()


def test_the_page_on_features_of_items_runs(place, capsys):
    names = {}
    for kind, code in notebooks.cells_of(text_of("item_features")):
        if kind not in ("markdown", "sh"):
            exec(compile(code, "item_features.md", "exec"), names)
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("[('film 60'") and said[1] == "['genre crime', 'genre comedy', 'maker Gaumont']"
    assert float(said[-1]) > 1.5 * 20 / 60, "features say more of new items than chance does"



def test_the_tutorial_runs_and_its_figures_are_true(place, monkeypatch):
    names, said = run_notebook("python_tutorial", place, monkeypatch)
    result = names["result"]
    compare_figures("python_tutorial", result.T.to_dict(), "recall@20", "ndcg@20")
    assert result["ndcg@20"]["chosen"] > result["ndcg@20"]["ten epochs"] > 1.5 * result["ndcg@20"]["most popular"]
    assert "| network | sigmoid recipe" in said and re.search(r"^mine\t[^,]+,0\.\d+:[^,]+,0\.\d+:$", said, re.M)
    assert names["curves"]["ndcg@20"].iloc[-1] > names["curves"]["ndcg@20"].iloc[0] and len(names["trials"]) == 5


def test_the_page_on_searches_runs_and_its_figures_are_true(place, monkeypatch):
    names, _ = run_notebook("python_search", place, monkeypatch)
    compare_figures("python_search", names["result"].T.to_dict(), "ndcg@20")
    assert len(names["trials"]) == 8 and pathlib.Path("study/report.html").exists()
    assert names["study"].best.settings["Training.Alpha"] == names["best"]["Training"]["Alpha"]
    assert names["best"]["Training"]["Alpha"] > 0.0044, "the page says that a larger rate is better"


def test_the_page_on_networks_runs_and_its_figures_are_true(place, monkeypatch):
    names, _ = run_notebook("python_networks", place, monkeypatch)
    compare_figures("python_networks", names["measured"], "precision@1", "precision@5")
    compare_figures("python_networks", names["results"], "recall@10", "ndcg@10")
    assert names["results"]["some and name"]["ndcg@10"] > names["results"]["some"]["ndcg@10"]


@pytest.mark.parametrize("page", notebooks.PAGES)
def test_pages_find_the_data_from_the_root_too(page, place):
    """Their first cells; the rest does not know where it is."""
    names = {}
    for kind, code in notebooks.cells_of(text_of(page)):
        if kind == "python" and "source" not in names:
            exec(compile(code, f"{page}.md", "exec"), names)
    assert names["source"] == place


def test_the_page_on_other_programs_runs(place, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    importlib.import_module("mlflow").set_tracking_uri(f"file:{place}/mlruns")
    names, _ = run_page("python_serving", [package for package in ("hnswlib",) if importlib.util.find_spec(package) is None])
    assert (place / "lists.parquet").exists() and names["index"].ntotal == len(names["items"])
    assert list(place.glob("mlruns/*/*/artifacts/packages.nc")) and list(place.glob("mlruns/*/*/metrics/ndcg_at_*"))


def test_calls_of_other_libraries_are_ours_as_the_page_says(place):
    """implicit's own code runs beside ours; what the tables name on our side exists."""
    names, _ = run_page("coming_from")
    for metrics in names["compared"].values():
        assert 0.1 < metrics["ndcg"] < 1
    text = text_of("coming_from")
    called = set(re.findall(r"\bnorn((?:\.\w+)+)\(", text))
    assert len(called) > 8 and all(callable(named(name)) for name in called)
    cells = " ".join(row.split(" | ")[1] for row in text.splitlines() if row.count(" | ") >= 2)
    keywords = set(re.findall(r"[`(, ](\w+)=", cells))
    functions = (norn.Recommender, norn.Recommender.fit, norn.Recommender.recommend, norn.Recommender.evaluate,
                 norn.Recommender.partial_fit,
                 norn.Dataset.from_table, norn.train, norn.import_torch, norn.early_stopping)
    known = {name for function in functions for name in inspect.signature(function).parameters}
    assert len(keywords) > 20 and keywords <= known, keywords - known
    methods = set(re.findall(r"`(\w+)\(", cells)) - {"Dataset"}
    owners = (norn, norn.Recommender, norn.Dataset, norn.interchange)
    assert len(methods) > 5 and not [name for name in methods if not any(hasattr(owner, name) for owner in owners)]


def named(path):
    """Of ".interchange.state_dict" the function."""
    owner, _, name = path[1:].rpartition(".")
    if not owner:
        return getattr(norn, name)
    return getattr(getattr(norn, owner) if owner in norn.__all__ else importlib.import_module(f"norn.{owner}"), name)


def test_parts_of_a_page_are_its_cells():
    page = "# Title\n\n```python\na = 1\n\nb = 2\n```\nText.\n\n```json\n{}\n```\n\n```sh\nls\n```\n```python\nc\n```\n"
    cells = notebooks.cells_of(page)
    assert cells == [("markdown", "# Title"), ("python", "a = 1\n\nb = 2"), ("markdown", "Text.\n\n```json\n{}\n```"), ("sh", "ls"),
                     ("python", "c")]
    assert notebooks.source_of("sh", "ls") == "%%bash\nls"
    assert notebooks.source_of("markdown",
                               "[a](b.md#c), [n](../notebooks/n.ipynb), [w](https://x/y.md)") == (
                                    "[a](../user/b.md#c), [n](n.ipynb), [w](https://x/y.md)")


def test_the_readme_shows_what_the_tutorial_draws():
    notebook = json.loads((ROOT / "docs/notebooks/python_tutorial.ipynb").read_text(encoding="utf-8"))
    assert (ROOT / notebooks.PICTURE).read_bytes() == notebooks.first_picture(notebook)
    assert f"]({notebooks.PICTURE})" in text_of("README.md")


@pytest.mark.parametrize("page", notebooks.PAGES)
def test_a_notebook_is_its_page_with_outputs(page):
    path = ROOT / f"docs/notebooks/{page}.ipynb"
    assert path.stat().st_size < notebooks.MOST_BYTES
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    wanted = [(kind != "markdown", notebooks.source_of(kind, text)) for kind, text in notebooks.cells_of(text_of(page))]
    stale = "the page is another one: tools/dev/notebooks.py makes its notebook"
    assert [(cell["cell_type"] == "code", "".join(cell["source"])) for cell in cells] == wanted, stale
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert not [output for output in outputs if output["output_type"] == "error"]
    assert [cell["execution_count"] for cell in cells if cell["cell_type"] == "code"] == list(range(1, sum(code for code, _ in wanted) + 1))
