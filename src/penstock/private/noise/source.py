"""The sources of noise: `SystemNoise` for people's data, `TestNoise` and `NoNoise` for tests."""

from __future__ import annotations

import hashlib
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar, Final, NoReturn, Protocol, final

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.errors import ConfigurationError, NoiseError
from penstock.core.exact import exact, positive, whole
from penstock.private.noise.bits import Bits, KeyedBits, SystemBits
from penstock.private.noise.gaussian import check_variance, gaussian
from penstock.private.noise.laplace import check_scale, laplace
from penstock.private.noise.thinning import check_counts, thin


class Noise(Protocol):
    """Exact noise on whole numbers. `unit` and `label` name a draw; only `TestNoise` uses them."""

    @property
    def private(self) -> bool:
        """True only for `SystemNoise`. Releases made with any other source are never private."""
        ...

    def laplace(self, scale: Fraction, size: int, *, unit: int, label: str) -> IntArray:
        """`size` independent values with P(k) ∝ exp(−|k|/scale)."""
        ...

    def laplace_each(
        self, scales: Sequence[Fraction], which: IntArray, *, unit: int, label: str
    ) -> IntArray:
        """Independent values, the i-th of scale `scales[which[i]]`."""
        ...

    def thin(self, counts: IntArray, keep: Fraction, *, unit: int, label: str) -> IntArray:
        """Independent values of the binomials of `counts[i]` trials of probability `keep`."""
        ...

    def gaussian(self, variance: Fraction, size: int, *, unit: int, label: str) -> IntArray:
        """`size` independent values, each the whole number next to a Gaussian of this variance."""
        ...

    def refresh(self) -> None:
        """Let the next draw depend on new randomness of the system, so that no copy repeats it.

        The gate calls it when a unit begins.
        """
        ...

    def erase(self) -> None:
        """Forget all that past draws can be computed from.

        A pan-private run calls it whenever control leaves the run: after each part of a unit.
        """
        ...

    def memory(self) -> dict[str, Any]:
        """What an intruder finds here: "noise key", if past draws can be computed from what is
        held. Nothing for test noise, which is no secret.
        """
        ...


class _Source(ABC):
    """The shared part of sources: check arguments, refuse copies and draws after a fork."""

    _private: ClassVar[bool]

    def __init__(self) -> None:
        self._process: Final = os.getpid()
        self._forks: Final = _forks

    @property
    def private(self) -> bool:
        return self._private

    def laplace(self, scale: Fraction, size: int, *, unit: int, label: str) -> IntArray:
        if type(scale) is not Fraction:
            scale = exact(scale, name="scale")
        if type(size) is not int or size < 0:
            size = whole(size, name="size", least=0)
        self._check_home()
        return self._laplace(scale, size, unit, label)

    def laplace_each(
        self, scales: Sequence[Fraction], which: IntArray, *, unit: int, label: str
    ) -> IntArray:
        checked = [exact(scale, name="scale") for scale in scales]
        for scale in checked:
            check_scale(scale)
        which = np.asarray(which)
        if which.ndim != 1 or which.dtype.kind not in "iu":
            raise ConfigurationError(
                f"which must be one row of whole numbers, not {which.ndim} of {which.dtype}.",
                parameter="which",
            )
        if which.size and not 0 <= which.min() <= which.max() < len(checked):
            raise ConfigurationError(
                f"which must lie in 0..{len(checked) - 1}, "
                f"the places of the {len(checked)} scales.",
                parameter="which",
            )
        self._check_home()
        sizes = np.bincount(which.astype(np.intp, copy=False), minlength=len(checked))
        values = np.empty(len(which), np.int64)
        narrow = np.uint16 if len(checked) <= 1 << 16 else np.int64  # NumPy sorts 16 bits by radix
        values[np.argsort(which.astype(narrow), kind="stable")] = self._laplace_in_turn(
            checked, sizes.tolist(), unit, label
        )
        return values

    def thin(self, counts: IntArray, keep: Fraction, *, unit: int, label: str) -> IntArray:
        keep = exact(keep, name="keep")
        if not 0 <= keep <= 1:
            raise ConfigurationError(f"keep must lie in 0..1, not {keep}.", parameter="keep")
        counts = np.asarray(counts)
        check_counts(counts)
        self._check_home()
        return self._thin(counts, keep, unit, label)

    def gaussian(self, variance: Fraction, size: int, *, unit: int, label: str) -> IntArray:
        if type(variance) is not Fraction or variance.numerator <= 0:
            variance = positive(variance, name="variance")
        if type(size) is not int or size < 0:
            size = whole(size, name="size", least=0)
        self._check_home()
        return self._gaussian(variance, size, unit, label)

    @abstractmethod
    def refresh(self) -> None: ...

    @abstractmethod
    def erase(self) -> None: ...

    def memory(self) -> dict[str, Any]:
        return {}

    @abstractmethod
    def _laplace(self, scale: Fraction, size: int, unit: int, label: str) -> IntArray:
        """`size` values of this scale, which is checked here."""

    @abstractmethod
    def _laplace_in_turn(
        self, scales: Sequence[Fraction], sizes: Sequence[int], unit: int, label: str
    ) -> IntArray:
        """sizes[0] values of scales[0], then sizes[1] of scales[1], and so on."""

    @abstractmethod
    def _thin(self, counts: IntArray, keep: Fraction, unit: int, label: str) -> IntArray: ...

    @abstractmethod
    def _gaussian(self, variance: Fraction, size: int, unit: int, label: str) -> IntArray: ...

    def _check_home(self) -> None:
        if _forks != self._forks or os.getpid() != self._process:
            raise NoiseError(
                f"this {type(self).__name__} was made in another process: "
                "a forked child would repeat its parent's noise. "
                "Make a source in the process that draws. Nothing was drawn."
            )

    def _refuse(self) -> NoReturn:
        raise NoiseError(
            f"a {type(self).__name__} cannot be copied or pickled: "
            "the copy would repeat its noise. Make a new one."
        )

    def __copy__(self) -> NoReturn:
        self._refuse()

    def __deepcopy__(self, memo: object) -> NoReturn:
        self._refuse()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        self._refuse()

    def __getstate__(self) -> NoReturn:
        self._refuse()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


@final
class SystemNoise(_Source):
    """Noise that nobody can foresee or repeat. It takes no seed.

    Bits are the key stream of AES-256-CTR; keys come from the operating system and are replaced
    regularly. Bits are made when they are needed, none are kept for later. Every unit begins with
    new randomness of the system (`refresh`), so that a copy of the process draws other noise.
    Threads may share a source.

    >>> noise = SystemNoise()
    >>> noise.private, noise
    (True, SystemNoise())
    >>> noise.laplace(Fraction(10), 3, unit=0, label="counts").dtype
    dtype('int64')
    >>> noise.laplace(0.1, 3, unit=0, label="counts")
    Traceback (most recent call last):
    penstock.core.errors.InexactError: scale=0.1 is a float, and a float is not the number it shows.
    \
Write scale="0.1" or Fraction(1, 10).
    """

    _private = True

    def __init__(self) -> None:
        super().__init__()
        self._bits = SystemBits()
        self._lock = threading.Lock()

    def refresh(self) -> None:
        self._bits.refresh()

    def erase(self) -> None:
        with self._lock:
            self._bits.erase()

    def memory(self) -> dict[str, Any]:
        held = self._bits.stream
        return {} if held is None else {"noise key": held}

    def _laplace(self, scale: Fraction, size: int, unit: int, label: str) -> IntArray:
        with self._lock:
            return laplace(scale, size, self._bits)

    def _laplace_in_turn(
        self, scales: Sequence[Fraction], sizes: Sequence[int], unit: int, label: str
    ) -> IntArray:
        with self._lock:
            return _in_turn(scales, sizes, self._bits)

    def _thin(self, counts: IntArray, keep: Fraction, unit: int, label: str) -> IntArray:
        with self._lock:
            return thin(counts, keep, self._bits)

    def _gaussian(self, variance: Fraction, size: int, unit: int, label: str) -> IntArray:
        with self._lock:
            return gaussian(variance, size, self._bits)


@final
class TestNoise(_Source):
    """Noise that follows from a seed, the unit and the label: a restart repeats it. Never private.

    The same call gives the same values, whatever was drawn before.

    Parameters
    ----------
    seed : int
        The seed.

    >>> noise = TestNoise(7)
    >>> noise.private, noise
    (False, TestNoise(seed=7))
    >>> one, two = (noise.laplace(Fraction(10), 5, unit=3, label="counts") for _ in range(2))
    >>> bool((one == two).all())
    True
    """

    __test__ = False  # pytest would collect it by its name
    _private = False

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed: Final = whole(seed, name="seed", least=0)

    def _laplace(self, scale: Fraction, size: int, unit: int, label: str) -> IntArray:
        return laplace(scale, size, self._stream("laplace", unit, label))

    def _laplace_in_turn(
        self, scales: Sequence[Fraction], sizes: Sequence[int], unit: int, label: str
    ) -> IntArray:
        return _in_turn(scales, sizes, self._stream("laplace", unit, label))

    def _thin(self, counts: IntArray, keep: Fraction, unit: int, label: str) -> IntArray:
        return thin(counts, keep, self._stream("thin", unit, label))

    def _gaussian(self, variance: Fraction, size: int, unit: int, label: str) -> IntArray:
        return gaussian(variance, size, self._stream("gaussian", unit, label))

    def refresh(self) -> None:
        """Draws repeat, on purpose."""

    def erase(self) -> None:
        """Nothing is held from one draw to the next."""

    def _stream(self, kind: str, unit: int, label: str) -> KeyedBits:
        return KeyedBits(
            hashlib.sha256(
                f"penstock test noise\0{kind}\0{self._seed}\0{unit}\0{label}".encode()
            ).digest()
        )

    def __repr__(self) -> str:
        return f"TestNoise(seed={self._seed})"


@final
class NoNoise(_Source):
    """No noise at all, for worked examples. Never private.

    `thin` keeps floor(count·keep).

    >>> noise = NoNoise()
    >>> noise.private
    False
    >>> noise.laplace(Fraction(10), 3, unit=0, label="counts")
    array([0, 0, 0])
    >>> noise.thin(np.array([0, 1, 7]), Fraction(1, 2), unit=0, label="counts")
    array([0, 0, 3])
    """

    _private = False

    def _laplace(self, scale: Fraction, size: int, unit: int, label: str) -> IntArray:
        check_scale(scale)
        return np.zeros(size, np.int64)

    def _laplace_in_turn(
        self, scales: Sequence[Fraction], sizes: Sequence[int], unit: int, label: str
    ) -> IntArray:
        return np.zeros(sum(sizes), np.int64)

    def _thin(self, counts: IntArray, keep: Fraction, unit: int, label: str) -> IntArray:
        return np.array(
            [count * keep.numerator // keep.denominator for count in counts.tolist()], np.int64
        )

    def _gaussian(self, variance: Fraction, size: int, unit: int, label: str) -> IntArray:
        check_variance(variance)
        return np.zeros(size, np.int64)

    def refresh(self) -> None:
        """Nothing is drawn."""

    def erase(self) -> None:
        """Nothing is drawn."""


def _in_turn(scales: Sequence[Fraction], sizes: Sequence[int], bits: Bits) -> IntArray:
    drawn = [laplace(scale, size, bits) for scale, size in zip(scales, sizes, strict=True) if size]
    return np.concatenate(drawn) if drawn else np.zeros(0, np.int64)


_forks = 0
"""How often the process was forked on the way here, so that a reused process id cannot deceive."""


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)
