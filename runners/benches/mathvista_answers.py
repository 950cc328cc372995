"""MathVista without a judge: a score for comparing two decoders, NOT the published number.

The published harness asks a language model (gpt-4o) to extract the answer from a response that is not already in form.
Here patterns stand in for it: the last option letter, the last number, the last bracketed list. What follows is the
published normalisation and comparison.
"""

import math
import re
from collections.abc import Sequence

QUOTED = re.compile(r'The answer is "(.*)"\.')
BRACKETED = re.compile(r"\(([a-zA-Z])\)")
ANNOUNCED = re.compile(r"(?i:\b(?:answer|option|choice)(?: is)?:?)[\s*]+([A-Z])(?!\w)")
STANDALONE = re.compile(r"(?<![\w'])(?![AI] [a-z])([A-Z])(?![\w'])")  # neither an article nor a pronoun
NUMBER = re.compile(r"(?:(?<![\w.])-)?(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|(?<!\d)\.\d+)")
LIST = re.compile(r"\[([^\[\]]*)\]")


def score(
    answer: str,
    gold: str,
    choices: Sequence[str] | None,
    question_type: str,
    answer_type: str,
    precision: float | None,
) -> float:
    """1.0 where the extracted and normalised answer is the reference's text. Not the published number: see above.

    choices    the options of a `multi_choice` question; `gold` is the right one's text
    precision  decimal places of a `float` answer

    Mended: an answer from which nothing can be extracted is wrong, an empty one included; the published code takes the
    option nearest to the empty text, the shortest.
    Kept: an option is otherwise the one nearest to the answer by edit distance, and a number's text is compared, so
    that 2.0 is not "2.00".
    """
    quoted = QUOTED.search(answer)
    answer = (quoted.group(1) if quoted else answer).strip()
    if not answer:
        return 0.0
    if question_type == "multi_choice":
        found = _option(answer, choices or ())
    elif answer_type in ("integer", "float"):
        found = _rounded(answer, answer_type, precision)
    elif answer_type == "list":
        found = _list(answer)
    else:
        found = answer
    return float(found is not None and found.strip() == gold.strip())


def _option(answer: str, choices: Sequence[str]) -> str:
    if not choices:
        raise ValueError("a multi_choice question needs choices")
    if answer in choices:
        return answer
    for form in (BRACKETED, ANNOUNCED, STANDALONE):
        named = [ord(letter.upper()) - ord("A") for letter in form.findall(answer)]
        if named := [place for place in named if place < len(choices)]:
            return choices[named[-1]]
    return min(choices, key=lambda choice: edit_distance(answer, choice))


def _rounded(answer: str, answer_type: str, precision: float | None) -> str | None:
    value = _number(answer)
    if value is None:
        return None
    return str(int(value)) if answer_type == "integer" else str(round(value, int(precision or 0)))


def _number(answer: str) -> float | None:
    """The answer if it is a number, else the last number in it."""
    try:
        value = float(answer)
    except ValueError:
        numbers = NUMBER.findall(answer)
        value = float(numbers[-1].replace(",", "")) if numbers else math.nan
    return value if math.isfinite(value) else None


def _list(answer: str) -> str:
    """The last bracketed list, spaced as Python prints it; without one the answer as it stands."""
    lists = LIST.findall(answer)
    return f"[{', '.join(part.strip() for part in lists[-1].split(','))}]" if lists else answer


def edit_distance(first: str, second: str) -> int:
    """Levenshtein distance."""
    row = list(range(len(second) + 1))
    for i, a in enumerate(first, start=1):
        diagonal, row[0] = row[0], i
        for j, b in enumerate(second, start=1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (a != b))
    return row[-1]
