r"""The exact audit: the probability of an output, computed from the shipped code.

Noise is discrete, so every output has a probability that can be computed. The loss at an output is
the logarithm of the ratio of its probabilities under two neighbouring streams. The mechanism's own
`step` runs with noise that we choose (`ScriptedNoise`), and the probabilities of our choices are
added up:

- *Publication noise* (labels that begin with "publish") is added to released counts. For a given
  output exactly one value fits. The audit runs the step without noise and takes the difference.
- *Decision noise* (every other label, such as distances) shows only through the decision. All
  values that lead to the same decision are one case, and their probabilities are added up.

Some properties are used without being enumerated. They are checked at every unit of every output
that is followed:

1. Publication noise is additive. Two layers of it (`bd_pan` within a unit) matter only through
   their sum, unless a look sees the first. Check: the step with the noise found must give exactly
   the requested output.
2. A skipped unit does not depend on the noise of a counter that is then forgotten. Check: the same
   with other noise.
3. One distance with one layer of noise is compared with one threshold (`distance.py`, `pan.py`), so
   the decision is monotone in the noise. With two layers (`bd_pan` within a unit), \|Σ(c − o) +
   noise\| is compared, which is monotone on either side of 0. Bisection finds the turning points,
   however far out. Check: both ends of a case lead to the same state.
4. With several distances, one per group of keys, every group's answer grows with each of them
   (`grouped.py`). The values are divided into boxes at each distance's turning point. A box whose
   two extreme corners lead to the same state is one case. Where that fails, all values are tried,
   up to a tail whose mass is added to the upper bound of every probability.
5. A noisy count that is only compared with the last release (`rg`) decides one way near it and the
   other way on both sides. Each side has its turning point. Check: values spread over the range of
   the noise, and both ends of a case.
6. A mechanism that shows counts before it smooths them (`public["noisy"]`, `pegasus`) has its
   publication noise there. Check: with the noise found, the whole release must be the requested
   one; otherwise the output is impossible in this case.
7. Sums and statistics that the gate keeps follow from the counts and the decisions. The threshold
   noise ρ of a sparse-vector run does not: the audit sums over it (`thresholds.py`). This needs all
   answers of the run while the gate keeps it open (per key up to a yes, over all keys until it is
   closed), and that an answer depends on question noise − ρ alone. Check: either answer just beside
   its turning point, with other ρ, leads to the same release and state and does not change ρ. The
   same holds for a unit without a question.

A mechanism that does not fit (other secrets between units, other noise) is refused, and nothing is
claimed about it. Floats: a log-probability is a sum of few terms, each with a relative error near
1e-16. Every loss is widened by `ROUNDING` = 1e-9 and by 1e-13 of its log-probabilities, far above
the possible rounding error.

One module per step: `output` (what is seen), `scripted_noise` and `noise_law` (chosen noise and its
probability), `unit_runner` and `run_state` (one unit of the shipped code), `decisions`,
`questions`, `thresholds`, `turning_points` and `publication` (the cases of a unit),
`stream_follower` and `loss` (a whole output), `all_outputs` and `search` (many outputs).
"""

from __future__ import annotations

from penstock.lab.audit.exact.all_outputs import ExactLoss, exact_loss
from penstock.lab.audit.exact.loss import ROUNDING, likelihood, log_likelihood, loss_at
from penstock.lab.audit.exact.output import Output, SeenUnit, output
from penstock.lab.audit.exact.scripted_noise import ScriptedNoise
from penstock.lab.audit.exact.search import WorstOutput, worst_output

__all__ = [
    "ROUNDING",
    "ExactLoss",
    "Output",
    "ScriptedNoise",
    "SeenUnit",
    "WorstOutput",
    "exact_loss",
    "likelihood",
    "log_likelihood",
    "loss_at",
    "output",
    "worst_output",
]
