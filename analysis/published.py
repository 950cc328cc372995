"""What others published, as constants, each with its place; nothing here was measured by this harness.

The paper is arXiv 2611.05894: greedy, batch 1, one A100-SXM4-80GB, at most 200 new tokens.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

PAPER = "arXiv 2611.05894"
DEVICE = "A100-SXM4-80GB"
SINGLE_TURN = ("chartqa", "mathvista", "mmt_bench", "ocrbench", "scienceqa", "seed_bench", "textvqa")
MMSPEC = "mmspec"
FOUR_SETS = ("chartqa", "mmt_bench", "ocrbench", "textvqa")
MAX_NEW_TOKENS = 200


@dataclass(frozen=True, slots=True)
class Model:
    """A checkpoint the paper measured; a model of fewer parameters is not it."""

    key: str
    name: str
    least_parameters: float = 6.5e9


@dataclass(frozen=True, slots=True)
class Scope:
    """The inputs of a number: benchmarks, inputs of each, MMSpec's inputs a topic where it is a subset.

    orders   shuffled orders of the stream that were averaged over; 0: the benchmark's own order
    """

    text: str
    benches: tuple[str, ...]
    inputs: int
    per_topic: int | None = None
    orders: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """A method's speedup over plain decoding (equation 9) and tau (equation 10, None where not given)."""

    model: str
    method: str
    scope: Scope
    speedup: float
    tau: float | None
    place: str


@dataclass(frozen=True, slots=True)
class Gain:
    """Paired throughput gain of a rung of the ablation ladder over its predecessor, in percent."""

    model: str
    rung: str
    predecessor: str
    scope: Scope
    percent: float
    place: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A number of the paper's diagnostics."""

    name: str
    value: float
    unit: str
    place: str


@dataclass(frozen=True, slots=True)
class TrainedDrafter:
    """A trained drafter's run on MMSpec that was recorded with the benchmark.

    reported_mat   tokens a verification round, as the recorder summarised it
    mat            the same, rounds counted in full
    equal_turns    turns, of 723, whose text equals the recorded plain decoding's
    """

    name: str
    speedup: float
    reported_mat: float
    mat: float
    equal_turns: int


QWEN = Model("qwen", "Qwen2.5-VL-7B-Instruct")
LLAVA = Model("llava", "LLaVA-1.6 Vicuna-7B")
MODELS = (QWEN, LLAVA)

# The forms of the methods that the paper measured.
PRESETS: dict[str, dict[str, Any]] = {
    "recap": {
        "_target_": "recap.Recap", "top_k": 8, "budget": 63, "depth": 10, "width": 8, "suffix": 4,
        "prefill": "unigram", "m1": "stream", "learn": "evaluated", "fusion": "mixture", "confidence": True,
        "priors": "specificity", "prior_index": "rank", "expansion": "best_first", "depth_factor": "authors",
        "edge_guard": True, "scores": "path", "explore": 0.0, "ngrams": "request",
    },
    "token_recycling": {
        "_target_": "baselines.token_recycling.TokenRecycling", "prefill": "none", "duplicates": "last",
        "budget": 80,
    },
}  # fmt: skip


def has_form(options: Mapping[str, Any], preset: Mapping[str, Any], switches: Collection[str] = ()) -> bool:
    """Whether options are those of a preset, some switches aside; one that the records are too old to know was so."""
    return all(options.get(key, value) == value for key, value in preset.items() if key not in switches)


SEVEN = Scope("mean of seven single-turn sets", SINGLE_TURN, 1000)
ALL_MMSPEC = Scope("MMSpec", (MMSPEC,), 600)
SUBSET = Scope("120 inputs of MMSpec", (MMSPEC,), 120, per_topic=20)
FIVE_RUNS = Scope("120 inputs of MMSpec, mean of five runs", (MMSPEC,), 120, per_topic=20, orders=5)
FOUR_BY_50 = Scope("four data sets, 200 inputs", FOUR_SETS, 50)
FOUR_BY_100 = Scope("four data sets, 400 inputs", FOUR_SETS, 100)

RESULTS = (
    Result("qwen", "recap", SEVEN, 1.66, 3.02, "main results, single-turn"),
    Result("qwen", "token_recycling", SEVEN, 1.51, 2.71, "main results, single-turn"),
    Result("llava", "recap", SEVEN, 1.56, 2.92, "main results, single-turn"),
    Result("llava", "token_recycling", SEVEN, 1.37, 2.55, "main results, single-turn"),
    Result("qwen", "recap", ALL_MMSPEC, 1.89, None, "main results, MMSpec"),
    Result("qwen", "token_recycling", ALL_MMSPEC, 1.56, None, "main results, MMSpec"),
    Result("llava", "recap", ALL_MMSPEC, 1.59, None, "main results, MMSpec"),
    Result("llava", "token_recycling", ALL_MMSPEC, 1.43, None, "main results, MMSpec"),
)

GAINS = (
    Gain("qwen", "best_first_unigram", "fixed_unigram", SUBSET, 4.90, "ablations"),
    Gain("qwen", "backoff", "best_first_unigram", SUBSET, 3.03, "ablations"),
    Gain("qwen", "uniform", "backoff", SUBSET, 0.75, "ablations"),
    Gain("qwen", "priors", "uniform", SUBSET, 2.80, "ablations"),
    Gain("qwen", "confidence", "priors", FOUR_BY_50, 0.73, "ablations"),
    Gain("llava", "confidence", "priors", FOUR_BY_50, 1.09, "ablations"),
    Gain("qwen", "persistent_m1", "confidence", FIVE_RUNS, 5.42, "ablations"),
    Gain("qwen", "suffix", "persistent_m1", FOUR_BY_100, 0.61, "ablations"),
)

FINDINGS = (
    Finding("states replayed", 23_811, "states", "replay"),
    Finding("inputs replayed", 400, "inputs", "replay"),
    Finding("OCRBench, one-token coverage", 54.9, "%", "replay"),
    Finding("OCRBench, three-token coverage", 18.6, "%", "replay"),
    Finding("OCRBench, one-token conditional Recall@8", 63.6, "%", "replay"),
    Finding("OCRBench, three-token conditional Recall@8", 90.6, "%", "replay"),
    Finding("matching over swapped image, fused Recall@8, least data set", 0.89, "points", "replay"),
    Finding("matching over swapped image, fused Recall@8, most data set", 6.35, "points", "replay"),
    Finding("images with a replaced image", 700, "images", "root sensitivity"),
    Finding("root changes, draft fully rejected", 34.9, "%", "root sensitivity"),
    Finding("root changes, five or more accepted", 12.4, "%", "root sensitivity"),
)

# Token Recycling on text: Vicuna-7B, A100 (its own paper).
TOKEN_RECYCLING_TEXT = Result("vicuna-7b", "token_recycling", Scope("text", (), 0), 2.22, 2.73, "Token Recycling paper")

# MMSpec repository, results/ (summary.csv): LLaVA-1.5-7B, greedy, at most 1,024 new tokens; the GPU is not named.
TRAINED_ON = "LLaVA-1.5-7B"
TRAINED_PLACE = "MMSpec repository, results/summary.csv"
TRAINED_TURNS = 723
TRAINED = (
    TrainedDrafter("EAGLE", 1.14, 1.85, 1.85, 642),
    TrainedDrafter("EAGLE-2", 1.25, 1.64, 1.64, 660),
    TrainedDrafter("EAGLE-3", 0.66, 1.04, 1.04, 668),
    TrainedDrafter("MSD", 2.11, 4.75, 4.54, 636),
    TrainedDrafter("ViSpec", 2.23, 3.98, 3.98, 427),
)
