"""RECAP: training-free speculative decoding for vision-language models, exact in every token.

`recap.generate(model, inputs, max_new_tokens=200)` decodes with a loaded transformers model.
"""

from recap.compiled import drop_stale

drop_stale(__file__)

from recap.api import custom_generate, generate  # noqa: E402
from recap.drafter import Drafter, Recap  # noqa: E402
from recap.targets import target_for  # noqa: E402
from recap.types import Draft, Limits, Output, Request, Rows, Step  # noqa: E402

__all__ = [
    "Draft", "Drafter", "Limits", "Output", "Recap", "Request", "Rows", "Step",
    "custom_generate", "generate", "target_for",
]  # fmt: skip
