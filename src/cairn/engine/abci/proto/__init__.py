"""The messages of ABCI 2.0 as generated code: only `wire` reads them."""
