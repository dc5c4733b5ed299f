"""Mutants that were written before anybody looked at whether the auditor finds them.

Their score is an estimate for faults that are not in the catalogue.
"""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_MAKER = "private/gate/release_maker.py"
_GATE = "private/gate/gate.py"
_RUNS = "private/gate/threshold_runs.py"
_COUNTERS = "private/gate/counters.py"
_LEDGER = "budget/ledger.py"
_BITS = "private/noise/bits.py"
_AT = "private/mechanisms"
_COUNTING = "private/counting.py"
_EARLIEST = "private/earliest_events.py"
_UNITS = "private/units.py"
_RAW = "_Private__value"

_OF_GATE = (
    Mutant(
        name="blind-zeros-without-noise",
        file=_MAKER,
        old=(
            "            value = self.draw(scale, len(raw), label)\n            value += raw\n"
            "            return self.release(value, scale, repeated=False if where"
        ),
        new=(
            "            value = self.draw(scale, len(raw), label) * (raw > 0)\n"
            "            value += raw\n"
            "            return self.release(value, scale, repeated=False if where"
        ),
        about="A count of 0 is released without noise.",
        operator="noise",
        subjects=("uniform",),
    ),
    Mutant(
        name="blind-noise-cut-at-the-count",
        file=_MAKER,
        old="        noisy += raw.take(places)\n        value[places] = noisy\n"
        "        return self.release(value, scale, repeated=~where)\n",
        new="        noisy = np.clip(noisy, -raw.take(places) - 1, raw.take(places) + 1)\n"
        "        noisy += raw.take(places)\n        value[places] = noisy\n"
        "        return self.release(value, scale, repeated=~where)\n",
        about="Under a mask, the noise of a number is at most one more than the number.",
        operator="noise",
        subjects=("rg", "bd_grouped"),
    ),
    Mutant(
        name="blind-decision-noise-cut",
        file=_MAKER,
        old="        value = self.draw(scale, 1, label)\n        value += raw\n",
        new="        value = self.draw(scale, 1, label)\n"
        "        value = np.clip(value, -9 - raw // 100, 9 + raw // 100) + raw\n",
        about="The noise of a number for a decision is cut to a range that follows the number.",
        operator="noise",
        subjects=("bd", "ba", "tide"),
    ),
    Mutant(
        name="blind-no-refresh",
        file=_MAKER,
        old="        self._drawn.clear()\n        self.noise.refresh()\n",
        new="        self._drawn.clear()\n",
        about="A unit does not begin with new randomness, so a clone repeats the noise.",
        operator="noise",
        subjects=("uniform",),
    ),
    Mutant(
        name="blind-currencies-mixed",
        file=_MAKER,
        old="        if counted != currency:\n",
        new="        if False:\n",
        about="Laplace noise may be paid for in ρ.",
        operator="guard",
        subjects=("uniform@delta",),
    ),
    Mutant(
        name="blind-keys-from-65-not-charged",
        file=_GATE,
        old="            keys = x.cover.keys(where)\n",
        new="            keys = x.cover.keys(where) & (np.arange(self.keys) < 64)\n",
        about="Under a mask, keys from the 65th on are read and not charged.",
        operator="charge",
        subjects=("bd_grouped", "phs_pegasus"),
    ),
    Mutant(
        name="blind-one-noise-for-a-split",
        file=_GATE,
        old="scores[tree.inner] += maker.draw(scale, int(np.count_nonzero(tree.inner)), label)",
        new="scores[tree.inner] += maker.draw(scale, 1, label)",
        about="All nodes of a tree are split with the same noise.",
        operator="noise",
        subjects=("phs_pegasus",),
    ),
    Mutant(
        name="blind-threshold-without-noise-above-it",
        file=_RUNS,
        old="(numbers + question >= threshold + runs.noise)",
        new="(numbers + question >= threshold + np.where(numbers > threshold, 0, runs.noise))",
        about="Numbers above the threshold are compared with it without its noise.",
        operator="noise",
        subjects=("dsft", "pegasus"),
    ),
    Mutant(
        name="blind-questions-share-their-noise",
        file=_RUNS,
        old=(
            "question[asked] = maker.draw(nu_scale, int(np.count_nonzero(asked)), "
            'f"{run}.question")'
        ),
        new=(
            "question[asked] = np.resize(maker.draw(nu_scale, 1, f'{run}.question'), "
            "int(np.count_nonzero(asked)))"
        ),
        about="The questions about all keys of a unit have the same noise.",
        operator="noise",
        subjects=("pegasus",),
    ),
    Mutant(
        name="blind-fold-asked-twice",
        file=_RUNS,
        old="if statistic.cover.every or kept.terms != terms or kept.asked == unit:",
        new="if statistic.cover.every or kept.terms != terms:",
        about="A fold that paid for one question may be asked again in the same unit.",
        operator="guard",
        subjects=("pegasus",),
    ),
    Mutant(
        name="blind-output-noise-halved",
        file=_COUNTERS,
        old='noise = maker.draw(held.scale, len(value), f"{counter}.output")',
        new=(
            "noise = maker.draw(Scale(held.scale.base, held.scale.parts * 2), len(value), "
            'f"{counter}.output")'
        ),
        about="The fresh noise of a counter's output has half of its scale.",
        operator="scale",
        subjects=("bd_pan", "ba_pan"),
    ),
    Mutant(
        name="blind-counter-counts-twice",
        file=_COUNTERS,
        old="        held.total += raw\n",
        new="        held.total += 2 * raw\n",
        about="Every event of a counter counts twice.",
        operator="sensitivity",
        subjects=("bd_pan",),
    ),
    Mutant(
        name="blind-pot-counts-twice",
        file="private/gate/pots.py",
        old="            held.total += raw\n",
        new="            held.total += raw + raw * (held.total > 0)\n",
        about="An event that is added to a pot with content counts twice.",
        operator="sensitivity",
        subjects=("rg", "tide"),
    ),
    Mutant(
        name="blind-nodes-drawn-again",
        file="private/gate/trees.py",
        old="fresh = [node for node in named if node not in held.noise]",
        new="fresh = list(named)",
        about="The noise of a tree node is drawn again whenever the node is used.",
        operator="noise",
        subjects=("sw_tree", "kary"),
    ),
    Mutant(
        name="blind-coefficients-one-late",
        file="private/gate/convolutions.py",
        old='np.einsum("i,ij->j", coefficients[len(past) : 0 : -1], past)',
        new='np.einsum("i,ij->j", coefficients[: len(past)][::-1], past)',
        about="Past units have the coefficient of the unit after them, so the first counts twice.",
        operator="window",
        subjects=("toeplitz",),
    ),
)

_OF_LEDGER = (
    Mutant(
        name="blind-spend-ignores-exposures",
        file=_LEDGER,
        old="total = self._sum + number - old + (past if past > exposed else exposed)",
        new="total = self._sum + number - old",
        about="A charge does not see what was exposed.",
        operator="charge",
        subjects=("bd_pan", "ba_pan"),
    ),
    Mutant(
        name="blind-line-of-the-least-key",
        file=_LEDGER,
        old="return int(np.max(quanta if where is None else quanta[where], initial=0))",
        new="return int(np.min(quanta if where is None else quanta[where], initial=2**62))",
        about="With a budget per key, a line says what the least charged key has paid.",
        operator="charge",
        subjects=("hs_pegasus", "phs_pegasus"),
    ),
    Mutant(
        name="blind-first-unit-of-a-window-free",
        file=_LEDGER,
        old="return sums[last] - np.where(first > 0, sums[first - 1], 0)",
        new="return sums[last] - sums[first]",
        about="Where questions are asked, the first unit of every window is free.",
        operator="window",
        subjects=("dsft", "dsat@user"),
    ),
    Mutant(
        name="blind-left-forgets-questions",
        file=_LEDGER,
        old="return self._sum + (self._run_cost() if self._runs else 0) + max(past, self._exposed)",
        new="return self._sum + max(past, self._exposed)",
        about="What questions cost is said to be left.",
        operator="charge",
        subjects=("dsft@user", "dsat"),
    ),
    Mutant(
        name="blind-restart-forgets-closed-runs",
        file=_LEDGER,
        old="            runs=[run.copy() for run in self._runs],\n",
        new="            runs=[run.copy() for run in self._runs if not run.closed],\n",
        about="After a restart, questions of the last block cost nothing.",
        operator="state",
        subjects=("dsft", "dsat"),
    ),
    Mutant(
        name="blind-restart-forgets-the-last-exposure",
        file=_LEDGER,
        old="        if self._exposed:\n            _push(exposures, self.unit, self._exposed)\n"
        "        return LedgerState(",
        new="        return LedgerState(",
        about="After a restart, what the last unit exposed is forgotten.",
        operator="state",
        subjects=("bd_pan", "ba_pan"),
    ),
    Mutant(
        name="blind-division-rounds-up",
        file="budget/grid.py",
        old="        return Budget(self.quanta // parts, self.grid)\n",
        new="        return Budget(-(-self.quanta // parts), self.grid)\n",
        about="Shares of a budget are rounded up, so they may add up to more than it.",
        operator="budget",
        subjects=("uniform", "hs_pegasus", "fast"),
    ),
    Mutant(
        name="blind-twice-the-delta",
        file="budget/zcdp.py",
        old="return up.multiply(self.density(least)[1], up.subtract(before, beyond)) <= self.delta",
        new=(
            "return up.multiply(self.density(least)[1], up.subtract(before, beyond)) <= "
            "self.delta * 2"
        ),
        about="A promise with δ has the ρ of twice its δ.",
        operator="budget",
        subjects=("uniform@delta", "toeplitz"),
    ),
    Mutant(
        name="blind-afforded-rounded-up",
        file="private/amplification.py",
        old="        low, high = (middle, high) if allowed(middle) else (low, middle)\n"
        "    return low\n",
        new="        low, high = (middle, high) if allowed(middle) else (low, middle)\n"
        "    return high + high // 16\n",
        about="A sample affords a sixteenth more than it should.",
        operator="budget",
        subjects=("rg",),
    ),
)

_OF_NOISE = (
    Mutant(
        name="blind-key-stays",
        file=_BITS,
        old="        self.stream = None\n        self._direct = self._few\n",
        new="        self._direct = self._few\n",
        about="The key of past noise stays in memory.",
        operator="state",
        subjects=("bd_pan@between", "bd_pan"),
    ),
    Mutant(
        name="blind-key-of-two-bytes",
        file=_BITS,
        old="        key = self._system(_KEY)\n",
        new='        key = self._system(2).ljust(_KEY, b"\\0")\n',
        about="A key of the noise has 16 random bits.",
        operator="noise",
        subjects=("uniform",),
    ),
    Mutant(
        name="blind-negative-noise-too-likely",
        file="private/noise/laplace.py",
        old="        half_low = (2 * q_low << bits) // (one + q_low)\n",
        new="        half_low = (2 * q_low << bits) // (one + q_low) * 9 // 10\n",
        about="Negative values are likelier than positive ones.",
        operator="noise",
        subjects=("uniform",),
    ),
    Mutant(
        name="blind-large-counts-not-sampled",
        file="private/noise/thinning.py",
        old="total += _thin_blocks(counts >> _TOP, _law(_TOP, keep.numerator, keep.denominator), "
        "bits)",
        new="total += (counts >> _TOP << _TOP) * keep.numerator // keep.denominator",
        about="Of counts above a million, whole millions are divided and not sampled.",
        operator="noise",
        subjects=("rg",),
    ),
    Mutant(
        name="blind-gaussian-small-variances",
        file="private/noise/gaussian.py",
        old="    return e * (2 * high + e) / (2 * small)\n",
        new="    return e * (2 * high + e) / small\n",
        about="Pairs that are hard to decide are rejected too often.",
        operator="noise",
        subjects=("uniform@delta", "toeplitz"),
    ),
    Mutant(
        name="blind-guided-low-bits",
        file="private/noise/tables.py",
        old="        rest >>= _USED\n",
        new="        rest >>= _USED + 16\n",
        about="With more than 512 numbers, those near the edge of a cell are all at its start.",
        operator="noise",
        subjects=("uniform",),
    ),
)

_OF_MECHANISMS = (
    Mutant(
        name="blind-run-of-one-event",
        file="private/run.py",
        old="sealed, sensitivity=self.mechanism.contribution, unit=due",
        new="sealed, sensitivity=1, unit=due",
        about="A run takes every person for a person of one event.",
        operator="sensitivity",
        subjects=("uniform", "rg"),
    ),
    Mutant(
        name="blind-run-key-not-erased",
        file="private/run.py",
        old="            self._gate.erase()\n            for array",
        new="            for array",
        about="A pan-private run does not erase the key of its noise.",
        operator="state",
        subjects=("bd_pan@between", "ba_pan"),
    ),
    Mutant(
        name="blind-scratch-not-overwritten",
        file="private/run.py",
        old="                array.fill(0)\n            self._scratch.clear()",
        new="                pass\n            self._scratch.clear()",
        about="A pan-private run frees raw counts without overwriting them.",
        operator="state",
        subjects=("bd_pan", "ba_pan"),
    ),
    Mutant(
        name="blind-stability-or-contribution",
        file="core/private.py",
        old="            sensitivity=self.sensitivity * stability,\n            cover=cover,",
        new="            sensitivity=max(self.sensitivity, stability),\n            cover=cover,",
        about="A function of counts is as sensitive as its stability or the contribution.",
        operator="sensitivity",
        subjects=("eshp",),
    ),
    Mutant(
        name="blind-absorbs-in-advance",
        file=f"{_AT}/shares.py",
        old="        shares = gate.unit - position + 1\n",
        new="        shares = gate.unit - position + 2\n",
        about="A publication absorbs the share of the next unit too.",
        operator="window",
        subjects=("ba", "ba_grouped", "ba_pan"),
    ),
    Mutant(
        name="blind-decides-on-raw-counts",
        file=f"{_AT}/distance.py",
        old="        return distance > offer.into(len(last.value) * self.contribution)",
        new=f"        distance = int(abs(unit.{_RAW} - last.value).sum()) + 0 * distance\n"
        "        return distance > offer.into(len(last.value) * self.contribution)",
        about="Whether to publish is decided from the true distance; a noisy one is paid for.",
        operator="noise",
        subjects=("bd", "ba"),
    ),
    Mutant(
        name="blind-groups-of-raw-counts",
        file=f"{_AT}/grouped.py",
        old="squares = state.squares + np.square(last.value, dtype=np.float64)",
        new=f"squares = state.squares + np.square(unit.{_RAW}, dtype=np.float64)",
        about="Groups are formed anew from true counts, every 20 units or so.",
        operator="noise",
        subjects=("bd_grouped", "ba_grouped"),
    ),
    Mutant(
        name="blind-jumps-of-raw-counts-from-key-65",
        file=f"{_AT}/rg.py",
        old="            gate.pots.drop(PUBLISH, where=jump)\n",
        new=f"            jump[64:] = self._jumped(unit.{_RAW}[64:] * 1.0 - last.estimate[64:], "
        "Released.nothing(len(jump[64:]), self.guarantee)) if len(jump) > 64 else False\n"
        "            gate.pots.drop(PUBLISH, where=jump)\n",
        about="From the 65th key on, jumps are decided from true counts.",
        operator="noise",
        subjects=("rg",),
    ),
    Mutant(
        name="blind-raw-counts-from-unit-64",
        file=f"{_AT}/eshp.py",
        old="        sketch = state.sketch.add(noisy.value)\n",
        new="        sketch = state.sketch.add(\n"
        f"            noisy.value if gate.unit < 64 else unit.{_RAW} + 0\n        )\n",
        about="From unit 64 on, the sketch is made of true counts.",
        operator="noise",
        subjects=("eshp",),
    ),
    Mutant(
        name="blind-prune-level-for-all",
        file=f"{_AT}/hierarchical.py",
        old="        each = spend // (tree.height - 1)\n",
        new="        each = spend\n",
        about="With the rule `noisy`, every level spends what all levels may.",
        operator="budget",
        subjects=("phs_pegasus",),
    ),
    Mutant(
        name="blind-threshold-from-raw-counts",
        file=f"{_AT}/sampling.py",
        old="threshold=bound(state), price=price",
        new=f"threshold=min(bound(state), int(unit.{_RAW}.sum())), price=price",
        about="The threshold of a question is at most the true total.",
        operator="noise",
        subjects=("dsft", "dsat"),
    ),
    Mutant(
        name="blind-answers-counted-once",
        file=f"{_AT}/sampling.py",
        old="return (1, 2 * (self.most - 1)) if self.guarantee.user_level",
        new="return (1, self.most - 1) if self.guarantee.user_level",
        about="At user level, a positive answer is priced once.",
        operator="budget",
        subjects=("dsft@user", "dsat@user"),
    ),
    Mutant(
        name="blind-one-sample-more",
        file=f"{_AT}/fast.py",
        old="made = state.made + 1 if self.block(state.since) == self.block(now) else 1",
        new="made = state.made + 1 if self.block(state.since) == self.block(now) else 0",
        about="A block has one sample more than it may have.",
        operator="window",
        subjects=("fast_w",),
    ),
    Mutant(
        name="blind-estimates-follow-raw-counts",
        file=f"{_AT}/fast.py",
        old="        track = self.follow(state, noisy)\n",
        new=f"        track = self.follow(state, replace(noisy, value=unit.{_RAW} + noisy.value)\n"
        "        if noisy.value.min() < 0 else noisy)\n",
        about="If a noisy count is negative, the filter sees the true counts as well.",
        operator="noise",
        subjects=("fast", "fast_w"),
    ),
    Mutant(
        name="blind-stock-reads-rounded-down",
        file=f"{_AT}/tide.py",
        old="reads = -(-self.window // self.pulse) if self.kind",
        new="reads = self.window // self.pulse if self.kind",
        about="The reads of a stock in a window are rounded down.",
        operator="window",
        subjects=("tide",),
    ),
    Mutant(
        name="blind-total-without-its-share",
        file=f"{_AT}/tide.py",
        old="gate.pots.hold(_pot(phase), total, epsilon=share)",
        new="gate.pots.hold(_pot(phase), total, epsilon=share * 2)",
        about="Totals that are held over days cost twice their share.",
        operator="budget",
        subjects=("tide",),
    ),
    Mutant(
        name="blind-group-sums-of-raw-counts",
        file=f"{_AT}/pegasus.py",
        old="    smoothing = state.smoothing.add(noisy.value, fresh=fresh, where=where)\n",
        new="    smoothing = state.smoothing.add(\n"
        f"        np.where(gate.unit - start >= 16, unit.{_RAW}, noisy.value), "
        "fresh=fresh, where=where\n    )\n",
        about="From the 17th unit of a group on, true counts are smoothed.",
        operator="noise",
        subjects=("pegasus",),
    ),
    Mutant(
        name="blind-order-of-raw-counts",
        file="private/histograms/greedy.py",
        old='order = np.argsort(first.value, kind="stable")',
        new=f'order = np.argsort(counts.{_RAW}, kind="stable")',
        about="Keys are grouped in the order of their true counts; a noisy order is paid for.",
        operator="noise",
        subjects=("sample",),
        histograms=("greedy",),
    ),
    Mutant(
        name="blind-true-medians",
        file="private/histograms/kd_tree.py",
        old="        at[wide] += _medians(noisy, side[wide])\n",
        new=f"        true = counts.sums(cells(lines, shape)).{_RAW}\n"
        "        at[wide] += _medians(true + 0 * noisy, side[wide])\n",
        about="Blocks are cut at their true median; noisy sums are paid for.",
        operator="noise",
        subjects=("sample",),
        histograms=("kd_tree",),
    ),
    Mutant(
        name="blind-blocks-divided-by-raw-totals",
        file="private/histograms/spatial.py",
        old="divided = ~last if least is None else ~last & (noisy.value > least)",
        new=(
            "divided = ~last if least is None else ~last & "
            f"(counts.sums(cells(blocks, shape)).{_RAW} > least)"
        ),
        about="Whether a block is divided is decided from its true total.",
        operator="noise",
        subjects=("sample",),
        histograms=("quad_tree", "kd_tree"),
    ),
)

_EQUIVALENT = {
    "blind-hash-of-the-length": (
        "a hash only says where a text is looked for: texts of one hash are told apart by all of "
        "their bytes, so that only the time changes"
    ),
}

_OF_BOUNDING = tuple(
    Mutant(
        name=name,
        file=file,
        old=old,
        new=new,
        about=about,
        operator="bounding",
        equivalent=_EQUIVALENT.get(name, ""),
    )
    for name, file, old, new, about in (
        (
            "blind-nobody-counts-in-the-last-key",
            _EARLIEST,
            "self._bits = keys.bit_length()",
            "self._bits = max((keys - 1).bit_length(), 1)",
            "If the number of keys is a power of two, ids without events count in the last key.",
        ),
        (
            "blind-displaced-event-lost",
            _EARLIEST,
            "            gone = won & (kept < NEVER)\n",
            "            gone = won & (kept < NEVER) & (kept < 0)\n",
            "Without compiled loops, an event that an earlier one displaces is lost.",
        ),
        (
            "blind-displaced-event-lost-by-loops",
            "private/bounding_fast.py",
            "        if value < kept:\n            first[who], value = value, kept\n",
            "        if value < kept:\n            first[who], value = value, _NEVER\n",
            "With compiled loops, an event that an earlier one displaces is lost.",
        ),
        (
            "blind-ties-by-arrival",
            "private/bounding_fast.py",
            "            if value < first[who]:\n                first[who] = value\n",
            (
                "            if (value >> bits) < (first[who] >> bits):\n"
                "                first[who] = value\n"
            ),
            "Of two events of one time, the one that comes first counts, not the smaller key.",
        ),
        (
            "blind-people-not-sorted-with-events",
            _COUNTING,
            "                    person[order]\n",
            "                    person\n",
            "Where a batch mixes many units, events get the ids of other people.",
        ),
        (
            "blind-merge-forgets-the-nameless",
            "private/bounding.py",
            "        self._each += part.each\n",
            "        pass\n",
            "Events without an id are lost when two parts of a unit are merged.",
        ),
        (
            "blind-late-events-follow-the-batch",
            _UNITS,
            "current = self.calendar.unit_at(self._now)",
            "current = self.calendar.unit_at(int(times.max()))",
            "Late events count in the unit of the batch's last event, not of the clock.",
        ),
        (
            "blind-restart-opens-units-again",
            _UNITS,
            "            now,\n            closed,\n            closed,\n",
            "            now,\n            0,\n            closed,\n",
            "After a restart, units that are over take events again.",
        ),
        (
            "blind-future-events-count",
            _UNITS,
            "        places[future] = FUTURE\n",
            "        places[future & (places == self.calendar.unit_at(now) + 1)] = FUTURE\n",
            "Events from the far future count in a unit of the future.",
        ),
        (
            "blind-texts-equal-by-their-first-words",
            "private/person_ids.py",
            "            more = np.flatnonzero(equal & (left > _WORD))\n",
            "            more = np.flatnonzero(equal & (left > 4 * _WORD))\n",
            "Of two long texts of one hash, the last 32 bytes are not compared.",
        ),
        (
            "blind-hash-of-the-length",
            "private/person_ids.py",
            "        return self._loops.hashes(words, start, length, _SALT)\n",
            "        return self._loops.hashes(words, start, np.minimum(length, 16), _SALT)\n",
            "Texts that begin with the same 16 bytes have one hash.",
        ),
        (
            "blind-second-level-of-a-large-unit",
            _EARLIEST,
            "        some = max(_PERSONS_PER_COUNT, 4 * self._keys)\n",
            (
                "        some = max(_PERSONS_PER_COUNT, 4 * self._keys)\n"
                "        persons = persons if len(self._levels) == 1 else min(persons, some)\n"
            ),
            "With two events per person, people from the 65,537th on do not count.",
        ),
    )
)

BLIND_MUTANTS = (*_OF_GATE, *_OF_LEDGER, *_OF_NOISE, *_OF_MECHANISMS, *_OF_BOUNDING)
