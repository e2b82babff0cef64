"""nginx and Caddy as `deploy` has them: in front of a bot's socket, by https; nginx as another user."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest
import trio
import trustme

from tests.processes.process import ROOT

DEPLOY = ROOT / "deploy"
SECRET_LINE = "location = /THE-WEBHOOK-SECRET {"

NGINX = """
daemon off;
user www-data;
pid {folder}/nginx.pid;
error_log {folder}/log/error.log info;
events {{ worker_connections 64; }}
http {{
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/pizza.conf;
}}
"""


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not installed")


def has_another_user() -> bool:
    try:
        pwd.getpwnam("www-data")
    except KeyError:
        return False
    return os.geteuid() == 0


needs_nginx_as_another_user = pytest.mark.skipif(
    shutil.which("nginx") is None or not has_another_user(),
    reason="nginx is not installed, or there is no root to run it as another user",
)


@asynccontextmanager
async def proxied(folder: Path, behind: Path, *secrets: str) -> AsyncGenerator[httpx.AsyncClient]:
    """nginx with the configuration that is there to be copied; yields a client that trusts its certificate.

    Its logs are in the folder ``log``. It inherits its listening socket: no port has to be guessed, and who
    connects before it is there waits.
    """
    (folder / "log").mkdir()
    authority = trustme.CA()
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(folder / "both.pem")
    text = (DEPLOY / "nginx/pizza.conf").read_text()
    before, _, after = text.partition(SECRET_LINE)
    one, _, rest = after.partition("\n    }\n")
    places = "\n    }\n".join(f"location = /{secret} {{{one}" for secret in secrets)
    text = f"{before}{places}\n    }}\n{rest}"
    with socket.create_server(("127.0.0.1", 0)) as listening:
        number, port = listening.fileno(), listening.getsockname()[1]
        for old, new in (
            ("unix:/run/pizza.sock", f"unix:{behind}"),
            ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
            ("/etc/ssl/pizza/fullchain.pem", f"{folder}/both.pem"),
            ("/etc/ssl/pizza/privkey.pem", f"{folder}/both.pem"),
            ("/var/log/nginx/", f"{folder}/log/"),
        ):
            assert old in text
            text = text.replace(old, new)
        (folder / "pizza.conf").write_text(text)
        (folder / "nginx.conf").write_text(NGINX.format(folder=folder))
        command = ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")]
        command += ["-e", str(folder / "log/error.log")]
        run = partial(
            trio.run_process,
            command,
            pass_fds=[number],
            env={**os.environ, "NGINX": f"{number};"},
            check=False,
        )
        context = httpx.create_ssl_context()
        authority.configure_trust(context)
        async with trio.open_nursery() as nursery:
            await nursery.start(run)
            async with httpx.AsyncClient(base_url=f"https://localhost:{port}", verify=context) as client:
                yield client
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def before_nodes(
    folder: Path,
    nodes: Sequence[str],
    secret: str,
) -> AsyncGenerator[int]:
    """nginx with a configuration for two nodes, or for as many as there are, without TLS; yields its port.

    Its logs are in the folder ``log``.
    """
    (folder / "log").mkdir()
    text = (DEPLOY / "nginx/pizza-two.conf").read_text()
    (second,) = (line for line in text.splitlines() if "10.0.0.12:8080" in line)
    more = "\n".join(second.replace("10.0.0.12:8080", node) for node in nodes[1:])
    with socket.create_server(("127.0.0.1", 0)) as listening:
        number, port = listening.fileno(), listening.getsockname()[1]
        for old, new in (
            ("10.0.0.11:8080", nodes[0]),
            (second, more),
            ("listen 443 ssl", f"listen 127.0.0.1:{port}"),
            ("    ssl_certificate /etc/ssl/pizza/fullchain.pem;\n", ""),
            ("    ssl_certificate_key /etc/ssl/pizza/privkey.pem;\n", ""),
            ("THE-WEBHOOK-SECRET", secret),
            ("/var/log/nginx/", f"{folder}/log/"),
        ):
            assert old in text, old
            text = text.replace(old, new)
        (folder / "pizza.conf").write_text(text)
        (folder / "nginx.conf").write_text(NGINX.format(folder=folder))
        command = ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")]
        command += ["-e", str(folder / "log/error.log")]
        environ = {**os.environ, "NGINX": f"{number};"}
        async with trio.open_nursery() as nursery:
            await nursery.start(
                partial(trio.run_process, command, pass_fds=[number], env=environ, check=False)
            )
            yield port
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def behind_caddy(folder: Path, behind: Path, secret: str) -> AsyncGenerator[httpx.AsyncClient]:
    """Caddy with the file that is there to be copied; yields a client that trusts its certificate.

    What it says is in the file ``caddy.log``. It listens on a path, so that no port has to be guessed.
    """
    authority = trustme.CA()
    authority.issue_cert("bot.example.org").private_key_and_cert_chain_pem.write_to_path(folder / "both.pem")
    text = (DEPLOY / "caddy/Caddyfile").read_text()
    for old, new in (
        ("THE-WEBHOOK-SECRET", secret),
        ("unix//run/pizza.sock", f"unix/{behind}"),
        ("\n{\n", "\n{\nadmin off\nauto_https disable_redirects\n"),
        (
            "bot.example.org {\n",
            f"bot.example.org {{\nbind unix/{folder}/caddy.sock\ntls {folder}/both.pem {folder}/both.pem\n",
        ),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (folder / "Caddyfile").write_text(text)
    context = httpx.create_ssl_context()
    authority.configure_trust(context)
    transport = httpx.AsyncHTTPTransport(uds=str(folder / "caddy.sock"), verify=context)
    with (folder / "caddy.log").open("wb") as log:
        run = partial(
            trio.run_process,
            ["caddy", "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"],
            env={
                **os.environ,
                "HOME": str(folder),
                "XDG_DATA_HOME": str(folder),
                "XDG_CONFIG_HOME": str(folder),
            },
            stdout=log,
            stderr=log,
            check=False,
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(run)
            await _listens(folder / "caddy.sock")
            async with httpx.AsyncClient(base_url="https://bot.example.org", transport=transport) as client:
                yield client
            nursery.cancel_scope.cancel()


async def _listens(path: Path) -> None:
    """Wait until somebody accepts connections there: the file comes before that."""
    while True:
        try:
            stream = await trio.open_unix_socket(path)
        except OSError:
            await trio.sleep(0.02)
        else:
            await stream.aclose()
            return
