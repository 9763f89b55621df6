"""`warmset measure` against servers that answer badly, and with secrets that must not show."""

import asyncio
import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PAGE = "".join(
    f"{line}\n"
    for line in (
        'vllm:prompt_tokens_total{engine="0",model_name="m"} 400000.0',
        'vllm:external_prefix_cache_queries_total{engine="0",model_name="m"} 400000.0',
        'vllm:external_prefix_cache_hits_total{engine="0",model_name="m"} 200000.0',
        'vllm:time_to_first_token_seconds_bucket{engine="0",le="1.0",model_name="m"} 40.0',
        'vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="m"} 40.0',
        'vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 40.0',
        'vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"} 20.0',
    )
)
ZIPPED = gzip.compress(PAGE.encode())
SECRET = "hush-hush-7f3a"


def answer(body: bytes, *headers: str, length: int | None = None) -> bytes:
    shown = (f"Content-Length: {len(body) if length is None else length}", "Connection: close", *headers)
    return "\r\n".join(("HTTP/1.1 200 OK", *shown, "", "")).encode() + body


ANSWERS = {
    "good": answer(PAGE.encode()),
    "zipped": answer(ZIPPED, "Content-Encoding: gzip"),
    "cut-gzip": answer(ZIPPED[:-40], "Content-Encoding: gzip"),
    "no-gzip": answer(PAGE.encode(), "Content-Encoding: gzip"),
    "brotli": answer(PAGE.encode(), "Content-Encoding: br"),
    "short": answer(PAGE.encode()[:100], length=len(PAGE)),
    "cut-line": answer(PAGE.encode() + b"# HELP vllm:some_metric Somethi"),
    "cut-number": answer(PAGE.encode() + b'vllm:num_preemptions_total{engine="0",model_name="m"} 12'),
    "long-line": answer(b'vllm:x{a="' + b"b" * 2**20 + b'"} 1.0\n'),
    "empty": answer(b""),
    "json": answer(b'{"detail":"Not Found"}'),
    "proxy": answer(b"<html><head><title>502 Bad Gateway</title></head></html>"),
    "elsewhere": b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n",
    "headers": b"HTTP/1.1 200 OK\r\nX: " + b"y" * 2**20 + b"\r\n\r\n",
    "silent": b"",
}


class Fleet:
    """Servers on ports of their own, in one thread; each gives one of the answers above."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.seen: list[str] = []
        self._servers: list[asyncio.Server] = []
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def start(self, kinds: list[str]) -> list[str]:
        async def start() -> list[str]:
            for kind in kinds:
                self._servers.append(
                    await asyncio.start_server(self._handler(kind), "127.0.0.1", 0, backlog=512)
                )
            return [f"127.0.0.1:{s.sockets[0].getsockname()[1]}" for s in self._servers[-len(kinds) :]]

        return asyncio.run_coroutine_threadsafe(start(), self.loop).result(30)

    def _handler(self, kind: str) -> Callable[..., Any]:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                self.seen.append((await reader.read(65536)).decode(errors="replace"))
                if kind.startswith("{"):
                    names = '{"status":"success","data":["vllm:prompt_tokens_total"]}'
                    writer.write(
                        answer((names if "/label/" in self.seen[-1] and "result" in kind else kind).encode())
                    )
                    await writer.drain()
                elif kind == "silent":
                    await asyncio.sleep(60)
                elif kind == "drip":
                    writer.write(b"HTTP/1.1 200 OK\r\n")
                    for _ in range(200):
                        writer.write(b"X: y\r\n")
                        await writer.drain()
                        await asyncio.sleep(0.1)
                else:
                    writer.write(ANSWERS[kind])
                    await writer.drain()
            except OSError:
                pass
            finally:
                writer.close()

        return handle

    def stop(self) -> None:
        async def stop() -> None:
            for server in self._servers:
                server.close()
            tasks = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(stop(), self.loop).result(30)
        self.loop.call_soon_threadsafe(self.loop.stop)


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    servers = Fleet()
    yield servers
    servers.stop()


@pytest.mark.parametrize("kind", ["good", "zipped"])
def test_whole_answers(warmset: Callable[..., Any], fleet: Fleet, kind: str) -> None:
    ran = warmset("measure", *fleet.start([kind]), "-o", "json")
    assert (ran.code, ran.json()["verdict"]) == (0, "helping")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("cut-gzip", "gzip that ends too early"),
        ("no-gzip", "damaged gzip"),
        ("brotli", "encoding `br`"),
        ("short", "no usable answer"),
        ("cut-line", "ends in the middle of a line"),
        ("cut-number", "ends in the middle of a line"),
        ("long-line", "characters"),
        ("empty", "serves no metrics"),
        ("json", "this is JSON"),
        ("proxy", "`502 Bad Gateway`"),
        ("elsewhere", "no usable answer"),
        ("headers", "no usable answer"),
        ("silent", "did not answer completely within 0.5 s"),
        ("drip", "did not answer completely within 0.5 s"),
    ],
)
def test_bad_answers(warmset: Callable[..., Any], fleet: Fleet, kind: str, said: str) -> None:
    """Exit status 2, nothing on standard output that looks like an answer, the message short and with a hint."""
    ran = warmset("measure", *fleet.start([kind]), "--timeout", "0.5s", "--quiet")
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert "hint: " in ran.err
    assert len(ran.err) < 1000


def test_tls_where_there_is_none(warmset: Callable[..., Any], fleet: Fleet) -> None:
    ran = warmset("measure", f"https://{fleet.start(['good'])[0]}", "--timeout", "3s")
    assert ran.code == 2
    assert "speaks no TLS" in ran.err


def test_five_hundred_servers(warmset: Callable[..., Any], fleet: Fleet, tmp_path: Path) -> None:
    """One sweep: those that fail are listed, those that hang time out together."""
    kinds = ["good"] * 420 + ["silent"] * 40 + ["proxy"] * 20 + ["cut-gzip"] * 20
    targets = tmp_path / "fleet.txt"
    targets.write_text("\n".join(fleet.start(kinds)))
    began = time.monotonic()
    ran = warmset("measure", "--targets", targets, "--timeout", "6s", "-o", "json", "--quiet")
    took = time.monotonic() - began
    said = ran.json()
    assert (ran.code, said["verdict"]) == (0, "helping")
    assert len(said["window"]["failures"]) == 80
    assert said["meters"]["prompt_tokens"] == 420 * 400_000
    assert took < 25, took


def test_no_server_answers(warmset: Callable[..., Any], fleet: Fleet) -> None:
    ran = warmset("measure", *fleet.start(["proxy"] * 3))
    assert ran.code == 2
    assert "(and 2 more servers failed)" in ran.err


@pytest.mark.parametrize(
    "data",
    [
        "null",
        "[1,2]",
        '{"a":1}',
        '{"result":null}',
        '{"result":"abc"}',
        '{"result":[1,"2"]}',
        '{"result":[{"metric":{}}]}',
        '{"result":[{"metric":{},"value":[1,"x"]}]}',
        "[" * 100_000 + "]" * 100_000,
    ],
)
def test_apis_that_answer_something_else(warmset: Callable[..., Any], fleet: Fleet, data: str) -> None:
    (address,) = fleet.start([f'{{"status":"success","data":{data}}}'])
    ran = warmset("measure", "--prometheus", f"http://{address}", "--timeout", "5s")
    assert (ran.code, ran.out) == (2, "")
    assert "is no Prometheus API" in ran.err
    assert len(ran.err) < 1000


@pytest.mark.parametrize(
    ("variable", "value", "sent"),
    [
        ("WARMSET_TOKEN", SECRET, f"Bearer {SECRET}"),
        ("WARMSET_TOKEN", f"{SECRET}\n", f"Bearer {SECRET}"),
        ("WARMSET_TOKEN", f"{SECRET}\nX: y", None),
        ("WARMSET_TOKEN", f"{SECRET}é", None),
        ("WARMSET_BASIC_AUTH", f"user:{SECRET}", "Basic "),
        ("WARMSET_BASIC_AUTH", SECRET, None),
    ],
)
def test_secrets_of_the_environment(
    warmset: Callable[..., Any],
    fleet: Fleet,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    value: str,
    sent: str | None,
) -> None:
    monkeypatch.setenv(variable, value)
    ran = warmset("measure", *fleet.start(["good"]), "-o", "json")
    assert SECRET not in ran.out + ran.err
    assert ran.code == (0 if sent else 2)
    assert (f"authorization: {sent}".lower() in fleet.seen[0].lower()) if sent else not fleet.seen


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SSL_CERT_FILE", f"/{SECRET}.pem"),
        ("HTTP_PROXY", f"junk://{SECRET}"),
        ("HTTP_PROXY", f"http://u:{SECRET}@[bad"),
    ],
)
def test_an_environment_that_cannot_be_used(
    warmset: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    ran = warmset("measure", "http://127.0.0.1:1", "--timeout", "2s")
    assert ran.code == 2
    assert SECRET not in ran.out + ran.err


@pytest.mark.parametrize("text", ["", "two\nlines", "\x00"])
def test_secret_files_that_hold_none(
    warmset: Callable[..., Any], fleet: Fleet, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    ran = warmset("measure", *fleet.start(["good"]), "--token-file", file)
    assert (ran.code, ran.out, fleet.seen) == (2, "", [])


@pytest.mark.parametrize(
    "source",
    [
        "http://user:{}@127.0.0.1:99999",
        "http://user:{}@127.0.0.1:1",
        "http://u:{}/x@127.0.0.1:0",
        "http://user:{}@ho st:80",
        "user:{}@localhost:80",
        "dns:user:{}@nowhere.invalid:80",
    ],
)
def test_passwords_in_addresses(warmset: Callable[..., Any], source: str, shared: Path) -> None:
    page = shared / "metrics" / "chat_on.end.prom"
    for arguments in ([source.format(SECRET)], [source.format(SECRET), page]):
        ran = warmset("measure", *arguments, "--timeout", "2s")
        assert ran.code == 2
        assert SECRET not in ran.out + ran.err


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_saved_pages_of_other_systems(
    warmset: Callable[..., Any], tmp_path: Path, shared: Path, encoding: str, end: str
) -> None:
    page = (shared / "metrics" / "chat_on.end.prom").read_text()
    file = tmp_path / "page.prom"
    file.write_bytes(page.replace("\n", end).encode(encoding))
    ran = warmset("measure", file, "-o", "json")
    assert ran.code == 0
    assert json.loads(ran.out)["verdict"] == "helping"


@pytest.mark.parametrize("option", ["--log", "--targets", "--token-file", "--baseline"])
def test_files_without_end(warmset: Callable[..., Any], shared: Path, option: str) -> None:
    page = [] if option == "--targets" else [shared / "metrics" / "chat_on.end.prom"]
    ran = warmset("measure", *page, option, "/dev/zero")
    assert (ran.code, ran.out) == (2, "")
    assert "/dev/zero" in ran.err
