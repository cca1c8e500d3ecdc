"""Config classes for model types whose code comes with their checkpoint.

Such a config.json names the code in ``auto_map``. The code itself is not here, and what SGLang's
classes read from the config are its fields, which a class without code of its own gives them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import CONFIG_MAPPING, AutoConfig, PretrainedConfig


def register(config: Mapping[str, Any]) -> None:
    """Let transformers read a config.json with code of its own; once per process and model type.

    A type that transformers or SGLang knows stays theirs, and one without ``auto_map`` stays
    unknown, as it is to a server.
    """
    kind = config.get("model_type")
    if kind is None or kind in CONFIG_MAPPING or "AutoConfig" not in config.get("auto_map", {}):
        return
    # With the attribute, transformers gathers what a config.json says about the rope in it.
    fields = {"model_type": kind, "rope_parameters": None, "__module__": __name__}
    AutoConfig.register(kind, type("CheckpointConfig", (PretrainedConfig,), fields))
