"""Faults of a target class that show with other layer ids than the subject's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagle3_contracts.faults import Fault
from eagle3_contracts.faults.boundaries import Ids, with_ids

_DFLASH = "set_dflash_layers_to_capture"


def _always_on() -> None:
    from sglang.srt.models.llama import LlamaForCausalLM

    initialize = LlamaForCausalLM.__init__

    def capturing(self: Any, *args: Any, **kwargs: Any) -> None:
        initialize(self, *args, **kwargs)
        self.capture_aux_hidden_states = True
        self.model.layers_to_capture = [2]

    LlamaForCausalLM.__init__ = capturing


def _on_rows(is_odd: Callable[[Any], bool]) -> Callable[[], None]:
    """Return a patch that moves every state by a row, in forwards at positions that ``is_odd``."""

    def patch() -> None:
        from sglang.srt.models.llama import LlamaModel

        original = LlamaModel.forward

        def forward(self: Any, input_ids: Any, positions: Any, *args: Any, **kwargs: Any) -> Any:
            output = original(self, input_ids, positions, *args, **kwargs)
            if not isinstance(output, tuple) or not self.layers_to_capture or not is_odd(positions):
                return output
            hidden, aux = output
            moved = [s.roll(1, 0) for s in aux] if isinstance(aux, list) else aux.roll(1, 0)
            return hidden, type(aux)(moved)

        LlamaModel.forward = forward

    return patch


def _follows_a_prefix(positions: Any) -> bool:
    return len(positions) > 1 and bool(positions[0] > 0)


def _has_several_requests(positions: Any) -> bool:
    return bool((positions == 0).sum() > 1)


def _config_rewritten() -> None:
    from sglang.srt.models.llama import LlamaForCausalLM

    original = LlamaForCausalLM.set_eagle3_layers_to_capture

    def set_eagle3_layers_to_capture(self: Any, layer_ids: Ids = None) -> None:
        original(self, layer_ids)
        self.config.num_hidden_layers -= 1

    LlamaForCausalLM.set_eagle3_layers_to_capture = set_eagle3_layers_to_capture


def _embedding_transposed() -> None:
    from sglang.srt.models.llama import LlamaForCausalLM

    original = LlamaForCausalLM.get_embed_and_head

    def get_embed_and_head(self: Any) -> Any:
        embed, head = original(self)
        return embed.T, head

    LlamaForCausalLM.get_embed_and_head = get_embed_and_head


def _its_own_default(ids: Ids) -> Ids:
    return [0, 14, 28] if ids is None else ids


def _by_first_id(ids: Ids) -> Ids:
    """Llama adds 1 to every id; take it back when the first id is 3."""
    return [i - 1 for i in ids] if ids and ids[0] == 3 else ids


def _earlier_where(is_odd: Callable[[list[int]], bool]) -> Callable[[Ids], Ids]:
    """Return a change of the last id to its neighbour, for lists that ``is_odd``."""

    def change(ids: Ids) -> Ids:
        return [*ids[:-1], ids[-1] - 1] if ids and is_odd(list(ids)) else ids

    return change


def _wrapped(ids: Ids) -> Ids:
    return ids and [i % 31 for i in ids]


def _moved_when_repeated(ids: Ids) -> Ids:
    if ids is None or len(set(ids)) == len(ids):
        return ids
    return sorted({*ids, max(ids) + 1})


FAULTS = (
    Fault(
        "capture-always-on",
        "the class is built with capture switched on",
        on="llama-eagle3",
        patch=_always_on,
    ),
    Fault(
        "default-of-its-own",
        "the class has another default than the others",
        on="llama-eagle3",
        patch=with_ids(_its_own_default),
        suspected=("captures boundaries [1, 15, 29]",),
    ),
    Fault(
        "convention-by-first-id",
        "ids are read as inputs of the layers when the first one is 3",
        on="llama-eagle3",
        patch=with_ids(_by_first_id),
        suspected=("depends on the list",),
    ),
    Fault(
        "last-layer-for-final",
        "the input of the last layer is taken where its output is asked for",
        on="llama-eagle3",
        patch=with_ids(_earlier_where(lambda ids: ids[-1] == 31)),
        suspected=("ids [0, 16, 31] give boundaries [1, 17, 31]",),
    ),
    Fault(
        "ids-wrapped-around",
        "ids past the last layer count on from the first one",
        on="llama-eagle3",
        patch=with_ids(_wrapped),
        suspected=("ids [2, 16, 4000]",),
    ),
    Fault(
        "repeated-id-moved",
        "an id given twice becomes that of the next layer",
        on="llama-eagle3",
        patch=with_ids(_moved_when_repeated),
        suspected=("ids [2, 2, 16]",),
    ),
    Fault(
        "config-rewritten",
        "configuring capture writes to the target's config",
        on="llama-eagle3",
        patch=_config_rewritten,
        suspected=("num_hidden_layers",),
    ),
    Fault(
        "chunk-shifted",
        "the states of a chunk after a prefix are a token late",
        on="llama-eagle3",
        patch=_on_rows(_follows_a_prefix),
    ),
    Fault(
        "requests-mixed",
        "in a batch, the first state of a request is that of the one before it",
        on="llama-eagle3",
        patch=_on_rows(_has_several_requests),
    ),
    Fault(
        "dflash-ids-as-inputs",
        "the ids of a DFlash draft are read as the layers whose input is taken",
        on="llama-eagle3",
        patch=with_ids(lambda ids: ids and [i - 1 for i in ids], _DFLASH),
        suspected=("ids [1, 15, 28] give boundaries [1, 15, 28]",),
    ),
    Fault(
        "dflash-ids-wrapped-around",
        "ids of a DFlash draft past the last layer count on from the first one",
        on="llama-eagle3",
        patch=with_ids(_wrapped, _DFLASH),
        suspected=("ids [2, 16, 4000]",),
    ),
    Fault(
        "embedding-transposed",
        "the class lends its embedding with rows and columns exchanged",
        on="llama-eagle3",
        patch=_embedding_transposed,
    ),
)
