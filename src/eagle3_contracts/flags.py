"""Launch flags: a server's command line as plain text, without the server's own parser.

SGLang's parser knows which flags exist and what they mean; it is used in the tiers that import
SGLang. Here the flags are only told apart.
"""

from __future__ import annotations

import shlex

ALIASES = {
    "model": "model-path",
    "speculative-algo": "speculative-algorithm",
    "speculative-draft-model": "speculative-draft-model-path",
}
"""Other spellings that SGLang accepts, and the names under which they are returned."""


def parse_flags(args: str) -> dict[str, str]:
    """Return every flag of ``args`` without its dashes, with its value.

    A switch has the value ``"true"``, a list its values joined by blanks; a flag given twice has
    the last value, as in argparse. Raises ValueError, with a text for the user, for an open quote
    and for words in front of the first flag.
    """
    flags: dict[str, list[str]] = {}
    values: list[str] | None = None
    for word in _words(args):
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
            values = flags[ALIASES.get(name, name)] = [value] if equals else []
        elif values is None:
            hint = "give the server's flags only, each starting with --"
            raise ValueError(f"{word!r} belongs to no flag; {hint}")
        else:
            values.append(word)
    return {name: " ".join(words) if words else "true" for name, words in flags.items()}


def _words(args: str) -> list[str]:
    try:
        return shlex.split(args)
    except ValueError as caught:
        hint = "every quote and backslash needs its other half"
        raise ValueError(f"cannot be split into words: {caught}; {hint}") from None
