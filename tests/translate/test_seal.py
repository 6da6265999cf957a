"""Sealed values: only we can open them, nobody can change them, keys can be rotated."""

from __future__ import annotations

from base64 import urlsafe_b64encode

import pytest
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.ciphers import aead

from trilogue.base import cipher
from trilogue.errors import CipherUnavailable, SealError, UpstreamProtocolError
from trilogue.model import SEAL_PREFIX, SEAL_PREFIXES, Opaque, OpaqueKind, Protocol, Provenance
from trilogue.translate.reasoning.seal import Audience, Sealed, Sealer

OLD, NEW = b"o" * 32, b"n" * 32
ORIGIN = Provenance(protocol=Protocol.MESSAGES, provider="anthropic", model="claude-sonnet-5", account="a")
VALUE = Opaque(kind=OpaqueKind.SIGNATURE, value="EqQBCkYIBBgCKkB/+=", item_id="rs_1")


def test_opens_what_it_sealed() -> None:
    """Value, kind, item id and provenance come back byte for byte."""
    sealer = Sealer([OLD])
    sealed = sealer.seal(VALUE, ORIGIN)
    assert sealed.startswith(SEAL_PREFIX)
    opened = sealer.open(sealed)
    assert (opened.opaque, opened.origin) == (VALUE, ORIGIN)


OPENAI = Provenance(protocol=Protocol.RESPONSES, provider="openai", model="gpt-5", account="b")
EARLIER = [
    # From before envelopes had the parts of a summary.
    (
        "trl1.LPAB1xcG6XFSlIA4uL-r27u0bJuZYzQcpmybCnPix0Nd5XokTGpcyriHjh6jcDkBkhiLyWYsAeCn5zfkNyaerD-LBM0y3IKlIcku0q"
        "gBZmqniYeSMhmDabdO3Q_SxceQkJoctr5ROXa6lAFcMoT6fceE",
        Sealed(VALUE, ORIGIN),
    ),
    (
        "trl1.LPAB10eQKiWqOFEkwxjY2tTkwPsn8EmjADVS_kLT5q2tzguk8ER4377QGdqdNB2PsErda8CNjATkaS4vaV9bS7V4W05qomy05Fg-H0G9"
        "tUSmN6CdFo4F",
        Sealed(Opaque(kind=OpaqueKind.ENCRYPTED, value="gAAAA=="), OPENAI, (3, 5)),
    ),
    (
        "trl1.LPAB11Sof6NfUoBrIl0wWABQHb-9GsqWJOydoWwxYofuXauU4JZ-pJ5oQy9Go46Kp1N6c5cG4F31V3H_Q5Qu8sOWsoc",
        Sealed(Opaque(kind=OpaqueKind.NONE, value=""), Provenance(protocol=Protocol.CHAT)),
    ),
    (
        "trl1.LPAB140vPR6VNUS98b10ErAu_VgGQzVYRwWBbmUywtdrw55npkuVTxQ_GMU-CPFNALm8tG0moMf_MIbnG1z1nPYsC9S3JFkchX4HisP-"
        "selCjcE",
        Sealed(Opaque(kind=OpaqueKind.CITATION, value="é✓", item_id="x"), OPENAI),
    ),
]


MINE = Audience("a1", frozenset({"a1", "team"}))
THEIRS = Audience("b2", frozenset({"b2"}))


def test_a_value_for_one_audience_is_for_no_other() -> None:
    sealer = Sealer([OLD])
    mine, theirs = sealer.bound_to(MINE), sealer.bound_to(THEIRS)
    sealed = mine.seal(VALUE, ORIGIN, (1, 2))
    assert mine.open(sealed) == sealer.open(sealed) == Sealed(VALUE, ORIGIN, (1, 2))
    assert mine.open(sealer.bound_to(Audience("team", frozenset())).seal(VALUE, ORIGIN)).opaque == VALUE
    assert mine.seal(VALUE, ORIGIN, (1, 2)) == sealed != theirs.seal(VALUE, ORIGIN, (1, 2))
    with pytest.raises(SealError, match="another client"):
        theirs.open(sealed)
    # It is not one of another gateway, which would have to be passed on.
    assert not theirs.of_another(sealed)
    assert Sealer([NEW, OLD]).bound_to(MINE).open(sealed).opaque == VALUE


def test_without_an_audience_nothing_has_changed() -> None:
    """The same seal as in the version before, which keeps prompt caches warm, and which any audience can open."""
    earlier = "trl2.e0Zjrkd6HJOkE1Dt-MrB5YtYmCWGypDg3iYjmyVVm3Fn1UZj4D-82gwrSGd_uRQEOpb_CSk2luL9W1kEcvy1mA"
    content = Opaque(kind=OpaqueKind.ENCRYPTED, value="v", item_id="rs_1")
    origin = Provenance(protocol=Protocol.RESPONSES, provider="p", model="m", account="a")
    sealer = Sealer([bytes(range(32))])
    assert sealer.seal(content, origin, (1, 2)) == earlier
    for one in (sealer, sealer.bound_to(MINE), sealer.bound_to(THEIRS)):
        assert one.open(earlier) == Sealed(content, origin, (1, 2))


@pytest.mark.parametrize(("sealed", "content"), EARLIER)
def test_opens_what_earlier_versions_sealed(sealed: str, content: Sealed) -> None:
    """Histories live longer than gateways, and keys are rotated in between."""
    assert Sealer([NEW, OLD]).open(sealed) == content
    assert Sealer([NEW]).of_another(sealed)
    assert not Sealer([NEW, OLD]).of_another(sealed)


@pytest.mark.parametrize("sealed", [sealed for sealed, _ in EARLIER])
def test_changes_to_earlier_values_are_noticed(sealed: str) -> None:
    """Also the claim to be of the newer format."""
    for changed in (sealed[:20] + ("A" if sealed[20] != "A" else "B") + sealed[21:], "trl2." + sealed[5:], sealed[:-4]):
        with pytest.raises(SealError):
            Sealer([OLD]).open(changed)


def test_a_fixed_value_has_a_fixed_seal() -> None:
    """Another one would cost every conversation its prompt cache."""
    sealed = Sealer([OLD]).seal(VALUE, ORIGIN)
    assert sealed == (
        "trl2.LPAB12qxrBPBB2GY7suo4nqKEo3K8d_7YizZ6vC7fEKjMbTkaNXUehafEe-CpUV4l0U0yoNYjYwV62CWBR5QjLfTdt8o7yG"
        "vZFnHWTqffC3Atv1q5qtqEyGkMQFhnNCxzeBQOFiZqg"
    )


def test_without_aes_gcm_siv_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where `cryptography` was built against an older OpenSSL. Values of earlier versions can still be opened."""

    def unsupported(_: bytes) -> None:
        raise UnsupportedAlgorithm("AES-GCM-SIV is not supported by this version of OpenSSL")

    monkeypatch.setattr(aead, "AESGCMSIV", unsupported)
    cipher.load.cache_clear()
    with pytest.raises(CipherUnavailable, match=r"OpenSSL 3\.2"):
        cipher.load()
    with pytest.raises(CipherUnavailable, match=r"OpenSSL 3\.2"):
        Sealer([OLD]).seal(VALUE, ORIGIN)
    assert Sealer([OLD]).open(EARLIER[0][0]) == EARLIER[0][1]


def test_shows_nothing() -> None:
    """A client sees neither the value nor where it came from."""
    sealed = Sealer([OLD]).seal(VALUE, ORIGIN)
    assert "anthropic" not in sealed
    assert VALUE.value not in sealed


def test_same_value_is_sealed_alike() -> None:
    """Prompt caches depend on it; another value or another origin gives another seal."""
    sealer = Sealer([OLD])
    assert sealer.seal(VALUE, ORIGIN) == sealer.seal(VALUE, ORIGIN)
    assert sealer.seal(VALUE, ORIGIN) != sealer.seal(VALUE, Provenance(protocol=Protocol.MESSAGES))


def test_old_keys_still_open_after_rotation() -> None:
    """The new key goes in front; what the old one sealed is not lost."""
    sealed = Sealer([OLD]).seal(VALUE, ORIGIN)
    rotated = Sealer([NEW, OLD])
    assert rotated.open(sealed).opaque == VALUE
    assert rotated.seal(VALUE, ORIGIN) != sealed


def test_unknown_key_is_refused() -> None:
    """After the old key is gone its values are foreign."""
    with pytest.raises(SealError, match="unknown key"):
        Sealer([NEW]).open(Sealer([OLD]).seal(VALUE, ORIGIN))


def test_every_changed_character_is_noticed() -> None:
    """Authenticated: flipping any character makes it worthless."""
    sealer = Sealer([OLD])
    sealed = sealer.seal(VALUE, ORIGIN)
    for position in range(len(SEAL_PREFIX), len(sealed) - 1):
        changed = sealed[:position] + ("A" if sealed[position] != "A" else "B") + sealed[position + 1 :]
        with pytest.raises(SealError):
            sealer.open(changed)


NONSENSE = ["", "native", "trl3.AAAA"]
NONSENSE += [prefix + rest for prefix in SEAL_PREFIXES for rest in ("", "!!!!", "AAAA", "é", "A" * 30)]


@pytest.mark.parametrize("value", NONSENSE)
def test_nonsense_is_a_seal_error(value: str) -> None:
    """Whatever a client sends back, only our own error escapes."""
    with pytest.raises(SealError):
        Sealer([OLD]).open(value)


def test_keys_are_checked_and_hidden() -> None:
    """A short key is a mistake to hear of at start-up, and no key shows in a repr."""
    with pytest.raises(ValueError, match="32 bytes"):
        Sealer([b"short"])
    with pytest.raises(ValueError, match="at least one"):
        Sealer([])
    assert repr(Sealer([OLD])) == "Sealer(1 keys)"


def test_knows_whose_a_sealed_value_is() -> None:
    """One key is enough to have made it. What no gateway can have made is nobody's."""
    sealed = Sealer([OLD]).seal(VALUE, ORIGIN)
    assert Sealer([NEW]).of_another(sealed)
    assert not Sealer([NEW, OLD]).of_another(sealed)
    assert not Sealer([NEW]).of_another(SEAL_PREFIX + "AAAA")
    assert not Sealer([NEW]).of_another(VALUE.value)


@pytest.mark.parametrize("length", range(8))
def test_values_of_every_length(length: int) -> None:
    """Whatever padding their base64 would need."""
    sealer = Sealer.ephemeral()
    value = Opaque(kind=OpaqueKind.SIGNATURE, value="x" * length)
    assert sealer.open(sealer.seal(value, ORIGIN)).opaque == value


def test_half_a_character_is_the_upstreams_fault() -> None:
    """It cannot be sealed."""
    with pytest.raises(UpstreamProtocolError, match="half a character"):
        Sealer([OLD]).seal(Opaque(kind=OpaqueKind.SIGNATURE, value="\ud800"), ORIGIN)


def test_too_short_to_be_anybodys() -> None:
    """A key id and a tag are the least, or a key id, a nonce and more in the first format."""
    for prefix, least in ((SEAL_PREFIX, 20), ("trl1.", 17)):
        short, enough = (prefix + urlsafe_b64encode(b"x" * size).decode().rstrip("=") for size in (least - 1, least))
        assert not Sealer([OLD]).of_another(short)
        assert Sealer([OLD]).of_another(enough)
