"""Plots as SVG text, enough for the report: lines with bounds, the timeline of calls, the stages of a turn."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

COLOURS = ("#1b6ca8", "#d95f02", "#2a9d5c", "#8e44ad", "#c0a000", "#777777")
_WIDE, _HIGH = 560, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 20, 20, 44


@dataclass(frozen=True)
class Series:
    """Points (x, y) in ascending x, with bounds of y where known."""

    name: str
    points: Sequence[tuple[float, float]]
    bounds: Sequence[tuple[float, float]] = ()


def _ticks(most: float, count: int = 5) -> list[float]:
    """Round numbers from 0 to `most`."""
    if most <= 0:
        return [0.0]
    rough = most / count
    scale = 10 ** math.floor(math.log10(rough))
    step = next(scale * factor for factor in (1, 2, 5, 10) if scale * factor >= rough)
    return [step * i for i in range(math.floor(most / step + 1e-9) + 1)]


def _svg(wide: float, high: float, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:g} {high:g}" role="img">'
    return head + "".join(parts) + "</svg>"


def _text(x: float, y: float, text: str, anchor: str = "start", colour: str = "#444") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'


def lines(series: Sequence[Series], *, across: str, upwards: str, target: float | None = None) -> str:
    """Curves over the number of calls; `target` is a dashed line."""
    xs = [x for one in series for x, _ in one.points] or [0.0]
    tops = [y for one in series for _, y in one.points] + [high for one in series for _, high in one.bounds]
    least, most = min(xs), max(max(xs), min(xs) + 1)
    top = 1.08 * max([y for y in tops if math.isfinite(y)] + [target or 0.0, 1e-9])

    def at(x: float, y: float) -> tuple[float, float]:
        across_share = (x - least) / (most - least)
        return (
            _LEFT + across_share * (_WIDE - _LEFT - _RIGHT),
            _HIGH - _BOTTOM - min(1.0, y / top) * (_HIGH - _TOP - _BOTTOM),
        )

    parts = []
    for tick in _ticks(top):
        _, y = at(least, tick)
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{_WIDE - _RIGHT}" stroke="#e4e4e4"/>')
        parts.append(_text(_LEFT - 6, y + 4, f"{tick:g}", "end"))
    parts += [_text(at(x, 0)[0], _HIGH - _BOTTOM + 16, f"{x:g}", "middle") for x in sorted(set(xs))]
    parts += [_text(_WIDE / 2, _HIGH - 6, across, "middle"), _text(4, 12, upwards)]
    if target is not None:
        _, y = at(least, target)
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{_WIDE - _RIGHT}" stroke="#c00" stroke-dasharray="5 4"/>')
    for i, one in enumerate(series):
        parts += _curve(one, COLOURS[i % len(COLOURS)], at)
        parts.append(_text(_LEFT + 8 + 120 * i, _TOP + 4, one.name, colour=COLOURS[i % len(COLOURS)]))
    return _svg(_WIDE, _HIGH, parts)


def _curve(one: Series, colour: str, at: Any) -> list[str]:
    parts = []
    shown = [(x, y) for x, y in one.points if math.isfinite(y)]
    if one.bounds:
        upper = [at(x, min(high, 1e9)) for (x, _), (_, high) in zip(one.points, one.bounds, strict=True)]
        lower = [at(x, low) for (x, _), (low, _) in zip(one.points, one.bounds, strict=True)]
        outline = " ".join(f"{x:.1f},{y:.1f}" for x, y in [*upper, *reversed(lower)])
        parts.append(f'<polygon points="{outline}" fill="{colour}" opacity="0.15"/>')
    path = " ".join("{:.1f},{:.1f}".format(*at(x, y)) for x, y in shown)
    parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
    for x, y in shown:
        place = at(x, y)
        parts.append(f'<circle cx="{place[0]:.1f}" cy="{place[1]:.1f}" r="3" fill="{colour}"/>')
    return parts


def timeline(calls: Sequence[Mapping[str, Any]], target_ms: float) -> str:
    """One row a call, a dot a turn: green in time, orange late, red unanswered; crosses for calls not taken."""
    end = max([float(call["ended_s"]) for call in calls] + [1.0])
    high = 30 + 12 * len(calls)

    def x(at: float) -> float:
        return 40 + at / end * (_WIDE - 60)

    parts = [_text(x(tick), high - 4, f"{tick:g} s", "middle") for tick in _ticks(end)]
    for row, call in enumerate(calls):
        y = 12 + 12 * row
        parts.append(_text(32, y + 4, str(call["number"] + 1), "end"))
        parts.append(f'<path d="M{x(call["began_s"]):.1f} {y}H{x(call["ended_s"]):.1f}" stroke="#bbb"/>')
        if call["refused"] or call["broken"]:
            why = escape(str(call["refused"] or call["broken"]))
            mark = f'<text x="{x(call["ended_s"]):.1f}" y="{y + 4}" fill="#c00">✕<title>{why}</title></text>'
            parts.append(mark)
        parts += [_dot(x(turn["at_s"]), y, turn, target_ms) for turn in call["turns"]]
    return _svg(_WIDE, high, parts)


def _dot(x: float, y: float, turn: Mapping[str, Any], target_ms: float) -> str:
    late = turn["voice_to_voice_ms"]
    colour = "#c00" if late is None else "#2a9d5c" if late <= target_ms else "#e08a00"
    title = f"{turn['clip']}: " + ("no answer" if late is None else f"{late:.0f} ms")
    return f'<circle cx="{x:.1f}" cy="{y}" r="4" fill="{colour}"><title>{escape(title)}</title></circle>'


def stages(bars: Sequence[Mapping[str, Any]], until_ms: float) -> str:
    """The stages of one turn, from the caller's last sample on."""
    wide = 360
    parts = []
    for i, bar in enumerate(bars):
        start, end = max(0.0, float(bar["start_ms"])), max(0.0, float(bar["end_ms"]))
        left, right = (min(1.0, at / max(1.0, until_ms)) * wide for at in (start, end))
        title = escape(f"{bar['stage']}: {bar['start_ms']:.0f} to {bar['end_ms']:.0f} ms")
        colour = COLOURS[i % len(COLOURS)]
        box = f'x="{left:.1f}" y="{i * 7}" width="{max(1.0, right - left):.1f}" height="6"'
        parts.append(f'<rect {box} fill="{colour}"><title>{title}</title></rect>')
    return _svg(wide, max(7, 7 * len(bars)), parts)
