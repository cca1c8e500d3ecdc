"""The picture of layers as SVG: plain shapes, no script, no style sheet, no other file."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass

from eagle3_contracts.errors import printable
from eagle3_contracts.report.picture import Mark, stacked, ticks_of

_LEFT, _RIGHT, _TOP, _ROW = 96, 40, 40, 16
_CHARACTER = 8
"""Width of a character; all lengths are pixels."""

_GREEN, _RED, _BLUE, _GREY, _BLACK = "#1a7f37", "#cf222e", "#0550ae", "#57606a", "#1f2328"


def picture(title: str, num_layers: int, training: Sequence[Mark], serving: Sequence[Mark]) -> str:
    """Return the picture: boundaries 0 to ``num_layers``, training above, serving below.

    A line joins each slot with what is served in its place: upright and green where the two are
    one state, red where they are not (another boundary, or a star: after the final norm).
    """
    step = max(12, min(64, 840 // num_layers))
    above, below = (_rows(marks, step) for marks in (training, serving))
    axis = _TOP + _ROW * len(above) + 28
    width = _LEFT + step * num_layers + _RIGHT
    canvas = _Canvas(_root(title, width, axis + 44 + _ROW * len(below)), step, axis)
    _add_joints(canvas, training, serving)
    _add_axis(canvas, num_layers)
    _add_side(canvas, "training", above, up=True)
    _add_side(canvas, "SGLang", below, up=False)
    canvas.text(12, 20, title, _BLACK, "start")
    ET.indent(canvas.root)
    return ET.tostring(canvas.root, encoding="unicode", xml_declaration=True) + "\n"


@dataclass(frozen=True, slots=True)
class _Canvas:
    root: ET.Element
    step: int
    axis: int
    """Distance of the axis from the top."""

    def x(self, boundary: int) -> int:
        return _LEFT + boundary * self.step

    def text(self, x: int, y: int, text: str, fill: str, anchor: str, hint: str = "") -> None:
        place = {"x": str(x), "y": str(y), "fill": fill, "text-anchor": anchor}
        element = ET.SubElement(self.root, "text", place)
        element.text = printable(text)
        if hint:
            ET.SubElement(element, "title").text = printable(hint)

    def line(self, x1: int, y1: int, x2: int, y2: int, stroke: str) -> None:
        ends = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
        ET.SubElement(self.root, "line", {k: str(v) for k, v in ends.items()}, stroke=stroke)

    def arrow(self, x: int, tip: int, base: int, fill: str) -> None:
        points = f"{x},{tip} {x - 5},{base} {x + 5},{base}"
        ET.SubElement(self.root, "polygon", points=points, fill=fill)


def _root(title: str, width: int, height: int) -> ET.Element:
    size = {"width": str(width), "height": str(height), "viewBox": f"0 0 {width} {height}"}
    font = {"font-family": "monospace", "font-size": "12", "role": "img"}
    root = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", **size, **font})
    ET.SubElement(root, "title").text = printable(title)
    ET.SubElement(root, "rect", width="100%", height="100%", fill="#ffffff")
    return root


def _rows(marks: Sequence[Mark], step: int) -> list[list[Mark]]:
    return stacked(marks, lambda boundary: boundary * step // _CHARACTER)


def _add_joints(canvas: _Canvas, training: Sequence[Mark], serving: Sequence[Mark]) -> None:
    served = {mark.label: mark.boundary for mark in serving}
    for mark in training:
        slot = mark.label.rstrip("*")
        if slot in served:
            is_same = (slot, served[slot]) == (mark.label, mark.boundary)
            ends = canvas.x(mark.boundary), canvas.axis - 12, canvas.x(served[slot])
            canvas.line(*ends, canvas.axis + 28, _GREEN if is_same else _RED)


def _add_axis(canvas: _Canvas, num_layers: int) -> None:
    y, numbered = canvas.axis, ticks_of(num_layers)
    canvas.line(canvas.x(0), y, canvas.x(num_layers), y, _GREY)
    for k in range(num_layers + 1):
        half = 6 if k in numbered else 3
        canvas.line(canvas.x(k), y - half, canvas.x(k), y + half, _GREY)
    for k in numbered:
        canvas.text(canvas.x(k), y + 20, str(k), _GREY, "middle")
    canvas.text(_LEFT - 14, y + 20, "boundary", _GREY, "end")


def _add_side(canvas: _Canvas, name: str, rows: list[list[Mark]], *, up: bool) -> None:
    """Draw the arrows of one side of the axis, and the labels in as many rows as they need."""
    y = canvas.axis
    tip, base, first, way = (
        (y - 12, y - 22, y - 28, -_ROW) if up else (y + 28, y + 38, y + 52, _ROW)
    )
    if rows:
        canvas.text(_LEFT - 14, first, name, _GREY, "end")
    for number, row in enumerate(rows):
        for mark in row:
            canvas.arrow(canvas.x(mark.boundary), tip, base, _BLUE)
            y = first + number * way
            canvas.text(canvas.x(mark.boundary), y, mark.label, _BLACK, "middle", mark.text)
