"""Faults of the families capture-enabled and width: the target hands over something else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagle3_contracts.faults import Fault


def _inner_lacks_the_method() -> None:
    """Gemma3's wrapper delegates behind hasattr; its inner model loses what it looks for."""
    from sglang.srt.models.gemma3_causal import Gemma3ForCausalLM

    del Gemma3ForCausalLM.set_eagle3_layers_to_capture


def _flag_on_the_wrapper_only() -> None:
    from sglang.srt.models.kimi_k25 import KimiK25ForConditionalGeneration

    def set_eagle3_layers_to_capture(self: Any, layer_ids: Any = None) -> None:
        self.capture_aux_hidden_states = True

    KimiK25ForConditionalGeneration.set_eagle3_layers_to_capture = set_eagle3_layers_to_capture


def _ids_stored_and_no_layer_flagged() -> None:
    from sglang.srt.models.qwen2_moe import Qwen2MoeModel

    def set_eagle3_layers_to_capture(self: Any, layers_to_capture: Any) -> None:
        self.layers_to_capture = layers_to_capture

    Qwen2MoeModel.set_eagle3_layers_to_capture = set_eagle3_layers_to_capture


def _tuple_swallowed() -> None:
    """The causal model keeps the hidden states of its decoder and drops what came with them."""
    from sglang.srt.models.llama import LlamaForCausalLM

    def forward(
        self: Any, input_ids: Any, positions: Any, forward_batch: Any, *args: Any, **kwargs: Any
    ) -> Any:
        hidden = self.model(input_ids, positions, forward_batch)
        hidden = hidden[0] if isinstance(hidden, tuple) else hidden
        return self.logits_processor(input_ids, hidden, self.lm_head, forward_batch)

    LlamaForCausalLM.forward = forward


def _method_missing() -> None:
    from sglang.srt.models.llama import LlamaForCausalLM

    del LlamaForCausalLM.set_eagle3_layers_to_capture


def _embedding_not_given() -> None:
    from sglang.srt.models.llama import LlamaForCausalLM

    del LlamaForCausalLM.get_embed_and_head


def on_captured_states(change: Callable[[list[Any]], list[Any]]) -> None:
    """Let Llama's decoder return ``change`` of the states that it captured."""
    from sglang.srt.models.llama import LlamaModel

    original = LlamaModel.forward

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        output = original(self, *args, **kwargs)
        # Drafts derive from the same class and return their own state the same way.
        if not isinstance(output, tuple) or not self.layers_to_capture:
            return output
        hidden, aux = output
        states = list(aux) if isinstance(aux, list) else list(aux.split(hidden.shape[-1], -1))
        return hidden, change(states)

    LlamaModel.forward = forward


def _last_state_dropped() -> None:
    on_captured_states(lambda states: states[:-1])


def _residual_left_out() -> None:
    """The state is taken before the residual, which is carried separately, is added to it."""
    from sglang.srt.models.llama import LlamaDecoderLayer

    original = LlamaDecoderLayer.forward

    def forward(
        self: Any,
        positions: Any,
        hidden_states: Any,
        forward_batch: Any,
        capture_output: Any = None,
    ) -> Any:
        if capture_output is not None:
            capture_output(hidden_states)
        return original(self, positions, hidden_states, forward_batch)

    LlamaDecoderLayer.forward = forward


def _overwritten_later() -> None:
    """The captured tensor is the stream itself, and the next layer adds to it in place."""

    def change(states: list[Any]) -> list[Any]:
        states[0].add_(states[-1])
        return states

    on_captured_states(change)


def _other_order_in_decode() -> None:
    from sglang.srt.models.llama import LlamaModel

    original = LlamaModel.forward

    def forward(
        self: Any, input_ids: Any, positions: Any, forward_batch: Any, *args: Any, **kwargs: Any
    ) -> Any:
        output = original(self, input_ids, positions, forward_batch, *args, **kwargs)
        if isinstance(output, tuple) and forward_batch.forward_mode.is_decode():
            return output[0], output[1][::-1]
        return output

    LlamaModel.forward = forward


def _mlp_scaled() -> None:
    from sglang.srt.models.llama import LlamaMLP

    original = LlamaMLP.forward
    LlamaMLP.forward = lambda self, *args, **kwargs: 1.1 * original(self, *args, **kwargs)


def _fc_left_out() -> None:
    """The draft takes the last of the states instead of fusing all of them."""
    from sglang.srt.models.llama_eagle3 import LlamaModel

    original = LlamaModel.forward

    def forward(
        self: Any, input_ids: Any, positions: Any, forward_batch: Any, *args: Any, **kwargs: Any
    ) -> Any:
        states = forward_batch.spec_info.hidden_states
        forward_batch.spec_info.hidden_states = states[..., -self.config.hidden_size :]
        return original(self, input_ids, positions, forward_batch, *args, **kwargs)

    LlamaModel.forward = forward


FAULTS = (
    Fault(
        "delegation-guarded",
        "the wrapper delegates behind hasattr, and the inner model lacks the method",
        on="gemma3-mm-eagle3",
        patch=_inner_lacks_the_method,
        suspected=("hasattr guard",),
    ),
    Fault(
        "flag-on-wrapper-only",
        "the wrapper sets the flag on itself and not on the model inside it",
        on="kimi-k2.5-eagle3",
        patch=_flag_on_the_wrapper_only,
        suspected=("did not pass the call on",),
    ),
    Fault(
        "no-layer-flagged",
        "the decoder stores the ids and flags no layer",
        on="qwen3-moe-eagle3",
        patch=_ids_stored_and_no_layer_flagged,
    ),
    Fault(
        "tuple-swallowed",
        "the model drops the aux states that its decoder returns",
        on="llama-eagle3",
        patch=_tuple_swallowed,
        suspected=("lost on their way",),
    ),
    Fault(
        "hook-missing",
        "the target class has no set_eagle3_layers_to_capture",
        on="llama-eagle3",
        patch=_method_missing,
    ),
    Fault(
        "embedding-not-given",
        "the target class has no get_embed_and_head",
        on="llama-eagle3",
        patch=_embedding_not_given,
    ),
    Fault(
        "last-state-dropped",
        "one state fewer comes back than was asked for",
        on="llama-eagle3",
        patch=_last_state_dropped,
    ),
    Fault(
        "residual-left-out",
        "a captured state lacks the residual",
        on="llama-eagle3",
        patch=_residual_left_out,
    ),
    Fault(
        "state-overwritten",
        "a captured state is changed in place after it was taken",
        on="llama-eagle3",
        patch=_overwritten_later,
    ),
    Fault(
        "decode-captures-others",
        "a decode step returns the states in another order than an extend",
        on="llama-eagle3",
        patch=_other_order_in_decode,
    ),
    Fault(
        "layer-differs",
        "a layer of the target computes something else than transformers' does",
        on="llama-eagle3",
        patch=_mlp_scaled,
    ),
    Fault(
        "fc-left-out",
        "the draft takes one of the states instead of fusing all of them",
        on="llama-eagle3",
        patch=_fc_left_out,
    ),
)
