"""Any input ends in a result or in a clear error; places are real; corrections are what they say."""

import json
import shlex

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warmset.checks import CheckResult, check_text
from warmset.checks.fix import apply
from warmset.checks.shell import split
from warmset.checks.text import Source, Text
from warmset.checks.tree import documents
from warmset.errors import InputError

BOUNDED = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
NAMES = st.sampled_from(
    [
        "a.sh",
        "a.yaml",
        "a.json",
        "a.env",
        "Dockerfile",
        "a.service",
        "a.log",
        "a",
        "values.yaml",
        "compose.yml",
    ]
)
# Characters beyond the BMP are read as a replacement character.
TEXT = st.text(alphabet=st.characters(max_codepoint=0xD7FF), max_size=8)
PIECES = st.sampled_from(
    [
        "vllm serve M ", "--kv-offloading-size ", "40", "--kv-transfer-config ", "'{\"kv_connector\":", '"X"}', "'",
        "\\\n", "\n", " ", "$A", "${A:-b}", "$(x)", "A=1 ", "export ", "#c\n", "<<E\n", "E\n", "{", "}", "[", "]",
        "- ", "a: ", "containers:\n", "image: vllm/vllm-openai:v0.28.0\n", "args: ", "&x ", "*x", "|\n  ", ">\n  ",
        "apiVersion: v1\nkind: Pod\n", "services:\n", "FROM x\n", "CMD ", "[Service]\n", "ExecStart=", "\t", "\r\n",
        "LMCACHE_CHUNK_SIZE=", "sh -c ", '"', "é", "\U0001f600", "servingEngineSpec:\n  modelSpec:\n", "  - name: a\n",
        "GPU KV cache size: 1,000 tokens\n", "Reqid: 7, hit 1, need to load: 2\n", "lmcache server ",
        "--cpu-offload-gb ",
    ]
)  # fmt: skip


def _check(text: str, name: str) -> CheckResult | None:
    try:
        return check_text(text, name=name)
    except InputError as error:
        assert str(error)
        return None


@BOUNDED
@given(name=NAMES, text=st.text(max_size=300))
def test_any_text(name: str, text: str) -> None:
    _check(text, name)


@BOUNDED
@given(name=NAMES, pieces=st.lists(PIECES, max_size=40))
def test_pieces_of_real_inputs(name: str, pieces: list[str]) -> None:
    text = "".join(pieces)
    result = _check(text, name)
    lines = text.split("\n")
    for finding in result.findings if result is not None else ():
        place = finding.place
        assert 1 <= place.line <= len(lines)
        assert place.text.removesuffix("…") in lines[place.line - 1]
        assert 1 <= place.column < place.end_column


@BOUNDED
@given(
    words=st.lists(
        st.text(alphabet="ab '\"\\$#;{}[]:,=-\n\té", min_size=1, max_size=12), min_size=1, max_size=6
    )
)
def test_words_are_the_shells(words: list[str]) -> None:
    """The standard library's quoting, read back."""
    text = "run " + shlex.join(words)
    assert [w.value for w in split(Text(text, Source("t", text), 0))] == ["run", *words]


@BOUNDED
@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers(-1000, 1000) | TEXT,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
        max_leaves=12,
    )
)
def test_json_is_read_as_it_is(value: object) -> None:
    text = json.dumps(value, ensure_ascii=True)
    roots = documents(Source("a.json", text))
    assert [r.python() for r in roots] == [value]


@BOUNDED
@given(
    json_value=st.dictionaries(
        st.sampled_from(["cpu_bytes_to_use", "block_size", "x"]), st.integers(1, 10**12)
    ),
    indent=st.integers(0, 8),
)
def test_places_in_json_in_yaml(json_value: dict[str, int], indent: int) -> None:
    """A key found in JSON inside a block scalar stands where the finding says."""
    config = json.dumps(
        {"kv_connector": "NoSuchConnector", "kv_role": "kv_both", "kv_connector_extra_config": json_value}
    )
    pad = " " * indent
    text = (
        f"services:\n  v:\n    image: vllm/vllm-openai:v0.28.0\n    command:\n    - M\n    - --kv-transfer-config\n"
        f"    - |-\n      {pad}{config}\n"
    )
    if indent:
        return
    result = check_text(text, name="compose.yaml")
    found = next(f for f in result.findings if f.rule == "connector-unknown")
    assert found.place.text[found.place.column - 1 : found.place.end_column - 1] == '"NoSuchConnector"'


@BOUNDED
@given(prefix=st.sampled_from(["export ", ""]), value=st.integers(1, 999))
def test_corrections_remove_their_finding(prefix: str, value: int) -> None:
    text = f"{prefix}LM_CACHE_CHUNK_SIZE={value}\nvllm serve M\n"
    result = check_text(text, name="a.sh")
    edits = [f.edit for f in result.findings if f.rule == "env-misspelt" and f.edit is not None]
    assert edits
    fixed = check_text(apply(text, edits), name="a.sh")
    assert not [f for f in fixed.findings if f.rule == "env-misspelt"]


KEYS = st.sampled_from(
    [
        "kv_connector",
        "kv_role",
        "kv_connector_extra_config",
        "cpu_bytes_to_use",
        "num_cpu_blocks",
        "block_size",
        "blocks_per_chunk",
        "type",
        "secondary_tiers",
        "spec_name",
        "root_dir",
        "store_config",
        "endpoint_override",
        "scheme",
        "connectors",
        "eviction_policy",
        "host",
        "port",
        "cpu_bytes_to_use_per_rank",
        "lmcache.max_local_cpu_size",
        "lmcache.mp.host",
        "store_threshold",
        "module_path",
    ]
)
ODD = st.sampled_from(
    [
        None,
        True,
        0,
        -1,
        1e400,
        1.5,
        10**30,
        "",
        "fs",
        "p2p",
        "OffloadingConnector",
        "MultiConnector",
        "64Gi",
        "http://[",
        [],
    ]
)


@BOUNDED
@given(
    config=st.recursive(
        ODD, lambda v: st.lists(v, max_size=3) | st.dictionaries(KEYS, v, max_size=5), max_leaves=12
    ),
    extra=st.dictionaries(
        KEYS,
        st.recursive(
            ODD, lambda v: st.lists(v, max_size=2) | st.dictionaries(KEYS, v, max_size=4), max_leaves=8
        ),
    ),
    engine_name=st.sampled_from(["0.9.1", "0.12.0", "0.22.0", "0.28.0", "0.33.0"]),
)
def test_odd_values_in_the_connector(config: object, extra: dict[str, object], engine_name: str) -> None:
    whole = {"kv_connector": "OffloadingConnector", "kv_role": "kv_both", "kv_connector_extra_config": extra}
    for value in (config, whole):
        line = f"docker run vllm/vllm-openai:v{engine_name} --model Qwen/Qwen3-8B --max-model-len 4096"
        _check(f"{line} --kv-transfer-config {shlex.quote(json.dumps(value))}\n", "a.sh")
