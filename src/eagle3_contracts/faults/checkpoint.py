"""Faults of the families keys and width: the draft's checkpoint is not what its class loads."""

from __future__ import annotations

from collections.abc import Callable

from eagle3_contracts.faults import Fault
from eagle3_contracts.faults.edit import (
    draft_config,
    edited_config,
    edited_draft,
    edited_tensors,
    nested_config,
)
from eagle3_contracts.subject import ResolvedSubject, Tensor

Edit = Callable[[ResolvedSubject], ResolvedSubject]


def _renamed(old: str, new: str) -> Edit:
    def edit(tensors: dict[str, Tensor]) -> None:
        for name in [name for name in tensors if name.startswith(old)]:
            tensors[new + name.removeprefix(old)] = tensors.pop(name)

    return lambda subject: edited_tensors(subject, edit)


def _dropped(suffix: str) -> Edit:
    def edit(tensors: dict[str, Tensor]) -> None:
        for name in [name for name in tensors if name.endswith(suffix)]:
            del tensors[name]

    return lambda subject: edited_tensors(subject, edit)


def _with_bias(tensors: dict[str, Tensor]) -> None:
    name = next(name for name in tensors if name.endswith("q_proj.weight"))
    weight = tensors[name]
    bias = weight.model_copy(update={"shape": weight.shape[:1]})
    tensors[name.replace(".weight", ".bias")] = bias


def _narrower_fc(tensors: dict[str, Tensor]) -> None:
    rows, columns = tensors["fc.weight"].shape
    narrow = tensors["fc.weight"].model_copy(update={"shape": (rows, columns * 2 // 3)})
    tensors["fc.weight"] = narrow


FAULTS = (
    Fault(
        "aux-switched-off",
        "the config switches the aux states off that the fc was trained on",
        on="llama-eagle3",
        edit=nested_config("eagle_config", use_aux_hidden_state=False),
    ),
    Fault(
        "decoder-prefix-unmapped",
        "the decoder layer's tensors are named transformer.0.*",
        on="llama-eagle3",
        edit=_renamed("midlayer.", "transformer.0."),
    ),
    Fault(
        "fc-renamed",
        "fc.weight is named fuse.weight",
        on="llama-eagle3",
        edit=_renamed("fc.", "fuse."),
        suspected=("no fc",),
    ),
    Fault(
        "bias-without-place",
        "the checkpoint has a bias that the draft's class has no place for",
        on="llama-eagle3",
        edit=lambda subject: edited_tensors(subject, _with_bias),
        suspected=("attention_bias is false",),
    ),
    Fault(
        "part-of-a-fused-tensor-missing",
        "the checkpoint has q and v, but no k",
        on="llama-eagle3",
        edit=_dropped("k_proj.weight"),
        suspected=("no k_proj",),
    ),
    Fault(
        "norm-missing",
        "the checkpoint lacks the final norm",
        on="llama-eagle3",
        edit=_renamed("norm.weight", "model.ln_f.weight"),
    ),
    Fault(
        "shard-missing",
        "the index names a shard that the directory lacks",
        on="llama-eagle3",
        edit=lambda s: edited_draft(s, missing_shards=("model-00002-of-00002.safetensors",)),
        suspected=("absent files [model",),
    ),
    Fault(
        "tensor-missing-from-shard",
        "the index names a tensor that its shard lacks",
        on="llama-eagle3",
        edit=lambda s: edited_draft(s, missing_tensors=("norm.weight",)),
        suspected=("absent tensors [norm",),
    ),
    Fault(
        "target-width-wrong",
        "the draft's config declares the width of another target",
        on="llama-eagle3",
        edit=lambda s: edited_config(s, "draft", lambda c: c.update(target_hidden_size=2048)),
    ),
    Fault(
        "fc-too-narrow",
        "the checkpoint's fc takes two states where three are captured",
        on="llama-eagle3",
        edit=lambda subject: edited_tensors(subject, _narrower_fc),
    ),
    Fault(
        "conversion-without-renaming",
        "the config was converted to the format of speculators, and the tensors were not",
        on="llama-eagle3",
        edit=draft_config(speculators_model_type="eagle3"),
    ),
)
