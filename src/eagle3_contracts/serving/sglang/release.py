"""What the installed release of SGLang offers: algorithms, flags, classes and what they read.

Everything is read from the sources, and from as few files as the question needs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from eagle3_contracts.errors import did_you_mean
from eagle3_contracts.serving.sglang import sources

_FIELDS = "arg_groups/fields"
_SPEC = f"{_FIELDS}/spec.py"
_CHOICES = "arg_groups/choices.py"
_FIELD = re.compile(r"^    (\w+): A\[", re.MULTILINE)
_SPELLED = re.compile(r"[\"'](--[a-z0-9][a-z0-9-]*)[\"']")
_BACKENDS = ("attention-backend", "prefill-attention-backend", "decode-attention-backend")


@dataclass(frozen=True, slots=True)
class Flag:
    """What a flag takes: ``kind`` is int, float or str; no choices: anything of that kind."""

    kind: str
    choices: tuple[str, ...] = ()


@cache
def algorithms() -> tuple[str, ...]:
    """Return the names that ``--speculative-algorithm`` takes, in the order of the sources."""
    found = sources.class_of("SpeculativeAlgorithm", "speculative/spec_info.py")
    members = [
        node.targets[0] for node in (found.body if found else ()) if isinstance(node, ast.Assign)
    ]
    names = [
        target.id for target in members if isinstance(target, ast.Name) and target.id != "NONE"
    ]
    aliases = re.search(r"_RESERVED_ALIASES = .*", sources.text("speculative/spec_registry.py"))
    return (*names, *re.findall(r'"(\w+)"', aliases[0] if aliases else ""))


@cache
def flags() -> frozenset[str]:
    """Return the flags of the server, without their dashes."""
    names: set[str] = set()
    for text in map(sources.text, _flag_files()):
        names.update(name.replace("_", "-") for name in _FIELD.findall(text))
        names.update(name[2:] for name in _SPELLED.findall(text))
    return frozenset(names)


def unknown_flag(name: str) -> str | None:
    """Return the flag with a suggestion if the server has none of that name; else None.

    argparse takes the beginning of a name for the whole, and ``--no-`` in front of a switch.
    """
    if not _flag_files() or _is_spelled(name) or _is_spelled(name.removeprefix("no-")):
        return None
    known = flags()
    if any(flag.startswith(name) for flag in known):
        return None
    return f"--{name}{did_you_mean(name, known)}"


def bad_value(name: str, value: str) -> str | None:
    """Return what is wrong with the value of a flag; None if nothing is, or nothing is known."""
    flag = _typed().get(name)
    if flag is None:
        return None
    if flag.kind in ("int", "float") and not _is_number(value, flag.kind):
        wanted = "an integer" if flag.kind == "int" else "a number"
        return f"--{name} {value}: {wanted} expected"
    if flag.choices and value not in flag.choices:
        return f"--{name} {value}: one of {', '.join(flag.choices)} expected"
    return None


@cache
def draft_backends() -> tuple[str, ...]:
    """Return the attention backends that can decode an EAGLE draft."""
    whole = sources.text("speculative/draft_utils.py")
    maps = re.findall(r"backend_map = \{(.*?)\n        \}", whole, re.DOTALL)
    return tuple(re.findall(r'"(\w+)":', maps[0])) if maps else ()


@cache
def bundling() -> Mapping[str, str | None]:
    """Return the targets that bundle a draft head, with the class that the head is loaded with.

    ``ModelConfig._config_draft_model`` renames the architecture of such a target. None stands for
    a class that depends on more than the name.
    """
    whole = sources.text("configs/model_config.py")
    found = re.search(r"^    def _config_draft_model\(self\):\n(.*?)^    def ", whole, re.M | re.S)
    blocks = re.split(
        r"^        if \(?$|^        if ", found[1] if found else "", flags=re.MULTILINE
    )
    renamed: dict[str, str | None] = {}
    for block in blocks:
        condition, _, body = block.partition(":\n")
        names = re.findall(r'"(\w+)"', condition)
        if "MIMO_V2_MODEL_ARCHS" in condition:
            names += _constant("MIMO_V2_MODEL_ARCHS", whole)
        to = re.findall(r'architectures(?:\[0\])? = \[?\s*"(\w+)"', body)
        for name in names if to else ():
            renamed.setdefault(name, to[0] if len(set(to)) == 1 else None)
    return renamed


@cache
def self_drafting() -> frozenset[str]:
    """Return the targets whose own path SGLang takes where EAGLE is given no draft path."""
    whole = sources.text("arg_groups/speculative_hook.py")
    start = whole.find("def _handle_eagle_family")
    found = re.search(r"if model_arch in \[(.*?)\n    \]:", whole[max(start, 0) :], re.DOTALL)
    return frozenset(re.findall(r'"(\w+)"', found[1] if found else ""))


def reads(architecture: str) -> tuple[frozenset[str], frozenset[str]] | None:
    """Return the config fields that a draft class reads at the top, and in ``eagle_config``.

    They are gathered over the whole module of the class, so that a field that another class of it
    reads counts as read. None for an unknown class.
    """
    path = sources.entries().get(architecture)
    if path is None:
        return None
    return _reads(path)


@cache
def _reads(path: str) -> tuple[frozenset[str], frozenset[str]]:
    top: set[str] = set()
    nested: set[str] = set()
    for node in ast.walk(sources.tree(path)):
        if isinstance(node, ast.Attribute):
            top.add(node.attr)
        elif isinstance(node, ast.Call):
            _read_call(node, top, nested)
        elif isinstance(node, ast.Subscript) and "eagle_config" in ast.unparse(node.value):
            nested.update(sources.strings(node.slice))
    return frozenset(top), frozenset(nested)


def _read_call(node: ast.Call, top: set[str], nested: set[str]) -> None:
    called = ast.unparse(node.func)
    names = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
    found = {name for name in names if isinstance(name, str)}
    if called in ("getattr", "hasattr") and node.args:
        (nested if "eagle_config" in ast.unparse(node.args[0]) else top).update(found)
    elif called.endswith("eagle_config.get"):
        nested.update(found)
    elif called.endswith(".get"):
        top.update(found)


@cache
def guards_placeholders(architecture: str) -> bool | None:
    """Return whether a draft's module takes embeddings from the target where images stand."""
    path = sources.entries().get(architecture)
    return None if path is None else "mm_input_embeds" in sources.text(path)


@cache
def _flag_files() -> tuple[str, ...]:
    """Return the files that declare flags, that of the speculative ones first."""
    base = sources.root()
    files = sorted((base / _FIELDS).glob("*.py")) if base is not None else []
    others = [f"{_FIELDS}/{file.name}" for file in files if file.name != "spec.py"]
    return (_SPEC, *others, "server_args.py") if files else ()


@cache
def _is_spelled(name: str) -> bool:
    """Return whether a file declares a flag; a look at the texts costs less than all flags."""
    field, spelled = f"\n    {name.replace('-', '_')}: A[", f'"--{name}"'
    texts = map(sources.text, _flag_files())
    return any(field in text or spelled in text for text in texts)


@cache
def _typed() -> Mapping[str, Flag]:
    """Return the speculative flags and those of the attention backend, by name."""
    found = sources.class_of("Spec", _SPEC)
    typed: dict[str, Flag] = {}
    for node in found.body if found is not None else ():
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            typed[node.target.id.replace("_", "-")] = _flag(node.annotation)
    backends = Flag("str", tuple(_choices("ATTENTION_BACKEND_CHOICES")))
    return {**typed, **dict.fromkeys(_BACKENDS, backends)}


def _flag(annotation: ast.expr) -> Flag:
    kind = re.search(r"\b(int|float|str|bool)\b", ast.unparse(annotation))
    for node in ast.walk(annotation):
        if isinstance(node, ast.keyword) and node.arg == "choices":
            return Flag("str", tuple(_listed(node.value)))
    return Flag(kind[1] if kind else "str")


def _listed(node: ast.expr) -> list[str]:
    return _choices(node.id) if isinstance(node, ast.Name) else list(sources.strings(node))


@cache
def _choices(name: str) -> list[str]:
    return _constant(name, sources.text(_CHOICES))


def _constant(name: str, whole: str) -> list[str]:
    """Return the strings of a list or tuple that a module assigns to ``name``."""
    found = re.search(
        rf"^{name} = ([\[(].*?^[\])]|[\[(].*?[\])]$)", whole, re.MULTILINE | re.DOTALL
    )
    return list(sources.strings(ast.parse(found[1]))) if found else []


def _is_number(value: str, kind: str) -> bool:
    try:
        int(value) if kind == "int" else float(value)
    except ValueError:
        return False
    return True
