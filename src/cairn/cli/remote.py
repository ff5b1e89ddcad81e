"""A node as its clients see it: over its public interface."""

import json
import urllib.error
import urllib.request
from typing import Any

from cairn.cli.report import CommandFailed
from cairn.domain.errors import InvalidConfig

TIMEOUT_S = 10.0


class NodeRefused(Exception):
    """The node answered with a problem that trying again does not solve."""


class RemoteNode:
    def __init__(self, url: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise InvalidConfig(f"--node {url}: expected a URL, such as http://127.0.0.1:8645")
        self._url = url.rstrip("/")

    def get(self, path: str) -> Any:
        """Raises `CommandFailed` with the node's own words."""
        try:
            return self._ask(urllib.request.Request(self._url + path))
        except NodeRefused as refusal:
            raise CommandFailed(f"{self._url}{path}: {refusal}") from None

    def post(self, path: str, body: bytes) -> Any:
        """Raises `NodeRefused`; `CommandFailed` when the node cannot be reached or cannot work just now."""
        headers = {"Content-Type": "application/json"}
        return self._ask(urllib.request.Request(self._url + path, body, headers))

    def _ask(self, request: urllib.request.Request) -> Any:
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                reason = _reason_in(error.read(), error.reason)
            if error.code >= 500:
                raise CommandFailed(f"{self._url} cannot do it now: {reason}") from None
            raise NodeRefused(reason) from None
        except urllib.error.URLError as error:
            raise CommandFailed(f"{self._url} does not answer: {error.reason}") from None
        except (OSError, ValueError) as error:
            raise CommandFailed(f"{self._url} does not answer as a node does: {error}") from None


def _reason_in(body: bytes, otherwise: str) -> str:
    try:
        return str(json.loads(body)["detail"])
    except (ValueError, KeyError, TypeError):
        return otherwise
