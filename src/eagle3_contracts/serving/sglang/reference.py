"""The transformers model of a twin: where its weights come from, and the second opinion.

transformers' ``hidden_states`` are boundaries 0 to n - 1; its last entry has the final norm
applied, so boundary n is read from the last layer's output instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file

from eagle3_contracts.serving.sglang.capture import decoder_layers

_SEED = 20240229


def build(config: Mapping[str, Any]) -> Any:
    """Return a randomly initialised transformers model for the language model of a config.json.

    Raises LookupError when transformers has no class for it.
    """
    kind = _kind(config)
    torch.manual_seed(_SEED)
    model = kind(kind.config_class.from_dict(dict(config))).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                # Norm weights of exactly one would hide a norm that is applied or left out.
                parameter.mul_(1 + 0.2 * torch.randn_like(parameter))
    return model


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


def save(model: Any, prefix: str, directory: Path) -> None:
    """Write the weights of ``model`` as an HF checkpoint, their names after ``prefix``."""
    model.save_pretrained(directory)
    if prefix:
        file = directory / "model.safetensors"
        tensors = {prefix + name: value for name, value in load_file(file).items()}
        save_file(tensors, file)


@torch.no_grad()
def boundaries(model: Any, prompt: Sequence[int], num_layers: int) -> list[torch.Tensor]:
    """Return boundaries 0 to n of ``prompt``, each [tokens, hidden]."""
    layers = decoder_layers(model, num_layers)
    last: list[torch.Tensor] = []

    def keep(_: Any, __: Any, output: Any) -> None:
        last.append(output[0] if isinstance(output, tuple) else output)

    hook = layers[-1].register_forward_hook(keep)
    try:
        output = model(torch.tensor([list(prompt)]), output_hidden_states=True, use_cache=False)
    finally:
        hook.remove()
    return [state[0] for state in (*output.hidden_states[:num_layers], last[-1])]
