"""From a server's metrics to three meters and a verdict.

>>> from warmset.meters import judge, meters, scrape, window
>>> page = 'vllm:prompt_tokens_total{model_name="m"} 100\\n'
>>> judge(meters(window(None, scrape(page)))).name
'no_tier'

Reading (`scrape`, `window`, `meters`) knows no verdicts, and judging (`judge`) reads no metrics.
"""

from warmset.meters.judge import judge
from warmset.meters.measurement import Measurement
from warmset.meters.meters import Meters, meters
from warmset.meters.snapshot import Snapshot, scrape
from warmset.meters.thresholds import Thresholds
from warmset.meters.verdict import Verdict
from warmset.meters.window import Window, window

__all__ = [
    "Measurement",
    "Meters",
    "Snapshot",
    "Thresholds",
    "Verdict",
    "Window",
    "judge",
    "meters",
    "scrape",
    "window",
]
