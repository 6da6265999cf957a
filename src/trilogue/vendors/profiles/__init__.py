"""What each model accepts: one table of rows with sources, and the lookup by vendor, protocol and name.

It is data only. `protocols.fit` fits a request to a profile; nothing here knows requests.
"""
