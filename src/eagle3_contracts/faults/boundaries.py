"""Faults of the families layer-convention, layer-range and layer-source: other layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eagle3_contracts.faults import Fault
from eagle3_contracts.faults.capture import on_captured_states
from eagle3_contracts.faults.edit import edited_config, edited_training
from eagle3_contracts.subject import ResolvedSubject

Ids = Sequence[int] | None


def with_ids(
    change: Callable[[Ids], Ids], hook: str = "set_eagle3_layers_to_capture"
) -> Callable[[], None]:
    """Return a patch that lets Llama capture for ``change`` of the ids it is given."""

    def patch() -> None:
        from sglang.srt.models.llama import LlamaForCausalLM

        original = getattr(LlamaForCausalLM, hook)

        def configure(self: Any, layer_ids: Ids = None) -> None:
            original(self, change(layer_ids))

        setattr(LlamaForCausalLM, hook, configure)

    return patch


def _one_later(ids: Ids) -> Ids:
    return [ids[0], ids[1] + 1, *ids[2:]] if ids else ids


def _unless_first_is_one(ids: Ids) -> Ids:
    """Llama adds 1 to every id; take it back unless the first id is 1."""
    return ids if not ids or ids[0] == 1 else [i - 1 for i in ids]


def _ids(change: Callable[[list[int]], Any]) -> Callable[[ResolvedSubject], ResolvedSubject]:
    """Return an edit of the ids in the draft's config."""

    def edit(config: dict[str, Any]) -> None:
        nested = config["eagle_config"]
        ids = change(list(nested["eagle_aux_hidden_state_layer_ids"]))
        if ids is None:
            del nested["eagle_aux_hidden_state_layer_ids"]
        else:
            nested["eagle_aux_hidden_state_layer_ids"] = ids

    return lambda subject: edited_config(subject, "draft", edit)


def _to_top_level(config: dict[str, Any]) -> None:
    """Write the ids where speculators writes them and SGLang's EAGLE-3 path does not look."""
    nested = config["eagle_config"]
    config["eagle_aux_hidden_state_layer_ids"] = nested.pop("eagle_aux_hidden_state_layer_ids")


FAULTS = (
    Fault(
        "all-off-by-one",
        "every state is taken one layer too late",
        on="llama-eagle3",
        patch=with_ids(lambda ids: [i + 1 for i in ids] if ids else ids),
        suspected=("All one layer too late", "an id past the last layer"),
    ),
    Fault(
        "one-off-by-one",
        "one state is taken one layer too late",
        on="llama-eagle3",
        patch=with_ids(_one_later),
        suspected=("captured boundaries [3, 17, 28]", "state 1 is boundary 5, not 4"),
    ),
    Fault(
        "shift-depends-on-first-id",
        "ids are shifted only when the first one is 1",
        on="llama-eagle3",
        patch=with_ids(_unless_first_is_one),
        suspected=("All one layer too early",),
    ),
    Fault(
        "default-ids",
        "the default layers are captured instead of the declared ones",
        on="llama-eagle3",
        patch=with_ids(lambda ids: None),
        suspected=("SGLang's default boundaries",),
    ),
    Fault(
        "order-swapped",
        "the states come in reverse",
        on="llama-eagle3",
        patch=lambda: on_captured_states(lambda states: states[::-1]),
        suspected=("The same boundaries, in another order", "state 0 is boundary 6, not 2"),
    ),
    Fault(
        "id-missing",
        "the draft's config declares one id fewer than it was trained with",
        on="llama-eagle3",
        edit=_ids(lambda ids: ids[:-1]),
    ),
    Fault(
        "one-id-shifted",
        "one id of the draft's config is not the one of training",
        on="llama-eagle3",
        edit=_ids(lambda ids: [*ids[:-1], ids[-1] - 1]),
        suspected=("declares [2, 15, 26]",),
    ),
    Fault(
        "id-past-the-end",
        "an id of the draft's config names a layer that the target lacks",
        on="llama-eagle3",
        edit=_ids(lambda ids: [*ids[:-1], 4000]),
        suspected=("15, 4000]",),
    ),
    Fault(
        "id-twice",
        "the draft's config names a layer twice",
        on="llama-eagle3",
        edit=_ids(lambda ids: [ids[0], *ids[:-1]]),
        suspected=("ids [2, 2, 15]",),
    ),
    Fault(
        "ids-at-top-level",
        "the ids stand at the top level of the draft's config, where SGLang does not look",
        on="llama-eagle3",
        edit=lambda subject: edited_config(subject, "draft", _to_top_level),
    ),
    Fault(
        "no-convention",
        "nobody wrote down how the training ids are to be read",
        on="llama-eagle3",
        edit=lambda subject: edited_training(subject, convention=None),
    ),
    Fault(
        "final-boundary-unreached",
        "the last id names the final boundary, and the class counts one further",
        on="llama-eagle3",
        edit=_ids(lambda ids: [*ids[:-1], 32]),
        suspected=("declares [2, 15, 32]",),
    ),
    Fault(
        "final-layer-indexed",
        "the last id is that of the last layer, and the class looks for the one after it",
        on="qwen3-moe-eagle3",
        edit=_ids(lambda ids: [*ids[:-1], 47]),
        suspected=("declares [1, 23, 47]",),
    ),
)
