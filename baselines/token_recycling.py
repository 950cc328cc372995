"""Token Recycling (arXiv 2408.08696): a vocabulary x K matrix of latest rows, drafted through a static tree.

Facts of the published code and our choices where it is silent or undefined:
- the matrix starts empty, lives for the stream and is written from every evaluated node of every pass;
- published code fills it with zeros, so an unseen token proposes id 0 eight times; here an unseen row has no children
  and the draft shrinks;
- where one token stands at several nodes of a pass, published code leaves the winner undefined on a GPU; here the last
  in layer order wins (`duplicates='last'`);
- a row never lists or is keyed by a placeholder, and nothing is drafted below a stop id or deeper than the tokens that
  may still be emitted: neither changes what can be accepted.
"""

from typing import Literal, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from recap.drafter import NOTHING, Drafter
from recap.options import check_options
from recap.types import SOURCES, Draft, Ints, Limits, Request, Rows, Step

# Children of each node by rank path (template 2.2.2): 80 nodes, 8/21/25/15/8/3 by depth.
CHILDREN = """
    root:8
    0:8 1:4 2:3 3:2 4:1 5:1 6:1 7:1
    00:8 01:3 02:2 03:1 04:1 05:1 06:1 07:1 10:2 11:1 20:1 30:1 40:1 50:1
    000:5 001:2 002:1 003:1 004:1 010:1 020:1 100:1 200:1 300:1
    0000:3 0001:1 0002:1 0010:1 0100:1 1000:1
    00000:2 00010:1
"""


class Template(NamedTuple):
    """The static tree in packed (depth-first) order."""

    parent: NDArray[np.int32]
    rank: NDArray[np.int32]
    depth: NDArray[np.int32]


def template(budget: int = 80) -> Template:
    """The 80-node template, or the `budget` nodes of it with the best ranks: least sum, each rank counted from one."""
    paths = []
    for entry in CHILDREN.split():
        path, count = entry.split(":")
        stem = "" if path == "root" else path
        paths += [stem + str(rank) for rank in range(int(count))]
    paths.sort(key=lambda path: (sum(map(int, path)) + len(path), len(path), path))  # a parent before its children
    paths = sorted(paths[:budget])  # lexicographic is depth-first
    index = {path: i for i, path in enumerate(paths)}
    return Template(
        np.array([index.get(path[:-1], -1) for path in paths], np.int32),
        np.array([int(path[-1]) for path in paths], np.int32),
        np.array([len(path) for path in paths], np.int32),
    )


class Matrix:
    """Token -> ids of its latest row, placeholders dropped; room for a row of every id of the vocabulary."""

    def __init__(self, top_k: int) -> None:
        self.ids = np.zeros((0, top_k), np.int32)
        self.width = np.zeros(0, np.int32)  # ids listed for each token, 0 where unseen
        self.blocked = np.zeros(0, bool)

    def begin(self, request: Request, rows: Rows) -> None:
        """Serve this request, and write its prompt's rows at `last_positions` where there are any."""
        if len(self.ids) < request.vocab_size:
            self.ids = np.zeros((request.vocab_size, self.ids.shape[1]), np.int32)
            self.width = np.zeros(request.vocab_size, np.int32)
        self.blocked = np.zeros(request.vocab_size, bool)
        self.blocked[list(request.placeholders)] = True
        if len(rows) > 1:
            wanted = last_positions(request)
            self.write(request.prompt[wanted], np.arange(len(wanted)), rows)

    def write(self, tokens: Ints, order: Ints, rows: Rows) -> None:
        """Give tokens[r] row r, for r in order."""
        _write(self.ids, self.width, tokens, order, rows.ids, self.blocked)

    def clear(self) -> None:
        self.width[:] = 0

    def size(self) -> dict:
        return {"rows": {"matrix": int(np.count_nonzero(self.width))}, "bytes": self.ids.nbytes + self.width.nbytes}


def last_positions(request: Request) -> Ints:
    """The last position of every text token of the prompt, ascending."""
    masked = request.masked()[::-1]
    tokens, back = np.unique(masked, return_index=True)
    return np.sort(len(masked) - 1 - back[tokens >= 0])


class TokenRecycling(Drafter):
    """The published 80-node form. The matrix lives for the stream.

    prefill     'none' as published, or 'unigram': prompt rows seed the matrix too, the last occurrence of a token wins
    duplicates  which node's row a token gets that stands at several nodes of one pass, in layer order
    budget      nodes of the tree; fewer than the published 80 suit a machine on which rows are dear
    """

    top_k = 8

    def __init__(
        self,
        prefill: Literal["none", "unigram"] = "none",
        duplicates: Literal["last", "first"] = "last",
        budget: int = 80,
    ) -> None:
        check_options(TokenRecycling.__init__, locals())
        self.prefill = prefill
        self.duplicates = duplicates
        self._template = template(budget)
        self._matrix = Matrix(self.top_k)
        self._stops = np.zeros(0, bool)
        self._root = 0

    def wants(self, request: Request) -> Ints:
        return NOTHING if self.prefill == "none" else last_positions(request)

    def begin(self, request: Request, limits: Limits, rows: Rows) -> None:
        self._matrix.begin(request, rows)
        self._stops = np.zeros(request.vocab_size, bool)
        self._stops[list(limits.stop_ids)] = True
        self._root = int(rows.ids[-1, 0])

    def propose(self, room: int) -> Draft:
        tokens, parents = _fill(self._template, self._matrix.ids, self._matrix.width, self._stops, self._root, room)
        return Draft(tokens, parents, np.full(len(tokens), SOURCES["M1"], np.int8))

    def observe(self, rows: Rows, step: Step) -> None:
        tokens = np.concatenate(([self._root], step.draft.tokens))
        order = layers(step.draft.parents)
        if self.duplicates == "first":
            order = order[::-1]
        self._matrix.write(tokens, order, rows)
        self._root = int(step.committed[-1])

    def reset(self) -> None:
        self._matrix.clear()

    def memory(self) -> dict:
        return self._matrix.size()


@njit(cache=True)
def layers(parents):
    """Rows of a pass (0 = root) layer by layer; within a layer packed order, which is rank order."""
    depth = np.zeros(parents.size + 1, np.int64)
    for i in range(parents.size):
        depth[i + 1] = depth[parents[i] + 1] + 1
    return np.argsort(depth, kind="mergesort")  # stable


@njit(cache=True)
def _fill(template, matrix, width, stops, root, room):
    """The template's nodes that have a token: node at rank path p.r holds matrix[token(p)][r]."""
    n = template.parent.size
    place = np.full(n, -2, np.int32)  # packed index of a template node, -2 where it has none
    tokens = np.empty(n, np.int64)
    parents = np.empty(n, np.int32)
    size = 0
    for i in range(n):
        above = template.parent[i]
        at = -1 if above < 0 else place[above]
        if at == -2 or template.depth[i] >= room:
            continue
        token = root if at < 0 else tokens[at]
        if template.rank[i] >= width[token] or (at >= 0 and stops[token]):
            continue
        tokens[size] = matrix[token, template.rank[i]]
        parents[size] = at
        place[i] = size
        size += 1
    return tokens[:size].copy(), parents[:size].copy()


@njit(cache=True)
def _write(matrix, width, tokens, order, ids, blocked):
    """matrix[tokens[r]] = ids[r] for r in order; placeholders (or -1 for one) are neither keys nor listed."""
    for r in order:
        token = tokens[r]
        if token < 0 or blocked[token]:
            continue
        size = 0
        for k in range(ids.shape[1]):
            if not blocked[ids[r, k]]:
                matrix[token, size] = ids[r, k]
                size += 1
        width[token] = size
