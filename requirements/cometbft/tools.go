//go:build tools

// Package tools names the command that is built here, so that `go mod tidy` keeps what it needs in go.sum.
package tools

import _ "github.com/cometbft/cometbft/cmd/cometbft"
