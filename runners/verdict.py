"""Is a method's output the plain decoder's, id for id?"""

from dataclasses import dataclass

import numpy as np

KINDS = ("equal", "tie", "stop_rule", "processor", "position_or_cache", "unknown")


@dataclass(frozen=True, slots=True)
class Verdict:
    """kind      'equal', or the cause of the first difference ('unknown' until it is diagnosed)
    at        index of the first differing token, -1 where equal
    expected  AR's id there, -1 past its end
    found     the method's id there, -1 past its end
    """

    kind: str
    at: int = -1
    expected: int = -1
    found: int = -1

    def __str__(self) -> str:
        if self.kind == "equal":
            return "equal"
        return f"{self.kind}: token {self.at} is {self.found}, AR has {self.expected}"


def compare(expected: np.ndarray, found: np.ndarray) -> Verdict:
    """The verdict on two outputs."""
    if np.array_equal(expected, found):
        return Verdict("equal")
    shared = min(len(expected), len(found))
    differing = np.flatnonzero(expected[:shared] != found[:shared])
    at = int(differing[0]) if differing.size else shared
    return Verdict("unknown", at, _at(expected, at), _at(found, at))


def _at(tokens: np.ndarray, at: int) -> int:
    return int(tokens[at]) if at < len(tokens) else -1
