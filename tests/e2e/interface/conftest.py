"""The interface suite runs against the node at NODE_URL, or against a dev chain that it starts.

The node at NODE_URL is one of a dev chain, or one of a network in which the dev accounts have money. Every test is the
same for both, with two exceptions, for which tests go by the engine that the node names in `GET /chain`:

- Only `cairn dev` signs for the dev accounts. That is a convenience of a node that has their keys; a node of a network
  holds the key of no account, and refuses an unsigned transfer as it does anybody else's.
- A replaced transaction is dropped at once only where nobody else makes blocks.

Each answer is also held against the OpenAPI document, whatever the test looks at.
"""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager

import httpx
import pytest

from tests.support.described import assert_described, find_operation
from tests.support.node_process import NodeProcess
from tests.support.public import PublicNode


@pytest.fixture(scope="session")
def node() -> Iterator[PublicNode]:
    with started_or_given() as url, closing(PublicNode(url)) as public:
        public.http.event_hooks["response"] = [compare_with_document]
        yield public


@contextmanager
def started_or_given() -> Iterator[str]:
    given = os.environ.get("NODE_URL")
    if given:
        yield given
        return
    with NodeProcess.start_dev("--block-time", "0.01", "--workers", "2") as process:
        yield process.url


def compare_with_document(answer: httpx.Response) -> None:
    answer.read()
    # Some tests ask for what there is not.
    if find_operation(answer.request) is not None:
        assert_described(answer)
