"""In process: who is heard, in which order a request is checked, and what everybody else is told."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx
import pytest
import trio
from quart import Quart
from quart_trio import QuartTrio
from webhook_rig import OLD_SECRET, SECRET, Rig, as_json, form, make_rig, scope_of

from triobot.errors import ConfigError
from triobot.seams.inbox import Quota
from triobot.webhook.answers import Readiness
from triobot.webhook.app import mount_endpoint
from triobot.webhook.endpoint import Endpoint
from triobot.webhook.limits import Limits
from triobot.webhook.secrets import Secrets

FORM = {"content-type": "application/x-www-form-urlencoded"}
ADDRESS = "/" + SECRET


@asynccontextmanager
async def client_of(app: QuartTrio) -> AsyncGenerator[httpx.AsyncClient, None]:
    transport = httpx.ASGITransport(app)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url="http://bot") as client:
        yield client


async def test_an_event_is_stored_and_answered() -> None:
    rig = make_rig()
    async with client_of(rig.app) as client:
        answer = await client.post(ADDRESS, content=form("hello"), headers=FORM)

    assert (answer.status_code, answer.content) == (200, b"")
    assert rig.texts == ["hello"]


async def test_every_format() -> None:
    rig = make_rig()
    fields = {"chat_id": "7", "type": "text", "data": "multi"}
    async with client_of(rig.app) as client:
        await client.post(ADDRESS, content=as_json("json"), headers={"content-type": "application/json"})
        await client.post(ADDRESS, data={**fields, "data": "form"})
        await client.post(ADDRESS, files={name: (None, value) for name, value in fields.items()})

    assert rig.texts == ["json", "form", "multi"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "NONSENSE"])
@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/x",
        ADDRESS + "/",
        ADDRESS[:-1],
        "//" + SECRET,
        "/%D8%B1%D9%85%D8%B2",
        "/%FF%00",
        "/static/x",
        "/metrics",
    ],
)
async def test_all_else_is_one_and_the_same_404(method: str, path: str) -> None:
    rig = make_rig()
    async with client_of(rig.app) as client:
        answer = await client.request(method, path)

    assert answer.status_code == 404
    assert answer.content in (b"not found\n", b"")
    assert sorted(answer.headers) == ["content-length", "content-type"]
    assert rig.traffic.statistics().unknown_path == 1


async def test_the_secret_is_checked_before_anything_else() -> None:
    rig = make_rig(limits=Limits(body_bytes=10, bodies_bytes=10))
    hostile = {"content-length": "99999999", "transfer-encoding": "chunked"}
    async with client_of(rig.app) as client:
        assert (await client.post("/wrong", content=b"x" * 50, headers=hostile)).status_code == 404
        assert (await client.put(ADDRESS, content=b"x" * 50)).status_code == 405
        assert (await client.post(ADDRESS, content=b"x" * 50, headers=hostile)).status_code == 413
        hostile["content-length"] = "5"
        assert (await client.post(ADDRESS, content=b"x" * 50, headers=hostile)).status_code == 400


async def test_wrong_method_says_which_is_right() -> None:
    rig = make_rig()
    async with client_of(rig.app) as client:
        answer = await client.get(ADDRESS)

    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


async def test_rotation_accepts_old_and_new() -> None:
    rig = make_rig(secrets=f"{SECRET} {OLD_SECRET}")
    async with client_of(rig.app) as client:
        for number, secret in enumerate((SECRET, OLD_SECRET)):
            answer = await client.post("/" + secret, content=form(str(number)), headers=FORM)
            assert answer.status_code == 200
    rotated = make_rig(secrets=SECRET)
    async with client_of(rotated.app) as client:
        assert (await client.post("/" + OLD_SECRET, content=form(), headers=FORM)).status_code == 404

    assert rig.texts == ["0", "1"]


@pytest.mark.parametrize(
    "content_type", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x1"]
)
async def test_one_limit_for_every_format(content_type: str) -> None:
    """Half a megabyte of form is fine: no framework's own form limit stands in the way."""
    rig = make_rig()
    headers = {"content-type": content_type}
    async with client_of(rig.app) as client:
        if "multipart" in content_type:
            head = "".join(
                f'--x1\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
                for name, value in (("chat_id", "7"), ("type", "text"))
            )
            start = (head + '--x1\r\nContent-Disposition: form-data; name="data"\r\n\r\n').encode()
            body = start + b"x" * 900_000 + b"\r\n--x1--\r\n"
        else:
            body = form("x" * 900_000)
        assert (await client.post(ADDRESS, content=body, headers=headers)).status_code == 200
        assert (await client.post(ADDRESS, content=body + b"x" * 200_000, headers=headers)).status_code == 413

    assert len(rig.texts[0]) == 900_000
    assert rig.traffic.statistics().too_long == 1


async def test_malformed_is_kept_and_answered_200() -> None:
    rig = make_rig()
    async with client_of(rig.app) as client:
        answer = await client.post(ADDRESS, content=b"\xff{nonsense", headers=FORM)

    assert answer.status_code == 200
    assert [kept.body for kept in rig.store.kept] == [b"\xff{nonsense"]


async def test_one_flooding_chat_gets_503_and_the_others_200() -> None:
    rig = make_rig(quota=Quota(events_per_chat=1))
    async with client_of(rig.app) as client:
        await client.post(ADDRESS, content=form("a", 7), headers=FORM)
        refused = await client.post(ADDRESS, content=form("b", 7), headers=FORM)
        taken = await client.post(ADDRESS, content=form("c", 8), headers=FORM)

    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    assert taken.status_code == 200


async def test_a_failing_store_gets_503() -> None:
    rig = make_rig()
    rig.store.full = True
    async with client_of(rig.app) as client:
        answer = await client.post(ADDRESS, content=form(), headers=FORM)

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert rig.texts == []


async def test_many_bodies_at_once_are_bounded() -> None:
    rig = make_rig(limits=Limits(body_bytes=100, bodies_bytes=200))
    rig.store.gate = trio.Event()
    statuses: list[int] = []

    async def send(number: int) -> None:
        answer = await client.post(ADDRESS, content=form(str(number)).ljust(100, b"&"), headers=FORM)
        statuses.append(answer.status_code)

    async with client_of(rig.app) as client, trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(send, number)
        while len(statuses) < 3:
            await trio.lowlevel.checkpoint()
        assert statuses == [503] * 3
        rig.store.gate.set()

    assert sorted(statuses) == [200, 200, 503, 503, 503]
    assert rig.traffic.statistics().overloaded == 3


async def test_bodies_one_after_another_are_not() -> None:
    rig = make_rig(limits=Limits(body_bytes=100, bodies_bytes=100))
    async with client_of(rig.app) as client:
        for number in range(5):
            body = form(str(number)).ljust(100, b"&")
            assert (await client.post(ADDRESS, content=body, headers=FORM)).status_code == 200


async def test_health_and_readiness() -> None:
    rig = make_rig()
    async with client_of(rig.app) as client:
        alive = await client.get("/healthz")
        ready = await client.get("/readyz")
        rig.readiness[0] = Readiness(False, {"store": "ok", "outbox": "held"})
        held = await client.get("/readyz")
        posted = await client.post("/readyz")

    assert (alive.status_code, alive.text) == (200, "ok\n")
    assert (ready.status_code, ready.text) == (200, "ready\n")
    # Strangers can ask, too; what is the matter is the operator's to know.
    assert (held.status_code, held.text) == (503, "not ready\n")
    assert (posted.status_code, posted.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/", ADDRESS, "/wrong"])
async def test_answers_are_tiny_and_say_nothing_of_the_server(path: str) -> None:
    rig = make_rig()
    async with client_of(rig.app) as client:
        answer = await client.post(path, content=form(), headers=FORM)

    assert len(answer.content) < 200
    assert "server" not in answer.headers
    shown = str(answer.headers) + answer.text
    for word in ("quart", "hypercorn", "triobot", "werkzeug", "python", SECRET):
        assert word not in shown.lower()


async def test_a_body_that_stalls_is_given_up(autojump_clock: trio.testing.MockClock) -> None:
    rig = make_rig()
    sent: list[dict[str, object]] = []
    parts = iter([{"type": "http.request", "body": b"chat_id=", "more_body": True}])

    async def receive() -> dict[str, object]:
        for part in parts:
            return part
        await trio.sleep_forever()
        raise AssertionError

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    began = trio.current_time()
    await rig.app(scope_of(ADDRESS), receive, send)  # type: ignore[arg-type]

    assert trio.current_time() - began == pytest.approx(10)
    assert sent[0]["status"] == 408
    assert (b"connection", b"close") in sent[0]["headers"]  # type: ignore[operator]
    assert rig.traffic.statistics().too_slow == 1


@pytest.mark.parametrize(("version", "seconds"), [("1.1", 5), ("2", 3600)])
async def test_an_answer_before_its_body_ends(
    autojump_clock: trio.testing.MockClock, version: str, seconds: float
) -> None:
    """Over HTTP/2 hypercorn fails, on Trio as a whole, by a part of a body that comes behind the answer."""
    sent: list[tuple[float, dict[str, object]]] = []
    began, parts = trio.current_time(), 0

    async def receive() -> dict[str, object]:
        nonlocal parts
        parts += 1
        if parts > 1:
            await trio.sleep(3600)
        return {"type": "http.request", "body": b"more", "more_body": parts == 1}

    async def send(message: dict[str, object]) -> None:
        sent.append((trio.current_time() - began, message))

    scope = {**scope_of("/nothing"), "http_version": version}
    await make_rig().app(scope, receive, send)  # type: ignore[arg-type]

    assert (sent[0][0], sent[0][1]["status"]) == (0, 404)
    assert sent[-1][0] == pytest.approx(seconds)
    assert not sent[-1][1].get("more_body")


async def test_the_path_leaves_the_request_before_anyone_can_log_it() -> None:
    rig = make_rig()
    scope = scope_of(ADDRESS)
    scope["query_string"] = SECRET.encode()

    async def receive() -> dict[str, object]:
        return {"type": "http.disconnect"}

    async def send(message: dict[str, object]) -> None:
        raise AssertionError

    await rig.app(scope, receive, send)  # type: ignore[arg-type]

    assert SECRET not in repr(scope)
    assert rig.traffic.statistics().truncated == 1


class TestWrittenOrNot:
    """An event whose sender left before its 200 is stored, and its repetition is not taken for news."""

    async def one_delivery(self, rig: Rig, *, leaves_during: str) -> None:
        left = trio.Event()
        messages = iter([{"type": "http.request", "body": form("yes"), "more_body": False}])

        async def receive() -> dict[str, object]:
            for message in messages:
                return message
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, object]) -> None:
            await trio.lowlevel.checkpoint()
            if message["type"] == leaves_during:
                left.set()

        if leaves_during == "store":
            rig.store.gate = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(rig.app, scope_of(ADDRESS), receive, send)  # type: ignore[arg-type]
            if rig.store.gate is not None:
                await trio.testing.wait_all_tasks_blocked()
                left.set()
                await trio.testing.wait_all_tasks_blocked()
                rig.store.gate.set()
        rig.store.gate = None

    async def test_left_before_the_answer(self) -> None:
        rig = make_rig()
        await self.one_delivery(rig, leaves_during="store")
        assert rig.traffic.statistics().unanswered == 1

        await self.one_delivery(rig, leaves_during="never")
        await self.one_delivery(rig, leaves_during="never")

        # The second was the platform's repetition, and was answered; the third is the user's own.
        assert rig.texts == ["yes", "yes"]
        assert rig.inbox.statistics().repeated == 1

    @pytest.mark.parametrize("leaves_during", ["never", "http.response.start", "http.response.body"])
    async def test_answered(self, leaves_during: str) -> None:
        """Whoever closes its connection as soon as it has read the answer has been answered."""
        rig = make_rig()
        await self.one_delivery(rig, leaves_during=leaves_during)
        await self.one_delivery(rig, leaves_during=leaves_during)

        assert rig.texts == ["yes", "yes"]
        assert rig.traffic.statistics().unanswered == 0


class TestMounted:
    """In somebody else's application the webhook answers below its prefix, and nowhere else."""

    def site(self, rig: Rig) -> QuartTrio:
        site = QuartTrio(__name__)
        site.config["MAX_CONTENT_LENGTH"] = 10

        @site.before_request
        async def turn_away() -> tuple[str, int]:
            return "members only", 401

        endpoint = Endpoint(
            rig.inbox,
            Secrets.parse(SECRET),
            limits=Limits(),
            readiness=lambda: rig.readiness[0],
        )
        mount_endpoint(site, "/shop/bot", lambda _: endpoint)
        return site

    async def test_below_the_prefix(self) -> None:
        rig = make_rig()
        async with client_of(self.site(rig)) as client:
            taken = await client.post("/shop/bot" + ADDRESS, content=form("hello"), headers=FORM)
            alive = await client.get("/shop/bot/healthz")
            wrong = await client.post("/shop/bot/wrong", content=form(), headers=FORM)
            bare = await client.get("/shop/bot")

        assert [answer.status_code for answer in (taken, alive, wrong, bare)] == [200, 200, 404, 404]
        assert rig.texts == ["hello"]

    async def test_elsewhere_the_site_answers(self) -> None:
        rig = make_rig()
        async with client_of(self.site(rig)) as client:
            for path in ("/", ADDRESS, "/shop/bots", "/healthz", "/shop/botany" + ADDRESS):
                assert (await client.get(path)).status_code == 401

    async def test_quarts_own_test_client(self) -> None:
        rig = make_rig()
        client = self.site(rig).test_client()

        answer = await client.post("/shop/bot" + ADDRESS, data=form("hello"), headers=FORM)

        assert answer.status_code == 200
        assert rig.texts == ["hello"]

    async def test_one_that_comes_and_goes(self) -> None:
        rig = make_rig()
        site = QuartTrio(__name__)
        endpoint = Endpoint(
            rig.inbox,
            Secrets.parse(SECRET),
            limits=Limits(),
            readiness=lambda: rig.readiness[0],
        )
        present: list[Endpoint] = []
        mount_endpoint(site, "/bot", lambda _: present[0] if present else None)
        statuses: list[int] = []

        async with client_of(site) as client:
            for state in ([], [endpoint], []):
                present[:] = state
                answer = await client.post("/bot" + ADDRESS, content=form("hello"), headers=FORM)
                statuses.append(answer.status_code)

        assert statuses == [503, 200, 503]
        assert rig.texts == ["hello"]

    @pytest.mark.parametrize("prefix", ["", "/", "bot", "/bot/", "/b<int:x>", "/ربات"])
    def test_prefix_must_be_plain(self, prefix: str) -> None:
        with pytest.raises(ConfigError):
            mount_endpoint(QuartTrio(__name__), prefix, lambda _: None)


async def test_lifespan_is_quarts_own() -> None:
    rig = make_rig()
    seen: list[str] = []

    @rig.app.before_serving
    async def opened() -> None:
        seen.append("opened")

    @rig.app.after_serving
    async def closed() -> None:
        seen.append("closed")

    assert isinstance(rig.app, Quart)
    async with rig.app.test_app():
        pass

    assert seen == ["opened", "closed"]
