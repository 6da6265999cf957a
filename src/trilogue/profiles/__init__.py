"""What each model accepts: one table of rows with sources, and the lookup by vendor, protocol and name.

It is data only. `protocols.fit` fits a request to a profile; nothing here knows requests.
"""

from trilogue.profiles.core import CORE
from trilogue.profiles.core import ROWS as CORE_ROWS
from trilogue.profiles.facts import ModelFacts, facts_for
from trilogue.profiles.lookup import ROWS, UNKNOWN_VENDOR, profile_for, rows_for, vendor_for
from trilogue.profiles.profile import UNCHANGED, Profile, ProfileRow
from trilogue.profiles.vendors import VENDORS, plain_name, vendor_named

__all__ = [
    "CORE",
    "CORE_ROWS",
    "ROWS",
    "UNCHANGED",
    "UNKNOWN_VENDOR",
    "VENDORS",
    "ModelFacts",
    "Profile",
    "ProfileRow",
    "facts_for",
    "plain_name",
    "profile_for",
    "rows_for",
    "vendor_for",
    "vendor_named",
]
