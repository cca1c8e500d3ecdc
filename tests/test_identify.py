"""Which boundary a slot is, on the states of a real Llama."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import torch

from eagle3_contracts.features.identify import TOLERANCE, Array, Candidates, identify
from eagle3_contracts.features.match import Candidate, Fit, Match, match_from_json
from tiny_llama import LAYERS, boundaries_of, make_llama, normed, some_tokens

T = 40
LLAMA = make_llama()
STATES = boundaries_of(LLAMA, some_tokens(T))


def array(states: torch.Tensor) -> Array:
    return np.asarray(states.float().numpy(), np.float32)


@cache
def candidates() -> Candidates:
    """Return all boundaries of the tokens, as they are and after the final norm."""
    plain = {Candidate(k): array(state) for k, state in enumerate(STATES)}
    after = {Candidate(k, True): array(normed(LLAMA, state)) for k, state in enumerate(STATES)}
    return {**plain, **after}


def named(slot: torch.Tensor, dtype: str = "float32") -> Match:
    return identify(array(slot), candidates(), TOLERANCE[dtype])


@pytest.mark.parametrize("k", range(LAYERS + 1))
def test_every_boundary_is_named_with_and_without_the_final_norm(k: int) -> None:
    plain, after = named(STATES[k]), named(normed(LLAMA, STATES[k]))
    assert (plain.fit, plain.best, plain.error) == (Fit.SAME, Candidate(k), 0)
    assert (after.fit, after.best, after.error) == (Fit.SAME, Candidate(k, True), 0)
    assert min(plain.margin, after.margin) == 1e6


def test_the_second_best_is_a_neighbour() -> None:
    plain = {c: states for c, states in candidates().items() if not c.normed}
    match = identify(array(STATES[4]), plain, TOLERANCE["float32"])
    assert match.second in (Candidate(3), Candidate(5))
    assert match.second_error > 0.05


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_rounding_to_the_dtype_is_no_fault(dtype: str) -> None:
    for k in range(LAYERS + 1):
        match = named(STATES[k].to(getattr(torch, dtype)), dtype)
        assert (match.fit, match.best) == (Fit.SAME, Candidate(k))
        assert 0 < match.error < TOLERANCE[dtype]


def test_a_model_run_in_bfloat16_throughout_is_recognised() -> None:
    half = make_llama().to(torch.bfloat16)
    for k, state in enumerate(boundaries_of(half, some_tokens(T))):
        assert (named(state, "bfloat16").fit, named(state, "bfloat16").best.k) == (Fit.SAME, k)


def test_an_error_that_the_dtype_does_not_explain_is_only_near() -> None:
    noise = 0.02 * STATES[4].norm(dim=1, keepdim=True) / 8 * torch.randn(STATES[4].shape)
    match = named(STATES[4] + noise)
    assert (match.fit, match.best) == (Fit.NEAR, Candidate(4))
    assert match.error == pytest.approx(0.02, rel=0.3)


@pytest.mark.parametrize("offset", [1, -1])
def test_rows_of_the_next_or_the_last_token_are_shifted(offset: int) -> None:
    match = named(STATES[4].roll(-offset, 0))
    assert (match.fit, match.best, match.offset) == (Fit.SHIFTED, Candidate(4), offset)


@pytest.mark.parametrize("at", [3, 20, 36])
def test_a_row_that_was_dropped_is_found(at: int) -> None:
    rows = [*range(at), *range(at + 1, T), T - 1]
    match = named(STATES[4][rows])
    assert (match.fit, match.best, match.start, match.offset) == (Fit.CUT, Candidate(4), at, 1)


@pytest.mark.parametrize("at", [3, 20, 36])
def test_a_token_that_the_extraction_did_not_see_is_found(at: int) -> None:
    tokens = some_tokens(T)
    other = torch.cat([tokens[:at], tokens[at + 1 :], tokens[-1:]])
    match = named(boundaries_of(LLAMA, other)[4])
    assert (match.fit, match.best, match.start, match.offset) == (Fit.CUT, Candidate(4), at, 0)
    assert match.misfits == T - at


def test_single_rows_that_do_not_fit_are_counted() -> None:
    slot = STATES[4].clone()
    slot[7] = float("nan")
    slot[21] = slot[22]
    match = named(slot)
    assert (match.fit, match.start, match.misfits) == (Fit.ROWS, 7, 2)


@pytest.mark.parametrize("factor", [0.5, 1.1, 8.0, -1.0])
def test_a_multiple_is_no_match(factor: float) -> None:
    match = named(STATES[4] * factor)
    assert (match.fit, match.best) == (Fit.SCALED, Candidate(4))
    assert match.factor == pytest.approx(factor, rel=1e-4)


FOREIGN: dict[str, Callable[[], torch.Tensor]] = {
    "other-weights": lambda: boundaries_of(make_llama(seed=1), some_tokens(T))[4],
    "other-tokens": lambda: boundaries_of(LLAMA, some_tokens(T, seed=1))[4],
    "first-token-dropped": lambda: boundaries_of(LLAMA, some_tokens(T).roll(-1))[4],
    "not-finite": lambda: torch.full_like(STATES[4], float("nan")),
    "zeros": lambda: torch.zeros_like(STATES[4]),
    "noise": lambda: torch.randn(STATES[4].shape),
    "layer-without-residual": lambda: STATES[5] - STATES[4],
}


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_what_no_boundary_explains_is_none(name: str, dtype: str) -> None:
    assert named(FOREIGN[name](), dtype).fit is Fit.NONE


def test_boundaries_that_are_alike_cannot_be_told_apart() -> None:
    alike = {**candidates(), Candidate(5): array(STATES[4] * (1 + 1e-7))}
    match = identify(array(STATES[4]), alike, TOLERANCE["float32"])
    assert match.fit is Fit.UNCLEAR
    assert {match.best, match.second} == {Candidate(4), Candidate(5)}


def test_one_huge_first_row_does_not_decide() -> None:
    sink = STATES.clone()
    sink[1:, 0] = 1000 * sink[1, 0]
    sinking = {Candidate(k): array(state) for k, state in enumerate(sink)}
    match = identify(array(sink[4]), sinking, TOLERANCE["float32"])
    assert (match.fit, match.best) == (Fit.SAME, Candidate(4))
    assert match.second_error > 0.05


def test_the_scale_of_the_model_does_not_matter() -> None:
    large = {c: 1000 * states for c, states in candidates().items()}
    match = identify(1000 * array(STATES[4]), large, TOLERANCE["float32"])
    assert match.fit is Fit.SAME
    assert match.second_error == pytest.approx(named(STATES[4]).second_error, rel=1e-3)


def test_a_slot_of_another_width_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be a state"):
        identify(np.ones((T, 32), np.float32), candidates(), 1e-3)


def test_a_match_survives_json() -> None:
    for slot in (STATES[4], STATES[4].roll(1, 0), torch.zeros_like(STATES[4])):
        match = named(slot)
        assert match_from_json(json.loads(json.dumps(match.as_json()))) == match
