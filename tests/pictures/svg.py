"""A recorded terminal as an SVG that plays by itself: plain CSS, no script, no font of its own.

The moments stand side by side, and the strip of them jumps from one to the next. A row is written
once, however often it is seen. Who prefers no motion sees the last moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from pictures.terminal import Moment, Recording, Run

_FONT_PX, _WIDE, _HIGH, _EDGE = 14, 8.4, 19, 14
_LAST_S = 5.0
"""How long the end is seen before it begins again."""

_BASIC = (
    *("#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4"),
    *("#6e7681", "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#ffffff"),
)


def render(recording: Recording, *, title: str) -> str:
    """The text of the file."""
    moments = [*recording.moments[:-1], Moment(recording.moments[-1].picture, _LAST_S)]
    width = recording.columns * _WIDE + 2 * _EDGE
    height = recording.rows * _HIGH + 2 * _EDGE
    rows = _rows(moments)
    symbols = "".join(f'<g id="r{number}">{_row(row)}</g>' for row, number in rows.items())
    frames = "".join(
        f'<g transform="translate({index * width:g} 0)">'
        + "".join(
            f'<use href="#r{rows[row]}" y="{line * _HIGH}"/>'
            for line, row in enumerate(moment.picture)
            if row
        )
        + "</g>"
        for index, moment in enumerate(moments)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}"'
        f' width="{width:g}" height="{height}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title><style>{_css(moments, width)}</style>"
        f'<rect width="100%" height="100%" rx="8" fill="#0d1117"/><defs>{symbols}</defs>'
        f'<svg x="{_EDGE}" y="{_EDGE}" width="{width - 2 * _EDGE:g}"'
        f' height="{height - 2 * _EDGE}"><g class="strip">{frames}</g></svg></svg>\n'
    )


def _rows(moments: Sequence[Moment]) -> dict[tuple[Run, ...], int]:
    """A number for each different row that holds anything."""
    rows: dict[tuple[Run, ...], int] = {}
    for moment in moments:
        for row in moment.picture:
            if row:
                rows.setdefault(row, len(rows))
    return rows


def _row(row: Sequence[Run]) -> str:
    spans = "".join(
        f'<tspan x="{run.column * _WIDE:g}" textLength="{len(run.text) * _WIDE:g}"'
        f"{_look(run)}>{escape(run.text, quote=False)}</tspan>"
        for run in row
    )
    return f'<text y="{_FONT_PX}" xml:space="preserve">{spans}</text>'


def _look(run: Run) -> str:
    style = run.style
    fill = "" if style.colour is None else f' fill="{_colour(style.colour)}"'
    bold = ' font-weight="bold"' if style.bold else ""
    return fill + bold + (' opacity=".6"' if style.dim else "")


def _colour(index: int) -> str:
    """A colour of the 256 of terminals."""
    if index < 16:
        return _BASIC[index]
    if index >= 232:
        grey = 8 + 10 * (index - 232)
        return f"#{grey:02x}{grey:02x}{grey:02x}"
    cube = index - 16
    parts = (cube // 36, cube // 6 % 6, cube % 6)
    return "#" + "".join(f"{part and 55 + 40 * part:02x}" for part in parts)


def _css(moments: Sequence[Moment], width: float) -> str:
    whole = sum(moment.seconds for moment in moments)
    steps, at = [], 0.0
    for index, moment in enumerate(moments):
        steps.append(f"{100 * at / whole:.2f}%{{transform:translateX({-index * width:g}px)}}")
        at += moment.seconds
    last = -(len(moments) - 1) * width
    return (
        f"text{{font:{_FONT_PX}px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;"
        f"fill:#c9d1d9}}.strip{{animation:play {whole:.1f}s step-end infinite}}"
        f"@keyframes play{{{''.join(steps)}}}@media(prefers-reduced-motion:reduce)"
        f"{{.strip{{animation:none;transform:translateX({last:g}px)}}}}"
    )
