package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cometbft/cometbft/abci/types"
	"github.com/cometbft/cometbft/config"
)

const patience = 20 * time.Second

// application is the other end of the socket: it does what a test tells it to, request by request.
type application struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func connect(t *testing.T) (*client, *application) {
	t.Helper()
	// Not t.TempDir: its path may be too long for a unix socket.
	directory, err := os.MkdirTemp("", "abci")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	path := filepath.Join(directory, "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(unixScheme + path)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	t.Cleanup(func() {
		_ = c.Stop()
		_ = conn.Close()
	})
	_ = conn.SetDeadline(time.Now().Add(patience))
	return c, &application{t, conn, bufio.NewReader(conn)}
}

func (a *application) read() *types.Request {
	a.t.Helper()
	request := &types.Request{}
	if err := types.ReadMessage(a.in, request); err != nil {
		a.t.Fatal(err)
	}
	return request
}

func (a *application) write(responses ...*types.Response) {
	a.t.Helper()
	for _, response := range responses {
		if err := types.WriteMessage(response, a.conn); err != nil {
			a.t.Fatal(err)
		}
	}
}

func checkTx(t *testing.T, c *client, tx string, answered func(*types.ResponseCheckTx)) {
	t.Helper()
	called, err := c.CheckTxAsync(context.Background(), &types.RequestCheckTx{Tx: []byte(tx)})
	if err != nil {
		t.Fatal(err)
	}
	called.SetCallback(func(response *types.Response) { answered(response.GetCheckTx()) })
}

func checked(log string) *types.Response {
	return types.ToResponseCheckTx(&types.ResponseCheckTx{Log: log})
}

// ended returns what is sent to it, or fails the test when nothing is.
func ended[T any](t *testing.T, results <-chan T) (result T) {
	t.Helper()
	select {
	case result = <-results:
	case <-time.After(patience):
		t.Fatal("it never ended")
	}
	return
}

func TestARequestIsSentAtOnceAndAlone(t *testing.T) {
	c, app := connect(t)
	checkTx(t, c, "first", func(*types.ResponseCheckTx) {})
	if tx := app.read().GetCheckTx().Tx; string(tx) != "first" {
		t.Fatalf("got %q", tx)
	}
	info := make(chan *types.ResponseInfo, 1)
	go func() {
		response, err := c.Info(context.Background(), &types.RequestInfo{Version: "v"})
		if err != nil {
			t.Error(err)
		}
		info <- response
	}()
	// The next one on the connection, without a request to flush between them.
	if version := app.read().GetInfo().Version; version != "v" {
		t.Fatalf("got %q", version)
	}
	app.write(checked(""), types.ToResponseInfo(&types.ResponseInfo{LastBlockHeight: 7}))
	if height := ended(t, info).LastBlockHeight; height != 7 {
		t.Fatalf("got %d", height)
	}
}

func TestAnswersReachTheirRequestsInOrderAndAFlushIsTheLast(t *testing.T) {
	const count = 3 * queueLength
	c, app := connect(t)
	var heard []string // Without a lock: all of it is read after the flush, and the race detector would tell.
	listened := 0
	c.SetResponseCallback(func(*types.Request, *types.Response) { listened++ })
	go func() {
		for range count {
			tx := app.read().GetCheckTx().Tx
			app.write(checked(string(tx)))
		}
	}()
	flushed := make(chan error, 1)
	go func() {
		for i := range count {
			name := fmt.Sprint(i)
			checkTx(t, c, name, func(response *types.ResponseCheckTx) { heard = append(heard, name+"="+response.Log) })
		}
		flushed <- c.Flush(context.Background())
	}()
	if err := ended(t, flushed); err != nil {
		t.Fatal(err)
	}
	if listened != count || len(heard) != count {
		t.Fatalf("%d and %d callbacks, not %d", listened, len(heard), count)
	}
	for i, each := range heard {
		if each != fmt.Sprintf("%d=%d", i, i) {
			t.Fatalf("%s at place %d", each, i)
		}
	}
}

func TestAFlushOfNothingReturns(t *testing.T) {
	c, _ := connect(t)
	if err := c.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestAFlushWaitsForTheAnswer(t *testing.T) {
	c, app := connect(t)
	checkTx(t, c, "slow", func(*types.ResponseCheckTx) {})
	app.read()
	limited, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := c.Flush(limited); err != context.DeadlineExceeded {
		t.Fatalf("got %v", err)
	}
}

// Each of these ends the client, the call that waits, and every call after it.
var endings = map[string]func(*client, *application){
	"an exception": func(_ *client, app *application) { app.write(types.ToResponseException("a defect")) },
	"an answer of another kind": func(_ *client, app *application) {
		app.write(types.ToResponseEcho("not asked for"))
	},
	"what is no message":        func(_ *client, app *application) { _, _ = app.conn.Write([]byte{2, 255, 255}) },
	"the application's end":     func(_ *client, app *application) { _ = app.conn.Close() },
	"the end of the node":       func(c *client, _ *application) { _ = c.Stop() },
	"an answer too many":        func(_ *client, app *application) { app.write(committed(), types.ToResponseFlush()) },
	"a message without content": func(_ *client, app *application) { _, _ = app.conn.Write([]byte{0}) },
}

func committed() *types.Response { return types.ToResponseCommit(&types.ResponseCommit{}) }

func TestEveryEndReachesWhoWaits(t *testing.T) {
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			c, app := connect(t)
			waited := make(chan error, 1)
			go func() {
				_, err := c.Commit(context.Background(), &types.RequestCommit{})
				waited <- err
			}()
			app.read()
			end(c, app)
			if err := ended(t, waited); err == nil && name != "an answer too many" {
				t.Fatal("the call succeeded")
			}
			ended(t, c.Quit())
			if err := c.Error(); (err == nil) != (name == "the end of the node") {
				t.Fatalf("CometBFT is told %v", err)
			}
			if _, err := c.Info(context.Background(), &types.RequestInfo{}); err == nil {
				t.Fatal("a later call succeeded")
			}
			if _, err := c.CheckTxAsync(context.Background(), &types.RequestCheckTx{}); err != nil {
				t.Fatalf("the mempool would panic: %v", err)
			}
			if err := c.Flush(context.Background()); err == nil && name != "an answer too many" {
				t.Fatal("a flush of what was not answered succeeded")
			}
		})
	}
}

func TestALargeMessagePassesInBothDirections(t *testing.T) {
	c, app := connect(t)
	large := make([]byte, 8*bufferBytes+1)
	answered := make(chan *types.ResponseEcho, 1)
	go func() {
		response, err := c.Echo(context.Background(), string(large))
		if err != nil {
			t.Error(err)
		}
		answered <- response
	}()
	app.write(types.ToResponseEcho(app.read().GetEcho().Message))
	if response := ended(t, answered); len(response.Message) != len(large) {
		t.Fatalf("got %d bytes", len(response.Message))
	}
}

func TestOnlyASocketOfTheSystemIsOurs(t *testing.T) {
	for _, other := range []struct{ abci, app string }{
		{"socket", "tcp://127.0.0.1:26658"}, {"grpc", "unix:///run/app.sock"}, {"socket", "noop"},
	} {
		settings := config.DefaultConfig()
		settings.ABCI, settings.ProxyApp = other.abci, other.app
		made, err := clientsOf(settings).NewABCIClient()
		if _, ours := made.(*client); ours || err != nil {
			t.Errorf("%v: %T, %v", other, made, err)
		}
	}
	settings := config.DefaultConfig()
	settings.ABCI, settings.ProxyApp = "socket", "unix:///run/app.sock"
	made, err := clientsOf(settings).NewABCIClient()
	if _, ours := made.(*client); !ours || err != nil {
		t.Errorf("%T, %v", made, err)
	}
}
