"""A config.json that cannot be used is named, with the key and what would be right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eagle3_contracts.errors import SubjectError
from eagle3_contracts.facts import DraftFacts
from eagle3_contracts.probes import Request
from eagle3_contracts.probes.static import StaticProbe
from eagle3_contracts.resolve import load_subjects

CONFIGS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", ":1:1: is not JSON: Expecting value"),
    "not UTF-8": (b'{"a": "\xe9"}', ": the file is not UTF-8: byte 7 is 0xe9"),
    "not JSON": (
        b'{"a": 1,}',
        ":1:9: is not JSON: Expecting property name enclosed in double quotes",
    ),
    "not an object": (b"null", ": the file must hold a JSON object, got null"),
    "nested too deep for the parser": (
        b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}",
        ": the file is nested too deep to be read",
    ),
    "nested too deep": (
        b'{"a":' + b"[" * 200 + b"]" * 200 + b"}",
        ": the config is nested deeper than 100 levels",
    ),
    "digits without end": (
        b'{"hidden_size": ' + b"1" * 5000 + b"}",
        ": the file holds a number with too many digits to be read",
    ),
    "huge": (
        b'{"hidden_size": 1e400}',
        ": hidden_size must be an integer from 1 to 2147483647, got inf",
    ),
    "NaN": (
        b'{"hidden_size": NaN}',
        ": hidden_size must be an integer from 1 to 2147483647, got nan",
    ),
    "size as a string": (
        b'{"vocab_size": "32000"}',
        ": vocab_size must be an integer from 1 to 2147483647, got '32000'",
    ),
    "size zero": (
        b'{"target_hidden_size": 0}',
        ": target_hidden_size must be an integer from 1 to 2147483647, got 0",
    ),
    "count as a boolean": (
        b'{"num_aux_hidden_states": true}',
        ": num_aux_hidden_states must be an integer from 1 to 2147483647, got True",
    ),
    "ids of words": (
        b'{"eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, "two"]}}',
        ": eagle_config.eagle_aux_hidden_state_layer_ids must hold integers below 2147483648, "
        "got 'two'",
    ),
    "ids of booleans": (
        b'{"eagle_aux_hidden_state_layer_ids": [true]}',
        ": eagle_aux_hidden_state_layer_ids must hold integers below 2147483648, got True",
    ),
    "ids of fractions": (
        b'{"eagle_aux_hidden_state_layer_ids": [1.5]}',
        ": eagle_aux_hidden_state_layer_ids must hold integers below 2147483648, got 1.5",
    ),
    "nested ids": (
        b'{"eagle_aux_hidden_state_layer_ids": [[1, 2]]}',
        ": eagle_aux_hidden_state_layer_ids must hold integers below 2147483648, got [1, 2]",
    ),
    "huge ids": (
        b'{"eagle_aux_hidden_state_layer_ids": [99999999999]}',
        ": eagle_aux_hidden_state_layer_ids must hold integers below 2147483648, got 99999999999",
    ),
    "ids that are no list": (
        b'{"eagle_aux_hidden_state_layer_ids": "2,30,58"}',
        ": eagle_aux_hidden_state_layer_ids must be an array of layer ids, such as [2, 30, 58], "
        "got '2,30,58'",
    ),
    "eagle_config of another kind": (
        b'{"eagle_config": [2, 30, 58]}',
        ": eagle_config must be an object, got an array",
    ),
    "switch as a string": (
        b'{"eagle_config": {"use_aux_hidden_state": "false"}}',
        ": eagle_config.use_aux_hidden_state must be true or false, got 'false'",
    ),
    "architectures as a string": (
        b'{"architectures": "LlamaForCausalLMEagle3"}',
        ": architectures must be an array of class names, got 'LlamaForCausalLMEagle3'",
    ),
    "model_type as a number": (b'{"model_type": 3}', ": model_type must be a string, got 3"),
}


@pytest.mark.parametrize("case", CONFIGS)
def test_a_wrong_config_names_the_file_and_the_key(tmp_path: Path, case: str) -> None:
    raw, text = CONFIGS[case]
    path = tmp_path / "config.json"
    path.write_bytes(raw)
    with pytest.raises(SubjectError) as caught:
        load_subjects([str(tmp_path)])
    assert str(caught.value) == f"{path}{text}"


def test_ids_that_are_merely_out_of_range_are_facts(tmp_path: Path) -> None:
    ids = [-1, 0, 10**6, 0]
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"eagle_config": {"eagle_aux_hidden_state_layer_ids": ids}}))
    (subject,) = load_subjects([str(path)])
    draft = StaticProbe().run(subject, Request())["draft"]
    assert isinstance(draft, DraftFacts)
    assert draft.layer_ids == ids


def test_infinity_elsewhere_in_a_config_is_accepted_as_the_engine_accepts_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"time_step_limit": [0.0, Infinity]}')
    (subject,) = load_subjects([str(path)])
    assert subject.draft is not None
    assert subject.draft.config == {"time_step_limit": [0.0, float("inf")]}
