"""Checks a constructor's arguments against its own signature, which is the config schema."""

import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

PLAIN = (int, float, bool, str)


def check_options(function: Callable, values: Mapping[str, Any], key: str = "method") -> None:
    """Raise ValueError naming `key.name` for the first value outside its Literal choices, plain type or sign.

    Arguments annotated otherwise are left to the constructor.
    """
    for name, hint in typing.get_type_hints(function).items():
        if name not in values:
            continue
        value = values[name]
        words = ""
        if typing.get_origin(hint) in (types.UnionType, typing.Union):  # X | None, X | Literal[...]
            if value is None:
                continue
            choices = [c for part in typing.get_args(hint) for c in typing.get_args(part)]
            if value in choices:
                continue
            words = "".join(f" or {choice}" for choice in choices)
            hint = next(part for part in typing.get_args(hint) if part in PLAIN)
        if typing.get_origin(hint) is typing.Literal:
            choices = typing.get_args(hint)
            if value not in choices or type(value) is not type(choices[choices.index(value)]):
                raise ValueError(f"{key}.{name}={value}: choose one of {', '.join(map(str, choices))}")
        elif hint in PLAIN and type(value) is not hint and not (hint is float and type(value) is int):
            raise ValueError(f"{key}.{name}={value!r}: expected {hint.__name__}{words}")
        elif hint is int and value < 0:
            raise ValueError(f"{key}.{name}={value}: must not be negative")
