"""The rotary schedule, in the old schema and the new one."""

from __future__ import annotations

from typing import Any

from eagle3_contracts import modelconfig
from eagle3_contracts.facts import Gap
from eagle3_contracts.files import show
from eagle3_contracts.modelconfig import Config
from eagle3_contracts.probes.parts.reading import (
    draft_config,
    nested,
    number,
    target_text,
    trained_config,
)
from eagle3_contracts.static_facts import RopeFacts
from eagle3_contracts.subject import ResolvedSubject

_NEEDS = {
    "linear": ("factor",),
    "dynamic": ("factor",),
    "yarn": ("factor",),
    "longrope": ("short_factor", "long_factor"),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
}
"""Parameters without which a scaling cannot be computed."""
_TYPES = ("type", "rope_type")
_IGNORED = (*_TYPES, "rope_theta", "partial_rotary_factor", "mrope_section", "mrope_interleaved")
_KEYS = ("rope_theta", "rope_scaling", "rope_parameters", "rope_type")


def read(subject: ResolvedSubject) -> RopeFacts | Gap:
    """Return the schedules of draft, target and training; a gap without a usable draft."""
    config = draft_config(subject)
    if isinstance(config, Gap):
        return config
    draft = modelconfig.draft_layers(config)[0]
    target, trained = target_text(subject), trained_config(subject)
    trained = modelconfig.draft_layers(trained)[0]
    return RopeFacts(
        theta=_theta(draft),
        scaling=_scaling(draft),
        is_stated=_is_stated(draft),
        problems=_problems(draft),
        target_theta=_theta(target),
        target_scaling=_scaling(target) if _is_stated(target) else None,
        is_mrope=_is_mrope(draft),
        target_is_mrope=_is_mrope(target) if target else None,
        trained_otherwise=_otherwise(draft, trained),
        is_trained_known=_is_stated(trained),
    )


def _is_stated(config: Config) -> bool:
    return any(config.get(key) is not None for key in _KEYS)


def _parameters(config: Config) -> dict[str, Any]:
    """Return the parameters of the scaling; the new schema comes first, as in SGLang."""
    found = nested(config, "rope_parameters") or nested(config, "rope_scaling")
    return {key: value for key, value in found.items() if value is not None}


def _theta(config: Config) -> float | None:
    """Return the base: of rope_parameters where it states one, else of the top level."""
    inner = number(nested(config, "rope_parameters").get("rope_theta"))
    return inner if inner is not None else number(config.get("rope_theta"))


def _kind(config: Config) -> str:
    parameters = _parameters(config)
    found = parameters.get("rope_type", parameters.get("type", "default"))
    # Sections of three axes are SGLang's own matter and scale nothing.
    return "default" if found == "mrope" else str(found)


def _scaling(config: Config) -> str:
    """Return type and parameters as one text, in which equal schedules read alike."""
    kind = _kind(config)
    parameters = _parameters(config)
    names = sorted(key for key in parameters if key not in _IGNORED) if kind != "default" else []
    values = [f"{name} {_plain(parameters[name])}" for name in names]
    return f"{kind} ({', '.join(values)})" if values else kind


def _plain(value: Any) -> str:
    as_number = number(value)
    return f"{as_number:g}" if as_number is not None else show(value)


def _is_mrope(config: Config) -> bool:
    return "mrope_section" in _parameters(config)


def _problems(config: Config) -> list[str]:
    problems = [text for key in ("rope_scaling", "rope_parameters") for text in _ill(config, key)]
    parameters = _parameters(config)
    per_type = [key for key, value in parameters.items() if isinstance(value, dict)]
    if per_type:
        return [*problems, f"rope_parameters is nested by layer type ({', '.join(per_type)})"]
    kind = _kind(config)
    problems += [f"{kind} scaling without {key}" for key in _missing(config, kind)]
    both = (
        number(nested(config, "rope_parameters").get("rope_theta")),
        number(config.get("rope_theta")),
    )
    if None not in both and both[0] != both[1]:
        problems.append(
            f"rope_theta is {_plain(both[1])} at the top and {_plain(both[0])} in rope_parameters"
        )
    theta = config.get("rope_theta")
    if theta is not None and (number(theta) or 0) <= 0:
        problems.append(f"rope_theta is {show(theta)}, no number above 0")
    return problems


def _missing(config: Config, kind: str) -> list[str]:
    parameters = _parameters(config)
    # A config may state the original length beside the scaling.
    known = {**config, **parameters}
    return [key for key in _NEEDS.get(kind, ()) if known.get(key) is None]


def _ill(config: Config, key: str) -> list[str]:
    value = config.get(key)
    if value is None or isinstance(value, dict):
        return []
    return [f"{key} is {show(value)}, no object"]


def _otherwise(draft: Config, trained: Config) -> list[str]:
    """Return texts for base and scaling that were others in training, as far as both are stated."""
    texts = []
    theta, before = _theta(draft), _theta(trained)
    if before is not None and before != (theta if theta is not None else 10000.0):
        stated = "not stated" if theta is None else _plain(theta)
        texts.append(f"rope_theta {stated}, trained with {_plain(before)}")
    states_scaling = "rope_scaling" in trained or "rope_parameters" in trained
    if states_scaling and _scaling(draft) != _scaling(trained):
        texts.append(f"scaling {_scaling(draft)}, trained with {_scaling(trained)}")
    return texts
