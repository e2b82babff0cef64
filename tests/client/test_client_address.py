"""The rules for addresses, without a network."""

from __future__ import annotations

import ipaddress

import httpx
import pytest

from triobot.client.address import (
    checked_hosts,
    parse_base_url,
    registrable_domain,
)
from triobot.client.media import check_media_url
from triobot.client.media_address import allowed_domains, check_addresses, is_public
from triobot.errors import ConfigError, RemoteProtocolError

BASE = "https://api.example.com"


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        (BASE, "https://api.example.com/invoice/verify"),
        (BASE + "/", "https://api.example.com/invoice/verify"),
        (BASE + ":8443/gate/", "https://api.example.com:8443/gate/invoice/verify"),
        ("http://localhost:8000", "http://localhost:8000/invoice/verify"),
        ("http://[::1]:8000", "http://[::1]:8000/invoice/verify"),
        ("http://127.0.0.1", "http://127.0.0.1/invoice/verify"),
        ("HTTPS://API.Example.COM:443", "https://api.example.com/invoice/verify"),
        (
            "https://api.example.com.:0443/a%2Fb/@c;d=1//",
            "https://api.example.com/a%2Fb/@c;d=1/invoice/verify",
        ),
        ("https://xn--bcher-kva.example", "https://xn--bcher-kva.example/invoice/verify"),
        ("https://[2001:DB8::1]:8443", "https://[2001:db8::1]:8443/invoice/verify"),
    ],
)
def test_operations_are_appended_to_the_base_url(base: str, expected: str) -> None:
    parsed = parse_base_url(base, allow_insecure=False)
    theirs = httpx.URL(f"{parsed}/invoice/verify")

    assert str(theirs) == expected
    # Messages go where this says, files where httpx reads the same text.
    assert (theirs.raw_host.decode(), theirs.netloc.decode()) == (parsed.host, parsed.netloc)
    assert (theirs.raw_path.decode(), theirs.userinfo) == (f"{parsed.path}/invoice/verify", b"")


@pytest.mark.parametrize(
    "base",
    [
        "",
        "api.example.com",
        "ftp://api.example.com",
        "https://",
        "https://user:swordfish@api.example.com",
        "https://api.example.com/?key=swordfish",
        "https://api.example.com/#swordfish",
        "https://api.example.com:99999",
        "https://api.example.com:swordfish",
        "http://api.example.com/swordfish",
        "http://127.0.0.1.example.com/swordfish",
        "http://localhost.example.com",
        "http://10.0.0.1",
        "https://@api.example.com",
        "https://swordfish@evil.test@api.example.com",
        "https://evil.test\\@api.example.com",
        "https://api.example.com\\.evil.test",
        "https://api.example.com%2eevil.test",
        "https://api.example.com,evil.test",
        " https://api.example.com",
        "https://api.example.com\n",
        "https://api.exa\tmple.com",
        "https://api.example.com:",
        "https://api.example.com:0",
        "https://api.example.com:+80",
        "https://api.example.com: 80",
        "https://api.example.com:\uff18\uff10",
        "https://api.example.com:80:80",
        "https://api.example.com/a/../b",
        "https://api.example.com/./a",
        "https://api.example.com/a b",
        "https://api.example.com/%",
        "https://api.example.com/a\\b",
        "https:\\\\api.example.com",
        "https:/api.example.com",
        "https://b\u00fccher.example",
        "https://127\u30020\u30020\u30021",
        "https://127.1",
        "https://2130706433",
        "https://127.0.0.01",
        "https://1.2.3.999",
        "https://[::1",
        "https://::1",
        "https://[::1].evil.test",
        "https://evil.test[::1]",
        "https://[127.0.0.1]",
        "https://[fe80::1%25eth0]",
        "https://...",
        "https://" + "a" * 254,
        None,
        b"https://api.example.com",
    ],
)
def test_a_base_url_that_could_leak_the_token_is_refused_unseen(base: object) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_base_url(base, allow_insecure=False)

    assert "swordfish" not in str(caught.value)


def test_cleartext_to_another_machine_needs_permission() -> None:
    with pytest.raises(ConfigError, match="allow_insecure=True"):
        parse_base_url("http://platform.internal", allow_insecure=False)

    assert parse_base_url("http://platform.internal", allow_insecure=True).trusted_network
    assert not parse_base_url(BASE, allow_insecure=True).trusted_network


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("api.example.com", "example.com"),
        ("a.b.c.example.com", "example.com"),
        ("example.com", "example.com"),
        ("api.example.co.uk", "example.co.uk"),
        ("example.co.uk", "example.co.uk"),
        ("co.uk", "co.uk"),
        ("api.shop.city.kawasaki.jp", "city.kawasaki.jp"),
        ("api.shop.kawasaki.jp", "api.shop.kawasaki.jp"),
        ("bots.someone.github.io", "someone.github.io"),
        ("api.platform.test", "platform.test"),
        ("bots.shop.xn--55qx5d.xn--j6w193g", "shop.xn--55qx5d.xn--j6w193g"),
        ("localhost", "localhost"),
        ("203.0.113.9", "203.0.113.9"),
        ("2001:db8::1", "2001:db8::1"),
    ],
)
def test_the_registrable_domain(host: str, domain: str) -> None:
    assert registrable_domain(host) == domain


def check(url: str, *, base: str = BASE, further: tuple[str, ...] = ()) -> str:
    parsed = parse_base_url(base, allow_insecure=False)
    domains = allowed_domains(parsed, checked_hosts(further))
    return str(check_media_url(url, domains=domains, trusted_network=parsed.trusted_network))


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/a.jpg",
        "https://cdn.example.com/a.jpg?size=2",
        "https://CDN.EXAMPLE.COM/a.jpg",
        "https://cdn.example.com./a.jpg",
        "https://cdn.example.com:8443/a.jpg",
    ],
)
def test_media_on_the_platforms_own_domain_is_followed(url: str) -> None:
    check(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/etc/passwd",
        "file:///etc/passwd",
        "http://cdn.example.com/a.jpg",
        "ftp://cdn.example.com/a.jpg",
        "https://evil.test/a.jpg",
        "https://example.com.evil.test/a.jpg",
        "https://notexample.com/a.jpg",
        "https://com/a.jpg",
        "https://user@cdn.example.com/a.jpg",
        "https://cdn.example.com@evil.test/a.jpg",
        "https://evil.test\\@cdn.example.com/a.jpg",
        "https://evil.test\\.example.com/a.jpg",
        "https://evil.test#.example.com/a.jpg",
        "https://evil.test?.example.com/a.jpg",
        "https://169.254.169.254/latest/meta-data",
        "https://[::1]/a.jpg",
        "https://localhost/a.jpg",
        "https://cdn.example.com:99999/a.jpg",
        "https://cdn.example.com/\x00",
    ],
)
def test_media_anywhere_else_is_not(url: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        check(url)

    assert caught.value.field == "path"


def test_further_media_hosts_are_named_by_the_operator() -> None:
    check("https://eu.files.test/a.jpg", further=("Files.test",))
    with pytest.raises(RemoteProtocolError):
        check("https://evilfiles.test/a.jpg", further=("files.test",))


@pytest.mark.parametrize("wrong", [("https://files.test",), ("files.test:443",), ("",), ("*.files.test",)])
def test_media_hosts_are_plain_names(wrong: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError):
        check("https://example.com/a.jpg", further=wrong)


def test_one_string_is_no_collection_of_hosts() -> None:
    with pytest.raises(ConfigError):
        checked_hosts("files.test")


def test_a_platform_on_this_machine_may_serve_media_from_this_machine() -> None:
    check("http://localhost:8001/a.jpg", base="http://127.0.0.1:8000")
    with pytest.raises(RemoteProtocolError):
        check("http://10.0.0.1/a.jpg", base="http://127.0.0.1:8000")


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "fec0::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
    ],
)
def test_addresses_that_lead_inside(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_addresses_that_lead_outside(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


def test_one_address_inside_condemns_the_name() -> None:
    with pytest.raises(RemoteProtocolError, match="public"):
        check_addresses(["8.8.8.8", "127.0.0.1"], trusted_network=False)

    assert check_addresses(["8.8.8.8", "8.8.8.8", "9.9.9.9"], trusted_network=False) == ("8.8.8.8", "9.9.9.9")
    assert check_addresses(["127.0.0.1"], trusted_network=True) == ("127.0.0.1",)
