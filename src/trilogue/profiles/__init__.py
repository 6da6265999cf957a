"""What each model takes: one table of rows with sources, and the lookup by vendor, protocol and name.

Data only. How a request is made to fit a profile is `protocols.fit`; nothing here knows requests.
"""

from trilogue.profiles.core import CORE
from trilogue.profiles.core import ROWS as CORE_ROWS
from trilogue.profiles.lookup import NOBODY, ROWS, profile_for, rows_for, vendor_for
from trilogue.profiles.profile import AS_IT_CAME, Profile
from trilogue.profiles.row import ProfileRow
from trilogue.profiles.vendors import VENDORS, plain_name, vendor_named

__all__ = [
    "AS_IT_CAME",
    "CORE",
    "CORE_ROWS",
    "NOBODY",
    "ROWS",
    "VENDORS",
    "Profile",
    "ProfileRow",
    "plain_name",
    "profile_for",
    "rows_for",
    "vendor_for",
    "vendor_named",
]
