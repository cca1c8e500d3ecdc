"""A CPU platform for SGLang: native operators, gloo, plain attention.

SGLang's own CPU engine wants a CPU build of sgl_kernel that the package index lacks. An
out-of-tree platform needs none: fused operators fall back to their PyTorch forwards.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sglang.srt.platforms.cpu import CpuDeviceMixin
from sglang.srt.platforms.device_mixin import PlatformEnum
from sglang.srt.platforms.interface import SRTPlatform

from eagle3_contracts.serving.sglang import native


class CpuPlatform(CpuDeviceMixin, SRTPlatform):
    """Runs SGLang's real model classes on a plain CPU; registered out of tree."""

    _enum = PlatformEnum.OOT
    device_name = "cpu"
    device_type = "cpu"

    def get_default_attention_backend(self) -> str:
        """Return the backend that works for every attention that is not MLA."""
        return "torch_native"

    def get_default_speculative_draft_attention_backend(self, algorithm: str) -> str:
        """Return Triton, run by its interpreter: torch_native has no draft backend."""
        return "triton"

    def supports_speculative_algorithm(self, algorithm: str) -> bool:
        """Accept all: what SGLang itself refuses, it refuses before."""
        return True

    def supports_speculative_draft_attention_backend(self, algorithm: str, backend: str) -> bool:
        """Accept all, as above."""
        return True

    def get_torch_distributed_backend_str(self) -> str:
        """Return the one backend of torch.distributed that needs no GPU."""
        return "gloo"

    def is_pin_memory_available(self, device: Any = None) -> bool:
        """Return False: there is no device to pin memory for."""
        return False

    # Releases up to 0.5.21 ask an out-of-tree platform for the classes of the pools.

    def get_mha_kv_pool_cls(self) -> type:
        """Return SGLang's own pool of keys and values."""
        return _pool("memory_pool", "MHATokenToKVPool")

    def get_mla_kv_pool_cls(self) -> type:
        """Return SGLang's own pool of latent keys, which refuses the argument of the DSA pool."""
        kind = _pool("memory_pool", "MLATokenToKVPool")

        def make(self: Any, *args: Any, index_head_dim: Any = None, **options: Any) -> None:
            kind.__init__(self, *args, **options)  # type: ignore[misc]

        return type(kind.__name__, (kind,), {"__init__": make})

    def get_dsa_kv_pool_cls(self) -> type:
        """Return SGLang's own pool of latent keys and their index."""
        return _pool("memory_pool", "DSATokenToKVPool")

    def get_paged_allocator_cls(self) -> type:
        """Return SGLang's own allocator of pages."""
        return _pool("allocator", "PagedTokenToKVPoolAllocator")

    def init_backend(self) -> None:
        """Replace what assumes a GPU or a CPU build of sgl_kernel; called once per process."""
        native.complete_operators()

    def post_load_model(self, model: Any) -> None:
        """Send a loaded model the way that it takes on a GPU, where the CPU's way is broken."""
        native.complete_models()


def _pool(module: str, name: str) -> type:
    kind: type = getattr(import_module(f"sglang.srt.mem_cache.{module}"), name)
    return kind
