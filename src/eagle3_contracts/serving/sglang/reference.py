"""The transformers model of a twin: where its weights come from, and the second opinion.

transformers' ``hidden_states`` are boundaries 0 to n - 1; its last entry has the final norm
applied, so boundary n is read from the last layer's output instead.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file

from eagle3_contracts.serving.sglang.capture import decoder_layers

_SEED = 20240229
_WEIGHTS, _STATES = "model.safetensors", "boundaries.safetensors"
_IN_BFLOAT16 = (".sinks", ".act_fn.alpha_p", ".act_fn.alpha_n")
"""Parameters that SGLang keeps in bfloat16 whatever the model's dtype is: gpt-oss, xIELU."""


@dataclass(frozen=True, slots=True)
class Reference:
    """What transformers says about a twin: the class, its weights, boundaries 0 to n.

    Each boundary is [tokens, hidden], for the prompt that the reference was made with.
    """

    name: str
    weights: Path
    boundaries: tuple[torch.Tensor, ...]


def prepare(
    config: Mapping[str, Any], prefix: str, prompt: Sequence[int], cache: Path
) -> Reference:
    """Return the reference of a language model's config.json, made once for each ``cache``.

    The names of its weights stand after ``prefix``. Raises LookupError when transformers has no
    class for it.
    """
    kind = _kind(config)
    key = json.dumps([transformers.__version__, prefix, list(prompt), config], sort_keys=True)
    folder = cache / hashlib.sha256(key.encode()).hexdigest()[:32]
    if not folder.is_dir():
        _make(kind, config, prefix, prompt, folder)
    states = load_file(folder / _STATES)
    boundaries = tuple(states[str(k)] for k in range(len(states)))
    return Reference(kind.__name__, folder / _WEIGHTS, boundaries)


def _make(
    kind: Any, config: Mapping[str, Any], prefix: str, prompt: Sequence[int], folder: Path
) -> None:
    model = _built(kind, config)
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        model.save_pretrained(name)
        tensors = load_file(Path(name, _WEIGHTS))
        save_file({prefix + key: value for key, value in tensors.items()}, Path(name, _WEIGHTS))
        states = boundaries(model, torch.tensor([list(prompt)]))
        save_file({str(k): state[0] for k, state in enumerate(states)}, Path(name, _STATES))
        # Another process may have made the same; then its folder stays.
        with contextlib.suppress(OSError):
            Path(name).rename(folder)
            Path(name).mkdir()


def build(config: Mapping[str, Any]) -> Any:
    """Return the model itself, with the weights that it always has; LookupError as `prepare`."""
    return _built(_kind(config), config)


def _built(kind: Any, config: Mapping[str, Any]) -> Any:
    torch.manual_seed(_SEED)
    model = kind(kind.config_class.from_dict(dict(config))).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                # Norm weights of exactly one would hide a norm that is applied or left out.
                parameter.mul_(1 + 0.2 * torch.randn_like(parameter))
            if name.endswith(_IN_BFLOAT16):
                parameter.data = parameter.bfloat16()
    return model


@torch.no_grad()
def make_up(model: torch.nn.Module) -> None:
    """Fill a model without a reference, in place of SGLang's dummy weights.

    Those lie below 0.001, norms included: then no layer changes the residual stream, all boundaries
    are alike, and a state of the wrong layer passes for the right one.
    """
    torch.manual_seed(_SEED)
    for name, parameter in model.named_parameters():
        if parameter.is_floating_point():
            mean, spread = (1.0, 0.2) if name.endswith("norm.weight") else (0.0, 0.1)
            parameter.copy_(mean + spread * torch.randn(parameter.shape))


def _kind(config: Mapping[str, Any]) -> Any:
    names = [name for name in config.get("architectures") or () if hasattr(transformers, name)]
    if names:
        return getattr(transformers, names[0])
    try:
        known = transformers.CONFIG_MAPPING[config["model_type"]]
        return transformers.AutoModelForCausalLM._model_mapping[known]
    except KeyError:
        release = transformers.__version__
        raise LookupError(f"transformers {release} has no {config.get('model_type')}") from None


@torch.no_grad()
def boundaries(model: Any, ids: torch.Tensor) -> list[torch.Tensor]:
    """Return boundaries 0 to n, [rows, tokens, hidden] each, for rows of token ids."""
    num_layers = model.config.get_text_config().num_hidden_layers
    layers = decoder_layers(model, num_layers)
    last: list[torch.Tensor] = []

    def keep(_: Any, __: Any, output: Any) -> None:
        last.append(output[0] if isinstance(output, tuple) else output)

    hook = layers[-1].register_forward_hook(keep)
    try:
        output = model(ids, output_hidden_states=True, use_cache=False)
    finally:
        hook.remove()
    states = (*output.hidden_states[:num_layers], last[-1])
    return [state.contiguous() for state in states]
