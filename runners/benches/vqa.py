"""TextVQA: the VQA accuracy of an answer under the EvalAI text processing, pure and without state."""

import re
from collections.abc import Sequence

ENOUGH = 3  # annotators that must agree for a full score
NUMBERS = {word: str(n) for n, word in enumerate("zero one two three four five six seven eight nine ten".split())}
NUMBERS["none"] = "0"
ARTICLES = {"a", "an", "the"}
PUNCTUATION = ';/[]"{}()=+\\_-><@`!'  # commas and question marks are gone before it is looked for
PERIOD = re.compile(r"\.(?!\d)")
CONTRACTIONS = """
ain't aren't can't could've couldn't couldn't've didn't doesn't don't hadn't hadn't've hasn't haven't he'd he'd've
he's how'd how'll how's isn't it'd it'd've it'll ma'am might've mightn't mightn't've must've mustn't needn't not've
o'clock oughtn't 'ow's'at shan't she'd've should've shouldn't shouldn't've somebody'd've somebody'll somebody's
someone'd someone'd've someone'll someone's something'd something'd've something'll that's there'd there'd've there're
there's they'd they'd've they'll they're they've 'twas wasn't we'd've we've weren't what'll what're what's what've
when's where'd where's where've who'd who'd've who'll who's who've why'll why're why's won't would've wouldn't
wouldn't've y'all y'all'd've y'all'll you'd you'd've you'll you're you've
""".split()
SPELLED = {word[:k] + word[k + 1 :]: word for word in CONTRACTIONS for k, mark in enumerate(word) if mark == "'"}
SPELLED["somebody'd"] = "somebodyd"  # as the published table has it


def vqa_accuracy(answer: str, golds: Sequence[str]) -> float:
    """The mean, over the references left out one at a time, of min(1, matching others / 3). Both are processed first.

    Raises ValueError where there are no references.

    Mended: the references are not overwritten; all full stops go, where the published code removes 32 of them; the
    number words are not added to.
    Kept: three of ten matches score 0.9, since each of the three is once left out; a reference alone scores 0.
    """
    if not golds:
        raise ValueError("VQA accuracy needs reference answers")
    found = processed(answer)
    matching = sum(processed(gold) == found for gold in golds)
    others = len(golds) - matching
    thirds = matching * min(ENOUGH, matching - 1) + others * min(ENOUGH, matching)
    return thirds / (ENOUGH * len(golds))


def processed(text: str) -> str:
    """Lower case without punctuation and articles, number words as digits, contractions with their apostrophe.

    A mark beside a space anywhere in the text is dropped, any other becomes a space.
    """
    text = text.lower().replace(",", "").replace("?", "").replace("'s", " 's").strip()
    text = text.replace("\n", " ").replace("\t", " ").strip()
    plain = text
    for mark in PUNCTUATION:
        plain = plain.replace(mark, "" if f"{mark} " in text or f" {mark}" in text else " ")
    words = [NUMBERS.get(word, word) for word in PERIOD.sub("", plain).split()]
    return " ".join(SPELLED.get(word, word) for word in words if word not in ARTICLES)
