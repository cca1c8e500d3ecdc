"""``eagle3-contracts features`` on dumps of a real Llama, against SGLang's own class."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import torch

from eagle3_contracts import cli, probes
from eagle3_contracts.features.dump import Layout
from feature_dumps import write_sample, write_tensors
from tiny_llama import HIDDEN, LAYERS, VOCAB, boundaries_of, normed, save_llama, some_tokens

pytestmark = pytest.mark.xdist_group("sglang")

DRAFT = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": 96,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": VOCAB,
    "draft_vocab_size": VOCAB,
    "max_position_embeddings": 512,
    "eagle_config": {
        "eagle_aux_hidden_state_layer_ids": [1, 3, 5],
        "use_aux_hidden_state": True,
    },
}
"""SGLang reads these ids as layers whose output is captured: boundaries 2, 4 and 6."""

SVG = "{http://www.w3.org/2000/svg}"

Edit = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Setup:
    """A target, a draft for it, and the means to write dumps."""

    root: Path
    model: Any

    def dump(
        self, name: str, ids: list[int], layout: Layout = Layout.PLAIN, edit: Edit | None = None
    ) -> Path:
        """Write three samples of these boundaries; ``edit`` spoils the slots of the second."""
        folder = self.root / name
        for number, length in enumerate((20, 90, 40)):
            tokens = some_tokens(length, number)
            states = boundaries_of(self.model, tokens)
            slots = states[ids].transpose(0, 1).contiguous()
            slots = edit(slots) if edit and number == 1 else slots
            last = normed(self.model, states[-1])
            write_sample(folder, layout, number, tokens, slots, last)
        return folder


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setup]:
    root = tmp_path_factory.mktemp("features")
    model = save_llama(root / "target")
    (root / "draft").mkdir()
    (root / "draft" / "config.json").write_text(json.dumps(DRAFT))
    yield Setup(root, model)
    probes.close()


@pytest.fixture
def ask(
    setup: Setup, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str]]:
    monkeypatch.setenv("COLUMNS", "100")

    def run(dump: Path, *words: str, draft: bool = True) -> tuple[int, str]:
        options = ["--target", str(setup.root / "target")]
        options += ["--draft", str(setup.root / "draft")] if draft else []
        code = cli.main(["features", str(dump), *options, *words])
        return code, capsys.readouterr().out

    return run


Ask = Callable[..., tuple[int, str]]


def test_the_whole_text_of_a_dump_that_is_off_by_one(setup: Setup, ask: Ask) -> None:
    dump = setup.dump("off", [2, 5, 6], Layout.SPECULATORS)
    code, text = ask(dump)
    shown = [line for line in text.splitlines() if not line.strip().startswith("error")]
    assert "\n".join(shown) == dedent(f"""\
        dump    {dump} (speculators), 3 of 3 samples
        target  LlamaForCausalLM, 8 layers

        training                  0                       1       2               L*
                                  ▼                       ▼       ▼               ▼
                  ┼───────┼───────┼───────┼───────┼───────┼───────┼───────┼───────┼
        boundary  0       1       2       3       4       5       6       7       8
                                  ▲               ▲               ▲
        SGLang                    0               1               2

        ✓  slot 0 is the output of layer 1 (boundary 2); SGLang will capture it
        ✗  slot 1 is the output of layer 4 (boundary 5); SGLang will capture boundary 4: off by one
        ✓  slot 2 is the output of layer 5 (boundary 6); SGLang will capture it
        ✓  the last state is the output of layer 7 after the final norm (boundary 8)

        fix  Declare eagle_config.eagle_aux_hidden_state_layer_ids [1, 4, 5] in the draft's config.

        3 pass, 1 fail""")
    assert code == 1


def test_the_picture_is_written_as_svg(setup: Setup, ask: Ask) -> None:
    dump, file = setup.dump("drawn", [2, 5, 6]), setup.root / "picture.svg"
    code, _ = ask(dump, "--picture", str(file))
    root = ET.parse(file).getroot()
    assert (code, root.tag) == (1, f"{SVG}svg")
    assert root.findtext(f"{SVG}title") == "drawn, states of LlamaForCausalLM"
    hints = [title.text for title in root.findall(f"{SVG}text/{SVG}title")]
    assert hints[1] == "is the output of layer 4 (boundary 5)"


@pytest.mark.parametrize("layout", list(Layout))
def test_what_is_captured_as_it_was_extracted_is_clean(
    setup: Setup, ask: Ask, layout: Layout
) -> None:
    code, text = ask(setup.dump(f"good-{layout}", [2, 4, 6], layout), "--format", "json")
    document = json.loads(text)
    assert (code, document["exit_code"], document["fix"]) == (0, 0, "")
    assert [f["verdict"] for f in document["findings"]] == ["pass"] * 4
    assert [f["slot"] for f in document["findings"]] == ["0", "1", "2", "last"]
    assert document["captured"] == [2, 4, 6]
    best = document["findings"][1]["match"]
    assert (best["best"], best["fit"]) == ({"k": 4, "normed": False}, "same")
    assert best["error"] < 1e-5 < 0.05 < best["second_error"]


def test_without_a_draft_slots_are_named_only(setup: Setup, ask: Ask) -> None:
    code, text = ask(setup.dump("named", [0, 1, LAYERS]), draft=False)
    assert code == 0
    assert "slot 0 is the embedding (boundary 0)\n" in text
    assert "slot 2 is the output of layer 7 (boundary 8)\n" in text
    assert "SGLang" not in text


def test_another_order_is_told_from_other_layers(setup: Setup, ask: Ask) -> None:
    code, text = ask(setup.dump("swapped", [4, 2, 6]), "--format", "json")
    findings = json.loads(text)["findings"]
    assert code == 1
    assert findings[0]["text"] == (
        "slot 0 is the output of layer 3 (boundary 4); SGLang will capture boundary 2 here: the "
        "same boundaries in another order"
    )
    assert [f["verdict"] for f in findings] == ["fail", "fail", "pass", "pass"]
    assert "no other" in json.loads(text)["fix"]


def test_another_number_of_slots_is_said_so(setup: Setup, ask: Ask) -> None:
    code, text = ask(setup.dump("two", [2, 4]))
    assert code == 1
    assert "the dump has 2 slots, and SGLang will capture 3 states" in text


def test_a_launch_that_captures_nothing_is_said_so(setup: Setup, ask: Ask) -> None:
    dump = setup.dump("eagle", [2, 4, 6])
    code, text = ask(dump, "--launch", "--speculative-algorithm EAGLE")
    assert code == 1
    assert "the dump has 3 slots, and SGLang will capture 0 states" in text


def test_one_bad_sample_among_good_ones_is_named(setup: Setup, ask: Ask) -> None:
    def drop_a_row(slots: torch.Tensor) -> torch.Tensor:
        return torch.cat([slots[:30], slots[31:], slots[-1:]])

    code, text = ask(setup.dump("dropped", [2, 4, 6], edit=drop_a_row))
    assert code == 1
    flat = " ".join(text.split())
    good = "slot 1 is the output of layer 3 (boundary 4); SGLang will capture it"
    assert f"{good} (2 of 3 samples, as 0.safetensors)" in flat
    assert (
        "slot 1 is the output of layer 3 (boundary 4) up to token 30, and from there on of the "
        "next token: a row was left out; SGLang will capture it (1.safetensors)"
    ) in flat
    assert flat.count("(1.safetensors)") == 3


def test_a_sample_that_is_damaged_is_named_and_the_others_are_used(setup: Setup, ask: Ask) -> None:
    dump = setup.dump("damaged", [2, 4, 6])
    (dump / "2.safetensors").write_bytes(b"half of a")
    code, text = ask(dump)
    assert code == 1
    assert "✗  2.safetensors: cannot be read: " in text
    assert text.count("✓") == 4


def test_half_precision_in_a_float32_file_is_inconclusive(setup: Setup, ask: Ask) -> None:
    folder = setup.root / "upcast"
    tokens = some_tokens(50)
    states = boundaries_of(setup.model, tokens)[[2, 4, 6, 8]].bfloat16().float()
    slots = states[:3].transpose(0, 1).contiguous()
    write_sample(folder, Layout.PLAIN, 0, tokens, slots, states[3])
    code, text = ask(folder)
    assert code == 4
    assert "with more error than its dtype explains" in " ".join(text.split())
    assert "4 inconclusive" in text


def test_samples_are_chosen_by_seed(setup: Setup, ask: Ask) -> None:
    dump = setup.dump("many", [2, 4, 6])

    def chosen(seed: str) -> list[str]:
        text = ask(dump, "--samples", "1", "--seed", seed, "--format", "json", draft=False)[1]
        samples: list[str] = json.loads(text)["samples"]
        return samples

    assert chosen("0") == chosen("0")
    assert len({tuple(chosen(str(seed))) for seed in range(6)}) > 1


def test_a_target_that_cannot_be_run_is_not_testable(setup: Setup, ask: Ask) -> None:
    target = setup.root / "broken"
    save_llama(target)
    write_tensors(target / "model.safetensors", {"model.norm.weight": torch.ones(3)})
    dump = setup.dump("for-broken", [2, 4, 6])
    file = setup.root / "none.svg"
    words = ["--target", str(target), "--picture", str(file)]
    code, text = ask(dump, *words, draft=False)
    assert code == 3
    assert "running the target: " in text
    assert not file.exists()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["nowhere", "--target", "target"], "nowhere: there is no such file or directory"),
        (["dump"], "--target, --draft and --launch"),
        (["dump", "--draft", "draft"], "must be a local directory with its weights"),
        (["dump", "--target", "target", "--device", "tpu"], "tpu"),
    ],
)
def test_bad_input_is_said_so(
    setup: Setup,
    words: list[str],
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    setup.dump("dump", [2, 4, 6])
    monkeypatch.chdir(setup.root)
    assert cli.main(["features", *words]) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--samples", "0"], ["--tokens", "-3"], ["--samples", "many"]])
def test_no_samples_are_no_way_to_be_green(words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["features", "dump", "--target", "target", *words])
    assert caught.value.code == 2
