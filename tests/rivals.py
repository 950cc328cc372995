"""The rival methods in their stated forms, by name."""

from functools import partial

from baselines.lookahead import Lookahead
from baselines.prompt_lookup import PromptLookup
from baselines.racer import Racer
from baselines.sam_decoding import SamDecoding
from baselines.suffix_decoding import SuffixDecoding

RIVALS = {
    "prompt_lookup": PromptLookup,
    "prompt_lookup_full": partial(PromptLookup, tail="full"),
    "sam_decoding": SamDecoding,
    "sam_only": partial(SamDecoding, fallback="none", alpha=4, climb=False),
    "suffix_decoding": SuffixDecoding,
    "suffix_decoding_tree": partial(SuffixDecoding, mode="tree"),
    "lookahead": Lookahead,
    "lookahead_all": partial(Lookahead, window=7, guesses=7, accept="all", pool_from_prompt=True),
    "racer": Racer,
    "racer_request": partial(Racer, trie="request", ngram=4, max_nodes=40),
}
