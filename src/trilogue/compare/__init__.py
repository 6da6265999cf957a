"""Comparison by meaning: two requests, responses or streams of any protocols, through the neutral model.

It does no I/O. `tree` turns neutral values into plain data, `differences` compares two such trees, `detect` finds out
what a document is, and `documents` puts the three together.
"""

from trilogue.compare.detect import Kind, is_stream, kind_of, protocol_of_body, protocol_of_stream
from trilogue.compare.differences import ABSENT, Difference, differences
from trilogue.compare.documents import (
    ComparedDocument,
    SeveralProtocols,
    compare_begun,
    compare_documents,
    compare_events,
    read_document,
)
from trilogue.compare.tree import Reading, request_tree, response_tree

__all__ = [
    "ABSENT",
    "ComparedDocument",
    "Difference",
    "Kind",
    "Reading",
    "SeveralProtocols",
    "compare_begun",
    "compare_documents",
    "compare_events",
    "differences",
    "is_stream",
    "kind_of",
    "protocol_of_body",
    "protocol_of_stream",
    "read_document",
    "request_tree",
    "response_tree",
]
