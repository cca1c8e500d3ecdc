"""Launch flags as values."""

from __future__ import annotations

from collections.abc import Mapping

from eagle3_contracts.facts import Gap, GapKind
from eagle3_contracts.probes.parts.reading import algorithm_of, is_on, launch_flags
from eagle3_contracts.static_facts import ServingFacts
from eagle3_contracts.subject import ResolvedSubject

_OWNERS = {
    "speculative-dflash-": "DFLASH",
    "speculative-dspark-": "DSPARK",
    "speculative-ngram-": "NGRAM",
}
"""Beginnings of flags that one algorithm reads."""


def read(subject: ResolvedSubject) -> ServingFacts | Gap:
    """Return the flags of a launch of SGLang; a gap without one."""
    if subject.launch is None:
        return Gap(GapKind.ABSENT, "the subject names no launch section")
    if subject.launch.engine != "sglang":
        return Gap(GapKind.ABSENT, f"served by {subject.launch.engine}, not by SGLang")
    flags = launch_flags(subject)
    return ServingFacts(
        num_steps=_integer(flags, "speculative-num-steps"),
        topk=_integer(flags, "speculative-eagle-topk"),
        num_draft_tokens=_integer(flags, "speculative-num-draft-tokens"),
        dflash_block_size=_integer(flags, "speculative-dflash-block-size"),
        dspark_block_size=_integer(flags, "speculative-dspark-block-size"),
        window_size=_integer(flags, "speculative-draft-window-size"),
        sink_size=_integer(flags, "speculative-draft-sink-size"),
        page_size=_integer(flags, "page-size"),
        pp_size=_integer(flags, "pp-size", "pipeline-parallel-size", "pp"),
        disaggregation=flags.get("disaggregation-mode"),
        drafts_in_pipeline=is_on(subject, "SGLANG_ENABLE_PP_SPEC"),
        attention_backend=flags.get("decode-attention-backend", flags.get("attention-backend")),
        draft_backend=flags.get("speculative-draft-attention-backend"),
        dtype=None if flags.get("dtype") == "auto" else flags.get("dtype"),
        quantization=flags.get("quantization"),
        draft_quantization=flags.get("speculative-draft-model-quantization"),
        is_adaptive="speculative-adaptive" in flags,
        samples_rejection="speculative-use-rejection-sampling" in flags,
        verifies_blocks="speculative-use-block-verification" in flags,
        accepts_less=_accepts_less(flags),
        has_dp_attention=_has_dp_attention(flags),
        has_dp_head="enable-dp-lm-head" in flags,
        tunes=[f"--{name}" for name in flags if name.startswith("speculative-")],
        ignored=_ignored(flags),
    )


def _integer(flags: Mapping[str, str], *names: str) -> int | None:
    for name in names:
        try:
            return int(flags.get(name, ""))
        except ValueError:
            continue
    return None


def _accepts_less(flags: Mapping[str, str]) -> bool:
    for name in ("single", "acc"):
        try:
            if float(flags.get(f"speculative-accept-threshold-{name}", "1")) != 1.0:
                return True
        except ValueError:
            continue
    return False


def _has_dp_attention(flags: Mapping[str, str]) -> bool:
    return "enable-dp-attention" in flags or (_integer(flags, "attn-dp-size") or 1) > 1


def _ignored(flags: Mapping[str, str]) -> list[str]:
    algorithm = algorithm_of(flags)
    found = [
        f"--{name}"
        for name in flags
        for start, owner in _OWNERS.items()
        if name.startswith(start) and owner != algorithm
    ]
    if algorithm == "EAGLE3" and "speculative-token-map" in flags:
        found.append("--speculative-token-map")
    return found
