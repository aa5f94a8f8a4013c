"""The gradient noise scale, measured from gradients of two batch sizes that training has anyway.

With a gradient g of b samples and the gradient G of all B samples of an update (McCandlish et al. 2018, An
empirical model of large-batch training, appendix A.1),

    |G_true|^2 = (B |G|^2 - b |g|^2) / (B - b)
    trace      = (|g|^2 - |G|^2) / (1/b - 1/B)
    phi        = trace / |G_true|^2

are unbiased but for the ratio, so numerator and denominator are smoothed apart. An update at batch M is worth
M/M0 x efficiency(M) steps at batch M0 (Pollux, OSDI'21, equation 7; the gain of AdaScale):

    efficiency(M) = (phi + M0) / (phi + M)
"""

import math

SMOOTHING = 0.95


class NoiseScale:
    """A running estimate, in samples. ``value`` is None before it is known."""

    def __init__(self, smoothing: float = SMOOTHING) -> None:
        self.smoothing = smoothing
        self._square = self._trace = self._weight = 0.0

    def add(self, small: float, b: float, large: float, B: float) -> None:
        """One update: squared norms of a gradient of ``b`` samples and of the whole one, of ``B``."""
        if not (math.isfinite(small) and math.isfinite(large) and 0 < b < B):
            return
        keep = self.smoothing
        self._square = keep * self._square + (1 - keep) * (B * large - b * small) / (B - b)
        self._trace = keep * self._trace + (1 - keep) * (small - large) / (1 / b - 1 / B)
        self._weight = keep * self._weight + (1 - keep)

    @property
    def value(self) -> float | None:
        """None too where the noise hides the gradient: then every batch is used in full."""
        if self._weight == 0.0 or self._square <= 0.0:
            return None
        return max(0.0, self._trace / self._square)

    def efficiency(self, batch: float, submitted: float) -> float:
        """The progress per sample at ``batch``, relative to the submitted batch; 1 while the noise is unknown."""
        phi = self.value
        return 1.0 if phi is None or batch == submitted else (phi + submitted) / (phi + batch)

    def state_dict(self) -> dict[str, float]:
        return {"square": self._square, "trace": self._trace, "weight": self._weight}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self._square, self._trace, self._weight = state["square"], state["trace"], state["weight"]
