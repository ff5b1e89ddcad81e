"""Prints how many calls into how many files the node's ways take, and how many calls with those of libraries.

See `tests/support/ways.py`.

`--stops` lists the calls of one way, in their order.
"""

import argparse

from tests.support.ways import trace_all


def main() -> None:
    parser = argparse.ArgumentParser(prog="make ways", description=__doc__)
    parser.add_argument("--stops", metavar="WORD", help="list the calls of each way whose name has this word")
    word = parser.parse_args().stops
    ways = trace_all()
    for way in ways:
        print(
            f"{way.name:<36}{len(way.stops):>5} calls {len(way.files):>5} files {way.all_calls:>7} calls in all"
            f"{way.bytecodes:>8} instructions"
        )
    for way in ways:
        if word is not None and word in way.name:
            print(f"\n{way.name}")
            for stop in way.stops:
                print(f"  {stop.file:<40}{stop.function}")


if __name__ == "__main__":
    main()
