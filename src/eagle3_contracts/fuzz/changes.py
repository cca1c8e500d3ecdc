"""Changes of a subject, read off its own declarations: what may vary, and what then must hold.

A change that names no harm keeps the integration right, as whoever trained and exported the draft
would have made it. One that names a harm breaks it, in a way that the family of that name is about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from eagle3_contracts.facts import Tier
from eagle3_contracts.faults.edit import (
    edited_config,
    edited_draft,
    edited_flag,
    edited_tensors,
    edited_training,
)
from eagle3_contracts.modelconfig import LAYER_IDS, language_model, layer_ids_of
from eagle3_contracts.subject import ResolvedSubject, Tensor

Edit = Callable[[ResolvedSubject, Any], ResolvedSubject]
MIN_DEPTH, MAX_DEPTH = 4, 8
"""Decoder layers of a drawn target; few of them make an example quick, and easy to read."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing about a subject that may be drawn.

    ``values`` are what it may be set to, the plainest first; ``harm`` is the family that has to
    see the change, empty for one that keeps the integration right.
    """

    field: str
    values: tuple[Any, ...]
    edit: Edit
    harm: str = ""
    needs: Tier = Tier.LOAD
    """The cheapest tier that can see the harm."""


def is_fuzzable(subject: ResolvedSubject) -> bool:
    """Return whether the subject is a whole EAGLE-3 integration, from which examples are drawn."""
    target, draft, training = subject.target, subject.draft, subject.training
    if not (target and draft and draft.tensors and training and training.layer_ids):
        return False
    is_sglang = subject.launch is not None and "EAGLE3" in subject.launch.args
    ids, place = layer_ids_of(draft.config)
    is_nested = place[:1] == ("eagle_config",) and training.convention == "output-of"
    return is_sglang and is_nested and FC in draft.tensors and ids == list(training.layer_ids)


FC = "fc.weight"


def with_layers(subject: ResolvedSubject, depth: int, ids: Sequence[int]) -> ResolvedSubject:
    """Return the subject with a target of ``depth`` layers, trained and served with ``ids``."""

    def shorten(config: dict[str, Any]) -> None:
        text = _language_part(config, "target")
        before = text["num_hidden_layers"]
        for part in (config, text):
            for key, value in part.items():
                if isinstance(value, list) and len(value) == before:
                    part[key] = value[:depth]
                elif key == "num_hidden_layers":
                    part[key] = depth

    subject = edited_config(subject, "target", shorten)
    subject = edited_training(subject, layer_ids=tuple(ids))
    return _with_count(with_ids(subject, ids), len(ids))


def with_ids(subject: ResolvedSubject, ids: Sequence[int]) -> ResolvedSubject:
    """Return the subject with a draft that declares ``ids``, whatever it was trained on."""

    def edit(config: dict[str, Any]) -> None:
        config["eagle_config"][LAYER_IDS] = list(ids)
        if LAYER_IDS in config:
            config[LAYER_IDS] = list(ids)

    return edited_config(subject, "draft", edit)


def changes_of(subject: ResolvedSubject) -> tuple[Change, ...]:
    """Return everything that may be drawn of the subject, by what its configs declare."""
    return (*_target_changes(subject), *_draft_changes(subject), *_flag_changes(), *_harms(subject))


def _with_count(subject: ResolvedSubject, count: int) -> ResolvedSubject:
    """Give the draft an fc for ``count`` states."""
    assert subject.draft is not None
    config, tensors = subject.draft.config, subject.draft.tensors or {}
    rows, columns = tensors[FC].shape
    before = len(layer_ids_before(subject))
    if config.get("num_aux_hidden_states") is not None or count != 3:
        subject = _set("draft", "num_aux_hidden_states")(subject, count)
    return _fc(subject, rows, columns // before * count)


def layer_ids_before(subject: ResolvedSubject) -> Sequence[int]:
    """Return one entry for each state that the draft's fc takes, by its own widths."""
    assert subject.draft is not None
    assert subject.target is not None
    width = subject.draft.config.get("target_hidden_size")
    width = width or language_model(subject.target.config)[0]["hidden_size"]
    return range((subject.draft.tensors or {})[FC].shape[1] // width)


def _fc(subject: ResolvedSubject, rows: int, columns: int) -> ResolvedSubject:
    def edit(tensors: dict[str, Tensor]) -> None:
        tensors[FC] = Tensor(dtype=tensors[FC].dtype, shape=(rows, columns))

    return edited_tensors(subject, edit)


def _set(role: Any, key: str) -> Edit:
    """Return the edit that sets a key of a config, in the language model's part of it."""

    def edit(subject: ResolvedSubject, value: Any) -> ResolvedSubject:
        def change(config: dict[str, Any]) -> None:
            _language_part(config, role)[key] = value

        return edited_config(subject, role, change)

    return edit


def _language_part(config: dict[str, Any], role: str) -> dict[str, Any]:
    """Return the part of a copied config that may be written to."""
    part: Any = language_model(config)[0] if role == "target" else config
    return cast(dict[str, Any], part)


def _target_changes(subject: ResolvedSubject) -> Iterator[Change]:
    assert subject.target is not None
    text = language_model(subject.target.config)[0]
    for key, values in _declared(text).items():
        others = tuple(value for value in values if value != text[key])
        if others:
            yield Change(f"target.{key}", others, _set("target", key))


def _declared(text: Mapping[str, Any]) -> dict[str, Sequence[Any]]:
    """Return what each declared size may be without another one having to change."""
    heads, experts = text.get("num_attention_heads"), text.get("num_experts_per_tok")
    values: dict[str, Sequence[Any]] = {
        "num_key_value_heads": [n for n in (1, 2, 4, 8, 16) if heads and heads % n == 0],
        "intermediate_size": [1024, 4096, 11008],
        "moe_intermediate_size": [512, 1024],
        # Llama 4 implements one expert per token and no other number.
        "num_experts_per_tok": [2, 4] if experts and experts > 1 else [],
        "rms_norm_eps": [1e-6, 1e-5],
        "tie_word_embeddings": [False, True],
    }
    is_latent = "kv_lora_rank" in text  # latent attention has as many keys as queries
    values = {key: value for key, value in values.items() if text.get(key) is not None}
    return {k: v for k, v in values.items() if not (is_latent and k == "num_key_value_heads")}


def _draft_changes(subject: ResolvedSubject) -> Iterator[Change]:
    assert subject.draft is not None
    tensors, config = subject.draft.tensors or {}, subject.draft.config
    yield Change("draft.dtype", ("F16", "F32"), _cast)
    yield Change("draft.tensors order", (True,), lambda subject, _: _reordered(subject))
    yield Change(f"draft.{LAYER_IDS}", (True,), lambda subject, _: _ids_at_both(subject))
    if any(name.startswith("midlayer.") for name in tensors):
        yield Change("draft.tensors prefix", ("layers.0.",), _renamed_layer)
    size = config.get("draft_vocab_size")
    if size and size != config.get("vocab_size") and not subject.draft.values:
        yield Change("draft.draft_vocab_size", (size // 2, size // 4 * 3), _with_vocabulary)
    if config.get("rms_norm_eps"):
        yield Change("draft.rms_norm_eps", (1e-6, 1e-5), _set("draft", "rms_norm_eps"))


def _cast(subject: ResolvedSubject, dtype: str) -> ResolvedSubject:
    def edit(tensors: dict[str, Tensor]) -> None:
        for name, tensor in tensors.items():
            if tensor.dtype == "BF16":
                tensors[name] = Tensor(dtype=dtype, shape=tensor.shape)

    def declare(config: dict[str, Any]) -> None:
        key = "torch_dtype" if "torch_dtype" in config else "dtype"
        config[key] = _DTYPES[dtype]

    subject = edited_config(edited_tensors(subject, edit), "draft", declare)
    return edited_flag(subject, "--dtype", _DTYPES[dtype])


_DTYPES = {"F16": "float16", "F32": "float32"}


def _reordered(subject: ResolvedSubject) -> ResolvedSubject:
    assert subject.draft is not None
    tensors = subject.draft.tensors or {}
    return edited_draft(subject, tensors=dict(reversed(tensors.items())))


def _ids_at_both(subject: ResolvedSubject) -> ResolvedSubject:
    def edit(config: dict[str, Any]) -> None:
        config[LAYER_IDS] = list(config["eagle_config"][LAYER_IDS])

    return edited_config(subject, "draft", edit)


def _renamed_layer(subject: ResolvedSubject, prefix: str) -> ResolvedSubject:
    assert subject.draft is not None
    tensors = subject.draft.tensors or {}
    new = {name.replace("midlayer.", prefix, 1): tensor for name, tensor in tensors.items()}
    return edited_draft(subject, tensors=new)


def _with_vocabulary(subject: ResolvedSubject, size: int) -> ResolvedSubject:
    assert subject.draft is not None
    before = subject.draft.config["draft_vocab_size"]

    def edit(tensors: dict[str, Tensor]) -> None:
        for name in ("lm_head.weight", "d2t"):
            if name in tensors and tensors[name].shape[0] == before:
                shape = (size, *tensors[name].shape[1:])
                tensors[name] = Tensor(dtype=tensors[name].dtype, shape=shape)

    return edited_tensors(_set("draft", "draft_vocab_size")(subject, size), edit)


def _flag_changes() -> Iterator[Change]:
    yield Change("launch.speculative-num-steps", (1, 2, 5), _with_steps)


def _with_steps(subject: ResolvedSubject, steps: int) -> ResolvedSubject:
    """A chain of ``steps`` tokens, which with the verified one makes steps + 1."""
    subject = edited_flag(subject, "--speculative-num-steps", str(steps))
    subject = edited_flag(subject, "--speculative-eagle-topk", "1")
    return edited_flag(subject, "--speculative-num-draft-tokens", str(steps + 1))


def _harms(subject: ResolvedSubject) -> Iterator[Change]:
    """Yield what breaks the integration; each is seen whatever else was drawn."""
    assert subject.draft is not None
    tensors = subject.draft.tensors or {}
    ids = f"draft.eagle_config.{LAYER_IDS}"
    layers, width, keys = "layer-convention", "width", "keys"
    for name, edit in _ID_HARMS.items():
        # Which layer an id means is known to the class alone, as long as all ids mean one shift.
        needs = Tier.MODEL if name == "shifted by one" else Tier.LOAD
        yield Change(f"{ids} {name}", (True,), edit, layers, needs)
    yield Change("draft.tensors.fc.weight columns", (1, -1), _wrong_columns, width)
    wanted = [n for n in tensors if n != "lm_head.weight" and _is_weight(tensors[n])]
    yield Change("draft.tensors missing", tuple(wanted), _without, keys)
    yield Change("draft.tensors misnamed", tuple(wanted), _misnamed, keys)
    yield Change("draft.tensors longer", tuple(wanted), _longer, keys)
    yield Change("launch.speculative-algorithm", ("EAGLE",), _algorithm, "algo")
    switch = lambda subject, _: _without_aux(subject)  # noqa: E731
    yield Change("draft.eagle_config.use_aux_hidden_state", (False,), switch, width)


def _is_weight(tensor: Tensor) -> bool:
    return tensor.dtype.startswith(("BF", "F"))


def _moved(move: Callable[[list[int]], list[int]]) -> Edit:
    def edit(subject: ResolvedSubject, _: Any) -> ResolvedSubject:
        assert subject.draft is not None
        ids = layer_ids_of(subject.draft.config)[0] or []
        return with_ids(subject, move(ids))

    return edit


_ID_HARMS: Mapping[str, Edit] = {
    "shifted by one": _moved(lambda ids: [i + 1 for i in ids]),
    "one shifted": _moved(lambda ids: [*ids[:-1], ids[-1] + 1]),
    "past the end": _moved(lambda ids: [*ids[:-1], MAX_DEPTH + 1]),
    "negative": _moved(lambda ids: [-1, *ids[1:]] if ids[0] != -1 else [0, *ids[1:]]),
    "one missing": _moved(lambda ids: ids[:-1]),
    "one twice": _moved(lambda ids: [*ids, ids[-1]]),
}


def _wrong_columns(subject: ResolvedSubject, sign: int) -> ResolvedSubject:
    assert subject.draft is not None
    rows, columns = (subject.draft.tensors or {})[FC].shape
    states = len(layer_ids_before(subject))
    return _fc(subject, rows, columns + sign * columns // states)


def _without(subject: ResolvedSubject, name: str) -> ResolvedSubject:
    return edited_tensors(subject, lambda tensors: _drop(tensors, _present(tensors, name)))


def _misnamed(subject: ResolvedSubject, name: str) -> ResolvedSubject:
    def edit(tensors: dict[str, Tensor]) -> None:
        found = _present(tensors, name)
        tensors[found.replace(".weight", ".wieght")] = tensors[found]
        _drop(tensors, found)

    return edited_tensors(subject, edit)


def _longer(subject: ResolvedSubject, name: str) -> ResolvedSubject:
    def edit(tensors: dict[str, Tensor]) -> None:
        tensor = tensors[_present(tensors, name)]
        shape = (tensor.shape[0] + 16, *tensor.shape[1:])
        tensors[_present(tensors, name)] = Tensor(dtype=tensor.dtype, shape=shape)

    return edited_tensors(subject, edit)


def _present(tensors: Mapping[str, Tensor], name: str) -> str:
    return name if name in tensors else name.replace("midlayer.", "layers.0.", 1)


def _drop(tensors: dict[str, Tensor], name: str) -> None:
    del tensors[name]


def _algorithm(subject: ResolvedSubject, name: str) -> ResolvedSubject:
    return edited_flag(subject, "--speculative-algorithm", name)


def _without_aux(subject: ResolvedSubject) -> ResolvedSubject:
    def edit(config: dict[str, Any]) -> None:
        config["eagle_config"]["use_aux_hidden_state"] = False

    return edited_config(subject, "draft", edit)
