# SPDX-License-Identifier: Apache-2.0
"""The table of compare_gpu.sh in Markdown, from FOLDER/ROW.{ours,plain,strong}.jsonl; writes FOLDER/comparison.json too.

A cell is the median of all repetitions of all rounds, and the slowest and the fastest of them. Norn and its best peer are
equal where these intervals overlap."""
import json
import pathlib
import statistics
import sys

DSSTNE = pathlib.Path(__file__).with_name("dsstne.json")
COLUMNS = {"Norn": ("ours",), "eager": ("plain", "eager"), "torch.compile": ("plain", "compile"),
           "deterministic": ("plain", "deterministic"), "max-autotune": ("plain", "autotune"), "CCE": ("plain", "cce"),
           "Liger": ("plain", "liger", "liger_scaled"), "strong PyTorch": ("strong",)}  # side, and its variants or all


def read(path):
    """The lines of a file that may not be there."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def of_rounds(results):
    """Rounds of one configuration as one, or None. An error is one where no round went well."""
    fine = [r for r in results if r.get("samples_per_second") and not r.get("error")]
    if not fine:
        return results[-1] if results else None
    return fine[-1] | {"samples_per_second": statistics.median(r["samples_per_second"] for r in fine),
                       "slowest": min(r["slowest"] for r in fine), "fastest": max(r["fastest"] for r in fine)}


def best(results):
    """The fastest configuration."""
    configurations = {}
    for result in results:
        key = tuple(result.get(name) for name in ("variant", "rows", "batch", "precision", "gradients", "bucket_mb"))
        configurations.setdefault(key, []).append(result)
    merged = [of_rounds(group) for group in configurations.values()]
    return max(merged, key=lambda r: r.get("samples_per_second") or 0, default=None)


def thousands(rate):
    """Four digits."""
    return f"{float(f'{rate:.4g}'):,.0f}"


def cell(result, batch):
    if result is None:
        return ""
    if result.get("error") or not result.get("samples_per_second"):
        return result.get("error", "failed")
    text = thousands(result["samples_per_second"])
    if "slowest" in result:
        text += f" ({thousands(result['slowest'])}-{thousands(result['fastest'])})"
    notes = []
    if batch is not None and result.get("batch", batch) != batch:
        notes.append(f"batch {result['batch']}")
    if result.get("kernels"):
        notes.append(result["kernels"])
    return text + "".join(f", {note}" for note in notes)


def ratio(ours, peers):
    """Norn's median by the best peer's, or that they are equal."""
    peers = [p for p in peers if p and not p.get("error") and p.get("samples_per_second")]
    if not ours or ours.get("error") or not peers:
        return ""
    peer = max(peers, key=lambda p: p["samples_per_second"])
    if ours["slowest"] <= peer["fastest"] and peer["slowest"] <= ours["fastest"]:
        return "equal"
    return f"{ours['samples_per_second'] / peer['samples_per_second']:.2f}"


def row_of(folder, name, dsstne):
    results = {side: read(folder / f"{name}.{side}.jsonl") for side in ("ours", "plain", "strong")}
    chosen = {column: best([r for r in results[side] if not variants or r.get("variant") in variants])
              for column, (side, *variants) in COLUMNS.items()}
    ours = chosen["Norn"]
    batch = ours.get("batch") if ours else None
    cells = {column: cell(result, batch) for column, result in chosen.items()}
    cells["to the best"] = ratio(ours, [result for column, result in chosen.items() if column != "Norn"])
    cells["DSSTNE"] = cell(dsstne["rows"].get(name), 1024)
    return cells, {"row": name, **results}


def main():
    folder, names = pathlib.Path(sys.argv[1]), sys.argv[2:]
    dsstne = json.loads(DSSTNE.read_text(encoding="utf-8"))
    rows = [row_of(folder, name, dsstne) for name in names]
    columns = [c for c in (*COLUMNS, "to the best", "DSSTNE") if any(cells[c] for cells, _ in rows)]
    print("\nSamples (top100: users) a second: median (slowest-fastest repetition).\n")
    print("| | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for name, (cells, _) in zip(names, rows):
        print(f"| {name} | " + " | ".join(cells[c] for c in columns) + " |")
    if "DSSTNE" in columns:
        print(f"\nDSSTNE: {dsstne['source']}.")
    path = folder / "comparison.json"
    path.write_text(json.dumps([details for _, details in rows], indent=1) + "\n", encoding="utf-8")
    print(f"\nall figures: {path}")


if __name__ == "__main__":
    main()
