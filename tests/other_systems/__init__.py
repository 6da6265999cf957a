"""A gateway without uvloop and without what only POSIX systems have, as on Windows."""
