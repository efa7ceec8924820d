"""The report: one HTML page with everything in it, made from the JSON result, to be sent to a colleague."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from loadtest.charts import Series, lines, stages, timeline

_WORST = 12
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:1180px;margin:2em auto;padding:0 1em;color:#222}
h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}
table{border-collapse:collapse}td,th{padding:.25em .8em;text-align:right;border-bottom:1px solid #e4e4e4}
td:first-child,th:first-child{text-align:left}svg{font:11px system-ui,sans-serif;max-width:100%;vertical-align:top}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:1em}.plots svg{width:100%}
.verdict{font-size:1.2em;padding:.6em 1em;background:#eef5fb;border-left:4px solid #1b6ca8}.bad{color:#c00}
"""


def page(result: Mapping[str, Any]) -> str:
    """The page of a result as `halfsecond loadtest --json` writes it."""
    steps = result["steps"]
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>halfsecond loadtest</title><style>{_STYLE}</style>",
        f"<h1>Load test of {escape(result['server'])}</h1>",
        f"<p>{escape(result['protocol'])}, callers: {escape(', '.join(result['scripts']))}, arrivals: ",
        f"{escape(result['arrivals'])}; target {escape(result['target'])}. Times are what the callers heard: from the ",
        "last sample of speech sent to the first audible sample of the answer.</p>",
    ]
    if result["verdict"]:
        parts.append(f"<p class=verdict>{escape(result['verdict'])}</p>")
    if not steps:
        return "".join([*parts, "<p>Nothing was measured.</p></html>"])
    parts += [_table(steps), _plots(steps, result["target_ms"]), _timelines(steps, result["target_ms"]), _worst(steps)]
    return "".join([*parts, "</html>"])


def _ms(value: float | None) -> str:
    return "never" if value is None else f"{value:.0f}"


def _table(steps: Sequence[Mapping[str, Any]]) -> str:
    heads = (
        "calls",
        "turns",
        "p50 ms",
        "p95 ms",
        "unanswered",
        "cut into",
        "wrong",
        "gaps",
        "frames lost",
        "refused",
        "set-up ms",
        "target",
    )
    rows = []
    for step in steps:
        turns = sum(len(call["turns"]) for call in step["results"])
        refused = sum(bool(call["refused"]) for call in step["results"])
        held = "held" if step["holds"] else "<span class=bad>not held</span>"
        cells = (
            str(step["calls"]),
            str(turns),
            *(f"{_ms(value)} ({_ms(low)}–{_ms(high)})" for value, low, high in (step["p50_ms"], step["p95_ms"])),
            *(str(step[name]) for name in ("unanswered", "cut_ins", "wrong", "gaps", "lost_frames")),
            str(refused),
            _ms(step["set_up_ms"]),
            held if step["counts"] else "<span class=bad>tester too slow</span>",
        )
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return f"<table><tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>{''.join(rows)}</table>"


def _plots(steps: Sequence[Mapping[str, Any]], target_ms: float) -> str:
    merged = {step["calls"]: step for step in steps}  # the last of those with the same number of calls
    ordered = [merged[calls] for calls in sorted(merged)]
    latency = [_percentiles(ordered, name) for name in ("p50", "p95")]
    figures = [("Latency by load", lines(latency, across="calls", upwards="ms", target=target_ms))]
    names = list(dict.fromkeys(name for step in ordered for name in step["server"]["stages_ms"]))
    if names:
        times = [
            _points(ordered, name, lambda step, name=name: step["server"]["stages_ms"][name]["mean"]) for name in names
        ]
        figures.append(("Mean time of each stage", lines(times, across="calls", upwards="ms")))
    for title, name in (("Processor cores busy", "cores"), ("Memory", "resident_mb")):
        used = _points(ordered, name, lambda step, name=name: step["server"][name])
        if used.points:
            figures.append((title, lines([used], across="calls", upwards="MB" if name == "resident_mb" else "cores")))
    return "<div class=plots>" + "".join(f"<div><h2>{title}</h2>{plot}</div>" for title, plot in figures) + "</div>"


def _percentiles(steps: Sequence[Mapping[str, Any]], name: str) -> Series:
    found = [[math.inf if value is None else value for value in step[f"{name}_ms"]] for step in steps]
    points = [(step["calls"], values[0]) for step, values in zip(steps, found, strict=True)]
    return Series(name, points, [(values[1], values[2]) for values in found])


def _points(steps: Sequence[Mapping[str, Any]], name: str, value: Any) -> Series:
    points = []
    for step in steps:
        try:
            found = value(step)
        except KeyError:
            continue
        if found is not None:
            points.append((step["calls"], found))
    return Series(name, points)


def _timelines(steps: Sequence[Mapping[str, Any]], target_ms: float) -> str:
    parts = [
        "<h2>Calls over time</h2><p>A dot a turn: green in time, orange late, red unanswered.</p><div class=plots>"
    ]
    for step in steps:
        parts.append(f"<div><b>{step['calls']} calls</b><br>{timeline(step['results'], target_ms)}</div>")
    return "".join([*parts, "</div>"])


def _worst(steps: Sequence[Mapping[str, Any]]) -> str:
    turns = [
        (math.inf if turn["voice_to_voice_ms"] is None else turn["voice_to_voice_ms"], step["calls"], turn)
        for step in steps
        for call in step["results"]
        for turn in call["turns"]
    ]
    turns.sort(key=lambda entry: entry[0], reverse=True)
    longest = max([late for late, _, _ in turns if math.isfinite(late)] + [1.0])
    rows = [
        f"<tr><td>{escape(turn['clip'])}</td><td>{calls}</td><td>{_ms(turn['voice_to_voice_ms'])}</td>"
        f"<td>{stages(turn['stages'], longest) if turn['stages'] else 'not told'}</td>"
        f"<td style='text-align:left'>{escape(turn['understood'])}</td></tr>"
        for late, calls, turn in turns[:_WORST]
    ]
    head = "<tr><th>recording</th><th>calls</th><th>ms</th><th>stages</th><th>understood</th></tr>"
    return f"<h2>Worst turns</h2><table>{head}{''.join(rows)}</table>"
