"""One HTTP request to a node or to CometBFT. Not with httpx, which would make commands load half as long again."""

import http.client
import json
from typing import Any


class NoAnswer(Exception):
    """There was no answer, or it was not JSON."""


def ask(host: str, path: str, timeout_s: float) -> tuple[int, Any]:
    """The status of the answer and its JSON. Raises `NoAnswer`."""
    connection = http.client.HTTPConnection(host, timeout=timeout_s)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NoAnswer(str(error) or type(error).__name__) from None
    finally:
        connection.close()
