"""A hit-rate curve in characters: capacity on a log axis, the points asked for as rings."""

import math
from collections.abc import Sequence

from warmset.curves.study import Point

_WIDTH, _HEIGHT = 64, 13


def chart(line: Sequence[tuple[int, float]], points: Sequence[Point]) -> str:
    """`line` as dots and `points` as rings, on axes with their numbers."""
    top = max([ratio for _, ratio in line] + [p.hit_ratio for p in points] + [0.01])
    top = min(1.0, math.ceil(top * 10) / 10)
    low = math.log10(max(1, line[0][0]))
    span = max(1e-9, math.log10(max(1, line[-1][0])) - low)
    grid = [[" "] * _WIDTH for _ in range(_HEIGHT)]

    def put(capacity: int, ratio: float, mark: str) -> None:
        x = round((math.log10(max(1, capacity)) - low) / span * (_WIDTH - 1))
        y = round(min(1.0, ratio / top) * (_HEIGHT - 1))
        grid[_HEIGHT - 1 - y][max(0, min(_WIDTH - 1, x))] = mark

    for capacity, ratio in line:
        put(capacity, ratio, "·")
    for point in points:
        put(point.capacity_blocks, point.hit_ratio, "o")
    rows = []
    for index, cells in enumerate(grid):
        value = top * (_HEIGHT - 1 - index) / (_HEIGHT - 1)
        label = f"{100 * value:5.0f} %" if index in (0, _HEIGHT // 2, _HEIGHT - 1) else " " * 7
        rows.append(f"{label} ┤{''.join(cells)}".rstrip())
    decades = [" "] * (_WIDTH + 8)
    axis = ["─"] * _WIDTH
    for power in range(math.ceil(low), math.floor(low + span) + 1):
        x = round((power - low) / span * (_WIDTH - 1))
        axis[x] = "┴"
        text = _short(10**power)
        if all(c == " " for c in decades[x : x + len(text) + 1]):
            decades[x : x + len(text)] = text
    rows.append(" " * 8 + "└" + "".join(axis))
    rows.append(" " * 9 + "".join(decades).rstrip() + "  blocks")
    return "\n".join(rows)


def _short(value: int) -> str:
    for factor, unit in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if value >= factor:
            return f"{value // factor}{unit}"
    return str(value)
