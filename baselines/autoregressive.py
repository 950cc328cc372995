"""Plain decoding: the empty draft, so every pass is a one-token step."""

from typing import Literal

import numpy as np

from recap.drafter import NOTHING, Drafter
from recap.options import check_options
from recap.types import EMPTY_DRAFT, Draft, Ints, Request


class Autoregressive(Drafter):
    """One argmax and one cached step a token, in the same loop as every method. It remembers nothing.

    logits  'last': only the prompt's last position goes through the output layer; 'full': all of them, as some
            published harnesses charge AR for
    """

    top_k = 1

    def __init__(self, logits: Literal["last", "full"] = "last") -> None:
        check_options(Autoregressive.__init__, locals())
        self._full = logits == "full"

    def wants(self, request: Request) -> Ints:
        return np.arange(len(request.prompt) - 1) if self._full else NOTHING

    def propose(self, room: int) -> Draft:
        return EMPTY_DRAFT
