"""Scorers of single answers, each by the rule of the published harness (lmms-eval), pure and without state.

Every scorer takes the answer's text as decoded. Where the published code has a fault that makes a score random or
dependent on earlier calls it is mended, and the docstring says so under "Mended". Where a rule is merely strict, it
stays, because the published numbers contain it; the docstring says so under "Kept".
"""

from collections.abc import Sequence

FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: 0x20}
RELATIVE_ERROR = 0.05  # ChartQA


def letter(answer: str, letters: Sequence[str]) -> str | None:
    """MMT-Bench: the option letter that an answer names, None where it names none.

    Tried in turn: `(A)`, ` A `, `A.`; the first form that any letter appears in decides, and of several letters the one
    that stands last.

    Mended: an answer that names no letter is None, so wrong; the published code draws a letter at random. Several
    letters are ordered by the form they were found in; the published code looks for ` A ` whatever the form was, so
    that it takes the first option of `(A) or (B)`.
    Kept: marks are stripped one kind after the other, so that "'B'!?" names nothing; "It is A cat" names A.
    """
    answer = answer.strip()
    for mark in ",.!?;:'":
        answer = answer.strip(mark)
    answer = f" {answer} "
    for form in ("({})", " {} ", "{}."):
        places = {name: answer.rfind(form.format(name)) for name in letters}
        last = max(places, key=places.get, default=None)
        if last is not None and places[last] >= 0:
            return last
    return None


def first_character(answer: str, gold: str) -> float:
    """SEED-Bench: 1.0 where the answer's first character is the letter, in either case.

    Kept: "The answer is B" answers T, "(B)" answers a bracket.
    """
    return float(answer.strip()[:1].upper() == gold.strip().upper())


def option_letter(answer: str, gold: str) -> float:
    """ScienceQA: 1.0 where the answer is the letter, in either case, or begins with it in upper case and a full stop.

    Kept: "B) mushroom", "(B)" and "b. mushroom" are wrong.
    """
    answer = answer.strip()
    return float(answer.upper() == gold.upper() or (gold.isupper() and answer[:2] == f"{gold}."))


def contains_any(answer: str, golds: Sequence[str], dataset: str) -> float:
    """OCRBench: 1.0 where any reference is part of the answer.

    Expressions of `HME100k` are compared without spaces and with their case; all other sets in lower case, with
    full-width ASCII folded. A benchmark's score is the mean over its rows.

    Mended: nothing is added up here; the published code adds to a table that outlives the call and divides by 1000
    whatever the number of rows.
    Kept: containment, so that "12" is found in "112".
    """
    spelled = _formula if dataset == "HME100k" else _line
    found = spelled(answer)
    return float(any(spelled(gold) in found for gold in golds))


def relaxed(answer: str, gold: str) -> float:
    """ChartQA: 1.0 within 5 % of a reference that is a number other than zero, else for the same text in either case.

    A trailing % divides by a hundred.

    Kept: nothing is stripped and no number is looked for inside a text, so "0.57.", "about 14" and "Yes " are wrong;
    "14%" is not 14; a reference of "0" needs "0".
    """
    found, expected = _number(answer), _number(gold)
    if found is not None and expected:
        return float(abs(found - expected) / abs(expected) <= RELATIVE_ERROR)
    return float(answer.lower() == gold.lower())


def _formula(text: str) -> str:
    return text.strip().replace("\n", " ").replace(" ", "")


def _line(text: str) -> str:
    return text.translate(FULL_WIDTH).lower().strip().replace("\n", " ")


def _number(text: str) -> float | None:
    try:
        return float(text.rstrip("%")) / 100 if text.endswith("%") else float(text)
    except ValueError:
        return None
