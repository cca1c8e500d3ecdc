"""Facts about a target class alone: other layer ids and other steps than one draft's extend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True, slots=True)
class ReadingFacts:
    """How the real target class reads layer ids; one extend of its twin for each list of ids.

    An answer is silent when nobody notices it: the class does not refuse, it hands over as many
    states as ids (or one, which the draft takes without its fc), and they are not those asked for.
    Another number of states is noticed, since the draft's fc does not take their width.
    """

    target_class: Annotated[str, "class that ran"]
    num_layers: Annotated[int, "decoder layers of the twin: as many as the target's"]
    captured_before: Annotated[bool, "it captured states before anything was configured"]
    default: Annotated[list[int], "boundaries captured when no ids are given"]
    default_refusal: Annotated[str | None, "the exception with which it refused to have no ids"]
    offsets: Annotated[
        list[int], "boundary less id, over ordinary lists of ids; one value: a convention"
    ]
    readings: Annotated[list[str], "what it made of each ordinary list of ids"]
    unread: Annotated[list[str], "ordinary lists that it refused, or that gave no three states"]
    ends: Annotated[list[str], "silent answers to ids of the first and the last boundaries"]
    outside: Annotated[list[str], "silent answers to ids that no layer has"]
    repeated: Annotated[list[str], "silent answers to ids given twice or in another order"]
    config_changed: Annotated[list[str], "keys of the target's config that configuring changed"]


@dataclass(frozen=True, slots=True)
class StepFacts:
    """The states of the same tokens, captured in one extend and in other steps.

    Differences are the largest absolute ones, as a fraction of the largest value.
    """

    tokens: Annotated[int, "tokens that were run"]
    states_of: Annotated[int, "tokens that states came for in one extend"]
    chunked: Annotated[float, "difference in two extends, the second after the first's prefix"]
    chunked_agrees: Annotated[bool, "it is within the tolerance"]
    decoded: Annotated[float, "difference with the last token in a decode step"]
    decoded_agrees: Annotated[bool, "it is within the tolerance"]
    batched: Annotated[float, "difference in one extend beside a longer request"]
    batched_agrees: Annotated[bool, "it is within the tolerance"]


@dataclass(frozen=True, slots=True)
class LendingFacts:
    """What the real target class hands to the draft's worker from ``get_embed_and_head``."""

    target_class: Annotated[str, "class that ran"]
    embed: Annotated[list[int], "shape of the embedding"]
    head: Annotated[list[int], "shape of the head"]
    expected: Annotated[list[int], "vocab_size and hidden_size of the twin's language model"]
