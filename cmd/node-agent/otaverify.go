package main

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/topsops/gcu-operator/pkg/ota/proof"
)

// verifier opens connections to an agent that is called without TLS, and checks that the agent
// answers before anything secret is sent: any process of the node may listen on its port.
type verifier struct{ base, token string }

// unverifiedAgent means that the process that answers does not prove that it has the token.
type unverifiedAgent struct{ base, cause string }

func (i *unverifiedAgent) Error() string {
	return fmt.Sprintf("%s is not the node agent (%s), the token was not sent: call the socket instead, and see who listens there with ss -ltnp. An agent with --ota-auth=none is called without --token-file", i.base, i.cause)
}

// verifyTimeout bounds the check of a connection.
const verifyTimeout = 10 * time.Second

// dial returns a connection on which the agent has answered a challenge.
func (v *verifier) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if err := v.check(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// check requires the process at the other end of a connection to prove that it has the token.
func (v *verifier) check(ctx context.Context, conn net.Conn) error {
	challenge := rand.Text()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, v.base+"/healthz", nil)
	if err != nil {
		return err
	}
	request.Header.Set(proof.ChallengeHeader, challenge)
	if err := conn.SetDeadline(time.Now().Add(verifyTimeout)); err != nil {
		return err
	}
	if err := request.Write(conn); err != nil {
		return err
	}
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, request)
	if err != nil {
		return &unverifiedAgent{v.base, err.Error()}
	}
	_ = response.Body.Close() // reads the rest of it
	want := proof.Of(v.token, challenge, conn.RemoteAddr().String())
	if !hmac.Equal([]byte(response.Header.Get(proof.Header)), []byte(want)) {
		return &unverifiedAgent{v.base, "it answers " + response.Status + " and does not have the token of --token-file"}
	}
	if reader.Buffered() > 0 || response.Close {
		return &unverifiedAgent{v.base, "it does not follow the protocol"}
	}
	return conn.SetDeadline(time.Time{})
}
