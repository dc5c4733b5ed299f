"""Forty mutants by somebody who had seen neither the tests nor the auditor.

Their first score is an estimate for faults that are not in the catalogue.
"""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_OF_CORE = (
    Mutant(
        name="outsider-first-answer-leaves-threshold-at-zero",
        file="private/gate/threshold_runs.py",
        old="            runs.open &= ~answer\n",
        new="            runs.open &= ~answer | starting\n",
        about="A run that ends with its very first question stays open with its noise wiped, so "
        "the next run of that key asks against a threshold without noise.",
        operator="noise",
        subjects=("pegasus", "hs_pegasus"),
    ),
    Mutant(
        name="outsider-one-output-noise-for-all-keys",
        file="private/gate/counters.py",
        old='noise = maker.draw(held.scale, len(value), f"{counter}.output")',
        new='noise = maker.draw(held.scale, 1, f"{counter}.output")',
        about="The fresh noise between memory and output is one number for all keys, so output "
        "minus a look gives exact differences between keys.",
        operator="noise",
        subjects=("bd_pan", "ba_pan"),
    ),
    Mutant(
        name="outsider-node-noise-redrawn-after-restart",
        file="private/gate/trees.py",
        old="        self._held = held\n",
        new=(
            "        self._held = {\n"
            "            label: replace(each, noise={}) for label, each in held.items()\n"
            "        }\n"
        ),
        about="A restart forgets the noise of tree nodes and draws it again, so the same sums of "
        "counts are released twice with independent noise for one charge.",
        operator="state",
        subjects=("kary", "sw_tree"),
    ),
    Mutant(
        name="outsider-convolution-keeps-the-oldest",
        file="private/gate/convolutions.py",
        old="kept = max(len(coefficients) - 2, 0)",
        new="kept = max(len(coefficients) - 1, 0)",
        about="From the unit on in which all coefficients are in use, the newest counts are cut "
        "off and the oldest stay for ever: they enter every later sum without being paid for.",
        operator="window",
        subjects=("toeplitz",),
    ),
    Mutant(
        name="outsider-split-bias-does-not-grow",
        file="private/gate/gate.py",
        old="totals - tree.depths * step)",
        new="totals - (tree.depths > 0) * step)",
        about="PrivTree's bias is the same at every depth below the roots, so a path of several "
        "nodes with the same total loses 1/λ at each of them.",
        operator="sensitivity",
        subjects=("phs_pegasus",),
    ),
    Mutant(
        name="outsider-first-group-is-free",
        file="core/cover.py",
        old="chosen[self.of] & (self.of >= 0)",
        new="chosen[self.of] & (self.of > 0)",
        about="Keys of group 0 are read but never charged where groups are chosen: a single root "
        "or a whole grid costs nothing in the ledger.",
        operator="mask",
        subjects=("hs_pegasus", "phs_pegasus", "sample"),
        histograms=("quad_tree", "kd_tree"),
    ),
    Mutant(
        name="outsider-restart-forgets-the-oldest-unit",
        file="budget/ledger.py",
        old="units = range(max(1, state.unit - self._window + 1), state.unit + 1)",
        new="units = range(max(1, state.unit - self._window + 2), state.unit + 1)",
        about="After a restart the sum of the window lacks its oldest unit, which is taken away "
        "once more with the next unit: the ledger stays too low for ever.",
        operator="state",
        subjects=("fast", "uniform", "dsft@user"),
    ),
    Mutant(
        name="outsider-gaussian-sensitivity-not-squared",
        file="private/gate/release_maker.py",
        old="one = Fraction(sensitivity**2 * denominator, 2 * numerator)",
        new="one = Fraction(sensitivity * denominator, 2 * numerator)",
        about="The variance of Gaussian noise grows with the contribution, not with its square: "
        "too small as soon as a person may have two events.",
        operator="sensitivity",
        subjects=("uniform@delta", "bd@delta", "tide@delta"),
    ),
    Mutant(
        name="outsider-accountant-skips-unit-one",
        file="budget/accountant.py",
        old="sums[np.maximum(ends - window, 0)]",
        new="sums[np.maximum(ends - window, 1)]",
        about="The accountant leaves unit 1 out of every window that has it, so the account "
        "understates the first window.",
        operator="window",
        subjects=("sample", "fixed", "tide"),
    ),
    Mutant(
        name="outsider-differences-left-in-memory",
        file="core/private.py",
        old="self.__scratch.append(difference)",
        new="self.__scratch.append(difference.copy())",
        about="A copy of the differences is overwritten after the step in place of the "
        "differences themselves, so |c - o| of every key is left in freed memory.",
        operator="state",
        subjects=("bd_pan@between", "ba_pan@between"),
    ),
    Mutant(
        name="outsider-snapshot-of-another-epsilon",
        file="private/run.py",
        old="        if here != there:\n",
        new="        if here.keys() != there.keys():\n",
        about="A snapshot is loaded under another epsilon or window as long as the parameters "
        "have the same names: what was spent is then counted in other quanta.",
        operator="guard",
        subjects=("uniform", "bd"),
    ),
    Mutant(
        name="outsider-unchanged-secret-pieces-are-seen",
        file="private/state.py",
        old='COMPARED = frozenset({"state", "last"})',
        new='COMPARED = frozenset({"state", "last", "secrets"})',
        about="Pieces of raw sums are compared too before they are written: which files are "
        "written again says which stretch of keys had no event.",
        operator="mask",
        subjects=("tide", "rg", "sw_tree"),
    ),
)

_OF_NOISE = (
    Mutant(
        name="outsider-cells-with-one-threshold-not-refined",
        file="private/noise/tables.py",
        old="guide[held > 0] = _MARK",
        new="guide[held > 1] = _MARK",
        about="With more than 512 keys, outcomes are decided by 16 bits where a cell has one "
        "threshold: rare outcomes have up to twice or none of their probability.",
        operator="noise",
        subjects=("uniform", "laplace"),
    ),
    Mutant(
        name="outsider-large-gaussian-cut-towards-zero",
        file="private/noise/gaussian.py",
        old="        low += 1\n        low >>= 1\n",
        new="        low >>= 1\n",
        about="Gaussian noise with a deviation above 64 is cut towards 0 in place of rounded: 0 "
        "has twice its probability, so true counts stand out.",
        operator="noise",
        subjects=("uniform@delta", "bd@delta", "tide@delta"),
    ),
    Mutant(
        name="outsider-no-new-randomness-while-a-key-lives",
        file="private/noise/source.py",
        old="        self._bits.refresh()\n",
        new="        if self._bits.stream is None:\n            self._bits.refresh()\n",
        about="A unit brings no new randomness while there is a key, so a copy of the machine "
        "draws the same noise as the original.",
        operator="noise",
        subjects=("uniform", "laplace"),
    ),
    Mutant(
        name="outsider-digit-of-the-next-scale",
        file="private/noise/laplace.py",
        old="        digits.append((DigitLaw(scale.numerator, scale.denominator), shift))\n"
        "        scale /= BASE\n",
        new="        scale /= BASE\n"
        "        digits.append((DigitLaw(scale.numerator, scale.denominator), shift))\n",
        about="For scales above 128 the low digits of the noise are 256 times too narrow: its "
        "variance is nearly right, but its remainder by 256 shows the count's.",
        operator="noise",
        subjects=("uniform", "laplace"),
    ),
)

_OF_MECHANISMS = (
    Mutant(
        name="outsider-stale-members-of-ended-groups",
        file="private/mechanisms/grouper.py",
        old="        young[:, fresh] = 0\n",
        new="        young[0, fresh] = 0\n",
        about="The counts of a key's ended group stay in its list and enter the deviation of its "
        "next group while another key's group is longer.",
        operator="state",
        subjects=("pegasus", "hs_pegasus"),
    ),
    Mutant(
        name="outsider-far-members-forgotten-only-when-full",
        file="private/mechanisms/multisets.py",
        old="        if self.far:\n            gone",
        new="        if self.far == len(self.far_key):\n            gone",
        about="Counts far from the mean of a long group stay listed when the group ends, and "
        "enter the deviation of the key's next long group.",
        operator="state",
        subjects=("pegasus",),
    ),
    Mutant(
        name="outsider-distance-decided-by-the-noise-in-memory",
        file="private/mechanisms/pan.py",
        old="gate.counters.read(DISTANCE, again=True)",
        new="gate.counters.read(DISTANCE, again=False)",
        about="The decision uses the very noise that a look into the memory sees, so the look and "
        "the decision together show exact counts of what came in between.",
        operator="noise",
        subjects=("bd_pan", "ba_pan"),
    ),
    Mutant(
        name="outsider-look-not-reserved",
        file="private/mechanisms/pan.py",
        old="exposed=not self.announced,",
        new="exposed=False,",
        about="The ledger keeps no room for an unannounced look, so a look into a unit that is not "
        "published costs nothing in the ledger.",
        operator="charge",
        subjects=("bd_pan", "ba_pan", "ba_pan@between"),
    ),
    Mutant(
        name="outsider-replacement-at-the-price-of-addition",
        file="private/mechanisms/eshp.py",
        old="unit.map(lambda counts: counts, stability=2, cover=EACH)",
        new="unit.map(lambda counts: counts, stability=1, cover=EACH)",
        about="With replacement=True the noise is that of an event added or removed: half of what "
        "the promise about replaced events needs.",
        operator="sensitivity",
        subjects=("eshp",),
    ),
    Mutant(
        name="outsider-surge-ends-the-block",
        file="private/mechanisms/tide.py",
        old="        return held >= state.filter.lengths\n",
        new="        surge = np.zeros(len(held), np.bool_)\n"
        "        unit.map(\n"
        "            lambda counts: np.greater(counts, 1000, out=surge), stability=1, cover=ALL\n"
        "        )\n"
        "        return (held >= state.filter.lengths) | surge\n",
        about="A block ends at once where its key's true count is above 1000, so the end of a "
        "block shows a count without noise.",
        operator="comparison",
        subjects=("tide",),
    ),
    Mutant(
        name="outsider-people-counted-exactly",
        file="private/mechanisms/sampling.py",
        old="        return self._after(state, fresh, now), fresh\n",
        new="        people: list[int] = []\n"
        "        unit.map(\n"
        "            lambda counts: people.append(int(counts.sum())) or counts,\n"
        "            stability=1,\n"
        "            cover=unit.cover,\n"
        "        )\n"
        "        after = self._after(state, fresh, now)\n"
        "        return replace(after, people=self.population or max(1, people[0])), fresh\n",
        about="The number of people that thresholds are shares of is the true total of the "
        "released unit, kept in the public state.",
        operator="comparison",
        subjects=("dsft", "dsat", "dsft@user"),
    ),
    Mutant(
        name="outsider-groups-by-true-counts",
        file="private/mechanisms/grouped.py",
        old="        squares = state.squares + np.square(last.value, dtype=np.float64)\n",
        new="        squares = state.squares.copy()\n"
        "        unit.map(\n"
        "            lambda counts: np.add(squares, counts**2, out=squares).astype(np.int64),\n"
        "            stability=1,\n"
        "            cover=unit.cover,\n"
        "        )\n",
        about="Keys are grouped by the squares of their true counts, from the first regrouping "
        "(unit 20 or later) on.",
        operator="comparison",
        subjects=("bd_grouped", "ba_grouped"),
    ),
    Mutant(
        name="outsider-feedback-from-true-counts",
        file="private/mechanisms/fast.py",
        old="        state = self.controlled(state, track, gate.unit)\n",
        new="        seen: list[FloatArray] = []\n"
        "        unit.map(\n"
        "            lambda counts: seen.append(counts.astype(np.float64)) or counts,\n"
        "            stability=1,\n"
        "            cover=unit.cover,\n"
        "        )\n"
        "        truth = replace(track, level=seen[0])\n"
        "        state = replace(self.controlled(state, truth, gate.unit), track=track)\n",
        about="The controller's error is that of the prediction against the true counts, so the "
        "unit of the next sample depends on them without noise.",
        operator="comparison",
        subjects=("fast", "fast_w"),
    ),
    Mutant(
        name="outsider-nothing-moved-nothing-measured",
        file="private/mechanisms/distance.py",
        old="        distance = gate.number(unit.distance(self.compared(last)), budget=watch, "
        "label=DISTANCE)\n",
        new="        away, still = unit.distance(self.compared(last)), []\n"
        "        away.map(\n"
        "            lambda total: still.append(not total.any()) or total,\n"
        "            stability=1,\n"
        "            cover=away.cover,\n"
        "        )\n"
        "        if still[0]:\n"
        "            return False  # there is nothing to publish, so it costs nothing\n"
        "        distance = gate.number(away, budget=watch, label=DISTANCE)\n",
        about="A unit whose true counts equal the last release is neither measured nor charged, "
        "which the ledger shows and the decision too.",
        operator="charge",
        subjects=("bd", "ba", "bd@delta"),
    ),
    Mutant(
        name="outsider-empty-keys-are-not-watched",
        file="private/mechanisms/rg.py",
        old="            return gate.laplace(unit, epsilon=self.watching, label=WATCH)"
        ".value.astype(np.float64)\n",
        new="            some: list[BoolArray] = []\n"
        "            unit.map(\n"
        "                lambda counts: some.append(counts > 0) or counts,\n"
        "                stability=1,\n"
        "                cover=unit.cover,\n"
        "            )\n"
        "            noisy = gate.laplace(\n"
        "                unit, epsilon=self.watching, label=WATCH, where=some[0]\n            )\n"
        "            return noisy.value.astype(np.float64)\n",
        about="The watch leaves out keys without events: these get no noise and are not charged.",
        operator="mask",
        subjects=("rg",),
    ),
    Mutant(
        name="outsider-group-goes-on-after-its-end",
        file="private/mechanisms/pegasus.py",
        old="    over = broken | (state.over & ~opens) | ",
        new="    over = (state.over & ~opens) | ",
        about="After a positive answer the fold does not start over, so the counts of the ended "
        "group are asked about again by every later run, for nothing.",
        operator="charge",
        subjects=("pegasus", "hs_pegasus", "phs_pegasus"),
    ),
    Mutant(
        name="outsider-busy-counts-rounded-to-fives",
        file="private/mechanisms/bs.py",
        old='        fresh = gate.laplace(unit, epsilon=self.share, label="publish")\n',
        new="        tidy = unit.map(\n"
        "            lambda counts: counts + (counts > 99) * (-counts % 5),\n"
        "            stability=1,\n"
        "            cover=unit.cover,\n"
        "        )\n"
        '        fresh = gate.laplace(tidy, epsilon=self.share, label="publish")\n',
        about="Counts from 100 on are rounded up to multiples of five before the noise, so one "
        "event may change a number by five.",
        operator="sensitivity",
        subjects=("bs",),
    ),
    Mutant(
        name="outsider-empty-nodes-are-not-split",
        file="private/mechanisms/hierarchical.py",
        old='        """The nodes whose children are read in this unit."""\n'
        "        return tree.inner\n",
        new='        """The nodes whose children are read in this unit."""\n'
        "        busy = np.zeros(tree.nodes.size, np.bool_)\n"
        "        unit.map(\n"
        "            lambda counts: np.greater(tree.nodes.totals(counts), 0, out=busy),\n"
        "            stability=1,\n"
        "            cover=unit.cover,\n"
        "        )\n"
        "        return tree.inner & busy\n",
        about="Below a node whose true total is 0 nothing is read, which shows in the release: "
        "numbers without noise and other scales.",
        operator="mask",
        subjects=("hs_pegasus",),
    ),
)

_OF_HISTOGRAMS = (
    Mutant(
        name="outsider-ties-in-order-of-true-counts",
        file="private/histograms/greedy.py",
        old='        order = np.argsort(first.value, kind="stable")\n',
        new="        ties: list[IntArray] = []\n"
        "        counts.map(\n"
        "            lambda numbers: ties.append(numbers) or numbers,\n"
        "            stability=1,\n"
        "            cover=counts.cover,\n"
        "        )\n"
        "        order = np.lexsort((ties[0], first.value))\n",
        about="Keys with equal noisy counts are ordered by their true counts, which decides the "
        "groups and who gets the larger part of a total.",
        operator="comparison",
        subjects=("sample", "fixed"),
        histograms=("greedy",),
    ),
    Mutant(
        name="outsider-apart-is-measured",
        file="private/histograms/greedy.py",
        old="        return replace(noisy, value=shared_out(totals, groups), "
        "public={APART: apart})\n",
        new="        value = shared_out(totals, groups)\n"
        "        away = counts.distance(value)\n"
        "        away.map(\n"
        "            lambda total: apart.__setitem__(slice(None), total) or total,\n"
        "            stability=1,\n"
        "            cover=away.cover,\n"
        "        )\n"
        "        return replace(noisy, value=value, public={APART: apart})\n",
        about="public['apart'] is the true distance between the release and the counts in place "
        "of the expected one: an exact number about the counts.",
        operator="noise",
        subjects=("dsft", "sample"),
        histograms=("greedy",),
    ),
    Mutant(
        name="outsider-finished-cells-are-read-again",
        file="private/histograms/spatial.py",
        old="len(outside) + np.cumsum(sizes) - sizes)",
        new="np.cumsum(sizes) - sizes)",
        about="Where some cells are in no block, sums begin too early: cells that have spent all "
        "of their budget are read again by other blocks and not charged.",
        operator="mask",
        subjects=("sample", "fixed"),
        histograms=("quad_tree", "kd_tree"),
    ),
    Mutant(
        name="outsider-empty-lines-have-no-noise",
        file="private/histograms/kd_tree.py",
        old="        noisy = gate.laplace(counts.sums(cells(lines, shape)), epsilon=spend, "
        "label=label).value\n",
        new="        totals, empty = counts.sums(cells(lines, shape)), list[IntArray]()\n"
        "        totals.map(\n"
        "            lambda sums: empty.append(sums == 0) or sums,\n"
        "            stability=1,\n"
        "            cover=totals.cover,\n"
        "        )\n"
        "        noisy = gate.laplace(totals, epsilon=spend, label=label).value\n"
        "        noisy = np.where(empty[0], 0, noisy)\n",
        about="Rows and columns without people are taken for 0 without noise when a cut is "
        "chosen, so cuts show where nobody is.",
        operator="noise",
        subjects=("sample", "fixed"),
        histograms=("kd_tree",),
    ),
)

_OF_BOUNDING = (
    Mutant(
        name="outsider-long-ids-by-their-beginning",
        file="private/person_ids.py",
        old="hashlib.sha256(each).digest()",
        new="hashlib.sha256(each[:MAX_TEXT_BYTES]).digest()",
        about="Ids of more than 128 bytes with the same beginning are one person, so the events "
        "of one push out those of another.",
        operator="bounding",
    ),
    Mutant(
        name="outsider-late-events-follow-the-newest-event",
        file="private/units.py",
        old="        current = self.calendar.unit_at(self._now)\n",
        new="        current = max(int(places.max(initial=0)), self._shut + 1)\n",
        about='With late="current", late events count in the newest unit of any event of the batch '
        "in place of the clock's: one person's timestamp moves the events of others.",
        operator="bounding",
    ),
    Mutant(
        name="outsider-second-events-survive-the-unit",
        file="private/earliest_events.py",
        old="        for level in self._levels:\n            level[:persons] = NEVER\n",
        new="        for level in self._levels[:1]:\n            level[:persons] = NEVER\n",
        about="With a contribution above 1, second and later events of persons are not removed "
        "with the unit and count again in the next ones.",
        operator="bounding",
    ),
    Mutant(
        name="outsider-place-by-the-next-id-too",
        file="private/person_places.py",
        old="        tail &= (np.uint32(1) << (8 * rest[rows]).astype(np.uint32)) - np.uint32(1)\n",
        new="        tail &= np.uint32(0x00FFFFFF)\n",
        about="The hash of an id with one or two bytes beyond a multiple of four reads the "
        "beginning of the id behind it, so a person's events go to several places and count in "
        "each.",
        operator="bounding",
    ),
    Mutant(
        name="outsider-saved-ids-lose-their-offset",
        file="private/bounding.py",
        old="ids = there + self._low if self._close else",
        new="ids = there if self._close else",
        about="Ids that lie close together are saved as distances from the smallest, so after a "
        "restart or a merge the same person is another one and counts again.",
        operator="bounding",
    ),
    Mutant(
        name="outsider-open-units-share-the-spare",
        file="private/counting.py",
        old="        spare, self._spare = self._spare, None\n",
        new="        spare = self._spare\n",
        about="Units that are open together share one bounding, so events count in both units, "
        "and closing the first empties the second.",
        operator="bounding",
    ),
)

OUTSIDER_MUTANTS = (
    *_OF_CORE,
    *_OF_NOISE,
    *_OF_MECHANISMS,
    *_OF_HISTOGRAMS,
    *_OF_BOUNDING,
)
