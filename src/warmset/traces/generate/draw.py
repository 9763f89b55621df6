"""Random draws that the kinds of traffic share."""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from warmset.traces.chaining import chain
from warmset.traces.generate.knobs import MAX_TOKENS, Knobs


def tokens(mean: float, spread: float, rng: Generator) -> int:
    """A log-normal count of tokens with this mean, from 1 to MAX_TOKENS (0 where the mean is 0)."""
    if mean <= 0:
        return 0
    # exp(mu + sigma²/2) is the mean of a log-normal draw.
    return max(1, round(min(MAX_TOKENS, float(rng.lognormal(np.log(mean) - spread**2 / 2, spread)))))


def popularity(count: int, exponent: float) -> NDArray[np.float64]:
    """Zipf probabilities of `count` items, most popular first."""
    # Never zero: several different items may be asked for, however steep the curve is.
    weights = np.maximum(np.arange(1, count + 1, dtype=np.float64) ** -exponent, np.finfo(np.float64).tiny)
    shares: NDArray[np.float64] = np.divide(weights, weights.sum())
    return shares


def arrivals(count: int, rate: float, rng: Generator) -> NDArray[np.float64]:
    """Times of a Poisson process, starting at 0."""
    gaps = rng.exponential(1 / rate, count)
    gaps[0] = 0
    return np.cumsum(gaps)


class Context:
    """The tokens of one conversation as chained blocks: a shared head, then its own."""

    def __init__(self, name: int, system: int, system_tokens: int, knobs: Knobs) -> None:
        self._block_tokens = knobs.block_tokens
        self._own = (1 << 63) | (name << 32)
        self._labels = chain((system << 32) | i for i in range(system_tokens // knobs.block_tokens))
        self.tokens = system_tokens

    def grow(self, new_tokens: int) -> None:
        """Append tokens that no other conversation has."""
        self.tokens += new_tokens
        start, end = len(self._labels), self.tokens // self._block_tokens
        root = self._labels[-1] if self._labels else 0
        self._labels += chain((self._own | i for i in range(start, end)), root)

    def blocks(self) -> list[int]:
        """Labels of the full blocks so far."""
        return self._labels.copy()
