"""The inner loops of the neighbour sampler, compiled by numba when they are first called.

They take arrays of numpy, hold no lock and know no torch; numba infers their types.  An edge
survives by :func:`tuneup.graph.hashing.hash_pairs`, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

from .hashing import FIRST, GOLDEN, HASH_BITS, SECOND

F = TypeVar("F", bound=Callable[..., Any])

KEEP_ALL, KEEP_DIRECTED, KEEP_PAIRED, KEEP_GRADED = range(4)

_GOLDEN, _FIRST, _SECOND = np.uint64(GOLDEN), np.uint64(FIRST), np.uint64(SECOND)
_11, _29, _32 = np.uint64(11), np.uint64(29), np.uint64(32)
_ONE = 1 << HASH_BITS
LOW = np.int64(0x7FFFFFFF)
"""The bits of an id that a hash table holds."""
_SHORT = 1 << 12
_FEW = 64
"""Edges of a node up to which all are drawn at once: that is faster than to try them in turn."""
_SIX, _WORD = np.int64(6), np.int64(63)
_BIT = np.uint64(1)
_HALF, _NUMBER = np.int64(32), np.int64(0xFFFFFFFF)
_AHEAD = 64


def compiled(function: F) -> F:
    """Machine code that holds no lock, stored on disk where a folder can be written."""
    try:
        return cast(F, numba.njit(nogil=True, error_model="numpy", cache=True)(function))
    except RuntimeError:  # no such folder
        return cast(F, numba.njit(nogil=True, error_model="numpy")(function))


@compiled
def _mix(z):
    z = (z ^ (z >> _32)) * _FIRST
    z = (z ^ (z >> _29)) * _SECOND
    return z ^ (z >> _32)


@compiled
def _draw(first, second, key):
    """:func:`tuneup.graph.hashing.hash_pairs` of one pair."""
    z = _mix(first + key)
    z = _mix(z + second + (_GOLDEN ^ key))
    z = _mix(z ^ _mix(second * _GOLDEN))
    return np.int64(z >> _11)


@compiled
def _below(state, bound):
    """A uniform number below ``bound``, from a state that the caller moves on."""
    return np.int64(np.float64(_mix(state) >> _11) * (1.0 / _ONE) * bound)


@compiled
def _survives(receiver, sender, mode, key, cut):
    """Whether the edge between two global ids survives: a self-loop always does."""
    first, second = receiver, sender
    if mode == KEEP_PAIRED:
        first, second = min(receiver, sender), max(receiver, sender)
    return first == second or _draw(np.uint64(first), np.uint64(second), key) >= cut


@compiled
def _draw_row(receiver, senders, count, key, paired):
    """Replace the senders of a receiver's edges with the edges' draws.

    Two of the three mixes of a pair are of one of its ends alone: the receiver's are made once.
    """
    own = np.uint64(receiver)
    first, last = _mix(own + key), _mix(own * _GOLDEN)
    shift = _GOLDEN ^ key
    for k in range(count):
        other = np.uint64(senders[k])
        below = paired and other < own
        mixed = _mix(other + key if below else other * _GOLDEN)
        z = _mix((mixed if below else first) + (own if below else other) + shift)
        draw = np.int64(_mix(z ^ (last if below else mixed)) >> _11)
        senders[k] = _ONE if other == own else draw


@compiled
def _is_marked(marks, place):
    """Whether a place is marked in a set of bits, which it is from now on."""
    place &= (marks.size << _SIX) - 1
    word, bit = place >> _SIX, _BIT << np.uint64(place & _WORD)
    if marks[word] & bit:
        return True
    marks[word] |= bit
    return False


@compiled
def _choose(out, at, count, size, state, marks):
    """Write ``count`` distinct places below ``size``: Floyd's algorithm."""
    marks[:] = 0
    exact = size <= marks.size << _SIX
    for k in range(count):
        state += _GOLDEN
        last = size - count + k
        place = _below(state, last + 1)
        if _is_marked(marks, place):  # by it, or by another place of the same bit
            twice = exact
            for other in range(k if not exact else 0):
                twice |= out[at + other] == place
            if twice:
                place = last
                _is_marked(marks, place)
        out[at + k] = place
    return state


@compiled
def _is_banned(sender, banned, low, high):
    found = False
    for k in range(low, high):
        found |= banned[k] == sender
    return found


@compiled
def _choose_survivors(
    out, at, fanout, begin, size, col, receiver, state, mode, key, cut, ids, banned, low, high, work
):
    """Write up to ``fanout`` places of edges that survive; how many, and whether that is all."""
    marks, tried, draws, chosen = work
    share = 1.0 - cut / _ONE if mode != KEEP_ALL else 1.0
    wanted = fanout if fanout >= 0 else size
    most = np.int64(min(tried.size, 4.0 * wanted / max(share, 1e-9) + 32))
    if size > _FEW and 1.5 * wanted < size * share and most < size:
        marks[:] = 0
        found = seen = np.int64(0)
        while found < wanted and seen < most:
            state += _GOLDEN
            place = _below(state, size)
            if _is_marked(marks, place):
                twice = False
                for k in range(seen):
                    if tried[k] == place:
                        twice = True
                        break
                if twice:
                    continue
            tried[seen] = place
            seen += 1
            sender = col[begin + place]
            if _is_banned(sender, banned, low, high):
                continue
            other = ids[sender] if ids.size else np.int64(sender)
            if mode == KEEP_ALL or _survives(receiver, other, mode, key, cut):
                out[at + found] = place
                found += 1
        if found == wanted:
            return found, False
    if size > chosen.size:
        draws, chosen = np.empty(size, np.int64), np.empty(size, np.int64)
    for place in range(size):
        sender = np.int64(col[begin + place])
        draws[place] = ids[sender] if ids.size else sender
    if mode != KEEP_ALL:
        _draw_row(receiver, draws, size, key, mode == KEEP_PAIRED)
    for k in range(low, high):
        for place in range(size):
            if col[begin + place] == banned[k]:
                draws[place] = -1
    found = np.int64(0)
    for place in range(size):  # without a branch: what survives cannot be predicted
        chosen[found] = place
        found += np.int64(draws[place] >= cut)
    if found <= wanted:
        out[at : at + found] = chosen[:found]
        return found, True
    _choose(out, at, wanted, found, state, marks)
    for k in range(at, at + wanted):
        out[k] = chosen[out[k]]
    return wanted, False


@compiled
def table_of(nodes, count, size):
    """A hash table of some nodes; its size is a power of two."""
    bits = 6
    while 1 << bits < size:
        bits += 1
    table = np.full(1 << bits, -1, np.int64)
    for number in range(count):
        place = _slot(nodes[number], bits)
        while table[place] >= 0:
            place = (place + 1) & (table.size - 1)
        table[place] = ((nodes[number] & LOW) << _HALF) | number
    return table, bits


@compiled
def _slot(node, bits):
    return np.int64((np.uint64(node) * _GOLDEN) >> np.uint64(64 - bits))


@compiled
def number_by_hash(senders, nodes, count, table, bits, wide):
    """:func:`number` where a place for every node of the graph would take too much memory.

    An entry is the low bits of an id and its number; ids of more bits are looked up (``wide``).
    """
    slots, ahead = np.empty(_AHEAD, np.int64), np.int64(0)
    for start in range(0, senders.size, _AHEAD):
        stop = min(start + _AHEAD, senders.size)
        if 2 * (count + _AHEAD) > table.size:
            table, bits = table_of(nodes, count, 8 * (count + _AHEAD))
        for k in range(start, stop):
            slots[k - start] = _slot(senders[k], bits)
            ahead ^= table[slots[k - start]]
        for k in range(start, stop):
            sender, place = senders[k], slots[k - start]
            entry = table[place]
            while entry >= 0 and (
                entry >> _HALF != sender & LOW or (wide and nodes[entry & _NUMBER] != sender)
            ):
                place = (place + 1) & (table.size - 1)
                entry = table[place]
            fresh = entry < 0
            number = count if fresh else entry & _NUMBER
            table[place] = ((sender & LOW) << _HALF) | number
            nodes[count] = sender
            count += np.int64(fresh)
            senders[k] = number
    return count, table, bits, ahead


@compiled
def number(senders, nodes, count, place):
    """Replace ids by numbers in the list of nodes, to which new ones are added.

    ``place`` holds the number of each node of the graph, -1 for those not in the list.  The memory
    of the next few is requested at once; no branch depends on what is found there.
    """
    ahead = np.int32(0)
    for start in range(0, senders.size, _AHEAD):
        stop = min(start + _AHEAD, senders.size)
        for k in range(start, stop):
            ahead ^= place[senders[k]]
        for k in range(start, stop):
            sender = senders[k]
            entry = np.int64(place[sender])
            fresh = entry < 0
            number = count if fresh else entry
            place[sender] = number
            nodes[count] = sender
            count += np.int64(fresh)
            senders[k] = number
    return count, ahead


@compiled
def mark(nodes, place):
    """Note the number of each node."""
    for number in range(nodes.size):
        place[nodes[number]] = number


@compiled
def forget(nodes, place):
    """Undo :func:`mark`."""
    for node in nodes:
        place[node] = -1


@compiled
def hop(rowptr, col, direct, nodes, low, fanout, key, mode, drop_key, cut, ids, ends, banned):
    """The chosen entries of the rows of ``nodes[low:]``.

    Returns each row's length, the entries, and each row's degree, -1 where it is not known.
    """
    rows = nodes.size - low
    begin, size = np.empty(rows, np.int64), np.empty(rows, np.int64)
    bound = 0
    for i in range(rows):
        row = nodes[low + i] if direct else i
        begin[i] = rowptr[row]
        size[i] = rowptr[row + 1] - begin[i]
        bound += size[i] if fanout < 0 else min(size[i], fanout)
    entries = np.empty(bound, np.int64)
    length, degree = np.empty(rows, np.int64), np.full(rows, -1, np.int64)
    words = 1
    while words < fanout:
        words *= 2
    marks = np.zeros(words, np.uint64)
    tried = np.empty(64 * max(fanout, 1), np.int64)
    work = marks, tried, np.empty(_SHORT, np.int64), np.empty(_SHORT, np.int64)
    at = np.int64(0)
    for i in range(rows):
        node = nodes[low + i]
        receiver = ids[node] if ids.size else node
        state = _mix(np.uint64(receiver) * _GOLDEN ^ key)
        first = last = np.int64(0)
        if low + i < ends.size - 1:
            first, last = ends[low + i], ends[low + i + 1]
        if mode == KEEP_ALL and first == last:
            if fanout < 0 or size[i] <= fanout:
                for k in range(size[i]):
                    entries[at + k] = k
                found = size[i]
            else:
                _choose(entries, at, fanout, size[i], state, marks)
                found = fanout
            degree[i] = size[i]
        else:
            own = cut
            if mode == KEEP_GRADED:
                own = _draw(np.uint64(receiver), np.uint64(receiver), drop_key)
            found, known = _choose_survivors(
                entries, at, fanout, begin[i], size[i], col, receiver, state, mode, drop_key, own,
                ids, banned, first, last, work,
            )  # fmt: skip
            if known:
                degree[i] = found
        entries[at : at + found] += begin[i]
        length[i] = found
        at += found
    return length, entries[:at], degree


@compiled
def gather(col, entries):
    """The senders of some entries, as a loop of its own: reads do not wait for each other."""
    out = np.empty(entries.size, np.int64)
    for k in range(entries.size):
        out[k] = col[entries[k]]
    return out


@compiled
def count(rowptr, col, direct, nodes, degree, most, enough, mode, drop_key, cut, ids):
    """Replace every -1 with the number of survivors in ``degree``.

    Of those with more than ``most`` edges, so many are looked at; from ``enough`` on, some number.
    """
    draws = np.empty(_SHORT, np.int64)
    for i in range(nodes.size):
        if degree[i] >= 0:
            continue
        row = nodes[i] if direct else i
        begin, size = rowptr[row], rowptr[row + 1] - rowptr[row]
        if mode == KEEP_ALL:
            degree[i] = size
            continue
        receiver = ids[nodes[i]] if ids.size else nodes[i]
        own = cut
        if mode == KEEP_GRADED:
            own = _draw(np.uint64(receiver), np.uint64(receiver), drop_key)
        looked = size if most < 0 else min(size, most)
        found = np.int64(0)
        at_a_time = max(looked, 1) if enough < 0 else np.int64(4)
        if at_a_time > draws.size:
            draws = np.empty(at_a_time, np.int64)
        for start in range(begin, begin + looked, at_a_time):
            part = min(at_a_time, begin + looked - start)
            for k in range(part):
                sender = np.int64(col[start + k])
                draws[k] = ids[sender] if ids.size else sender
            _draw_row(receiver, draws, part, drop_key, mode == KEEP_PAIRED)
            for k in range(part):
                found += np.int64(draws[k] >= own)
            if 0 < enough <= found:
                break
        if enough < 0:
            found += np.int64(np.rint((size - looked) * (1.0 - own / _ONE)))
        degree[i] = found


@compiled
def transposed(rowptr, col, num_cols):
    """:func:`tuneup.graph.csr.transpose` by counting."""
    pointer = np.zeros(num_cols + 1, np.int64)
    for k in range(col.size):
        pointer[col[k] + 1] += 1
    for j in range(num_cols):
        pointer[j + 1] += pointer[j]
    place = pointer[:-1].copy()
    receiver, order = np.empty(col.size, np.int64), np.empty(col.size, np.int64)
    for i in range(rowptr.size - 1):
        for k in range(rowptr[i], rowptr[i + 1]):
            at = place[col[k]]
            place[col[k]] += 1
            receiver[at] = i
            order[at] = k
    return pointer, receiver, order
