"""Decoding from end to end, as ratios in one run: our AR and methods beside transformers' own, on each small model.

    make bench

For every model and engine one run of run.py decodes the same inputs with AR and with each method, back to back; so do
transformers' `generate` and its prompt lookup, which know one engine. Times are per token after the first. SmolLM is
left out where it was not downloaded (scripts/get_smollm.py). Adds the table to results/bench.json.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from runners.cell import ENGINES  # noqa: E402

CASES = {  # bench, inputs, tokens
    "tiny_qwen": ("synthetic", 32, 200),
    "tiny_llava": ("synthetic", 32, 200),
    "smollm": ("text", 8, 64),
}
OURS = ("recap_fast", "recap", "token_recycling", "prompt_lookup")
THEIRS = ("hf_generate", "hf_prompt_lookup")
SMOLLM = ROOT / ".cache/smollm"
COLUMNS = ("model", "engine", "method", "tau", "ms/token", "over AR, decode-only", "over generate")


def run(model: str, engine: str, out: Path) -> list[dict]:
    """One run; its lines of the table, AR first."""
    bench, inputs, tokens = CASES[model]
    first, *versus = OURS + THEIRS
    command = [
        sys.executable, "run.py", f"model={model}", f"bench={bench}", f"engine={engine}", f"method={first}",
        f"versus=[{','.join(versus)}]", f"limit={inputs}", f"max_new_tokens={tokens}", "generate_check=0",
        f"out={out / engine}",
    ]  # fmt: skip
    subprocess.run(command, cwd=ROOT, check=True)
    found = (json.loads(path.read_text()) for path in (out / engine / model).rglob("summary.json"))
    summaries = {summary["method"]: summary for summary in found}
    generate = summaries["hf_generate"]["ms_per_token"]["method"]
    plain = summaries[first]["ms_per_token"]["ar"]
    lines = [
        {"method": "ar", "tau": 1.0, "ms_per_token": plain, "over_ar": None, "requests": summaries[first]["turns"]}
    ]
    for name in OURS + THEIRS:
        summary = summaries[name]
        speedup = {key: summary["speedup"]["decode_only"][key] for key in ("mean", "ci_low", "ci_high")}
        lines.append(
            {"method": name, "tau": summary["tau"], "ms_per_token": summary["ms_per_token"]["method"],
             "over_ar": speedup, "requests": summary["turns"]}
        )  # fmt: skip
    for line in lines:
        line |= {"model": model, "engine": engine, "over_generate": generate / line["ms_per_token"]}
    return lines


def shown(line: dict) -> tuple[str, ...]:
    """A line of the table; where transformers refused inputs, its times are of the others."""
    over = line["over_ar"]
    interval = "" if over is None else f"{over['mean']:.2f} [{over['ci_low']:.2f}, {over['ci_high']:.2f}]"
    return (
        line["model"], line["engine"], line["method"], f"{line['tau']:.2f}", f"{line['ms_per_token']:.2f}", interval,
        f"{line['over_generate']:.2f}",
    )  # fmt: skip


def markdown(lines: list[dict]) -> str:
    """The table as the README shows it."""
    rows = [COLUMNS, ("---",) * len(COLUMNS), *map(shown, lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    models = [model for model in CASES if model != "smollm" or SMOLLM.is_dir()]
    with tempfile.TemporaryDirectory() as out:
        lines = [line for model in models for engine in ENGINES for line in run(model, engine, Path(out))]
    print(markdown(lines))
    path = ROOT / "results/bench.json"
    report = json.loads(path.read_text()) | {"decoding": lines}
    path.write_text(json.dumps(report, indent=2) + "\n")
    print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
