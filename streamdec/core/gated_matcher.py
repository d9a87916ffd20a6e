"""A matcher behind a gate: text, and how old its letters are, to what may go out.

The gate (``enable_stops_after``, ``disable_stops_after``) says whether stops count. A *marker*, a
text or an id, opens or closes it; the marker that turns it back is looked for behind it.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamdec.core.jail import Hit, Jail
from streamdec.core.matcher import Matcher
from streamdec.core.stop_memory import Ages, Gate, Outcome, StopMemory

__all__ = ["GatedMatcher"]

Marker = str | int | None


class GatedMatcher:
    """Lets text through the gate and the matcher."""

    __slots__ = (
        "_holds_for_ids",
        "_jails",
        "_markers",
        "_names",
        "matcher",
        "primed_gate",
    )

    def __init__(
        self,
        matcher: Matcher,
        after: Marker,
        until: Marker,
        names: Mapping[int, str],
        *,
        holds_for_ids: bool,
    ) -> None:
        """``names``: the texts of skipped special tokens, which may be markers, by their ids.

        ``holds_for_ids``: withhold what tokens that may begin a stop sequence gave.
        """
        self.matcher = matcher
        self._holds_for_ids = holds_for_ids
        self._names = names
        # By whether the gate is open: what turns it.
        self._markers = after, until
        self._jails = tuple(
            Jail([each]) if isinstance(each, str) else None for each in self._markers
        )
        has_gate = after is not None or until is not None
        self.primed_gate = Gate(is_open=after is None) if has_gate else None
        """The gate of a stream that begins."""

    def match(self, memory: StopMemory, text: str, letter_ages: Ages, *, ignore: bool) -> Outcome:
        """What is let out of what was withheld and of ``text``, whose letters are so old.

        With ``ignore``, stops that are complete are ordinary text.
        """
        withheld, live = memory.withheld + text, memory.live
        tail, tail_ages, gate = memory.tail, memory.tail_ages, memory.gate
        place = 0
        while True:
            armed_from = place + _shielded(gate, letter_ages[place:])
            part = text[armed_from:]
            turn = self._turn(gate, part)
            if gate is None or gate.is_open:
                known = (*tail_ages, *letter_ages[armed_from:])
                after, hit = self.matcher.step(tail, part, ignore=ignore)
                if hit is not None and not (isinstance(turn, Hit) and turn.end < hit.end):
                    end = len(memory.withheld) + armed_from + hit.end
                    age = known[len(tail) + hit.end - hit.size]
                    out = withheld[: end if hit.visible else max(end - hit.size, 0)]
                    return Outcome(out, memory, hit, end, age)
                tail, tail_ages = after, known[len(known) - len(after) :]
            if gate is None:
                break
            if not isinstance(turn, Hit):
                gate = gate._replace(tail=turn)
                break
            place, gate = armed_from + turn.end, Gate(is_open=not gate.is_open)
            tail, tail_ages, live = "", (), ()
        kept = len(self.matcher.jailed(tail))
        if live and self._holds_for_ids:
            kept = max(kept, len(withheld) - live[0].decided)
        out = withheld[: len(withheld) - kept]
        return Outcome(
            out,
            memory._replace(
                withheld=withheld[len(out) :],
                tail=tail,
                tail_ages=tuple(age + 1 for age in tail_ages),
                gate=_older(gate, memory),
                live=tuple(mark.after(out) for mark in live),
            ),
        )

    def _turn(self, gate: Gate | None, text: str) -> Hit | str:
        """Where in ``text`` the gate's marker is complete, or what may begin it."""
        jail = None if gate is None else self._jails[gate.is_open]
        if gate is None or jail is None:
            return ""
        tail, hit = jail.step(gate.tail, text)
        return tail if hit is None else hit

    def is_turned_by(self, gate: Gate | None, token_id: int) -> bool:
        """Whether ``token_id`` is, as an id, what opens or closes ``gate``."""
        if gate is None:
            return False
        marker = self._markers[gate.is_open]
        return marker is not None and marker in (token_id, self._names.get(token_id))

    def is_gate(self, gate: Gate | None) -> bool:
        """Whether a stream can have ``gate``."""
        if gate is None or self.primed_gate is None:
            return gate is self.primed_gate
        jail = self._jails[gate.is_open]
        return not gate.tail or (jail is not None and jail.is_tail(gate.tail))


def _shielded(gate: Gate | None, letter_ages: Ages) -> int:
    """How many letters began before an id opened or closed the gate."""
    if gate is None or not gate.turned:
        return 0
    return sum(age >= gate.turned for age in letter_ages)


def _older(gate: Gate | None, memory: StopMemory) -> Gate | None:
    """The gate one token on. Once nothing is left from before it turned, that is forgotten."""
    if gate is None or not gate.turned:
        return gate
    turned = gate.turned + 1
    waits = max(memory.ages_below(), default=0)
    return gate._replace(turned=turned if waits >= turned else 0)
