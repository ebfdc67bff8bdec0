# SPDX-License-Identifier: Apache-2.0
"""Prints what tools/dev/coverage.sh counted: lines and branches of each folder, and the files that tests reach least."""
import collections
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("src", "kernels", "tools", "include", "python")
WORST = 30


def counted(build):
    """(file, lines, lines reached, branches, branches reached) of what is the project's and no test."""
    for item in json.loads((build / "cpp.json").read_text())["data"][0]["files"]:
        path = pathlib.Path(item["filename"])
        lines, branches = item["summary"]["lines"], item["summary"]["branches"]
        yield path.resolve(), lines["count"], lines["covered"], branches["count"], branches["covered"]
    for name, item in json.loads((build / "python.json").read_text())["files"].items():
        found = item["summary"]
        yield ROOT / name, found["num_statements"], found["covered_lines"], found["num_branches"], found["covered_branches"]


def share(part, whole):
    return f"{100 * part / whole:5.1f} %" if whole else "      -"


def print_rows(title, rows):
    print(f"{title:44} {'lines':>7} {'reached':>8} {'branches':>9} {'reached':>8}")
    for name, lines, lines_reached, branches, branches_reached in rows:
        print(f"{name:44} {lines:7} {share(lines_reached, lines):>8} {branches:9} {share(branches_reached, branches):>8}")


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    folders, totals, files = collections.defaultdict(lambda: [0] * 4), collections.defaultdict(lambda: [0] * 4), []
    for path, *numbers in counted(build):
        if not path.is_relative_to(ROOT) or path.is_relative_to(build) or path.relative_to(ROOT).parts[0] not in FOLDERS:
            continue
        path = path.relative_to(ROOT)
        files.append((str(path), *numbers))
        language = "Python" if path.suffix == ".py" else "C++"
        folder = f"{'/'.join(path.parts[:-1][:3 if path.parts[0] == 'python' else 2])}, {language}"
        for sums in (folders[folder], totals["all " + language]):
            sums[:] = [one + other for one, other in zip(sums, numbers)]
    print_rows("folder", [(name, *numbers) for name, numbers in sorted(folders.items())]
               + [(name, *numbers) for name, numbers in sorted(totals.items())])
    worst = sorted(files, key=lambda file: file[1] - file[2] + file[3] - file[4], reverse=True)[:WORST]
    print()
    print_rows("most lines and branches that nothing reaches", worst)


if __name__ == "__main__":
    main()
