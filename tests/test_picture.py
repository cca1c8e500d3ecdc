"""The picture of layers, as text and as SVG."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from textwrap import dedent

import pytest

from eagle3_contracts.report.picture import Mark, draw
from eagle3_contracts.report.svg import picture

SVG = "{http://www.w3.org/2000/svg}"
TRAINING = [Mark(2, "0", "is two"), Mark(31, "1", "is <31> & more"), Mark(31, "2*"), Mark(61, "L*")]
SERVING = [Mark(2, "0"), Mark(30, "1"), Mark(31, "2")]


def drawn(num_layers: int = 61, title: str = "dump") -> ET.Element:
    return ET.fromstring(picture(title, num_layers, TRAINING, SERVING))


def test_it_is_plain_svg_of_shapes() -> None:
    root = drawn()
    assert {element.tag.removeprefix(SVG) for element in root.iter()} == {
        *("svg", "title", "rect", "line", "text", "polygon")
    }
    assert not any("href" in name or name == "style" for e in root.iter() for name in e.attrib)


def test_every_mark_has_an_arrow_on_its_side_of_the_axis() -> None:
    tips = Counter(
        tuple(map(int, arrow.attrib["points"].split()[0].split(",")))
        for arrow in drawn().findall(f"{SVG}polygon")
    )
    above, below = sorted({y for _, y in tips})
    step = 840 // 61
    assert {x: n for (x, y), n in tips.items() if y == above} == {
        96 + 2 * step: 1,
        96 + 31 * step: 2,
        96 + 61 * step: 1,
    }
    assert [x for x, y in tips if y == below] == [96 + k * step for k in (2, 30, 31)]


def test_a_slot_and_what_is_served_in_its_place_are_joined() -> None:
    joints = [line.attrib for line in drawn().iter(f"{SVG}line") if line.get("stroke") in COLOURS]
    same, other, normed = joints
    assert [COLOURS[line["stroke"]] for line in joints] == ["same", "other", "other"]
    assert same["x1"] == same["x2"]
    assert int(other["x1"]) - int(other["x2"]) == 840 // 61
    assert normed["x1"] == normed["x2"]


COLOURS = {"#1a7f37": "same", "#cf222e": "other"}


def test_labels_of_one_boundary_do_not_cover_each_other() -> None:
    places = [(t.get("x"), t.get("y")) for t in drawn().findall(f"{SVG}text")]
    assert len(places) == len(set(places))


def test_whatever_a_name_holds_the_file_is_well_formed() -> None:
    root = drawn(title='<&"\x00\ud800\x1b[31m')
    assert root.findtext(f"{SVG}title") == '<&"\\x00\\ud800\\x1b[31m'
    assert [t.text for t in root.findall(f"{SVG}text/{SVG}title")] == ["is two", "is <31> & more"]


@pytest.mark.parametrize("num_layers", [1, 8, 61, 126])
def test_nothing_lies_outside(num_layers: int) -> None:
    root = ET.fromstring(picture("d", num_layers, [Mark(0, "0"), Mark(num_layers, "L*")], []))
    width, height = int(root.attrib["width"]), int(root.attrib["height"])
    for element in root.findall(f"{SVG}text"):
        assert 0 < int(element.attrib["x"]) < width
        assert 0 < int(element.attrib["y"]) < height


def test_labels_that_would_touch_get_rows_of_their_own_in_a_terminal() -> None:
    marks = [Mark(2, "0"), Mark(2, "1"), Mark(3, "2")]
    assert draw(4, marks, [], width=22, has_unicode=False) == dedent("""\
        training      0 2
                      1
                      v v
                  +-+-+-+-+
        boundary  0 1 2 3 4
        """)
