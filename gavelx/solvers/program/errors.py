"""How a solver says that it has no optimum."""

from gavelx.errors import GavelxError

OUT_OF_TIME = "time limit reached"


class UnsolvedError(GavelxError):
    """A solver ended without an optimum; ``status`` is ``infeasible``, ``unbounded`` or its own words."""

    def __init__(self, status: str) -> None:
        self.status = status
        super().__init__(f"the program was not solved: {status}")
