"""Faults of block drafts, and of layer ids that are declared or left out."""

from __future__ import annotations

from eagle3_contracts.faults import Fault
from eagle3_contracts.faults.edit import (
    draft_config,
    in_turn,
    nested_config,
    target_config,
    tensor,
    with_flags,
    without_flag,
)

_IDS = "eagle_aux_hidden_state_layer_ids"
_ON = "qwen3-dflash"

FAULTS = (
    Fault(
        "block-sizes-contradict",
        "block_size stands at two places with two values",
        on=_ON,
        edit=draft_config(block_size=8),
        suspected=("block sizes [16, 8]",),
    ),
    Fault(
        "block-size-missing",
        "neither the config nor the launch says how long a block is",
        on=_ON,
        edit=in_turn(
            nested_config("dflash_config", block_size=None),
            without_flag("--speculative-num-draft-tokens"),
        ),
        suspected=("block sizes []",),
    ),
    Fault(
        "block-flags-differ",
        "the launch gives two block sizes",
        on=_ON,
        edit=with_flags("--speculative-dflash-block-size 8"),
    ),
    Fault(
        "block-longer-than-trained",
        "the launch asks for longer blocks than were trained",
        on=_ON,
        edit=with_flags("--speculative-num-draft-tokens 32"),
    ),
    Fault(
        "gamma-taken-for-draft-tokens",
        "a DSpark draft is launched with its block size as the number of draft tokens",
        on=_ON,
        edit=in_turn(
            with_flags("--speculative-algorithm DSPARK"),
            nested_config("dflash_config", markov_rank=64),
        ),
    ),
    Fault(
        "block-draft-in-a-pipeline",
        "a DFlash draft is launched with pipeline parallelism",
        on=_ON,
        edit=with_flags("--pp-size 2"),
        suspected=("DFLASH on 2 pipeline stages",),
    ),
    Fault(
        "block-ids-past-the-end",
        "an id of the block draft names a layer that the target lacks",
        on=_ON,
        edit=nested_config("dflash_config", target_layer_ids=[1, 17, 36]),
    ),
    Fault(
        "block-draft-of-another-target",
        "the block draft was trained for a target of another depth",
        on=_ON,
        edit=nested_config("dflash_config", num_target_layers=48),
        suspected=("a target of 48 layers; increasing",),
    ),
    Fault(
        "block-id-shifted",
        "one id of the block draft is not the one of training",
        on=_ON,
        edit=nested_config("dflash_config", target_layer_ids=[1, 18, 33]),
    ),
    Fault(
        "block-fc-too-narrow",
        "the fc of the block draft takes one state fewer than the config declares",
        on=_ON,
        edit=tensor("fc.weight", (4096, 8192)),
    ),
    Fault(
        "ids-unsorted",
        "the ids of the draft's config are in another order than the layers",
        on="llama-eagle3",
        edit=nested_config("eagle_config", **{_IDS: [27, 2, 15]}),
    ),
    Fault(
        "ids-left-out",
        "the draft's config has no ids",
        on="llama-eagle3",
        edit=nested_config("eagle_config", **{_IDS: None}),
    ),
    Fault(
        "default-on-a-tiny-target",
        "the default layers are captured on a target of six",
        on="tiny-maps",
        edit=in_turn(
            nested_config("eagle_config", **{_IDS: None}), target_config(num_hidden_layers=6)
        ),
    ),
    Fault(
        "states-miscounted",
        "num_aux_hidden_states is not the number of ids",
        on="llama-eagle3",
        edit=draft_config(num_aux_hidden_states=5),
    ),
    Fault(
        "block-ids-of-speculators",
        "the ids stand where speculators writes them",
        on=_ON,
        edit=in_turn(
            nested_config("dflash_config", target_layer_ids=None),
            draft_config(aux_hidden_state_layer_ids=[1, 17, 33]),
        ),
    ),
    Fault(
        "block-ids-copied",
        "the list of layer outputs was copied into the list of layer inputs",
        on=_ON,
        edit=draft_config(aux_hidden_state_layers=[1, 17, 33]),
    ),
    Fault(
        "block-proposed-whole",
        "as many tokens are proposed as the block has places",
        on=_ON,
        edit=draft_config(speculators_config={"proposal_methods": [{"speculative_tokens": 16}]}),
    ),
)
