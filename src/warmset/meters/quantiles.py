"""Histograms as Prometheus keeps them, and quantiles exactly as its `histogram_quantile` computes them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# 95 %: the level of every interval that warmset prints.
Z = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with the interval that the counts support (95 %); an open end is None."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Histogram:
    """Cumulative bucket counts over a window.

    Attributes:
        bounds: upper bounds, ascending, the last one infinite.
        counts: observations at or below each bound.
        sum: sum of the observations.
        count: number of observations (the `_count` series).
    """

    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    sum: float
    count: float

    @property
    def mean(self) -> float | None:
        """Mean of the observations, None without any."""
        return self.sum / self.count if self.count > 0 else None


def merged(histograms: Sequence[Histogram]) -> tuple[Histogram | None, bool]:
    """The sum of several histograms, and whether bounds had to be dropped to make them comparable.

    Different bucket layouts can only be added at the bounds that all share.
    """
    if not histograms:
        return None, False
    shared = set(histograms[0].bounds).intersection(*(h.bounds for h in histograms[1:]))
    bounds = tuple(sorted(shared))
    dropped = any(len(h.bounds) != len(bounds) for h in histograms)
    totals = [0.0] * len(bounds)
    for h in histograms:
        at = dict(zip(h.bounds, h.counts, strict=True))
        for index, bound in enumerate(bounds):
            totals[index] += at[bound]
    return Histogram(
        bounds, tuple(totals), sum(h.sum for h in histograms), sum(h.count for h in histograms)
    ), dropped


def histogram_quantile(q: float, buckets: Iterable[tuple[float, float]]) -> float:
    """Prometheus' `histogram_quantile(q, …)` over (upper bound, cumulative count) pairs.

    NaN without observations, without an infinite bucket or with fewer than two; -Inf for q < 0, +Inf for q > 1; the
    second-highest bound where the quantile falls into the infinite bucket. Source: promql/quantile.go, BucketQuantile.
    """
    if math.isnan(q):
        return math.nan
    if q < 0:
        return -math.inf
    if q > 1:
        return math.inf
    bounds, counts = _monotonic(buckets)
    if len(bounds) < 2 or bounds[-1] != math.inf or not counts[-1] > 0:
        return math.nan
    rank = q * counts[-1]
    index = next((i for i in range(len(bounds) - 1) if counts[i] >= rank), len(bounds) - 1)
    if index == len(bounds) - 1:
        return bounds[-2]
    if index == 0 and bounds[0] <= 0:
        return bounds[0]
    start, end, count = 0.0, bounds[index], counts[index]
    if index > 0:
        start = bounds[index - 1]
        count -= counts[index - 1]
        rank -= counts[index - 1]
    # 0/0 is NaN there: the 0-quantile over an empty first bucket.
    return start + (end - start) * (rank / count) if count > 0 else math.nan


def quantile(histogram: Histogram | None, q: float) -> Estimate | None:
    """The quantile with the interval in which the true one lies: counts and bucket bounds together.

    The value is Prometheus' own. The interval runs from the lower bound of the bucket that holds the low rank of a
    binomial 95 % interval to the upper bound of the bucket that holds the high rank: within a bucket nothing
    is known. The high end is None where it falls into the infinite bucket.
    """
    if histogram is None:
        return None
    bounds, counts = _monotonic(zip(histogram.bounds, histogram.counts, strict=True))
    value = histogram_quantile(q, zip(bounds, counts, strict=True))
    if not math.isfinite(value):
        return None
    total = counts[-1]
    low_rank, high_rank = rank_interval(q, total)
    low_index = next(i for i, c in enumerate(counts) if c >= min(max(low_rank, 1.0), total))
    high_index = next(i for i, c in enumerate(counts) if c >= min(high_rank, total))
    low = bounds[low_index - 1] if low_index > 0 else min(0.0, bounds[0])
    high = bounds[high_index]
    return Estimate(value, min(low, value), high if math.isfinite(high) else None)


def share_at_most(histogram: Histogram, bound: float) -> Estimate | None:
    """The share of observations at or below a bucket bound, with a Wilson interval."""
    at = dict(zip(histogram.bounds, histogram.counts, strict=True))
    if bound not in at or not histogram.counts[-1] > 0:
        return None
    return proportion(at[bound] / histogram.counts[-1], histogram.counts[-1])


def proportion(share: float, observations: float) -> Estimate:
    """A share with its Wilson score interval (95 %)."""
    n, z2 = max(observations, 1e-9), Z * Z
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z * math.sqrt(max(share * (1 - share), 0.0) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return Estimate(share, max(0.0, min(centre - half, share)), min(1.0, max(centre + half, share)))


def rank_interval(q: float, total: float) -> tuple[float, float]:
    """Ranks between which the q-quantile of the source lies with 95 % confidence, given `total` draws.

    Exact binomial where the normal approximation is poor (few observations beyond the quantile).
    """
    spread = total * q * (1 - q)
    if spread > 25:
        half = Z * math.sqrt(spread)
        return q * total - half, q * total + half + 1
    n = round(total)
    if n <= 0:
        return 0.0, total
    # Count from the rarer side, so that the sum is short and does not underflow.
    mirrored = q > 0.5
    rare = 1 - q if mirrored else q
    low, high = _binomial_interval(n, rare)
    if mirrored:
        low, high = n - high, n - low
    return float(low), float(high + 1)


def _binomial_interval(n: int, p: float) -> tuple[int, int]:
    """The 2.5 % and 97.5 % points of Binomial(n, p) for small n·p."""
    if p <= 0:
        return 0, 0
    term = math.exp(n * math.log1p(-p)) if p < 1 else 0.0
    total, k, low = term, 0, 0
    while total < 0.025 and k < n:
        k += 1
        term *= (n - k + 1) / k * p / (1 - p)
        total += term
    low = k
    while total < 0.975 and k < n:
        k += 1
        term *= (n - k + 1) / k * p / (1 - p)
        total += term
    return low, k


def _monotonic(buckets: Iterable[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Sorted by bound, equal bounds added, counts never falling: as Prometheus prepares them."""
    merged_counts: dict[float, float] = {}
    for bound, count in buckets:
        if not math.isnan(bound):
            merged_counts[bound] = merged_counts.get(bound, 0.0) + count
    bounds = sorted(merged_counts)
    counts, highest = [], 0.0
    for bound in bounds:
        highest = max(highest, merged_counts[bound]) if not math.isnan(merged_counts[bound]) else highest
        counts.append(highest)
    return bounds, counts
