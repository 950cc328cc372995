"""From config sections to objects, with errors that name the key and the legal ones.

A section is a `_target_` and its constructor's arguments: the constructor's signature is the schema.
"""

import difflib
import hashlib
import inspect
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from runners.ranks import tell, whose, yield_the_floor

ROOT = Path(__file__).parent.parent
BAD_INPUT = 2  # exit code


def build(section: Mapping[str, Any], key: str, **extra: Any) -> Any:
    """Construct `section['_target_']` with the section's other entries; `key` is the section's name in the config.

    Raises ValueError naming `key.entry` for an unknown entry, an illegal choice or a target that cannot be imported.
    """
    from recap.options import check_options  # loads torch, which takes seconds that a finished cell need not spend

    arguments = {name: value for name, value in section.items() if name != "_target_"}
    cls = _find(section.get("_target_"), key)
    parameters = {name: p for name, p in inspect.signature(cls).parameters.items() if name not in extra}
    for name in arguments:
        if name not in parameters:
            raise ValueError(f"{key}.{name}: no such key; {_legal(name, parameters)}")
    check_options(cls.__init__, arguments, key)
    missing = [n for n, p in parameters.items() if p.default is p.empty and n not in arguments]
    if missing:
        raise ValueError(f"{key}.{missing[0]}: a value is needed")
    return cls(**arguments, **extra)


def class_of(section: Mapping[str, Any], key: str) -> type:
    """The class that a section names. Raises ValueError naming `key._target_` for one that cannot be imported."""
    return _find(section.get("_target_"), key)


def content_hash(content: Mapping[str, Any]) -> str:
    """Eight hex digits that name a cell by its options."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]


def refuse(error: Exception, overrides: Sequence[str]) -> int:
    """Bad input ends in one line, not in a trace; returns the exit code."""
    yield_the_floor()
    tell(f"error{whose()}: {explain(error, overrides)}")
    return BAD_INPUT


def explain(error: Exception, overrides: Sequence[str]) -> str:
    """The error in a few words; where Hydra met an unknown key, with the legal ones of its section."""
    message = str(error).strip()
    if "hydra/launcher/submitit" in message:
        return "launch: jobs are handed over by hydra-submitit-launcher: python -m pip install 'recap-decoding[slurm]'"
    unknown = re.match(r"Could not override '([\w.@/]+)'", message)
    if unknown is None:
        return message.split("\nConfig search path")[0]
    name = unknown.group(1)
    rest = [o for o in overrides if "=" in o and not o.lstrip("+~").startswith(name + "=")]
    initialized = GlobalHydra.instance().is_initialized()  # so it is where a sweep begins
    try:
        with nullcontext() if initialized else hydra.initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
            config = hydra.compose("config", overrides=rest)
    except HydraException:
        return message
    section, _, last = name.rpartition(".")
    node = OmegaConf.select(config, section) if section else config
    return f"{name}: no such key; {_legal(last, node)}" if isinstance(node, DictConfig) else message


def _legal(name: str, known) -> str:
    names = [str(k) for k in known if k not in ("_target_", "self")]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"{hint}legal: {', '.join(sorted(names)) or 'none'}"


def _find(target: str | None, key: str) -> Any:
    module, _, name = str(target or "").rpartition(".")
    if target == "???" or not module:
        raise ValueError(f"{key}._target_={target}: a class is needed, as module.Class")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{key}._target_={target}: cannot be imported ({error})") from None
