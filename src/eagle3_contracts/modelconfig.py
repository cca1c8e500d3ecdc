"""Where the values of a config.json stand: nested or at the top, as their readers look for them.

The order of places is SGLang's (release 0.5.23). Its engine reads the ids and the switch of an
EAGLE-3 draft from ``eagle_config`` (``model_executor/model_runner_components/
spec_aux_hidden_state.py``); for widths it also looks for ids at the top level
(``speculative/eagle_utils.py``); the language model of a multimodal target is found as in
``utils/hf_transformers/common.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from eagle3_contracts.files import MAX_DEPTH, is_deep, kind_of, show

LAYER_IDS = "eagle_aux_hidden_state_layer_ids"
USE_AUX = "use_aux_hidden_state"
MAX_INTEGER = 2**31 - 1
"""Largest size, count or id that is no typing error."""

Key = tuple[str, ...]
Config = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Mistake:
    """A value of a shape that nobody can mean, with its keys from the top of the config."""

    key: Key
    text: str

    def __str__(self) -> str:
        return f"{'.'.join(self.key)} {self.text}" if self.key else self.text


def language_model(config: Config) -> tuple[Config, Key]:
    """Return the config of the language model, and the keys under which it lies (none: the top)."""
    architecture = architecture_of(config) or ""
    if architecture.startswith("Llava") and architecture.endswith("ForCausalLM"):
        return config, ()
    for key in ("thinker_config", "llm_config", "language_config", "text_config"):
        nested = config.get(key)
        if isinstance(nested, dict):
            text = nested.get("text_config") if key == "thinker_config" else None
            return (text, (key, "text_config")) if isinstance(text, dict) else (nested, (key,))
    return config, ()


def draft_layers(config: Config) -> tuple[Config, Key]:
    """Return the config of the draft's own layers; speculators nests them."""
    nested = config.get("transformer_layer_config")
    if "hidden_size" not in config and isinstance(nested, dict):
        return nested, ("transformer_layer_config",)
    return config, ()


def architecture_of(config: Config) -> str | None:
    """Return the first of ``architectures``."""
    names = config.get("architectures")
    return names[0] if names and _is_names(names) else None


def layer_ids_of(config: Config) -> tuple[list[int] | None, Key]:
    """Return the declared capture ids and where they stand; None and no key without ids."""
    for place, values in ((("eagle_config",), _eagle_config(config)), ((), config)):
        ids = values.get(LAYER_IDS)
        if isinstance(ids, list | tuple):
            return list(ids), (*place, LAYER_IDS)
    return None, ()


def uses_aux(config: Config) -> bool:
    """Return False only for a config that switches use_aux_hidden_state off; null is off."""
    return bool(_eagle_config(config).get(USE_AUX, config.get(USE_AUX, True)))


def aux_count(config: Config) -> int:
    """Return how many aux hidden states the draft takes: the number given, the ids, or three."""
    declared: int | None = config.get("num_aux_hidden_states")
    return declared if declared is not None else len(layer_ids_of(config)[0] or ()) or 3


def is_eagle3(config: Config) -> bool:
    """Return whether the draft is an EAGLE-3 draft.

    Its class says so, or it has the plain name of a language model and EAGLE-3's own keys. EAGLE
    (1 and 2), MTP and DFlash drafts have class names of their own.
    """
    name = architecture_of(config)
    if name is not None and "eagle3" in name.lower():
        return True
    is_plain = name is None or name.endswith("ForCausalLM")
    own = ("eagle_config", LAYER_IDS, "num_aux_hidden_states")
    return is_plain and any(config.get(key) is not None for key in own)


def draft_mistakes(config: Config) -> Iterator[Mistake]:
    """Yield what is wrong with the shape of the values that are read from a draft's config."""
    yield from _common_mistakes(config)
    yield from _objects(config, "eagle_config", "transformer_layer_config")
    layers, place = draft_layers(config)
    yield from _sizes(layers, place, "hidden_size", "vocab_size")
    sizes = ("target_hidden_size", "num_aux_hidden_states", "draft_vocab_size")
    yield from _sizes(config, (), *sizes)
    yield from _eagle_mistakes(_eagle_config(config), ("eagle_config",))
    yield from _eagle_mistakes(config, ())


def target_mistakes(config: Config) -> Iterator[Mistake]:
    """Yield what is wrong with the shape of the values that are read from a target's config."""
    yield from _common_mistakes(config)
    nested = ("thinker_config", "llm_config", "language_config", "text_config")
    yield from _objects(config, *nested)
    text, place = language_model(config)
    yield from _sizes(text, place, "hidden_size", "num_hidden_layers", "vocab_size")


def _eagle_config(config: Config) -> Config:
    nested = config.get("eagle_config")
    return nested if isinstance(nested, dict) else {}


def _common_mistakes(config: Config) -> Iterator[Mistake]:
    if is_deep(config):
        yield Mistake((), f"the config is nested deeper than {MAX_DEPTH} levels")
    names = config.get("architectures")
    if names is not None and not _is_names(names):
        text = f"must be an array of class names, got {show(names)}"
        yield Mistake(("architectures",), text)
    kind = config.get("model_type")
    if kind is not None and not isinstance(kind, str):
        yield Mistake(("model_type",), f"must be a string, got {show(kind)}")


def _eagle_mistakes(config: Config, place: Key) -> Iterator[Mistake]:
    ids = config.get(LAYER_IDS)
    if ids is not None and not isinstance(ids, list | tuple):
        text = f"must be an array of layer ids, such as [2, 30, 58], got {show(ids)}"
        yield Mistake((*place, LAYER_IDS), text)
    elif ids is not None and (wrong := [value for value in ids if not _is_id(value)]):
        text = f"must hold integers below {MAX_INTEGER + 1}, got {show(wrong[0])}"
        yield Mistake((*place, LAYER_IDS), text)
    switch = config.get(USE_AUX)
    if switch is not None and not isinstance(switch, bool):
        yield Mistake((*place, USE_AUX), f"must be true or false, got {show(switch)}")


def _sizes(config: Config, place: Key, *keys: str) -> Iterator[Mistake]:
    for key in keys:
        value = config.get(key)
        if value is not None and not (type(value) is int and 1 <= value <= MAX_INTEGER):
            text = f"must be an integer from 1 to {MAX_INTEGER}, got {show(value)}"
            yield Mistake((*place, key), text)


def _objects(config: Config, *keys: str) -> Iterator[Mistake]:
    for key in keys:
        value = config.get(key)
        if value is not None and not isinstance(value, dict):
            yield Mistake((key,), f"must be an object, got {kind_of(value)}")


def _is_names(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)


def _is_id(value: object) -> bool:
    return type(value) is int and -MAX_INTEGER <= value <= MAX_INTEGER
