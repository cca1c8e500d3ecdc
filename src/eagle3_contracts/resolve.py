"""Subjects ready to be probed: sources opened, configs merged, every problem reported at once."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from eagle3_contracts.checkpoint import Checkpoint, has_safetensors, read_checkpoint, read_values
from eagle3_contracts.errors import BadInput, OptionError, Problem, SubjectError, raise_if_any
from eagle3_contracts.files import is_absent, is_directory, read_object, show
from eagle3_contracts.flags import parse_flags
from eagle3_contracts.hub import is_hub_id, read_hub
from eagle3_contracts.locate import read_yaml
from eagle3_contracts.modelconfig import Config, Mistake, draft_mistakes, target_mistakes
from eagle3_contracts.subject import (
    Launch,
    Model,
    ResolvedModel,
    ResolvedSubject,
    Subject,
    Tensor,
    Training,
)
from eagle3_contracts.validate import validate

T = TypeVar("T")
Values = dict[str, tuple[bool, ...] | tuple[int, ...]]

_CHECKS: Mapping[str, Callable[[Config], Iterator[Mistake]]] = {
    "target": target_mistakes,
    "draft": draft_mistakes,
}
_PATH_FLAGS = {"target": "model-path", "draft": "speculative-draft-model-path"}


class Places(Protocol):
    """Where the declared parts of a subject stand; the document of a subject file is one."""

    @property
    def source(self) -> str:
        """The file as given, or the options."""
        ...

    def place(self, path: Sequence[str | int]) -> tuple[int | None, int | None]:
        """Return line and column of the value at ``path``."""
        ...


@dataclass(frozen=True, slots=True)
class _NoPlaces:
    source: str

    def place(self, path: Sequence[str | int]) -> tuple[int | None, int | None]:
        del path
        return None, None


def is_model(path: str) -> bool:
    """Return whether ``path`` is a model, a directory with config.json or a JSON file."""
    return path.endswith(".json") or not is_absent(Path(path, "config.json"))


def read_subject(path: Path) -> Subject:
    """Return the subject of a subject file; SubjectError with all its problems."""
    subject, _, problems = _read_file(path)
    raise_if_any(SubjectError, problems)
    assert subject is not None
    return subject


def resolve(subject: Subject, base: Path, origin: str) -> ResolvedSubject:
    """Open the sources of ``subject``, whose relative paths start at ``base``.

    ``origin`` is how to name the subject on a command line. Raises SubjectError, CheckpointError,
    or BadInput for problems of both kinds; all problems are in one error.
    """
    reader = _Reader(base, _NoPlaces(origin))
    resolved = reader.subject(subject)
    _raise_all(reader.errors)
    return resolved


def load_subjects(paths: Iterable[str]) -> list[ResolvedSubject]:
    """Read subject files, directories of subject files, draft directories and config.json files.

    The subjects come in the order of ``paths``, those of a directory sorted by file name. Raises
    one error, as :func:`resolve` does, with the problems of all of them; two subjects of one name
    are a problem.
    """
    errors: list[BadInput] = []
    subjects: list[ResolvedSubject] = []
    for path in paths:
        try:
            subjects.extend(_load(path, errors))
        except BadInput as caught:
            errors.append(caught)
    errors.extend(_same_names(subjects))
    _raise_all(errors)
    return subjects


def subject_from_options(
    target: str | None, draft: str | None, launch: str | None
) -> ResolvedSubject:
    """Return the subject of ``--target``, ``--draft`` and ``--launch``; paths start here.

    Raises OptionError when all are None, and otherwise as :func:`resolve` does.
    """
    given = {"--target": target, "--draft": draft, "--launch": launch}
    words = [word for key, value in given.items() if value is not None for word in (key, value)]
    if not words:
        text = "a subject needs at least one of --target, --draft and --launch"
        raise OptionError(Problem("options", text))
    subject = Subject(
        subject=_name_of(draft or target, otherwise="launch"),
        target=None if target is None else Model(source=target),
        draft=None if draft is None else Model(source=draft),
        launch=None if launch is None else Launch(args=launch),
    )
    return resolve(subject, Path(), shlex.join(words))


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` with the values of ``over``; objects are merged key by key."""
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            merged[key] = merge(below, value)
        else:
            merged[key] = value
    return merged


class _Reader:
    """Reads the sources of one subject and gathers what is wrong with them."""

    def __init__(self, base: Path, places: Places) -> None:
        self.base = base
        self.places = places
        self.errors: list[BadInput] = []

    def subject(self, subject: Subject) -> ResolvedSubject:
        flags = self._flags(subject.launch)
        return ResolvedSubject(
            name=subject.name,
            target=self._part("target", subject.target, flags),
            draft=self._part("draft", subject.draft, flags),
            launch=subject.launch,
            training=self._training(subject.training),
            origin=self.places.source,
        )

    def _flags(self, launch: Launch | None) -> dict[str, str]:
        try:
            return parse_flags(launch.args) if launch else {}
        except ValueError as caught:
            self._report(("launch", "args"), str(caught))
            return {}

    def _training(self, training: Training | None) -> Training | None:
        if training is None or training.features is None:
            return training
        return training.model_copy(update={"features": str(self.base / training.features)})

    def _part(
        self, role: str, model: Model | None, flags: Mapping[str, str]
    ) -> ResolvedModel | None:
        path = flags.get(_PATH_FLAGS[role])
        if model is None and path is not None and is_directory(self.base / path):
            model = Model(source=path)
        return None if model is None else self._model(role, model)

    def _model(self, role: str, model: Model) -> ResolvedModel:
        found, config_file = self._source(role, model)
        config = merge(found.config, model.config or {})
        for mistake in _CHECKS[role](config):
            self._mistake(role, mistake, model.config or {}, config_file)
        quant_config = found.quant_config
        if model.quant_config is not None:
            quant_config = merge(quant_config or {}, model.quant_config)
        values = {**found.values, **model.values}
        return found.model_copy(
            update={
                "config": config,
                "quant_config": quant_config,
                "tensors": self._tensors(role, model, found.tensors),
                "values": values,
            }
        )

    def _source(self, role: str, model: Model) -> tuple[ResolvedModel, str]:
        nothing = ResolvedModel(config={})
        if model.source is None:
            return nothing, self.places.source
        path, weights = self.base / model.source, model.tensors is None
        if is_directory(path):
            return self._directory(role, path, weights, model), str(path / "config.json")
        if not is_absent(path):
            return ResolvedModel(config=self._json(path) or {}), str(path)
        if is_hub_id(model.source):
            repo = model.source
            return self._try(lambda: read_hub(repo, weights), nothing), f"{repo}/config.json"
        needed = "a directory with config.json and *.safetensors, or a hub id (owner/name)"
        self._report((role, "source"), f"there is no {show(model.source)}; give {needed}")
        return nothing, str(path)

    def _directory(self, role: str, path: Path, weights: bool, model: Model) -> ResolvedModel:
        if is_absent(path / "config.json") and not model.config and not has_safetensors(path):
            self._report((role, "source"), f"{path} holds neither config.json nor *.safetensors")
            return ResolvedModel(config={})
        # Other formats are refused for a draft, whose tensors matter; a target may have them.
        wanted = weights and (role == "draft" or has_safetensors(path))
        known = self._try(lambda: read_checkpoint(path), None) if wanted else None
        if known is not None and not (known.files or known.missing_shards):
            known = None
        return ResolvedModel(
            config=self._json(path / "config.json") or {},
            quant_config=self._json(path / "hf_quant_config.json"),
            tensors=known.tensors if known else None,
            values=self._values(known) if known else {},
            missing_shards=known.missing_shards if known else (),
            missing_tensors=known.missing_tensors if known else (),
            path=path,
        )

    def _json(self, path: Path) -> dict[str, Any] | None:
        if is_absent(path):
            return None
        return self._try(lambda: read_object(path, SubjectError), None)

    def _values(self, checkpoint: Checkpoint) -> Values:
        maps = [name for name in checkpoint.tensors if name.split(".")[-1] in ("d2t", "t2d")]
        return self._try(lambda: read_values(checkpoint, maps), {})

    def _tensors(
        self, role: str, model: Model, found: dict[str, Tensor] | None
    ) -> dict[str, Tensor] | None:
        tensors = found if model.tensors is None else model.tensors
        if not model.values:
            return tensors
        added = dict(tensors or {})
        for name, values in model.values.items():
            declared = (model.tensors or {}).get(name)
            if declared is None:
                kind = "BOOL" if values and isinstance(values[0], bool) else "I64"
                added[name] = Tensor(dtype=kind, shape=(len(values),))
            elif declared.shape != (len(values),):
                text = f"has {len(values)} elements, tensors gives it the shape"
                self._report((role, "values", name), f"{text} {list(declared.shape)}")
        return added

    def _mistake(
        self, role: str, mistake: Mistake, inline: Mapping[str, Any], config_file: str
    ) -> None:
        if _holds(inline, mistake.key) or config_file == self.places.source:
            self._report((role, "config", *mistake.key), mistake.text)
        else:
            self.errors.append(SubjectError(Problem(config_file, str(mistake))))

    def _report(self, path: Sequence[str], text: str) -> None:
        line, column = self.places.place(path)
        where = ".".join(path)
        self.errors.append(
            SubjectError(Problem(self.places.source, f"{where}: {text}", line, column))
        )

    def _try(self, read: Callable[[], T], otherwise: T) -> T:
        try:
            return read()
        except BadInput as caught:
            self.errors.append(caught)
            return otherwise


def _read_file(path: Path) -> tuple[Subject | None, Places, list[Problem]]:
    document = read_yaml(path, SubjectError)
    subject, problems = validate(Subject, document)
    return subject, document, problems


def _load(path: str, errors: list[BadInput]) -> list[ResolvedSubject]:
    if is_model(path):
        return [_load_model(path, errors)]
    loaded = []
    for file in _subject_files(Path(path)):
        try:
            subject = _load_file(file, errors)
        except BadInput as caught:
            errors.append(caught)
            continue
        loaded.append(subject)
    return loaded


def _load_model(path: str, errors: list[BadInput]) -> ResolvedSubject:
    reader = _Reader(Path(), _NoPlaces(path))
    subject = Subject(subject=_name_of(path, otherwise="draft"), draft=Model(source=path))
    resolved = reader.subject(subject)
    errors.extend(reader.errors)
    return resolved


def _load_file(path: Path, errors: list[BadInput]) -> ResolvedSubject:
    subject, places, problems = _read_file(path)
    if subject is None:
        raise SubjectError(problems)
    reader = _Reader(path.parent, places)
    resolved = reader.subject(subject)
    errors.extend(reader.errors)
    return resolved


def _subject_files(path: Path) -> list[Path]:
    if is_absent(path):
        text = "there is no such file or directory; a subject file, a directory of them, or a draft"
        raise SubjectError(Problem(str(path), f"{text} directory is needed"))
    if not is_directory(path):
        return [path]
    try:
        files = sorted(entry for entry in path.iterdir() if entry.suffix in (".yaml", ".yml"))
    except OSError as caught:
        raise SubjectError(Problem(str(path), f"cannot be read: {caught.strerror}")) from None
    if not files:
        text = "holds neither subject files (*.yaml) nor a config.json"
        raise SubjectError(Problem(str(path), text))
    return files


def _same_names(subjects: Iterable[ResolvedSubject]) -> list[BadInput]:
    origins: dict[str, str] = {}
    errors: list[BadInput] = []
    for subject in subjects:
        if subject.name in origins:
            text = f"the name '{subject.name}' is taken by {origins[subject.name]}"
            problem = Problem(subject.origin, f"{text}; each subject needs its own")
            errors.append(SubjectError(problem))
        origins.setdefault(subject.name, subject.origin)
    return errors


def _name_of(path: str | None, otherwise: str) -> str:
    if path is None:
        return otherwise
    full = Path(path).absolute()
    last = full.parent.name if full.suffix == ".json" else full.name
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", last).strip("._+-")[:120] or otherwise


def _holds(config: Mapping[str, Any], key: Sequence[str]) -> bool:
    value: Any = config
    for part in key:
        if not isinstance(value, Mapping) or part not in value:
            return False
        value = value[part]
    return bool(key)


def _raise_all(errors: Sequence[BadInput]) -> None:
    problems = [problem for error in errors for problem in error.problems]
    kinds = {type(error) for error in errors}
    raise_if_any(kinds.pop() if len(kinds) == 1 else BadInput, problems)
