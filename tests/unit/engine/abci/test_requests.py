from cairn.domain.errors import InsufficientFunds
from cairn.engine.abci.requests import TxResult, refusal_result


def test_a_refused_transaction_gives_the_number_and_the_reason_of_its_error() -> None:
    assert refusal_result(InsufficientFunds("too little")) == TxResult(9, log="too little", codespace="cairn")
