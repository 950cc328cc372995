"""Muon (Jordan et al. 2024) for matrices, in fp32 and for few small matrices on a CPU."""

from collections import defaultdict

import torch
from torch import nn


class Muon(torch.optim.Optimizer):
    """Orthogonalised momentum, scaled to the size of AdamW's updates by 0.2 sqrt(max dim) (Liu et al. 2025)."""

    def __init__(self, params, lr: float, momentum: float = 0.95, weight_decay: float = 0.01) -> None:
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            shapes = defaultdict(list)
            for p in group["params"]:
                if p.grad is not None:
                    shapes[p.shape].append(p)
            for shape, params in shapes.items():
                updates = orthogonalise(torch.stack([self._momentum(p, group["momentum"]) for p in params]))
                for p, update in zip(params, updates, strict=True):
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                    p.add_(update, alpha=-group["lr"] * 0.2 * max(shape) ** 0.5)

    def _momentum(self, p: torch.Tensor, beta: float) -> torch.Tensor:
        state = self.state[p]
        if not state:
            state["buffer"] = torch.zeros_like(p)
        state["buffer"].lerp_(p.grad, 1 - beta)
        return p.grad.lerp(state["buffer"], beta)  # Nesterov


def orthogonalise(g: torch.Tensor, steps: int = 5) -> torch.Tensor:
    """Five Newton-Schulz steps on a stack (n, rows, columns): singular values go to about one."""
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = g.shape[-2] > g.shape[-1]
    x = g.mT if tall else g
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        y = x @ x.mT
        x = a * x + (b * y + c * y @ y) @ x
    return x.mT if tall else x


def optimisers(model: nn.Module, heads: nn.Module, matrix_lr: float, other_lr: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside the model; AdamW for embeddings, convolutions, vectors and the auxiliary heads."""
    tables = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    matrices = [p for p in model.parameters() if p.ndim == 2 and id(p) not in tables]
    others = [p for p in model.parameters() if p.ndim != 2 or id(p) in tables]
    return [
        Muon(matrices, lr=matrix_lr),
        torch.optim.AdamW([*others, *heads.parameters()], lr=other_lr, betas=(0.9, 0.95), weight_decay=0.0),
    ]
