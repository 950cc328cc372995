"""Qwen2.5-VL: three-plane rotary positions with a per-request delta."""

import torch

from recap.targets.base import DROPPED, TreeTarget
from recap.types import Request


class Qwen25Vl(TreeTarget):
    """An image takes fewer positions than tokens, so after it a token's position is its slot plus a negative delta."""

    classes = ("Qwen2_5_VLForConditionalGeneration",)
    vision = "model.visual"
    dropped = DROPPED - {"position_ids"}  # all that `model.generate` leaves of the grids once it has encoded the images

    def find_placeholders(self) -> tuple[int, ...]:
        config = self.model.config
        return (config.image_token_id, config.video_token_id)

    def prompt_positions(self, request: Request) -> torch.Tensor:
        """[3, 1, n]; the delta is kept here, as `shift`, never on the model, so that requests may interleave."""
        ids = torch.from_numpy(request.prompt).to(self.model.device)[None]
        grids = {name: request.inputs.get(name) for name in ("image_grid_thw", "video_grid_thw")}
        self.shift = 0
        if all(grid is None for grid in grids.values()):
            given = request.inputs.get("position_ids")
            if given is None:
                return torch.arange(ids.shape[1], device=ids.device).expand(3, 1, -1)
            positions = given[-3:]  # a first plane of four counts the text
            self.shift = int(positions.max()) + 1 - ids.shape[1]
            return positions
        image, video = self.placeholders
        kinds = (ids == image).int() + 2 * (ids == video).int()
        seconds = request.inputs.get("second_per_grid_ts")
        positions, delta = self.model.model.get_rope_index(
            ids, mm_token_type_ids=kinds, second_per_grid_ts=seconds, **grids
        )
        self.shift = int(delta)
        return positions

    def planes(self, positions: torch.Tensor) -> torch.Tensor:
        return positions.expand(3, 1, -1)
