"""Acceptance: the longest agreed path, the target's own next token, the cut (method: verification and commitment)."""

import numpy as np
from numba import njit

from recap.types import Draft, Ints, Rows, Step

NO_PATH = np.empty(0, np.int32)


def accept(draft: Draft, rows: Rows, stop_ids: Ints, room: int) -> Step:
    """Settle one pass. rows [n + 1]: the root's and the nodes' predictions; room: tokens that may still be emitted.

    A node agrees when its parent agrees and it holds its parent's greedy token. All nodes are searched, since a draft
    may hold equal siblings: the deepest agreeing node wins, then the first in packed order. The committed tokens are
    the path and the target's choice after it, cut at the first stop id (kept) and at `room`. Nodes that are not
    acceptable are passed over.
    """
    if len(draft) == 0:  # a plain step settles itself
        return Step(draft, NO_PATH, rows.ids[0, :1].astype(np.int64), 0)
    path, committed, agreed = _accept(draft.tokens[: draft.acceptable], draft.parents, rows.ids, stop_ids, room)
    return Step(draft, path, committed, agreed)


@njit(cache=True)
def _accept(tokens, parents, ids, stop_ids, room):
    n = tokens.size
    depth = np.zeros(n, np.int32)  # 0 where the node does not agree
    best, agreed = -1, 0
    for i in range(n):
        parent = parents[i]
        if (parent < 0 or depth[parent] > 0) and ids[parent + 1, 0] == tokens[i]:
            depth[i] = 1 if parent < 0 else depth[parent] + 1
            if depth[i] > agreed:
                best, agreed = i, depth[i]
    path = np.empty(agreed, np.int32)
    node = best
    for k in range(agreed - 1, -1, -1):
        path[k] = node
        node = parents[node]
    committed = np.empty(agreed + 1, np.int64)
    for k in range(agreed):
        committed[k] = tokens[path[k]]
    committed[agreed] = ids[best + 1, 0]
    cut = min(agreed + 1, room)
    for k in range(cut):
        for stop in stop_ids:
            if committed[k] == stop:
                return path[: min(agreed, k + 1)].copy(), committed[: k + 1].copy(), agreed
    return path[: min(agreed, cut)].copy(), committed[:cut].copy(), agreed


@njit(cache=True)
def pack(root, tokens, parents):
    """What a pass over [root, nodes...] needs: [n + 1, n + 3] int32 with each row's token, depth and ancestor mask.

    Columns 2.. are 1 where the row sees the row of that index: its ancestors, the root and itself.
    """
    n = tokens.size
    plan = np.zeros((n + 1, n + 3), np.int32)
    plan[0, 0] = root
    plan[0, 2] = 1
    for i in range(n):
        above = parents[i] + 1
        plan[i + 1, 0] = tokens[i]
        plan[i + 1, 1] = plan[above, 1] + 1
        plan[i + 1, 2 : i + 3] = plan[above, 2 : i + 3]
        plan[i + 1, i + 3] = 1
    return plan


@njit(cache=True)
def reach(plan, rows):
    """Which rows of a packed pass each of its rows sees: paths [rows, n], root first, and the last place in each.

    Padding rows see themselves alone.
    """
    n = len(plan)
    depth = np.zeros(rows, np.int32)
    path = np.zeros((rows, n), np.int32)
    for r in range(n):
        seen = 0
        for above in range(r + 1):
            if plan[r, 2 + above]:
                path[r, seen] = above
                seen += 1
        depth[r] = seen - 1
    for r in range(n, rows):
        path[r, 0] = r
    return path, depth
