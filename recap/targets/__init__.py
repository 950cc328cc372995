"""The model families; the only place in recap/ that knows transformers.

A family is a file here with a subclass of `TreeTarget` that names its transformers classes; it is found by itself.
"""

from importlib import import_module
from pkgutil import iter_modules

from recap.targets.base import TreeTarget, check_rollback

for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)

__all__ = ["TreeTarget", "supported", "target_for"]


def supported() -> dict[str, type[TreeTarget]]:
    """The family of every supported transformers class, by its name."""
    return {name: family for family in TreeTarget.__subclasses__() for name in family.classes}


def target_for(model, engine: str = "eager") -> TreeTarget:
    """The target of a loaded transformers model, by its class; ValueError names what is supported."""
    name = type(model).__name__
    families = supported()
    if name in families:
        return families[name](model, engine)
    config = getattr(model, "config", None)
    if config is not None:
        check_rollback(name, config.get_text_config())  # the more telling error, where it applies
    raise ValueError(f"model class {name} is not supported; supported: {', '.join(sorted(families))}")
