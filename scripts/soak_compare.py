#!/usr/bin/env python3
"""Compares the first quarter of a soak's intervals, but for the very first one, with the last: soak_compare.py FILE.csv, or --self-test.

Exit code: 0 no drift, 1 drift, 2 the file does not allow a comparison."""
import csv
import statistics
import sys

# Largest ratio of the medians, last quarter to first; by the beginning of the column's name.
LIMITS = [("step_us_", 1.5), ("rss_", 1.1), ("cycle_ms", 1.25), ("fds", 1.0), ("threads", 1.0)]
FEWEST = 8  # intervals, so that a quarter has two


def is_empty(column, *values):
    """Steps that are too short to be seen, or that no quantum took, are written as 0: that says nothing."""
    return column.startswith("step_us_") and all(v == 0 for v in values)


def limit(column):
    return next((factor for start, factor in LIMITS if column.startswith(start)), None)


def compare(rows):
    """Lines (column, first, last, ratio, limit, verdict); ValueError if there is nothing to compare. `rows` are all intervals of
    a run: the first one builds the live set and warms the caches, and is left out."""
    rows = rows[1:]
    if len(rows) < FEWEST:
        raise ValueError(f"{len(rows)} intervals after the first; a comparison needs at least {FEWEST}: run longer")
    quarter = len(rows) // 4
    table = []
    for column in rows[0]:
        factor = limit(column)
        if factor is None:
            continue
        ends = []
        for part in (rows[:quarter], rows[-quarter:]):
            values = [float(r[column]) for r in part if r[column] != ""]
            ends.append(statistics.median(values) if values else None)
        if None in ends:
            # A phase that is seen in one quarter only cannot be compared; cycles must be there in both.
            if column == "cycle_ms":
                raise ValueError("no cycle ended in the first or the last quarter")
            continue
        first, last = ends
        if is_empty(column, first, last):
            table.append((column, first, last, None, factor, "no data"))
            continue
        ratio = last / first if first else (1.0 if last == 0 else float("inf"))
        table.append((column, first, last, ratio, factor, "ok" if ratio <= factor else "DRIFT"))
    if not any(line[0].startswith("step_us_") and line[5] != "no data" for line in table):
        raise ValueError("no phase has steps in both quarters")
    return table


def report(rows):
    try:
        table = compare(rows)
    except (ValueError, KeyError) as e:
        print(f"soak: {e}", file=sys.stderr)
        return 2
    print(f'{"figure":<24}{"first quarter":>14}{"last quarter":>14}{"ratio":>8}{"limit":>7}')
    for column, first, last, ratio, factor, verdict in table:
        shown = "-" if ratio is None else f"{ratio:.3f}"
        print(f"{column:<24}{first:>14.3f}{last:>14.3f}{shown:>8}{factor:>7.2f}  {verdict}")
    return 1 if any(line[5] == "DRIFT" for line in table) else 0


def self_test():
    def rows(n=40, **drift):
        base = {"step_us_mark": 50.0, "step_us_sweep": 8.0, "rss_bytes": 1e8, "cycle_ms": 6.0, "fds": 9, "threads": 7}
        noise = [0.9, 1.0, 1.1, 1.0]
        return [
            {k: str(v * (noise[i % 4] if k[:4] in ("step", "cycl") else 1) * (1 + drift.get(k, 0) * i / (n - 1)))
             for k, v in base.items()} | {"minute": str(i)}
            for i in range(n)
        ]

    def drifted(r):
        return [line[0] for line in compare(r) if line[5] == "DRIFT"]

    assert drifted(rows()) == [], "noise is no drift"
    assert report(rows()) == 0
    for column, growth in [("step_us_mark", 1.0), ("step_us_sweep", 16.0), ("rss_bytes", 0.2), ("cycle_ms", 0.5),
                           ("fds", 0.5), ("threads", 0.5)]:
        planted = rows(**{column: growth})
        assert drifted(planted) == [column], (column, drifted(planted))
        assert report(planted) == 1
    # Below the limits, and an outlier: neither is drift.
    assert drifted(rows(step_us_mark=0.3, rss_bytes=0.05, cycle_ms=0.1)) == []
    outlier = rows()
    outlier[-1]["step_us_mark"] = "80000"
    assert drifted(outlier) == []
    assert report(rows(4)) == 2, "too short"
    assert report(rows(FEWEST)) == 2 and report(rows(FEWEST + 1)) == 0, "the first interval is left out"
    # The same figures as a file, which begins with the first interval too.
    first = rows()
    first[0] |= {"step_us_mark": "1e9", "rss_bytes": "1"}
    assert compare(first) == compare(rows()), "the first interval does not count"
    zeroes = rows()
    for r in zeroes:
        r["step_us_sweep"] = "0.0"
    verdicts = {line[0]: line[5] for line in compare(zeroes)}
    assert verdicts["step_us_sweep"] == "no data" and verdicts["step_us_mark"] == "ok", verdicts
    assert report(zeroes) == 0
    zeroes[-1]["step_us_sweep"] = "5.0"
    assert {line[0]: line[5] for line in compare(zeroes)}["step_us_sweep"] == "no data", "the medians are zero"
    for r in zeroes[-10:]:
        r["step_us_sweep"] = "5.0"
    assert drifted(zeroes) == ["step_us_sweep"], "what grows from nothing"
    for r in zeroes:
        r |= {"step_us_sweep": "0", "step_us_mark": "0"}
    assert report(zeroes) == 2, "no step was seen at all"
    no_cycles = rows()
    for r in no_cycles[-10:]:
        r["cycle_ms"] = ""
    assert report(no_cycles) == 2, "a collector that has stopped is not without drift"
    print("soak: the comparison finds planted drift")


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    elif len(sys.argv) == 2:
        with open(sys.argv[1], newline="") as f:
            sys.exit(report(list(csv.DictReader(f))))
    else:
        sys.exit(__doc__)
