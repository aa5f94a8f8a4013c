"""A call that is refused for another reason than its content: the status that says so."""

import grpc

from gavelx.errors import GavelxError


class RefusedError(GavelxError):
    """A call that is refused for another reason than what it says; ``code`` is its gRPC status."""

    def __init__(self, code: grpc.StatusCode, problem: str) -> None:
        super().__init__(problem)
        self.code = code
