"""Telling launch flags apart."""

from __future__ import annotations

import pytest

from eagle3_contracts.flags import parse_flags


@pytest.mark.parametrize(
    ("args", "flags"),
    [
        ("", {}),
        ("--a 1 --b=2 --c", {"a": "1", "b": "2", "c": "true"}),
        ("--ids 1 2 3 --x -1", {"ids": "1 2 3", "x": "-1"}),
        ("--json '{\"a\": 1}' --e= --e", {"json": '{"a": 1}', "e": "true"}),
        ("--a 1 --a 2", {"a": "2"}),
        (
            "--model m --speculative-algo EAGLE3",
            {"model-path": "m", "speculative-algorithm": "EAGLE3"},
        ),
    ],
)
def test_flags_are_told_apart(args: str, flags: dict[str, str]) -> None:
    assert parse_flags(args) == flags


def test_an_open_quote_is_refused() -> None:
    with pytest.raises(ValueError, match="quote") as caught:
        parse_flags("--model 'm")
    assert str(caught.value) == (
        "cannot be split into words: No closing quotation; every quote and backslash needs its "
        "other half"
    )


def test_words_that_belong_to_no_flag_are_refused() -> None:
    with pytest.raises(ValueError, match="flag") as caught:
        parse_flags("python -m sglang.launch_server --model m")
    assert str(caught.value) == (
        "'python' belongs to no flag; give the server's flags only, each starting with --"
    )
