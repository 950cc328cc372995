"""Words and small helpers that all question writers share."""

from collections.abc import Sequence

import numpy as np

NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")
PEOPLE = "Ann Bob Cleo Dan Eva Finn Gina Hugo Iris Jack Kim Leo Mia Noah Olga Paul Rosa Sam Tina Uma Vera Zoe".split()
GOODS = "apples pears plums grapes lemons melons tea coffee milk bread rice salt sugar honey soap paper".split()
PLACES = "Ashford Bexley Corby Dover Exeter Fulham Grantham Harlow Kendal Luton Malvern Oxford Ripon Selby".split()
OPENERS = (
    "amber river stone silver maple meadow winter summer velvet candle lantern ocean island pepper copper feather "
    "marble willow thunder garden window mirror planet rocket button saddle walnut harbor canyon ribbon"
).split()
# the words that state something about a picture; capitals, labels and digits count as facts as well
FACT_WORDS = (
    *("red", "orange", "yellow", "green", "blue", "purple", "pink", "circle", "square", "triangle", "cross"),
    *("empty", "left", "right", "up", "down", "upper", "lower", "more", "less", "grow", "shrink", "agree", "differ"),
    *NUMBERS,
)


def a(phrase: str) -> str:
    """`phrase` behind its indefinite article."""
    return ("an " if phrase[0] in "aeiou" else "a ") + phrase


def capital(text: str) -> str:
    return text[0].upper() + text[1:]


def listed(items: Sequence[str], last: str = " and ") -> str:
    """The items with commas between, and `last` before the last one."""
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + last + items[-1]


def pick(rng: np.random.Generator, options: Sequence[str], n: int | None = None):
    """One option, or a list of `n` different ones."""
    if n is None:
        return options[rng.integers(len(options))]
    return [options[i] for i in rng.permutation(len(options))[:n]]
