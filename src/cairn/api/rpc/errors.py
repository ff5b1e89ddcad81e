"""Errors of JSON-RPC, with geth's codes and wording: wallets and libraries search the text for it."""

from cairn.domain.errors import ApiError, Internal, InvalidField, NodeError, Unavailable

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = InvalidField.rpc_code
INTERNAL_ERROR = Internal.rpc_code
SERVER_ERROR = ApiError.rpc_code
"""geth's code for refusals by a method."""
RESOURCE_UNAVAILABLE = Unavailable.rpc_code
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


def rpc_error_of(error: NodeError) -> RpcError:
    """The refusal in geth's words; `data` has the error code of REST."""
    if not isinstance(error, ApiError) or isinstance(error, Internal):
        # The reason belongs in the log, not in the answer.
        return RpcError(INTERNAL_ERROR, "internal error: see the node's log")
    message = f"{error.rpc_text}: {error.detail}" if error.rpc_text else error.detail
    return RpcError(error.rpc_code, message, {"code": error.code})
