"""The wiring canary without an engine: what it is built to say, it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from canary_replay import boundaries, drafted
from eagle3_contracts import canary
from eagle3_contracts.canary import (
    BOUNDARIES,
    DIGITS,
    broken_parts,
    expected,
    matrices,
    prompts,
    read,
)
from eagle3_contracts.canary.tokens import FAR, VOCAB, digits_of, token_ids, token_of

COUNT = 6
PROMPTS = prompts(6)


@dataclass(frozen=True)
class Loaded:
    """The canary as transformers and PyTorch read it."""

    target: Any
    draft: dict[str, torch.Tensor]

    def states(self, tokens: list[int], at: tuple[int, ...] = BOUNDARIES) -> torch.Tensor:
        streams = boundaries(self.target, tokens[:-1])
        return torch.cat([streams[boundary] for boundary in at], dim=-1)

    def drafts(self, prompt: list[int], **changed: Any) -> list[int]:
        """Draft after a prompt and its first token, with weights, states or embedding changed."""
        tokens = prompt + expected(prompt, 1)
        weights = {**self.draft, **changed.get("weights", {})}
        embedding = changed.get("embedding", self.target.model.embed_tokens.weight.detach())
        states = changed["states"](tokens) if "states" in changed else self.states(tokens)
        return drafted(weights, embedding, tokens, states, COUNT)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """Write the canary once, and load it."""
    written = canary.write_canary(tmp_path_factory.mktemp("canary"))
    target = AutoModelForCausalLM.from_pretrained(written.target, dtype=torch.float32)
    return Loaded(target, load_file(written.draft / "model.safetensors"))


def test_the_bytes_are_always_the_same(tmp_path: Path) -> None:
    first, second = canary.write_canary(tmp_path / "1"), canary.write_canary(tmp_path / "2")
    for name in ("config.json", "model.safetensors"):
        assert (first.target / name).read_bytes() == (second.target / name).read_bytes()
        assert (first.draft / name).read_bytes() == (second.draft / name).read_bytes()


def test_every_token_is_its_digits() -> None:
    ids = token_ids()
    assert sorted(ids) == list(range(VOCAB))
    assert [token_of(digits_of(rank)) for rank in (0, 1, 7777)] == [ids[r] for r in (0, 1, 7777)]
    assert read(int(ids[7777])).digits == digits_of(7777)


def test_prompts_too_short_for_the_rule_are_refused() -> None:
    with pytest.raises(ValueError, match="prompts of 24 tokens: the rule looks 24 tokens back"):
        prompts(1, FAR)


def test_the_target_follows_the_rule(loaded: Loaded) -> None:
    for prompt in PROMPTS:
        tokens = prompt + expected(prompt, COUNT)
        with torch.no_grad():
            logits = loaded.target(torch.tensor([tokens])).logits[0]
        assert logits[len(prompt) - 1 : -1].argmax(-1).tolist() == tokens[len(prompt) :]


def test_the_draft_foretells_the_target(loaded: Loaded) -> None:
    for prompt in PROMPTS:
        assert loaded.drafts(prompt) == expected(prompt, 1 + COUNT)[1:]


@pytest.mark.parametrize("state", range(3))
@pytest.mark.parametrize("boundary", range(7))
def test_a_digit_tells_which_boundary_its_state_is(
    loaded: Loaded, state: int, boundary: int
) -> None:
    at = tuple(boundary if i == state else own for i, own in enumerate(BOUNDARIES))
    for prompt in PROMPTS[:2]:
        right = read(expected(prompt, 2)[1]).digits
        first = loaded.drafts(prompt, states=lambda tokens: loaded.states(tokens, at))[0]
        found = read(first).digits
        assert right is not None
        assert found is not None
        off = (found[state] - right[state]) % DIGITS[state].radix
        assert (BOUNDARIES[state] + off) % DIGITS[state].radix == boundary
        assert [i for i in range(7) if found[i] != right[i]] == [state] * (off != 0)


def wrong_digits(loaded: Loaded, **changed: Any) -> set[int]:
    """Return the digits that the first drafted token has wrong after one of the prompts."""
    wrong: set[int] = set()
    for prompt in PROMPTS:
        right = read(expected(prompt, 2)[1]).digits
        said = read(loaded.drafts(prompt, **changed)[0])
        assert right is not None
        wrong |= said.absent
        wrong |= {i for i, value in enumerate(said.digits or right) if value != right[i]}
    return wrong


@pytest.mark.parametrize("state", range(3))
def test_a_state_that_never_arrived_is_one_wrong_digit(loaded: Loaded, state: int) -> None:
    def states(tokens: list[int]) -> torch.Tensor:
        chunks = list(loaded.states(tokens).chunk(3, dim=-1))
        chunks[state] = torch.zeros_like(chunks[state])
        return torch.cat(chunks, dim=-1)

    assert wrong_digits(loaded, states=states) == {state}


def test_an_embedding_of_its_own_loses_what_is_read_in_embeddings(loaded: Loaded) -> None:
    nothing = torch.zeros(VOCAB, matrices.HIDDEN)
    assert wrong_digits(loaded, embedding=nothing) == {3, 4, 5}


def test_a_lost_hidden_norm_loses_one_digit(loaded: Loaded) -> None:
    ones = {"midlayer.hidden_norm.weight": torch.ones(matrices.HIDDEN)}
    assert wrong_digits(loaded, weights=ones) == {6}


@pytest.mark.parametrize("base", [10000.0, 500000.0, 1000000.0])
def test_another_rotary_base_misreads_the_far_digit_only(
    loaded: Loaded, base: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrices, "ROPE_BASE", base)
    assert wrong_digits(loaded) == {5}


@pytest.mark.parametrize(
    "shift",
    [lambda d2t: d2t + 1, lambda d2t: d2t.roll(1), torch.zeros_like],
    ids=["plus-one", "rolled", "missing"],
)
def test_another_vocabulary_map_names_other_tokens(
    loaded: Loaded, shift: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    changed = {"d2t": shift(loaded.draft["d2t"])}
    for prompt in PROMPTS:
        assert loaded.drafts(prompt, weights=changed)[0] != expected(prompt, 2)[1]


def parts_under(loaded: Loaded, **changed: Any) -> list[str]:
    pairs = [(loaded.drafts(prompt, **changed)[0], expected(prompt, 2)[1]) for prompt in PROMPTS]
    return broken_parts(pairs)


def test_right_drafts_break_nothing(loaded: Loaded) -> None:
    assert parts_under(loaded) == []


def test_the_broken_part_is_named(loaded: Loaded) -> None:
    late = parts_under(loaded, states=lambda tokens: loaded.states(tokens, (3, 4, 6)))
    assert late == ["state 0 is boundary 3, not 2"]
    swapped = parts_under(loaded, states=lambda tokens: loaded.states(tokens, (2, 6, 4)))
    assert swapped == ["state 1 is boundary 6, not 4", "state 2 is boundary 4, not 6"]
    ones = {"midlayer.hidden_norm.weight": torch.ones(matrices.HIDDEN)}
    assert parts_under(loaded, weights=ones) == ["hidden_norm is lost"]
