"""What the server of jobs imports once: SGLang, its model registry, and the modules of the jobs."""

from __future__ import annotations

import gc
import logging
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)

import torch  # noqa: E402
from sglang.srt.plugins import load_plugins  # noqa: E402
from transformers.conversion_mapping import (  # noqa: E402
    get_checkpoint_conversion_mapping,
)

import eagle3_contracts.serving.sglang.memory  # noqa: E402
import eagle3_contracts.serving.sglang.questions  # noqa: E402, F401

torch.set_num_threads(1)
load_plugins()
get_checkpoint_conversion_mapping("llama")  # compiles the table of all models, once

# Every job inherits this heap. Without this, each of them walks all of SGLang in its first
# collections: half a second instead of a tenth for a load.
gc.collect()
gc.freeze()
