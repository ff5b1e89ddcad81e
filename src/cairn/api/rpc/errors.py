"""Errors of JSON-RPC, with geth's codes and wording: wallets and libraries search the text for it."""

from cairn.domain import errors
from cairn.domain.errors import NodeError, Unavailable

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
SERVER_ERROR = -32000
"""geth's code for refusals by a method."""
RESOURCE_UNAVAILABLE = -32002
RESPONSE_TOO_LARGE = -32003
LIMIT_EXCEEDED = -32005


class RpcError(Exception):
    """What a method answers instead of a result."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


def refusal(message: str, code: str) -> RpcError:
    """`code` is the error code of the same refusal on REST."""
    return RpcError(SERVER_ERROR, message, {"code": code})


class InvalidParams(RpcError):
    def __init__(self, message: str) -> None:
        super().__init__(INVALID_PARAMS, message)


class MethodNotFound(RpcError):
    def __init__(self, method: str) -> None:
        super().__init__(METHOD_NOT_FOUND, f"the method {method[:80]} does not exist/is not available")


WORDING: dict[type[NodeError], str] = {
    errors.NonceTooLow: "nonce too low",
    errors.NonceTooHigh: "nonce too high",
    errors.InsufficientFunds: "insufficient funds for gas * price + value",
    errors.GasTooLow: "intrinsic gas too low",
    errors.GasTooHigh: "exceeds block gas limit",
    errors.GasPriceTooLow: "transaction underpriced",
    errors.ReplacementUnderpriced: "replacement transaction underpriced",
    errors.SenderLimit: "account limit exceeded",
    errors.MempoolFull: "txpool is full",
    errors.InvalidSignature: "invalid sender",
    errors.NotReplayProtected: "only replay-protected (EIP-155) transactions allowed over RPC",
}
"""How geth begins the text of each refusal; our own reason follows."""


def rpc_error_of(error: NodeError) -> RpcError:
    """The refusal in geth's words; `data` has the error code of REST."""
    data = {"code": error.code}
    wording = WORDING.get(type(error))
    if wording is not None:
        return RpcError(SERVER_ERROR, f"{wording}: {error.detail}", data)
    if isinstance(error, errors.InvalidField | errors.InvalidHash):
        return RpcError(INVALID_PARAMS, f"invalid argument: {error.detail}", data)
    if isinstance(error, errors.BlockNotFound):
        return RpcError(SERVER_ERROR, f"historical state is not available: {error.detail}", data)
    if isinstance(error, Unavailable):
        return RpcError(RESOURCE_UNAVAILABLE, f"resource unavailable: {error.detail}", data)
    if isinstance(error, errors.Rejected):
        return RpcError(SERVER_ERROR, error.detail, data)
    # The reason belongs in the log, not in the answer.
    return RpcError(INTERNAL_ERROR, "internal error: see the node's log")
