"""When a cell may stand beside a published number, and what then counts as reproduced."""

from collections.abc import Collection, Sequence

from analysis.bootstrap import Effect
from analysis.cells import Cell
from analysis.published import MAX_NEW_TOKENS, MODELS, PRESETS, Scope, has_form

TOLERANCE = 0.05
REPRODUCED, DIFFERS, NOT_RUN = "reproduced", "differs", "not run"
RULE = (
    "Reproduced: the published value lies within our 95 % interval, or ours within 5 % of it; a gain: within the "
    "interval. Not run: no complete cell of the paper's model, data, options and inputs; for speeds, on a CUDA device."
)


def verdict(ours: Effect | None, published: float | None, tolerance: float = TOLERANCE) -> str:
    """REPRODUCED, DIFFERS or NOT_RUN; empty where nothing was published."""
    if published is None:
        return ""
    if ours is None:
        return NOT_RUN
    near = abs(ours.mean - published) <= tolerance * abs(published)
    return REPRODUCED if near or ours.holds(published) else DIFFERS


def complete(cells: Sequence[Cell], scope: Scope, switches: Collection[str] = ()) -> bool:
    """Whether the cells are what a published number was measured on: every benchmark, order and input of its scope.

    switches   options that may differ from the paper's form of the method, as they do on the ablation ladder
    """
    orders = {cell.bench_options.get("order") for cell in cells}
    wanted = len(orders - {None}) == scope.orders if scope.orders else orders == {None}
    benches = sorted(cell.bench for cell in cells)
    return (
        wanted
        and benches == sorted(scope.benches * (scope.orders or 1))
        and all(_as_published(cell, scope, switches) for cell in cells)
    )


def on_cuda(cells: Sequence[Cell]) -> bool:
    """Whether speeds were measured on the published kind of device."""
    return all(str(cell.setting["device"]).startswith("cuda") for cell in cells)


def shuffled(cell: Cell) -> bool:
    """Whether a cell streamed its benchmark in another order than the benchmark's own."""
    return cell.bench_options.get("order") is not None


def _as_published(cell: Cell, scope: Scope, switches: Collection[str]) -> bool:
    model = next((m for m in MODELS if m.key == cell.model), None)
    preset = PRESETS.get(cell.method)
    return (
        model is not None
        and preset is not None
        and not cell.generated
        and cell.summary["parameters"] >= model.least_parameters
        and cell.setting["max_new_tokens"] == MAX_NEW_TOKENS
        and has_form(cell.options, preset, switches)
        and cell.bench_options.get("per_topic") == scope.per_topic
        and cell.frame.row.nunique() + len(cell.summary["excluded"]) >= scope.inputs
    )
