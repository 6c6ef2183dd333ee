"""One error type, one way to show a value, one way to check an argument."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from functools import wraps
from typing import Any

SHOWN_LENGTH = 160

_WORDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    ((int, float), "the number"),
    (datetime.date, "the date"),
    (dict, "a mapping"),
    ((list, tuple, set), "a list"),
)


class MeshError(ValueError):
    """A refusal a person can act on: ``what: why. Next: todo``, always one line.

    ``what`` names the object and its value, ``why`` the cause, ``todo`` the next step.
    """

    def __init__(self, what: str, why: str, todo: str) -> None:
        """Keep the parts, so that several errors can be reported as a list."""
        self.what, self.why, self.todo = (one_line(part).rstrip(".") for part in (what, why, todo))
        super().__init__(f"{self.what}: {self.why}. Next: {self.todo}.")


def one_line(text: str) -> str:
    """Return text with every run of white space as one space."""
    return " ".join(text.split())


def shown(value: object) -> str:
    """Return a value quoted for a message, on one line and cut to a readable length."""
    text = one_line(str.__str__(value)) if isinstance(value, str) else one_line(repr(value))
    if len(text) > SHOWN_LENGTH:
        # The cause of a tool's error stands at its end ("...: connection refused"), so the middle is cut.
        text = f"{text[: SHOWN_LENGTH // 2]} ... {text[-SHOWN_LENGTH // 2 :]}"
    return f'"{text}"' if isinstance(value, str) else text


def kind_of(value: object) -> str:
    """Return the type of a value in the words of YAML."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    for types, words in _WORDS:
        if isinstance(value, types):
            return f"{words} {shown(value) if isinstance(value, (dict, list, tuple, set)) else value}"
    return f"a {type(value).__name__} {shown(value)}"


def need_text(value: object, name: str, example: str) -> str:
    """Return value as a plain string; anything else is a MeshError that says how to write it.

    YAML turns 1.30 into the number 1.3, 2025-01-31 into a date and yes into true; guessing the text back
    would hide that, so it is refused. A subclass of str (Ansible tags its strings) comes back as plain str.
    """
    if isinstance(value, str):
        return str.__str__(value)
    if value is None:
        raise MeshError(name, "no value is set", f'set it, quoted, such as "{example}"')
    if isinstance(value, (int, float, datetime.date)):
        raise MeshError(
            name, f"YAML reads the value as {kind_of(value)}, not as text", f'quote it, such as "{example}"'
        )
    raise MeshError(name, f"text is needed, found {kind_of(value)}", f'give one string such as "{example}"')


def need_flag(value: object, name: str) -> bool:
    """Return value when it is a boolean; the text "false" is true to Python and therefore refused."""
    if isinstance(value, bool):
        return value
    raise MeshError(name, f"true or false is needed, found {kind_of(value)}", f'write "{name}=true" or use "| bool"')


def need_labels(value: object, name: str) -> dict[str, str]:
    """Return a mapping of text to text; null counts as empty, since the API omits empty maps."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MeshError(name, f"a mapping is needed, found {kind_of(value)}", "give the mapping as the API returns it")
    return {
        need_text(key, f"a key of {name}", "istio.io/rev"): need_text(item, f'{name} "{key}"', "prod-stable")
        for key, item in value.items()
    }


def as_filter(function: Callable[..., Any], error: type[Exception]) -> Callable[..., Any]:
    """Return function with every MeshError turned into ``error`` (AnsibleFilterError in the filter files)."""

    @wraps(function)
    def filtered(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except MeshError as problem:
            raise error(str(problem)) from problem

    return filtered
