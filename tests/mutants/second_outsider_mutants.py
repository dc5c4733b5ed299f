"""Forty mutants by a second outsider, who had seen neither the tests nor the auditor.

The auditor had already learned from the first forty. It found 38 of these at first.
"""

from __future__ import annotations

from tests.mutants.mutant import Mutant

SECOND_OUTSIDER_MUTANTS = (
    # -- the gate ----------------------------------------------------------------------------------
    Mutant(
        name="outsider2-empty-numbers-without-noise",
        file="private/gate/release_maker.py",
        old="(places,) = where.nonzero()  # much faster than a mask without a pattern",
        new="(places,) = (where & (raw != 0)).nonzero()  # nothing to hide where nobody was",
        about="Where only some numbers are released, those whose true value is 0 are released as "
        "exactly 0 without noise, so that a single event of a person in an empty key shows.",
        operator="mask",
        subjects=("rg", "tide", "bd_grouped"),
    ),
    Mutant(
        name="outsider2-one-draw-per-scale",
        file="private/gate/release_maker.py",
        old="return self.noise.laplace_each(scales, which.astype(np.int64), unit=self.unit, "
        "label=label)",
        new="drawn = self.noise.laplace_each(\n"
        "            scales, np.arange(len(scales)), unit=self.unit, label=label\n"
        "        )\n"
        "        return drawn[which]",
        about="With a budget per number, all numbers of the same scale get one and the same noise, "
        "so that their differences are exact.",
        operator="noise",
        subjects=("hs_pegasus", "phs_pegasus", "sample"),
        histograms=("quad_tree", "kd_tree"),
    ),
    Mutant(
        name="outsider2-look-not-remembered",
        file="private/gate/counters.py",
        old="            held.disturbed = True\n",
        new="            held.disturbed = held.exposed\n",
        about="After an announced look a counter counts as untouched, so a unit that has not moved "
        "is forgotten although it was looked into, and the ledger never states what the look cost.",
        operator="state",
        subjects=("bd_pan", "ba_pan"),
    ),
    Mutant(
        name="outsider2-output-noise-wiped-too-early",
        file="private/gate/counters.py",
        old="            value += noise\n            noise.fill(0)\n        return",
        new="            noise.fill(0)\n            value += noise\n        return",
        about="The fresh noise of a counter's output is overwritten before it is added, so the "
        "release minus what a look into the memory saw is the exact count of what came between.",
        operator="noise",
        subjects=("bd_pan", "ba_pan"),
    ),
    Mutant(
        name="outsider2-question-at-the-price-of-the-threshold",
        file="private/gate/threshold_runs.py",
        old="nu_scale = maker.scale(statistic.sensitivity, price.question)",
        new="nu_scale = maker.scale(statistic.sensitivity, price.threshold)",
        about="Questions get the smaller noise that the larger price of the threshold buys, while "
        "the ledger charges the price of a question.",
        operator="scale",
        subjects=("pegasus", "dsft", "dsat"),
    ),
    Mutant(
        name="outsider2-new-nodes-share-their-noise",
        file="private/gate/trees.py",
        old="            drawn = maker.draw(scale, len(fresh) * len(raw), label).reshape("
        "len(fresh), len(raw))\n"
        "            held.noise.update((node, each.copy()) for node, each in zip(fresh, drawn, "
        "strict=True))\n",
        new="            drawn = maker.draw(scale, len(raw), label)\n"
        "            held.noise.update((node, drawn.copy()) for node in fresh)\n",
        about="Nodes that are named first in the same unit get the same noise, which cancels where "
        "one is added and another subtracted, and is used for several levels that each pay alone.",
        operator="noise",
        subjects=("kary", "sw_tree"),
    ),
    Mutant(
        name="outsider2-only-the-newest-weight-counts",
        file="private/gate/convolutions.py",
        old="sensitivity**2 * longest(coefficients, window) / (2 * window * rho.amount)",
        new="sensitivity**2 * longest(coefficients[:1], window) / (2 * window * rho.amount)",
        about="The variance covers an event's effect on the sum of its own unit only, although the "
        "event is in the weighted sums of many later units too.",
        operator="sensitivity",
        subjects=("toeplitz",),
    ),
    Mutant(
        name="outsider2-totals-do-not-fade-with-depth",
        file="private/gate/gate.py",
        old="scores = np.maximum(threshold - step, totals - tree.depths * step)",
        new="scores = np.maximum(threshold - step, totals)",
        about="Totals of deeper nodes are not lowered by their depth, so one person can matter at "
        "every node of a path near the threshold, and the one price covers a single level.",
        operator="scale",
        subjects=("phs_pegasus",),
    ),
    Mutant(
        name="outsider2-pot-keeps-the-rest",
        file="private/gate/pots.py",
        old="        self._empty(pot, held, where)\n        return released\n",
        new="        if where.all():\n"
        "            self._empty(pot, held, where)\n"
        "        else:\n"
        "            held.total[where] -= released.value[where]\n"
        "        return released\n",
        about="What was released is subtracted from the pot in place of emptying it, so the "
        "negative of the noise stays and is part of the next release: two releases share a draw.",
        operator="noise",
        subjects=("rg", "tide"),
    ),
    Mutant(
        name="outsider2-node-noise-not-saved",
        file="private/gate/trees.py",
        old="    def load(self, held: dict[str, TreeNodes]) -> None:\n        self._held = held\n",
        new="    def load(self, held: dict[str, TreeNodes]) -> None:\n"
        "        self._held = {label: replace(each, noise={}) for label, each in held.items()}\n",
        about="After a restart the same nodes get fresh noise over the same counts, so each "
        "restart lets an observer average the noise of a node that was paid for once.",
        operator="state",
        subjects=("sw_tree", "kary"),
    ),
    # -- budget, ledger, accountant ----------------------------------------------------------------
    Mutant(
        name="outsider2-a-unit-leaves-the-window-early",
        file="budget/ledger.py",
        old="        gone = unit - self._window\n",
        new="        gone = unit - self._window + 1\n",
        about="A unit's charge is forgotten one unit too early, so what is left of the budget is "
        "too much, and a window of w units spends more than the promise.",
        operator="window",
        subjects=("bd", "fast", "bd_grouped"),
    ),
    Mutant(
        name="outsider2-yes-counted-once",
        file="budget/ledger.py",
        old="asked * self.question, self.threshold + (len(self.positive) + inside) * self.question",
        new="asked * self.question, self.threshold + inside * self.question",
        about="A positive answer is priced once instead of for the run and for the window, so the "
        "rest that the last unit before a horizon spends is larger than what is really left.",
        operator="budget",
        subjects=("dsft", "dsat"),
    ),
    Mutant(
        name="outsider2-rho-is-the-square-of-mu",
        file="budget/zcdp.py",
        old="return Fraction(_decimal(least, place - _SHOWN + 1)) ** 2 / 2",
        new="return Fraction(_decimal(least, place - _SHOWN + 1)) ** 2",
        about="A promise with a delta gets rho = mu squared instead of half of that, so all "
        "Gaussian noise has half of the variance that (epsilon, delta) needs.",
        operator="budget",
        subjects=("toeplitz", "uniform", "bd"),
    ),
    Mutant(
        name="outsider2-account-hides-the-look",
        file="budget/accountant.py",
        old="costs = _window_sums(spent, guarantee.window) + _window_maxima(exposed, "
        "guarantee.window)",
        new="costs = np.maximum(\n"
        "        _window_sums(spent, guarantee.window), _window_maxima(exposed, guarantee.window)\n"
        "    )",
        about="The account takes the larger of charges and exposure instead of their sum, so it "
        "states less than what releases and one look into the memory cost together.",
        operator="charge",
        subjects=("bd_pan", "ba_pan"),
    ),
    Mutant(
        name="outsider2-charges-of-a-key-in-parallel",
        file="budget/ledger.py",
        old="            by_key[where] += extra\n",
        new="            by_key[where] = np.maximum(by_key[where], extra)\n",
        about="Several charges of one key in one unit count as the largest of them instead of as "
        "their sum, so the ledger states less than a person on all levels loses.",
        operator="charge",
        subjects=("hs_pegasus", "phs_pegasus"),
    ),
    Mutant(
        name="outsider2-restart-forgets-the-oldest-unit",
        file="budget/ledger.py",
        old="units = range(max(1, state.unit - self._window + 1), state.unit + 1)",
        new="units = range(max(1, state.unit - self._window + 2), state.unit + 1)",
        about="After a restart the oldest unit of the window is missing from the window's sum, "
        "from which it is subtracted later all the same, so too much seems to be left for ever.",
        operator="state",
        subjects=("fast",),
    ),
    # -- noise -------------------------------------------------------------------------------------
    Mutant(
        name="outsider2-stream-restarts-by-the-second",
        file="private/noise/bits.py",
        old="stream.restart(_moved(self._system(_BLOCK), self._clock()))",
        new="stream.restart(_moved(bytes(_BLOCK), self._clock() // 10**9))",
        about="Each unit's bits begin at a place that only the clock's second chooses, so units "
        "that are released within one second carry the same noise and their differences are exact.",
        operator="noise",
        subjects=("uniform", "laplace", "bd"),
    ),
    Mutant(
        name="outsider2-scales-in-the-wrong-order",
        file="private/noise/source.py",
        old='        values[np.argsort(which.astype(narrow), kind="stable")] = '
        "self._laplace_in_turn(\n"
        "            checked, sizes.tolist(), unit, label\n"
        "        )\n",
        new="        values[:] = self._laplace_in_turn(checked, sizes.tolist(), unit, label)\n",
        about="Noise that is drawn scale by scale is not put back into the order of the numbers, "
        "so numbers with a small budget get the small noise of others.",
        operator="scale",
        subjects=("hs_pegasus", "phs_pegasus", "sample"),
        histograms=("quad_tree", "kd_tree"),
    ),
    Mutant(
        name="outsider2-pieces-of-gaussians-repeat",
        file="private/noise/gaussian.py",
        old="        kept = _pairs(shape, wanted, bits)\n",
        new="        kept = values[: min(wanted, filled)].copy() if filled else "
        "_pairs(shape, wanted, bits)\n",
        about="With more than 32768 keys, later pieces of Gaussian noise are copies of the first, "
        "so keys that lie 32768 apart have the same noise and their difference is exact.",
        operator="noise",
        subjects=("uniform", "toeplitz"),
    ),
    Mutant(
        name="outsider2-digits-from-the-same-bits",
        file="private/noise/tables.py",
        old="    for table, shift in parts:\n"
        "        words = bits.bytes(8 * size).view(_WORDS)\n"
        "        values = table.invert(words, bits, shift=shift)\n"
        "        words.fill(0)\n",
        new="    words = bits.bytes(8 * size).view(_WORDS)\n"
        "    for table, shift in parts:\n"
        "        values = table.invert(words, bits, shift=shift)\n",
        about="The low and the high digit of large noise come from the same random words, so the "
        "sum takes few of the whole numbers, and a count plus one gives impossible releases.",
        operator="noise",
        subjects=("uniform", "bd", "tide"),
    ),
    Mutant(
        name="outsider2-key-kept-while-it-lasts",
        file="private/noise/bits.py",
        old="        self.stream = None\n        self._direct = self._few\n",
        new="        if self._left <= 0:  # a new cipher is slow\n"
        "            self.stream = None\n"
        "        self._direct = self._few\n",
        about="The key of the noise stays in memory between the parts of a unit, so a look at it "
        "gives all noise that was drawn under it, and with it the raw counts.",
        operator="state",
        subjects=("bd_pan", "ba_pan"),
    ),
    Mutant(
        name="outsider2-tables-for-whole-scales-only",
        file="private/noise/laplace.py",
        old="    numerator, denominator = scale.as_integer_ratio()\n    guided",
        new="    numerator, denominator = max(scale.numerator // scale.denominator, 1), 1\n"
        "    guided",
        about="Scales are rounded down to whole numbers so that few tables are made, and a scale "
        "such as 1.9 draws noise of scale 1.",
        operator="scale",
        subjects=("pegasus", "tide", "rg"),
    ),
    # -- mechanisms --------------------------------------------------------------------------------
    Mutant(
        name="outsider2-busy-keys-end-their-block",
        file="private/mechanisms/tide.py",
        old="        return held >= state.filter.lengths\n",
        new="        busy = np.zeros(len(held), np.bool_)\n"
        "        unit.map(\n"
        "            lambda counts: np.greater(counts, 0, out=busy),\n"
        "            stability=1,\n"
        "            cover=unit.cover,\n"
        "        )\n"
        "        return (held >= state.filter.lengths) | busy\n",
        about="A block also ends with the first unit that has an event, by the raw count, so the "
        "public numbers of units of each block show exactly which keys are empty.",
        operator="mask",
        subjects=("tide",),
    ),
    Mutant(
        name="outsider2-old-group-left-in-the-list",
        file="private/mechanisms/grouper.py",
        old="        young[:, fresh] = 0\n",
        new="        young[0, fresh] = 0\n",
        about="A new group's list still holds the counts of the group that ended, so a person "
        "whose run is over changes the answers of the next run of the key too.",
        operator="state",
        subjects=("pegasus", "hs_pegasus"),
    ),
    Mutant(
        name="outsider2-distance-of-shapes",
        file="private/mechanisms/sampling.py",
        old="                MOVED, unit.distance(rounded(state.last)), threshold=bound(state), "
        "price=price\n",
        new="                MOVED,\n"
        "                unit.map(\n"
        "                    lambda counts: np.abs(\n"
        "                        counts * state.people // max(1, int(counts.sum())) - "
        "rounded(state.last)\n"
        "                    ).sum(keepdims=True),\n"
        "                    stability=1,\n"
        "                    cover=unit.distance(rounded(state.last)).cover,\n"
        "                ),\n"
        "                threshold=bound(state),\n"
        "                price=price,\n",
        about="The distance compares counts that are scaled to the last total, and one event in a "
        "small unit moves it by far more than the 1 that its noise is for.",
        operator="sensitivity",
        subjects=("dsat", "dsft"),
    ),
    Mutant(
        name="outsider2-no-key-above-half-of-all",
        file="private/mechanisms/eshp.py",
        old="            unit.map(lambda counts: counts, stability=2, cover=EACH) if "
        "self.replacement else unit\n"
        "        )\n",
        new="            unit.map(lambda counts: counts, stability=2, cover=EACH) if "
        "self.replacement else unit\n"
        "        )\n"
        "        read = read.map(\n"
        "            lambda counts: np.minimum(counts, int(counts.sum()) // 2), stability=1, "
        "cover=EACH\n"
        "        )\n",
        about="Counts are cut at half of the unit's raw total, so an event in one key also moves "
        "the number of the largest key, and the noise is for one of the two changes.",
        operator="sensitivity",
        subjects=("eshp",),
    ),
    Mutant(
        name="outsider2-jumps-are-logged",
        file="private/mechanisms/rg.py",
        old="            jump = self._jumped(self.watched(unit, gate), last)\n",
        new="            jump = self._jumped(self.watched(unit, gate), last)\n"
        "            if jump.any():\n"
        "                from logging import getLogger\n"
        "\n"
        "                unit.map(\n"
        "                    lambda counts: (\n"
        "                        getLogger(__name__).warning(\n"
        '                            "unit %d: jumped to %s", gate.unit, counts[jump].tolist()\n'
        "                        )\n"
        "                        or counts\n"
        "                    ),\n"
        "                    stability=1,\n"
        "                    cover=unit.cover,\n"
        "                )\n",
        about="The raw counts of keys that have jumped are written to the log.",
        operator="guard",
        subjects=("rg",),
    ),
    Mutant(
        name="outsider2-empty-units-have-not-moved",
        file="private/mechanisms/distance.py",
        old="        distance = gate.number(unit.distance(self.compared(last)), budget=watch, "
        "label=DISTANCE)\n",
        new="        empty: list[bool] = []\n"
        "        unit.map(\n"
        "            lambda counts: empty.append(not counts.any()) or counts,\n"
        "            stability=1,\n"
        "            cover=unit.cover,\n"
        "        )\n"
        "        if empty[0]:\n"
        "            return False\n"
        "        distance = gate.number(unit.distance(self.compared(last)), budget=watch, "
        "label=DISTANCE)\n",
        about="A unit without any event is never measured or published, so a publication, or a "
        "charge for the distance, proves that somebody was there.",
        operator="comparison",
        subjects=("bd", "ba"),
    ),
    Mutant(
        name="outsider2-squared-distances",
        file="private/mechanisms/grouped.py",
        old="                unit.distances(self.compared(last), groups), budget=plan.watch, "
        "label=DISTANCE\n",
        new="                unit.map(\n"
        "                    lambda counts: groups.sums(np.square(counts - self.compared(last))),\n"
        "                    stability=1,\n"
        "                    cover=groups.cover,\n"
        "                ),\n"
        "                budget=plan.watch,\n"
        "                label=DISTANCE,\n",
        about="Squared differences get the noise of absolute ones, and one event in a key that is "
        "far from its last release moves them by hundreds.",
        operator="sensitivity",
        subjects=("bd_grouped", "ba_grouped"),
    ),
    Mutant(
        name="outsider2-busy-keys-are-counted-in-public",
        file="private/mechanisms/fixed.py",
        old="        fresh = publish(self.histogram, unit, self.share, gate)\n",
        new="        from dataclasses import replace\n"
        "\n"
        "        import numpy as np\n"
        "\n"
        "        fresh, busy = publish(self.histogram, unit, self.share, gate), np.zeros(1, "
        "np.int64)\n"
        "        unit.map(\n"
        "            lambda counts: np.sum(counts > 0, keepdims=True, out=busy),\n"
        "            stability=1,\n"
        "            cover=unit.cover,\n"
        "        )\n"
        '        fresh = replace(fresh, public={**fresh.public, "busy": busy})\n',
        about="The release has a public array with the exact number of keys that have events.",
        operator="mask",
        subjects=("sample", "fixed"),
    ),
    Mutant(
        name="outsider2-no-room-for-a-look-within",
        file="private/mechanisms/pan.py",
        old="            exposed=not self.announced,\n",
        new='            exposed=self.intrusion == "between",\n',
        about="With looks at any moment, the default, the counter of a publication is not exposed "
        "in the ledger, which so states nothing for the look that nobody announces.",
        operator="charge",
        subjects=("bd_pan", "ba_pan"),
    ),
    Mutant(
        name="outsider2-an-event-moves-a-deviation-by-one",
        file="private/mechanisms/pegasus.py",
        old="unit, price=price, stability=STABILITY, where=read)",
        new="unit, price=price, stability=FINENESS, where=read)",
        about="One event is said to change a group's deviation by 1, but it moves the mean as well "
        "and changes the deviation by up to 2, so the answers have half of the noise they need.",
        operator="sensitivity",
        subjects=("pegasus", "hs_pegasus", "phs_pegasus"),
    ),
    # -- core --------------------------------------------------------------------------------------
    Mutant(
        name="outsider2-the-first-group-is-free",
        file="core/cover.py",
        old="np.where(self.of >= 0, amounts[self.of], 0)",
        new="np.where(self.of > 0, amounts[self.of], 0)",
        about="The keys of group 0 are charged nothing for their group's number, so the noisy "
        "count of a root costs nobody anything in the ledger.",
        operator="charge",
        subjects=("hs_pegasus", "phs_pegasus", "sample"),
        histograms=("quad_tree", "kd_tree"),
    ),
    Mutant(
        name="outsider2-each-overlap-once",
        file="core/power_series.py",
        old="        2 * (shifts - k) * abs(int(series[k:] @ series[: size - k])) for k in lags\n",
        new="        (shifts - k) * abs(int(series[k:] @ series[: size - k])) for k in lags\n",
        about="Two shifts overlap in both orders and count once, so a person in several units of a "
        "longer window changes the weighted sums by more than the noise is for.",
        operator="sensitivity",
        subjects=("toeplitz",),
    ),
    Mutant(
        name="outsider2-sums-of-one-event",
        file="core/private.py",
        old="            numbers,\n            sensitivity=self.sensitivity,\n",
        new="            numbers,\n            sensitivity=1,\n",
        about="Distances and sums of groups claim that a person has one event, so with a "
        "contribution of 3 they have a third of the noise they need.",
        operator="sensitivity",
        subjects=("bd", "hs_pegasus", "dsft"),
    ),
    # -- bounding ----------------------------------------------------------------------------------
    Mutant(
        name="outsider2-final-parts-forget-persons",
        file="private/partial_counts.py",
        old="                if self.task.places and self.held > MAX_EVENTS_HELD:\n",
        new="                if self.held > MAX_EVENTS_HELD:\n",
        about="A part whose counts are final gives them out when memory is short and forgets its "
        "persons, who count again with their later events of the same unit.",
        operator="bounding",
    ),
    Mutant(
        name="outsider2-kept-events-are-kept-again",
        file="private/counting.py",
        old="            self._kept, self._asked = self._asked, None\n"
        "            self._fresh.clear()\n",
        new="            self._kept, self._asked = self._asked, None\n",
        about="Events that are on disk are stored again with the next changes, so after a restart "
        "an event that is its own person counts several times in its unit.",
        operator="bounding",
    ),
    Mutant(
        name="outsider2-events-move-the-clock",
        file="private/units.py",
        old="        one = self._one(times, now)\n",
        new="        self._now = max(self._now, int(times.max(initial=0)))\n"
        "        one = self._one(times, now)\n",
        about="The newest event's own time moves the clock, so one person's wrong timestamp closes "
        "units early and makes the events of all others late.",
        operator="bounding",
    ),
    Mutant(
        name="outsider2-long-ids-by-their-beginning",
        file="private/person_ids.py",
        old="hashlib.sha256(each).digest() + _PADDING)",
        new="bytes(each[:_DIGEST_BYTES]) + _PADDING)",
        about="Long ids, such as tokens, are told apart by their first 32 bytes only, so one "
        "person's presence displaces the events of another who has the same beginning.",
        operator="bounding",
    ),
    Mutant(
        name="outsider2-last-person-stays",
        file="private/earliest_events.py",
        old="            level[:persons] = NEVER\n",
        new="            level[: persons - 1] = NEVER\n",
        about="The event of the last person of a closed unit stays in the memory that is used "
        "again, where it counts in a later unit or takes the place of another person's event.",
        operator="bounding",
    ),
)
