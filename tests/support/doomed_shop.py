"""Runs shop.py of docs/tutorial.md and kills it before a certain statement of its database.

Arguments: the number of the statement, and whose it is, `payments` or `orders`.
"""

import os
import runpy
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable
from typing import Any

LEFT = iter(range(int(sys.argv[1]) - 1))
IS_FOR_PAYMENTS = sys.argv[2] == "payments"
connect: Callable[..., sqlite3.Connection] = sqlite3.connect


def count(_statement: str) -> None:
    if next(LEFT, None) is None:
        os.kill(os.getpid(), signal.SIGKILL)


def connect_counted(*args: Any, **kwargs: Any) -> sqlite3.Connection:
    connection: sqlite3.Connection = connect(*args, **kwargs)
    # Payments are booked by the main thread, and orders are placed by others.
    if (threading.current_thread() is threading.main_thread()) == IS_FOR_PAYMENTS:
        connection.set_trace_callback(count)
    return connection


sqlite3.connect = connect_counted  # type: ignore[assignment]
runpy.run_path("shop.py", run_name="__main__")
