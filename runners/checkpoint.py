"""Where a checkpoint's files are and whether they are whole, found out before any weight is read."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import transformers
from huggingface_hub import HfApi, snapshot_download
from safetensors import SafetensorError, safe_open
from transformers import AutoConfig, PreTrainedConfig

from recap.targets import supported

ROOT = Path(__file__).parent.parent
SETTINGS = ("*.json", "*.jinja", "*.txt", "*.model")  # configs, templates, tokenizers
WEIGHTS = ("model*.safetensors",)
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")  # one of them holds the vocabulary
PATIENCE = 10  # seconds that the hub has for its first answer


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The files of a model.

    path    as asked for: a folder or a hub id
    folder  where the files are
    commit  of a hub id, the one that was resolved; empty for a folder
    """

    path: str
    folder: Path
    commit: str = ""

    def config(self) -> PreTrainedConfig:
        """The model's config. Raises ValueError."""
        try:
            return AutoConfig.from_pretrained(self.folder, local_files_only=True)
        except (OSError, ValueError, KeyError) as error:
            raise self.fault(f"no model config could be read: {first_line(error)}") from None

    def model_class(self) -> type:
        """The transformers class, refused where no family serves it. Raises ValueError."""
        config = self.config()
        name = (config.architectures or ["none"])[0]
        known = sorted(supported())
        if name not in known:
            raise self.fault(f"model class {name} is not supported; supported: {', '.join(known)}")
        return getattr(transformers, name)

    def complete(self) -> None:
        """Fetch a hub id's weights, then see that every file is there and whole. Raises ValueError naming the file."""
        if self.commit:
            _snapshot(self.path, self.commit, SETTINGS + WEIGHTS)
        for file in sorted(self.folder.glob("*.json")):
            self._read(file)
        if not any((self.folder / name).is_file() for name in TOKENIZERS):
            raise self.fault(f"it has no tokenizer ({' or '.join(TOKENIZERS)})")
        for name in self._weight_files():
            file = self.folder / name
            if not file.is_file():
                raise self.fault(f"{name} is missing; copy or download the whole checkpoint")
            try:
                with safe_open(file, "pt"):
                    pass
            except (SafetensorError, OSError) as error:
                raise self.fault(f"{name} is damaged ({first_line(error)}); copy or download it again") from None

    def fault(self, what: str) -> ValueError:
        """An error that names the checkpoint."""
        return ValueError(f"model.path={self.path}: {what}")

    def _weight_files(self) -> list[str]:
        index = self.folder / "model.safetensors.index.json"
        return sorted(set(self._read(index)["weight_map"].values())) if index.is_file() else ["model.safetensors"]

    def _read(self, file: Path) -> dict:
        try:
            return json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise self.fault(f"{file.name} is damaged ({error}); copy or download it again") from None


def locate(path: str, revision: str | None, made_by: str | None) -> Checkpoint:
    """A folder, relative to here or to the project, where there is one; else a hub id, whose settings are fetched.

    Raises ValueError with the way out.
    """
    for folder in (Path(path), ROOT / path):
        if folder.is_dir():
            return Checkpoint(path, folder)
    if path.startswith((".", "/", "assets/")) or path.count("/") != 1:
        way_out = f"run `{made_by}`" if made_by else "give a checkpoint's folder or a hub id (owner/name)"
        raise ValueError(f"model.path={path}: no such folder; {way_out}")
    folder = _snapshot(path, revision, SETTINGS)
    return Checkpoint(path, folder, folder.name)


def first_line(error: Exception) -> str:
    """What an error says, in one line."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _snapshot(path: str, revision: str | None, files: Sequence[str]) -> Path:
    """The folder of a hub id's files, from the hub or, where that gives no answer, from what was fetched before.

    The hub is asked once first: without network a download would retry for half a minute.
    """
    reason = ""
    try:
        revision = HfApi().model_info(path, revision=revision, timeout=PATIENCE).sha
    except Exception as error:  # the HTTP client's errors have no base in common with the hub's, whichever client it is
        reason = first_line(error)
    try:
        return Path(snapshot_download(path, revision=revision, allow_patterns=files, local_files_only=bool(reason)))
    except Exception as error:
        pinned = f" at revision {revision}" if revision else ""
        raise ValueError(
            f"model.path={path}: no such folder, and not to be had from the Hugging Face hub{pinned} "
            f"({reason or first_line(error)}); without network, point model.path at a local copy"
        ) from None
