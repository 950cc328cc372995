"""Cells on a scripted target: they run in milliseconds, so that hundreds can be killed."""

import os
import signal
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from omegaconf import OmegaConf

from analysis.lines import read
from recap.types import Limits
from runners.cell import Cell, run
from runners.contract import Contract
from tests.scripted import VOCAB, ScriptedTarget, hashed, request_of
from tests.test_config import compose

ROWS = 6


class Forgiving(ScriptedTarget):
    """Can be reset at any time, and be timed with a request of no input's, as real targets can."""

    text = SimpleNamespace(max_position_embeddings=4096)
    vocab_size, placeholders = VOCAB, ()

    def prefill(self, request, positions, top_k, clock):
        return super().prefill(replace(request, inputs={"image": 0} | request.inputs), positions, top_k, clock)

    def reset(self) -> None:
        self.request, self.cache, self._next, self._pending = None, [], None, None


class ScriptedModel:
    """A `runners.models.Model` whose words are ids; `tensor_parallel` ranks each hold all of it."""

    stop_ids = (0,)
    reads_images = False
    parameters = 0
    compile_seconds = 0.0

    def __init__(
        self, dtype: str = "float32", device: str = "cpu", engine: str = "eager", tensor_parallel: int | None = None
    ) -> None:
        self.engine = engine
        self.target = Forgiving(hashed(VOCAB, drift=40))
        self.model = SimpleNamespace(device=torch.device("cpu"))

    def inputs(self, messages, images) -> dict:
        text = " ".join(part["text"] for message in messages for part in message["content"] if "text" in part)
        return {"ids": [1 + zlib.crc32(word.encode()) % (VOCAB - 1) for word in text.split()]}

    def check(self, limits: Limits) -> None:
        """Any cap will do."""

    def request(self, inputs: dict, limits: Limits):
        return request_of(inputs["ids"])

    def text(self, tokens: np.ndarray, skip_special_tokens: bool = True) -> str:
        return " ".join(f"w{token}" for token in tokens)

    def token(self, token: int) -> str:
        return f" w{token}"

    def contract(self, limits: Limits, ar_logits: str) -> Contract:
        return Contract(
            "scripted", "", "float32", "cpu", "none", "list", self.engine, ar_logits, "none", limits.stop_ids,
            limits.max_new_tokens,
        )  # fmt: skip

    def ignored_processors(self) -> dict:
        return {}


def scripted(out: Path, *overrides: str, methods: tuple[str, ...] = ("recap",), command: str = "") -> Cell:
    """A cell of the synthetic questions on the scripted model; the first method takes the `method.` overrides."""
    settings = (f"limit={ROWS}", "max_new_tokens=24", "generate_check=0", f"out={out}", f"method={methods[0]}")
    config = OmegaConf.to_container(compose(*settings, *overrides))
    config["model"] = {"_target_": "tests.scripted_cell.ScriptedModel"}
    sections = {methods[0]: config["method"]}
    sections |= {name: OmegaConf.to_container(compose(f"method={name}").method) for name in methods[1:]}
    return Cell(config, {"model": "scripted", "bench": "synthetic"}, sections, command)


def forked(work: Callable[[], object]) -> int:
    """Run `work` in a forked process whose output is dropped; returns its pid."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        code = work() or 0
    finally:
        os._exit(code)


def ended(pid: int, within: float = 60.0) -> int:
    """Exit code of a forked process, negative for a signal; it is killed when it takes too long."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        done, state = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(state)
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError(f"not ended within {within} s")


def in_fork(cell: Cell) -> int:
    """Exit code of the cell, run in a process of its own."""
    return ended(forked(lambda: run(cell)))


def timeless(value):
    """A record without its times and its place in the rotation."""
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if not k.endswith("_ns") and k != "place"}
    return [timeless(item) for item in value] if isinstance(value, list) else value


def stored(cell: Cell, method: str | None = None) -> list[dict]:
    """The records of a method's folder, times aside."""
    return [timeless(r) for r in read(cell.folder(method or next(iter(cell.methods))) / "records.jsonl")]
