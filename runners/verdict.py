"""Is a method's output the plain decoder's, id for id?"""

from dataclasses import dataclass

import numpy as np

KINDS = ("equal", "tie", "stop_rule", "processor", "position_or_cache", "unknown")
ROUNDED = ("bfloat16", "float16")  # dtypes in which two sides may break a tie apart by rounding alone


@dataclass(frozen=True, slots=True)
class Verdict:
    """kind        'equal', or the cause of the first difference ('unknown' until it is diagnosed)
    at          index of the first differing token, -1 where equal
    expected    AR's id there, -1 past its end
    found       the method's id there, -1 past its end
    gap         distance of the two best logits there in plain decoding; None where equal or where one side has ended
    repeatable  whether both sides, run again, emitted what they had emitted; None where equal
    texts       the text of AR's token and of the method's
    """

    kind: str
    at: int = -1
    expected: int = -1
    found: int = -1
    gap: float | None = None
    repeatable: bool | None = None
    texts: tuple[str, str] = ("", "")

    def show(self) -> str:
        """One line."""
        if self.kind == "equal":
            return "equal"
        expected, found = (
            f"{token} {text!r}" if token >= 0 else "the end"
            for token, text in zip((self.expected, self.found), self.texts, strict=True)
        )
        gap = "" if self.gap is None else f"; gap {self.gap:.3g}"
        repeats = {None: "", True: "; repeats itself", False: "; does not repeat itself"}[self.repeatable]
        return f"token {self.at} is {found}, AR has {expected}{gap}; {self.kind}{repeats}"


def compare(expected: np.ndarray, found: np.ndarray) -> Verdict:
    """The verdict on two outputs. Where one is the other's beginning, only the rule to stop can have differed."""
    if np.array_equal(expected, found):
        return Verdict("equal")
    shared = min(len(expected), len(found))
    differing = np.flatnonzero(expected[:shared] != found[:shared])
    if not differing.size:
        return Verdict("stop_rule", shared, _at(expected, shared), _at(found, shared))
    at = int(differing[0])
    return Verdict("unknown", at, int(expected[at]), int(found[at]))


def sound(kinds: dict[str, int], dtype: str, allow_ties: bool) -> bool:
    """Whether a run with so many verdicts of each kind may be believed."""
    allowed = ("equal", "tie") if allow_ties or dtype in ROUNDED else ("equal",)
    return not any(count for kind, count in kinds.items() if kind not in allowed)


def _at(tokens: np.ndarray, at: int) -> int:
    return int(tokens[at]) if at < len(tokens) else -1
