"""Mutants of bounding: who a person is, which of their events count, and in which unit."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_EARLIEST = "private/earliest_events.py"
_IDS = "private/person_ids.py"
_BOUNDING = "private/bounding.py"
_COUNTING = "private/counting.py"
_UNITS = "private/units.py"
_TESTS = ("tests/private/test_bounding.py", "tests/private/test_counting.py")

_EQUIVALENT = {
    "bounding-one-event-more": (
        "the level before hands on no events, because it is the last one that may have any: "
        "the additional level stays empty"
    ),
}

BOUNDING_MUTANTS = tuple(
    Mutant(
        name=name,
        file=file,
        old=old,
        new=new,
        about=about,
        operator="bounding",
        tests=_TESTS,
        equivalent=_EQUIVALENT.get(name, ""),
    )
    for name, file, old, new, about in (
        (
            "bounding-one-event-more",
            _EARLIEST,
            "for level in range(1, self._contribution):",
            "for level in range(1, self._contribution + (self._contribution > 1)):",
            "A person who may have two events or more has one more.",
        ),
        (
            "bounding-wide-unbounded",
            _EARLIEST,
            "for level in range(min(self._contribution, int(rank.max()) + 1)):",
            "for level in range(int(rank.max()) + 1):",
            "Where times lie far apart, a person has as many events as they like.",
        ),
        (
            "bounding-times-overflow",
            _EARLIEST,
            "if not base <= earliest <= latest < base + room - 1:",
            "if not base <= earliest <= latest:",
            "Times that are too far apart to be packed with a key are packed all the same.",
        ),
        (
            "bounding-second-event-lost-to-wide",
            _BOUNDING,
            "for level in range(len(self._kept)):\n            wide.put",
            "for level in range(min(1, len(self._kept))):\n            wide.put",
            "When times lie far apart, all events of a person but the first are counted anew.",
        ),
        (
            "bounding-people-merged",
            _IDS,
            "            other = np.flatnonzero(self._known.take(found) != ids)\n",
            "            other = np.flatnonzero(self._known.take(found) != ids)[:0]\n",
            "Without compiled loops, two people whose ids fall into one slot are one person.",
        ),
        (
            "bounding-people-merged-by-loops",
            "private/bounding_fast.py",
            "            if found < 0 or theirs[row] != wanted:\n",
            "            if found < 0:\n",
            "With compiled loops, two people whose ids fall into one slot are one person.",
        ),
        (
            "bounding-long-names-merged",
            _IDS,
            "hashlib.sha256(each).digest() + _PADDING",
            "hashlib.sha256(each[:MAX_TEXT_BYTES]).digest() + _PADDING",
            "Long ids that begin in the same way are one person.",
        ),
        (
            "bounding-restart-forgets-events",
            _BOUNDING,
            "            self._kept.put(level, number - low, events, persons=self._persons)\n",
            (
                "            if not level:\n                "
                "self._kept.put(level, number - low, events, persons=self._persons)\n"
            ),
            "After a restart within a unit, a person may have more events.",
        ),
        (
            "bounding-restart-forgets-people",
            _BOUNDING,
            "            ids=self._texts.lengths if text else ids,\n",
            "            ids=self._texts.lengths if text else np.arange(len(ids)),\n",
            "After a restart within a unit, people have other ids.",
        ),
        (
            "bounding-not-cleared",
            _EARLIEST,
            "self._base = None\n        for level in self._levels:\n",
            "self._base = None\n        for level in self._levels[:1]:\n",
            "Second events of a unit are counted in the next one again.",
        ),
        (
            "bounding-unit-not-cleared",
            _COUNTING,
            "            held.bounding.clear()\n",
            "",
            "The people of a unit stay when it is closed.",
        ),
        (
            "bounding-moved-people",
            _BOUNDING,
            "            self._kept.move(self._low - first, self._span)\n",
            "            self._kept.move(max(self._low - first - 1, 0), self._span)\n",
            "When smaller ids come, everybody gets the events of their neighbour.",
        ),
        (
            "bounding-late-events-count",
            _UNITS,
            "late = (places <= self._shut) & ~past",
            "late = (places < self._shut) & ~past",
            "An event of a unit that takes no more events is counted there.",
        ),
        (
            "bounding-late-events-in-two-units",
            _UNITS,
            "            and unit > self._shut\n",
            "",
            "A batch of late events is sorted into a unit that is over.",
        ),
        (
            "bounding-people-unknown-after-a-spill",
            _COUNTING,
            "                unit.file.write(_encoded(unit.bounding.save()))\n",
            "                unit.file.write(unit.waiting[0].encode() if unit.waiting else b'')\n",
            "When a unit does not fit into memory, the events before that are lost.",
        ),
        (
            "bounding-nameless-people-merged",
            _COUNTING,
            "    bounding.add(None, events.key[alone], events.time[alone])\n",
            "    bounding.add(None, events.key, events.time)\n",
            "In a batch with a missing id, everybody counts once more.",
        ),
        (
            "bounding-signed-as-unsigned",
            _IDS,
            'return "unsigned", np.ascontiguousarray(ids, np.uint64).view(np.int64)',
            'return "signed", np.ascontiguousarray(ids, np.uint64).view(np.int64)',
            "A huge unsigned id and a negative one are the same person.",
        ),
    )
)
