"""The model families; the only place in recap/ that knows transformers."""

from recap.targets.base import TreeTarget, check_rollback
from recap.targets.causal_lm import CausalLm
from recap.targets.llava import LlavaNext
from recap.targets.qwen import Qwen25Vl

FAMILIES: tuple[type[TreeTarget], ...] = (Qwen25Vl, LlavaNext, CausalLm)

__all__ = ["FAMILIES", "TreeTarget", "target_for"]


def target_for(model) -> TreeTarget:
    """The target of a loaded transformers model, by its class; ValueError names what is supported."""
    name = type(model).__name__
    for family in FAMILIES:
        if name in family.classes:
            return family(model)
    text = getattr(model, "config", None)
    if text is not None:
        check_rollback(name, text.get_text_config())  # the more telling error, where it applies
    known = ", ".join(cls for family in FAMILIES for cls in family.classes)
    raise ValueError(f"model class {name} is not supported; supported: {known}")
