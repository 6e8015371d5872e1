#!/usr/bin/env python3
"""Runs `metronome run` in one process and samples it: soak.py METRONOME HOURS [ARGUMENTS], or --self-test. See scripts/soak.

Steps and cycles are read from the verbose GC log, whose summaries hold the longest step (CPU time) of each kind of quantum."""
import csv
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import soak_compare

PHASES = ["precollect", "mark", "sweep", "postcollect"]
# A second for each of twenty intervals; a month.
LEAST_SECONDS, MOST_SECONDS = 20, 31 * 24 * 3600
COLUMNS = (["minute"] + [f"step_us_{p}" for p in PHASES] + ["step_name", "cycles", "cycle_ms", "live_bytes", "rss_bytes",
           "fds", "threads", "load"])
QUANTA = re.compile(r'<quanta [^>]*quantumType="([^"]+)"')
STEP = re.compile(r'longestStepMs="([0-9.]+)" longestStep="([^"]+)"')
CYCLE = re.compile(r'<metronome-cycle [^>]*collectorMs="([0-9.]+)"[^>]*liveBytes="([0-9]+)"')


class Log:
    """Reads what has been added to a verbose log, whole lines only."""

    def __init__(self, path):
        self.path, self.at, self.kind = path, 0, None

    def interval(self):
        steps, name, cycles, live = {}, (0.0, ""), [], ""
        try:
            with open(self.path, "rb") as f:
                f.seek(self.at)
                data = f.read()
        except FileNotFoundError:
            data = b""
        data = data[: data.rfind(b"\n") + 1]
        self.at += len(data)
        for line in data.decode().splitlines():
            if m := QUANTA.search(line):
                self.kind = m[1]
            elif m := STEP.search(line):
                us = float(m[1]) * 1000
                steps[self.kind] = max(us, steps.get(self.kind, 0.0))
                name = max(name, (us, m[2]))
            elif m := CYCLE.search(line):
                cycles.append(float(m[1]))
                live = m[2]
        if unknown := steps.keys() - set(PHASES):
            sys.exit(f"soak: the log has quanta of a kind that has no column: {', '.join(map(str, unknown))}")
        row = {f"step_us_{p}": steps.get(p, "") for p in PHASES}
        # The median: of the cycles that are verified each takes many times as long.
        middle = statistics.median(cycles) if cycles else ""
        return row | {"step_name": name[1], "cycles": len(cycles), "cycle_ms": middle, "live_bytes": live}


def process(pid):
    with open(f"/proc/{pid}/status") as f:
        status = dict(line.split(":", 1) for line in f)
    return {"rss_bytes": int(status["VmRSS"].split()[0]) * 1024, "threads": int(status["Threads"]),
            "fds": len(os.listdir(f"/proc/{pid}/fd")), "load": round(os.getloadavg()[0], 2)}


def seconds_of(hours):
    """Seconds of so many hours; ValueError with what is wrong."""
    try:
        seconds = float(hours) * 3600
    except ValueError:
        seconds = math.nan
    if not LEAST_SECONDS <= seconds <= MOST_SECONDS:
        raise ValueError(f"{hours!r} is no length for a run: give hours, such as 1 or 0.5, "
                         f"between {LEAST_SECONDS / 3600:.4f} and {MOST_SECONDS // 3600}")
    return seconds


def main(metronome, hours, arguments):
    try:
        seconds = seconds_of(hours)
    except ValueError as e:
        print(f"soak: {e}", file=sys.stderr)
        return 2
    # A run shorter than twenty minutes is cut into twenty intervals.
    interval = min(60.0, seconds / 20)
    out = time.strftime("benches/soak/%Y-%m-%d.csv")
    n = 1
    while os.path.exists(out):
        n += 1
        out = time.strftime(f"benches/soak/%Y-%m-%d-{n}.csv")
    os.makedirs(os.path.dirname(out), exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, open(out, "w", newline="") as f:
        log = Log(f"{folder}/gc.xml")
        output = open(f"{folder}/out", "w+")
        command = [metronome, "run", "--seconds", str(int(seconds) + 5), "--verbose-gc", log.path, *arguments]
        child = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        rows, writer = [], csv.DictWriter(f, COLUMNS)
        writer.writeheader()
        try:
            start = time.monotonic()
            for i in range(1, int(seconds / interval) + 1):
                time.sleep(max(0.0, start + i * interval - time.monotonic()))
                if child.poll() is not None:
                    break
                row = {"minute": round(i * interval / 60, 2)} | log.interval() | process(child.pid)
                rows.append(row)
                writer.writerow(row)
                f.flush()
                print(", ".join(f"{k} {v:.1f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()), flush=True)
            child.wait(timeout=120)
        finally:
            if child.poll() is None:
                child.send_signal(signal.SIGINT)
                child.wait(timeout=30)
        if child.returncode != 0:
            output.seek(0)
            print(output.read()[-4000:], file=sys.stderr)
            print(f"soak: the run failed with {child.returncode}", file=sys.stderr)
            return 1
    print(f"figures: {out}")
    return soak_compare.report(rows)


def self_test():
    """Lengths that are none are refused before anything is begun."""
    before = sorted(os.listdir("benches/soak"))
    for hours in ["abc", "nan", "0", "-1", "inf", "", "0.001", "1e9"]:
        assert main("/no/such/program", hours, []) == 2, hours
    assert seconds_of("0.5") == 1800 and seconds_of(1) == 3600
    assert sorted(os.listdir("benches/soak")) == before, "a file was left behind"
    print("soak: lengths that are none are refused")


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        sys.exit(self_test())
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
