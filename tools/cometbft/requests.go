package main

import (
	"context"

	"github.com/cometbft/cometbft/abci/types"
)

// The requests of types.Application, each queued and waited for.

func (c *client) Echo(ctx context.Context, message string) (*types.ResponseEcho, error) {
	return ask(ctx, c, types.ToRequestEcho(message), (*types.Response).GetEcho)
}

func (c *client) Info(ctx context.Context, request *types.RequestInfo) (*types.ResponseInfo, error) {
	return ask(ctx, c, types.ToRequestInfo(request), (*types.Response).GetInfo)
}

func (c *client) Query(ctx context.Context, request *types.RequestQuery) (*types.ResponseQuery, error) {
	return ask(ctx, c, types.ToRequestQuery(request), (*types.Response).GetQuery)
}

func (c *client) CheckTx(ctx context.Context, request *types.RequestCheckTx) (*types.ResponseCheckTx, error) {
	return ask(ctx, c, types.ToRequestCheckTx(request), (*types.Response).GetCheckTx)
}

func (c *client) InitChain(ctx context.Context, request *types.RequestInitChain) (*types.ResponseInitChain, error) {
	return ask(ctx, c, types.ToRequestInitChain(request), (*types.Response).GetInitChain)
}

func (c *client) PrepareProposal(ctx context.Context, request *types.RequestPrepareProposal) (*types.ResponsePrepareProposal, error) {
	return ask(ctx, c, types.ToRequestPrepareProposal(request), (*types.Response).GetPrepareProposal)
}

func (c *client) ProcessProposal(ctx context.Context, request *types.RequestProcessProposal) (*types.ResponseProcessProposal, error) {
	return ask(ctx, c, types.ToRequestProcessProposal(request), (*types.Response).GetProcessProposal)
}

func (c *client) FinalizeBlock(ctx context.Context, request *types.RequestFinalizeBlock) (*types.ResponseFinalizeBlock, error) {
	return ask(ctx, c, types.ToRequestFinalizeBlock(request), (*types.Response).GetFinalizeBlock)
}

func (c *client) ExtendVote(ctx context.Context, request *types.RequestExtendVote) (*types.ResponseExtendVote, error) {
	return ask(ctx, c, types.ToRequestExtendVote(request), (*types.Response).GetExtendVote)
}

func (c *client) VerifyVoteExtension(ctx context.Context, request *types.RequestVerifyVoteExtension) (*types.ResponseVerifyVoteExtension, error) {
	return ask(ctx, c, types.ToRequestVerifyVoteExtension(request), (*types.Response).GetVerifyVoteExtension)
}

func (c *client) Commit(ctx context.Context, _ *types.RequestCommit) (*types.ResponseCommit, error) {
	return ask(ctx, c, types.ToRequestCommit(), (*types.Response).GetCommit)
}

func (c *client) ListSnapshots(ctx context.Context, request *types.RequestListSnapshots) (*types.ResponseListSnapshots, error) {
	return ask(ctx, c, types.ToRequestListSnapshots(request), (*types.Response).GetListSnapshots)
}

func (c *client) OfferSnapshot(ctx context.Context, request *types.RequestOfferSnapshot) (*types.ResponseOfferSnapshot, error) {
	return ask(ctx, c, types.ToRequestOfferSnapshot(request), (*types.Response).GetOfferSnapshot)
}

func (c *client) LoadSnapshotChunk(ctx context.Context, request *types.RequestLoadSnapshotChunk) (*types.ResponseLoadSnapshotChunk, error) {
	return ask(ctx, c, types.ToRequestLoadSnapshotChunk(request), (*types.Response).GetLoadSnapshotChunk)
}

func (c *client) ApplySnapshotChunk(ctx context.Context, request *types.RequestApplySnapshotChunk) (*types.ResponseApplySnapshotChunk, error) {
	return ask(ctx, c, types.ToRequestApplySnapshotChunk(request), (*types.Response).GetApplySnapshotChunk)
}
