# SPDX-License-Identifier: Apache-2.0
"""Reads the folders of trainer --run-dir, and makes curves of them."""
import datetime
import json
import math
import pathlib

from ..errors import DataError

MOST_POINTS = 400  # of a curve: more cannot be told apart on a screen
METRICS = json.loads(pathlib.Path(__file__).with_name("metrics.json").read_text(encoding="utf-8"))  # tools/dev/write_reference.sh
FIRST = ("recall", "ndcg")  # what most look at


def names_of(folders):
    """The last parts of their paths, or as much of them as tells them apart."""
    paths = [pathlib.Path(folder).resolve() for folder in folders]
    for depth in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-depth:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    raise DataError("the same folder is given twice")


class Run:
    """One run: its record, its events without those that were made again, and their places in training time."""

    def __init__(self, folder, name):
        self.folder = pathlib.Path(folder)
        self.name = name
        self.events, self.starts, self.all = read_events(self.folder / "log.jsonl")
        self.record = read_record(self.folder / "run.json")
        if not self.starts:
            raise DataError(f"{self.folder / 'log.jsonl'}: no run has begun there; {last_error(self.all)}")

    @property
    def start(self):
        return self.starts[-1]

    def of(self, kind):
        return [event for event in self.events if event["event"] == kind]

    def epoch_of(self, event):
        """Where an event stands on the axis of epochs: within the first one between 0 and 1."""
        if event["event"] == "step":
            batches = math.ceil(self.start["examples"] / self.start["batch"])
            return event["epoch"] - 1 + event["batch"] / batches
        return event["epoch"]

    def status(self):
        last = self.all[-1]
        if last["event"] == "end":
            return {"completed": "completed", "early_stop": "stopped early", "stopped": "stopped by a signal"}[last["reason"]]
        return "failed" if last["event"] == "error" else "running, or killed"

    def lengths(self):
        """The Ks of its metrics."""
        return sorted({at["k"] for event in self.of("eval") for at in event["metrics"]})

    def metric(self, name, k):
        """Its values by epoch: none where the trainer that wrote them did not have it."""
        return [(event["epoch"], at[name]) for event in self.of("eval") for at in event["metrics"] if at["k"] == k and name in at]

    def seconds(self):
        return self.events[-1]["elapsed"] if self.events else 0.0

    def speed(self):
        """Examples a second: the median of the epochs, or of steps before the first one is done."""
        speeds = sorted(event["examples_per_second"] for event in self.of("epoch") or self.of("step"))
        return speeds[len(speeds) // 2] if speeds else 0.0


def read_record(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise DataError(f"{path}: not JSON: {error}") from error


def lines_of(data):
    """Lines of a file's bytes as Norn's programs cut them: str.splitlines() also cuts within names, at U+2028 and others."""
    lines = data.decode("utf-8", errors="surrogateescape").split("\n")
    return [line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


def read_events(path):
    """(events that count, starts, all events); a torn last line is left out."""
    try:
        lines = lines_of(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}; give the folder of trainer --run-dir") from error
    every = []
    for number, line in enumerate(lines, 1):
        try:
            every.append(json.loads(line))
        except ValueError as error:
            if number < len(lines):
                raise DataError(f"{path}:{number}: not JSON: {error}") from error
    events, starts, before = [], [], 0.0
    for event in every:
        if event["event"] == "start":
            # What stands above with later steps was made again, or by a run that began anew.
            events = [e for e in events if e.get("step", 0) <= event["step"]] if event["resumed"] else []
            before = events[-1]["elapsed"] if events else 0.0
            starts.append(event)
        elif starts and event["event"] in ("step", "epoch", "eval", "checkpoint"):
            events.append({**event, "elapsed": before + seconds_between(starts[-1]["time"], event["time"])})
    return events, starts, every


def seconds_between(first, last):
    parse = datetime.datetime.fromisoformat
    return (parse(last.replace("Z", "+00:00")) - parse(first.replace("Z", "+00:00"))).total_seconds()


def last_error(events):
    errors = [event["message"] for event in events if event["event"] == "error"]
    return f"its error: {errors[-1]}" if errors else "give the folder of a run that trains"


def thin(points):
    """At most MOST_POINTS points that look the same: of each stretch its lowest and its highest."""
    points = [(x, y) for x, y in points if y is not None and math.isfinite(y)]
    if len(points) <= MOST_POINTS:
        return points
    inner = points[1:-1]
    parts = (MOST_POINTS - 2) // 2
    kept = [points[0]]
    for i in range(parts):
        part = inner[i * len(inner) // parts:(i + 1) * len(inner) // parts]
        kept += sorted({min(part, key=lambda p: p[1]), max(part, key=lambda p: p[1])})
    return [*kept, points[-1]]


def averaged(points):
    """At most MOST_POINTS means of stretches: for what jumps about a level that is of more interest."""
    size = math.ceil(len(points) / MOST_POINTS) or 1
    parts = [points[i:i + size] for i in range(0, len(points), size)]
    return [(sum(x for x, _ in part) / len(part), sum(y for _, y in part) / len(part)) for part in parts]


def rounded(points):
    return [[float(f"{x:.6g}"), float(f"{y:.6g}")] for x, y in thin(points)]


class Curves:
    """The charts of one or several runs, as data for the page's script."""

    def __init__(self, runs):
        self.runs = runs
        self.charts = []

    def all(self):
        self.cost()
        self.metrics()
        self.throughput()
        self.rate()
        return self.charts

    def add(self, key, title, x, y, series, **more):
        series = [one for one in series if one["points"]]
        if series:
            self.charts.append({"id": key, "title": title, "x": x, "y": y, "series": series, **more})

    def line(self, number, name, points, **look):
        run = self.runs[number]
        single = len(self.runs) == 1
        label = name if single else f"{run.name}: {name}" if name else run.name
        return {"name": label, "run": number, "points": rounded(points), **look}

    def cost(self):
        series = []
        single = len(self.runs) == 1
        for n, run in enumerate(self.runs):
            if single:
                steps = [(run.epoch_of(e), e["cost"]) for e in run.of("step")]
                series.append(self.line(n, "training, since the last second", steps, color=0, faint=True))
            epochs = [(e["epoch"], e["cost"]) for e in run.of("epoch")]
            held_out = [(e["epoch"], e["cost"]) for e in run.of("eval")]
            series.append(self.line(n, "training, of an epoch" if single else "training", epochs, color=n))
            series.append(self.line(n, "held-out examples" if single else "held out", held_out, color=1 if single else n,
                                    dashed=not single))
        self.add("cost", "Cost", "epoch", "mean over examples", series, log=True, wide=True)

    def metrics(self):
        for metric, name in sorted(((m["name"], m["chart"]) for m in METRICS), key=lambda m: m[0] not in FIRST):
            if len(self.runs) == 1:
                best = [e["epoch"] for e in self.runs[0].of("eval") if e["best"]][-1:]
                series = [self.line(0, f"@{k}", self.runs[0].metric(metric, k), color=i, best=best)
                          for i, k in enumerate(self.runs[0].lengths())]
                self.add(metric, name, "epoch", "", series, small=True)
                continue
            for k in self.common_lengths():
                series = [self.line(n, "", run.metric(metric, k), color=n) for n, run in enumerate(self.runs)]
                self.add(f"{metric}-{k}", f"{name}@{k}", "epoch", "", series, small=True)

    def common_lengths(self):
        """One K: the first that most of the runs have."""
        lengths = [run.lengths() for run in self.runs]
        every = sorted({k for ks in lengths for k in ks}, key=lambda k: (-sum(k in ks for ks in lengths), k))
        return every[:1]

    def throughput(self):
        longest = max(run.seconds() for run in self.runs)
        unit, name = (3600.0, "hours") if longest > 7200 else (60.0, "minutes") if longest > 120 else (1.0, "seconds")
        series = []
        for n, run in enumerate(self.runs):
            points = run.of("step")[1:] if len(run.of("step")) > 5 else run.of("epoch")
            mean = averaged([(e["elapsed"] / unit, e["examples_per_second"]) for e in points])
            series.append(self.line(n, "", mean, color=n))
        self.add("speed", "Throughput", f"{name} of training", "examples a second", series, zero=True)

    def rate(self):
        series = [self.line(n, "", [(e["epoch"], e["rate"]) for e in run.of("epoch")], color=n)
                  for n, run in enumerate(self.runs)]
        self.add("rate", "Learning rate", "epoch", "", series, log=True)
