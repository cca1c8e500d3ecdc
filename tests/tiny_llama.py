"""A tiny target with real weights, and the states that transformers computes with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

LAYERS, HIDDEN, VOCAB = 8, 64, 256


def make_llama(seed: int = 0, layers: int = LAYERS) -> Any:
    """Return a Llama with random weights; its norm weights differ from one."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        num_hidden_layers=layers,
        hidden_size=HIDDEN,
        intermediate_size=96,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=VOCAB,
        max_position_embeddings=512,
        tie_word_embeddings=False,
        # Spread as in a trained model, where every layer changes its input by some percent.
        initializer_range=0.08,
    )
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.mul_(1 + 0.2 * torch.randn_like(parameter))
    return model


def save_llama(folder: Path, seed: int = 0, layers: int = LAYERS) -> Any:
    """Save such a Llama as a directory of the hub would hold it; return the model."""
    model = make_llama(seed, layers)
    model.save_pretrained(folder)
    return model


def some_tokens(count: int, seed: int = 0) -> torch.Tensor:
    """Return random token ids [count], the first of them always 1, as after a template."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(2, VOCAB, (count,), generator=generator)
    tokens[0] = 1
    return tokens


def boundaries_of(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    """Return boundaries 0 to n, [n + 1, T, H], the last before the final norm."""
    inputs: list[torch.Tensor] = []
    hook = model.model.norm.register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
    with torch.no_grad():
        states = model(tokens[None], output_hidden_states=True, use_cache=False).hidden_states
    hook.remove()
    return torch.stack([*(state[0] for state in states[:-1]), inputs[0][0]])


def normed(model: Any, states: torch.Tensor) -> torch.Tensor:
    """Return ``states`` after the model's final norm."""
    with torch.no_grad():
        after: torch.Tensor = model.model.norm(states)
    return after
