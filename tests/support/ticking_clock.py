"""A clock that stands still but for its readings, so that a test decides how long work takes."""


class TickingClock:
    def __init__(self, tick_s: float = 0.0) -> None:
        self.now = 0.0
        self._tick_s = tick_s

    def __call__(self) -> float:
        self.now += self._tick_s
        return self.now
