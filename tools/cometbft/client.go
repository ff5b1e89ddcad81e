package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	abcicli "github.com/cometbft/cometbft/abci/client"
	"github.com/cometbft/cometbft/abci/types"
	"github.com/cometbft/cometbft/libs/service"
)

const (
	unixScheme = "unix://"
	// As many calls may wait to be written; then callers wait, and so do the peers whose transactions they check.
	queueLength = 256
	bufferBytes = 64 * 1024
	dialPause   = 3 * time.Second
)

var errStopped = errors.New("the ABCI client has stopped")

func isUnixSocket(address string) bool { return strings.HasPrefix(address, unixScheme) }

type clientCreator struct{ address string }

func (creator clientCreator) NewABCIClient() (abcicli.Client, error) {
	return newClient(creator.address), nil
}

// client is one connection to an application that answers each request without being asked to flush its answers.
//
// It writes to the socket as soon as nothing more waits to be written. CometBFT's own client waits for a timer, which
// takes half of CometBFT's processor time while payments trickle in, and asks for a flush after every request.
type client struct {
	service.BaseService
	path string
	conn net.Conn
	// In this order requests are written, and answers are expected.
	queue chan *call

	ordering sync.Mutex
	last     *call // that was queued

	mutex      sync.Mutex
	err        error
	unanswered []*call
	callback   abcicli.Callback
}

var _ abcicli.Client = (*client)(nil)

type call struct {
	*abcicli.ReqRes
	fits func(*types.Response) bool
	// Closed when the response is there and all callbacks have returned.
	done chan struct{}
}

func newClient(address string) *client {
	c := &client{path: strings.TrimPrefix(address, unixScheme), queue: make(chan *call, queueLength)}
	c.BaseService = *service.NewBaseService(nil, "abciClient", c)
	return c
}

func (c *client) OnStart() error {
	for {
		conn, err := net.Dial("unix", c.path)
		if err == nil {
			c.conn = conn
			go c.write()
			go c.read()
			return nil
		}
		c.Logger.Error("cannot connect to the application yet", "err", err)
		time.Sleep(dialPause)
	}
}

func (c *client) OnStop() {
	if c.conn != nil {
		_ = c.conn.Close()
	}
}

// Error is why the client stopped by itself; CometBFT then ends the node.
func (c *client) Error() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.err
}

func (c *client) SetResponseCallback(callback abcicli.Callback) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.callback = callback
}

func (c *client) write() {
	out := bufio.NewWriterSize(c.conn, bufferBytes)
	for {
		select {
		case next := <-c.queue:
			// First, because the answer may come before the write returns.
			c.mutex.Lock()
			c.unanswered = append(c.unanswered, next)
			c.mutex.Unlock()
			err := types.WriteMessage(next.Request, out)
			if err == nil && len(c.queue) == 0 {
				err = out.Flush()
			}
			if err != nil {
				c.fail(fmt.Errorf("write to the application: %w", err))
				return
			}
		case <-c.Quit():
			return
		}
	}
}

func (c *client) read() {
	in := bufio.NewReaderSize(c.conn, bufferBytes)
	for {
		response := &types.Response{}
		err := types.ReadMessage(in, response)
		if err == nil {
			err = c.answer(response)
		}
		if err != nil {
			c.fail(fmt.Errorf("read from the application: %w", err))
			return
		}
	}
}

func (c *client) answer(response *types.Response) error {
	if exception := response.GetException(); exception != nil {
		return errors.New(exception.Error)
	}
	c.mutex.Lock()
	if len(c.unanswered) == 0 {
		c.mutex.Unlock()
		return fmt.Errorf("%T answers no request", response.Value)
	}
	answered := c.unanswered[0]
	c.unanswered[0] = nil
	c.unanswered = c.unanswered[1:]
	callback := c.callback
	c.mutex.Unlock()
	if !answered.fits(response) {
		return fmt.Errorf("%T answers %T", response.Value, answered.Request.Value)
	}
	answered.Response = response
	if callback != nil {
		callback(answered.Request, response)
	}
	answered.InvokeCallback()
	answered.Done()
	close(answered.done)
	return nil
}

func (c *client) fail(err error) {
	if !c.IsRunning() {
		return
	}
	c.mutex.Lock()
	if c.err == nil {
		c.err = err
	}
	c.mutex.Unlock()
	c.Logger.Error("lost the application", "err", err)
	_ = c.Stop() // It may have been stopped meanwhile.
}

// enqueue returns nil when the client stops, or `ctx` ends, before there is room in the queue.
func (c *client) enqueue(ctx context.Context, request *types.Request, fits func(*types.Response) bool) (*call, error) {
	queued := &call{ReqRes: abcicli.NewReqRes(request), fits: fits, done: make(chan struct{})}
	c.ordering.Lock()
	defer c.ordering.Unlock()
	select {
	case c.queue <- queued:
		c.last = queued
		return queued, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.Quit():
		return nil, c.whyStopped()
	}
}

// wait never outlasts the client: a request that was queued as it stopped is not answered.
func (c *client) wait(ctx context.Context, queued *call) error {
	select {
	case <-queued.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.Quit():
		return c.whyStopped()
	}
}

func (c *client) whyStopped() error {
	if err := c.Error(); err != nil {
		return err
	}
	return errStopped
}

// ask queues a request and waits for its answer, which `get` takes out of the response.
func ask[T any](
	ctx context.Context, c *client, request *types.Request, get func(*types.Response) *T,
) (*T, error) {
	queued, err := c.enqueue(ctx, request, func(response *types.Response) bool { return get(response) != nil })
	if err == nil {
		err = c.wait(ctx, queued)
	}
	if err != nil {
		return nil, err
	}
	return get(queued.Response), nil
}

// Flush waits until everything that was queued before it has its answer.
func (c *client) Flush(ctx context.Context) error {
	c.ordering.Lock()
	last := c.last
	c.ordering.Unlock()
	if last == nil {
		return nil
	}
	return c.wait(ctx, last)
}

func (c *client) CheckTxAsync(ctx context.Context, request *types.RequestCheckTx) (*abcicli.ReqRes, error) {
	fits := func(response *types.Response) bool { return response.GetCheckTx() != nil }
	queued, err := c.enqueue(ctx, types.ToRequestCheckTx(request), fits)
	if err != nil {
		if !c.IsRunning() {
			// The mempool panics on an error. The node ends anyway.
			return abcicli.NewReqRes(types.ToRequestCheckTx(request)), nil
		}
		return nil, err
	}
	return queued.ReqRes, nil
}
