"""Train a bundled model from scratch on generated pictures, evaluate it on held-out ones and write its card.

    python scripts/train_tiny.py qwen                # train, export to assets/tiny_qwen, evaluate, write the card
    python scripts/train_tiny.py qwen --evaluate     # only evaluate the exported model and rewrite the card

Killed and started again, training goes on from its last checkpoint under --scratch, with the data in the same order.
One thread is the default: runs on one machine then give the same result.
"""

import argparse
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tiny.models import NAMES  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=NAMES)
    parser.add_argument("--seed", type=int, default=0, help="of weights and data (default 0)")
    parser.add_argument("--steps", type=int, default=2200, help="optimiser steps (default 2200, an hour on one core)")
    parser.add_argument("--out", type=Path, help="folder of the model (default assets/tiny_MODEL)")
    parser.add_argument("--scratch", type=Path, default=ROOT / ".cache/train", help="folder of checkpoints")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (default 1)")
    parser.add_argument("--evaluate", action="store_true", help="do not train, evaluate what is in --out")
    parser.add_argument("--rows", type=int, default=200, help="held-out rows of the evaluation (default 200)")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    out = args.out or ROOT / f"assets/tiny_{args.model}"
    if not args.evaluate:
        from tiny.train import Trainer

        trainer = Trainer(args.model, args.seed, args.steps, args.scratch)
        trainer.train()
        trainer.export(out)
    from tiny.card import write_card
    from tiny.evaluate import evaluate

    write_card(out, args.model, evaluate(out, args.rows))


if __name__ == "__main__":
    main()
