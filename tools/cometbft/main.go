// Command cometbft is CometBFT's own command, with another client to the application: see client.go.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/cometbft/cometbft/cmd/cometbft/commands"
	"github.com/cometbft/cometbft/cmd/cometbft/commands/debug"
	"github.com/cometbft/cometbft/config"
	"github.com/cometbft/cometbft/libs/cli"
	"github.com/cometbft/cometbft/libs/log"
	"github.com/cometbft/cometbft/node"
	"github.com/cometbft/cometbft/p2p"
	"github.com/cometbft/cometbft/privval"
	"github.com/cometbft/cometbft/proxy"
)

func main() {
	root := commands.RootCmd
	root.AddCommand(
		commands.CompactGoLevelDBCmd,
		commands.GenNodeKeyCmd,
		commands.GenValidatorCmd,
		commands.InitFilesCmd,
		commands.InspectCmd,
		commands.LightCmd,
		commands.NewRunNodeCmd(newNode),
		commands.ReIndexEventCmd,
		commands.ReplayCmd,
		commands.ReplayConsoleCmd,
		commands.ResetAllCmd,
		commands.ResetPrivValidatorCmd,
		commands.ResetStateCmd,
		commands.RollbackStateCmd,
		commands.ShowNodeIDCmd,
		commands.ShowValidatorCmd,
		commands.TestnetFilesCmd,
		commands.VersionCmd,
		debug.DebugCmd,
		cli.NewCompletionCmd(root, true),
	)
	home := os.ExpandEnv(filepath.Join("$HOME", config.DefaultTendermintDir))
	if err := cli.PrepareBaseCmd(root, "CMT", home).Execute(); err != nil {
		panic(err)
	}
}

// newNode is node.DefaultNewNode with our client, where that fits.
func newNode(settings *config.Config, logger log.Logger) (*node.Node, error) {
	key, err := p2p.LoadOrGenNodeKey(settings.NodeKeyFile())
	if err != nil {
		return nil, fmt.Errorf("no node key: %w", err)
	}
	return node.NewNode(
		settings,
		privval.LoadOrGenFilePV(settings.PrivValidatorKeyFile(), settings.PrivValidatorStateFile()),
		key,
		clientsOf(settings),
		node.DefaultGenesisDocProviderFunc(settings),
		config.DefaultDBProvider,
		node.DefaultMetricsProvider(settings.Instrumentation),
		logger,
	)
}

// clientsOf gives a node our client to an application behind a unix socket, and CometBFT's own to any other.
func clientsOf(settings *config.Config) proxy.ClientCreator {
	if settings.ABCI == "socket" && isUnixSocket(settings.ProxyApp) {
		return clientCreator{settings.ProxyApp}
	}
	return proxy.DefaultClientCreator(settings.ProxyApp, settings.ABCI, settings.DBDir())
}
