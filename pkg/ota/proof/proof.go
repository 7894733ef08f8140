// Package proof lets a client of the node's endpoint verify the server before it sends the token: another process
// may have taken the agent's port. It sends a challenge with GET /healthz, and the agent answers with a proof that
// it has the token too. Both sides use it, the client on every system.
package proof

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

const (
	// ChallengeHeader is the header of a challenge, at most MaxChallenge characters of the
	// client's choice that it never used before.
	ChallengeHeader = "Gcu-Challenge"
	// Header is the header of the answer.
	Header = "Gcu-Proof"

	// MaxChallenge is the length of the longest challenge that is answered.
	MaxChallenge = 128
)

// Of returns what shows, to those who have the token, that it is known to the process that
// listens on an address, ip:port as the connection has it. The address is part of it, so that
// a process on another address cannot pass the challenge on to the agent.
func Of(token, challenge, address string) string {
	mac := hmac.New(sha256.New, []byte(token))
	_, _ = mac.Write([]byte("gcu-node-agent\n" + address + "\n" + challenge)) // never fails
	return hex.EncodeToString(mac.Sum(nil))
}

// Prover returns the function that proves the knowledge of a token.
func Prover(token string) func(challenge, address string) string {
	return func(challenge, address string) string { return Of(token, challenge, address) }
}
