"""Text-only causal language models."""

from recap.targets.base import TreeTarget


class CausalLm(TreeTarget):
    """A token's position is its slot; there are no placeholders."""

    classes = ("LlamaForCausalLM", "Qwen2ForCausalLM")
