"""Every benchmark's prompts on the generated rows, as text: python -m tests.golden > tests/golden_prompts.json"""

import json
import sys
import tempfile
from pathlib import Path

from omegaconf import OmegaConf

from runners.benches.base import Bench, Row
from runners.config import build
from scripts.make_fixtures import WRITERS, make

CONF = Path(__file__).parent.parent / "conf/bench"
FILE = Path(__file__).with_name("golden_prompts.json")
ROWS = 6


def bench_at(name: str, path: Path, **options) -> Bench:
    """The benchmark of conf/bench, reading a local copy."""
    section = OmegaConf.to_container(OmegaConf.load(CONF / f"{name}.yaml"))
    return build(section | {"path": str(path)} | options, "bench")


def prompts(folder: Path) -> dict[str, dict[str, str]]:
    """Chats by benchmark and prompt, then by row and turn; earlier answers read 'ANSWER 1', 'ANSWER 2'."""
    found = {}
    for name in WRITERS:
        kinds = ("only",) if name == "mmspec" else ("speed", "accuracy")
        for kind in kinds:
            bench = bench_at(name, folder / name, **({} if kind == "only" else {"prompt": kind}))
            limit = None if name == "mmspec" else ROWS
            chats = [(row, len(row.turns) - 1) for row in bench.rows(limit)]
            if name == "mmspec":
                chats = chats[0:1] + chats[16:17] + chats[-4:]
            found[f"{name} {kind}"] = {row.id: chat(bench, row, turn) for row, turn in chats}
    return found


def chat(bench: Bench, row: Row, turn: int) -> str:
    """A chat as text, images as [image]."""
    answers = [f"ANSWER {k + 1}" for k in range(turn)]
    messages = bench.messages(row, turn, answers, images=len(row.open_images()))
    part = lambda p: "[image]" if p["type"] == "image" else p["text"]  # noqa: E731
    return "\n".join(f"{m['role']}: {''.join(map(part, m['content']))}" for m in messages)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        sys.stdout, out = sys.stderr, sys.stdout
        make(Path(place))
        print(json.dumps(prompts(Path(place)), indent=1), file=out)
