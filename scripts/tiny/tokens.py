"""A byte-level BPE tokeniser for the generated talk: every word one token, every digit and capital letter its own."""

import string

import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from runners.benches.generated import phrases
from runners.benches.generated.pictures import KINDS, draw_picture
from runners.benches.generated.talk import draw_dialog

START, END, PAD = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
SPECIAL = {
    "qwen": [PAD, START, END, "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"],
    "llava": [PAD, START, END, "<image>"],
}
IMAGE = {"qwen": "<|vision_start|><|image_pad|><|vision_end|>", "llava": "<image>\n"}  # an image in a chat
# words, single capitals, single digits, punctuation and single blanks are never merged with one another
_WORDS = Regex(r" ?[A-Z]?[a-z]+| ?[A-Z]|[0-9]| ?[^\sA-Za-z0-9]+|\s")
_CHAT = """\
{%- for message in messages -%}
<|im_start|>{{ message['role'] }}
{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] -%}
{%- if part['type'] == 'image' %}IMAGE{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif -%}
{%- endfor %}{% endif %}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif -%}"""


def chat_template(model: str) -> str:
    return _CHAT.replace("IMAGE", IMAGE[model].replace("\n", "{{ '\\n' }}"))


def dense_turn(picture) -> tuple[str, str]:
    """The shortest question and answer with all facts of a picture; used in training only, to learn to read fast."""
    return "List all.", picture.facts().split(" ", 1)[1] + "."


def corpus(dialogs: int = 4000) -> list[str]:
    """Questions and answers about train pictures, and every word that a question may bring, a few times each."""
    rng = np.random.default_rng(0)
    words = [*phrases.PEOPLE, *phrases.GOODS, *phrases.PLACES, *phrases.OPENERS, *phrases.FACT_WORDS, *phrases.ORDINALS]
    lines = ["system user assistant"] + [f"{w} {w}\n{w}: {w}" for w in words] * 3
    for i in range(dialogs):
        for turn in draw_dialog(draw_picture(rng, "train", KINDS[i % 3]), rng):
            lines += [turn.question, turn.answer]
    return lines + [dense_turn(draw_picture(rng, "train"))[0]] * 3


def train_tokenizer(model: str) -> PreTrainedTokenizerFast:
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(_WORDS, "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    bpe.decoder = decoders.ByteLevel()
    special = [AddedToken(token, special=True, normalized=False) for token in SPECIAL[model]]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1200, min_frequency=1, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    bpe.train_from_iterator(corpus(), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token=END, pad_token=PAD, additional_special_tokens=SPECIAL[model],
        padding_side="left", model_max_length=2048, clean_up_tokenization_spaces=False,
    )  # fmt: skip


def fact_ids(tokenizer) -> list[int]:
    """Ids of the tokens that state facts, with and without a leading blank."""
    words = [*phrases.FACT_WORDS, *string.digits, *string.ascii_uppercase]
    ids = [tokenizer.encode(text, add_special_tokens=False) for word in words for text in (word, " " + word)]
    return sorted({i[0] for i in ids if len(i) == 1})
