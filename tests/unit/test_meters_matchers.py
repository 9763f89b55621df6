"""Label matchers: what Prometheus takes, and what it does not."""

import pytest

from warmset.errors import InputError
from warmset.meters import scrape
from warmset.meters.matchers import parse
from warmset.meters.snapshot import select

PAGE = "".join(
    f'vllm:prompt_tokens_total{{model_name="{model}",pod="{pod}"}} {value}\n'
    for model, pod, value in (("llama", "vllm-0", 1), ("llama", "vllm-1", 2), ("qwen", "other", 4))
)


@pytest.mark.parametrize(
    ("texts", "total"),
    [
        (["model_name=llama"], 3),
        (['model_name="llama"', "pod=vllm-1"], 2),
        (['{model_name="llama",pod!="vllm-1"}'], 1),
        (['pod=~"vllm-.*"'], 3),
        (['pod!~"vllm-.*"'], 4),
        (["nothing!=here"], 7),
    ],
)
def test_matchers(texts: list[str], total: float) -> None:
    rows = select(scrape(PAGE), parse(texts)).samples["vllm:prompt_tokens_total"]
    assert sum(row.value for row in rows) == total


def test_a_pattern_must_match_the_whole_value() -> None:
    with pytest.raises(InputError, match="no series has"):
        select(scrape(PAGE), parse(['pod=~"vllm"']))


def test_as_prometheus_writes_them() -> None:
    (matcher,) = parse(['job="a\\"b\\\\c"'])
    assert (matcher.value, str(matcher)) == ('a"b\\c', 'job="a\\"b\\\\c"')


@pytest.mark.parametrize(
    "text", ["x", "=b", "a=", "{}", "", "a=b,c", 'a=~"("', '1a="b"', '{a="b"', 'a="b" c="d"']
)
def test_refused(text: str) -> None:
    with pytest.raises(InputError, match="matcher"):
        parse([text])
