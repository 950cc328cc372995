"""LLaVA-1.6 (LlavaNext): plain positions."""

from recap.targets.base import TreeTarget


class LlavaNext(TreeTarget):
    """A token's position is its slot."""

    classes = ("LlavaNextForConditionalGeneration",)
    vision = "model.multi_modal_projector"

    def find_placeholders(self) -> tuple[int, ...]:
        return (self.model.config.image_token_id,)
