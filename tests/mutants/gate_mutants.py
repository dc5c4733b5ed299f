"""Mutants of the gate: scales, charges, masks, and what it keeps between units."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_MAKER = "private/gate/release_maker.py"
_GATE = "private/gate/gate.py"
_POTS = "private/gate/pots.py"
_RUNS = "private/gate/threshold_runs.py"
_COUNTERS = "private/gate/counters.py"
_TREES = "private/gate/trees.py"
_SUMS = "private/gate/convolutions.py"

_BASE = "base = self._bases[sensitivity] = sensitivity / self.ledger.grid.quantum"

MAKER = (
    Mutant(
        name="maker-contribution-ignored",
        file=_MAKER,
        old=_BASE,
        new=_BASE.replace("= sensitivity /", "= 1 /"),
        about="Every scale is that of one event, whatever a person contributes.",
        operator="sensitivity",
        subjects=("uniform",),
    ),
    Mutant(
        name="maker-three-events",
        file=_MAKER,
        old=_BASE,
        new=_BASE.replace("= sensitivity /", "= min(sensitivity, 2) /"),
        about="A third event of a person has no noise of its own.",
        operator="sensitivity",
        subjects=("uniform",),
    ),
    Mutant(
        name="maker-scale-0.7",
        file=_MAKER,
        old=_BASE,
        new=f"{_BASE} * Fraction(7, 10)",
        about="All Laplace noise has 0.7 times its scale.",
        operator="scale",
        subjects=("bd",),
    ),
    Mutant(
        name="maker-scale-halved",
        file=_MAKER,
        old="return Scale(base, quanta)",
        new="return Scale(base / 2, quanta)",
        about="All Laplace noise has half of its scale, and a release says so.",
        operator="scale",
        subjects=("fast_w",),
    ),
    Mutant(
        name="maker-base-of-the-first",
        file=_MAKER,
        old="base = self._bases.get(sensitivity)",
        new="base = next(iter(self._bases.values()), None)",
        about="The first sensitivity of a run is used for all later statistics.",
        operator="sensitivity",
        subjects=("pegasus",),
    ),
    Mutant(
        name="maker-masked-counts-shown",
        file=_MAKER,
        old="value = np.zeros(len(raw), np.int64)\n        (places,) = where.nonzero()  # much",
        new="value = raw.copy()\n        (places,) = where.nonzero()  # much",
        about="Numbers outside of the mask are released as they are.",
        operator="mask",
        subjects=("bd_grouped", "rg"),
    ),
    Mutant(
        name="maker-equal-noise-in-mask",
        file=_MAKER,
        old="noisy = self.draw(chosen, len(places), label)",
        new="noisy = np.resize(self.draw(chosen, len(places), label)[:1], len(places))",
        about="All numbers of a mask have the same noise.",
        operator="noise",
        subjects=("bd_grouped", "rg"),
    ),
    Mutant(
        name="maker-noise-repeats-from-key-65",
        file=_MAKER,
        old="value = self.draw(scale, len(raw), label)\n            value += raw",
        new=(
            "value = np.resize(self.draw(scale, len(raw), label)[:64], len(raw))\n"
            "            value += raw"
        ),
        about="Key 65 has the noise of key 1.",
        operator="noise",
        subjects=("uniform",),
    ),
    Mutant(
        name="maker-number-without-noise",
        file=_MAKER,
        old="value = self.draw(scale, 1, label)",
        new="value = np.zeros(1, np.int64)",
        about="A single number for a decision has no noise.",
        operator="noise",
        subjects=("bd",),
    ),
    Mutant(
        name="maker-largest-budget-for-all",
        file=_MAKER,
        old="scales = [scale.base / int(each) for each in quanta]",
        new="scales = [scale.base / int(quanta[-1]) for each in quanta]",
        about="Where numbers have budgets of their own, all get the noise of the largest one.",
        operator="scale",
        subjects=("hs_pegasus", "phs_pegasus"),
    ),
    Mutant(
        name="maker-gaussian-not-squared",
        file=_MAKER,
        old="one = Fraction(sensitivity**2 * denominator, 2 * numerator)",
        new="one = Fraction(sensitivity * denominator, 2 * numerator)",
        about="The variance of Gaussian noise grows with the contribution, not with its square.",
        operator="sensitivity",
        subjects=("uniform@delta",),
    ),
    Mutant(
        name="maker-gaussian-half-variance",
        file=_MAKER,
        old="variance = one / quanta",
        new="variance = one / (2 * quanta)",
        about="Gaussian noise has half of its variance.",
        operator="scale",
        subjects=("bd@delta",),
    ),
    Mutant(
        name="maker-gaussian-mask-shown",
        file=_MAKER,
        old=(
            "value = np.zeros(len(raw), np.int64)\n        (places,) = where.nonzero()\n"
            "        noisy = self.noise.gaussian("
        ),
        new="value = raw.copy()\n        (places,) = where.nonzero()\n"
        "        noisy = self.noise.gaussian(",
        about="With Gaussian noise, numbers outside of the mask are released as they are.",
        operator="mask",
        subjects=("bd_grouped@delta",),
    ),
    Mutant(
        name="maker-old-numbers-accepted",
        file=_MAKER,
        old="if x.unit not in (0, self.ledger.unit):",
        new="if x.unit > self.ledger.unit:",
        about="Numbers of an earlier unit may be read again, and this unit pays.",
        operator="guard",
        subjects=("uniform",),
    ),
    Mutant(
        name="maker-folded-numbers-released",
        file=_MAKER,
        old="        if x.fold:\n            raise self.error(",
        new="        if x.fold and False:\n            raise self.error(",
        about="A statistic that was folded from many units may be released for one charge.",
        operator="guard",
        subjects=("pegasus", "uniform"),
    ),
)

DOOR = (
    Mutant(
        name="gate-laplace-free",
        file=_GATE,
        old="self._ledger.spend(charge, label, where=keys)",
        new="pass",
        about="Laplace noise is drawn and nobody pays.",
        operator="charge",
        subjects=("uniform", "dsft"),
    ),
    Mutant(
        name="gate-budgets-half-charged",
        file=_GATE,
        old="quanta=x.cover.spread(epsilon.quanta))",
        new="quanta=x.cover.spread(epsilon.quanta // 2))",
        about="Where numbers have budgets of their own, half of each is charged.",
        operator="charge",
        subjects=("hs_pegasus",),
    ),
    Mutant(
        name="gate-number-half-charged",
        file=_GATE,
        old="        self._ledger.spend(budget, label)\n        return maker.noisy_number",
        new="        self._ledger.spend(budget // 2, label)\n        return maker.noisy_number",
        about="A number for a decision pays half of its budget.",
        operator="charge",
        subjects=("bd", "ba"),
    ),
    Mutant(
        name="gate-gaussian-free",
        file=_GATE,
        old=(
            "self._ledger.spend(rho, label, where=None if where is None else x.cover.keys(where))"
        ),
        new="pass",
        about="Gaussian noise is drawn and nobody pays.",
        operator="charge",
        subjects=("tide@delta", "uniform@delta"),
    ),
    Mutant(
        name="gate-charge-after-the-draw",
        file=_GATE,
        old=(
            "        self._ledger.spend(charge, label, where=keys)\n"
            "        return maker.noisy(raw, scale, label, where)"
        ),
        new=(
            "        released = maker.noisy(raw, scale, label, where)\n"
            "        self._ledger.spend(charge, label, where=keys)\n"
            "        return released"
        ),
        about="Noise is drawn first and charged afterwards, so a refusal comes too late.",
        operator="charge",
        subjects=("uniform",),
    ),
    Mutant(
        name="gate-charge-without-refusal",
        file=_GATE,
        old="        self._ledger.spend(charge, label, where=keys)\n",
        new=(
            "        try:\n            self._ledger.spend(charge, label, where=keys)\n"
            "        except Exception:\n            pass\n"
        ),
        about="A refusal of the ledger is swallowed, and the noise is drawn all the same.",
        operator="guard",
        subjects=("uniform", "ba"),
    ),
    Mutant(
        name="gate-sample-of-more-events",
        file=_GATE,
        old="afforded = amplified(epsilon, keep=keep, events=x.sensitivity)",
        new="afforded = amplified(epsilon, keep=keep, events=2 * x.sensitivity)",
        about="A sample affords what it affords for twice as many events of a person.",
        operator="sensitivity",
        subjects=("rg",),
    ),
    Mutant(
        name="gate-sample-scale-of-one",
        file=_GATE,
        old="scale = maker.scale(x.sensitivity, afforded)",
        new="scale = maker.scale(1, afforded)",
        about="Noise on a sample has the scale of one event.",
        operator="sensitivity",
        subjects=("rg",),
    ),
    Mutant(
        name="gate-not-sampled",
        file=_GATE,
        old="sample = maker.noise.thin(counts, keep, unit=self.unit, label=draw)",
        new="sample = counts",
        about="Noise is as small as a sample affords, but nothing is sampled.",
        operator="scale",
        subjects=("rg",),
    ),
    Mutant(
        name="gate-split-scale",
        file=_GATE,
        old="maker.scale(x.sensitivity * Fraction(2 * kappa - 1, kappa - 1), epsilon)",
        new="maker.scale(x.sensitivity, epsilon)",
        about="The noise of a split is that of one question, not of a path.",
        operator="scale",
        subjects=("phs_pegasus",),
    ),
    Mutant(
        name="gate-split-no-floor",
        file=_GATE,
        old="scores = np.maximum(threshold - step, totals - tree.depths * step)",
        new="scores = totals - tree.depths * step",
        about="Totals that are far below the threshold still change the chance of a split.",
        operator="comparison",
        subjects=("phs_pegasus",),
    ),
    Mutant(
        name="gate-split-no-decay",
        file=_GATE,
        old="scores = np.maximum(threshold - step, totals - tree.depths * step)",
        new="scores = np.maximum(threshold - step, totals)",
        about="Every level of a deep tree is as likely to be split.",
        operator="window",
        subjects=("phs_pegasus",),
    ),
    Mutant(
        name="gate-split-free",
        file=_GATE,
        old="self._ledger.spend(epsilon, label)\n        totals = tree",
        new="totals = tree",
        about="A tree is split and nobody pays.",
        operator="charge",
        subjects=("phs_pegasus",),
    ),
    Mutant(
        name="gate-pots-not-restored",
        file=_GATE,
        old="self.pots.load(secrets.pots)",
        new="self.pots.load({})",
        about="After a restart the sums that were held are gone.",
        operator="state",
        subjects=("rg", "tide"),
    ),
    Mutant(
        name="gate-thresholds-not-restored",
        file=_GATE,
        old="self.runs.load(secrets.folds, secrets.runs)",
        new="self.runs.load(secrets.folds, {})",
        about="After a restart the noise of open thresholds is drawn again.",
        operator="state",
        subjects=("pegasus", "dsft"),
    ),
    Mutant(
        name="gate-nodes-not-restored",
        file=_GATE,
        old="self.trees.load(secrets.nodes)",
        new="self.trees.load({})",
        about="After a restart the noise of tree nodes is drawn again.",
        operator="state",
        subjects=("sw_tree", "kary"),
    ),
)

POTS = (
    Mutant(
        name="pots-free",
        file=_POTS,
        old=(
            "maker.ledger.spend(epsilon, pot, where=None if where is None else x.cover.keys(where))"
        ),
        new="pass",
        about="A pot is filled and nobody pays.",
        operator="charge",
        subjects=("rg", "tide"),
    ),
    Mutant(
        name="pots-not-emptied",
        file=_POTS,
        old="        self._empty(pot, held, where)\n        return released",
        new="        return released",
        about="A pot that was poured keeps its content, which is released again.",
        operator="state",
        subjects=("rg", "tide"),
    ),
    Mutant(
        name="pots-scale-halved",
        file=_POTS,
        old="scale = Scale(maker.base(held.sensitivity), held.quanta)",
        new="scale = Scale(maker.base(held.sensitivity), 2 * held.quanta)",
        about="A pot is poured with half of the noise.",
        operator="scale",
        subjects=("rg", "tide"),
    ),
    Mutant(
        name="pots-other-numbers-emptied",
        file=_POTS,
        old="held.total *= ~where",
        new="held.total *= where",
        about="The numbers that were poured stay in the pot, and the others go.",
        operator="mask",
        subjects=("rg", "tide"),
    ),
    Mutant(
        name="pots-not-dropped",
        file=_POTS,
        old="            self._empty(pot, held, self._maker.mask_of(where, len(held.total)))",
        new="            pass",
        about="Numbers that should be dropped stay in the pot.",
        operator="state",
        subjects=("rg",),
    ),
    Mutant(
        name="pots-uncharged-numbers-added",
        file=_POTS,
        old="held.total[where] += raw[where]",
        new="held.total += raw",
        about="Numbers outside of the mask are added to a pot, and nobody pays for them.",
        operator="mask",
        subjects=("rg", "tide"),
    ),
    Mutant(
        name="pots-price-may-change",
        file=_POTS,
        old="elif (held.quanta, held.sensitivity, len(held.total)) != (",
        new="elif held is None and (held.quanta, held.sensitivity, len(held.total)) != (",
        about="A pot that was begun with one price goes on with another.",
        operator="guard",
        subjects=("rg", "tide"),
    ),
)

RUNS = (
    Mutant(
        name="runs-threshold-reused-after-yes",
        file=_RUNS,
        old="            runs.open &= ~answer\n            runs.noise[answer] = 0\n",
        new="            pass\n",
        about="A run goes on with the noise of its threshold after a positive answer.",
        operator="noise",
        subjects=("pegasus",),
    ),
    Mutant(
        name="runs-question-scale-halved",
        file=_RUNS,
        old="nu_scale = maker.scale(statistic.sensitivity, price.question)",
        new="nu_scale = maker.scale(statistic.sensitivity, price.question * 2)",
        about="Questions have half of their noise.",
        operator="scale",
        subjects=("pegasus", "dsft@user"),
    ),
    Mutant(
        name="runs-threshold-scale-halved",
        file=_RUNS,
        old="rho_scale = maker.scale(statistic.sensitivity, price.threshold)",
        new="rho_scale = maker.scale(statistic.sensitivity, price.threshold * 2)",
        about="Thresholds have half of their noise.",
        operator="scale",
        subjects=("pegasus", "dsft@user"),
    ),
    Mutant(
        name="runs-threshold-for-free",
        file=_RUNS,
        old="        maker.ledger.spend(price.threshold + price.question * 2, run, where=keys)",
        new="        maker.ledger.spend(price.question * 2, run, where=keys)",
        about="A fold pays for its questions and not for its threshold.",
        operator="charge",
        subjects=("pegasus",),
    ),
    Mutant(
        name="runs-question-paid-once",
        file=_RUNS,
        old="        maker.ledger.spend(price.threshold + price.question * 2, run, where=keys)",
        new="        maker.ledger.spend(price.threshold + price.question, run, where=keys)",
        about="A positive answer costs a question once, not twice.",
        operator="charge",
        subjects=("pegasus",),
    ),
    Mutant(
        name="runs-uncharged-numbers-folded",
        file=_RUNS,
        old="            raw[~where] = 0\n",
        new="            pass\n",
        about="Counts that nobody pays for are folded.",
        operator="mask",
        subjects=("phs_pegasus",),
    ),
    Mutant(
        name="runs-yes-not-recorded",
        file=_RUNS,
        old="maker.ledger.yes(runs.number)",
        new="pass",
        about="The ledger is not told of positive answers.",
        operator="charge",
        subjects=("dsft", "dsat@user"),
    ),
    Mutant(
        name="runs-later-questions-free",
        file=_RUNS,
        old="                ledger.ask(runs.number)\n",
        new="                pass\n",
        about="Only the first question of a run is charged.",
        operator="charge",
        subjects=("dsft", "dsat@user"),
    ),
    Mutant(
        name="runs-threshold-anew",
        file=_RUNS,
        old="starting = asked & ~runs.open",
        new="starting = asked.copy()",
        about="Every question has a new noisy threshold, for the price of one.",
        operator="noise",
        subjects=("pegasus", "dsft"),
    ),
    Mutant(
        name="runs-not-closed",
        file=_RUNS,
        old="        runs.open[ended] = False\n        runs.noise[ended] = 0\n",
        new="        pass\n",
        about="A run that was closed goes on with its old threshold.",
        operator="state",
        subjects=("dsft", "dsat"),
    ),
    Mutant(
        name="runs-one-threshold-for-all-keys",
        file=_RUNS,
        old="answer: BoolArray = asked & (numbers + question >= threshold + runs.noise)",
        new=(
            "answer: BoolArray = asked & (numbers + question >= threshold "
            "+ np.resize(runs.noise[:1], size))"
        ),
        about="All keys share the threshold noise of the first key.",
        operator="noise",
        subjects=("pegasus",),
    ),
)

COUNTERS = (
    Mutant(
        name="counters-exposure-forgotten",
        file=_COUNTERS,
        old="maker.ledger.expose(epsilon, counter)",
        new="pass",
        about="The ledger keeps no room for a look into the memory.",
        operator="charge",
        subjects=("bd_pan",),
    ),
    Mutant(
        name="counters-distance-free",
        file=_COUNTERS,
        old="            maker.ledger.spend(epsilon, counter)\n",
        new="            pass\n",
        about="A counter that is read in any case is not paid for when it is primed.",
        operator="charge",
        subjects=("bd_pan", "ba_pan"),
    ),
    Mutant(
        name="counters-read-free",
        file=_COUNTERS,
        old="maker.ledger.spend(held.epsilon, counter, settle=held.exposed)",
        new="pass",
        about="A counter is released and nobody pays.",
        operator="charge",
        subjects=("bd_pan", "ba_pan@between"),
    ),
    Mutant(
        name="counters-no-fresh-noise",
        file=_COUNTERS,
        old="        if again:\n",
        new="        if again and False:\n",
        about="A counter is released with the noise that an intruder may have seen.",
        operator="noise",
        subjects=("bd_pan",),
    ),
    Mutant(
        name="counters-contribution-ignored",
        file=_COUNTERS,
        old="scale = maker.scale(sensitivity, epsilon)",
        new="scale = maker.scale(1, epsilon)",
        about="A counter is primed with noise for one event.",
        operator="sensitivity",
        subjects=("bd_pan", "ba_pan@between"),
    ),
    Mutant(
        name="counters-left-behind",
        file=_COUNTERS,
        old="        held.total.fill(0)\n        del self._held[counter]\n",
        new="        del self._held[counter]\n",
        about="A counter that is forgotten is not wiped, so its array stays in memory.",
        operator="state",
        subjects=("bd_pan",),
        equivalent=(
            "the array holds counts on top of its noise, and nothing refers to it any more: "
            "whoever reads freed memory sees what an unannounced look at this unit would have "
            "seen, and the ledger has kept room for that"
        ),
    ),
)

SUMS = (
    Mutant(
        name="trees-one-level",
        file=_TREES,
        old="scale = maker.scale(x.sensitivity * len(nodes.sizes), epsilon)",
        new="scale = maker.scale(x.sensitivity, epsilon)",
        about="Noise of tree nodes is for one level, whatever the height of the tree.",
        operator="scale",
        subjects=("sw_tree", "kary"),
    ),
    Mutant(
        name="trees-deep-level-forgotten",
        file=_TREES,
        old="scale = maker.scale(x.sensitivity * len(nodes.sizes), epsilon)",
        new="scale = maker.scale(x.sensitivity * min(len(nodes.sizes), 4), epsilon)",
        about="Trees of more than four levels have too little noise.",
        operator="scale",
        subjects=("sw_tree",),
    ),
    Mutant(
        name="trees-free",
        file=_TREES,
        old="maker.ledger.spend(epsilon, label)",
        new="pass",
        about="Window sums are released and nobody pays.",
        operator="charge",
        subjects=("sw_tree", "kary"),
    ),
    Mutant(
        name="trees-equal-nodes",
        file=_TREES,
        old="maker.draw(scale, len(fresh) * len(raw), label).reshape(len(fresh), len(raw))",
        new="np.tile(maker.draw(scale, len(raw), label), (len(fresh), 1))",
        about="Nodes that begin in the same unit have the same noise.",
        operator="noise",
        subjects=("sw_tree", "kary"),
    ),
    Mutant(
        name="trees-sum-of-everything",
        file=_TREES,
        old="        held.total -= row\n",
        new="",
        about="Units that leave the window stay in its sum, without noise of their own.",
        operator="window",
        subjects=("sw_tree", "kary"),
    ),
    Mutant(
        name="sums-not-squared",
        file=_SUMS,
        old="sensitivity**2 * longest(coefficients, window) / (2 * window * rho.amount)",
        new="sensitivity * longest(coefficients, window) / (2 * window * rho.amount)",
        about="The variance of weighted sums grows with the contribution, not with its square.",
        operator="sensitivity",
        subjects=("toeplitz",),
    ),
    Mutant(
        name="sums-of-one-unit",
        file=_SUMS,
        old="sensitivity**2 * longest(coefficients, window) / (2 * window * rho.amount)",
        new="sensitivity**2 * longest(coefficients, 1) / (2 * window * rho.amount)",
        about="The noise of weighted sums is for a person who is there in one unit.",
        operator="window",
        subjects=("toeplitz",),
    ),
    Mutant(
        name="sums-free",
        file=_SUMS,
        old="maker.ledger.spend(rho, label)",
        new="pass",
        about="Weighted sums are released and nobody pays.",
        operator="charge",
        subjects=("toeplitz",),
    ),
)

GATE_MUTANTS = (*MAKER, *DOOR, *POTS, *RUNS, *COUNTERS, *SUMS)
