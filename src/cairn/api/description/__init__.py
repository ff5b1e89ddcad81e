"""The interface described: OpenAPI, AsyncAPI, and the pages that show them."""
