"""The list of vendors is sound: whatever a vendor is recognised by belongs to no other one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from itertools import combinations

import pytest

from tests.each import each
from trilogue.prices import ROWS
from trilogue.vendors.addresses import KEY_PREFIXES, vendor_of
from trilogue.vendors.table import PRESETS, PROFILED, VENDORS, maker_of, vendor_named, vendors_led_by
from trilogue.vendors.vendor import Vendor


def twice(words: Iterable[str]) -> list[str]:
    return [word for word, count in Counter(words).items() if count > 1]


def test_names_are_used_once() -> None:
    """A name, or another word for a vendor, means one vendor only; so does a name of another gateway."""
    assert twice(name for vendor in VENDORS for name in (vendor.name, *vendor.other_names)) == []
    assert twice(name for vendor in VENDORS for name in (vendor.name, *vendor.imported_names)) == []
    assert list(PRESETS) == [preset.name for preset in PRESETS.values()]
    assert len(PRESETS) == len(VENDORS)


def test_no_prefix_of_keys_begins_with_another() -> None:
    """Otherwise it would depend on their order which vendor has issued a key."""
    assert not [pair for pair in combinations(sorted(KEY_PREFIXES), 2) if pair[1].startswith(pair[0])]
    assert len(KEY_PREFIXES) == sum(len(vendor.key_prefixes) for vendor in VENDORS)


def test_labels_of_families_are_used_once() -> None:
    assert twice(family.label for vendor in VENDORS for family in vendor.families) == []


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.name)
def test_a_vendor_has_only_its_own_rows(vendor: Vendor) -> None:
    """Rows of different vendors never compete, so their order makes no difference."""
    owners = {name for row in vendor.profiles for name in row.vendors.split()}
    assert owners <= ({"openai", "azure"} if vendor.name == "openai" else {vendor.name})
    assert {row.vendor for row in vendor.prices} <= {vendor.name}


@pytest.mark.parametrize("vendor", [one for one in VENDORS if one.hosts], ids=lambda vendor: vendor.name)
def test_a_vendor_is_recognised_by_its_own_address(vendor: Vendor) -> None:
    """Names of hosts with a parameter need a value first."""
    assert {vendor_of(re.sub(r"\{\w+\}", "x", url)) for url in vendor.preset.urls.values()} == {vendor.name}


@each("vendor", [one for one in VENDORS if one.models])
def test_a_maker_is_recognised_by_its_models(vendor: Vendor) -> None:
    """The model of the preset is its own, and so are all that have a price."""
    models = [vendor.preset.model, *(name for row in vendor.prices for name in row.models)]
    assert {maker_of(model) for model in models} == {vendor.name}


def test_vendors_with_rows_are_recognised_by_name() -> None:
    assert [vendor_named(name) for name in PROFILED] == list(PROFILED)
    assert all(vendor.name in PROFILED for vendor in VENDORS if vendor.profiles or vendor.hosts or vendor.other_names)


def test_some_vendors_come_first() -> None:
    """The others keep their order, and nobody is lost or there twice."""
    led = vendors_led_by("xai groq")
    assert [vendor.name for vendor in led[:3]] == ["xai", "groq", "openai"]
    assert sorted(vendor.name for vendor in led) == sorted(vendor.name for vendor in VENDORS)


def test_all_prices_are_public() -> None:
    assert len(ROWS) == sum(len(vendor.prices) for vendor in VENDORS)
