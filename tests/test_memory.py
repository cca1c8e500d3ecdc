"""The memory canary without an engine: what it was fitted to it foretells, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from eagle3_contracts.canary.memory import (
    Array,
    Code,
    NotFittedError,
    Remembered,
    code_of,
    draft_config,
    draft_weights,
    fit,
    wrong_states,
)

HIDDEN, VOCAB, ROWS, LAYERS = 64, 256, 16, 12
TRAINED = (3, 6, 9)


def streams(seed: int = 0) -> dict[int, Array]:
    """Return boundaries 0 to n, each a layer's step of a tenth away from the one before."""
    random = np.random.default_rng(seed)
    steps = random.normal(size=(LAYERS + 1, ROWS, HIDDEN)) * 0.3
    steps[0] *= 10
    return dict(enumerate(np.cumsum(steps, axis=0)))


def remembered(states: Mapping[int, Array], boundaries: tuple[int, ...] = TRAINED) -> Remembered:
    """Return a memory of tokens some of which are said twice."""
    drafted = np.random.default_rng(1).integers(0, 40, ROWS)
    return Remembered(boundaries, states, [int(token) for token in drafted])


def drafts(what: Remembered, code: Code, at: tuple[int, ...]) -> list[int]:
    """Draft from the states of boundaries ``at``, as SGLang's class does with these weights."""
    weights = draft_weights(fit(what, code), code)
    given = np.concatenate([what.states[k] for k in at], axis=1).astype(np.float32)
    hidden = given @ weights["fc.weight"].T
    rows = (hidden @ weights["lm_head.weight"].T).argmax(axis=1)
    return [int(row + weights["d2t"][row]) for row in rows]


def said(at: tuple[int, ...], boundaries: tuple[int, ...] = TRAINED) -> list[str]:
    what = remembered(streams(), boundaries)
    code = code_of(what, VOCAB)
    return wrong_states(boundaries, code, zip(drafts(what, code, at), what.drafted, strict=True))


def test_from_the_trained_boundaries_every_token_is_right() -> None:
    what = remembered(streams())
    code = code_of(what, VOCAB)
    assert drafts(what, code, TRAINED) == what.drafted
    assert said(TRAINED) == []


@pytest.mark.parametrize(
    ("at", "wrong"),
    [
        ((3, 7, 9), ["state 1 is boundary 7, not 6"]),
        ((2, 6, 9), ["state 0 is boundary 2, not 3"]),
        ((4, 7, 10), [f"state {k} is boundary {b + 1}, not {b}" for k, b in enumerate(TRAINED)]),
        ((9, 6, 3), ["state 0 is not boundary 3", "state 2 is not boundary 9"]),
        ((3, 6, 11), ["state 2 is not boundary 9"]),
    ],
)
def test_the_state_that_is_wrong_is_named(at: tuple[int, ...], wrong: list[str]) -> None:
    what = remembered(streams())
    found = drafts(what, code_of(what, VOCAB), at)
    assert said(at) == wrong
    # A state that is no neighbour gives a digit by chance, and one of six chances is right.
    assert sum(map(int.__eq__, found, what.drafted)) <= ROWS // 2


def test_every_number_of_states_has_a_code() -> None:
    assert [said(at, at) for at in ((5,), (2, 8), (1, 3, 5, 7), (1, 3, 5, 7, 9))] == [[]] * 4


def test_the_last_boundary_has_no_neighbour_and_is_learnt_all_the_same() -> None:
    assert said((0, 6, LAYERS), (0, 6, LAYERS)) == []


def test_states_that_are_alike_before_different_tokens_cannot_be_learnt() -> None:
    states = streams()
    states[6] = np.ones((ROWS, HIDDEN))
    what = remembered(states)
    with pytest.raises(NotFittedError, match="boundary 6 do not decide the next token"):
        fit(what, code_of(what, VOCAB))


def test_nothing_at_all_drafts_no_remembered_token() -> None:
    what = remembered(streams())
    code = code_of(what, VOCAB)
    nothing = Remembered(TRAINED, {k: 0 * v for k, v in what.states.items()}, what.drafted)
    weights = draft_weights(fit(what, code), code)
    rows = np.concatenate([nothing.states[k] for k in TRAINED], axis=1) @ weights["fc.weight"].T
    first = int((rows @ weights["lm_head.weight"].T).argmax(axis=1)[0])
    assert code.ids[first] not in what.drafted


def test_the_map_of_the_vocabulary_is_that_of_the_code() -> None:
    what = remembered(streams())
    code = code_of(what, VOCAB)
    weights = draft_weights(fit(what, code), code)
    assert len(code.ids) == len(set(code.ids)) == 6**3
    assert sorted(code.ids) == np.flatnonzero(weights["t2d"]).tolist()
    assert len(set(weights["d2t"].tolist())) > 100  # a map that is shifted is another map
    assert set(what.drafted) <= set(code.ids)


def test_the_ids_are_those_of_the_draft_that_it_stands_for() -> None:
    code = code_of(remembered(streams()), VOCAB)
    eagle = {"eagle_aux_hidden_state_layer_ids": [2, 5, 8], "norm_before_fc": True}
    config = draft_config(HIDDEN, VOCAB, code, eagle)
    assert config["eagle_config"] == {"eagle_aux_hidden_state_layer_ids": [2, 5, 8]}
    assert config["draft_vocab_size"] == len(code.ids)
