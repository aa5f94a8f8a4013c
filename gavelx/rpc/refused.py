"""Calls that are refused for another reason than their content, with a gRPC status."""

import grpc

from gavelx.errors import GavelxError


class RefusedError(GavelxError):
    """A call that is refused for another reason than its content; ``code`` is the gRPC status."""

    def __init__(self, code: grpc.StatusCode, problem: str) -> None:
        super().__init__(problem)
        self.code = code
