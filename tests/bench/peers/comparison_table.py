# SPDX-License-Identifier: Apache-2.0
"""The table of compare_gpu.sh: reads FOLDER/ROW.{ours,plain,strong}.jsonl, prints text, writes FOLDER/comparison.json."""
import json
import pathlib
import sys


def read(path):
    """One JSON object, pretty or not, or one a line."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    decoder, found, place = json.JSONDecoder(), [], 0
    while True:
        while place < len(text) and text[place].isspace():
            place += 1
        if place == len(text):
            return found
        value, place = decoder.raw_decode(text, place)
        found += value if isinstance(value, list) else [value]


def rate(result):
    for key in ("samples_per_second", "samples_per_s", "users_per_second", "users_per_s"):
        if key in result:
            return float(result[key])
    return None


def best(results):
    """(rate, result) of the fastest, or (None, result) of one that failed, or (None, None)."""
    fine = [(rate(r), r) for r in results if rate(r) is not None]
    if fine:
        return max(fine, key=lambda pair: pair[0])
    return None, results[-1] if results else None


def cell(pair, batch):
    speed, result = pair
    if result is None:
        return "-"
    if speed is None:
        return result.get("error", "failed")
    notes = [result[key] for key in ("variant",) if result.get(key) not in (None, "eager", "compile")]
    if batch is not None and result.get("batch", batch) != batch:
        notes.append(f"batch {result['batch']}")
    return f"{speed:,.0f}" + (f" ({', '.join(notes)})" if notes else "")


def row_of(folder, name):
    ours, plain, strong = (read(folder / f"{name}.{side}.jsonl") for side in ("ours", "plain", "strong"))
    batch = next((r["batch"] for r in plain + strong + ours if "batch" in r), None)
    pairs = {"Norn": best(ours),
             "PyTorch eager": best([r for r in plain if r.get("variant") != "compile"]),
             "torch.compile": best([r for r in plain if r.get("variant") == "compile"]),
             "PyTorch strong": best(strong)}
    mine = pairs["Norn"][0]
    others = [speed for side, (speed, _) in pairs.items() if side != "Norn" and speed]
    ratio = mine / max(others) if mine and others else None
    cells = {side: cell(pair, batch) for side, pair in pairs.items()}
    return cells, ratio, {"row": name, "ours": ours, "plain": plain, "strong": strong, "ratio_to_best_peer": ratio}


def main():
    folder, names = pathlib.Path(sys.argv[1]), sys.argv[2:]
    report = []
    print(f"\n{'samples (users) a second':<26}{'Norn':>16}{'PyTorch eager':>24}{'torch.compile':>24}"
          f"{'PyTorch strong':>24}{'to best':>9}")
    for name in names:
        cells, ratio, details = row_of(folder, name)
        report.append(details)
        print(f"{name:<26}{cells['Norn']:>16}{cells['PyTorch eager']:>24}{cells['torch.compile']:>24}"
              f"{cells['PyTorch strong']:>24}{'-' if ratio is None else f'{ratio:.2f}':>9}")
    path = folder / "comparison.json"
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"\nall figures: {path}")


if __name__ == "__main__":
    main()
